"""The weight matrices of a checkpoint: which tensors are read, and how each becomes matrices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint, Matrix, Role
from toposcope.files.formats.reader import WEIGHT_DTYPES, Reader, TensorInfo
from toposcope.sources.names import BUFFERS, HEADS, Fused, NamingScheme, Place, family_of, place

SPLITS = ("table", "whole", "parts", "heads")


@dataclass(frozen=True, slots=True)
class Heads:
    """The attention's shape, from a model's config; 0 if not stated."""

    queries: int = 0
    groups: int = 0
    width: int = 0


def heads_of(config: Mapping[str, Any]) -> Heads:
    """Return the number of query heads, of key-value groups, and the head width that `config` states."""

    def number(*keys: str) -> int:
        values = (config.get(key) for key in keys)
        return next((value for value in values if type(value) is int and 0 < value < 2**20), 0)

    queries = number("num_attention_heads", "n_head", "n_heads", "num_heads", "heads")
    hidden = number("hidden_size", "n_embd", "d_model", "dim")
    return Heads(
        queries,
        number("num_key_value_heads", "n_kv_heads", "num_query_groups") or queries,
        number("head_dim", "kv_channels") or (hidden // queries if queries else 0),
    )


def is_weight(info: TensorInfo) -> bool:
    """Return whether a tensor is a 2-D weight, or a 3-D stack of experts' or attention heads' weights."""
    return len(info.shape) > 1 and not why_skipped(info)


def why_skipped(info: TensorInfo) -> str:
    """Return why a tensor is not a weight matrix; empty if it is, or if it has fewer than two dimensions.

    >>> why_skipped(TensorInfo("h.0.attn.bias", (1, 1, 8, 8), np.dtype("float32")))
    'a buffer, not a weight'
    """
    if info.skip:
        return info.skip
    if len(info.shape) < 2:
        return ""
    if BUFFERS.search(info.name):
        return "a buffer, not a weight"
    if info.dtype not in WEIGHT_DTYPES:
        return f"of type {info.dtype}, not a weight"
    if 0 in info.shape:
        return "empty"
    if len(info.shape) == 2 or (len(info.shape) == 3 and _is_stack(info.name)):
        return ""
    return f"{len(info.shape):,} dimensions, neither a stack of experts nor of attention heads"


def is_vector(info: TensorInfo) -> bool:
    """Return whether a tensor is a parameter of fewer than two dimensions: a norm's gain, bias or scalar."""
    plain = len(info.shape) < 2 and info.dtype in WEIGHT_DTYPES and not info.skip and info.size > 0
    return plain and not BUFFERS.search(info.name)


def stream_vectors(reader: Reader, checkpoint: Checkpoint) -> Iterator[Matrix]:
    """Yield the parameters of fewer than two dimensions, each as one row, finite or not."""
    infos = reader.infos()
    family = family_for(infos)
    for info in infos.values():
        if is_vector(info):
            where = place(family, info.name)
            values = np.asarray(reader.read(info.name)).reshape(1, -1)
            yield Matrix(checkpoint, info.name, values, where.role, where.layer, None)


def _is_stack(name: str) -> bool:
    return "expert" in name or HEADS.search(name) is not None


def family_for(infos: Mapping[str, TensorInfo]) -> NamingScheme:
    """Return the naming scheme of a checkpoint."""
    return family_of({info.name: info.shape for info in infos.values() if len(info.shape) > 1})


def stream_matrices(
    reader: Reader,
    checkpoint: Checkpoint,
    *,
    split: str = "table",
    config: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
) -> Iterator[Matrix]:
    """Yield the weight matrices of a checkpoint, one tensor in memory at a time.

    Parameters
    ----------
    reader
        The checkpoint's tensors.
    checkpoint
        Its run and step.
    split
        "table": fused matrices are split if the family's table says so; "whole": never; "parts": always;
        "heads": parts, and each attention head's rows separately.
    config
        The model's configuration; its numbers of heads are needed for interleaved and grouped layouts.
    only
        The tensors to read, all by default.
    """
    if split not in SPLITS:
        raise InputError(
            "unknown", argument="split", value=split, remedy=f"choose one of {', '.join(SPLITS)}"
        )
    infos = reader.infos()
    family = family_for(infos)
    heads = heads_of(config if config is not None else reader.facts().config)
    for info in infos.values():
        if is_weight(info) and (only is None or info.name in only):
            where = place(family, info.name)
            for name, values, head in _pieces(reader, info, where, split, heads):
                fault = _beyond_float32(values)
                yield Matrix(checkpoint, name, _as_weight(values), _role(where), where.layer, head, fault)


def _role(where: Place) -> Role:
    return where.role


def _as_weight(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # `_beyond_float32` reports it
        return values.astype(np.float32) if values.dtype == np.float64 else values


def _beyond_float32(values: np.ndarray) -> str:
    """Return why float32 cannot hold the values of a float64 matrix; empty if it can.

    Single values that are lost next to much larger ones do not matter in float32.

    >>> _beyond_float32(np.array([[1e-200, 0.0]]))
    'holds float64 values of at most 1e-200, which is too small for float32; scale the tensor up'
    >>> _beyond_float32(np.array([[1.0, 1e-200]]))
    ''
    """
    if values.dtype != np.float64 or not values.size:
        return ""
    largest = float(max(values.max(), -values.min()))
    if 0.0 < largest < float(np.finfo(np.float32).tiny):
        what = f"holds float64 values of at most {largest:.3g}"
        return f"{what}, which is too small for float32; scale the tensor up"
    if float(np.finfo(np.float32).max) < largest < np.inf:
        return f"holds a float64 value of {largest:.3g}, which is infinite in float32; scale the tensor down"
    return ""


def _pieces(
    reader: Reader, info: TensorInfo, where: Place, split: str, heads: Heads
) -> Iterator[tuple[str, np.ndarray, int | None]]:
    if len(info.shape) == 3:
        by_head = HEADS.search(info.name) is not None
        for index in range(info.shape[0]):
            values = reader.rows(info.name, index, index + 1)[0]
            values = values.T if where.rule is not None and where.rule.transposed else values
            label = f"head {index}" if by_head else f"{index}"
            yield f"{info.name}[{label}]", values, index if by_head else None
        return
    values = reader.read(info.name)
    rule = where.rule
    if rule is not None and rule.transposed:
        values = values.T
    fused = rule.fused if rule is not None and split != "whole" else None
    if fused is not None and (fused.split or split != "table"):
        rows = part_rows(fused, values.shape, heads)
        if rows is not None:
            for part, index in rows.items():
                piece = values[index]
                yield from _by_head(f"{info.name}[{part}]", piece, part, split, heads)
            return
    yield from _by_head(info.name, values, rule.part if rule is not None else "", split, heads)


def _by_head(
    name: str, values: np.ndarray, part: str, split: str, heads: Heads
) -> Iterator[tuple[str, np.ndarray, int | None]]:
    count = {"q": heads.queries, "k": heads.groups, "v": heads.groups}.get(part, 0)
    if split != "heads" or not count or values.shape[0] % count:
        yield name, values, None
        return
    width = values.shape[0] // count
    for head in range(count):
        yield f"{name}[head {head}]", values[head * width : (head + 1) * width], head


def part_rows(fused: Fused, shape: tuple[int, ...], heads: Heads) -> dict[str, Any] | None:
    """Return the rows of each part of a fused matrix, or None if its layout cannot be known.

    The rows are slices if contiguous, else index arrays.
    """
    n_out, n_in = shape
    if fused.parts != ("q", "k", "v"):
        count = len(fused.parts)
        if n_out % count:
            return None
        return {
            part: slice(i * n_out // count, (i + 1) * n_out // count) for i, part in enumerate(fused.parts)
        }
    if fused.order == "blocks":
        return _block_rows(n_out, n_in, heads)
    queries = heads.queries
    groups = queries if fused.order == "heads" else heads.groups
    if not queries or not groups or queries % groups or n_out % (queries + 2 * groups):
        return None
    width = n_out // (queries + 2 * groups)
    per_group = (queries // groups) * width
    rows = np.arange(n_out).reshape(groups, per_group + 2 * width)
    return {
        "q": rows[:, :per_group].ravel(),
        "k": rows[:, per_group : per_group + width].ravel(),
        "v": rows[:, per_group + width :].ravel(),
    }


def _block_rows(n_out: int, n_in: int, heads: Heads) -> dict[str, Any] | None:
    queries = heads.queries * heads.width or n_in
    keys = heads.groups * heads.width or (n_out - queries) // 2
    if queries + 2 * keys != n_out or keys <= 0:
        if n_out % 3:
            return None
        queries = keys = n_out // 3
    return {"q": slice(0, queries), "k": slice(queries, queries + keys), "v": slice(queries + keys, n_out)}
