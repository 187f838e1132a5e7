"""The small interface that every format implements: list tensors, read one, read some of its rows."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, read_text

# A header that claims more dimensions or elements than this is damaged; nothing is allocated for it.
MAX_DIMS = 16
MAX_ELEMENTS = 2**48


WITHOUT_DATA = "tensor-without-data"
NOT_IN_INDEX = "tensor-not-in-index"
"""The faults of a tensor that is named in a checkpoint and that nothing can load from it."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor without its values; if it cannot be read as numbers, `skip` says why.

    `fault` is the kind of finding if the checkpoint is to blame, because nothing can load the tensor from it;
    it is empty if only this reader cannot read it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    skip: str = ""
    fault: str = ""

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class Facts:
    """What a format states about its checkpoint besides the tensors; None or empty if nothing."""

    step: int | None = None
    epoch: int | None = None
    """Serves as the step if neither the file nor its name has one."""
    tokens: int | None = None
    heldout_loss: float | None = None
    parameters: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[Mapping[str, Any], ...] = ()
    """Rows of a loss history, keyed by the store's metrics columns."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """Of an adapter: the tensors that are changes of low rank to a weight, each with its rank."""
    beside: tuple[str, ...] = ()
    """The parts of the file that are not weights, such as the state of an optimiser."""
    further: tuple[str, ...] = ()
    """Parts of the file that hold more weights, which are not read: an average, a second model."""


def step_in(facts: Facts) -> int:
    """Return the step that a checkpoint states, or its epoch, or 0 if it has neither.

    >>> step_in(Facts(step=200, epoch=3)), step_in(Facts(epoch=3)), step_in(Facts())
    (200, 3, 0)
    """
    return facts.step if facts.step is not None else facts.epoch or 0


class Reader(Protocol):
    """The tensors of one checkpoint; nothing is loaded before it is needed."""

    label: str

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype, in the file's order."""
        ...

    def read(self, name: str) -> np.ndarray:
        """Read one tensor."""
        ...

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` (along the first axis) of one tensor."""
        ...

    def facts(self) -> Facts:
        """Return the format's facts besides the tensors."""
        ...


BROKEN_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""The standard library's errors for an archive that is damaged, truncated or not an archive."""

DTYPES: Mapping[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "uint8": np.dtype(np.uint8),
    "int8": np.dtype(np.int8),
    "uint16": np.dtype("<u2"),
    "int16": np.dtype("<i2"),
    "uint32": np.dtype("<u4"),
    "int32": np.dtype("<i4"),
    "uint64": np.dtype("<u8"),
    "int64": np.dtype("<i8"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "complex64": np.dtype("<c8"),
    "complex128": np.dtype("<c16"),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
}
"""Every dtype that a reader may return, by PyTorch's name."""

WEIGHT_DTYPES = frozenset(DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64"))
FLOAT8_DTYPES = frozenset(dtype for name, dtype in DTYPES.items() if name.startswith("float8"))


def check_shape(label: str, name: str, shape: Any) -> tuple[int, ...]:
    """Return `shape` as a tuple of plausible extents; else refuse it."""
    good = isinstance(shape, list | tuple) and len(shape) <= MAX_DIMS
    good = good and all(type(extent) is int and 0 <= extent <= MAX_ELEMENTS for extent in shape)
    count = 1
    for extent in shape if good else ():
        count *= max(extent, 1)
    if not good or count > MAX_ELEMENTS:
        stated = (
            f"{shape!r:.80}" if isinstance(shape, list | tuple) and _is_flat(shape) else "that is not a shape"
        )
        raise SourceError(f"{label}: tensor {name!r} has the impossible shape {stated}; fetch the file again")
    return tuple(shape)


def _is_flat(shape: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether a claimed shape can be printed without walking through nested objects."""
    return len(shape) < 100 and all(
        isinstance(part, bool | float | str) or (type(part) is int and abs(part) < 2**64) for part in shape
    )


def find(infos: Mapping[str, TensorInfo], label: str, name: str) -> TensorInfo:
    """Return the tensor of that name; refuse it if it is missing or cannot be read as numbers."""
    if name not in infos:
        raise SourceError(
            f"{label}: has no tensor {name!r}; it has {len(infos)}, such as {next(iter(infos), None)!r}"
        )
    info = infos[name]
    if info.skip:
        raise SourceError(f"{label}: tensor {name!r} cannot be read: {info.skip}")
    return info


def check_rows(info: TensorInfo, label: str, start: int, stop: int) -> None:
    """Refuse a row range that the tensor does not have."""
    if not info.shape or not 0 <= start <= stop <= info.shape[0]:
        raise SourceError(
            f"{label}: tensor {info.name!r} of shape {info.shape} has no rows {start} to {stop}",
            remedy="choose rows within its shape",
        )


def read_json(blob: Blob) -> Any:
    """Read a small JSON file."""
    return parse_json(read_text(blob), blob.label)


def parse_json(text: str, label: str) -> Any:
    """Parse JSON; errors become one line that names the file."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{label}: is not valid JSON ({error}); fetch it again") from error
