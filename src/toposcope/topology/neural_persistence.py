"""Neural persistence: zero-dimensional persistence of a layer's weights as a bipartite graph.

A matrix W of shape (n_out, n_in) is the complete bipartite graph on n = n_out + n_in vertices with edge
weights |W_ij|. In the superlevel filtration (heaviest edges first) all vertices are born at the scale,
by default max|W|, and components die at the edges of the maximum spanning tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram, Normalization
from toposcope.kernels.bipartite_tree import spanning_tree, spanning_tree_keys
from toposcope.topology.validation import check_diagram, check_matrix, check_tensor, on_device, require_finite

NormalizationName = Normalization | Literal["matrix", "network", "rieck", "seed004"]


def maximum_spanning_tree_weights(W: Any, *, name: str = "W") -> np.ndarray:
    """Return the weights ``|W_ij|`` of the maximum spanning tree's edges, heaviest first.

    Parameters
    ----------
    W : array_like or torch.Tensor, shape (n_out, n_in)
        float16, bfloat16, float32, float64 or integers. A tensor on a GPU is scanned there.
    name : str
        Name of the matrix in errors.

    Returns
    -------
    numpy.ndarray, shape (n_out + n_in - 1,), float64
        In the unit of the weights (the tree of Rieck et al., ICLR 2019).

    Raises
    ------
    InputError
        `W` is not a non-empty matrix of finite real numbers.

    Examples
    --------
    >>> maximum_spanning_tree_weights([[3.0, -2.0], [0.5, 1.0]])
    array([3., 2., 1.])
    """
    if on_device(W):
        return _device_weights([W], [name])[0]
    matrix = check_matrix(W, name=name, finite=False)
    return _weights(spanning_tree(matrix).keys, matrix, name)


def batched_spanning_tree_weights(
    matrices: Sequence[Any], *, names: Sequence[str] | None = None
) -> list[np.ndarray]:
    """Return `maximum_spanning_tree_weights` of every matrix; small matrices share one parallel call.

    Shapes, unit and source are those of the single call (Rieck et al. 2019).

    Examples
    --------
    >>> batched_spanning_tree_weights([[[1.0, 2.0]], [[3.0]]])
    [array([2., 1.]), array([3.])]
    """
    labels = [f"matrices[{k}]" for k in range(len(matrices))] if names is None else list(names)
    if matrices and all(on_device(W) for W in matrices):
        return _device_weights(matrices, labels)
    checked = [check_matrix(W, name=name, finite=False) for W, name in zip(matrices, labels, strict=True)]
    key_lists = spanning_tree_keys(checked)
    return [_weights(keys, W, name) for keys, W, name in zip(key_lists, checked, labels, strict=True)]


def _device_weights(tensors: Sequence[Any], names: Sequence[str]) -> list[np.ndarray]:
    from toposcope.kernels.torch_bipartite import spanning_tree_weights

    for tensor, name in zip(tensors, names, strict=True):
        check_tensor(tensor, name=name, rank="a weight matrix")
    return spanning_tree_weights(tensors)


def _weights(keys: np.ndarray, matrix: np.ndarray, name: str) -> np.ndarray:
    """Return the weights behind `keys`; NaN or infinity would come first."""
    weights = keys.view(matrix.dtype).astype(np.float64)
    if not math.isfinite(weights[0]):
        require_finite(matrix, name)
    return weights


def weight_diagram(W: Any, *, scale: float | None = None, name: str = "W") -> Diagram:
    """Return the superlevel H0 diagram of ``|W|``: one bar for every vertex of the bipartite graph.

    The n - 1 finite bars are (scale, w_e) for the edges e of the maximum spanning tree, heaviest first,
    then one essential bar (scale, -inf). Values are in the units of ``|W|``; births are above deaths.

    Parameters
    ----------
    W : array_like, shape (n_out, n_in)
        float16, bfloat16, float32, float64 or integers.
    scale : float, optional
        The value at which vertices are born, at least ``max|W|``, which is the default. Rieck's network-wide
        normalisation uses the maximum over the whole network.
    name : str
        Name of the matrix in errors.

    Returns
    -------
    Diagram
        dim 0, filtration "weights", `n_vertices` = n_out + n_in.

    Raises
    ------
    InputError
        `W` is not a non-empty matrix of finite real numbers, or `scale` lies below ``max|W|``.

    References
    ----------
    Rieck et al., "Neural Persistence: A Complexity Measure for Deep Neural Networks Using Algebraic
    Topology", ICLR 2019.

    Examples
    --------
    >>> diagram = weight_diagram([[3.0, -2.0], [0.5, 1.0]])
    >>> diagram.birth, diagram.death
    (array([3., 3., 3., 3.]), array([  3.,   2.,   1., -inf]))
    """
    return diagram_of_tree(maximum_spanning_tree_weights(W, name=name), scale=scale)


def diagram_of_tree(weights: np.ndarray, *, scale: float | None = None) -> Diagram:
    """Return the weight diagram of a maximum spanning tree's edge weights, heaviest first."""
    birth = float(weights[0]) if scale is None else float(scale)
    if not birth >= weights[0] or not np.isfinite(birth):
        raise InputError(
            f"scale = {birth:g} is below the largest weight {weights[0]:g}; give the maximum over the network"
        )
    return Diagram(
        dim=0,
        birth=np.full(weights.size + 1, birth),
        death=np.append(weights, -np.inf),
        filtration="weights",
        n_vertices=weights.size + 1,
    )


def neural_persistence(
    W: Any,
    normalization: NormalizationName = Normalization.NETWORK,
    scale: float | None = None,
    *,
    p: float | None = None,
    essential: bool = False,
    convention: NormalizationName | None = None,
    name: str = "W",
) -> float:
    """Return the neural persistence of a matrix, normalised to [0, 1].

    NP = (sum_e (1 - w_e / scale)^p / (n - 1))^(1/p) over the n - 1 edges e of the maximum spanning tree,
    n = n_out + n_in; it has no unit. The network's normalization (Rieck's) has p = 2, the matrix's has p = 1.

    Parameters
    ----------
    W : array_like of shape (n_out, n_in), or Diagram
        A matrix (float16, bfloat16, float32, float64 or integers), or its `weight_diagram` if it is already
        computed.
    normalization : {"network", "matrix"}
        Determines p. Both use this matrix's maximum unless `scale` is given: for "network", give the maximum
        over the whole network. The names in stores, "rieck" and "seed004", are also accepted.
    scale : float, optional
        Divisor of the weights: ``max|W|`` by default. Weights above it are clipped to it.
    p : float, optional
        Overrides the normalization's p.
    essential : bool
        Count the essential class as a pair (1, 0), as Rieck's published code does: adds 1 to the sum.
    convention : str, optional
        The older name of `normalization`; it takes precedence if both are given.
    name : str
        Name of the matrix in errors.

    Returns
    -------
    float
        0 if all entries of a matrix have the same magnitude, as in the zero matrix.

    Raises
    ------
    InputError
        Bad matrix, unknown normalization, p or scale not positive.

    References
    ----------
    Rieck et al., "Neural Persistence: A Complexity Measure for Deep Neural Networks Using Algebraic
    Topology", ICLR 2019.

    Examples
    --------
    >>> neural_persistence([[3.0, -2.0], [0.5, 1.0]], "matrix")
    0.3333333333333333
    """
    power = normalization_of(normalization if convention is None else convention).power
    power = power if p is None else float(p)
    if not power > 0:
        raise InputError(f"p = {power:g} must be positive")
    diagram = check_diagram(W, name=name) if isinstance(W, Diagram) else weight_diagram(W, name=name)
    deaths = diagram.death[np.isfinite(diagram.death)]
    top = float(deaths[0]) if scale is None else float(scale)
    if scale is not None and not (top > 0 and math.isfinite(top)):
        raise InputError(f"scale = {top:g} must be positive and finite")
    if top == 0:
        return 0.0
    gaps = 1.0 - np.minimum(deaths / top, 1.0)
    total = float((gaps**power).sum()) + (1.0 if essential else 0.0)
    return float((total / deaths.size) ** (1.0 / power))


def normalization_of(name: str) -> Normalization:
    """Return a normalization by its name or by its name in stores.

    Raises
    ------
    InputError
        An unknown name.

    >>> normalization_of("rieck").name
    'NETWORK'
    """
    try:
        return Normalization(name)
    except ValueError:
        raise InputError(
            f"normalization {name!r} is unknown; use 'network' (or 'rieck') or 'matrix' (or 'seed004')"
        ) from None


def neural_persistence_bounds(
    W: Any, *, scale: float | None = None, p: float = 2.0, name: str = "W"
) -> tuple[float, float]:
    """Return Rieck's lower and upper bound of the neural persistence (Theorem 2), normalised like it.

    The bounds replace the tree's n - 1 weights by the n - 1 largest weights of the whole matrix (lower
    bound) or by the n - 1 smallest (upper bound). Like it, they have no unit (Rieck et al. 2019).

    Parameters
    ----------
    W : array_like, shape (n_out, n_in)
    scale : float, optional
        As in `neural_persistence`.
    p : float
        Power of the norm.
    name : str
        Name of the matrix in errors.

    Examples
    --------
    >>> W = [[3.0, -2.0], [0.5, 1.0]]
    >>> lower, upper = neural_persistence_bounds(W)
    >>> lower <= neural_persistence(W) <= upper
    True
    """
    matrix = check_matrix(W, name=name)
    magnitudes = np.abs(matrix).ravel()
    count = sum(matrix.shape) - 1
    if count < magnitudes.size:
        magnitudes = np.partition(magnitudes, (count - 1, magnitudes.size - count))
    bounds = []
    for part in (magnitudes[magnitudes.size - count :], magnitudes[:count]):
        weights = np.sort(part.astype(np.float64))[::-1]
        top = float(np.abs(matrix).max()) if scale is None else scale
        bounds.append(neural_persistence(diagram_of_tree(weights), scale=top or None, p=p))
    return bounds[0], bounds[1]
