"""The tables on layers, heads, dimensions, the linear probe and the settings."""

from __future__ import annotations

import pandas as pd

from toposcope.core.forms import interval, number, whole
from toposcope.core.tabular import Table
from toposcope.store.draws import counted, over_draws
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures.dimensions import PANELS as DIMENSION
from toposcope.subjects.representations.findings.layers import leading_settings
from toposcope.subjects.representations.tables.rows import PROBE, noted_interval, of_layer
from toposcope.subjects.representations.tables.sensitivity import SENSITIVITY_TABLE

_LAYER = tuple(
    (feature.name, heading, form)
    for feature, heading, form in (
        (of.H1_COUNT, "H1 bars", "{:.0f}"),
        (of.H1_SCALED, "H1 total / median", "{:.2f}"),
        (of.H1_ENTROPY_NORMALIZED, "H1 entropy / ln n", "{:.3f}"),
        (of.RANK, "effective rank", "{:.1f}"),
        (of.TOP, "top eigenvalue", "{:.3g}"),
        (of.TWONN, "TwoNN", "{:.1f}"),
        (of.CARRIED_H1, "H1 carried on", "{:.0%}"),
        (of.CKA, "CKA with next", "{:.2f}"),
        (of.H1_COST, "matching cost", "{:.2f}"),
        (of.ACCURACY, "probe accuracy", "{:.1%}"),
    )
)


def _last_rows(study: Study) -> pd.DataFrame:
    mine = study.features[study.features["probe"] == PROBE]
    return mine[mine["step"] == mine.groupby("run")["step"].transform("max")]


def layers_table(study: Study) -> Table:
    """Return every hidden state at the last checkpoint; empty if there is only one."""
    last = _last_rows(study)
    hidden = last[last["scope"] == "layer"]
    frame = _by_layer(hidden)
    shown = [spec for spec in _LAYER if spec[0] in frame]
    rows = [
        (run, f"{layer:.0f}", *(number(line[name], form) for name, _, form in shown))
        for run in study.ordered
        if run in frame.index.get_level_values("run")
        for layer, line in frame.loc[run].iterrows()
    ]
    many = len(frame) and frame.groupby(level="run").size().max() > 1
    return Table(
        "layers_of_representations",
        "Layer by layer, at the last checkpoint",
        "Layer 0 is the embedding, and the last layer is after the final norm. H1 carried on is the share of "
        "its total persistence that an optimal matching carries to the next layer, each diagram in units of "
        "its own median distance. CKA is the counterpart without topology.",
        ("model", "layer", *(heading for _, heading, _ in shown)),
        tuple(rows) if many else (),
        frame=frame.reset_index(),
        grouped=True,
    )


def _by_layer(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over draws: a row for each run and layer, a column for each feature."""
    means = over_draws(rows, ["run", "layer", "feature"])
    return means.pivot(index=["run", "layer"], columns="feature", values="value")


def attention_table(study: Study) -> Table:
    """Return H0 of the attention graphs by layer, at the first and the last checkpoint."""
    rows = select(study.features, of.ATTENTION_H0.name, probe=PROBE)
    # over the heads of a layer: nothing is drawn
    frame = rows.groupby(["run", "layer", "step"])["value"].agg(["mean", "min", "max", "count"]).reset_index()
    lines = []
    for run in study.ordered:
        for layer, of_layer_rows in frame[frame["run"] == run].groupby("layer"):
            ends = of_layer_rows.sort_values("step")
            first, last = ends.iloc[0].to_dict(), ends.iloc[-1].to_dict()
            lines.append(
                (
                    run, f"{layer:.0f}", whole(last["count"]), number(first["mean"], "{:.3f}"),
                    interval(first, "min", "max", "{:.3f}"), number(last["mean"], "{:.3f}"),
                    interval(last, "min", "max", "{:.3f}"),
                )
            )  # fmt: skip
    return Table(
        "attention_graphs",
        "Attention graphs",
        "Mean bar length of H0 of a head's attention graph (distance 1 − max(A, Aᵀ)). It is 0 if every token "
        "is tied to another with weight 1, and near 1 if attention is spread thin. The table has the mean "
        "over the heads of a layer, and the smallest and largest value.",
        ("model", "layer", "heads", "first checkpoint", "least to greatest", "last checkpoint",
         "least to greatest"),
        tuple(lines),
        frame=frame,
        grouped=True,
    )  # fmt: skip


def dimensions_table(study: Study) -> Table:
    """Return the intrinsic dimensions of the last hidden state at the first and the last checkpoint."""
    mine = of_layer(study.features[study.features["probe"] == PROBE], None)
    mine = mine[mine["feature"].isin([panel.feature for panel in DIMENSION])]
    rows = []
    for panel in DIMENSION:
        for run in study.ordered:
            line = mine[(mine["feature"] == panel.feature) & (mine["run"] == run)]
            line = counted(line).sort_values("step")
            if len(line):
                rows.append((panel.title, run, *_estimate(line.iloc[0]), *_estimate(line.iloc[-1])))
    return Table(
        "dimensions",
        "Intrinsic dimension",
        "Three estimators on the reduced cloud, each with its own band. The bands of TwoNN and of the PH "
        "dimension do not cover at their nominal rate. None of the three is a summary of H1, and the "
        "reduction bounds them from above.",
        ("estimator", "model", "first checkpoint", "band", "last checkpoint", "band"),
        tuple(rows),
        frame=mine,
        grouped=True,
    )


def _estimate(line: pd.Series) -> tuple[str, str]:
    low, high = noted_interval(line["note"])
    return number(line["value"], "{:.1f}"), interval({"low": low, "high": high}, "low", "high", "{:.1f}")


def probing_table(study: Study) -> Table:
    """Return the linear probe's accuracy of every layer at the last checkpoint."""
    last = _last_rows(study)
    frame = _by_layer(last[last["feature"].isin((of.ACCURACY.name, of.ACCURACY_SPREAD.name))])
    majority = over_draws(last[last["feature"] == of.MAJORITY.name], ["run"]).set_index("run")["value"]
    rows = [
        (
            run, f"{layer:.0f}", number(line.get(of.ACCURACY.name), "{:.1%}"),
            number(line.get(of.ACCURACY_SPREAD.name), "{:.1%}"), number(majority.get(run), "{:.1%}"),
        )
        for run in study.ordered
        if run in frame.index.get_level_values("run")
        for layer, line in frame.loc[run].iterrows()
    ]  # fmt: skip
    return Table(
        "linear_probe",
        "Linear probe at the last checkpoint",
        "Five-fold accuracy of a logistic regression on the states. The spread over folds is not an "
        "interval, because the folds share their training texts.",
        ("model", "layer", "accuracy", "sd over folds", "commonest label"),
        tuple(rows),
        frame=frame.reset_index(),
        grouped=True,
    )


def sensitivity_table(study: Study) -> Table:
    """Return the change of every feature with the settings, beside its change with training."""
    rows = [
        (
            study.series.feature_label(PROBE, line["feature"]), str(line["run"]),
            whole(line.get("settings")), whole(line.get("draws")),
            number(line.get("settings_spread"), "{:.2f}"), number(line.get("draw_spread"), "{:.2f}"),
            number(line.get("rho"), "{:+.2f}"), interval(line, "rho_low", "rho_high", "{:+.2f}"),
            str(line.get("order") or "–"), number(line.get("order_share"), "{:.0%}"),
        )
        for line in leading_settings(study).to_dict("records")
    ]  # fmt: skip
    return Table(
        SENSITIVITY_TABLE.name,
        SENSITIVITY_TABLE.title,
        SENSITIVITY_TABLE.note,
        ("feature", "model", "settings", "draws", "spread over settings", "over draws", "ρ", "range",
         "order at the end", "share"),
        tuple(rows),
        frame=study.own[SENSITIVITY_TABLE.name],
        grouped=True,
    )  # fmt: skip
