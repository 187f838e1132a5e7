"""What the part of a page on a study draws and says, without rendering it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from toposcope.page.on_page import Caption
from toposcope.page.parts import worded
from toposcope.page.roster import figures_of
from toposcope.study.study import Study


def drawn(study: Study) -> dict[str, Figure]:
    """Return the figures that the study has the numbers for, by file name, in reading order."""
    return {
        one.file_name(study.subject.name): one.draw(study)
        for one in figures_of(study.subject)
        if one.needs(study)
    }


def captions(study: Study) -> dict[str, Caption]:
    """Return their words."""
    return {
        one.file_name(study.subject.name): worded(study, one)
        for one in figures_of(study.subject)
        if one.needs(study)
    }


def with_tables(study: Study, **given: pd.DataFrame) -> Study:
    """Return the study with these tables instead of computed ones."""
    return replace(study, given={**study.given, **given})
