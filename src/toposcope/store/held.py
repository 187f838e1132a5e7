"""The units that a part has, in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

# Bytes of a unit's key, the width of its hash.
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class HeldUnit:
    """A unit in a part, and the number of the write that added it."""

    step: int
    key: str
    written: int


class Units(Sequence[HeldUnit]):
    """The units of a file, in 32 bytes each: a growing store keeps those of all its files in memory.

    >>> units = Units([HeldUnit(3, "0f" * 16, 7)])
    >>> len(units), units[0].key == "0f" * 16, units.written
    (1, True, 7)
    """

    __slots__ = ("_keys", "_steps", "_written")

    def __init__(self, units: Iterable[HeldUnit] = ()) -> None:
        self._steps, self._written, self._keys = array("q"), array("q"), b""
        keys = []
        for unit in units:
            self._steps.append(unit.step)
            self._written.append(unit.written)
            keys.append(bytes.fromhex(unit.key))
        self._keys = b"".join(keys)

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, at: int) -> HeldUnit: ...
    @overload
    def __getitem__(self, at: slice) -> list[HeldUnit]: ...
    def __getitem__(self, at: int | slice) -> HeldUnit | list[HeldUnit]:
        """Return one unit, or several."""
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        step, written = self._steps[at], self._written[at]
        place = at % len(self) * _KEY_BYTES
        return HeldUnit(step, self._keys[place : place + _KEY_BYTES].hex(), written)

    @property
    def written(self) -> int:
        """The highest write number among them; -1 if there are none."""
        return max(self._written, default=-1)
