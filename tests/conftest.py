"""Fixtures shared by every room."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.mounting import mount

__all__ = ["mount"]

ROOT = Path(__file__).resolve().parent.parent


def _shared_data() -> Path | None:
    named = os.environ.get("TOPOSCOPE_TEST_DATA")
    for folder in (Path(named) if named else None, ROOT.parent / "shared" / "data"):
        if folder is not None and folder.is_dir():
            return folder
    return None


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later search for garbage: 7,000 tests and what they import."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the priority of the test process: a watch lowers that of its own process, for good.

    The command runs within the test process here, and two watches left all later tests at the lowest
    priority: on a busy machine they hardly ran.
    """
    monkeypatch.setattr(os, "nice", lambda more: 0)


@pytest.fixture(scope="session", autouse=True)
def no_terminal() -> Iterator[None]:
    """Print as into a pipe: whoever runs the tests in a terminal of 80 columns reads wrapped sentences."""

    def size(*_: object) -> NoReturn:
        raise OSError("the tests have no terminal")

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        patch.setattr(os, "get_terminal_size", size)
        yield


@pytest.fixture(scope="session", autouse=True)
def compiling_in_silence() -> None:
    """Say nothing of the first compilation: whichever test meets it would find a line on its stderr."""
    from toposcope.core import compiling

    compiling._lock._said = True


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of external test data; skip where there is none."""
    folder = _shared_data()
    if folder is None:
        pytest.skip("external test data is absent: set TOPOSCOPE_TEST_DATA to its folder")
    return folder
