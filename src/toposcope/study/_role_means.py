"""Columns of long rows, and means over the matrices of a role."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.types import Scope
from toposcope.store.draws import counted, over_draws
from toposcope.study.catalogue import column_key

_KEYS = ("run", "step")


def with_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Return long rows with the key of their column (a category) and the number of their part."""
    fields = ["probe", "filtration", "scope", "name", "role", "feature"]
    places = rows.groupby(fields, sort=False, dropna=False).ngroup().to_numpy()
    parts = rows[fields].iloc[np.unique(places, return_index=True)[1]]
    keys = [column_key(**{str(k): v for k, v in part.items()}) for part in parts.to_dict("records")]
    names = list(dict.fromkeys(keys))
    number = {name: i for i, name in enumerate(names)}
    codes = np.array([number[key] for key in keys], dtype=np.int64)[places]
    return rows.assign(column=pd.Categorical.from_codes(codes, categories=pd.Index(names)), part=places)


def with_role_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `with_columns`, with the means over the matrices of a role that they lack."""
    means = _role_means(rows)
    if means.empty:
        return rows
    categories, further = rows["column"].cat.categories, means["column"].cat.categories
    names = categories.append(further.difference(categories, sort=False))
    both = [row.assign(column=row["column"].cat.set_categories(names)) for row in (rows, means)]
    both[1]["part"] += int(rows["part"].max()) + 1
    return pd.concat(both, ignore_index=True)


def _role_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a mean over matrices for every (probe, role, feature) that has none yet."""
    cell = ["probe", "filtration", "role", "feature"]
    parts = rows.drop_duplicates("part")[[*cell, "scope", "name", "part"]].set_index("part")
    have = set(parts.loc[parts["scope"] == Scope.ROLE, cell].itertuples(index=False, name=None))
    single = parts["scope"].isin([Scope.MATRIX, Scope.HEAD])
    lacking = np.array([row not in have for row in parts[cell].itertuples(index=False, name=None)], bool)
    parts = parts[single & lacking]
    matrices = counted(rows[rows["part"].isin(parts.index)])[[*_KEYS, "part", "draw", "value"]]
    if matrices.empty:
        return rows.iloc[:0]
    same, of = (parts.groupby(names, sort=False).ngroup() for names in ([*cell, "name"], cell))
    matrices = matrices.assign(matrix=same[matrices["part"]].to_numpy())
    per_matrix = over_draws(matrices, [*_KEYS, "matrix"])[[*_KEYS, "matrix", "value"]]
    cells = dict(zip(same, of, strict=True))
    per_matrix["cell"] = per_matrix["matrix"].map(cells)
    # over the matrices of a role
    means = per_matrix.groupby([*_KEYS, "cell"], sort=False)["value"].mean().reset_index()
    described = parts[cell].assign(cell=of).drop_duplicates("cell").set_index("cell")
    means = means.join(described, on="cell").drop(columns="cell")
    return with_columns(
        means.assign(scope=str(Scope.ROLE), name="role", layer=np.nan, draw=np.nan, status="ok", inner=False)
    )
