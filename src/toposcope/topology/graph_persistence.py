"""Deep graph persistence: neural persistence of a whole stack of layers, from its widest paths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from toposcope.core.errors import InputError
from toposcope.kernels.shuffled_paths import shuffled_path_trees
from toposcope.kernels.widest_paths import standardised, widest_path_tree
from toposcope.topology.neural_persistence import diagram_of_tree, neural_persistence
from toposcope.topology.validation import check_matrix
from toposcope.topology.weight_null import Randomness

Scale = Literal["stack", "paths"]


def deep_graph_persistence(
    layers: Sequence[Any], *, p: float = 2.0, essential: bool = False, scale: Scale = "stack"
) -> float:
    """Return the neural persistence of the widest paths from the inputs to the outputs of a stack.

    Every layer is standardised, (W - mean) / std, its magnitudes are divided by the largest over all layers,
    and S_oi = max over paths from input i to output o of the smallest weight on the path. The result is
    NP_p(S) with births at 1, without a unit, which depends on how layers connect and not only on their
    variances. Only stacks of linear layers that compose (an MLP's in -> out) have such paths. S is not
    computed: its maximum spanning tree follows from those of the layers (`toposcope.kernels.widest_paths`).

    Parameters
    ----------
    layers : sequence of array_like
        Matrices (n_out, n_in) from the input to the output; each n_in is the n_out of the previous layer.
    p : float
        Power of the norm.
    essential : bool
        Count the essential class as a pair (1, 0), as the authors' code does.
    scale : {"stack", "paths"}
        Divide by the largest magnitude of the stack, or by the width of the widest path. The authors' code
        prints both.

    Raises
    ------
    InputError
        No layers, a bad matrix, shapes that do not compose, or an unknown `scale`.

    References
    ----------
    Girrbach et al., "Addressing caveats of neural persistence with deep graph persistence", TMLR 2023.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> 0 < deep_graph_persistence([rng.normal(size=(8, 4)), rng.normal(size=(3, 8))]) < 1
    True
    """
    if scale not in ("stack", "paths"):
        raise InputError("unknown", argument="scale", value=scale, remedy="use 'stack' or 'paths'")
    stack = standardised_stack(layers)
    top = largest_of(stack)
    return persistence_of_paths(widest_path_tree(stack), top, p=p, essential=essential, scale=scale)


def shuffled_deep_graph_persistence(
    layers: Sequence[Any], draws: int = 5, *, rng: Randomness, p: float = 2.0
) -> np.ndarray:
    """Return the deep graph persistence of `draws` stacks in which each layer's entries are permuted alone.

    The entries of every layer stay; how the layers connect is random. Exact in distribution, from the
    largest entries and as many random cells. Parameters, unit and source (Girrbach et al. 2023) are those of
    `deep_graph_persistence`.

    Parameters
    ----------
    layers : sequence of array_like
        As in `deep_graph_persistence`.
    draws : int
        Number of shuffles; a sequence of generators gives one for each instead.
    rng : numpy.random.Generator or sequence of them
        One generator for all draws, or one for each.
    p : float
        Power of the norm.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stack = [rng.normal(size=(8, 4)), rng.normal(size=(3, 8))]
    >>> shuffled_deep_graph_persistence(stack, 2, rng=rng).shape
    (2,)
    """
    generators = [rng] * draws if isinstance(rng, np.random.Generator) else list(rng)
    if not generators:
        raise InputError(f"draws = {draws} must be at least 1")
    return np.array(paths_and_shuffled(layers, generators, p=p)[1])


def standardised_stack(layers: Sequence[Any]) -> list[np.ndarray]:
    """Return the standardised magnitudes of layers that compose, float32."""
    if not layers:
        raise InputError("layers is empty; give at least one matrix")
    checked = [check_matrix(layer, name=f"layers[{k}]") for k, layer in enumerate(layers)]
    for k, (below, above) in enumerate(itertools.pairwise(checked)):
        if above.shape[1] != below.shape[0]:
            raise InputError(
                f"layers[{k + 1}] has shape {above.shape} but layers[{k}] has {below.shape[0]} outputs; "
                "give matrices (n_out, n_in) that compose"
            )
    return [standardised(layer) for layer in checked]


def largest_of(stack: Sequence[np.ndarray]) -> float:
    """Return the largest magnitude of a standardised stack."""
    return max(float(layer.max()) for layer in stack)


def paths_and_shuffled(
    layers: Sequence[Any], generators: Sequence[np.random.Generator], *, p: float = 2.0
) -> tuple[float, list[float], float]:
    """Return the deep graph persistence of a stack, that of a shuffle for each generator, and 1 / the top.

    The top is the largest standardised magnitude, by which all are divided; NaN if it is 0.
    """
    stack = standardised_stack(layers)
    top = largest_of(stack)
    null = shuffled_path_trees(stack, generators) if generators else []
    shuffled = [persistence_of_paths(tree, top, p=p) for tree in null]
    value = persistence_of_paths(widest_path_tree(stack), top, p=p)  # the last: it changes the stack
    return value, shuffled, 1 / top if top else math.nan


def persistence_of_paths(
    keys: np.ndarray, top: float, *, p: float = 2.0, essential: bool = False, scale: Scale = "stack"
) -> float:
    """Return the neural persistence of the tree of the widest paths; 0 for a stack of equal entries."""
    if top == 0:
        return 0.0
    weights = keys.view(np.float32).astype(np.float64)
    divisor = top if scale == "stack" else float(weights[0])
    return neural_persistence(diagram_of_tree(weights), scale=divisor or None, p=p, essential=essential)
