"""Which runs belong together: the model sizes of a study, each with its seeds."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

_SEED = re.compile(r"[-_]seed[-_]?\d+$")


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The runs of one model size: several where there are seeds, one where there are none."""

    label: str
    parameters: int
    runs: tuple[str, ...]


def sizes(runs: pd.DataFrame) -> list[ModelSize]:
    """Group runs by family and number of parameters, from the smallest to the largest.

    `runs` has the columns run, family and parameters. A run whose size is unknown (0) stands alone. A
    size is called by its runs' name without the seed where they share one, else by its parameters.
    """
    keyed: dict[tuple[int, str, str], list[str]] = {}
    for run, family, parameters in runs[["run", "family", "parameters"]].itertuples(index=False):
        size = int(parameters) if pd.notna(parameters) else 0
        keyed.setdefault((size, str(family), "" if size else str(run)), []).append(str(run))
    ordered = sorted(keyed.items())
    labels = [_label(parameters, members) for (parameters, _, _), members in ordered]
    model_sizes = []
    for ((parameters, family, _), members), label in zip(ordered, labels, strict=True):
        named = label if labels.count(label) == 1 else f"{family} {label}".strip()
        model_sizes.append(ModelSize(named, parameters, tuple(sorted(members))))
    return model_sizes


def families_of(runs: pd.DataFrame) -> dict[str, str]:
    """Return the family of each run, with its corpus where the runs have several; "" where none is stated.

    >>> families_of(pd.DataFrame({"run": ["a", "b"], "family": "gpt", "corpus": ["x", "y"]}))
    {'a': 'gpt on x', 'b': 'gpt on y'}
    """
    if "family" not in runs:
        return {}
    family, corpus = (
        runs[name].astype(object).fillna("").astype(str) if name in runs else pd.Series("", index=runs.index)
        for name in ("family", "corpus")
    )
    if len(set(corpus) - {""}) > 1:
        family = (family + (" on " + corpus).where(corpus != "", "")).str.strip()
    return dict(zip(runs["run"], family, strict=True))


def _label(parameters: int, members: list[str]) -> str:
    stems = {_SEED.sub("", member) for member in members}
    return stems.pop() if len(stems) == 1 else short(parameters)


def short(number: float) -> str:
    """Return a count as people read it.

    >>> short(97200), short(2936), short(500), short(1_400_000_000)
    ('97K', '2.9K', '500', '1.4B')
    """
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(number) >= size:
            scaled = number / size
            return f"{scaled:.0f}{unit}" if scaled >= 9.95 else f"{scaled:.1f}".removesuffix(".0") + unit
    return f"{number:g}"
