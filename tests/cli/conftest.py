"""What every test of the command line has."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave lines as long as they are, as in a file."""
    monkeypatch.delenv("COLUMNS", raising=False)
