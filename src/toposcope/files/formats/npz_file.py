"""NumPy archives (.npz): plain arrays only; stored ones are read by range, compressed ones within limits."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, stream
from toposcope.files.formats.reader import (
    BROKEN_ARCHIVE,
    DTYPES,
    Facts,
    TensorInfo,
    check_rows,
    check_shape,
    find,
)

MAX_RATIO = 200
"""Weights do not compress this well; a large file that claims to is a decompression bomb."""

# Smaller arrays may have any compression ratio, because they cannot fill the memory.
FREE_BYTES = 64 * 2**20
_BY_KIND = {(dtype.kind, dtype.itemsize): dtype for name, dtype in DTYPES.items() if "float8" not in name}
_READS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class NpzFile:
    """One .npz archive; arrays of Python objects are refused, never unpickled."""

    def __init__(self, blob: Blob) -> None:
        self.label = blob.label
        self._blob = blob
        self._infos: dict[str, TensorInfo] = {}
        self._members: dict[str, tuple[zipfile.ZipInfo, int, bool]] = {}
        try:
            with zipfile.ZipFile(stream(blob)) as archive:
                for entry in archive.infolist():
                    if entry.filename.endswith(".npy"):
                        self._add(archive, entry)
        except SourceError:
            raise
        except BROKEN_ARCHIVE as error:
            raise self._bad(f"{str(error)[:80]} (truncated?)") from error
        if not self._infos:
            raise SourceError(f"{blob.label}: contains no arrays; check that it is a checkpoint")

    def _bad(self, why: str) -> SourceError:
        return SourceError(f"{self.label}: is not a valid .npz file: {why}; fetch it again")

    def _add(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
        name = entry.filename.removesuffix(".npy")
        if name in self._infos:
            raise self._bad(f"array {name!r:.80} occurs twice")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self._bad(f"array {name!r:.80} is compressed in an unusual way")
        if entry.file_size > FREE_BYTES and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
            raise self._bad(
                f"array {name!r:.80} claims to grow {entry.file_size // max(entry.compress_size, 1):,} times"
            )
        with archive.open(entry) as file:
            head = io.BytesIO(file.read(1 << 16))
        version = np.lib.format.read_magic(head)
        if version not in _READS:
            raise self._bad(f"array {name!r:.80} has the unknown version {version}")
        shape, fortran, dtype = _READS[version](head)
        if dtype.hasobject:
            raise SourceError(
                f"{self.label}: array {name!r:.80} contains Python objects and is not read; save plain arrays"
            )
        skip = (
            ""
            if (dtype.kind, dtype.itemsize) in _BY_KIND and dtype.isnative
            else f"its dtype {dtype} is not a number type"
        )
        info = TensorInfo(
            name,
            check_shape(self.label, name, shape),
            dtype if skip else _BY_KIND[dtype.kind, dtype.itemsize],
            skip,
        )
        if head.tell() + info.nbytes != entry.file_size:
            raise self._bad(
                f"array {name!r:.80} needs {info.nbytes:,} bytes and has {entry.file_size - head.tell()}"
            )
        self._infos[name] = info
        self._members[name] = (entry, head.tell(), fortran)

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every array's name, shape and dtype, in the file's order."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one array."""
        info = find(self._infos, self.label, name)
        entry, start, fortran = self._members[name]
        data = np.empty(info.nbytes, dtype=np.uint8)
        try:
            with zipfile.ZipFile(stream(self._blob)) as archive, archive.open(entry) as file:
                file.read(start)
                at = 0
                while at < len(data):
                    part = file.read(min(1 << 20, len(data) - at))
                    if not part:
                        raise self._bad(f"array {name!r:.80} ends early")
                    data[at : at + len(part)] = np.frombuffer(part, dtype=np.uint8)
                    at += len(part)
                file.read(1)  # the end, where the checksum is compared
        except SourceError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise self._bad(f"array {name!r:.80}: {str(error)[:80]}") from error
        values = data.view(info.dtype)
        return values.reshape(info.shape[::-1]).T if fortran else values.reshape(info.shape)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one array."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self.read(name)[start:stop]

    def facts(self) -> Facts:
        """Return the step if the archive holds one as a scalar array."""
        info: Any = self._infos.get("step")
        if info is None or info.shape or info.dtype.kind not in "iu":
            return Facts()
        return Facts(step=int(self.read("step")))
