"""`import toposcope` costs next to nothing."""

import subprocess
import sys

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
    import pytest

    import toposcope

    with pytest.raises(AttributeError, match="attribute bogus"):
        _ = toposcope.bogus


def test_no_two_classes_share_a_name():
    import ast
    from collections import defaultdict
    from pathlib import Path

    import toposcope

    places = defaultdict(list)
    for path in sorted(Path(toposcope.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.name}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_modules_import_one_another_in_a_circle():
    import grimp

    graph = grimp.build_graph("toposcope", exclude_type_checking_imports=True)
    imported = {m: graph.find_modules_directly_imported_by(m) - {"toposcope"} for m in graph.modules}
    imported.pop("toposcope")
    while free := {module for module, others in imported.items() if not others & set(imported)}:
        imported = {module: others for module, others in imported.items() if module not in free}
    # what is left imports something of what is left: a circle, or what stands above one
    assert not imported, sorted(imported)
