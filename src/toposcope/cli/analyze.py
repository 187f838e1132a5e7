"""`toposcope analyze`: what a store's features tell beyond the loss, against honest nulls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.laws import LAWS, show_law
from toposcope.cli.output import json_option, print_json, print_table
from toposcope.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from toposcope.analysis.table import SeriesTable

PARTS = (
    "replicates", "trends", "lags", "phases", "segments", "saturation", "scaling", "exponents", "forecasts",
)  # fmt: skip
DEFAULT_PARTS = ("trends", "replicates", "phases", "scaling", "forecasts")
_TREND_SHOWN = {
    "run": "run", "target": "target", "column": "feature", "n": "n", "spearman": "rho", "seed_p": "p",
    "effective_n": "eff. n", "block_low": "block 2.5%", "block_high": "97.5%", "partial_step": "given step",
    "partial_norm": "given norm too", "walk_p": "walk p", "innovation_r": "innov. r",
    "innovation_p": "innov. p",
    "innovation_holm": "Holm", "innovation_bh": "BH", "verdict": "verdict",
}  # fmt: skip
_PHASE_SHOWN = ("run", "column", "rule", "peak_step", "diminishing_step", "diminishing_fraction", "status")


@click.command("analyze", short_help="Say what a store's features tell beyond the loss, against nulls.")
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option(
    "--target", "targets", multiple=True, help="Column to explain; repeat for several.  [default: the losses]"
)
@click.option(
    "--targets",
    "target_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of scores to join: CSV, JSONL or parquet with run, step or revision, and numeric columns.",
)
@click.option(
    "--feature", "features", multiple=True, help="Feature column to test; repeat.  [default: model and roles]"
)
@click.option(
    "--part", "parts", multiple=True, type=click.Choice([*PARTS, "all"]), help="What to compute; repeat."
)
@click.option(
    "--calibrate", is_flag=True, help="Simulate the nulls on these steps: the true error rate of every test."
)
@click.option(
    "--draws",
    type=click.IntRange(min=100),
    default=10_000,
    show_default=True,
    help="Simulations of --calibrate.",
)
@click.option(
    "--law",
    type=click.Choice(list(LAWS)),
    help="Fit this scaling law instead: a table with a row per model, or a store's last checkpoints.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="QUANTITY=COLUMN",
    help="Where --law reads size, data, steps, loss, other, compute or score from; repeat.",
)
@click.option(
    "--leave-out",
    type=click.IntRange(min=0),
    default=0,
    help="Points with the fewest tokens per parameter that --law leaves out.",
)
@click.option(
    "--rows",
    type=int,
    default=40,
    show_default=True,
    help="Rows shown of each table; --json and --out have all.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the tables as CSV.")
@json_option
def command(
    source: Path | None,
    targets: tuple[str, ...],
    target_file: Path | None,
    features: tuple[str, ...],
    parts: tuple[str, ...],
    calibrate: bool,
    draws: int,
    law: str | None,
    columns: tuple[str, ...],
    leave_out: int,
    rows: int,
    out: Path | None,
    as_json: bool,
) -> int:
    """Correlate the features of SOURCE with its losses and say what that is worth.

    SOURCE is a store, or a CSV or parquet table with columns run, step, features and targets. The verdict
    rests on one test, which holds its level under every null that --calibrate simulates; the other columns
    are there because they are usually reported, and their true error rates are printed with them. Exits 1
    where problems are listed (a run that fails, repeated steps, infinite values), 2 where nothing was done.
    """
    if calibrate:
        return _calibrate(source, draws, out, as_json)
    if source is None:
        raise InputError(
            "name a store or a table: toposcope analyze STORE (only --calibrate works without one)"
        )
    if law is not None:
        return show_law(source, law, columns, leave_out, out, as_json=as_json)
    table = read_source(source, targets, target_file)
    grid = _nearest(table)
    chosen = PARTS if "all" in parts else parts or DEFAULT_PARTS
    tabled = [name for name in PARTS if name in chosen and name != "forecasts"]
    made = {name: _compute(name, table, targets, features) for name in tabled}
    if "forecasts" in chosen and "loss" in table.targets:
        made["forecasts"], made["forecast_effects"] = _forecasts(source)
    found = {name: part for name, part in made.items() if part is not None}
    if not any(map(_holds_something, found.values())):
        raise InputError(f"{source}: nothing could be computed: {_why_nothing(table)}")
    problems = [*table.problems, *_failed_runs(found)]
    if as_json:
        records = {name: part.to_dict("records") for name, part in found.items()}
        print_json({**records, "problems": problems, "true_rates_of": grid, "true_rates": _rates(grid)})
    else:
        for name, part in found.items():
            _SHOW[name](part, rows)
            if name == "trends":
                _show_rates(grid)
        for problem in problems:
            click.echo(f"note: {problem}")
    _save(found, out)
    return 1 if problems else 0


def read_source(source: Path, targets: Sequence[str], target_file: Path | None = None) -> SeriesTable:
    """Read a store, or a table from a CSV or parquet file, and join a file of scores."""
    import pandas as pd

    from toposcope.analysis.plain import plain_table
    from toposcope.analysis.table import series_table, with_targets
    from toposcope.analysis.targets import read_targets
    from toposcope.store import Store

    if source.is_file():
        if source.suffix not in (".csv", ".parquet"):
            raise InputError(f"{source}: neither a store nor a .csv or .parquet table")
        try:
            frame = pd.read_csv(source) if source.suffix == ".csv" else pd.read_parquet(source)
        except (ValueError, OSError) as error:
            raise InputError(f"{source} cannot be read as a table: {error}") from error
        scores = None if target_file is None else read_targets(target_file)
        brought = set() if scores is None else set(scores["target"])
        inside = [name for name in targets if name not in brought]
        table = plain_table(frame, inside)
        return table if scores is None else with_targets(table, scores)
    store = Store.open(source)
    features = store.features()
    if features.empty:
        raise InputError(f"{source} has no measured features; run: toposcope weights SERIES --out {source}")
    scores = None if target_file is None else read_targets(target_file)
    return series_table(features, store.metrics(), store.runs(), targets=scores, catalogue=store.catalogue())


def _compute(
    name: str, table: SeriesTable, targets: Sequence[str], features: Sequence[str]
) -> pd.DataFrame | None:
    from toposcope import analysis

    chosen = list(features) or None
    wanted = list(targets) or None
    unknown = [column for column in (*features, *targets) if column not in table.values]
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is not in the table; targets: {', '.join(table.targets) or 'none'}; "
            f"features: {', '.join(table.columns(scope='model')[:6])}, ..."
        )
    if name == "trends":
        return analysis.trend_table(table, targets=wanted, columns=chosen, every=True)
    if name == "lags":
        return analysis.lag_table(table, targets=wanted, columns=chosen)
    if name == "exponents":
        from toposcope.analysis.scaling.recover import exponent_recovery

        return exponent_recovery(table)
    if name == "replicates":
        found = analysis.seed_table(table, targets=wanted, columns=chosen)
        return found if len(found) else None
    makers = {
        "phases": analysis.phase_table, "segments": analysis.segment_table,
        "saturation": analysis.saturation_table, "scaling": analysis.scaling_table,
    }  # fmt: skip
    return makers[name](table, columns=chosen)


def _holds_something(part: pd.DataFrame) -> bool:
    if "cut" in part and not part["cut"].notna().any():
        return False
    return bool((part["status"] != "failed").any()) if "status" in part else len(part) > 0


def _why_nothing(table: SeriesTable) -> str:
    from toposcope.analysis.trends.verdicts import LEAST_POINTS

    longest = len(_longest_grid(table))
    if longest < LEAST_POINTS:
        return f"the longest run has {longest} checkpoints, at least {LEAST_POINTS} are needed; add some"
    if table.catalogue.empty:
        return "the table has no feature column; add one"
    return "no part asked for fits these runs; --part all tries every one"


def _failed_runs(found: dict[str, pd.DataFrame]) -> list[str]:
    """Say of which runs no pair could be judged, and why."""
    trends = found.get("trends")
    if trends is None or trends.empty:
        return []
    failed = trends.groupby("run", sort=False).filter(lambda rows: bool((rows["status"] == "failed").all()))
    first = failed.drop_duplicates("run")
    return [f"run {run}: failed: {reason}" for run, reason in zip(first["run"], first["reason"], strict=True)]


def _forecasts(source: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return every run's forecast from the others, and what features add to it."""
    from toposcope.analysis.forecast.compare import forecast_table, worth_of_features
    from toposcope.cli.curves import Reading, read_log

    scores = forecast_table(read_log(str(source), source.stem, Reading()))
    return scores, worth_of_features(scores)


def _nearest(table: SeriesTable) -> str:
    """Return the packaged grid of steps whose error rates are shown: the nearest to the longest run's."""
    from toposcope.analysis.trends.calibration import nearest_grid

    return nearest_grid(_longest_grid(table))


def _rates(grid: str) -> dict[str, dict[str, float]]:
    from toposcope.analysis.trends.calibration import true_rates

    return {test: {"lowest": low, "highest": high} for test, (low, high) in true_rates(grid).items()}


def _show_rates(grid: str) -> None:
    text = "; ".join(f"{test} {r['lowest']:.1%} to {r['highest']:.1%}" for test, r in _rates(grid).items())
    click.echo(
        "True rates at a nominal 5%, lowest and highest over the nulls, at the nearest simulated steps "
        f"({grid}; --calibrate simulates yours): {text}.\n"
    )


def _show_trends(part: pd.DataFrame, rows: int) -> None:
    order = part.sort_values("innovation_p", kind="stable", na_position="last")
    _table(
        "Trends, the smallest p of the verdict's test first", order, list(_TREND_SHOWN), rows, _TREND_SHOWN
    )
    adds = int((part["verdict"] == "adds").sum())
    click.echo(
        f"{adds} of {len(part)} pairs share more than a trend (Holm over the confirmatory rows of a target)."
    )
    odd = part[part["status"] != "ok"]
    for reason, count in odd["reason"].value_counts().head(5).items():
        click.echo(f"{count} rows: {reason}")
    click.echo("")


def _show_forecasts(part: pd.DataFrame, rows: int) -> None:
    from toposcope.analysis.forecast.evaluate import summarise

    scored = part.dropna(subset=["cut"])
    if len(scored):
        names = {"cut": "seen", "n": "runs", "mae": "MAE", "covered": "in 90% interval", "bounded": "of"}
        shown = ["cut", "method", "n", "mae", "covered", "bounded", "reason"]
        title = "Final loss of every finished run, forecast from the others"
        _table(title, summarise(scored), shown, len(part), names)
    for run, reason in part.loc[part["cut"].isna(), ["run", "reason"]].itertuples(index=False):
        click.echo(f"no forecast of {run}: {reason}")
    click.echo("")


def _show_effects(part: pd.DataFrame, rows: int) -> None:
    from toposcope.analysis.forecast.compare import WORTH

    _table(
        "What features add to a forecast: |error| minus its control's, paired by run (negative: better)",
        part, [name for name in WORTH if name != "status"], len(part), {"cut": "seen", "base": "control"},
    )  # fmt: skip
    ok = part[part["status"] == "ok"]
    better = int((ok["high"] < 0).sum())
    click.echo(f"{better} of {len(ok)} effects have a 95% interval below zero.\n")


def _plain(title: str, columns: Sequence[str] | None = None) -> Callable[[pd.DataFrame, int], None]:
    def show(part: pd.DataFrame, rows: int) -> None:
        _table(title, part, list(columns or [str(name) for name in part]), rows, {})
        click.echo("")

    return show


_SHOW: dict[str, Callable[[pd.DataFrame, int], None]] = {
    "trends": _show_trends,
    "replicates": _plain("Across training replicates"),
    "lags": _plain("Leads and lags of innovations (positive: the feature moves first)"),
    "phases": _plain("Phases by the weight-space paper's two rules", _PHASE_SHOWN),
    "segments": _plain("Segments of constant slope on log(step)"),
    "saturation": _plain("Saturating fits"),
    "scaling": _plain("Power laws of last values with model size"),
    "exponents": _plain("Exponents predicted from features, every family (or run) left out"),
    "forecasts": _show_forecasts,
    "forecast_effects": _show_effects,
}


def _table(title: str, part: pd.DataFrame, columns: Sequence[str], rows: int, names: dict[str, str]) -> None:
    shown = part[list(columns)].head(rows)
    more = f" ({len(shown)} of {len(part)} rows)" if len(shown) < len(part) else ""
    cells = ([_value(value) for value in row] for row in shown.itertuples(index=False, name=None))
    print_table(title + more, [names.get(column, column) for column in columns], cells)


def _value(value: object) -> object:
    import pandas as pd

    if isinstance(value, str | bool):
        return value
    return None if pd.isna(value) else float(value) if hasattr(value, "dtype") else value  # type: ignore[arg-type, call-overload]


def _calibrate(source: Path | None, draws: int, out: Path | None, as_json: bool) -> int:
    import numpy as np

    from toposcope.analysis.trends.calibration import as_matrix, calibration_matrix

    steps = np.arange(51) * 100.0 if source is None else _longest_grid(read_source(source, ()))
    found = calibration_matrix(steps, draws=draws, quiet=as_json)
    if as_json:
        print_json({"steps": steps.tolist(), "draws": draws, "rates": found.to_dict("records")})
    else:
        for kind, title in (("null", "False alarms at a nominal 5%"), ("planted", "Planted effects found")):
            matrix = as_matrix(found, kind)
            rows = (
                [case, *(f"{rate:.1%}" for rate in rates)]
                for case, rates in zip(matrix.index, matrix.to_numpy(), strict=True)
            )
            print_table(
                f"{title}: {len(steps)} checkpoints, {draws} draws", ["pairs of", *matrix.columns], rows
            )
        worst = as_matrix(found)["innovations"]
        click.echo(f"The verdict's test rejects between {worst.min():.1%} and {worst.max():.1%}.")
    _save({"calibration": found}, out)
    return 0


def _longest_grid(table: SeriesTable) -> np.ndarray:
    """Return the steps of the run with most checkpoints."""
    grids = [table.of_run(run)["step"].to_numpy(float) for run in table.run_names]
    return max(grids, key=len)


def _save(found: dict[str, pd.DataFrame], out: Path | None) -> None:
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    for name, part in found.items():
        part.to_csv(out / f"{name}.csv", index=False)
    click.echo(f"written: {', '.join(f'{name}.csv' for name in found)} in {out}", err=True)
