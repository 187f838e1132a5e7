"""`two_sample`: whether two clouds or groups of diagrams differ, and how many members a plan needs."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.wording import option

if TYPE_CHECKING:
    from toposcope.api.two_sample_answer import TwoSampleAnswer

MOST_ROWS = 1024
"""The default number of rows: 32 blocks of 32 of each cloud, some seconds."""


def two_sample(
    A: Any,
    B: Any,
    *,
    paired: bool = False,
    distance: str = "wasserstein",
    metric: str = "euclidean",
    rescale: bool = False,
    block: int | None = None,
    kind: str | None = None,
    tensor: str | None = None,
    columns: Sequence[str] = (),
    max_points: int = MOST_ROWS,
    draws: int = 999,
    seed: int = 0,
) -> TwoSampleAnswer:
    r"""Say whether two clouds, or two groups of diagrams or clouds, differ, and how many a plan needs.

    The statistic is the energy distance of the two groups,

    .. math:: E = 2 \overline{D_{AB}} - \overline{D_{AA}} - \overline{D_{BB}}

    with the mean distances D of two members. It ranks among those of all, or of random, ways to deal the
    members anew to the groups; or, if they are paired, to exchange the members of pairs. The level is exact
    for members that are exchangeable. The members of one cloud are blocks of rows that are dealt at random:
    then the test is about the diagrams of such blocks, and not about where the clouds lie.

    Parameters
    ----------
    A, B : array, path, or list of diagrams or clouds
        Two clouds of shape (n, d) and (m, e), or files of them (.npy, .npz, .safetensors or .parquet); two
        stacks (k, n, d), lists or folders of clouds; or two lists of diagrams of one dimension.
    paired : bool
        Row i (or member i) of A belongs to that of B: the same text, or the same seed.
    distance : {"wasserstein", "bottleneck", "landscape", "rtd-lite", "points"}
        What compares two members, as in `topology.two_sample`.
    metric : {"euclidean", "cosine"}
        The distance of two rows.
    rescale : bool
        Divide the distances within each cloud or block by their mean first: size then has no effect.
    block : int, optional
        Rows of a block; by default the square root of all, or so few that there are 8 blocks.
    kind : {"diagrams", "clouds", "cloud"}, optional
        What A and B are; needed for lists of clouds in the plane.
    tensor : str, optional
        Which array of a .npz or .safetensors file.
    columns : sequence of str
        Which columns of a .parquet file are coordinates; by default all.
    max_points : int
        Larger clouds are subsampled to this many rows; the same rows of both if they are paired.
    draws : int
        Random ways, at least 19.
    seed : int
        Seed of blocks, subsamples and random ways.

    Returns
    -------
    TwoSampleAnswer
        `verdict` is "differ", "no difference shown" or "cannot tell" (too few members for p = .05). `test`
        has p, the effect with its interval, `needed`, `power` and `detectable`. Distances are in the unit of
        the filtration, float64; those of H0 and H1 together are without unit.

    Raises
    ------
    InputError
        If a file or an array is no cloud of finite numbers, paired groups have different numbers, there are
        fewer than two members, or an option does not apply.

    References
    ----------
    Robinson and Turner, "Hypothesis testing for topological data analysis", J. Appl. Comput. Topology 1
    (2017). Székely and Rizzo, "Energy statistics", J. Statist. Plann. Inference 143 (2013).

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> before = generator.normal(size=(128, 5))
    >>> after = before * [3, 1, 1, 1, 1] + generator.normal(0, 0.1, (128, 5))
    >>> answer = two_sample(before, after, paired=True)
    >>> answer.verdict, answer.test.p, answer.test.splits
    ('differ', 0.001, 1000)
    """
    from toposcope.api.two_sample_answer import TwoSampleAnswer
    from toposcope.clouds.reading import read_sample
    from toposcope.topology import two_sample as test_of
    from toposcope.topology.exchanged import CLOUD, cloud_pair, common_kind

    if draws < 19:
        raise InputError("a p-value of .05 needs at least 19 draws", argument="draws", value=draws)
    if max_points < 2:
        raise InputError("give at least 2 rows", argument="max_points", value=max_points)
    (first, names), (second, others) = (read_sample(X, tensor=tensor, columns=columns) for X in (A, B))
    if paired and isinstance(first, list) and isinstance(second, list):
        _check_names(names, others)
    shown = (
        str(A) if isinstance(A, str | PathLike) else "A",
        str(B) if isinstance(B, str | PathLike) else "B",
    )
    if common_kind(first, second, kind, shown) == CLOUD:
        first, second = cloud_pair(first, second, paired=paired, names=shown)
        first, second = _subsampled(first, second, max_points, seed, paired=paired)
    test = test_of(
        first, second, paired=paired, kind=kind, distance=distance, metric=metric, rescale=rescale,
        block=block, draws=draws, seed=seed,
    )  # fmt: skip
    return TwoSampleAnswer(test, shown, rescale, seed)


def _check_names(names: Sequence[str], others: Sequence[str]) -> None:
    """Refuse paired folders whose files have different names."""
    alone = sorted(set(names) ^ set(others))
    if names and others and alone:
        raise InputError(
            f"paired folders have files of the same names, and {alone[0]!r} is in one of them alone; "
            f"rename the files, or leave {option('paired')} out"
        )


def _subsampled(
    first: np.ndarray, second: np.ndarray, most: int, seed: int, *, paired: bool
) -> list[np.ndarray]:
    """Return two clouds with at most so many rows, the same ones of paired clouds."""
    from toposcope.topology.clouds import subsample

    places = (0, 0) if paired else (0, 1)
    return [
        points[subsample(len(points), most, draw=seed, purpose="two sample", cloud=place)]
        for points, place in zip((first, second), places, strict=True)
    ]
