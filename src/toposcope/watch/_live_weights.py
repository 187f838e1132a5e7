"""The weights of a model in this process: which there are, why they may be incomplete, and copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine")


def tensors_of(model: Any) -> dict[str, Any]:
    """Return a model's tensors by name, the first of tied ones; prefixes from wrappers stay."""
    if isinstance(model, Mapping):
        return dict(model)
    tensors, seen = {}, set()
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) not in seen and hasattr(value, "detach"):
            tensors[name] = value
        seen.add(id(value))
    return tensors


def why_refused(model: Any) -> str:
    """Return why this process does not hold all weights of a model; empty if it does."""
    modules: Callable[[], Any] = getattr(model, "modules", tuple)
    for module in modules():
        names = {kind.__name__ for kind in type(module).__mro__}
        wrapper = next((name for name in _SHARDED if name in names), "")
        if wrapper:
            return f"the model is sharded ({wrapper})"
    parameters: Callable[[], Any] = getattr(model, "parameters", tuple)
    for parameter in parameters():
        if hasattr(parameter, "ds_id"):
            return "the parameters are sharded by ZeRO"
        if type(parameter).__name__ == "DTensor" or type(getattr(parameter, "data", 0)).__name__ == "DTensor":
            return "the parameters are sharded (DTensor)"
    return ""


def bytes_of(tensor: Any) -> int:
    """Return how many bytes a tensor takes."""
    return int(tensor.nbytes)


def copied(tensor: Any) -> Any:
    """Return a copy of a tensor in main memory, which training does not change."""
    if isinstance(tensor, np.ndarray):
        return tensor.copy()
    import torch

    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def placeholder(tensor: Any) -> np.ndarray:
    """Return an array of the tensor's shape that takes no memory and is never read."""
    return np.broadcast_to(np.float32(0), tuple(tensor.shape))
