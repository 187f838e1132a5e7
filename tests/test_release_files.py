"""The files of a release say the same as the package."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import toposcope
from tests.syntax import parsed

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"matplotlib-base": "matplotlib", "lazy-loader": "lazy_loader", "ml_dtypes": "ml-dtypes"}
"""Names that conda-forge has for packages of other names."""


DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml", "mlflow": "mlflow-skinny"}
"""Names under which some packages are imported."""
BROUGHT = {"markupsafe": "jinja2", "httpx": "huggingface_hub"}
"""Modules that another package brings along."""
OF_THE_READER = {"akriti", "lightning"}
"""Packages whose objects are taken from someone who has them."""


def test_whatever_is_imported_is_declared() -> None:
    """A config.yaml beside a log once ended in a traceback where PyYAML was not installed."""
    extras = [
        line
        for name, lines in PROJECT["optional-dependencies"].items()
        if name not in ("dev", "docs")
        for line in lines
    ]
    declared = {re.split(r"[\[>]", line)[0].replace("-", "_") for line in [*PROJECT["dependencies"], *extras]}
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.split(".")[0])
    foreign = imported - sys.stdlib_module_names - OF_THE_READER - {"toposcope"}
    named = {BROUGHT.get(name) or DISTRIBUTIONS.get(name, name) for name in foreign}
    assert sorted({name.replace("-", "_") for name in named} - declared) == []


def test_every_file_states_the_version_and_the_license() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    zenodo = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    versions = {PROJECT["version"], citation["version"], zenodo["version"], recipe["context"]["version"]}
    assert versions == {toposcope.__version__}
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert citation["authors"] == zenodo["creators"] == PROJECT["authors"]
    assert {citation["license"], zenodo["license"], recipe["about"]["license"]} == {PROJECT["license"]}


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    asked = {}
    for line in recipe["requirements"]["run"]:
        name, _, least = line.partition(" ")
        asked[CONDA_NAMES.get(name, name)] = least
    assert asked.pop("python") == PROJECT["requires-python"]
    assert asked.pop("aiohttp") == ""  # what the extra `http` of fsspec brings
    wanted = {re.split(r"[\[>]", line)[0]: ">" + line.split(">", 1)[1] for line in PROJECT["dependencies"]}
    assert asked == wanted


@pytest.mark.parametrize("name", ["llms.txt", "SECURITY.md", "README.md", "CONTRIBUTING.md"])
def test_every_link_of_a_file_leads_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert links
    assert [one for one in links if not one.startswith("https://") and not (ROOT / one).exists()] == []


def test_the_guide_for_language_models_names_every_question() -> None:
    menu = (
        (ROOT / "docs" / "index.md")
        .read_text(encoding="utf-8")
        .split(":caption: Questions")[1]
        .split("```")[0]
    )
    guide = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert [page for page in re.findall(r"<(.+)>", menu) if f"(docs/{page}.md)" not in guide] == []


def test_hooks_run_tools_of_this_project_alone() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in hooks["repos"]] == ["local"]
    for hook in hooks["repos"][0]["hooks"]:
        assert hook["entry"].startswith(".venv/bin/")
        for path in re.findall(r"\S+\.py", hook["entry"]):
            assert (ROOT / path).is_file()


def test_a_source_distribution_has_all_tests_and_pages() -> None:
    """By its list: without one, setuptools takes the tests of the top folder alone."""
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    assert {"graft tests", "graft docs", "graft benchmarks"} <= set(lines)
    made = {
        line.removeprefix("/docs/").rstrip("/")
        for line in (ROOT / ".gitignore").read_text().splitlines()
        if line.startswith("/docs/")
    }
    left_out = {line.split("docs/")[1] for line in lines if line.startswith(("prune docs", "exclude docs"))}
    assert made == left_out
