"""Targets from outside the metrics: a file of scores, and the qualities in a store's own rows."""

from __future__ import annotations

import functools
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.forms import listed_steps, step_text
from toposcope.files.labels import step_of
from toposcope.logs.meanings import SUFFIXES, canonical, meaning, read_table
from toposcope.store.draws import counted, over_draws
from toposcope.subjects.catalogue import declared_features

COLUMNS = ("run", "step", "target", "value", "status", "reason")
_LOG_LABELS = {
    "loss": "minibatch loss",
    "heldout_loss": "held-out loss",
    "loss_smooth": "smoothed training loss",
    "weight_norm": "weight norm",
    "efficiency_flop": "efficiency per FLOP",
}
_KEYS = ("run", "step", "revision")
_LISTED = 5
"""Names that a message lists."""
_READ = (*SUFFIXES, ".json")


@functools.cache
def target_labels() -> Mapping[str, str]:
    """Return the names of the columns of a log and of the logarithms of qualities.

    A target from a feature has the feature's name; any other, that of its column.
    """
    features = [feature for declared in declared_features().values() for feature in declared]
    return _LOG_LABELS | {
        feature.target: f"log {feature.label}" for feature in features if feature.log_target
    }


def read_targets(path: str | Path) -> pd.DataFrame:
    r"""Read scores of checkpoints: a table with `run`, `step` or `revision`, and numeric columns.

    Parameters
    ----------
    path
        A `.csv`, `.tsv`, `.parquet`, `.jsonl` or `.json` file, one row per checkpoint. A revision such as
        "step1000" states its step. Without `run`, the rows are those of a table's only run. Columns that
        are not numeric are left out.

    Returns
    -------
    pandas.DataFrame
        One row per checkpoint and target: `run` ("" when the file has none), `step`, `target`, `value`,
        `status` ("ok", or "missing" where the value is not finite) and `reason`.

    Raises
    ------
    InputError
        When the file cannot be read, has no step or no numeric column, names a step that is no whole
        number, or has a checkpoint twice.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "scores.csv"
    >>> _ = file.write_text("run,revision,piqa\na,step0,0.5\na,step512,\n")
    >>> read_targets(file)[["run", "step", "target", "status"]].values.tolist()
    [['a', 0, 'piqa', 'ok'], ['a', 512, 'piqa', 'missing']]
    """
    path = Path(path)
    frame = _table(path)
    steps = _steps(frame, path)
    runs = frame["run"].astype(str) if "run" in frame else pd.Series("", index=frame.index)
    keys = pd.DataFrame({"run": runs, "step": steps})
    twice = keys[keys.duplicated()]
    if len(twice):
        run, step = twice.iloc[0]
        raise InputError(f"{path}: run {run!r} step {step:,} appears twice; keep one row for each checkpoint")
    names = [
        str(name)
        for name in frame.select_dtypes("number").columns
        if name not in _KEYS and frame[name].notna().any()
    ]
    if not names:
        raise InputError(f"{path} has no numeric column besides run and step", remedy="add one")
    long = pd.concat([keys.assign(target=name, value=frame[name].astype(float)) for name in names])
    finite = np.isfinite(long["value"])
    long["status"] = np.where(finite, "ok", "missing")
    long["reason"] = np.where(finite, "", "the file has no finite value")
    return long.reset_index(drop=True)[list(COLUMNS)]


def _table(path: Path) -> pd.DataFrame:
    suffix = path.suffix.lower()
    if suffix not in _READ:
        raise InputError(
            f"{path}: targets are read from {', '.join(_READ)} files", remedy="give one of these"
        )
    try:
        frame = read_table(path) if suffix != ".json" else pd.DataFrame(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        text = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path} cannot be read as a table of targets: {text}", remedy="correct the file"
        ) from error
    if frame.empty:
        raise InputError(f"{path} has no row", remedy="give one row for each checkpoint")
    names = [str(c) for c in frame]
    scores = [name for name in names if meaning(name) not in _KEYS]
    return canonical(frame, keep=scores if "revision" not in frame else names)


def _steps(frame: pd.DataFrame, path: Path) -> pd.Series:
    if "step" in frame:
        steps = pd.to_numeric(frame["step"], errors="coerce")
        bad = ~(steps >= 0) | (steps % 1 != 0)
        shown = frame.loc[bad, "step"]
    elif "revision" in frame:
        found_steps = [step_of(str(name)) for name in frame["revision"]]
        steps = pd.Series(
            [np.nan if step is None else float(step) for step in found_steps], index=frame.index
        )
        bad = steps.isna()
        shown = frame.loc[bad, "revision"]
    else:
        raise InputError(
            f"{path} has neither a column 'step' nor 'revision'; it has {', '.join(map(str, frame))}"
        )
    if bad.any():
        listed = ", ".join(repr(value) for value in shown.head(_LISTED))
        raise InputError(f"{path}: {listed} is not a step; give whole numbers, or revisions such as step1000")
    return steps.astype("int64")


def own_targets(features: pd.DataFrame, declared: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the targets among the feature rows, in the form of `read_targets`.

    `declared` is what `Store.catalogue` returns: it says which features give a target. Rows without it, or
    with one that declares no target, are read by the declarations of the package's own probes.

    >>> rows = pd.DataFrame({"run": "a", "step": [0], "probe": "representations", "name": "model",
    ...     "feature": "perplexity", "layer": [None], "value": [np.e]})
    >>> own_targets(rows)[["target", "value"]].values.tolist()
    [['log_perplexity', 1.0]]
    """
    tables = [pd.DataFrame(columns=list(COLUMNS))]
    for line in _giving_targets(declared):
        mine = features[(features["probe"] == line["probe"]) & (features["feature"] == line["feature"])]
        if mine.empty:
            continue
        if "layer" in mine and mine["layer"].notna().any():
            mine = mine[mine["layer"] == mine.groupby("run")["layer"].transform("max")]
        mine = counted(mine)
        if line["log_target"]:
            mine = mine[mine["value"] > 0]
            mine = mine.assign(value=np.log(mine["value"]))
        if "draw" in mine and mine["draw"].notna().any():
            mine = over_draws(mine)[["run", "step", "value"]]
        tables.append(mine.assign(target=line["target"], status="ok", reason=""))
    tables = [part for part in tables if len(part)] or tables[:1]
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def own_losses(names: Sequence[str], declared: pd.DataFrame | None = None) -> dict[str, tuple[str, str]]:
    """Return which of these targets are logarithms of a declared quality, each with its label and unit.

    >>> own_losses(["probe_accuracy", "log_perplexity"])
    {'log_perplexity': ('perplexity', 'per token')}
    """
    lines = [line for line in _giving_targets(declared) if line["target"] in names] if names else []
    return {line["target"]: (line["label"], line["unit"]) for line in lines if line["log_target"]}


def _giving_targets(declared: pd.DataFrame | None) -> list[dict[Hashable, Any]]:
    """Return the lines of a catalogue that give a target; of the package's own probes where it tells none."""
    if declared is None or "target" not in declared or declared["target"].isna().all():
        from toposcope.subjects.catalogue import own_catalogue

        declared = own_catalogue()
    return declared[declared["target"].fillna("") != ""].to_dict("records")


def join_targets(
    values: pd.DataFrame, targets: pd.DataFrame, taken: tuple[str, ...]
) -> tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """Put targets beside the checkpoints of a wide table; return it, the targets' names, and problems.

    Rows of a run or step that the table lacks are listed in the problems, as are checkpoints without a
    finite value.

    Raises
    ------
    InputError
        When no row fits a checkpoint, a target has the name of another column, or the file states no run
        and the table has several.
    """
    if targets.empty:
        return values, (), ()
    targets = _with_run(targets, values)
    names = tuple(dict.fromkeys(targets["target"]))
    clash = [name for name in names if name in taken or name in values]
    if clash:
        raise InputError(
            f"target {clash[0]!r} has the name of another column of the table; rename it in the file"
        )
    measured_index = pd.MultiIndex.from_frame(values[["run", "step"]])
    fits = pd.MultiIndex.from_frame(targets[["run", "step"]]).isin(measured_index)
    if not fits.any():
        have, given = values["run"].unique()[:_LISTED], targets["run"].unique()[:_LISTED]
        raise InputError(
            f"no target fits a checkpoint: the file has runs {', '.join(given)}, the table "
            f"{', '.join(have)}; make runs and steps the same"
        )
    again = targets.duplicated(["run", "step", "target"], keep="last")
    once = targets[fits & ~again]
    wide = once.pivot(index=["run", "step"], columns="target", values="value").reindex(measured_index)
    joined = wide[list(names)].reset_index(drop=True)
    place = 2 + sum(column in values for column in ("tokens", "weight_norm")) + len(taken)
    parts = [values.iloc[:, :place], joined, values.iloc[:, place:]]
    problems = (*_unknown(targets[~fits], values), *_twice(targets[again]), *_missing(joined, values))
    return pd.concat(parts, axis=1), names, problems


def _with_run(targets: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    runs = list(values["run"].unique())
    if not (targets["run"] == "").any():
        return targets
    if len(runs) > 1:
        raise InputError(
            f"the targets state no run, but the table has {len(runs):,} runs; add a column 'run'"
        )
    return targets.assign(run=runs[0])


def _unknown(rows: pd.DataFrame, values: pd.DataFrame) -> Iterator[str]:
    for run, mine in rows.groupby("run", sort=False):
        steps = sorted(set(mine["step"]))
        shown = listed_steps([step_text(step) for step in steps], most=_LISTED)
        why = "steps that were not measured" if (values["run"] == run).any() else "the run was not measured"
        yield f"targets: run {run}, step {shown}: {why}"


def _twice(rows: pd.DataFrame) -> Iterator[str]:
    if len(rows):
        first = f"{rows['target'].iloc[0]} of run {rows['run'].iloc[0]} step {rows['step'].iloc[0]:,}"
        yield f"targets: {len(rows):,} values appear more than once, such as {first}; the last one counts"


def _missing(joined: pd.DataFrame, values: pd.DataFrame) -> Iterator[str]:
    for name in joined:
        lacking = values.loc[~np.isfinite(joined[name].to_numpy(float)), ["run", "step"]]
        if len(lacking):
            first = f"run {lacking['run'].iloc[0]} step {lacking['step'].iloc[0]:,}"
            share = f"{len(lacking):,} of {len(values):,} checkpoints"
            yield f"target {name}: no finite value at {share}, such as {first}"
