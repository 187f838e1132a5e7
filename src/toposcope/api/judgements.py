"""The analysis of a store or a table, and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.results import Report

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.study.analysis import Analysis
    from toposcope.study.merged_stores import Source


def analyze(
    source: Source | Sequence[Source],
    *,
    targets: str | Sequence[str] = (),
    columns: Sequence[str] = (),
    scores: str | Path | pd.DataFrame | None = None,
    rename: Mapping[str, str] | None = None,
    pattern: str | None = None,
    without: str | Sequence[str] = (),
) -> Analysis:
    """Analyse a store (or several), a table with one row per checkpoint, or a training log.

    Parameters
    ----------
    source
        A `Store`, the path of one, a DataFrame with the columns step, features and losses (run, parameters
        and seed if there are several runs), or the path of a table or a log: see `read_log`.
        The runs of several logs are named by their files, as in `check`.
    targets
        Columns that the others are compared with; the findings are about the first one. By default the
        held-out loss or the loss, and the log perplexity for representations.
    columns
        Features to analyse; by default those of the model and of each role.
    scores
        Further targets: a file that `read_targets` reads, or what it returns.
    rename
        New names of columns of a table or a log: {"final_loss": "loss"}.
    pattern
        A regular expression for the lines of a text log that is not recognised: see `read_log`.
    without
        Runs to leave out, by name.

    Returns
    -------
    Analysis
        Its tables and findings are computed on first use. Printed, it gives the verdict.

    Raises
    ------
    InputError
        When nothing is measured, a target or a column is missing, or two stores contain the same
        kind of measurement.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"step": range(30), "loss": [5 / (i + 2) for i in range(30)],
    ...     "mine": [i**0.5 for i in range(30)]})
    >>> analyze(frame).findings["beyond"].strength in ("trend only", "cannot tell")
    True
    """
    from toposcope.published.rules import PUBLISHED
    from toposcope.runs.judging import judged
    from toposcope.study.analysis import analysis_of
    from toposcope.watch.journal import alarms_of
    from toposcope.watch.replay import replays_by_run

    stores = stores_among(source)
    return analysis_of(
        source, targets=targets, columns=columns, scores=scores, rename=rename, pattern=pattern,
        without=without, published=PUBLISHED, alarms=alarms_of(stores),
        judge=partial(judged, replays=replays_by_run(stores)),
    )  # fmt: skip


def stores_among(source: Source | Sequence[Source]) -> list[Path]:
    """Return the folders of the stores among the sources."""
    from toposcope.store import MANIFEST, Store

    several = source if isinstance(source, list | tuple) else [source]
    places = [place.path if isinstance(place, Store) else place for place in several]
    paths = [Path(place) for place in places if isinstance(place, str | Path)]
    return [path for path in paths if (path / MANIFEST).is_file()]


def report(
    source: Analysis | Source | Sequence[Source],
    out: str | Path,
    *,
    title: str | None = None,
    target: str | None = None,
    scores: str | Path | pd.DataFrame | None = None,
    rename: Mapping[str, str] | None = None,
    pattern: str | None = None,
    without: str | Sequence[str] = (),
    quiet: bool = True,
) -> Report:
    """Write the results of a store as one self-contained page, and its figures and tables as files.

    Parameters
    ----------
    source
        An `Analysis`, a store, several stores (weights beside representations), or a table.
    out
        The folder of the report. An earlier report in it is replaced; a folder with anything else is refused.
    title
        The page's title.
    target
        Column that the measurements are compared with; by default the held-out loss, the loss or the log
        perplexity.
    scores
        Further targets: a file, or what `read_targets` returns.
    rename
        New names of columns of a table or a log: {"final_loss": "loss"}.
    pattern
        A regular expression for the lines of a text log that is not recognised: see `read_log`.
    without
        Runs to leave out, by name.
    quiet
        Show no progress on standard error.

    Returns
    -------
    Report
        Where the page is, and the analysis behind it.

    Raises
    ------
    InputError
        When nothing is measured, the target is missing, or `out` contains something else.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import toposcope as ts
    >>> frame = pd.DataFrame({"step": range(30), "loss": [5 / (i + 2) for i in range(30)],
    ...     "mine": [i**0.5 for i in range(30)]})
    >>> made = ts.report(frame, tempfile.mkdtemp())
    >>> made.page.name, sorted(path.name for path in made.page.parent.iterdir())
    ('index.html', ['figures', 'index.html', 'report.md', 'tables'])
    """
    from toposcope.page.page import check_target
    from toposcope.page.write import TITLE, write_studies
    from toposcope.study.analysis import Analysis

    check_target(Path(out))
    if not isinstance(source, Analysis):
        source = analyze(
            source,
            targets=() if target is None else target,
            scores=scores,
            rename=rename,
            pattern=pattern,
            without=without,
        )
    page = write_studies(source.studies, out, title=TITLE if title is None else title, quiet=quiet)
    return Report(page, source)
