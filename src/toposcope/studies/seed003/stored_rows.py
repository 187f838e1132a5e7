"""The embedding report again, from its own stored rows: its tables, each with tests."""

from __future__ import annotations

import json
import math
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.studies.claims import claims_section
from toposcope.studies.sections import Section
from toposcope.studies.seed003.claims import claims
from toposcope.studies.seed003.report import FEATURES, SPECTRUM, TOPOLOGY, printed
from toposcope.study import from_frame, segment_table, trend_table

_NEEDED = ("step", "perplexity", *TOPOLOGY, *SPECTRUM, "top_eigenvalue", "h0_total_persistence")


def read_rows(folder: Path) -> pd.DataFrame:
    """Return the stored rows of every model as one table, by run and step.

    Raises
    ------
    InputError
        When the folder holds no `*_results.json`, or one of them is not a list of measured checkpoints.
    """
    files = sorted(folder.glob("*_results.json")) if folder.is_dir() else []
    files = [path for path in files if path.name != "all_results.json"]
    if not files:
        raise InputError(f"{folder} contains no *_results.json: give the folder with the report's rows")
    frames = [_read_model(path) for path in files]
    rows = pd.concat(frames, ignore_index=True)
    rows["log_perplexity"] = np.log(rows["perplexity"])
    rows["h1_entropy_normalized"] = rows["h1_persistence_entropy"] / np.log(rows["h1_n_features"])
    order = [name for name in printed()["trajectory"] if name in set(rows["run"])]
    rank = {name: place for place, name in enumerate(order)}
    return rows.sort_values(
        ["run", "step"], key=lambda c: c.map(rank) if c.name == "run" else c, ignore_index=True
    )


def _read_model(path: Path) -> pd.DataFrame:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        frame = pd.DataFrame(content)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is not a JSON list of checkpoints ({error}); fetch it again") from error
    missing = [name for name in _NEEDED if name not in frame]
    if missing:
        raise InputError(f"{path} lacks {missing[0]!r}: it is not a file of the embedding report")
    return frame.assign(run=path.name.removesuffix("_results.json"))


def reproduce_rows(folder: Path) -> list[Section]:
    """Return the report's tables beside those of its own rows, with corrected columns."""
    rows = read_rows(folder)
    table = from_frame(rows, features=list(FEATURES), targets=("log_perplexity",))
    trends = trend_table(table, targets=["log_perplexity"], every=True)
    return [
        claims_section(claims(rows, trends)),
        trajectory_section(rows),
        final_section(rows),
        correlation_section(trends),
        worth_section(trends),
        noise_section(rows),
        phase_section(rows),
    ]


def write_rows_report(folder: Path, out: Path) -> Path:
    """Write the report page of the stored rows into the folder `out` and return the page's path.

    Raises
    ------
    InputError
        When the rows cannot be read, or `out` holds something that is not a report.
    """
    from toposcope.page import write_studies
    from toposcope.studies.seed003.report_files import tidy_rows
    from toposcope.study.analysis import study_of_rows
    from toposcope.subjects import own_catalogue
    from toposcope.subjects.representations import SUBJECT as REPRESENTATIONS

    rows = read_rows(folder)
    runs = rows[["run"]].drop_duplicates()
    study = study_of_rows(REPRESENTATIONS, tidy_rows(rows), None, runs, catalogue=own_catalogue())
    return write_studies([study], out, title="The embedding report, from its stored rows")


def trajectory_section(rows: pd.DataFrame) -> Section:
    """Return every printed trajectory entry that its stored row contradicts."""
    wrong, total = [], 0
    names = printed()["columns"]
    for run, table in printed()["trajectory"].items():
        mine = rows[rows["run"] == run].set_index("step")
        for entry in table:
            values = dict(zip(names, entry, strict=True))
            step = values.pop("step")
            if step not in mine.index:
                continue
            for name, value in values.items():
                total += 1
                stored = float(mine.loc[step, name])
                if not _agrees(value, stored):
                    wrong.append((run, step, name, float(value), stored))
    note = (
        f"{total - len(wrong)} of {total} printed entries agree with the stored rows to every printed digit; "
        f"these {len(wrong):,} do not. The rows are the measurements."
    )
    return Section("Trajectories: where the report contradicts its rows", _WRONG, tuple(wrong), note)


_WRONG = ("model", "step", "quantity", "report", "rows")


def _agrees(value: float, stored: float) -> bool:
    text = repr(value)
    digits = len(text.partition(".")[2]) if "." in text else 0
    return math.isclose(round(stored, digits), float(value), abs_tol=0.51 * 10.0**-digits * 1e-6 + 1e-12)


def final_section(rows: pd.DataFrame) -> Section:
    """Return the models at their last step, beside the H1 totals that the report prints."""
    stated = {run: float(table[-1][3]) for run, table in printed()["trajectory"].items()}
    lines = []
    for run, mine in rows.groupby("run", sort=False):
        last = mine.iloc[-1]
        lines.append(
            (
                str(run), int(last["step"]), float(last["perplexity"]), float(last["h1_n_features"]),
                float(last["h1_total_persistence"]), stated.get(str(run)),
                float(last["h1_persistence_entropy"]), float(last["effective_rank"]),
            )
        )  # fmt: skip
    columns = (
        "model", "step", "perplexity", "H1 bars", "H1 total", "H1 total (report)", "H1 entropy",
        "effective rank",
    )  # fmt: skip
    note = "Each line is one run; intervals would need several seeds."
    both = [line for line in lines if line[5] is not None]
    if both:
        measured, claimed = max(both, key=itemgetter(4)), max(both, key=itemgetter(5))
        note = (
            f"The largest final H1 total persistence is that of {measured[0]} as measured, and that of "
            f"{claimed[0]} in the report's table. {note}"
        )
    return Section("The last checkpoint of every model", columns, tuple(lines), note)


def correlation_section(trends: pd.DataFrame, *, same_data: bool = True) -> Section:
    """Return Spearman's rho with perplexity per model and the mean of |rho|, beside the printed mean.

    With `same_data` the rows are the report's own, so the printed digits must agree.
    """
    wide = trends.pivot(index="column", columns="run", values="spearman")[list(trends["run"].unique())]
    lines = []
    for feature in FEATURES:
        values = wide.loc[feature].to_numpy(dtype=np.float64).tolist()
        mean = float(np.mean(np.abs(values)))
        stated = printed()["mean_correlation"].get(feature)
        line: tuple[object, ...] = (feature, *values, mean, stated)
        if same_data:
            line += (None if stated is None else ("yes" if abs(mean - stated) < 1.001e-3 else "no"),)
        lines.append(line)
    columns = ("feature", *map(str, wide.columns), "mean |rho|", "report")
    note = (
        "The last three features are not in the report. The top covariance eigenvalue is a number of the "
        "spectrum. If it correlates as strongly as topology does, the report's gap between topology and "
        "spectrum depends only on which spectral number was chosen."
    )
    if not same_data:
        return Section(
            "Rank correlation with perplexity (the report's means are Pythia's)", columns, tuple(lines), note
        )
    return Section("Rank correlation with perplexity", (*columns, "within .001"), tuple(lines), note)


def worth_section(trends: pd.DataFrame) -> Section:
    """Return, per model and feature, what remains of the correlation without the shared trend."""
    names = ("run", "column", "spearman", "partial_step", "effective_n", "block_low", "block_high", "walk_p")
    shown = [*names, "r", "lag", "p", "p_holm", "verdict"]
    lines = tuple(tuple(row) for row in trends[shown].itertuples(index=False))
    adds = trends[trends["verdict"] == "adds"]
    tested, rows = int((trends["verdict"] != "cannot tell").sum()), len(trends)
    named = ", ".join(f"{r}: {c}" for r, c in zip(adds["run"], adds["column"], strict=True))
    none = f"none of the {tested:,} that could be tested adds" if tested else "none could be tested"
    passing = f"of {rows:,} rows {named or none}"
    note = (
        "Perplexity falls with the step almost without exception, so anything that drifts correlates with "
        "it. partial_step is Spearman's rho given the log step. walk_p is how often two independent random "
        "walks of this length reach the same correlation. The verdict is that of the innovation test on the "
        f"log perplexity, Holm-corrected over all rows: {passing}. "
        f"With {int(trends['n'].max()):,} checkpoints per run, only strong effects can be detected."
    )
    return Section("What the correlations are worth", tuple(shown), lines, note)


def noise_section(rows: pd.DataFrame) -> Section:
    """Return the change from step 0 to step 1, where the stored perplexity does not change at all."""
    lines = []
    for run, mine in rows.groupby("run", sort=False):
        pair = mine[mine["step"].isin((0, 1))]
        if len(pair) != 2 or pair["perplexity"].nunique() != 1:
            continue
        first, second = pair.iloc[0], pair.iloc[1]
        for name in ("h1_n_features", "h1_persistence_entropy", "h1_total_persistence", "effective_rank"):
            lines.append(
                (run, name, float(first[name]), float(second[name]), float(second[name] - first[name]))
            )
    note = (
        "The stored perplexity at step 0 and at step 1 is the same to the last digit, so the model is the "
        "same. The H1 numbers differ. This difference is the noise of the measurement, so a difference of "
        "that size between two other checkpoints means nothing."
    )
    columns = ("model", "quantity", "step 0", "step 1", "difference")
    return Section("The noise of the measurement", columns, tuple(lines), note)


def phase_section(rows: pd.DataFrame) -> Section:
    """Return the report's three phases beside the segments that a calibrated changepoint search finds."""
    table = from_frame(rows, features=["h1_total_persistence", "effective_rank"], targets=("log_perplexity",))
    segments = segment_table(table)
    names = (
        "run",
        "column",
        "segment",
        "start_step",
        "end_step",
        "slope",
        "slope_low",
        "slope_high",
        "embedding_label",
    )
    segments = segments.astype({"start_step": "Int64", "end_step": "Int64"})
    lines = tuple(tuple(row) for row in segments[list(names)].itertuples(index=False))
    phases = ", ".join(f"{name} {low} to {high}" for name, (low, high) in printed()["phases"].items())
    note = (
        f"The report's phases, read off the figure: {phases}. Segments are lines over the log of the step, "
        "so step 0 is left out."
    )
    return Section("Phases", names, lines, note)
