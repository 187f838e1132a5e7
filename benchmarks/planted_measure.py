"""Measure the trainings of `planted_train` once, as a watch does, and save the rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.planted_kinds import FAULTS, ODDITIES, Fault
from benchmarks.planted_model import SIZES
from benchmarks.planted_plan import Plan
from benchmarks.planted_train import State, Trained, kind_of, settings_of
from toposcope.sources.memory import in_memory
from toposcope.subjects.snapshot import RunReader
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.updates import Updates
from toposcope.sweep.not_finite import mark_spoilt
from toposcope.watch.growing import GrowingSeries


def _as_watched(state: State, settings: Mapping[str, Any]) -> State:
    """Return what a reader gives of a checkpoint: an adapter's products, bfloat16 where files hold it."""
    import ml_dtypes

    if settings.get("bf16"):
        return {name: value.astype(ml_dtypes.bfloat16).astype(np.float32) for name, value in state.items()}
    if not settings["rank"]:
        return state
    keys = [name.removesuffix(".lora_A.weight") for name in state if name.endswith(".lora_A.weight")]
    scale = 16.0 / settings["rank"]
    return {
        f"base_model.model.{key}.weight": scale
        * state[f"{key}.lora_B.weight"]
        @ state[f"{key}.lora_A.weight"]
        for key in keys
    }


def features(states: Mapping[int, State], settings: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of the update probe at every checkpoint."""
    width, layers, heads = SIZES[settings["size"]]
    config: dict[str, object] = {"n_head": heads, "n_embd": width, "n_layer": layers}
    if settings["rank"]:
        config = {"peft_type": "LORA", "r": settings["rank"]}
    return rows_of({step: _as_watched(state, settings) for step, state in states.items()}, config)


def rows_of(states: Mapping[int, State], config: Mapping[str, object]) -> pd.DataFrame:
    """Return the rows of the update probe for the checkpoints of a model with this configuration."""
    series, checkpoints = GrowingSeries(split="whole"), []
    for step, state in states.items():
        (source,) = in_memory({"run": {step: state}})
        known = dataclasses.replace(source, config=config)
        checkpoints.append(source.entries[0].checkpoint)
        series.add(checkpoints[-1], known, source.entries[0])
    probe, reader = Updates(WeightOptions(split="whole")), RunReader(series, checkpoints)
    rows = []
    with np.errstate(over="ignore", invalid="ignore"):
        for index in range(len(reader)):
            snapshot = reader[index]
            rows += mark_spoilt(probe, snapshot, probe.measure(snapshot)).rows
            reader.leave_behind(index)
    table = pd.DataFrame([{f.name: getattr(row, f.name) for f in dataclasses.fields(row)} for row in rows])
    return table.astype(
        dict.fromkeys(("name", "feature", "scope", "status", "role", "probe", "filtration"), object)
    )


def measured(
    plan: Plan, runs: Path, rows: Path, what: Fault | str
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Return rows and log of a healthy run, by its oddity's name, or of one with a fault; None without it."""
    if isinstance(what, str):
        oddity = next(one for one in ODDITIES if one.name == what)
        place, source = rows / str(plan.number) / f"{what}.pkl", runs / str(plan.number) / "healthy"
        return _kept(place, source / f"{what}.npz", settings_of(plan, over=oddity.settings))
    home, settings = runs / str(plan.number) / "faults", settings_of(plan, what)
    base = f"base {kind_of(what)}"
    before = _kept(rows / str(plan.number) / f"{base}.pkl", home / f"{base}.npz", settings)
    after = _kept(rows / str(plan.number) / f"{what.name}.pkl", home / f"{what.name}.npz", settings)
    if before is None or after is None:
        return None
    at = plan.checkpoint
    joined = [pd.concat([b[b["step"] <= at], a[a["step"] > at]]) for b, a in zip(before, after, strict=True)]
    log = pd.concat([before[1][before[1]["step"] < at], after[1]])
    return joined[0], log


def _kept(path: Path, source: Path, settings: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    if not path.exists():
        if not source.exists():
            return None
        run = Trained.read(source)
        table = features(run.states, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.to_pickle((table, pd.DataFrame(run.log)), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
    return pd.read_pickle(path)


def measure_all(plan: Plan, runs: Path, rows: Path) -> None:
    """Measure everything that was trained of one run."""
    for what in (*(oddity.name for oddity in ODDITIES), *FAULTS):
        measured(plan, runs, rows, what)
