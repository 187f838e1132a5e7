"""Reads pickles as data: an interpreter of pickle opcodes that never imports, calls or builds anything.

Every global becomes an inert `Symbol`, every call an inert `Record`: a configuration's own class (such as
`model.GPTConfig`) is its fields. A global of the standard library from outside the short table of modules
that checkpoints need is refused by name, although nothing would run.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files.formats.inert import (
    BUILTINS,
    MAX_KEY,
    MAX_TUPLE_KEYS,
    MODULES,
    PLAIN,
    Record,
    Symbol,
    brief,
    keys_of,
    leaves,
)

# Bounds the time that a hostile pickle can take; `_WORK_PER_BYTE` says what counts.
MAX_WORK = 20_000_000
_WORK_PER_BYTE = 2
"""How many operations a pickle may take: two per byte, and at most `MAX_WORK`.

Executing its bytes takes at most one per byte; the rest is for copies, each item of which counts as one.
"""


class _Mark:
    __slots__ = ()


_MARK = _Mark()


class PickleData:
    """Interpret one pickle out of `data`.

    `persistent` turns a persistent id (a storage in PyTorch) into a value. After `load`, `end` is the
    position after the pickle.
    """

    def __init__(self, data: bytes, label: str, *, persistent: Callable[[Any], Any] | None = None) -> None:
        self._data, self._label, self._persistent = data, label, persistent
        self.end = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._limit = min(MAX_WORK, _WORK_PER_BYTE * len(data))
        self._work = self._tuple_keys = 0

    def load(self, start: int = 0) -> Any:
        """Return the object that the pickle at `start` describes, as plain data."""
        self.end, self._stack, self._memo = start, [], {}
        try:
            while True:
                self._spend(1)
                code = self._data[self.end]  # beyond the end: an IndexError, reported below
                self.end += 1
                if code == _STOP:
                    return self._stack.pop()
                action = _ACTIONS.get(code)
                if action is None:
                    raise self.bad(f"opcode {code:#04x} does not belong in a checkpoint")
                action(self)
        except (
            IndexError,
            KeyError,
            TypeError,
            ValueError,
            struct.error,
            AttributeError,
            RecursionError,
        ) as error:
            if isinstance(error, SourceError):
                raise
            raise self.bad(f"{type(error).__name__} at byte {self.end}") from error

    def bad(self, why: str) -> SourceError:
        """Return the error for an invalid pickle."""
        return SourceError(f"{self._label}: is not a valid pickle: {why}; fetch the file again")

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > self._limit:
            raise self.bad(f"it takes more than {self._limit} operations")

    def _copied(self, value: Any) -> None:
        """Count a copy towards the operations that the pickle may take."""
        self._spend(len(value) if hasattr(value, "__len__") else 0)

    def _check_keys(self, keys: Iterable[Any]) -> None:
        """Refuse keys that are not plain, or whose hashes can be made to collide in large numbers."""
        for key in keys:
            if type(key) is tuple:
                self._tuple_keys += 1
                if self._tuple_keys > MAX_TUPLE_KEYS:
                    raise self.bad(f"it has more than {MAX_TUPLE_KEYS} tuples as keys")
            key_leaves = leaves(key)
            if key_leaves is None:
                raise self.bad(f"a key that no checkpoint needs: {brief(key)}")
            if any(type(leaf) is int and abs(leaf) >= MAX_KEY for leaf in key_leaves):
                raise self.bad("a key of 2^60 or more")

    def _take(self, count: int) -> bytes:
        start, self.end = self.end, self.end + count
        if self.end > len(self._data):
            raise self.bad(f"it ends at byte {len(self._data)}, in the middle")
        return self._data[start : self.end]

    def _line(self) -> str:
        stop = self._data.find(b"\n", self.end)
        if stop < 0:
            raise self.bad("a line does not end")
        text = self._data[self.end : stop].decode("utf-8")
        self.end = stop + 1
        return text

    def _unpack(self, form: str) -> int:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _to_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise self.bad("a mark is missing")
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self, count: int) -> list[Any]:
        if count > len(self._stack):
            raise self.bad("its stack runs empty")
        items = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return items

    def _text(self, form: str) -> None:
        self._push(self._take(self._unpack(form)).decode("utf-8", "surrogatepass"))

    def _bytes(self, form: str) -> None:
        self._push(self._take(self._unpack(form)))

    def _latin(self, form: str) -> None:
        self._push(self._take(self._unpack(form)).decode("latin-1"))

    def _long(self, form: str) -> None:
        size = self._unpack(form)
        if size > 1024:
            raise self.bad(f"an integer of {size:,} bytes")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _decimal(self) -> None:
        text = self._line()
        self._push(text == "01" if text in ("00", "01") else int(text.rstrip("L")))

    def _symbol(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise self.bad("a global without a name")
        # Python 2's names for the same two modules
        module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
        top = module.split(".")[0]
        ours = top in MODULES or top not in sys.stdlib_module_names
        if not ours or (module == "builtins" and name not in BUILTINS):
            raise SourceError(
                f"{self._label}: its pickle names {module}.{name}, which no checkpoint needs; the file "
                "was refused, and nothing was run: save the weights alone (as safetensors) if you trust it"
            )
        self._push(Symbol(module, name))

    def _stack_symbol(self) -> None:
        self._symbol(*self._pop(2))

    def _call(self) -> None:
        symbol, arguments = self._pop(2)
        maker = PLAIN.get(str(symbol)) if isinstance(symbol, Symbol) else None
        if maker is not None and arguments:
            self._copied(arguments[0])
            self._check_keys(keys_of(maker, arguments[0]))
        self._push(maker(*arguments) if maker is not None else Record(symbol, arguments))

    def _call_with_keywords(self) -> None:
        symbol, arguments, keywords = self._pop(3)
        if not isinstance(keywords, dict):
            raise self.bad("keywords that are not a dictionary")
        self._copied(keywords)
        self._push(Record(symbol, arguments, pairs=dict(keywords)))

    def _object(self) -> None:
        symbol, *arguments = self._to_mark()
        self._push(Record(symbol, tuple(arguments)))

    def _instance(self) -> None:
        arguments = self._to_mark()
        self._symbol(self._line(), self._line())
        self._push(Record(self._stack.pop(), tuple(arguments)))

    def _build(self) -> None:
        state = self._stack.pop()
        if isinstance(self._stack[-1], Record):
            self._stack[-1].state = state

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        items_before = target.items if isinstance(target, Record) else target
        if not isinstance(items_before, list):
            raise self.bad("items are appended to something that has none")
        items_before.extend(items)

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        pairs = target.pairs if isinstance(target, Record) else target
        if not isinstance(pairs, dict) or len(items) % 2:
            raise self.bad("items are set on something that has none")
        self._check_keys(items[::2])
        pairs.update(zip(items[::2], items[1::2], strict=True))

    def _mapping(self) -> None:
        items = self._to_mark()
        self._push({})
        self._set(items)

    def _add(self) -> None:
        items = self._to_mark()
        if not isinstance(self._stack[-1], set):
            raise self.bad("items are added to something that is not a set")
        self._check_keys(items)
        self._stack[-1].update(items)

    def _frozen(self) -> None:
        items = self._to_mark()
        self._check_keys(items)
        self._push(frozenset(items))

    def _persist(self, key: Any) -> None:
        if self._persistent is None:
            raise self.bad("a persistent id where none belongs")
        self._push(self._persistent(key))

    def _memoize(self, index: int) -> None:
        if not 0 <= index < 2**32:
            raise self.bad("a memo index of more than 32 bits")
        self._memo[index] = self._stack[-1]

    def _recall(self, index: int) -> None:
        self._push(self._memo[index])


_STOP = pickle.STOP[0]


_TABLE: Mapping[bytes, Callable[[PickleData], Any]] = {
    pickle.PROTO: lambda m: m._take(1),
    pickle.FRAME: lambda m: m._take(8),
    pickle.MARK: lambda m: m._push(_MARK),
    pickle.POP: lambda m: m._pop(1),
    pickle.POP_MARK: lambda m: m._to_mark(),
    pickle.DUP: lambda m: m._push(m._stack[-1]),
    pickle.NONE: lambda m: m._push(None),
    pickle.NEWTRUE: lambda m: m._push(True),
    pickle.NEWFALSE: lambda m: m._push(False),
    pickle.INT: lambda m: m._decimal(),
    pickle.LONG: lambda m: m._decimal(),
    pickle.BININT: lambda m: m._push(m._unpack("<i")),
    pickle.BININT1: lambda m: m._push(m._take(1)[0]),
    pickle.BININT2: lambda m: m._push(m._unpack("<H")),
    pickle.LONG1: lambda m: m._long("<B"),
    pickle.LONG4: lambda m: m._long("<I"),
    pickle.FLOAT: lambda m: m._push(float(m._line())),
    pickle.BINFLOAT: lambda m: m._push(m._unpack(">d")),
    pickle.BINSTRING: lambda m: m._latin("<I"),
    pickle.SHORT_BINSTRING: lambda m: m._latin("<B"),
    pickle.BINBYTES: lambda m: m._bytes("<I"),
    pickle.SHORT_BINBYTES: lambda m: m._bytes("<B"),
    pickle.BINBYTES8: lambda m: m._bytes("<Q"),
    pickle.BYTEARRAY8: lambda m: m._bytes("<Q"),
    pickle.UNICODE: lambda m: m._push(m._line()),
    pickle.BINUNICODE: lambda m: m._text("<I"),
    pickle.SHORT_BINUNICODE: lambda m: m._text("<B"),
    pickle.BINUNICODE8: lambda m: m._text("<Q"),
    pickle.EMPTY_TUPLE: lambda m: m._push(()),
    pickle.TUPLE1: lambda m: m._push(tuple(m._pop(1))),
    pickle.TUPLE2: lambda m: m._push(tuple(m._pop(2))),
    pickle.TUPLE3: lambda m: m._push(tuple(m._pop(3))),
    pickle.TUPLE: lambda m: m._push(tuple(m._to_mark())),
    pickle.EMPTY_LIST: lambda m: m._push([]),
    pickle.LIST: lambda m: m._push(m._to_mark()),
    pickle.APPEND: lambda m: m._append(m._pop(1)),
    pickle.APPENDS: lambda m: m._append(m._to_mark()),
    pickle.EMPTY_DICT: lambda m: m._push({}),
    pickle.DICT: lambda m: m._mapping(),
    pickle.SETITEM: lambda m: m._set(m._pop(2)),
    pickle.SETITEMS: lambda m: m._set(m._to_mark()),
    pickle.EMPTY_SET: lambda m: m._push(set()),
    pickle.ADDITEMS: lambda m: m._add(),
    pickle.FROZENSET: lambda m: m._frozen(),
    pickle.GLOBAL: lambda m: m._symbol(m._line(), m._line()),
    pickle.STACK_GLOBAL: lambda m: m._stack_symbol(),
    pickle.REDUCE: lambda m: m._call(),
    pickle.NEWOBJ: lambda m: m._call(),
    pickle.NEWOBJ_EX: lambda m: m._call_with_keywords(),
    pickle.OBJ: lambda m: m._object(),
    pickle.INST: lambda m: m._instance(),
    pickle.BUILD: lambda m: m._build(),
    pickle.PUT: lambda m: m._memoize(int(m._line())),
    pickle.BINPUT: lambda m: m._memoize(m._take(1)[0]),
    pickle.LONG_BINPUT: lambda m: m._memoize(m._unpack("<I")),
    pickle.MEMOIZE: lambda m: m._memoize(len(m._memo)),
    pickle.GET: lambda m: m._recall(int(m._line())),
    pickle.BINGET: lambda m: m._recall(m._take(1)[0]),
    pickle.LONG_BINGET: lambda m: m._recall(m._unpack("<I")),
    pickle.PERSID: lambda m: m._persist(m._line()),
    pickle.BINPERSID: lambda m: m._persist(m._pop(1)[0]),
}

_ACTIONS = {code[0]: action for code, action in _TABLE.items()}
