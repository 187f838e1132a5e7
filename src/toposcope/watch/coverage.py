"""What no alarm can judge yet: too few checkpoints or losses, heads or tensors that were not read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.core.forms import and_more, listed
from toposcope.core.types import Role, Scope
from toposcope.core.wording import command, free_place, option
from toposcope.statistics.alarms.panel import FEWEST
from toposcope.statistics.alarms.residuals import FEWEST as RESIDUALS
from toposcope.statistics.alarms.residuals import LEVEL_WINDOW
from toposcope.store import Store
from toposcope.store.manifest import WEIGHTS, kind_of_store
from toposcope.subjects.weights import features as of
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch.journal import Event

if TYPE_CHECKING:
    import pandas as pd

HEADS = (
    "attention heads were not measured, since no file says how many there are: put a config.json with "
    "num_attention_heads beside the weights"
)
LOSSES = LEVEL_WINDOW + RESIDUALS + 1
"""The fewest values of a log for a judgement of spikes."""


def not_judged(
    store: Store,
    journal: Sequence[Event],
    target: float | None = None,
    *,
    folder: Path | None = None,
    log: Path | None = None,
) -> list[str]:
    """Return a sentence for each thing that no alarm can judge yet, and how to supply what is missing.

    Parameters
    ----------
    store, journal
        What was measured, and what happened.
    target
        The final loss that forecasts are compared with.
    folder
        The folder that is followed; None for a store that another command made.
    log
        The file of losses that was named.
    """
    steps = {run: len(measured) for run, measured in store.measured_steps().items()}
    features = store.features(feature=[of.UPDATE_NORM.name, of.QK_NORM.name])
    if not steps:
        return ["no checkpoint is measured yet"]
    parts = [event for event in journal if event.kind == "measured" and event.data.get("sampled")]
    reasons = []
    short = {run: n for run, n in steps.items() if n <= FEWEST + 2}
    if short:
        run, n = next(iter(short.items()))
        more = and_more(len(short) - 1, "more runs", form=" (and {})")
        reasons.append(
            f"{run}{more} has {_many(n, 'checkpoint')}; changes of matrices are judged from the "
            f"{FEWEST + 3}th checkpoint on"
        )
    if not len(features) and max(steps.values()) > 1:  # a first checkpoint has no update
        reasons.append(_no_updates(store, folder))
    elif len(features) and not parts and _headless(store, features):
        reasons.append(HEADS)
    metrics = store.metrics()
    reasons += _logs(store, metrics, list(steps), folder, log)
    reasons += _aimless(metrics, journal, target)
    if parts:
        reasons.append(
            f"at {_many(len(parts), 'checkpoint')} only a part of the matrices was read: "
            + f"{option('bytes_per_step')} says how much"
        )
    left = sorted({str(place) for event in journal for place in event.data.get("unread") or ()})
    if left:
        reasons.append(f"tensors that are not weights were not read: {listed(left, most=3, last=', ')}")
    return reasons


def _no_updates(store: Store, folder: Path | None) -> str:
    """Say how updates are measured: what a watch has measured once, it does not measure again."""
    series = "SERIES" if folder is None else folder
    now = _measuring(store, series, features="updates")
    later = ""
    if folder is not None and kind_of_store(store.recipe) == WEIGHTS:  # another takes no further features
        later = f"; for later checkpoints, add updates to {option('features')}"
    return f"updates were not measured; to measure them: {now}{later}"


def _aimless(metrics: pd.DataFrame, journal: Sequence[Event], target: float | None) -> list[str]:
    """Return the runs that were never compared with the target: they have ended, or their end is unknown."""
    judged = {event.run for event in journal if event.kind == "look" and event.data.get("target") == target}
    runs = sorted(set(metrics["run"].astype(str)) - judged)
    if target is None or not runs:
        return []
    more = and_more(len(runs) - 1, "more runs", form=" (and {})")
    why = "its last step is unknown; its trainer's own state has to say how many are planned"
    return [f"the target of {target:g} was not checked for {runs[0]}{more}: {why}"]


def _headless(store: Store, features: pd.DataFrame) -> bool:
    """Return whether there are attention matrices but no heads."""
    if (features["scope"] == Scope.HEAD).any():
        return False
    return bool((features["role"] == Role.ATTENTION).any())


def _no_losses(store: Store, folder: Path | None, log: Path | None) -> str:
    """Say where the losses of a watched store are to be given."""
    if log is not None:
        return f"{log} has none" if log.exists() else f"{log} does not exist yet"
    if folder is not None:
        return _logs_to_choose(folder) or f"give {option('losses')} FILE"
    return without_losses(store)


def _logs_to_choose(folder: Path) -> str:
    """Say which logs beside the checkpoints disagree; empty if none do, or the folder cannot be read now."""
    from toposcope.sources.opening import choice_of_logs, open_series

    try:
        return choice_of_logs(open_series(folder))
    except (InputError, OSError):
        return ""


def without_losses(store: Store) -> str:
    """Say by which command a store that follows no folder gets losses."""
    if kind_of_store(store.recipe) != WEIGHTS:
        return f"repeat the command that made the store, with {option('losses')} FILE"
    return f"to add it: {_measuring(store, 'SERIES', losses='FILE')}"


def _measuring(store: Store, series: object, features: str | None = None, losses: str | None = None) -> str:
    """Return the command that adds to a store, with the settings that it was made with.

    What a store of another kind lacks goes to a store beside it.
    """
    if kind_of_store(store.recipe) != WEIGHTS:
        beside = free_place(f"{store.path}-weights")
        return command("weights", series, out=beside, features=features)
    setting = WeightOptions.typed(store.recipe).get
    return command(
        "weights", series, out=store.path, features=features, losses=losses,
        preset=setting("preset"), points=setting("points"), draws=setting("draws"), nulls=setting("nulls"),
    )  # fmt: skip


def _logs(
    store: Store, metrics: pd.DataFrame, runs: Sequence[str], folder: Path | None, log: Path | None
) -> list[str]:
    """Return which runs have too few losses, or none, and whether learning rates are known."""
    reasons = []
    counts = {run: int(metrics.loc[metrics["run"] == run, "loss"].notna().sum()) for run in runs}
    without = [run for run, n in counts.items() if not n]
    few = [run for run, n in counts.items() if 0 < n < LOSSES]
    if without:
        named = listed(without, most=1, what="more runs")
        reasons.append(f"no loss of {named} is known: {_no_losses(store, folder, log)}")
    if few:
        reasons.append(
            f"{few[0]} has {counts[few[0]]:,} logged losses: spikes are judged from the {LOSSES}th loss on"
        )
    rates = metrics["learning_rate"].notna() if len(metrics) else None
    if not without and rates is not None and not rates.any():
        reasons.append("no learning rate is logged: the level of all updates together was not checked")
    return reasons


def _many(n: int, what: str, plural: str = "s") -> str:
    return f"{n:,} {what}{plural if n != 1 else ''}"
