"""The part of the page that is about loss gradients: one figure, their correlations, and what they add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.figures import correlations
from toposcope.figures import gradients as figure_of_gradients
from toposcope.figures.series import size_list
from toposcope.report.counts import verdict_counts
from toposcope.report.parts import Caption, Part, Table, drawn
from toposcope.report.weights.study import Study
from toposcope.report.weights.tables import trends_table


@dataclass(frozen=True)
class Gradients:
    """A study whose rows are all of gradients."""

    study: Study

    @property
    def runs(self) -> pd.DataFrame:
        """The runs."""
        return self.study.runs

    @property
    def features(self) -> pd.DataFrame:
        """The store's rows."""
        return self.study.features

    @property
    def audit(self) -> pd.DataFrame:
        """What the audit of the checkpoints found."""
        return self.study.audit

    @property
    def provenance(self) -> Mapping[str, object]:
        """Where the numbers were made."""
        return self.study.provenance


def gradients_part(given: Gradients) -> Part:
    """Word, tabulate and draw a study of gradients."""
    study = given.study
    table = trends_table(study, headline=False)
    return Part(
        name="gradients",
        heading="Gradients",
        subject="Persistent homology of the loss gradients on a fixed batch during training. "
        f"Model sizes: {size_list(study.runs)}.",
        headline=_headline(study),
        answers=(("Does it tell anything beyond the trend?", _beyond(study)),),
        pictures=tuple(drawn(_figures(study), _captions(study))),
        tables={"gradient_trends": _renamed(table)} if table.rows else {},
        lead="",
    )


def _figures(study: Study) -> Iterator[tuple[str, Figure]]:
    yield "gradients", figure_of_gradients.draw(study.features, study.runs)
    yield (
        "gradient_correlations",
        correlations.draw(study.trends, study.runs, study.series.catalogue, target=study.target),
    )


def _headline(study: Study) -> str:
    counted = verdict_counts(study.trends, study.target, study.series.catalogue)
    name = study.series.label(study.target)
    if not counted.tested:
        return f"Whether the topology of the gradients tells more than the {name} cannot be concluded."
    n = f"{counted.found} of {counted.tested} tests"
    if not counted.found:
        return (
            "The topology of the gradients tells nothing that can be seen beyond the trend: "
            f"{n} find that it moves with the {name} for any reason but time."
        )
    return f"Some topology of the gradients moves with the {name} beyond their shared trend ({n})."


def _beyond(study: Study) -> str:
    counted = verdict_counts(study.trends, study.target, study.series.catalogue)
    if not counted.tested:
        return "No run has enough checkpoints for the test on innovations, or no loss is recorded."
    text = f"The correlation of innovations passes its test in {counted.found} of {counted.tested} pairs."
    if np.isfinite(counted.detectable):
        text += f" Below about {min(counted.detectable, 1.0):.2f} it would not have been seen."
    if counted.baselines_tested:
        text += f" Norms and spectra pass it in {counted.baselines_found} of {counted.baselines_tested}."
    return text


def _captions(study: Study) -> dict[str, Caption]:
    return {
        "gradients": Caption(
            "Gradients",
            "The norm of the gradient on a fixed batch, the cloud of its matrices' rows, and the neural "
            "persistence of its matrices. Bands are 95% intervals of the mean over random subsamples.",
            "How the gradient's size and shape move during training.",
            "H0 grows and shrinks with the norm: only the panels without scale are about shape. A gradient "
            "of one batch carries that batch's noise.",
            "Four panels against the optimiser step: gradient norm, H0, scaled H1 and neural persistence.",
        ),
        "gradient_correlations": Caption(
            f"Correlation of gradient features with the {study.series.label(study.target)}",
            "Spearman's rho over checkpoints, the same given log step where it exists, and the correlation "
            "of innovations; outlined cells passed the test after correction for their number.",
            "Only outlined cells speak of a relation beyond a shared trend.",
            "Nothing from a dark cell on the left alone, and nothing about cause.",
            "Heat maps of gradient features against model sizes, by correlation with the loss.",
        ),
    }


def _renamed(table: Table) -> Table:
    return Table(
        "gradient_trends",
        table.title.removesuffix(": the other features"),
        table.caption,
        table.columns,
        table.rows,
        table.groups,
        table.frame,
        folded=True,
        grouped=True,
    )
