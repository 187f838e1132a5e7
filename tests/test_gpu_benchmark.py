"""The script for a GPU runs from end to end on a CPU with small sizes, so that it runs the first time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks import gpu


@pytest.mark.slow
def test_every_part_ends_with_numbers(tmp_path: Path) -> None:
    results = gpu.run("cpu", gpu.TINY, 300, tmp_path / "gpu.json")
    assert set(results) == {"machine", "equality", "matrices", "training", "sweep"}
    assert not [name for name, part in results.items() if "failed" in part], results
    checks = {name: row for name, row in results["equality"].items() if name != "took"}
    assert set(checks) == set(gpu.TOLERANCE)
    assert all(row["equal"] for row in checks.values()), checks
    assert results["training"]["Hessian product"] > 0
    assert results["sweep"]["rows"] > 0


def test_a_part_after_the_end_is_left_out_and_an_error_is_named() -> None:
    bench = gpu.Bench("cpu", gpu.TINY, 100)
    bench.part("broken", lambda _: {"x": 1 / 0})
    bench._end = 0.0
    bench.part("late", lambda _: {})
    assert bench.results["late"] == {"left out": "the time was over"}
    assert bench.results["broken"]["failed"].startswith("ZeroDivisionError")
