"""The table across training replicates, for features of any kind."""

from __future__ import annotations

import pandas as pd

from toposcope.analysis.catalogue import label_of, leading
from toposcope.report.cells import interval, number, whole
from toposcope.report.parts import Table


def replicates_table(replicates: pd.DataFrame, target: str, catalogue: pd.DataFrame) -> Table:
    """Return what holds across seeds, where a size was trained more than once.

    `replicates` is what `toposcope.analysis.seed_table` returns.
    """
    mine = replicates[replicates["target"] == target]
    rows = [
        (
            label_of(column, catalogue),
            str(line["family"]),
            whole(line["seeds"]),
            number(line["mean_rho"], "{:+.2f}"),
            interval(line, "low", "high", "{:+.2f}"),
            number(line.get("own_minus_other"), "{:+.3f}"),
            number(line["pairing_p"], "{:.2g}"),
            number(line.get("pairing_holm"), "{:.2g}"),
            number(line.get("smallest_p"), "{:.2g}"),
        )
        for column in leading(mine["column"], catalogue)
        for line in mine[mine["column"] == column].to_dict("records")
    ]
    return Table(
        "replicates",
        "Across seeds",
        f"Mean rank correlation with the {label_of(target, catalogue)} over the seeds of a size, with "
        "Student's interval over seeds: how reproducible the drift is. The pairing test asks whether a run's "
        "feature goes with its own values more than with another seed's; the last column is the smallest p "
        "that this many seeds can give, sizes pooled where several have seeds.",
        (
            "feature", "sizes", "seeds", "mean ρ", "95%", "own minus other", "p, pairing", "p, Holm",
            "smallest p",
        ),
        tuple(rows),
        frame=replicates,
        folded=True,
        grouped=True,
    )  # fmt: skip
