"""`import toposcope` costs next to nothing, imports go downwards, and what others import is there."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.syntax import parsed

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "toposcope"
OURS = ("toposcope", "benchmarks")
HEAVY = ("torch", "transformers", "ray", "matplotlib", "numba", "pandas", "sklearn", "scipy", "gudhi")


def _imported_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_the_package_alone_is_light():
    assert not _imported_by("import toposcope") & set(HEAVY)


def test_the_command_line_is_light():
    assert not _imported_by("import toposcope.cli.main") & set(HEAVY)


def test_the_list_of_commands_is_light():
    listing = "from toposcope.cli.main import toposcope; toposcope.main(['--help'], standalone_mode=False)"
    assert not _imported_by(listing) & set(HEAVY)


def test_every_public_name_resolves():
    import toposcope

    for name in toposcope.__all__:
        assert getattr(toposcope, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    import toposcope

    with pytest.raises(AttributeError, match="attribute bogus"):
        _ = toposcope.bogus


def test_no_two_classes_share_a_name():
    from collections import defaultdict

    import toposcope

    places = defaultdict(list)
    for path in sorted(Path(toposcope.__file__).parent.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.name}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def _imports(root: str) -> dict[str, set[str]]:
    """Return what each module imports: at its top, inside functions, and for types alone."""
    import grimp

    graph = grimp.build_graph(root, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) - {root} for module in graph.modules}


@pytest.mark.parametrize("root", ["toposcope", "benchmarks"])
def test_no_modules_import_one_another_in_a_circle(root):
    imported = _imports(root)
    imported.pop(root)
    while free := {module for module, others in imported.items() if not others & set(imported)}:
        imported = {module: others for module, others in imported.items() if module not in free}
    # what is left imports something of what is left: a circle, or what stands above one
    assert not imported, sorted(imported)


def test_the_table_of_the_house_has_every_room_in_its_order():
    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )
    rooms = [name for row in rows for name in re.findall(r"\w+", row)]
    assert rooms == [room for layer in _layers() for room in layer.split(" | ")]


def _layers() -> list[str]:
    """Return the rooms as pyproject.toml orders them, from top to bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return project["tool"]["importlinter"]["contracts"][0]["layers"]


def test_imports_run_downwards_only():
    """The floors are those of pyproject.toml; a subject's parts stand on those of `page` and `study`."""
    floor = {room: at for at, layer in enumerate(_layers()) for room in layer.split(" | ")}

    def of(module: str) -> tuple[str, int]:
        parts = module.split(".")
        part = parts[3] if parts[1] == "subjects" and len(parts) > 3 else ""
        room = {"page": "page", "figures": "page", "tables": "study", "findings": "study"}.get(part, parts[1])
        return room, floor[room]

    imported = _imports("toposcope")
    imported.pop("toposcope")
    upwards = [
        f"{module} -> {other}"
        for module, others in imported.items()
        for other in others
        if of(other)[0] != of(module)[0] and of(other)[1] <= of(module)[1]
    ]
    assert not upwards


OPEN = {"studies", "core", "statistics", "scaling", "topology", "study", "published"}
"""Rooms that compute on arrays and tables: a study may import their modules."""
SUBJECTS = {path.parent.name for path in (SRC / "subjects").glob("*/__init__.pyi")}


def test_a_study_imports_rooms_by_their_faces():
    inside = []
    for path in (SRC / "studies").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts = (getattr(node, "module", None) or "").split(".")
            if not isinstance(node, ast.ImportFrom) or parts[0] != "toposcope":
                continue
            face = 3 if parts[1:2] == ["subjects"] and parts[2:3] and parts[2] in SUBJECTS else 2
            if len(parts) > face and parts[1] not in OPEN:
                inside.append(f"{path.name}: {node.module}")
    assert not inside


def _imported_names() -> set[tuple[str, str, str]]:
    """Return (module, name, place) of what benchmarks and pages import from the package and each other."""
    sources = {path: path.read_text("utf-8") for room in ("benchmarks", "docs")
               for path in (ROOT / room).rglob("*.py")}  # fmt: skip
    for page in (ROOT / "docs").rglob("*.md"):
        blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S)
        sources |= {page.with_suffix(f".md.{number}"): block for number, block in enumerate(blocks)}
    found = set()
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = {(node.module, one.name) for one in node.names}
            elif isinstance(node, ast.Import):
                imported = {(one.name, "") for one in node.names}
            else:
                continue
            found |= {(*one, str(path)) for one in imported if one[0].split(".")[0] in OURS}
    return found


def test_what_benchmarks_and_pages_import_is_there():
    imported = _imported_names()
    assert len(imported) > 500
    gone = []
    for module, name, place in sorted(imported):
        try:
            there = importlib.import_module(module)
            if name and not hasattr(there, name):
                importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[
                0
            ] in OURS:  # else an optional dependency that is not installed
                gone.append(f"{place}: {module} {name}")
    assert not gone
