"""Maximum spanning tree of |W| for torch tensors: scans on the tensor's device, trees on the host.

The device reads the matrix: a threshold from a sample, the edges above it, and the best edges out of what
remains. The few edges that come back are joined on the host, in threads, while the device continues with the
next matrix. Keys are compared as integers, so deaths equal those of the array kernels bit for bit; the trees
may differ only among edges of equal weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.threads import worker_pool
from toposcope.kernels.bipartite_scan import descending
from toposcope.kernels.bipartite_tree import PREFIX, PREFIX_LIMIT, RAISES
from toposcope.kernels.union_find import kruskal, roots

if TYPE_CHECKING:
    import torch

# Entries that estimate the threshold, as in `bipartite_tree`.
_SAMPLE = 1 << 16
_PIECE = 1 << 26
"""The number of entries of a matrix that are widened or compared at a time."""


def spanning_tree_weights(tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """Return each matrix's tree weights as float64, heaviest first, for tensors of rank 2 on any device.

    NaN and infinity sort above everything finite, so they come first.
    """
    pool = worker_pool()
    prefixes = []
    for tensor in tensors:
        keys = _keys(tensor)
        candidates = _heaviest(keys, tensor.dtype)
        prefixes.append(
            (tensor, candidates, pool.submit(_prefix_tree, candidates, tensor.shape[0], tensor.shape[1]))
        )
    weights = []
    for tensor, _, pending in prefixes:
        edges, parent, size = pending.result()
        missing = sum(tensor.shape) - 1 - edges.size
        parts = [edges]
        while missing:
            parts.append(_boruvka_round(_keys(tensor), parent, size))
            missing -= parts[-1].size
        weights.append(_values(np.sort(np.concatenate(parts))[::-1], tensor.dtype))
    return weights


def _keys(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's bits as signed integers, as a view; the sign of the weight is still set."""
    import torch

    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.detach().contiguous().view(integer)


def _magnitude(bits: torch.Tensor) -> torch.Tensor:
    import torch

    return bits & torch.iinfo(bits.dtype).max


def _heaviest(bits: torch.Tensor, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return keys and flat positions of all edges above a threshold, about as many as a tree needs."""
    import torch

    n = sum(bits.shape)
    target = PREFIX * n * np.log(n)
    flat = bits.reshape(-1)
    step = max(1, flat.numel() // _SAMPLE)
    # An odd stride meets every column, whatever the width.
    sample = _magnitude(flat[:: step | 1]).sort().values
    share = 1 - target / flat.numel()
    tau = int(sample[int(sample.numel() * share)]) if share > 0 else 0
    for _ in range(RAISES):
        positions = _above(flat, tau)
        if positions.numel() <= max(PREFIX_LIMIT * target, 1024):
            keys = _magnitude(flat[positions])
            return keys.cpu().numpy(), positions.cpu().numpy()
        above = sample[sample > tau]
        rank = int(above.numel() * (1 - target / positions.numel()))
        tau = int(above[rank]) if above.numel() else tau + 1
    none = torch.empty(0, dtype=bits.dtype)
    return none.numpy(), np.empty(0, np.int64)


def _above(flat: torch.Tensor, tau: int) -> torch.Tensor:
    import torch

    parts = [
        torch.nonzero(_magnitude(flat[at : at + _PIECE]) >= tau).reshape(-1) + at
        for at in range(0, flat.numel(), _PIECE)
    ]
    return torch.cat(parts)


def _prefix_tree(
    candidates: tuple[np.ndarray, np.ndarray], n_out: int, n_in: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the keys of the prefix of the tree, and its components."""
    keys, positions = candidates
    rows = positions // n_in
    columns = positions - rows * n_in + n_out
    parent, size = np.arange(n_out + n_in, dtype=np.int32), np.ones(n_out + n_in, np.int32)
    unsigned = keys.view(f"u{keys.dtype.itemsize}")
    chosen = kruskal(descending(unsigned), rows.astype(np.int32), columns.astype(np.int32), parent, size)
    return unsigned[chosen], parent, size


def _boruvka_round(bits: torch.Tensor, parent: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Join every component but the largest to its heaviest neighbour; return the keys of the edges."""
    n_out = bits.shape[0]
    labels, largest = roots(parent)
    outside = np.flatnonzero(labels != largest)
    rows, columns = outside[outside < n_out], outside[outside >= n_out] - n_out
    sets = _to_device(labels, bits)
    from_rows = _best_out(bits, rows, sets[:n_out], sets[n_out:])
    from_columns = _best_out(bits.T, columns, sets[n_out:], sets[:n_out])
    keys = np.concatenate((from_rows[0], from_columns[0]))
    u = np.concatenate((rows, columns + n_out))
    v = np.concatenate((from_rows[1] + n_out, from_columns[1]))
    order = descending(keys.astype(f"u{keys.dtype.itemsize}"))
    best = order[np.sort(np.unique(labels[u][order], return_index=True)[1])]
    # Heaviest first, so that edges of equal weight can neither close a cycle nor displace a heavier edge.
    best = best[keys[best] >= 0]
    chosen = kruskal(best, u.astype(np.int32), v.astype(np.int32), parent, size)
    return keys[chosen].view(f"u{keys.dtype.itemsize}")


def _best_out(
    bits: torch.Tensor, rows: np.ndarray, own_tree: torch.Tensor, other: torch.Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Return key and column of each row's heaviest edge into another set; key -1 if there is none."""
    import torch

    step = max(1, _PIECE // bits.shape[1])
    keys, columns = [np.empty(0, f"i{bits.element_size()}")], [np.empty(0, np.int64)]
    for start in range(0, rows.size, step):
        chosen = _to_device(rows[start : start + step], bits)
        candidates = _magnitude(bits[chosen])
        candidates = torch.where(other[None, :] != own_tree[chosen][:, None], candidates, -1)
        best = candidates.max(dim=1)
        keys.append(best.values.cpu().numpy())
        columns.append(best.indices.cpu().numpy())
    return np.concatenate(keys), np.concatenate(columns)


def _to_device(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.from_numpy(array.astype(np.int64)).to(like.device)


def _values(keys: np.ndarray, dtype: Any) -> np.ndarray:
    import torch

    signed = torch.from_numpy(keys.view(f"i{keys.dtype.itemsize}").copy())
    return signed.view(dtype).to(torch.float64).numpy()
