"""The loss that was logged, against the step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing import loss_curves
from toposcope.core.forms import listed, span
from toposcope.page.notes import alarmed, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.study.tables import StudyTables


def losses_of(study: StudyTables) -> pd.DataFrame:
    """Return the logged losses of a study: of a store its metrics, of a table its own rows.

    A log of one run that names none may call it otherwise than the study does.
    """
    table = study.metrics if len(study.features) or study.log is None else study.log.metrics
    table = table.reindex(columns=["run", "step", "loss", "heldout_loss"])
    names = list(study.runs["run"])
    return table.assign(run=names[0]) if table["run"].nunique() == len(names) == 1 else table


def _logged(study: Study) -> bool:
    return bool(losses_of(study)[["loss", "heldout_loss"]].notna().any(axis=None))


def _drawn(study: Study) -> Figure:
    metrics, runs = losses_of(study), study.runs
    if len(more := _odd_elsewhere(study)) and study.among is not None:
        others, known = losses_of(study.among), study.among.runs
        metrics = pd.concat([metrics, others[others["run"].isin(more)]], ignore_index=True)
        runs = pd.concat([runs, known[known["run"].isin(more)]], ignore_index=True)
    return loss_curves.draw(metrics, runs, symptoms=symptoms_of(study), ahead=ahead_of(study))


def _odd_elsewhere(study: Study) -> list[str]:
    """Return the runs that are not like those of this study, and are of another group by their settings."""
    return [one.run for one in study.odd.found if one.run not in set(study.runs["run"].astype(str))]


def ahead_of(study: Study) -> dict[str, np.ndarray]:
    """Return where each run that goes on is forecast to go: (n, 4) of step, loss, low and high."""
    on = study.findings.get("on")
    found = on.numbers["ahead"] if on is not None else ()
    return {one["run"]: np.asarray(one["path"], dtype=float) for one in found if one["path"]}


def _caption(study: Study) -> Caption:
    held = losses_of(study)["heldout_loss"].notna().any()
    can = "How fast and how far each run learned, up to the noise of a minibatch."
    cannot = (
        "Generalisation: no held-out loss was recorded, and the training loss is measured on the "
        "data that the model learns from."
    )
    if held:
        can = "How fast and how far each run learned, and how far training and held-out loss are apart."
        cannot = "How the runs would go on: the learning-rate schedule has shaped the end of every curve."
    shown = (
        "The loss on fixed held-out batches at each checkpoint. Pale: the training loss, averaged within "
        "log-spaced bins."
        if held
        else "Training loss of every step, averaged within log-spaced bins with their 5% to 95% range."
    )
    return Caption(
        _title(study),
        shown
        + (" A dashed curve with a band is the forecast with its interval." if ahead_of(study) else "")
        + _beside(study)
        + (
            " A dashed vertical line is a fault that the log shows, with its name."
            if faulty_logs(study)
            else ""
        )
        + alarmed(study),
        can,
        cannot + " Also, " + of_seeds(study) + ".",
        "Loss, in the unit it was logged in, against the optimiser step on a log axis, for "
        f"{len(study.sizes)} model size{'s' * (len(study.sizes) != 1)}.",
    )


def _beside(study: Study) -> str:
    more = _odd_elsewhere(study)
    return f" Drawn separately, because it is unlike the others: {listed(more)}." if more else ""


def _title(study: Study) -> str:
    """Return what the losses did, as the finding on what changed has it."""
    quality = study.findings["changed"].numbers["quality"]
    if not quality or len(quality["ranges"]) != 1 or quality["rose"]:
        return "The loss of every run"
    first, last = (span(quality["ranges"][0][end], "{:,.2f}") for end in ("first", "last"))
    return f"The {quality['label']} fell from {first} to {last}"


def symptoms_of(study: Study) -> dict[str, list[tuple[str, float]]]:
    """Return where the training log of each run shows a fault or a watch raised an alarm: kind and step."""
    faults = faulty_logs(study)
    names = [str(run) for run in losses_of(study)["run"].unique()]
    found = {run: [*dict.fromkeys([*faults.get(run, ()), *study.alarms.get(run, ())])] for run in names}
    return {run: marks for run, marks in found.items() if marks}


def faulty_logs(study: Study) -> dict[str, list[tuple[str, float]]]:
    """Return where the training log of each run shows a fault, as the finding "on" has it: kind and step."""
    found: dict[str, list[tuple[str, float]]] = {}
    on = study.findings.get("on")
    for one in on.numbers["ill"] if on is not None else ():
        found.setdefault(one["run"], []).append((one["kind"], float(one["step"])))
    return found


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
