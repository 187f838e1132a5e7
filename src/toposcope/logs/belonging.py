"""Groups runs by the family, task, corpus, tokenizer and recipe stated in their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.core.forms import listed
from toposcope.logs.facts import FACTS, SETTINGS, Stated, size_of, stated

PADDING = 1.02
"""Large vocabularies (over `_LARGE`) this close are one, padded: Pythia's 50,254 becomes 50,304 to 50,688."""
_LARGE = 1000
UNTRAINED = 1.25
"""Losses at step 0 or 1 that differ by this factor belong to different vocabularies or tasks, because the
loss there is about the logarithm of the number of classes. Neighbours among the seeds and sizes of one recipe
differ by a factor of at most 1.03."""
LATER_START = 2.0
"""The same factor for logs that begin at a later common step: by then, sizes differ by up to 1.4."""
LOWEST, LEAST_GAP = 5.0, 1.0
"""Lowest losses that differ by this factor and by this many nats belong to different tasks: the sizes of a
published family span a factor of two, and neighbours differ by a factor of at most 1.15."""

_NAMED = 4
"""A line names at most this many runs of a group; of larger groups it gives the number."""
_LISTED = 8
"""A line names at most this many groups; --json has all."""


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that belong together; `label` says how they differ from the others ("" for the only group)."""

    label: str
    runs: tuple[str, ...]

    @property
    def counted(self) -> str:
        """The label with the names of the runs, or with their number if there are many."""
        n = len(self.runs)
        return f"{self.label} ({', '.join(self.runs) if n <= _NAMED else f'{n:,} runs'})"


def groups_of(runs: pd.DataFrame, losses: pd.DataFrame | None = None) -> tuple[Group, ...]:
    """Group runs that belong together, in the given order.

    Two runs belong to different groups if their files state a different family, task, corpus, tokenizer,
    vocabulary or recipe, or if they have the same size and differ in a training setting, such as the batch
    size. Seeds and sizes do not separate runs. If neither corpus nor task is stated, the losses decide: runs
    are separated if their first losses differ by a factor of `UNTRAINED` at step 0 or 1 (`LATER_START` at a
    later common step), or if their lowest losses differ by a factor of `LOWEST` and by `LEAST_GAP` nats, with
    no run in between. A run that states fewer facts joins the only group that fits, if there is only one.

    Parameters
    ----------
    runs
        Columns run and, where known, parameters, config (JSON or a mapping) and those of `FACTS`.
    losses
        Columns run, step, loss.

    Examples
    --------
    >>> runs = pd.DataFrame({"run": list("abc"), "tokenizer": ["bpe", "bpe", "characters"]})
    >>> [(group.label, group.runs) for group in groups_of(runs)]
    [('bpe', ('a', 'b')), ('characters', ('c',))]
    """
    rows = runs.drop_duplicates("run").to_dict("records")
    lines = [Stated(str(row["run"]), stated(row), size_of(row.get("parameters"))) for row in rows]
    return grouped(lines, losses)


def kin(lines: Sequence[Stated], losses: pd.DataFrame | None = None) -> list[tuple[str, ...]]:
    """Return the runs that should be alike: same group and same size, whatever their settings.

    >>> rates = {"a": "0.001", "b": "0.001", "c": "0.006"}
    >>> kin([Stated(run, {"learning rate": rate}, 1e6) for run, rate in rates.items()])
    [('a', 'b', 'c')]
    """
    size = {line.run: line.parameters for line in lines}
    similar_runs: dict[tuple[str, float], list[str]] = {}
    for group in grouped(lines, losses, settings=False):
        for run in group.runs:
            similar_runs.setdefault((group.label, size[run]), []).append(run)
    return [tuple(runs) for runs in similar_runs.values()]


def grouped(
    lines: Sequence[Stated], losses: pd.DataFrame | None = None, *, settings: bool = True
) -> tuple[Group, ...]:
    """Group runs by what their files state, as `groups_of` does; without `settings`, by `FACTS` alone."""
    names = [line.run for line in lines]
    facts = _unpadded([line.facts for line in lines])
    distinguishing = [*FACTS, *(_distinguishing_settings(lines, facts) if settings else ())]
    by_losses = _by_losses(names, losses)
    clusters: list[tuple[int, ...]] = []
    for group in _together([tuple(fact.get(name, "") for name in distinguishing) for fact in facts]):
        if all(facts[i].get("corpus") or facts[i].get("task") for i in group):
            clusters.append(group)
        else:
            inner = _together([by_losses.get(names[i], ("", "")) for i in group])
            clusters += [tuple(group[i] for i in places) for places in inner]
    clusters.sort(key=min)
    shown = [{name: fact.get(name, "") for name in distinguishing} for fact in facts]
    labels = _labels(clusters, shown, names, losses) if clusters else []
    return tuple(Group(label, tuple(names[i] for i in g)) for label, g in zip(labels, clusters, strict=True))


def said(groups: Sequence[Group], what: str = "each is judged separately") -> str:
    """Return the line about runs that do not belong together; "" for one group.

    >>> said([Group("bpe", ("a", "b")), Group("characters", ("c",))])
    '2 groups of runs do not belong together, so each is judged separately: bpe (a, b); characters (c).'
    """
    if len(groups) < 2:
        return ""
    named = listed([group.counted for group in groups], "; ", most=_LISTED, last="; ")
    return f"{len(groups):,} groups of runs do not belong together, so {what}: {named}."


def _unpadded(facts: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return the facts, with the smallest size for vocabularies that differ only by padding."""
    sizes = sorted({float(fact["vocabulary"]) for fact in facts if _is_number(fact.get("vocabulary", ""))})
    same: dict[float, float] = {}
    for size in sizes:
        last = next(reversed(same.values()), 0.0)
        same[size] = last if last > _LARGE and size <= PADDING * last else size
    out: list[Mapping[str, str]] = []
    for fact in facts:
        text = fact.get("vocabulary", "")
        out.append({**fact, "vocabulary": f"{same[float(text)]:.0f}"} if _is_number(text) else fact)
    return out


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("e+", "", 1).isdigit()


def _distinguishing_settings(lines: Sequence[Stated], facts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the settings in which two runs of equal size and equal facts differ."""
    cells: dict[tuple[object, ...], list[Mapping[str, str]]] = {}
    for line, fact in zip(lines, facts, strict=True):
        key = (*(fact.get(name, "") for name in FACTS), line.parameters or line.run)
        cells.setdefault(key, []).append(fact)
    return [
        name
        for name in SETTINGS
        if any(len({facts[name] for facts in cell if name in facts}) > 1 for cell in cells.values())
    ]


def _together(keys: Sequence[tuple[str, ...]]) -> list[tuple[int, ...]]:
    """Group positions whose keys agree; one with missing facts ("") joins a group if only one fits."""
    groups: list[tuple[list[str], list[int]]] = []
    distinct = sorted(dict.fromkeys(keys), key=lambda key: -sum(map(bool, key)))
    for key in distinct:
        mine = [i for i, other in enumerate(keys) if other == key]
        fits = [g for g in groups if all(a == b or not (a and b) for a, b in zip(g[0], key, strict=True))]
        if len(fits) == 1:
            fits[0][1].extend(mine)
            fits[0][0][:] = [a or b for a, b in zip(fits[0][0], key, strict=True)]
        else:
            groups.append((list(key), mine))
    return sorted((tuple(sorted(members)) for _, members in groups), key=min)


def _by_losses(names: Collection[str], losses: pd.DataFrame | None) -> dict[str, tuple[str, ...]]:
    """Return the clusters of each run's losses, at its start and at its lowest level."""
    if losses is None or not len(losses) or "loss" not in losses:
        return {}
    ends = _ends(losses[losses["run"].isin(list(names))])
    lowest = _clusters(
        {run: low for run, (_, _, low) in ends.items()},
        lambda below, above: above > LOWEST * below and above - below > LEAST_GAP,
    )
    first: dict[str, str] = {}
    for step in {max(step, 1.0) for step, _, _ in ends.values()}:
        here = {run: loss for run, (at, loss, _) in ends.items() if max(at, 1.0) == step}
        most = UNTRAINED if step <= 1 else LATER_START
        marks = _clusters(here, lambda below, above, most=most: above > most * below)  # type: ignore[misc]
        if len(set(marks.values())) > 1:
            first |= {run: f"{step:g}/{mark}" for run, mark in marks.items()}
    return {run: (first.get(run, ""), lowest.get(run, "")) for run in ends}


def _ends(losses: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Return each run's first step with a finite, positive loss, the loss there, and its lowest one.

    The lowest is the 5% quantile: a single step far below the others does not count.
    """
    values = pd.to_numeric(losses["loss"], errors="coerce")
    if "heldout_loss" in losses:  # for a run that logged no other
        values = values.fillna(pd.to_numeric(losses["heldout_loss"], errors="coerce"))
    good = losses.assign(loss=values)[np.isfinite(values) & (values > 0)].sort_values("step", kind="stable")
    return {
        str(run): (
            float(rows["step"].iloc[0]),
            float(rows["loss"].iloc[0]),
            float(rows["loss"].quantile(0.05)),
        )
        for run, rows in good.groupby("run", sort=False)
    }


def _clusters(values: Mapping[str, float], separate) -> dict[str, str]:  # type: ignore[no-untyped-def]
    """Return the cluster of each run: cut between sorted neighbours for which `separate` is true."""
    number, below, labels = 0, None, {}
    for run, value in sorted(values.items(), key=lambda item: item[1]):
        number += below is not None and bool(separate(below, value))
        labels[run] = str(number)
        below = value
    return labels


def _labels(
    groups: Sequence[tuple[int, ...]], stated: Sequence[Mapping[str, str]], names: Sequence[str],
    losses: pd.DataFrame | None,
) -> list[str]:  # fmt: skip
    """Return in words how each group differs: its facts, then the range of its losses."""
    if len(groups) == 1:
        return [""]
    held = [{n: next(filter(None, (stated[i][n] for i in g)), "") for n in stated[g[0]]} for g in groups]
    differ = [name for name in held[0] if len({fact[name] for fact in held}) > 1]
    labels = [", ".join(_fact(name, fact[name]) for name in differ) for fact in held]
    ends = _ends(losses) if losses is not None and len(losses) and "loss" in losses else {}
    for at, group in enumerate(groups):
        if labels.count(labels[at]) > 1 or not labels[at]:
            levels = [ends[names[i]] for i in group if names[i] in ends]
            if levels:
                first, low = (max(level[1] for level in levels), min(level[2] for level in levels))
                labels[at] = ", ".join(filter(None, (labels[at], f"losses from {first:.3g} to {low:.3g}")))
    doubles = [label if labels.count(label) == 1 else "" for label in labels]
    return [label or f"like {names[group[0]]}" for label, group in zip(doubles, groups, strict=True)]


def _fact(name: str, value: str) -> str:
    if not value:
        return f"{name} not stated"
    return value if name in ("family", "tokenizer") else f"{name} {value}"
