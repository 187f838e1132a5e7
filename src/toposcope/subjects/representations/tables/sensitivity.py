"""How far the findings on representations move with the settings, from the rows of the sensitivity probe."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.statistics.correlations import correlation, ranks
from toposcope.store.draws import counted, is_counted, over_draws
from toposcope.study.own import SubjectTable
from toposcope.subjects.representations.features import PERPLEXITY, REPRESENTATIONS, SENSITIVITY

COLUMNS = (
    "feature", "run", "settings", "draws", "checkpoints", "settings_spread",
    "components_spread", "texts_spread", "draw_spread", "rho",
    "rho_low", "rho_high", "order", "order_share", "orders", "status", "reason",
)  # fmt: skip


def sensitivity_table(features: pd.DataFrame) -> pd.DataFrame:
    """Return for every feature and run how much of a finding is due to the settings.

    Parameters
    ----------
    features
        A store's features table: rows of the probe "sensitivity", whose `name` is the setting, and the
        probe "representations" with the `perplexity` of the same checkpoints.

    Returns
    -------
    pandas.DataFrame
        One row per feature and run. `settings_spread`: the standard deviation over all settings (means
        over draws), root mean square over checkpoints, in units of the standard deviation over checkpoints;
        above 1 the choice of a setting moves the number more than training does. `components_spread`: the
        same over the numbers of principal components, within one number of texts; `texts_spread`: over the
        numbers of texts, within one number of components; `draw_spread`: over the draws of texts, within one
        setting. `rho`: Spearman's correlation with the log
        perplexity at the setting nearest the embedding report's (`reference_setting`), mean over draws;
        `rho_low`, `rho_high`: its range over all settings and draws. `order`: the order of the runs at
        their last step that most settings and draws give, smallest first; `order_share` how many of them
        do; `orders` how many different ones occur.

    Raises
    ------
    InputError
        When there is no row of that probe.

    Examples
    --------
    >>> rows = pd.DataFrame([
    ...     {"run": "a", "step": s, "probe": "sensitivity", "name": f"pca{p}/texts200", "feature": "h1_total",
    ...      "draw": d, "value": s + 0.1 * p + 0.01 * d} for s in range(4) for p in (1, 2) for d in (0, 1)])
    >>> line = sensitivity_table(rows).iloc[0]
    >>> int(line["settings"]), int(line["draws"]), bool(line["components_spread"] < 0.1), line["status"]
    (2, 2, True, 'ok')
    """
    rows = counted(features[features["probe"] == SENSITIVITY])
    if rows.empty:
        raise InputError("features: no row of the probe 'sensitivity'; measure the feature sensitivity, too")
    rows = rows.assign(draw=rows["draw"].fillna(-1).astype(int))
    quality = _log_perplexity(features)
    lines = []
    for feature, group in rows.groupby("feature", sort=False):
        order = _order(group)
        for run, mine in group.groupby("run", sort=True):
            lines.append({"feature": feature, "run": run, **_of_run(mine, quality.get(run)), **order})
    return pd.DataFrame(lines, columns=list(COLUMNS))


def measured_sensitivity(features: pd.DataFrame) -> pd.DataFrame:
    """Return `sensitivity_table` where anything was measured for it, else a table without rows.

    >>> measured_sensitivity(pd.DataFrame({"probe": ["rips"], "value": [1.0]})).empty
    True
    """
    if not len(features) or not is_counted(features[features["probe"] == SENSITIVITY]).any():
        return pd.DataFrame(columns=list(COLUMNS))
    return sensitivity_table(features)


def _log_perplexity(features: pd.DataFrame) -> dict[object, pd.Series]:
    rows = features[(features["probe"] == REPRESENTATIONS) & (features["feature"] == PERPLEXITY.name)]
    return {run: np.log(part.set_index("step")["value"]) for run, part in over_draws(rows).groupby("run")}


def _of_run(mine: pd.DataFrame, quality: pd.Series | None) -> dict[str, object]:
    wide = mine.pivot_table(index="step", columns=["name", "draw"], values="value").dropna()
    # not `over_draws`: at each step that is left, every setting has all its draws
    per_setting = wide.T.groupby(level="name").mean().T
    spread = float(per_setting.mean(axis=1).std()) if len(wide) > 1 else np.nan
    answer: dict[str, object] = {
        "settings": per_setting.shape[1],
        "draws": int(mine.loc[mine["draw"] >= 0, "draw"].nunique()),
        "checkpoints": len(wide),
    }
    if not spread > 1e-12 * float(np.abs(per_setting.to_numpy()).max(initial=0.0)):
        return {**answer, "status": "degenerate", "reason": "the same at every checkpoint"}
    components = [str(name).rpartition("texts")[0] for name in per_setting]
    texts = [str(name).rpartition("texts")[2] for name in per_setting]
    answer["settings_spread"] = _within(per_setting, [""] * per_setting.shape[1]) / spread
    answer["components_spread"] = _within(per_setting, texts) / spread
    answer["texts_spread"] = _within(per_setting, components) / spread
    answer["draw_spread"] = _within(wide, list(wide.columns.get_level_values("name"))) / spread
    if quality is None or len(wide.index.intersection(quality.index)) < 4:
        return {**answer, "status": "ok", "reason": "no perplexity at four checkpoints: no correlation"}
    steps = wide.index.intersection(quality.index)
    return {**answer, **_correlations(wide.loc[steps], quality.loc[steps]), "status": "ok", "reason": ""}


def _within(wide: pd.DataFrame, groups: list[str]) -> float:
    """Return the standard deviation over columns of one group, root mean square over groups and rows."""
    variances = wide.T.groupby(np.array(groups)).var().to_numpy()  # nan for a group of one column
    variances = variances[np.isfinite(variances)]
    return float(np.sqrt(variances.mean())) if len(variances) else np.nan


def _correlations(wide: pd.DataFrame, quality: pd.Series) -> dict[str, float]:
    x = ranks(wide.to_numpy(float))
    y = ranks(quality.to_numpy(float)[:, None])
    rho = correlation(x, np.repeat(y, x.shape[1], axis=1))
    if not np.isfinite(rho).any():
        return {}
    names = list(wide.columns.get_level_values("name"))
    reference = reference_setting(names)
    quoted = rho[[name == reference for name in names]]
    return {"rho": float(quoted.mean()), "rho_low": float(np.nanmin(rho)), "rho_high": float(np.nanmax(rho))}


def reference_setting(names: list[str]) -> str:
    """Return the setting nearest to the embedding report's: 50 components where measured, fewest texts.

    >>> reference_setting(["none/texts200", "pca50/texts800", "pca50/texts200"])
    'pca50/texts200'
    """

    def key(name: str) -> tuple[bool, int]:
        digits = name.rpartition("texts")[2]
        return (not name.startswith(("pca50/", "texts")), int(digits) if digits.isdigit() else 0)

    return min(names, key=key)


def _order(group: pd.DataFrame) -> dict[str, object]:
    """Return the order of the runs at their last steps, and how firm it is over settings and draws."""
    last = group[group["step"] == group.groupby("run")["step"].transform("max")]
    wide = last.pivot_table(index=["name", "draw"], columns="run", values="value").dropna()
    if wide.shape[1] < 2 or wide.empty:
        return {"order": "", "order_share": np.nan, "orders": 0}
    runs = list(wide.columns)
    seen = Counter(tuple(runs[i] for i in np.argsort(line, kind="stable")) for line in wide.to_numpy())
    order, count = seen.most_common(1)[0]
    return {"order": " < ".join(order), "order_share": count / len(wide), "orders": len(seen)}


TABLES = (
    SubjectTable(
        name="sensitivity",
        make=lambda study: measured_sensitivity(study.features),
        title="How far the settings change the numbers",
        note="The spreads over settings (components, number of texts) and over draws of texts are in units "
        "of the standard deviation over checkpoints. Above 1, the setting changes the number more than "
        "training does. ρ is the correlation with the log perplexity at the embedding report's setting, and "
        "range is its range over all settings and draws. The order at the end is the most frequent order of "
        "the models, and share is how often it occurs. The CSV file has further features.",
    ),
)
(SENSITIVITY_TABLE,) = TABLES
