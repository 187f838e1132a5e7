"""Does it scale: exponents of the leading quantities in the number of parameters, and the order of sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.groups import families_of
from toposcope.core.types import Use
from toposcope.scaling.power_law import LEAST_SIZES_FOR_POWER, spearman_exact
from toposcope.study.findings.base import Finding

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def scale(study: StudyTables) -> Finding | None:
    """Strength: "clear" (an interval without zero), "unclear", "too few" sizes, or families "apart".

    None without sizes.
    """
    fits = study.fits
    sizes = int(fits["n_sizes"].max()) if len(fits) else 0
    if not len(fits) or not any(study.runs["parameters"] > 0):
        return None
    if len(families := sorted(set(families_of(study.runs).values()) - {""})) > 1:
        return Finding("scale", "apart", {"families": families, "sizes": sizes, "ordered": []})
    lines = [_line(study, line) for line in fits.to_dict("records")]
    clear = [line["label"] for line in lines if line["clear"]]
    numbers = {"sizes": sizes, "laws": lines, "clear": clear, **_order(study)}
    strength = "too few" if sizes < LEAST_SIZES_FOR_POWER else "clear" if clear else "unclear"
    left = tuple(f"{line['label']}: {line['reason']}" for line in lines if line["reason"])
    return Finding("scale", strength, numbers, "least squares in log-log over sizes", left)


def _line(study: StudyTables, line: dict) -> dict[str, object]:
    low, high = float(line["low"]), float(line["high"])
    bounded = math.isfinite(low) and math.isfinite(high)
    return {
        "label": study.labels.label(str(line["quantity"])), "exponent": float(line["exponent"]),
        "interval": [low, high] if bounded else [], "clear": bounded and (low > 0 or high < 0),
        "reason": str(line["reason"] or ""), "n_sizes": int(line["n_sizes"]),
    }  # fmt: skip


def last_values(study: StudyTables, columns: list[str]) -> pd.DataFrame:
    """Return the values of every run's last checkpoint: columns run, parameters, step, then `columns`."""
    parameters = study.series.parameters()
    rows = []
    for run in study.series.run_names:
        last = study.series.of_run(run).iloc[-1]
        rows.append({"run": run, "parameters": parameters.get(run, 0), "step": int(last["step"]),
                     **{name: last.get(name, np.nan) for name in columns}})  # fmt: skip
    return pd.DataFrame(rows, columns=["run", "parameters", "step", *columns])


def _order(study: StudyTables) -> dict[str, object]:
    """Return the rank correlation of last values with size over runs, and the least p that it can have."""
    columns = study.leads(Use.END)
    table = last_values(study, columns)
    sized = table[table["parameters"] > 0]
    if sized["parameters"].nunique() < 2:
        return {"ordered": [], "models": len(sized), "smallest_p": None}
    lines = []
    for column in columns:
        both = sized[["parameters", column]].dropna().to_numpy(float)
        rho, p = spearman_exact(both[:, 0], both[:, 1])
        lines.append({"label": study.labels.label(column), "rho": float(rho), "p": float(p)})
    alone = len(sized) == sized["parameters"].nunique()
    smallest = 2.0 / math.factorial(len(sized)) if alone and len(sized) < 20 else None
    return {"ordered": lines, "models": len(sized), "smallest_p": smallest}
