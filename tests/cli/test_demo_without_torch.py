"""The demo on a machine without torch: it says so, with the remedy, before it does anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toposcope.cli.main import main


def test_a_missing_torch_is_the_first_and_only_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--out", str(tmp_path / "demo")])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, len(err.splitlines())) == (2, "", 1)
    assert "torch is not installed; install it with: " in err
    assert not (tmp_path / "demo").exists()
