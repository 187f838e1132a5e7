"""Deep graph persistence: neural persistence of a whole stack of layers, from its widest paths."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.kernels.max_min import max_min_product
from toposcope.topology.neural_persistence import neural_persistence
from toposcope.topology.validation import check_matrix


def deep_graph_persistence(layers: Sequence[Any], *, p: float = 2.0) -> float:
    """Return the neural persistence of the widest paths from the inputs to the outputs of a stack.

    Every layer is standardised, (W - mean) / std, its magnitudes are divided by the largest over all
    layers, and S_oi = max over paths from input i to output o of the smallest weight on the path. The
    result is NP_p(S) with births at 1, which depends on how layers connect and not only on their variances.
    Only stacks of linear layers that compose (an MLP's in -> out) have such paths.

    Parameters
    ----------
    layers : sequence of array_like
        Matrices (n_out, n_in) from the input to the output; each n_in is the n_out of the previous layer.
    p : float
        Power of the norm.

    Raises
    ------
    InputError
        No layers, a bad matrix, or shapes that do not compose.

    References
    ----------
    Girrbach et al., "Addressing caveats of neural persistence with deep graph persistence", TMLR 2023.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> 0 < deep_graph_persistence([rng.normal(size=(8, 4)), rng.normal(size=(3, 8))]) < 1
    True
    """
    if not layers:
        raise InputError("layers is empty; give at least one matrix")
    stack = [_standardised(layer, f"layers[{k}]") for k, layer in enumerate(layers)]
    for k, (below, above) in enumerate(itertools.pairwise(stack)):
        if above.shape[1] != below.shape[0]:
            raise InputError(
                f"layers[{k + 1}] has shape {above.shape} but layers[{k}] has {below.shape[0]} outputs; "
                "give matrices (n_out, n_in) that compose"
            )
    top = max(float(layer.max()) for layer in stack)
    if top == 0:
        return 0.0
    widest = stack[0]
    for layer in stack[1:]:
        widest = max_min_product(layer, widest)
    return neural_persistence(widest / np.float32(top), scale=1.0, p=p)


def _standardised(layer: Any, name: str) -> np.ndarray:
    wide = check_matrix(layer, name=name).astype(np.float32)
    spread = float(wide.std(dtype=np.float64))
    if spread == 0:
        return np.zeros_like(wide)
    return np.abs((wide - np.float32(wide.mean(dtype=np.float64))) / np.float32(spread))
