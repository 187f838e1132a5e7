"""Short names of places: what tells their paths apart."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from toposcope.core.errors import InputError


def names_of_paths(paths: Iterable[str], *, stems: bool = False) -> dict[str, str]:
    """Return the name of each path: its last part, or else the shortest end that no other path has.

    Parts at the end that all paths share are left out, so that seed1/logs/train.log and seed2/logs/train.log
    are seed1 and seed2. Paths of one file have one name. With `stems`, files lose their suffix where the
    names stay distinct.

    >>> list(names_of_paths(["a/x.log", "a/y.log"]).values())
    ['x.log', 'y.log']
    >>> list(names_of_paths(["seed1/logs/train.log", "seed2/logs/train.log"]).values())
    ['seed1', 'seed2']
    >>> list(names_of_paths(["a/train.log", "b/train.log", "runs"]).values())
    ['a/train.log', 'b/train.log', 'runs']
    >>> list(names_of_paths(["x.csv", "y.csv"], stems=True).values())
    ['x', 'y']
    """
    whole = {path: Path(os.path.realpath(path)) for path in paths}
    places = list(dict.fromkeys(whole.values()))
    tails = _tails([place.parts for place in places])
    if stems:
        short = [
            str(PurePath(tail).with_suffix(""))
            if PurePath(tail).name == place.name and not place.is_dir()
            else tail
            for tail, place in zip(tails, places, strict=True)
        ]
        tails = short if len(set(short)) == len(short) else tails
    names = dict(zip(places, tails, strict=True))
    return {path: names[place] for path, place in whole.items()}


def _tails(parts: list[tuple[str, ...]]) -> list[str]:
    """Return the name of each path by its parts; the paths are distinct."""
    if len(parts) > 1:
        while len({part[-1] for part in parts}) == 1 and all(len(part) > 1 for part in parts):
            parts = [part[:-1] for part in parts]
    return [_tail(part, parts) for part in parts]


def _tail(own_parts: tuple[str, ...], parts: list[tuple[str, ...]]) -> str:
    """Return the shortest end of a path that no other path has."""
    same = [other for other in parts if other != own_parts and other[-1] == own_parts[-1]]
    depth = 1
    while depth < len(own_parts) and any(other[-depth:] == own_parts[-depth:] for other in same):
        depth += 1
    return str(PurePath(*own_parts[-depth:]))


def refuse_same_names(named: Iterable[tuple[str, str]]) -> None:
    """Raise InputError when two runs have one name; `named` are the name and the place of each run.

    >>> refuse_same_names([("a", "x.csv"), ("b", "x.csv")])
    >>> refuse_same_names([("a", "x.csv"), ("a", "a.log")])
    Traceback (most recent call last):
    toposcope.core.errors.InputError: run a is in x.csv and in a.log; rename one of them
    """
    seen: dict[str, str] = {}
    for name, place in named:
        if name in seen:
            where = f"in {seen[name]} and in {place}" if seen[name] != place else f"twice in {place}"
            raise InputError(f"run {name} is {where}", remedy="rename one of them")
        seen[name] = place
