"""Trend tables: the correlation of each feature with each target, with and without drift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.threads import run_blocks
from toposcope.statistics import correlations as stat
from toposcope.statistics.trends.descriptive import (
    DEFAULT,
    DEFAULT_DRAWS,
    EVERY,
    LEAST_POINTS,
    Draws,
    pair_statistics,
)
from toposcope.statistics.trends.pooling import TEST, RunPair, parts_of, pooled
from toposcope.statistics.trends.refusals import FEW_DECIDE, TOO_FEW
from toposcope.statistics.trends.signs import detectable_r
from toposcope.study.table import SeriesTable

__all__ = ["LEAST_POINTS", "Draws", "default_columns", "family_table", "trend_table"]

ADDS, TREND, UNKNOWN = "adds", "trend only", "cannot tell"
_JUDGED = ("p_holm", "q", "confirmatory", "family_size", "detectable_r", "verdict")
NOTHING_SHARED = "no shared movement beyond trend"
UNKNOWN_RATE = "learning rate not known"
SCREENED = "exploratory: significant at a {:g}% false-discovery rate, not confirmed"
_IDENTITY = ("run", "target", "column", "probe", "scope", "feature", "n")
_LAG = ("lag", "lag_steps", "first")
FAMILY_COLUMNS = (
    "target", "column", "runs", "n", *TEST, *_LAG, "departure_rho", *_JUDGED, "rate_known", "reason",
)  # fmt: skip


def trend_table(
    table: SeriesTable,
    *,
    targets: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    scopes: Sequence[str] = ("model", "role"),
    alpha: float = 0.05,
    draws: Draws = DEFAULT_DRAWS,
    every: bool = False,
) -> pd.DataFrame:
    """Correlate every feature with every target in every run: the detail behind `family_table`.

    Parameters
    ----------
    table
        Features and targets (`series_table`, or `from_frame` for tables made elsewhere).
    targets
        Columns of the table to correlate with; by default its `default_targets`. Holm's method runs over each
        one's rows alone.
    columns, scopes
        Features to test; by default those of the model and of the roles, without their shuffle nulls.
    alpha
        Level of the verdict on the p-value that Holm's method adjusts over the confirmatory rows of a target.
    every
        Add all statistics that are usually reported, most of them wrong under drift.

    Returns
    -------
    pandas.DataFrame
        The columns that the package's documentation lists under `trend_table`.

    Raises
    ------
    InputError
        If a target or a column is not in the table.

    Examples
    --------
    >>> from toposcope.study.table import from_frame
    >>> step = np.arange(51) * 100
    >>> noise = np.random.default_rng(0).standard_normal((2, 51)) / 50
    >>> frame = pd.DataFrame({"step": step, "loss": 5 * (step + 100.0) ** -0.3 + noise[0]})
    >>> frame["other"] = np.log(step + 50.0) + noise[1]
    >>> row = trend_table(from_frame(frame), draws=Draws(100, 100, 1000)).iloc[0]
    >>> bool(row["spearman"] < -0.9), row["verdict"]
    (True, 'trend only')
    """
    targets, columns, primary = _chosen(table, targets, columns, scopes)
    blocks = [
        block
        for target in targets
        for run in table.run_names
        for block in _of_run(table, run, target, columns, draws, every)
    ]
    columns_of_trends = EVERY if every else DEFAULT
    extra = ("naive_bonferroni",) if every else ()
    names = [*_IDENTITY, *columns_of_trends, *TEST, *_LAG, *extra, *_JUDGED, "rate_known", "status", "reason"]
    if not blocks:
        return pd.DataFrame(columns=names)
    out = pd.concat(blocks, ignore_index=True)
    out = out.merge(table.catalogue[["column", "probe", "scope", "feature"]], on="column", how="left")
    out = _ordered(out, {"target": targets, "run": table.run_names, "column": columns})
    out = judged(out, primary, alpha)
    if every:
        for _, rows in out.groupby("target").groups.items():
            naive_p = out.loc[rows, "naive_p"]
            out.loc[rows, "naive_bonferroni"] = np.minimum(naive_p * np.isfinite(naive_p).sum(), 1.0)
    return out[names]


def family_table(
    table: SeriesTable,
    *,
    targets: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    scopes: Sequence[str] = ("model", "role"),
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Test for each feature and target, once over all runs, whether they share more than a trend.

    The products of innovations are added over the runs at every step, and the same sign flips all runs of a
    step, so that runs that saw the same batches need not be independent. Runs too short or too smooth are
    left out, and `reason` says how many were tested.

    Returns
    -------
    pandas.DataFrame
        One row per target and column: `target`, `column`, `runs` (tested), `n` (checkpoints over all of
        them), `r` with the interval [`r_low`, `r_high`] that inverts the test, `p`, the `lag` of all three in
        checkpoints (`lag_steps` in steps, where these are even; `first` is "feature" where the lag is
        positive, "target" where it is negative), `departure_rho` (mean over runs), `p_holm` (over the
        `family_size` confirmatory rows of the target), `q` (Benjamini-Hochberg over the others),
        `confirmatory`, `detectable_r` (found with 80% power at this n and family, at lag 0), `verdict`,
        `rate_known` (whether the learning rate was) and `reason`: one clause, which names a special rule of
        the test only where the verdict would be another without it.

    Raises
    ------
    InputError
        If a target or a column is not in the table.

    Examples
    --------
    >>> from toposcope.study.table import from_frame
    >>> noise = np.random.default_rng(0).standard_normal((3, 40))
    >>> frame = pd.DataFrame({"step": range(40), "loss": noise[0], "f": noise[0] + 0.3 * noise[1]})
    >>> family_table(from_frame(frame.assign(g=noise[2])))["verdict"].tolist()
    ['adds', 'trend only']
    """
    targets, columns, primary = _chosen(table, targets, columns, scopes)
    rows = []
    for target in targets:
        parts: dict[str, list[RunPair]] = {column: [] for column in columns}
        for run in table.run_names:
            for steps, x, y, rate, names in _groups(table, run, target, columns):
                for column, part in zip(names, parts_of(x, y, steps, rate), strict=True):
                    parts[column].append(part)
        rows += [
            {"target": target, "column": column, "reason": "", **pooled(parts[column])} for column in columns
        ]
    if not rows:
        return pd.DataFrame(columns=list(FAMILY_COLUMNS))
    return judged(pd.DataFrame(rows), primary, alpha)[list(FAMILY_COLUMNS)]


def default_columns(table: SeriesTable, scopes: Sequence[str] = ("model", "role")) -> list[str]:
    """Return the features of the given scopes; nulls, spreads and targets have scopes of their own."""
    return list(table.catalogue.loc[table.catalogue["scope"].isin(list(scopes)), "column"])


def _chosen(
    table: SeriesTable, targets: Sequence[str] | None, columns: Sequence[str] | None, scopes: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """Return the targets, the columns and those of them that are confirmatory."""
    primary = _primary_columns(table, columns)
    targets = table.default_targets if targets is None else targets
    columns = default_columns(table, scopes) if columns is None else columns
    for name in (*targets, *columns):
        if name not in table.values:
            raise InputError(
                f"{name!r} is not a column of the table; it has {', '.join(table.targets)} and features"
                + did_you_mean(name, [*table.targets, *table.columns()])
            )
    return list(targets), list(columns), primary


def _ordered(out: pd.DataFrame, order: dict[str, list[str]]) -> pd.DataFrame:
    keys = {name: {value: i for i, value in enumerate(values)} for name, values in order.items()}
    places = [out[name].map(key).to_numpy() for name, key in reversed(keys.items())]
    return out.iloc[np.lexsort(places)].reset_index(drop=True)


def _primary_columns(table: SeriesTable, columns: Sequence[str] | None = None) -> list[str]:
    """Return the columns over which the verdict is corrected.

    They are those that the catalogue calls `primary`. `columns`, where given, restricts them, and where none
    of those named is primary, naming them is the choice.
    """
    primary = list(table.catalogue.loc[table.catalogue["primary"].astype(bool), "column"])
    if columns is None:
        return primary
    named = [column for column in columns if column in set(primary)]
    return named or list(columns)


def judged(out: pd.DataFrame, primary: Sequence[str], alpha: float) -> pd.DataFrame:
    """Add Holm's p over the confirmatory rows of each target, q over the others, and the verdicts.

    `out` has target, column, n, p, reason, and `least` (the smallest p within reach), `free` (innovations
    less trends), `why` (why no p), `spikes` (p is that of shared spikes), `doubt` (why a small p says
    nothing), `turned` (the steps of a turn that was left out, and that a step of an unknown learning rate
    would make), `rate_known`, `part` and `otherwise` (`pooling.pooled`).
    """
    out = out.assign(first=np.select([out["lag"] > 0, out["lag"] < 0], ["feature", "target"], ""))
    out = out.assign(p_holm=np.nan, q=np.nan, confirmatory=out["column"].isin(list(primary)), family_size=0)
    for target in out["target"].unique():
        mine = out["target"] == target
        sure, rest = mine & out["confirmatory"], mine & ~out["confirmatory"]
        out.loc[mine, "family_size"] = int(out.loc[sure, "p"].notna().sum())
        out.loc[sure, "p_holm"] = stat.holm(out.loc[sure, "p"].to_numpy(float))
        out.loc[rest, "q"] = stat.benjamini_hochberg(out.loc[rest, "p"].to_numpy(float))
    sizes = [(int(n), max(int(m), 1)) for n, m in zip(out["free"], out["family_size"], strict=True)]
    distinct = list(dict.fromkeys(sizes))
    detectable = dict(zip(distinct, run_blocks(lambda size: detectable_r(*size), distinct), strict=True))
    out["detectable_r"] = [detectable[size] for size in sizes]
    rows = out.to_dict("records")
    decided = [_verdict(row, alpha) for row in rows]
    ruled = [_decided_by(out, i, row, decided[i][0], alpha) for i, row in enumerate(rows)]
    out["verdict"] = [verdict for verdict, _ in decided]
    out.loc[[why == FEW_DECIDE for _, why in decided], "detectable_r"] = np.nan
    out["reason"] = [
        "; ".join(dict.fromkeys(filter(None, (_in_runs(row, *mine, rules), rules, row["reason"]))))
        for row, mine, rules in zip(rows, decided, ruled, strict=True)
    ]
    return out


def _in_runs(row: dict, verdict: str, why: str, rules: str) -> str:
    """Return a reason with the number of runs in which the feature was tested, where it was not in all."""
    return f"{why} ({row['part']})" if row["part"] and verdict != UNKNOWN and not rules else why


def _decided_by(out: pd.DataFrame, place: int, row: dict, verdict: str, alpha: float) -> str:
    """Return the rules without which a confirmatory row would have another verdict, or an empty string."""
    if not row["confirmatory"] or not row["otherwise"] or row["turned"]:
        return ""
    p = out.loc[(out["target"] == row["target"]) & out["confirmatory"], "p"]
    for other in row["otherwise"]():
        p_holm = stat.holm(p.where(p.index != out.index[place], other.p).to_numpy(float))
        mine = {"p_holm": p_holm[p.index.get_loc(out.index[place])], "p": other.p, "least": other.least}
        if _verdict({**row, **mine, "doubt": other.doubt}, alpha)[0] != verdict:
            return str(other.rules)
    return ""


def _verdict(row: dict, alpha: float) -> tuple[str, str]:
    """Return the verdict of a row, and the reason if there is none."""
    if not np.isfinite(row["p"]):
        return UNKNOWN, row["why"]
    if not row["confirmatory"]:
        return (UNKNOWN, SCREENED.format(100 * alpha)) if row["q"] <= alpha else (TREND, NOTHING_SHARED)
    if row["p_holm"] <= alpha and row["doubt"]:
        return UNKNOWN, row["doubt"]
    if row["turned"]:
        return UNKNOWN, f"both turn at steps {row['turned']}, {UNKNOWN_RATE}"
    if row["p_holm"] <= alpha:
        return ADDS, "; ".join(_said_of(row))
    if not np.isfinite(row["detectable_r"]):
        return UNKNOWN, TOO_FEW
    few = row["least"] * max(row["family_size"], 1) > alpha
    return (UNKNOWN, FEW_DECIDE) if few else (TREND, NOTHING_SHARED)


def _said_of(row: dict) -> Iterator[str]:
    """Yield the clauses that say how a feature adds to the target."""
    target = row["target"]  # the column's name, so that it can be found
    if row["spikes"]:
        yield f"moves with the {target} where both spike"
    elif row["first"]:
        way = "before" if row["first"] == "feature" else "after"
        yield f"moves {lag_words(row['lag'], row['lag_steps'])} {way} the {target}"
    else:
        yield f"moves with the {target} beyond trend"
    if not row["rate_known"]:
        yield UNKNOWN_RATE


def lag_words(lag: int, steps: float) -> str:
    """Return the size of a lag in words.

    >>> lag_words(-2, 200.0), lag_words(1, float("nan"))
    ('2 checkpoints (200 steps)', '1 checkpoint')
    """
    many = f"{abs(lag)} checkpoint{'s' * (abs(lag) != 1)}"
    return f"{many} ({abs(steps):g} steps)" if np.isfinite(steps) else many


def _groups(
    table: SeriesTable, run: str, target: str, columns: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, list[str]]]:
    """Yield steps, features (n, p), target (n,), learning rate and names of what the same steps have."""
    frame = table.of_run(run)
    steps, y = frame["step"].to_numpy(float), frame[target].to_numpy(float)
    features = frame[list(columns)].to_numpy(float)
    rate = frame["learning_rate"].to_numpy(float) if "learning_rate" in frame else None
    finite = np.isfinite(features) & np.isfinite(y)[:, None]
    groups: dict[bytes, list[int]] = {}
    for j in range(features.shape[1]):
        groups.setdefault(finite[:, j].tobytes(), []).append(j)
    for chosen in groups.values():
        rows = finite[:, chosen[0]]
        names = [columns[j] for j in chosen]
        yield steps[rows], features[rows][:, chosen], y[rows], None if rate is None else rate[rows], names


def _of_run(
    table: SeriesTable, run: str, target: str, columns: Sequence[str], draws: Draws, every: bool
) -> Iterator[pd.DataFrame]:
    """Yield a block of rows for every set of features known at the same checkpoints."""
    frame = table.of_run(run)
    for steps, x, y, rate, names in _groups(table, run, target, columns):
        norm = None
        if "weight_norm" in frame:
            norm = frame.set_index("step")["weight_norm"].reindex(steps).to_numpy(float)
        block = pair_statistics(x, y, steps, norm, draws, every=every)
        tested = _tested(x, y, steps, rate)
        if len(steps) < LEAST_POINTS:
            tested["why"] = ""  # the statistics above say it already
        bare = tested["why"].to_numpy() != ""
        block = pd.concat([block, tested], axis=1)
        block.loc[bare & (block["status"] == "ok"), "status"] = "partial"
        for position, (name, value) in enumerate((("run", run), ("target", target), ("column", names))):
            block.insert(position, name, value)
        notes = []
        if table.repeated.get(run):
            notes.append(f"{table.repeated[run]} repeated rows of a step averaged")
        if len(frame) - len(steps):
            lost = len(frame) - len(steps)
            notes.append(f"{lost:,} checkpoint{'s' * (lost != 1)} without a finite value left out")
        block["reason"] = [
            "; ".join(part for part in (own_reason, *notes) if part) for own_reason in block["reason"]
        ]
        yield block


def _tested(x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None) -> pd.DataFrame:
    """Return the test of the columns of x against y in one run, a row for each."""
    rows = [{**pooled([part]), "n": len(steps)} for part in parts_of(x, y, steps, rate)]
    return pd.DataFrame(rows).drop(columns=["runs", "n", "departure_rho"])
