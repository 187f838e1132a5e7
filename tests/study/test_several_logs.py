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
