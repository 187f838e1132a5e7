"""Minimum spanning tree of a torch point cloud: products and filters on its device, trees on the host.

The same algorithm as `euclidean_tree`, block by block, with whole-array operations: in the leaf order
of the single linkage so far, the bottleneck between a new point's neighbour and every leaf is a
cumulative maximum of the seams in both directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toposcope.kernels.distances import CANCELLATION
from toposcope.kernels.linkage import link

if TYPE_CHECKING:
    import torch

# Squared norms below which float32 products underflow, as in `distances`.
_TINY = 1e-30
# Pairs whose distances are recomputed from differences at a time, to bound memory.
_PAIRS = 1 << 14
_BLOCK = {"cpu": 512, "cuda": 2048}


def tree_lengths(X: torch.Tensor, *, unit: bool = False) -> np.ndarray:
    """Return the lengths (float64, ascending) of the minimum spanning tree of the rows of `X`.

    `X` has shape (n, d), any floating type, finite. With `unit` every row is divided by its norm, which
    must not be 0.
    """
    import torch

    points = X.detach()
    exact = points if points.element_size() > 2 else points.float()
    top = float(exact.abs().max()) if len(exact) else 0.0
    scale = 2.0 ** -float(np.clip(np.frexp(top)[1], -1000, 1000)) if top > 0 else 1.0
    row_scale = torch.full((len(exact),), scale, dtype=torch.float64, device=exact.device)
    if unit:
        largest = exact.abs().amax(dim=1).double()
        row_scale, scale = 1.0 / (largest * _squared_norms(exact, 1.0 / largest).sqrt()), 1.0
    work = _centred(exact, row_scale)
    u, v = _grow(work, _squared_norms(work, torch.ones_like(row_scale)), exact, row_scale)
    lengths = np.sqrt(_pair_squares(exact, row_scale, u, v).cpu().numpy()) / scale
    return np.sort(lengths)


def _spans(rows: torch.Tensor) -> list[slice]:
    return [slice(at, at + 1024) for at in range(0, len(rows), 1024)]


def _squared_norms(rows: torch.Tensor, row_scale: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.cat([((rows[s].double() * row_scale[s, None]) ** 2).sum(dim=1) for s in _spans(rows)])


def _centred(exact: torch.Tensor, row_scale: torch.Tensor) -> torch.Tensor:
    """Return the scaled rows, centred, as float32, a block of rows at a time."""
    import torch

    work = torch.empty(exact.shape, dtype=torch.float32, device=exact.device)
    center = sum(row_scale[s] @ exact[s].double() for s in _spans(exact)) / len(exact)
    for s in _spans(exact):
        work[s] = (exact[s].double() * row_scale[s, None] - center).float()
    return work


def _grow(
    work: torch.Tensor, norms: torch.Tensor, exact: torch.Tensor, row_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    n, device = len(work), work.device
    block = _BLOCK.get(device.type, 512)
    u = v = np.empty(0, np.int64)
    lengths = seams = np.empty(0)
    leaves = np.empty(0, np.int64)
    for start in range(0, n, block):
        stop = min(start + block, n)
        squares = _block_squares(work, norms, exact, row_scale, start, stop)
        order, gaps = torch.from_numpy(leaves).to(device), torch.from_numpy(seams).to(device)
        new = [part.cpu().numpy() for part in _light_edges(squares, start, order, gaps)]
        u, v = np.concatenate((u, new[0] + start)), np.concatenate((v, new[1]))
        lengths = np.concatenate((lengths, new[2]))
        chosen, leaves, seams = link(np.argsort(lengths, kind="stable"), u, v, lengths, stop)
        u, v, lengths = u[chosen], v[chosen], lengths[chosen]
    return torch.from_numpy(u).to(device), torch.from_numpy(v).to(device)


def _block_squares(
    work: torch.Tensor,
    norms: torch.Tensor,
    exact: torch.Tensor,
    row_scale: torch.Tensor,
    start: int,
    stop: int,
) -> torch.Tensor:
    """Return the float64 squared distances of points `start` to `stop` to all points before `stop`."""
    import torch

    sizes = norms[start:stop, None] + norms[None, :stop]
    squares = sizes - 2.0 * (work[start:stop] @ work[:stop].T).double()
    earlier = torch.arange(stop, device=work.device)[None, :] < torch.arange(
        start, stop, device=work.device
    ).unsqueeze(1)
    bad = ((squares < CANCELLATION * sizes) | (sizes < _TINY)) & earlier
    u, v = torch.nonzero(bad, as_tuple=True)
    squares[u, v] = _pair_squares(exact, row_scale, u + start, v)
    return squares


def _pair_squares(
    exact: torch.Tensor, row_scale: torch.Tensor, u: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """Return squared distances in float64 from differences of the points, some pairs at a time."""
    import torch

    parts = [torch.empty(0, dtype=torch.float64, device=exact.device)]
    for at in range(0, len(u), _PAIRS):
        a, b = u[at : at + _PAIRS], v[at : at + _PAIRS]
        gaps = exact[a].double() * row_scale[a, None] - exact[b].double() * row_scale[b, None]
        parts.append((gaps**2).sum(dim=1))
    return torch.cat(parts)


def _light_edges(
    squares: torch.Tensor, start: int, leaves: torch.Tensor, seams: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the block's edges (row, earlier point, squared length) shorter than any path so far."""
    import torch

    size, device = len(squares), squares.device
    inner = squares[:, start:]
    below = torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)
    if start == 0:
        i, j = torch.nonzero(below, as_tuple=True)
        return i, j, inner[i, j]
    height, nearest = squares[:, :start].min(dim=1)
    place = torch.empty_like(leaves)
    place[leaves] = torch.arange(start, device=device)
    reach = _bottlenecks(seams, place[nearest])
    in_order = squares[:, leaves]
    i, k = torch.nonzero(in_order < torch.maximum(reach, height[:, None]), as_tuple=True)
    between = reach[:, place[nearest]]
    bound = torch.maximum(between, torch.maximum(height[:, None], height[None, :]))
    a, b = torch.nonzero((inner < bound) & below, as_tuple=True)
    rows = torch.arange(size, device=device)
    return (
        torch.cat((rows, i, a)),
        torch.cat((nearest, leaves[k], b + start)),
        torch.cat((height, in_order[i, k], inner[a, b])),
    )


def _bottlenecks(seams: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Return the largest seam between each of the places and every leaf, 0 at the place itself."""
    import torch

    at = torch.arange(len(seams), device=seams.device)[None, :]
    ahead = torch.where(at > place[:, None], seams[None, :], 0.0).cummax(dim=1).values
    # Going down from a place, the seam before leaf k + 1 separates leaf k from it.
    after = torch.cat((seams[1:], seams.new_zeros(1)))
    behind = torch.where(at < place[:, None], after[None, :], 0.0).flip(1).cummax(dim=1).values.flip(1)
    return torch.maximum(ahead, behind)
