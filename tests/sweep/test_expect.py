"""What a sweep says before it starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from toposcope.sources import open_series
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.baselines import Baselines
from toposcope.sweep.expect import expect
from toposcope.sweep.plan import Shard, by_run

PROBES = weight_probes(["all"], WeightOptions())
BYTES = 4 * (20 * 6 + 18 * 6 + 6 * 6 + 24 * 6 + 6 * 24 + 20 * 6)


def test_sizes_are_those_of_the_matrices(runs: Path) -> None:
    series = open_series(runs)
    found = expect(series, by_run(series), PROBES)
    assert (found.runs, found.checkpoints, found.units) == (2, 20, 120)
    assert found.bytes == 20 * BYTES
    assert found.largest_tensor_bytes == 4 * 24 * 6
    assert found.memory_bytes > 300 * 2**20
    assert found.small
    assert found.together == 16
    assert found.sentence().startswith(
        "20 checkpoints of 2 runs, 0.1 MB of weights, 120 measurements; expecting"
    )
    one = replace(found, runs=1, checkpoints=1, units=1)
    assert one.sentence().startswith("1 checkpoint of 1 run, 0.1 MB of weights, 1 measurement; expecting")


def test_shards_and_processes_share_the_work(runs: Path) -> None:
    series = open_series(runs)
    whole = expect(series, by_run(series), PROBES)
    part = expect(series, by_run(series), PROBES, shard=Shard(1, 4), jobs=2)
    assert part.units == whole.units / 4
    assert abs(part.seconds - whole.seconds / 8) < 1e-9
    assert part.memory_bytes == 2 * whole.memory_bytes


def test_a_long_sweep_of_small_matrices_takes_every_core(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.sweep.expect.cores", lambda: 3)
    series = open_series(runs)
    assert expect(series, by_run(series), PROBES, jobs=None).jobs == 1  # over in a second
    monkeypatch.setattr(Baselines, "expected_seconds", lambda self, shapes: 60.0)
    long = expect(series, by_run(series), PROBES, jobs=None)
    assert long == expect(series, by_run(series), PROBES, jobs=3)
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PHYS_PAGES": 2**18, "SC_PAGE_SIZE": 2**12}[name])
    assert expect(series, by_run(series), PROBES, jobs=None).jobs == 1  # one gigabyte holds no second process


def test_an_unreadable_first_checkpoint_is_left_to_the_sweep(runs: Path) -> None:
    series = open_series(runs)
    for path in (runs / "one" / "checkpoints").iterdir():
        path.write_bytes(b"")
    assert expect(series, by_run(series), PROBES).bytes == 10 * BYTES


def test_memory_and_time_of_a_large_model(tmp_path: Path) -> None:
    # Headers are enough, and a safetensors file may be mostly holes.
    shapes = {"embed_tokens.weight": (32000, 2048), "lm_head.weight": (32000, 2048)}
    for layer in range(22):
        for part, shape in {"q": (2048, 2048), "k": (256, 2048), "v": (256, 2048), "o": (2048, 2048)}.items():
            shapes[f"layers.{layer}.self_attn.{part}_proj.weight"] = shape
        for part, shape in {"gate": (5632, 2048), "up": (5632, 2048), "down": (2048, 5632)}.items():
            shapes[f"layers.{layer}.mlp.{part}_proj.weight"] = shape
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * shape[1]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with (tmp_path / "step_1.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    series = open_series(tmp_path)
    cheap = expect(series, by_run(series), weight_probes(["cheap"], WeightOptions()))
    assert cheap.bytes == at
    assert cheap.seconds < 180
    assert 5e8 < cheap.memory_bytes < 3e9
    assert sum(cheap.each.values()) == pytest.approx(cheap.seconds)
    assert expect(series, by_run(series), weight_probes(["all"], WeightOptions()), jobs=None).jobs == 1
