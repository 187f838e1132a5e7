"""Build a release and check it in clean environments: python release/make.py [--python PYTHON ...].

It builds the wheel and the source archive, installs the wheel into a new environment for each Python (without
a compiler: only wheels are accepted), with and without torch, runs `check`, `audit` and `weights` there, and
writes hashes, a list of the components (CycloneDX), and the section of CHANGELOG.md. Nothing is sent; who
publishes reads release/CHECKLIST.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKS = """
import subprocess, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import save_file
lines = [f"step:{n}/300 train_loss:{2 + 5 * n**-0.5:.4f}\\n" for n in range(1, 301)]
Path("train.log").write_text("".join(lines))
Path("runs").mkdir()
for step in (0, 10, 20):
    weights = np.random.default_rng(0).normal(size=(8, 8)) * (1 + step / 100)
    save_file({"fc.weight": weights.astype(np.float32)}, f"runs/step_{step:06d}.safetensors")
for words in (["check", "train.log"], ["audit", "runs"], ["weights", "runs", "--out", "store"], ["--help"]):
    subprocess.run([sys.executable, "-m", "toposcope", *words], check=True)
"""
"""What a plain installation has to do."""


def run(*words: object, cwd: Path = ROOT) -> str:
    """Run a command, and return what it printed; its error ends the release."""
    return subprocess.run([*map(str, words)], cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def built(out: Path) -> list[Path]:
    """Build the wheel and the source archive into an empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    return sorted(out.iterdir())


def checked(wheel: Path, python: str, *, torch: bool) -> dict[str, object]:
    """Install a wheel into a new environment, run it, and return its size and its components."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run(python, "-m", "venv", folder / "venv")
        inside = folder / "venv" / "bin" / "python"
        pinned = re.search(r"^torch==\S+", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
        assert pinned is not None
        for what in ([pinned[0]] if torch else []) + [str(wheel)]:
            run(
                inside,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--only-binary",
                ":all:",
                "-c",
                "constraints.txt",
                what,
            )
        (folder / "work").mkdir()
        run(inside, "-c", CHECKS, cwd=folder / "work")
        packages = next((folder / "venv" / "lib").glob("python*/site-packages"))
        size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
        listed = json.loads(run(inside, "-m", "pip", "list", "--format", "json"))
        version = run(inside, "-c", "import platform; print(platform.python_version())").strip()
    return {"python": version, "torch": torch, "megabytes": round(size / 1e6), "components": listed}


def hashes(files: Sequence[Path]) -> str:
    """Return the SHA-256 of each file, in the form that `sha256sum -c` reads."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def components(name: str, version: str, listed: Sequence[dict[str, str]]) -> dict[str, object]:
    """Return the components of an installation as a CycloneDX document."""
    rows = [
        {
            "type": "library", "name": one["name"], "version": one["version"],
            "purl": f"pkg:pypi/{one['name'].lower()}@{one['version']}",
        }
        for one in listed
        if one["name"] not in (name, "pip", "setuptools")
    ]  # fmt: skip
    about = {"component": {"type": "application", "name": name, "version": version}}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": about,
        "components": rows,
    }


def notes(changelog: str, version: str) -> str:
    """Return the section of a version from the text of the changes.

    Raises
    ------
    ValueError
        When there is no such section.
    """
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section {version}; write one")
    return found[1].strip() + "\n"


def main() -> None:
    """Build, check and describe a release in dist/."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", action="append", help="oldest and newest Python to check; can be repeated"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    section = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), project["version"])
    files = built(given.out)
    wheel = next(file for file in files if file.suffix == ".whl")
    found = [checked(wheel, python, torch=torch) for python in given.python or [sys.executable]
             for torch in (False, True)]  # fmt: skip
    for one in found:
        torch = "with torch" if one["torch"] else "without torch"
        print(f"Python {one['python']} {torch}: {one['megabytes']} MB; check, audit and weights ran")
    plain = components(project["name"], project["version"], found[0]["components"])  # type: ignore[arg-type]
    (given.out / "components.cdx.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    (given.out / "NOTES.md").write_text(section, encoding="utf-8")
    (given.out / "SHA256SUMS").write_text(hashes(files), encoding="utf-8")
    print(f"{given.out}: {', '.join(file.name for file in sorted(given.out.iterdir()))}")
    print("next: release/CHECKLIST.md")


if __name__ == "__main__":
    main()
