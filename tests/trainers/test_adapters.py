"""Adapters that PEFT trains on fused and unfused bases: what is read of them is what PEFT merges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import toposcope as ts
from benchmarks.adapters import FAMILIES, METHODS, STEPS, Family, farthest, train
from tests.trainers.conftest import need, quiet_trainer
from toposcope.sources import open_series
from toposcope.sources.adapter_base import in_base

pytestmark = pytest.mark.slow
QUICK = {("GPT-2", "DoRA"), ("GPT-2", "IA3"), ("Llama", "LoRA")}
CASES = [
    pytest.param(
        family, method, id=f"{family.name}-{method}",
        marks=[pytest.mark.sample] if (family.name, method) in QUICK else [],
    )
    for family in FAMILIES
    for method in METHODS
]  # fmt: skip


@pytest.mark.parametrize(("family", "method"), CASES)
def test_an_adapter_is_read_as_peft_merges_it(family: Family, method: str, tmp_path: Path) -> None:
    need("torch", "transformers", "peft")
    with quiet_trainer():
        merged = train(family, method, 4, tmp_path)
    last = tmp_path / "run" / f"checkpoint-{STEPS[-1]}"
    found = ts.compare(tmp_path / "base", last)
    assert (found.faults, found.unread) == ((), ())
    for place in (tmp_path / "run", last):
        assert ts.audit(place).faults == ()  # of DoRA as well: no step has the weights of the final one
        assert ts.check(place).level == "not judged"
    if merged is None:
        assert len(found.relative) == 0
        return
    assert farthest(found, tmp_path / "base", merged) < 1e-4
    if "LoRA" in method:
        _assert_same_products(tmp_path, last, merged)


def _assert_same_products(folder: Path, last: Path, merged: dict[str, np.ndarray]) -> None:
    base, series = load_file(folder / "base" / "model.safetensors"), open_series(last)
    changes = dict(series.tensors(next(iter(series))))
    assert changes
    for name, change in changes.items():
        stored = in_base(name)
        assert np.abs(base[stored] + change - merged[stored]).max() < 1e-6
