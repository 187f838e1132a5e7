"""A small file system, mounted where that is allowed."""

from __future__ import annotations

import gc
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return what mounts a small file system with the options it is given."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(line, capture_output=True, check=False).returncode != 0:
            pytest.skip("mounting a small file system is not allowed here")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        unmount(place)


def unmount(place: Path) -> None:
    """Unmount: refused while anything holds a file open there; a process may take a moment to end."""
    gc.collect()  # what an error's traceback held
    for _ in range(50):
        if subprocess.run(["umount", str(place)], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.2)
    subprocess.run(["umount", str(place)], check=True)
