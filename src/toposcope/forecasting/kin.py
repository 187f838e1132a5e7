"""Which curves belong together: no run is forecast from another task, tokenizer or recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from toposcope.logs.belonging import Group, grouped
from toposcope.logs.curve import Curve
from toposcope.logs.facts import Stated


def groups_of_curves(curves: Sequence[Curve]) -> tuple[Group, ...]:
    """Return the groups of the curves, by the facts in their files and by their losses."""
    lines = [Stated(curve.run, curve.facts, float(curve.parameters)) for curve in curves]
    frames = [pd.DataFrame({"run": c.run, "step": c.step, "loss": c.loss}) for c in curves]
    return grouped(lines, pd.concat(frames, ignore_index=True) if frames else None)


def with_groups(curves: Sequence[Curve]) -> list[Curve]:
    """Return the curves with their groups; "" if all belong together.

    >>> import numpy as np
    >>> step = np.arange(3.0)
    >>> made = [Curve(run, step, 1 / (step + 1), step, 2, facts={"task": run}) for run in "ab"]
    >>> [curve.group for curve in with_groups(made)]
    ['task a', 'task b']
    """
    label = {run: group.label for group in groups_of_curves(curves) for run in group.runs}
    return [
        curve if curve.group == label[curve.run] else replace(curve, group=label[curve.run])
        for curve in curves
    ]
