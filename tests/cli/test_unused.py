"""What a measurement does not use is refused, in Python and on the command line alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from toposcope.api import TextRequest
from toposcope.cli.main import main
from toposcope.core.errors import InputError

SERIES = {0: {"fc.weight": np.eye(3)}}


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            ("weights", "--texts", "nothere.txt", "--features", "baselines"),
            "--texts 'nothere.txt': --features 'baselines' do not use it; it is for gradients, "
            "representations, landscape; leave it out",
        ),
        (("landscape", "--min-chars", "5"), "--min-chars 5: it selects texts, and none are given; give --te"),
        (("landscape", "--split", "test"), "--split 'test': it selects texts, and none are given; give --te"),
        (
            ("embeddings", "--texts", "t.txt", "--sensitivity-texts", "20,40"),
            "--sensitivity-texts '20,40': only the sensitivity compares numbers of texts; give --sensitivity",
        ),
        (("landscape", "--draws", "0"), "--draws 0: it must be at least 1"),
        (("landscape", "--range", "-1"), "--range -1: not a positive finite number"),
        (("embeddings", "--texts", "t.txt", "--components", "0"), "--components 0: it must be at least 1"),
    ],
)
def test_the_command_line_refuses_it(
    typed: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *options = typed
    np.savez(tmp_path / "step_0.npz", **SERIES[0])
    with pytest.raises(SystemExit) as ended:
        main([command, str(tmp_path / "step_0.npz"), "--out", str(tmp_path / "store"), *options])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"toposcope: error: {message}")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"features": "baselines", "texts": "nothere.txt"},
            "texts 'nothere.txt': `features` 'baselines' do not use it",
        ),
        (
            {"features": "landscape", "texts": TextRequest(min_chars=5)},
            "min_chars 5: it selects texts, and none are given",
        ),
        ({"features": []}, "features '[]': nothing is measured; name some"),
        ({"features": "representations", "texts": "t.txt", "limit": 0}, "limit 0: it must be at least 1"),
    ],
)
def test_python_refuses_it(given: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        ts.measure(SERIES, tmp_path / "store", **given)  # type: ignore[arg-type]
    assert str(refused.value).startswith(message)
    assert not (tmp_path / "store").exists()
