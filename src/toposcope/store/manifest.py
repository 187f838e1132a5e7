"""The file that makes a folder a store: its recipe, and where the numbers were made."""

from __future__ import annotations

import functools
import json
import os
import platform
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import toposcope
from toposcope.store import MANIFEST, inside
from toposcope.store.schema import SCHEMA_VERSION

_MOST = 1 << 24
"""The most bytes of a manifest; one with a long recipe has some thousand."""


@functools.cache
def provenance() -> dict[str, object]:
    """Where the numbers were made. `seed` says from what a draw's generator is derived."""
    return {
        "schema_version": SCHEMA_VERSION,
        "toposcope": toposcope.__version__,
        "numpy": np.__version__,
        "numba": _version("numba"),
        "python": platform.python_version(),
        "machine": f"{platform.node()} {platform.machine()} {os.cpu_count()} cores",
        "seed": "SHA-256 of the named axes run, step, name, draw",
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_manifest(path: Path, recipe: Mapping[str, object]) -> None:
    """Write the manifest unless another process was quicker."""
    path.mkdir(parents=True, exist_ok=True)
    aside = path / f".{uuid.uuid4().hex}.tmp"
    try:
        aside.write_text(json.dumps({**provenance(), "recipe": dict(recipe)}, indent=2) + "\n")
        os.link(aside, path / MANIFEST)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        if not (path / MANIFEST).exists():
            os.replace(aside, path / MANIFEST)
    finally:
        aside.unlink(missing_ok=True)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the content of a store's manifest."""
    return dict(json.loads(inside.whole(path / MANIFEST, most=_MOST)))


WEIGHTS = "weights"
"""The kind of a store whose recipe names no probe."""

STORED: Mapping[str, Mapping[str, str]] = {"landscape": {"range": "reach", "draws": "seeds"}}
"""Kind -> setting -> its name in a recipe; it stays, so that stores of earlier versions are continued."""


def kind_of_store(recipe: Mapping[str, object]) -> str:
    """Return the kind of measurements in a store: the probe that its recipe names, or else weights."""
    return str(recipe.get("probe", WEIGHTS))


def difference(have: Mapping[str, object], want: Mapping[str, object]) -> str:
    """Describe where two recipes of one kind differ, by the present names of the settings."""
    present = {stored: name for name, stored in STORED.get(kind_of_store(want), {}).items()}
    keys = sorted({*have, *want}, key=lambda key: present.get(key, key))
    return ", ".join(
        f"{present.get(key, key)} {have.get(key)!r} there, {want.get(key)!r} here"
        for key in keys
        if have.get(key) != want.get(key)
    )
