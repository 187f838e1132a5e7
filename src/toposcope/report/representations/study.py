"""What the part on representations is made of, as tables: read from the store once, or built by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from toposcope.analysis import seed_table, segment_table, trend_table
from toposcope.analysis.catalogue import leading
from toposcope.analysis.derived import with_derived
from toposcope.analysis.sensitivity import sensitivity_table
from toposcope.analysis.table import SeriesTable, series_table
from toposcope.analysis.trends.confounds import confound_table, walk_bound
from toposcope.errors import InputError
from toposcope.report.manifest import complete_runs, manifest
from toposcope.report.representations.rows import (
    COUNT,
    PROBE,
    QUALITY,
    RANK,
    SENSITIVITY,
    TOP,
    TOTAL,
    belongs,
)
from toposcope.report.target import chosen_target
from toposcope.store import Store

CONTROLS = {"top": TOP, "count": COUNT}
"""What stands in for topology: one number of the spectrum, and how many bars there are."""

_TARGETS = (QUALITY, "heldout_loss", "loss")


@dataclass(frozen=True)
class Representations:
    """The tables behind the part on representations.

    `runs`, `metrics`, `features` and `diagrams` are the store's, the features with rates of change and
    the excess over the Gaussian null; `series` joins them; `target` is what correlations are taken with (""
    where nothing can be), `further` are targets that have a table of their own. `trends`, `replicates`,
    `confounds` and `segments` come from the analysis; `chance` is the |rho| that 5% of pairs of random walks
    of this length exceed.
    """

    runs: pd.DataFrame
    metrics: pd.DataFrame
    features: pd.DataFrame
    diagrams: pd.DataFrame
    series: SeriesTable
    target: str
    further: tuple[str, ...]
    trends: pd.DataFrame
    replicates: pd.DataFrame
    confounds: pd.DataFrame
    segments: pd.DataFrame
    sensitivity: pd.DataFrame
    chance: float
    audit: pd.DataFrame
    provenance: Mapping[str, object] = field(default_factory=dict)

    def has(self, feature: str) -> bool:
        """Return whether any hidden state has a number of this name."""
        rows = self.features[self.features["probe"] == PROBE]
        return bool((rows["feature"] == feature).any())


def gather(
    store: Store, *, target: str | None = None, targets: pd.DataFrame | None = None
) -> Representations:
    """Read `store` and run the analysis on its representations; `targets` are further ones from a file.

    Raises
    ------
    InputError
        When the store has none, or not the named target.
    """
    features = store.features()
    if features.empty or not (features["probe"] == PROBE).any():
        raise InputError(
            f"{store.path} has no representations; run: toposcope embeddings SERIES --out {store.path}"
        )
    return build(
        features,
        store.metrics(),
        store.runs(),
        diagrams=store.diagrams(probe=PROBE),
        audit=store.audit(),
        provenance=manifest(store),
        target=target,
        targets=targets,
        catalogue=store.catalogue(),
    )


def build(
    features: pd.DataFrame,
    metrics: pd.DataFrame | None,
    runs: pd.DataFrame,
    *,
    diagrams: pd.DataFrame | None = None,
    audit: pd.DataFrame | None = None,
    provenance: Mapping[str, object] | None = None,
    target: str | None = None,
    targets: pd.DataFrame | None = None,
    catalogue: pd.DataFrame | None = None,
) -> Representations:
    """Analyse tidy rows of representations (the store's features table), wherever they come from.

    `target` names what correlations are taken with; `targets` are further ones, as `read_targets` returns
    them; `catalogue` is the store's.
    """
    features = features[belongs(features)]
    wide = with_derived(features, catalogue)
    series = series_table(wide, metrics, runs, targets=targets, catalogue=catalogue)
    chosen = chosen_target(series, target, preferred=_TARGETS)
    given = [] if targets is None else list(dict.fromkeys(targets["target"]))
    further = tuple(name for name in series.targets if name in ("probe_accuracy", *given) and name != chosen)
    wanted = [chosen, *further] if chosen else list(further)
    columns = [
        column for column in leading(series.columns(), series.catalogue, most=60) if column not in wanted
    ]
    trends = trend_table(series, targets=wanted, columns=columns, every=True)
    controls = {name: column for name, column in CONTROLS.items() if column in series.values}
    confounds = [confound_table(series, name, columns, controls).assign(target=name) for name in wanted]
    counted = trends["n"].max() if len(trends) else np.nan
    return Representations(
        runs=complete_runs(runs, series),
        metrics=pd.DataFrame() if metrics is None else metrics,
        features=wide,
        diagrams=pd.DataFrame(columns=["probe", "dim", "run", "layer"]) if diagrams is None else diagrams,
        series=series,
        target=chosen,
        further=further,
        trends=trends,
        replicates=seed_table(series, targets=wanted, columns=columns),
        confounds=pd.concat(confounds, ignore_index=True) if confounds else pd.DataFrame(),
        segments=segment_table(series, columns=[c for c in (TOTAL, RANK) if c in series.values]),
        sensitivity=sensitivity_table(features) if _has(features, SENSITIVITY) else pd.DataFrame(),
        chance=walk_bound(int(counted)) if np.isfinite(counted) else np.nan,
        audit=pd.DataFrame() if audit is None else audit,
        provenance=provenance or {},
    )


def _has(features: pd.DataFrame, probe: str) -> bool:
    mine = features[features["probe"] == probe]
    return bool(np.isfinite(mine["value"].to_numpy(dtype=np.float64)).any())
