"""The answer of a command: its first sentence in `--json`, and one exit code for what is wrong with a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from toposcope.cli.main import toposcope


def _log(path: Path, rise: float = 0.0, seed: int = 0) -> Path:
    step = np.arange(1, 401)
    loss = 2 + 5 * step**-0.5 + 0.02 * np.random.default_rng(seed).normal(size=400)
    loss[350:] += rise * np.arange(50)
    rows = "\n".join(f"{n},{value:.5f}" for n, value in zip(step, loss, strict=True))
    path.write_text(f"step,loss\n{rows}\n")
    return path


def _run(words: list[str]) -> Result:
    return CliRunner().invoke(toposcope, words, standalone_mode=False)


@pytest.mark.parametrize(
    "command",
    [["check", "a.csv"], ["analyze", "a.csv"], ["report", "a.csv", "--out", "page"],
     ["compare", "a.csv", "b.csv"], ["forecast", "a.csv", "b.csv", "c.csv", "d.csv", "--finished"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_the_answer_in_json_is_the_first_sentence_that_is_printed(command, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("abcd"):
        _log(tmp_path / f"{name}.csv", seed=seed)
    printed = " ".join(_run(command).stdout.split())
    answer = json.loads(_run([*command, "--json"]).stdout)["answer"]
    assert answer
    assert printed.startswith(answer)


@pytest.mark.parametrize(("rise", "code"), [(0.0, 0), (0.1, 1)])
def test_check_analyze_and_report_have_one_exit_code(rise: float, code: int, tmp_path: Path) -> None:
    log = str(_log(tmp_path / "a.csv", rise=rise))
    page = ["--out", str(tmp_path / "page")]
    codes = [_run(words).return_value for words in (["check", log], ["analyze", log], ["report", log, *page])]
    assert codes == [code] * 3
