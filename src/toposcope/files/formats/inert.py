"""The inert symbols and records that represent a pickle's objects, and the check of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_KEY = 2**60
"""Integers from here on are not accepted as keys: from 2^61 - 1 on they can be made to collide at will."""

# How many parts a tuple used as a key may have: hashing nested tuples costs time for each part.
MAX_KEY_LEAVES = 32
MAX_TUPLE_KEYS = 4096
"""Tuples as keys can be made to collide, too, so only a few small ones are allowed."""

MODULES: Final = (
    "_codecs",
    "argparse",
    "builtins",
    "collections",
    "copyreg",
    "datetime",
    "deepspeed",
    "enum",
    "lightning",
    "lightning_fabric",
    "megatron",
    "numpy",
    "omegaconf",
    "pathlib",
    "pytorch_lightning",
    "signal",
    "torch",
    "transformers",
    "typing",
)
"""Modules of the standard library, and others, that a checkpoint may name, as inert symbols."""

BUILTINS: Final = frozenset(
    [
        "set",
        "frozenset",
        "list",
        "dict",
        "tuple",
        "int",
        "float",
        "complex",
        "str",
        "bytes",
        "bytearray",
        "bool",
        "object",
        "slice",
        "range",
        "type",
    ]
)
"""The builtins that a checkpoint may name."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of an object that a pickle refers to; nothing is imported."""

    module: str
    name: str

    def __str__(self) -> str:
        """Return the dotted name."""
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Record:
    """A call that is never made: the symbol, its arguments, and the state, items and pairs set afterwards."""

    symbol: Any
    arguments: Any = ()
    state: Any = None
    items: list[Any] = field(default_factory=list)
    pairs: dict[Any, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field of the state."""
        return self.state.get(name, default) if isinstance(self.state, dict) else default


def brief(value: Any) -> str:
    """Return a short description of any value for a message."""
    if isinstance(value, str):
        return repr(value[:40])
    plain = value is None or isinstance(value, bool | float | Symbol) or type(value) is int
    if plain and not (type(value) is int and abs(value) >= 2**64):
        return str(value)[:80]
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"a {type(value).__name__}{size}"


SCALARS = (str, bytes, bool, int, float, type(None), Symbol, Record)


def leaves(key: Any) -> list[Any] | None:
    """Return the parts of a key, at most `MAX_KEY_LEAVES` in tuples; None for anything that is not a key."""
    if isinstance(key, SCALARS):
        return [key]
    leaves, pending, seen = [], [key], 0
    while pending:
        value = pending.pop()
        seen += 1
        if type(value) is tuple and seen <= MAX_KEY_LEAVES and len(value) <= MAX_KEY_LEAVES:
            pending += value
        elif isinstance(value, SCALARS) and seen <= MAX_KEY_LEAVES:
            leaves.append(value)
        else:
            return None
    return leaves


def _ordered(*arguments: Any) -> dict[Any, Any]:
    return dict(*arguments[:1])


def _encoded(text: Any, *_: Any) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else b""


def _set(*arguments: Any) -> set[Any]:
    return set(*arguments[:1])


def _frozenset(*arguments: Any) -> frozenset[Any]:
    return frozenset(*arguments[:1])


PLAIN: Mapping[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": lambda *_: {},
    "builtins.dict": _ordered,
    "builtins.set": _set,
    "builtins.frozenset": _frozenset,
    "torch.Size": lambda items=(): tuple(items),
    "_codecs.encode": _encoded,
}
"""Calls whose result is plain data."""


def keys_of(maker: Callable[..., Any], items: Any) -> Iterable[Any]:
    """Return the keys that a call which makes plain data would hash."""
    if isinstance(items, dict) or maker not in (_ordered, _set, _frozenset):
        return ()
    return (pair[0] for pair in items) if maker is _ordered else items
