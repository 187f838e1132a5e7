"""Reads stores that were measured separately with the same settings as one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pandas as pd

from toposcope.core.errors import StoreError
from toposcope.core.wording import command, free_place
from toposcope.logs import Log, is_log
from toposcope.store import Store
from toposcope.store.manifest import difference, kind_of_store
from toposcope.store.merge import merge

Source = Store | str | Path | pd.DataFrame
"""What `analyze` and `report` take."""
Opened = Source | Log
"""The same once logs are read."""


@contextmanager
def joined(sources: Sequence[Opened]) -> Iterator[list[Opened]]:
    """Yield the sources with stores of one recipe merged into one, which is gone after the block.

    Raises
    ------
    StoreError
        When a store is given twice, or two stores of one recipe hold sampled surfaces, which must stay on
        disk to be drawn.
    """
    stores = [_opened(source) for source in sources]
    groups: dict[str, list[Store]] = {}
    seen: set[Path] = set()
    for store in stores:
        if store is not None:
            if (place := store.path.resolve()) in seen:
                raise StoreError(f"{store.path} is given twice: leave one out")
            seen.add(place)
            groups.setdefault(store.recipe_hash, []).append(store)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    if not several:
        yield list(sources)
        return
    with tempfile.TemporaryDirectory() as folder:
        read: list[Opened] = []
        for source, store in zip(sources, stores, strict=True):
            if store is None or store.recipe_hash not in several:
                read.append(source)
            elif store is several[store.recipe_hash][0]:
                group = several[store.recipe_hash]
                if any((member.path / "landscapes").is_dir() for member in group):
                    places = [member.path for member in group]
                    source = command("merge", *places, out=free_place(f"{places[0]}-merged"))
                    raise StoreError(f"stores with sampled surfaces must be merged first: {source}")
                read.append(merge(group, Path(folder) / str(len(read)))[0])
        yield read


def difference_of_recipes(sources: Sequence[Opened]) -> str:
    """Return in words how the recipes of the first two stores of one kind differ; "" where none do."""
    recipes = [store.recipe for source in sources if (store := _opened(source)) is not None]
    pairs = ((a, b) for a, b in combinations(recipes, 2) if kind_of_store(a) == kind_of_store(b) and a != b)
    return next((difference(a, b) for a, b in pairs), "")


def _opened(source: Opened) -> Store | None:
    if isinstance(source, Store):
        return source
    if isinstance(source, pd.DataFrame | Log) or is_log(source):
        return None
    return Store.open(source)
