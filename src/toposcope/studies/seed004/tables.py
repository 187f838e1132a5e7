"""The weight-space paper's tables, each cell beside the value of these runs: one function per table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from toposcope.published.forecast_rules import NEURAL_PERSISTENCE, RIECK, rule_table
from toposcope.published.phase_rules import phase_table
from toposcope.scaling import fit_power_law
from toposcope.statistics.correlations import ranks
from toposcope.statistics.trends.resampling import bootstrap_interval, iid_indices
from toposcope.studies.sections import Section
from toposcope.studies.seed004.runs import H0, H1, TEXT_H0, TEXT_H1, MeasuredRuns, printed

TEXT_COLUMN = {"h0": TEXT_H0, "h1": TEXT_H1}
COLUMN = {"h0": H0, "h1": H1}
FEATURE = {"h0": "h0_total", "h1": "h1_total"}
_RESAMPLES = 1000
"""Resamples of the iid bootstrap whose intervals are compared with the printed ones."""
_NEAREST = 5
"""The iid intervals of this many draws, those with rho nearest to the printed one, are averaged.

The paper made one draw."""


def digits_of(text: str) -> int:
    """Return how many decimals a printed number has.

    >>> digits_of("-0.590"), digits_of("12")
    (3, 0)
    """
    return len(text.partition(".")[2].partition("e")[0])


def same_digits(value: float, text: str) -> bool:
    """Say whether a number prints as the paper printed it.

    >>> same_digits(-0.58996, "-0.590"), same_digits(5.21e-6, "5.2e-06"), same_digits(0.3, "0.4")
    (True, True, False)
    """
    form = f".{digits_of(text)}{'e' if 'e' in text else 'f'}"
    return f"{value:{form}}" == text


def _agrees(value: float, text: str) -> str:
    return "to every digit" if same_digits(value, text) else "no"


def models(measured: MeasuredRuns) -> Section:
    """Return Table 1: sizes and final losses; the paper's "final loss" is one minibatch's."""
    rows = []
    for run, model in measured.models.items():
        frame = measured.preset.of_run(run)
        last = frame.iloc[-1]
        smooth = float(last.get("loss_smooth", np.nan))
        held = float(last.get("heldout_loss", np.nan))
        loss = float(last["loss"])
        agrees = _agrees(loss, model["loss"])
        rows.append(
            (model["name"], model["parameters"], len(frame), model["loss"], loss, agrees, smooth, held)
        )
    columns = (
        "model", "parameters", "checkpoints", "loss: paper", "minibatch loss", "agrees",
        "mean of the last 100",
        "held-out loss",
    )  # fmt: skip
    off = np.mean([abs(float(row[4]) - float(row[6])) for row in rows])
    note = (
        'The paper calls its loss "cross-entropy on the validation set", but its digits are those of the '
        "training minibatch at the last step, which differs from the mean of the last 100 steps by "
        f"{off:.3f} on average. A held-out loss is shown if the runs kept one."
    )
    return Section("Table 1: models and final loss", columns, tuple(rows), note)


def persistence(measured: MeasuredRuns, dim: str) -> Section:
    """Return Table 2 (`dim` "h0") or 4 ("h1"): rank correlation of total persistence with the loss."""
    rows = []
    for run, model in measured.models.items():
        stated = printed()[dim][str(model["parameters"])]
        rhos, ps, intervals = _by_draw(measured, run, FEATURE[dim])
        exact = len(rhos) == 1
        spread = None if exact else float(np.std(rhos, ddof=1))
        nearest = np.argsort(np.abs(rhos - float(stated["rho"])))[:_NEAREST]
        interval = intervals[nearest].mean(axis=0)
        text = measured.text.of_run(run)
        by_text = float(spearmanr(text[TEXT_COLUMN[dim]], text["loss"]).statistic)
        p = float(np.median(ps))
        rows.append(
            (
                model["name"], stated["rho"], float(np.mean(rhos)), spread, len(rhos), stated["p"], p,
                "[" + ", ".join(stated["interval"]) + "]" if "interval" in stated else None,
                f"[{interval[0]:.3f}, {interval[1]:.3f}]",
                _agrees(rhos[0], stated["rho"]) if exact else _within(rhos, stated["rho"]),
                by_text,
            )
        )  # fmt: skip
    number, name = ("2", "H0") if dim == "h0" else ("4", "H1")
    columns = (
        "model", "rho: paper", "rho", "sd", "draws", "p: paper", "p", "iid interval: paper", "iid interval",
        "agrees", "rho by the text",
    )  # fmt: skip
    note = (
        "The paper pools the rows of all matrices, padded with zeros, draws 200 of them without a recorded "
        "seed, and drops bars above 2.0. Only TINY-3K has no more than 200 rows, so only its row can agree "
        "digit for digit. 'By the text': every layer is its own cloud, without a threshold, and totals are "
        f"added up. The interval is the mean over the {_NEAREST} draws whose rho is nearest to the printed "
        "one. p-values and intervals are of the paper's kind: they treat checkpoints as independent."
    )
    return Section(f"Table {number}: {name} total persistence and the loss", columns, tuple(rows), note)


def _by_draw(measured: MeasuredRuns, run: str, feature: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rho, p and the iid bootstrap interval of every draw of a run."""
    mine = measured.draws[measured.draws["run"] == run]
    wide = mine.pivot_table(index="step", columns="draw", values=feature).sort_index()
    losses = mine.drop_duplicates("step").set_index("step")["loss"].reindex(wide.index)
    x = wide.to_numpy(dtype=np.float64)
    y = np.repeat(losses.to_numpy(dtype=np.float64)[:, None], x.shape[1], axis=1)
    correlations = [spearmanr(x[:, j], y[:, j]) for j in range(x.shape[1])]
    low, high = bootstrap_interval(ranks(x), ranks(y), iid_indices(len(x), _RESAMPLES))
    rho = np.array([float(correlation.statistic) for correlation in correlations])
    p = np.array([float(correlation.pvalue) for correlation in correlations])
    return rho, p, np.column_stack([low, high])


def _within(rhos: np.ndarray, text: str) -> str:
    """Say whether the paper's single draw lies within the range of the draws made here."""
    inside = rhos.min() <= float(text) <= rhos.max()
    return "inside the draws" if inside else f"outside the draws [{rhos.min():.3f}, {rhos.max():.3f}]"


def neural_persistence(measured: MeasuredRuns) -> Section:
    """Return Table 3: rank correlation of mean neural persistence with the loss."""
    rows = []
    for run, model in measured.models.items():
        stated = printed()["np"][str(model["parameters"])]
        frame, text = measured.preset.of_run(run), measured.text.of_run(run)
        correlation = spearmanr(frame[NEURAL_PERSISTENCE], frame["loss"])
        rieck = spearmanr(text[RIECK], text["loss"])
        ends = frame[NEURAL_PERSISTENCE].to_numpy(dtype=np.float64)
        agrees = _agrees(float(correlation.statistic), stated["rho"])
        rows.append(
            (
                model["name"], stated["rho"], float(correlation.statistic), agrees, stated["p"],
                float(correlation.pvalue),
                f"{ends[0]:.4f} to {ends[-1]:.4f}", float(rieck.statistic),
            )
        )  # fmt: skip
    columns = ("model", "rho: paper", "rho", "agrees", "p: paper", "p", "first to last", "rho, Rieck et al.")
    note = (
        "The paper's numbers divide every matrix by its own largest weight, with p = 1. The last column "
        "follows the definition that its text cites: the largest weight of the whole network, p = 2."
    )
    return Section("Table 3: neural persistence and the loss", columns, tuple(rows), note)


def forecasts(measured: MeasuredRuns) -> Section:
    """Return Table 5: mean absolute errors of the paper's rules, with the control that it lacks."""
    errors = rule_table(measured.preset)
    wide = errors.pivot_table(index="fraction", columns="method", values="error")
    equal = _equal_shares(errors)
    rows = []
    for stated in printed()["forecast"]:
        mine = wide.loc[stated["fraction"]]
        gain = 100.0 * (1.0 - mine["combined"] / mine["loss-only"])
        agree = all(
            same_digits(float(mine[method]), stated[key])
            for method, key in (
                ("loss-only", "loss_only"),
                ("TDA-only", "tda_only"),
                ("combined", "combined"),
            )
        )
        rows.append(
            (
                f"{100 * stated['fraction']:.0f}%", stated["loss_only"], float(mine["loss-only"]),
                stated["tda_only"],
                float(mine["TDA-only"]), stated["combined"], float(mine["combined"]),
                "to every digit" if agree and same_digits(gain, stated["improvement"]) else "no",
                float(equal[stated["fraction"]]), float(mine["last-loss control"]),
            )
        )  # fmt: skip
    columns = (
        "after", "loss-only: paper", "loss-only", "TDA-only: paper", "TDA-only", "combined: paper",
        "combined", "agrees",
        "average, as the text says", "last-loss control",
    )  # fmt: skip
    worse = [row[0] for row in rows if float(row[9]) <= float(row[6])]
    note = (
        "'Combined' is 0.6 loss-only + 0.4 TDA-only; the text says their average. The control replaces the "
        "topological term by the last loss seen: it needs no topology, and its error differs from "
        "'combined' by at most "
        f"{max(abs(float(row[9]) - float(row[6])) for row in rows):.4f}"
        + (f"; at {', '.join(map(str, worse))} it is no worse." if worse else ".")
    )
    return Section("Table 5: error of forecasts of the final loss", columns, tuple(rows), note)


def _equal_shares(errors: pd.DataFrame) -> pd.Series:
    wide = errors.pivot_table(index=["fraction", "run"], columns="method", values="predicted")
    actual = errors.groupby(["fraction", "run"])["actual"].first()
    return (0.5 * (wide["loss-only"] + wide["TDA-only"]) - actual).abs().groupby("fraction").mean()


def phases(measured: MeasuredRuns) -> Section:
    """Return Table 6: steps of the largest change and of diminishing returns, by code and by text."""
    table = phase_table(measured.preset, columns=[NEURAL_PERSISTENCE]).set_index(["run", "rule"])
    rows = []
    for run, model in measured.models.items():
        stated = printed()["phases"][str(model["parameters"])]
        coded, written = table.loc[[(run, "coded")]].iloc[0], table.loc[[(run, "written")]].iloc[0]
        agree = coded["peak_step"] == stated["peak"] and coded["diminishing_step"] == stated["diminishing"]
        rows.append(
            (
                model["name"], stated["peak"], _step(coded["peak_step"]), stated["diminishing"],
                _step(coded["diminishing_step"]), "to every digit" if agree else "no",
                _step(written["peak_step"]),
                _step(written["diminishing_step"]),
            )
        )  # fmt: skip
    columns = (
        "model", "peak: paper", "peak", "diminishing: paper", "diminishing", "agrees", "peak by the text",
        "diminishing by the text",
    )  # fmt: skip
    note = (
        "The code smooths over five checkpoints and searches from the start of training; the text takes raw "
        "differences and searches after the peak. The order of the sizes in the paper's table depends on "
        "that."
    )
    return Section("Table 6: phases of neural persistence", columns, tuple(rows), note)


def _step(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def scaling(measured: MeasuredRuns) -> Section:
    """Return Table 7: power laws of the final values with the number of parameters."""
    sizes = np.array([model["parameters"] for model in measured.models.values()], dtype=np.float64)
    last = {run: measured.preset.of_run(run).iloc[-1] for run in measured.models}
    rows = []
    for key, name in (("loss", "final loss"), ("np", "neural persistence")):
        column = "loss" if key == "loss" else NEURAL_PERSISTENCE
        rows.append(_law(key, name, sizes, np.array([float(row[column]) for row in last.values()])))
    rows.insert(1, _law_of_draws(measured, sizes))
    columns = (
        "quantity", "exponent: paper", "exponent", "sd over draws", "95% interval", "R2: paper", "R2",
        "rho: paper", "rho",
        "agrees", "with an offset",
    )  # fmt: skip
    note = (
        f"A straight line in log-log through {len(sizes):,} sizes, one run each. The text also fits an "
        "offset c; its exponent is in the last column, if the points determine one."
    )
    return Section("Table 7: scaling with the number of parameters", columns, tuple(rows), note)


def _law(key: str, name: str, sizes: np.ndarray, values: np.ndarray) -> tuple[object, ...]:
    stated = printed()["scaling"][key]
    law = fit_power_law(sizes, values)
    agree = all(
        same_digits(value, stated[what])
        for value, what in ((law.exponent, "exponent"), (law.r2, "r2"), (law.spearman, "rho"))
    )
    return (
        name, stated["exponent"], law.exponent, None, f"[{law.low:.3f}, {law.high:.3f}]", stated["r2"],
        law.r2,
        stated["rho"], law.spearman, "to every digit" if agree else "no", _with_offset(sizes, values),
    )  # fmt: skip


def _law_of_draws(measured: MeasuredRuns, sizes: np.ndarray) -> tuple[object, ...]:
    stated = printed()["scaling"]["h0"]
    final = measured.draws[measured.draws["step"] == measured.draws.groupby("run")["step"].transform("max")]
    count = int(final["draw"].max()) + 1
    laws, values = [], []
    for draw in range(count):
        row = []
        for run in measured.models:
            mine = final[final["run"] == run].set_index("draw")["h0_total"]
            row.append(float(mine.get(draw, mine.iloc[0])))
        values.append(row)
        laws.append(fit_power_law(sizes, np.array(row)))
    exponents = np.array([law.exponent for law in laws])
    mean_law = fit_power_law(sizes, np.mean(values, axis=0))
    inside = exponents.min() <= float(stated["exponent"]) <= exponents.max()
    return (
        "H0 total persistence", stated["exponent"], float(exponents.mean()),
        float(exponents.std(ddof=1)) if count > 1 else None,
        f"[{mean_law.low:.3f}, {mean_law.high:.3f}]", stated["r2"], float(np.mean([law.r2 for law in laws])),
        stated["rho"], float(np.mean([law.spearman for law in laws])),
        "inside the draws" if inside else "outside the draws", _with_offset(sizes, np.mean(values, axis=0)),
    )  # fmt: skip


def _with_offset(sizes: np.ndarray, values: np.ndarray) -> str:
    law = fit_power_law(sizes, values, offset=True)
    return law.reason if law.status == "failed" else f"{law.exponent:.3f} [{law.low:.3g}, {law.high:.3g}]"


def verdict(measured: MeasuredRuns) -> Section:
    """Return what remains of the correlations of Tables 2 to 4 without the shared drift."""
    names = {NEURAL_PERSISTENCE: "neural persistence", H0: "H0 total", H1: "H1 total"}
    shown = (
        "spearman", "effective_n", "block_low", "block_high", "partial_step", "partial_norm", "walk_p",
        "r", "lag", "p", "p_holm", "verdict",
    )  # fmt: skip
    rows = []
    for run, model in measured.models.items():
        step_rho = _step_rho(measured, run)
        mine = measured.trends[measured.trends["run"] == run].set_index("column")
        for column, name in names.items():
            rows.append((model["name"], name, step_rho, *(mine.loc[column, key] for key in shown)))
    adds = [f"{row[1]} of {row[0]}" for row in rows if row[-1] == "adds"]
    note = (
        "The loss follows the step (first column of numbers), and so does anything that drifts. "
        "effective_n: the number of independent checkpoints that the pair is worth. Block interval: 95%, "
        "moving blocks. partial_step, partial_norm: rho given log step, and given log step and weight norm. "
        "walk_p: how often two independent random walks reach the same correlation. "
        "The verdict is the innovation test's, Holm-corrected over this table: "
        + (f"beyond the trend, {', '.join(adds)}." if adds else 'no row "adds".')
    )
    return Section(
        "What the correlations are worth", ("model", "feature", "rho(step, loss)", *shown), tuple(rows), note
    )


def _step_rho(measured: MeasuredRuns, run: str) -> float:
    frame = measured.preset.of_run(run)
    return float(spearmanr(frame["step"], frame["loss"]).statistic)
