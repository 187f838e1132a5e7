"""The rest of the opening answer: phases, order of the models, layers, settings."""

from __future__ import annotations

import math

from toposcope.analysis.scaling.power_law import spearman_exact
from toposcope.report.cells import interval, listed, number, span
from toposcope.report.representations.facts import carried, fixed_phases, last_values, spearman
from toposcope.report.representations.facts import settings as leading_settings
from toposcope.report.representations.rows import COUNT, ENTROPY, RANK, TOTAL
from toposcope.report.representations.study import Representations


def phases(study: Representations) -> str:
    """Set the embedding report's three phases beside the segments that a calibrated search finds."""
    if TOTAL not in study.series.values:
        return ""
    fixed = fixed_phases(study, TOTAL)
    judged = fixed.dropna(subset=["agrees"])
    if judged.empty:
        return ""
    parts = []
    for phase, verb in (("collapse", "falls"), ("refinement", "rises")):
        mine = judged[judged["phase"] == phase]
        if len(mine):
            steps = f"{mine['start_step'].min():,} to {mine['end_step'].max():,}"
            right = int(mine["agrees"].astype(bool).sum())
            parts.append(f"{verb} over the {phase} (steps {steps}) in {right} of {len(mine)} models")
    text = f"By the embedding report's fixed steps, H1 total persistence {listed(parts)}."
    return f"{text} {_segments(study)}".strip()


def _segments(study: Representations) -> str:
    rows = study.segments[(study.segments["column"] == TOTAL) & (study.segments["status"] == "ok")]
    if rows.empty:
        return "No run has enough checkpoints for a changepoint search with a known false-alarm rate."
    counts = rows.groupby("run")["segment"].count()
    with_any = int((counts > 1).sum())
    rate = rows["false_alarm_rate"].median()
    text = (
        f"A search for bends beyond a smooth trend, with false alarms in at most {rate:.0%} of simulated "
        f"plain curves at these steps, finds one in {with_any} of {len(counts)} models"
    )
    later = rows[rows["segment"] > 0]
    listing = [
        f"{line['run']} at step {number(line['start_step'], '{:,.0f}')} "
        f"{interval(line, 'start_low', 'start_high', '{:,.0f}')} ({line['embedding_label']} after it)"
        for line in later.head(4).to_dict("records")
    ]
    return f"{text}: {'; '.join(listing)}." if listing else f"{text}."


def size_order(study: Representations) -> str:
    """Say how what the models end with goes with their size: a rank correlation over runs, seeds included."""
    table = last_values(study, [c for c in (COUNT, TOTAL, ENTROPY, RANK) if c in study.series.values])
    known = table[table["parameters"] > 0]
    n_sizes = known["parameters"].nunique()
    if n_sizes < 2:
        return ""
    lines = []
    for column in table.columns[3:]:
        both = known[["parameters", column]].dropna().to_numpy(float)
        rho, p = spearman_exact(both[:, 0], both[:, 1])
        how = f"ρ = {number(rho, '{:+.2f}')}, p = {number(p, '{:.2g}')}"
        lines.append(f"{study.series.label(str(column))} ({how}, {span(known[column], '{:.3g}')})")
    text = (
        f"Rank correlation with size over {len(known)} models of {n_sizes} sizes at their last checkpoint: "
        f"{listed(lines)}."
    )
    smallest = 2.0 / math.factorial(len(known))
    if len(known) == n_sizes and smallest > 0.05:
        text += f" {n_sizes} models in perfect order have p = {smallest:.2g}, so no order is evidence."
    return text


def across(study: Representations) -> str:
    """Say how much of H1 one layer hands to the next, beside CKA, its twin without topology."""
    table = carried(study)
    if table.empty:
        return ""
    last = table[table["step"] == table.groupby("run")["step"].transform("max")]
    first = table[table["step"] == table.groupby("run")["step"].transform("min")]
    rho = table.groupby(["run", "layer"])[["cka", "carried"]].apply(
        lambda rows: spearman(rows["cka"], rows["carried"])
    )
    text = (
        "An optimal matching carries "
        f"{span(first['carried'], '{:.0%}')} of H1 from a layer to the next at the first checkpoint and "
        f"{span(last['carried'], '{:.0%}')} at the last; CKA of the same layers is "
        f"{span(first['cka'], '{:.2f}')} and {span(last['cka'], '{:.2f}')}."
    )
    known = rho.dropna()
    if len(known):
        text += f" Over the checkpoints of a pair of layers the two have a median ρ of {known.median():+.2f}."
    return text.replace("of -", "of −")


def settings(study: Representations) -> str:
    """Say which findings change with the settings, from the sensitivity table."""
    table = leading_settings(study)
    if table.empty:
        return ""
    known = table.dropna(subset=["settings_spread"])
    if known.empty:
        return ""
    more = int((known["settings_spread"] > 1).sum())
    text = (
        f"In {more} of {len(known)} feature-model pairs the choice of components and texts moves a number "
        "more than training does."
    )
    turned = known[(known["rho_low"] < 0) & (known["rho_high"] > 0)] if "rho_low" in known else known.iloc[:0]
    if len(turned):
        text += (
            f" In {len(turned)} of them the sign of its correlation with the log perplexity depends on it."
        )
    orders = known.drop_duplicates("feature")
    if "orders" in orders and orders["orders"].notna().any():
        unstable = int((orders["orders"] > 1).sum())
        text += f" The order of the models at the end depends on it for {unstable} of {len(orders)} features."
    return text
