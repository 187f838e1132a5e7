"""Good files to damage, and hostile ones made by hand."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import save

Tensors = dict[str, np.ndarray]
SENTINEL = "executed"


def good_tensors(seed: int = 0) -> Tensors:
    rng = np.random.default_rng(seed)
    return {
        "layers.0.attn.qkv.weight": rng.normal(size=(12, 4)).astype(np.float32),
        "layers.0.mlp.fc1.weight": rng.normal(size=(16, 4)).astype(np.float16),
        "layers.0.ln1.weight": np.ones(4, np.float32),
    }


def header(table: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def _entry(dtype: object = "F32", shape: object = (2, 2), offsets: object = (0, 16)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


DATA = bytes(16)

SAFETENSORS: dict[str, bytes] = {
    "empty file": b"",
    "seven bytes": b"1234567",
    "huge header": header({"w": _entry()}, DATA, 2**63),
    "header beyond the end": header({"w": _entry()}, DATA, 10**6),
    "header not json": header(b"{nonsense", DATA),
    "header a list": header([1, 2], DATA),
    "header not utf-8": header(b'{"\xff\xfe": 1}', DATA),
    "deep nesting": header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, DATA),
    "huge number": header(
        b'{"w":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,16]}}', DATA
    ),
    "duplicate name": header(
        b'{"w":' + json.dumps(_entry()).encode() + b',"w":' + json.dumps(_entry()).encode() + b"}", DATA
    ),
    "unknown dtype": header({"w": _entry("F31")}, DATA),
    "dtype no text": header({"w": _entry(32)}, DATA),
    "shape too large": header({"w": _entry(shape=(2**40, 2**40))}, DATA),
    "negative extent": header({"w": _entry(shape=(-2, -2))}, DATA),
    "fractional extent": header({"w": _entry(shape=(2.0, 2))}, DATA),
    "boolean extent": header({"w": _entry(shape=(True, 4))}, DATA),
    "shape against bytes": header({"w": _entry(shape=(3, 2))}, DATA),
    "offsets beyond the end": header({"w": _entry(offsets=(16, 32))}, DATA),
    "offsets reversed": header({"w": _entry(offsets=(16, 0))}, DATA),
    "negative offset": header({"w": _entry(offsets=(-16, 0))}, DATA),
    "one offset": header({"w": _entry(offsets=(0,))}, DATA),
    "overlap": header({"a": _entry(), "b": _entry(shape=(2,), offsets=(8, 16))}, DATA),
    "hole": header(
        {"a": _entry(shape=(1,), offsets=(0, 4)), "b": _entry(shape=(1,), offsets=(12, 16))}, DATA
    ),
    "trailing bytes": header({"w": _entry()}, DATA + b"more"),
    "extra key": header({"w": _entry() | {"more": 1}}, DATA),
    "entry no object": header({"w": 3}, DATA),
    "metadata no strings": header({"__metadata__": {"a": 1}, "w": _entry()}, DATA),
    "no tensors": header({}, b""),
}


class Payload:
    """An object whose unpickling would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable, tuple]:
        return (open, (str(self.path), "w"))


def torch_zip(
    pickled: bytes, storages: dict[str, bytes] | None = None, compression: int = zipfile.ZIP_STORED
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")
        for key, data in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", data)
    return out.getvalue()


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def pickles(folder: Path) -> dict[str, bytes]:
    """Return hostile pickles; those that would run something would leave `folder`/SENTINEL."""
    path = folder / SENTINEL
    system = b"\x80\x02" + _global("os", "system") + f"(V touch {path}\n".encode() + b"tR."
    builtin = b"\x80\x02" + _global("builtins", "eval") + f"(Vopen({str(path)!r}, 'w')\n".encode() + b"tR."
    nested = b"\x80\x02" + _global("torch", "os.system") + f"(Vtouch {path}\n".encode() + b"tR."
    runner = b"\x80\x02" + _global("torch.hub", "load") + f"(V{path}\n".encode() + b"tR."
    loop = b"\x80\x02}q\x00(X\x01\x00\x00\x00ah\x00u."
    bomb = (
        b"\x80\x02]q\x00"
        + b"".join(b"(h" + bytes([i]) + b"h" + bytes([i]) + b"lq" + bytes([i + 1]) for i in range(60))
        + b"."
    )
    return {
        "object with a payload": pickle.dumps({"model": Payload(path)}),
        "os.system": system,
        "eval": builtin,
        "a dotted name": nested,
        "a function of torch": runner,
        "refers to itself": loop,
        "doubling lists": bomb,
        "stack underflow": b"\x80\x02R.",
        "endless": b"\x80\x02" + b"(" * 1000,
        "huge memo index": b"\x80\x02Nr\xff\xff\xff\xff.",
        "huge string": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
        "huge integer": b"\x80\x02\x8b" + struct.pack("<I", 2**31) + b"x.",
        "extension code": b"\x80\x02\x82\x01.",
        "unknown opcode": b"\x80\x02\xff.",
        "only a mark": b"(.",
        "not a tree": b"\x80\x02K\x01.",
        "tensor beyond its storage": _tensor_pickle(shape=(100, 100), strides=(100, 1)),
        "tensor with negative offset": _tensor_pickle(offset=-5),
        "tensor that overlaps itself": _tensor_pickle(shape=(2**20, 2**20), strides=(0, 0)),
        "tensor of a missing storage": _tensor_pickle(key="9"),
        "storage path trick": _tensor_pickle(key="../../../../etc/passwd"),
    } | costly_pickles()


MERSENNE = 2**61 - 1
"""The modulus of Python's hash of integers: multiples of it collide."""


@cache
def costly_pickles() -> dict[str, bytes]:
    """Return small pickles that would hold a careless reader for minutes, or end in a RecursionError."""

    def number(value: int) -> bytes:
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(data)]) + data

    colliding = [number(MERSENNE * n) for n in range(1, 60_000)]
    # a pair of itself, forty times over: 2^40 leaves in 300 bytes
    doubled = b")q\x00" + b"".join(
        b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(40)
    )
    deep = b")" + b"\x85" * 100_000
    many = b"(" + b"K\x01" * 100_000 + b"tq\x00"
    ordered = _global("collections", "OrderedDict")
    again = b"h\x02h\x01\x85R0" * 30_000 + b"N."
    record = _global("torch", "some") + b"q\x00h\x00)Rq\x01"
    # a record of itself twice over, forty times
    laughing = record + b"".join(
        b"h\x00h" + bytes([i]) + b"h" + bytes([i]) + b"\x86Rq" + bytes([i + 1]) for i in range(1, 41)
    )
    tensor = _tensor_pickle()[2:-1]
    return {
        "colliding keys": b"\x80\x02}(" + b"N".join(colliding) + b"Nu.",
        "colliding items of a set": b"\x80\x04\x8f(" + b"".join(colliding) + b"\x90.",
        "colliding items of a frozen set": b"\x80\x04(" + b"".join(colliding) + b"\x91.",
        "colliding pairs": b"\x80\x02" + ordered + b"](" + b"N\x86".join(colliding) + b"N\x86e\x85R.",
        "colliding memo": b"\x80\x02N" + b"".join(b"p%d\n" % (MERSENNE * n) for n in range(1, 9)) + b".",
        "a symbol that is a structure": b"\x80\x02" + doubled + b")R.",
        "a key that is a structure": b"\x80\x02" + doubled + b"}h\x28Ns.",
        "a storage that is a structure": b"\x80\x02" + doubled + b"Q.",
        "a shape that is a structure": _tensor_pickle(shape_data=doubled),
        "deep key": b"\x80\x02}" + deep + b"Ns.",
        "deep symbol": b"\x80\x02" + deep + b")R.",
        "deep tree": b"\x80\x02" + deep + b".",
        "deep parameters": b"\x80\x02N"
        + (_global("torch._utils", "_rebuild_parameter") + b"q\x00" + b"0")
        + b"".join(b"q\x01h\x00h\x01\x85R" for _ in range(5000))
        + b".",
        "long copies": b"\x80\x02"
        + many
        + _global("torch", "Size")
        + b"q\x01"
        + b"h\x01h\x00\x85R0" * 20_000
        + b"N.",
        "long pairs": b"\x80\x02](K\x01N\x86q\x00"
        + b"h\x00" * 100_000
        + b"eq\x01"
        + ordered
        + b"q\x02"
        + again,
        "long sets": b"\x80\x02]("
        + b"K\x01" * 100_000
        + b"eq\x01"
        + _global("builtins", "set")
        + b"q\x02"
        + again,
        "copies that are kept": b"\x80\x02"
        + many
        + _global("torch", "Size")
        + b"q\x01]("
        + b"h\x01h\x00\x85R" * 3000
        + b"e.",
        "a name that is a record": b"\x80\x02" + record + b"}h\x01" + tensor + b"s.",
        "a name that is endless": b"\x80\x02" + laughing + b"}h\x29" + tensor + b"s.",
        "one name twice": b"\x80\x02}(Va.b\n" + tensor + b"Va\n}Vb\n" + tensor + b"su.",
        "one tensor often": b"\x80\x02" + tensor + b"q\x00](" + b"h\x00" * 400_000 + b"e.",
        "long keys": b"\x80\x02" + many + b"}q\x01" + b"h\x00Ns" * 20_000 + b".",
        "long names": b"\x80\x02}X\x88\x13\x00\x00" + b"a" * 5000 + _tensor_pickle()[11:],
        "a name that is no text": b"\x80\x02}X\x03\x00\x00\x00\xed\xa0\x80" + _tensor_pickle()[6:],
    }


def _tensor_pickle(
    shape=(2, 2), strides=(2, 1), offset: int = 0, key: str = "0", shape_data: bytes = b""
) -> bytes:
    def number(n: int) -> bytes:
        return b"J" + struct.pack("<i", n)

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    storage = (
        b"(Vstorage\n" + _global("torch", "FloatStorage") + f"V{key}\nVcpu\n".encode() + number(4) + b"tQ"
    )
    arguments = (
        b"(" + storage + number(offset) + (shape_data or numbers(shape)) + numbers(strides) + b"\x89}t"
    )
    return b"\x80\x02}Vw\n" + _global("torch._utils", "_rebuild_tensor_v2") + arguments + b"Rs."


def good_files() -> dict[str, bytes]:
    """Return one good file of every kind that is a file."""
    import torch

    tensors = good_tensors()
    out = {"step_1.safetensors": save(tensors)}
    buffer = io.BytesIO()
    torch.save(
        {"model": {name: torch.from_numpy(value) for name, value in tensors.items()}, "step": 1}, buffer
    )
    out["step_1.pt"] = buffer.getvalue()
    buffer = io.BytesIO()
    torch.save(
        {name: torch.from_numpy(v) for name, v in tensors.items()},
        buffer,
        _use_new_zipfile_serialization=False,
    )
    out["step_1.bin"] = buffer.getvalue()
    for name, write in (("step_1.npz", np.savez), ("step_2.npz", np.savez_compressed)):
        buffer = io.BytesIO()
        write(buffer, **tensors)
        out[name] = buffer.getvalue()
    dim, hidden, vocabulary = 8, 8, 6
    count = vocabulary * dim + 2 * dim + 4 * dim * dim + 3 * dim * hidden + dim + 2 * 4 * 2
    out["toy.bin"] = (
        struct.pack("<7i", dim, hidden, 1, 2, 2, vocabulary, 4) + np.arange(count, dtype=np.float32).tobytes()
    )
    return out


def hostile_files() -> dict[str, bytes]:
    """Return the small hostile pickles as PyTorch files, to be damaged further."""
    return {
        f"{name.replace(' ', '-')}.pt": torch_zip(data, {"0": bytes(16)})
        for name, data in pickles(Path("nowhere")).items()
        if len(data) < 2000
    }


EXTREMES = (0, 1, 2**31 - 1, 2**32 - 1, 2**62, 2**64 - 1)


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Return `data` with one to four random changes: bits, bytes, cuts, copies, extreme numbers."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        if not out:
            return bytes(out)
        # half of the changes hit the first or last part, where the structure is
        spread = len(out) if rng.random() < 0.5 else min(len(out), 400)
        at = int(rng.integers(spread)) if rng.random() < 0.5 else len(out) - 1 - int(rng.integers(spread))
        kind = int(rng.integers(6))
        if kind == 0:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            out[at] = int(rng.integers(256))
        elif kind == 2:
            del out[at : at + int(rng.integers(1, 64))]
        elif kind == 3:
            piece = out[at : at + int(rng.integers(1, 64))]
            out[at:at] = piece
        elif kind == 4:
            out[at : at + 8] = EXTREMES[int(rng.integers(len(EXTREMES)))].to_bytes(8, "little")
        else:
            del out[at:]
    return bytes(out)


@cache
def metadata_pickles() -> dict[str, bytes]:
    """Return the metadata of distributed checkpoints that would hold a careless reader for minutes."""

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def fields(**values: bytes) -> bytes:
        return b"}(" + b"".join(text(name) + value for name, value in values.items()) + b"u"

    def record(name: str, **values: bytes) -> bytes:
        return _global("torch.distributed.checkpoint.metadata", name) + b")\x81" + fields(**values) + b"b"

    def place(name: bytes, offset: bytes) -> bytes:
        index = record("MetadataIndex", fqn=name, offset=offset, index=b"N")
        return index + record("_StorageInfo", relative_path=text("a"), offset=b"K\x00", length=b"K\x10")

    def tensor(dtype: bytes, chunks: bytes) -> bytes:
        kind = record("TensorProperties", dtype=dtype)
        return record("TensorStorageMetadata", properties=kind, size=b"K\x00\x85", chunks=chunks)

    def whole(before: bytes, tensors: bytes, places: bytes) -> bytes:
        found = {"state_dict_metadata": b"}(" + tensors + b"u", "storage_data": b"}(" + places + b"u"}
        return b"\x80\x02" + before + record("Metadata", **found) + b"."

    some = _global("torch", "some") + b"q\x00h\x00)Rq\x01"
    endless = some + b"".join(
        b"h\x00h" + bytes([i]) + b"h" + bytes([i]) + b"\x86Rq" + bytes([i + 1]) for i in range(1, 41)
    )
    float32 = _global("torch", "float32")
    chunk = record("ChunkStorageMetadata", offsets=b"K\x00\x85", sizes=b"K\x00\x85")
    chunks = b"](" + chunk + b"q\x00" + b"h\x00" * 20_000 + b"eq\x01"
    long = b"(" + b"K\x00" * 100_000 + b"tq\x01"
    names = [text(f"w{number}") for number in range(3000)]
    one = place(text("w"), b"K\x00\x85")
    return {
        "shared chunks": whole(
            chunks,
            b"".join(name + tensor(float32, b"h\x01") for name in names),
            b"".join(place(name, b"K\x00\x85") for name in names),
        ),
        "an endless name": whole(endless, b"h\x29" + tensor(float32, b"]"), one),
        "an endless dtype": whole(endless, text("w") + tensor(b"h\x29", b"]"), one),
        "long offsets": whole(long, b"", b"".join(place(name, b"h\x01") for name in names)),
    }
