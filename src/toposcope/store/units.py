"""A unit of work: the rows and diagrams of one probe at one checkpoint, which are written together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from toposcope.core.types import Diagram, Role, Row, Scope


@dataclass(frozen=True, slots=True)
class Unit:
    """One probe at one checkpoint: the unit of work, done completely or not at all.

    `content_hash` covers every checkpoint that the measurement reads, and `version` is the version of the
    probe. A change of either makes another unit.
    """

    run: str
    step: int
    probe: str
    version: int
    content_hash: str
    tokens: int | None = None

    def key(self, recipe_hash: str) -> str:
        """Return the 32 hexadecimal digits that identify this unit's results.

        >>> unit = Unit(run="a", step=0, probe="rips", version=1, content_hash="f0")
        >>> len(unit.key("r")), unit.key("r") == unit.key("other recipe")
        (32, False)
        """
        axes = [self.run, self.step, self.probe, self.version, self.content_hash, recipe_hash]
        return digest(axes)[:32]


@dataclass(frozen=True, slots=True)
class KeptDiagram:
    """A diagram and the cloud or matrix that it belongs to: a line of the `diagrams` table."""

    diagram: Diagram
    name: str = ""
    role: Role = Role.MODEL
    layer: int | None = None
    head: int | None = None
    draw: int | None = None
    scope: Scope = Scope.MODEL


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a unit, ready to be written. `seconds` is the unit's own time."""

    unit: Unit
    rows: tuple[Row, ...]
    diagrams: tuple[KeptDiagram, ...] = field(default=())
    seconds: float = 0.0


def recipe_hash(recipe: Mapping[str, object]) -> str:
    """Return the 16 hexadecimal digits that identify a recipe, for any order of its keys.

    >>> recipe_hash({"a": 1, "b": 2}) == recipe_hash({"b": 2, "a": 1})
    True
    """
    return digest(recipe)[:16]


def digest(value: object) -> str:
    """Return the SHA-256 of `value` as sorted JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
