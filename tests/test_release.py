"""The script that makes a release: its hashes, components and notes. `make release` itself installs twice."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest
import yaml

import toposcope

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("release_make", ROOT / "release" / "make.py")
assert SPEC is not None
assert SPEC.loader is not None
MAKE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MAKE)


def test_the_notes_are_the_section_of_the_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "toposcope check" in MAKE.notes(changes, toposcope.__version__)
    assert MAKE.notes("## 2\n\nnew\n\n## 1\n\nold\n", "2") == "new\n"
    with pytest.raises(ValueError, match="has no section 9"):
        MAKE.notes(changes, "9")


def test_the_hashes_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.whl", "b.tar.gz")]
    for file in files:
        file.write_bytes(file.name.encode())
    (tmp_path / "SHA256SUMS").write_text(MAKE.hashes(files))
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)


def test_the_components_leave_out_the_package_and_its_installer() -> None:
    listed = [{"name": name, "version": "1"} for name in ("toposcope", "pip", "NumPy")]
    made = json.loads(json.dumps(MAKE.components("toposcope", "0.1.0", listed)))
    assert [one["purl"] for one in made["components"]] == ["pkg:pypi/numpy@1"]
    assert made["bomFormat"] == "CycloneDX"


def test_the_conda_recipe_is_rendered() -> None:
    """Its one variable is the version; what is left is plain YAML with every key that a build needs."""
    text = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    version = yaml.safe_load(text)["context"]["version"]
    rendered = yaml.safe_load(text.replace("${{ version }}", version))
    assert rendered["package"] == {"name": "toposcope", "version": toposcope.__version__}
    assert "${{" not in json.dumps(rendered)
    assert {"source", "build", "requirements", "tests", "about"} <= set(rendered)
