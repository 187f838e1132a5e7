"""Several logs are analysed as one, and each run has the name that tells its file from the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from toposcope.core.errors import InputError


def written(path: Path, seed: int) -> str:
    """Write a log of one run, and return its path."""
    noise = 0.01 * np.random.default_rng(seed).standard_normal(60)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f"step {n} loss {2 + 5 / n**0.5 + noise[n - 1]:.4f}" for n in range(1, 60)))
    return str(path)


def test_files_of_one_name_have_the_names_of_a_check(tmp_path):
    logs = [written(tmp_path / f"seed{seed}" / "logs" / "train.log", seed) for seed in (0, 1)]
    analysis = ts.analyze(logs)
    assert sorted(analysis.studies[0].series.values["run"].unique()) == ["seed0", "seed1"]
    assert sorted(one.name for one in ts.check(logs).runs) == ["seed0", "seed1"]
    (left,) = ts.analyze(logs, without="seed0").studies
    assert left.series.values["run"].unique().tolist() == ["seed1"]


def test_one_file_given_twice_is_refused(tmp_path):
    log = written(tmp_path / "train.log", 0)
    with pytest.raises(InputError, match="rename one of them"):
        ts.analyze([log, log])


def planned(path: Path, seed: int) -> str:
    """Write the log of a run that ends on a plateau at its last step, and return its path."""
    step = np.arange(50, 10001, 50)
    noise = 0.01 * np.random.default_rng(seed).standard_normal(len(step))
    loss = 2 + 6 * (np.minimum(step, 4000) + 200.0) ** -0.35 + noise
    lines = (f"step {at}/10000 | loss {value:.4f}" for at, value in zip(step, loss, strict=True))
    path.write_text("\n".join(lines))
    return str(path)


def test_each_log_keeps_its_plan_so_that_no_face_asks_for_more_than_a_check(tmp_path):
    logs = [planned(tmp_path / f"seed{seed}.log", seed) for seed in range(2)]
    check = ts.check(logs)
    assert {one.ended for one in check.runs} == {True}
    assert check.level == "all right"
    on = ts.analyze(logs).studies[0].findings["on"]
    assert (on.strength, on.numbers["faulty"]) == ("finished", [])


def test_a_log_alone_is_the_run_of_its_file(tmp_path):
    analysis = ts.analyze(planned(tmp_path / "seed3.log", 3))
    assert "seed3 trained without a fault" in analysis.studies[0].findings.first.title
