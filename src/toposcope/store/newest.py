"""Determines which unit counts: the newest one that was written for a run, step and probe.

A checkpoint that was replaced, or that has another predecessor because steps were added, is another unit with
another key. Its older results stay in their files until the store is compacted; readers leave them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow.compute as pc

from toposcope.store.held import HeldUnit
from toposcope.store.parts import Part

Slot = tuple[str, str, int]
"""Run (as a slug), probe and step."""


def slots(parts: Iterable[Part]) -> Iterator[tuple[Slot, Part, HeldUnit]]:
    """Return every unit of some parts with its slot."""
    for part in parts:
        for held in part.held:
            yield (part.owner, part.probe, held.step), part, held


def newest(parts: Iterable[Part]) -> dict[Slot, str]:
    """Return the key that counts in each slot: the latest one."""
    newest_by_slot: dict[Slot, tuple[int, str]] = {}
    for slot, _, held in slots(parts):
        newest_by_slot[slot] = max((held.written, held.key), newest_by_slot.get(slot, (-1, "")))
    return {slot: key for slot, (_, key) in newest_by_slot.items()}


def overlapping(parts: Iterable[Part]) -> set[Path]:
    """Return the files whose range of steps overlaps that of another file of the same run and probe."""
    spans: dict[tuple[str, str], list[tuple[int, int, Path]]] = {}
    for part in parts:
        steps = [held.step for held in part.held]
        if steps:
            spans.setdefault((part.owner, part.probe), []).append((min(steps), max(steps), part.path))
    paths: set[Path] = set()
    for of_probe in spans.values():
        reached, reaching = -1, of_probe[0][2]
        for first, last, path in sorted(of_probe):
            if first <= reached:
                paths |= {path, reaching}
            if last >= reached:
                reached, reaching = last, path
    return paths


def split(parts: Iterable[Part], wanted: Mapping[Slot, str]) -> tuple[list[Part], dict[Path, pc.Expression]]:
    """Return the parts that contain `wanted` units, and which of their rows do not count.

    If a unit is in several files, for example because two launchers measured it, the file written last
    counts.
    """
    parts = list(parts)
    best: dict[Slot, tuple[int, int, Path]] = {}
    for slot, part, held in slots(parts):
        if held.key == wanted.get(slot):
            best[slot] = max((held.written, part.written, part.path), best.get(slot, (-1, -1, part.path)))
    stale: dict[Path, list[HeldUnit]] = {}
    live: set[Path] = {part.path for part in parts if not part.held}
    for slot, part, held in slots(parts):
        if held.key == wanted.get(slot) and best[slot][2] == part.path:
            live.add(part.path)
        else:
            stale.setdefault(part.path, []).append(held)
    current = [part for part in parts if part.path in live]
    return current, {part.path: _rows_of(stale[part.path]) for part in current if part.path in stale}


def live_units(parts: Iterable[Part], wanted: Mapping[Slot, str]) -> list[HeldUnit]:
    """Return the units that count, each once, with the latest write that a part records for it."""
    units: dict[Slot, HeldUnit] = {}
    for slot, _, held in slots(parts):
        if held.key == wanted.get(slot) and (slot not in units or held.written > units[slot].written):
            units[slot] = held
    return list(units.values())


def _rows_of(units: Iterable[HeldUnit]) -> pc.Expression:
    """Return a function that marks the rows of these units in a file."""
    return pc.field("step").isin([held.step for held in units])
