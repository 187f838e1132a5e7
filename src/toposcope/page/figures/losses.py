"""The loss that was logged, against the step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing import loss_curves
from toposcope.core.forms import listed, span
from toposcope.core.groups import families_of
from toposcope.logs.objective import objective_of
from toposcope.page.notes import alarmed, fell, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.study.tables import StudyTables


def losses_of(study: StudyTables) -> pd.DataFrame:
    """Return the logged losses of a study: of a store its metrics, of a table its own rows."""
    table = study.metrics if len(study.features) or study.log is None else study.log.metrics
    return table.reindex(columns=["run", "step", "loss", "heldout_loss"])


def _runs_of(study: Study) -> pd.DataFrame:
    """Return the runs by the names of their log: a table that names no run is called by its file."""
    names = losses_of(study)["run"].unique()
    return study.runs.assign(run=names[0]) if len(names) == len(study.runs) == 1 else study.runs


def _logged(study: Study) -> bool:
    return bool(losses_of(study)[["loss", "heldout_loss"]].notna().any(axis=None))


def _drawn(study: Study) -> Figure:
    metrics, runs = losses_of(study), _runs_of(study)
    if len(more := _odd_elsewhere(study)) and study.among is not None:
        others, known_runs = losses_of(study.among), study.among.runs
        metrics = pd.concat([metrics, others[others["run"].isin(more)]], ignore_index=True)
        runs = pd.concat([runs, known_runs[known_runs["run"].isin(more)]], ignore_index=True)
    odd = [odd_run.run for odd_run in study.odd.found]
    return loss_curves.draw(metrics, runs, symptoms=symptoms_of(study), ahead=ahead_of(study), odd=odd)


def _odd_elsewhere(study: Study) -> list[str]:
    """Return the odd runs that are in another group than this study's runs because of their settings."""
    return [
        odd_run.run for odd_run in study.odd.found if odd_run.run not in set(study.runs["run"].astype(str))
    ]


def ahead_of(study: Study) -> dict[str, np.ndarray]:
    """Return the forecast path of each unfinished run: (n, 4) of step, loss, low and high."""
    on = study.findings.get("on")
    paths = on.numbers["ahead"] if on is not None else ()
    return {path["run"]: np.asarray(path["path"], dtype=float) for path in paths if path["path"]}


def _caption(study: Study) -> Caption:
    held = bool(losses_of(study)["heldout_loss"].notna().any())
    can = "How fast and how far each run learned, up to the noise of a minibatch."
    cannot = (
        "Generalisation: no held-out loss was recorded, and the training loss is measured on the "
        "data that the model learns from."
    )
    if held:
        can = "How fast and how far each run learned, and how far training and held-out loss are apart."
        cannot = "How the runs would continue: the learning-rate schedule has shaped the end of every curve."
    shown = (
        "The loss on fixed held-out batches at each checkpoint. Pale: the training loss, averaged within "
        "log-spaced bins."
        if held
        else "Every logged training loss; more than 220 of a run are drawn as means within log-spaced bins, "
        "with their 5% to 95% range."
    )
    return Caption(
        _title(study),
        shown
        + _forecast_drawn(study, held=held)
        + _beside(study)
        + (
            " A dashed vertical line is a fault that the log shows, with its name."
            if faulty_logs(study)
            else ""
        )
        + alarmed(study),
        can,
        cannot + " Also, " + of_seeds(study) + ".",
        f"Loss, in the unit it was logged in, against the optimiser step on a log axis, for {_lines(study)}.",
    )


def _lines(study: Study) -> str:
    """Return of how many model sizes there are curves, or of how many runs where no size is known."""
    sized = (study.runs["parameters"] > 0).any()
    count, noun = (len(study.sizes), "model size") if sized else (len(study.runs), "run")
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _forecast_drawn(study: Study, *, held: bool) -> str:
    if not ahead_of(study):
        return ""
    of = " of the training loss" if held else ""
    unplanned = any(not path["sure"] for path in study.findings["on"].numbers["ahead"])
    valid = ", which assumes that the learning rate stays as it is" if unplanned else ""
    return f" A dashed curve with a band is the forecast{of} with its interval{valid}."


def _beside(study: Study) -> str:
    more = _odd_elsewhere(study)
    return f" Drawn separately, because it is unlike the others: {listed(more)}." if more else ""


def _title(study: Study) -> str:
    """Return the first and last of the drawn losses as a title: of the held-out ones if there are any."""
    table = losses_of(study)
    column, name = "heldout_loss", "held-out loss"
    if not table[column].notna().any():
        column, name = "loss", "training loss"
    for odd_run in study.odd.found[:1]:
        for beside in odd_run.beside:
            if beside.label.endswith(name):
                theirs = span([beside.low, beside.high], "{:,.2f}")
                return (
                    f"{odd_run.run} leaves its siblings: {beside.label} {beside.value:,.2f}, theirs {theirs}"
                )
    by_run = table.dropna(subset=[column]).sort_values("step", kind="stable").groupby("run")[column]
    ends = by_run.agg(["first", "last"])
    trend = study.log is None or objective_of(study.log.judged, column).has_trend
    if ends.empty or not trend or len(set(families_of(study.runs).values())) > 1:
        return "The loss of every run"
    return fell(name, ends, so_far=bool(ahead_of(study)))


def symptoms_of(study: Study) -> dict[str, list[tuple[str, float]]]:
    """Return where the training log of each run shows a fault or a watch raised an alarm: kind and step."""
    faults = faulty_logs(study)
    names = [str(run) for run in losses_of(study)["run"].unique()]
    marks_by_run = {
        run: [*dict.fromkeys([*faults.get(run, ()), *study.alarms.get(run, ())])] for run in names
    }
    return {run: marks for run, marks in marks_by_run.items() if marks}


def faulty_logs(study: Study) -> dict[str, list[tuple[str, float]]]:
    """Return the faults in the training log of each run, those of the finding "on": kind and step."""
    symptoms: dict[str, list[tuple[str, float]]] = {}
    on = study.findings.get("on")
    for symptom in on.numbers["faulty"] if on is not None else ():
        symptoms.setdefault(symptom["run"], []).append((symptom["kind"], float(symptom["step"])))
    return symptoms


ON_PAGE = OnPage(
    "loss_{subject}",
    questions={"odd": 1, "on": 1, "end": 2, "when": 9},
    needs=_logged,
    draw=_drawn,
    caption=_caption,
    means=True,
    of_log=True,
    leads=True,
)
