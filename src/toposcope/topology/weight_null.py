"""Baselines for neural persistence: shuffled weights, clipped maxima, plain variance.

Girrbach et al. 2023 show that neural persistence is largely explained by the variance of the weights and by
their largest value. The weight-shuffle null keeps the entries and destroys their arrangement. The excess of
neural persistence over this null is structure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.threads import run_blocks
from toposcope.core.types import Normalization
from toposcope.kernels.bipartite_scan import SERIAL_BELOW
from toposcope.kernels.bipartite_tree import magnitude_bits
from toposcope.kernels.random_tree import merge_ranks
from toposcope.kernels.selection import absolute_moments, key_of_rank, largest_keys
from toposcope.topology.neural_persistence import NormalizationName, diagram_of_tree, neural_persistence
from toposcope.topology.units import binary_exponent, scaled
from toposcope.topology.validation import check_matrix, check_tensor, on_device, require_finite

Randomness = np.random.Generator | Sequence[np.random.Generator]


def shuffled_spanning_tree_weights(
    W: Any, draws: int = 5, *, rng: Randomness, name: str = "W"
) -> list[np.ndarray]:
    """Return the maximum spanning tree's weights after random permutations of the entries of `W`.

    Exact in distribution and much cheaper than permuting: which ranks of the sorted entries form the tree
    does not depend on the entries. So only random cells are drawn (about N ln N instead of n_out n_in), and
    only the largest entries are looked up. The unit is that of the weights (the null of Girrbach et al.
    2023).

    Parameters
    ----------
    W : array_like or torch.Tensor, shape (n_out, n_in)
        The largest entries of a tensor on a GPU are found there.
    draws : int
        Number of permutations; a sequence of generators gives one for each instead.
    rng : numpy.random.Generator or sequence of them
        One generator for all draws, or one for each.
    name : str
        Name of the matrix in errors.

    Returns
    -------
    list of numpy.ndarray
        For each draw n_out + n_in - 1 weights, float64, heaviest first.

    Raises
    ------
    InputError
        Bad matrix, or fewer than one draw.

    Examples
    --------
    >>> W = np.diag([4.0, 3.0])
    >>> shuffled_spanning_tree_weights(W, 1, rng=np.random.default_rng(0))[0][:2]
    array([4., 3.])
    """
    matrix = W if on_device(W) else check_matrix(W, name=name, finite=False)
    generators = [rng] * draws if isinstance(rng, np.random.Generator) else list(rng)
    if not generators:
        raise InputError(f"draws = {draws} must be at least 1")
    together = isinstance(rng, np.random.Generator)  # one generator's draws follow each other
    ranks = run_blocks(
        lambda generator: merge_ranks(matrix.shape[0], matrix.shape[1], generator),
        generators,
        serial=together or math.prod(matrix.shape) < SERIAL_BELOW,
    )
    largest = _largest(matrix, 1 + max(int(r[-1]) for r in ranks), name)
    return [largest[r] for r in ranks]


def _largest(matrix: Any, count: int, name: str) -> np.ndarray:
    """Return the `count` largest magnitudes, descending, float64."""
    if on_device(matrix):
        check_tensor(matrix, name=name, rank="a weight matrix")
        return matrix.detach().abs().flatten().topk(count).values.double().cpu().numpy()
    bits, mask = magnitude_bits(matrix)
    largest = largest_keys(bits, mask, count).view(matrix.dtype).astype(np.float64)
    if not np.isfinite(largest[0]):
        require_finite(matrix, name)
    return largest


def shuffled_neural_persistence(
    W: Any,
    draws: int = 5,
    *,
    rng: Randomness,
    normalization: NormalizationName = Normalization.NETWORK,
    scale: float | None = None,
    name: str = "W",
) -> np.ndarray:
    """Return the neural persistence of `draws` random permutations of the entries of `W`.

    Subtract the mean from `neural_persistence(W, normalization, scale)` for the structural part. Shape
    (draws,), without a unit. Parameters are those of `shuffled_spanning_tree_weights` and
    `neural_persistence`.

    References
    ----------
    Girrbach et al., "Addressing caveats of neural persistence with deep graph persistence", TMLR 2023.

    Examples
    --------
    >>> shuffled_neural_persistence(np.ones((3, 4)), 2, rng=np.random.default_rng(0))
    array([0., 0.])
    """
    trees = shuffled_spanning_tree_weights(W, draws, rng=rng, name=name)
    return np.array([neural_persistence(diagram_of_tree(tree), normalization, scale) for tree in trees])


def magnitude_quantile(W: Any, q: float = 0.999, *, name: str = "W") -> float:
    """Return the exact q-quantile of the entries of ``|W|``; between two entries, the higher one.

    Raises
    ------
    InputError
        Bad matrix, or `q` outside [0, 1].

    Examples
    --------
    >>> magnitude_quantile([[1.0, -2.0, 3.0, -4.0]], 0.5)
    3.0
    """
    matrix = check_matrix(W, name=name)
    if not 0 <= q <= 1:
        raise InputError(f"q = {q:g} must lie in [0, 1]")
    rank = matrix.size - 1 - int(np.ceil(q * (matrix.size - 1)))
    bits, mask = magnitude_bits(matrix)
    if rank < matrix.size // 100:
        key = largest_keys(bits, mask, rank + 1)[-1:]
    else:
        key = np.array([key_of_rank(bits, mask, rank)])
    return float(key.view(matrix.dtype)[0])


def clipped_neural_persistence(
    W: Any, q: float = 0.999, *, normalization: NormalizationName = Normalization.NETWORK, name: str = "W"
) -> float:
    """Return the neural persistence with the q-quantile of ``|W|`` instead of its maximum.

    Weights above the quantile count as the quantile, so a single outlier does not set the scale. The result
    is 0 if the quantile is 0, and has no unit. W has the shape (n_out, n_in). Neural persistence is that of
    Rieck et al. (2019); the quantile is ours.

    Examples
    --------
    >>> clipped_neural_persistence([[1.0, 1.0, 1.0, 100.0]], 0.5)
    0.0
    """
    scale = magnitude_quantile(W, q, name=name)
    return neural_persistence(W, normalization, scale, name=name) if scale > 0 else 0.0


def magnitude_variance(W: Any, *, scale: float | None = None, name: str = "W") -> float:
    """Return the population variance of ``|w| / scale``; `scale` is ``max|W|`` by default.

    The weights may have any scale, because they are first divided by a power of two.

    Examples
    --------
    >>> magnitude_variance([[1.0, -3.0]])
    0.1111111111111111
    """
    matrix = check_matrix(W, name=name)
    bits, mask = magnitude_bits(matrix)
    top = float(largest_keys(bits, mask, 1).view(matrix.dtype)[0]) if scale is None else float(scale)
    if scale is not None and not top > 0:
        raise InputError(f"scale = {top:g} must be positive")
    if not top > 0:
        return 0.0
    exponent = binary_exponent(matrix)
    variance = absolute_moments(scaled(matrix, -exponent))[1]
    ratio = float(scaled(np.array(1.0), exponent - int(np.frexp(top)[1]))) / float(np.frexp(top)[0])
    return variance * ratio * ratio
