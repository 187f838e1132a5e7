"""Faults planted in states that transformers, Lightning and PyTorch's distributed checkpoint have written."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import resume_faults as faults


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", faults.FORMATS)
def test_planted_faults_are_named_and_no_sound_checkpoint_is_accused(form: str, tmp_path: Path):
    if form == "lightning":
        pytest.importorskip("lightning")
    runs = [tmp_path / f"{seed}/run" for seed in (0, 1)]
    for seed, run in enumerate(runs):
        run.mkdir(parents=True)
        faults.TRAIN[form](run, seed)
    assert faults.clean_cases(form, runs, tmp_path) == []
    answers = faults.planted_cases(form, runs, tmp_path, 2)
    right = sum(faults.named(kind, one) for kind, found in answers.items() for one in found)
    assert right >= 23  # of 24; the benchmark has 10 of each
