"""The sampled surfaces that figures and the page show, read from the store: only these are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from toposcope.core.wording import option, runnable
from toposcope.study.study import Study
from toposcope.subjects.landscape.options import GRAPHS
from toposcope.subjects.landscape.saved_files import SavedPlace, saved_places
from toposcope.subjects.landscape.saved_surfaces import SavedSurface, saved_surface
from toposcope.subjects.landscape.summaries import topology_of
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.sampled_surface import SurfaceTopology

Read = TypeVar("Read")

MOST = 6
"""The largest number of checkpoints that are shown of one run."""

_GRAPHS = {
    "lattice": "Grid points are joined along the axes",
    "kuhn": "Grid points are joined by Kuhn's triangulation",
    "knn": "Grid points are joined to their mutual nearest neighbours",
}
"""The sentence on each graph in the captions."""


@dataclass(frozen=True)
class ShownSurfaces:
    """The surfaces of one run that the page shows, each with its topology, and their graph.

    `recomputed` is true if the store has only the losses, as in earlier versions. The topology was then
    computed for the page, on the graph that the store's settings name.
    """

    surfaces: tuple[SavedSurface, ...] = ()
    graph: str = ""
    recomputed: bool = False

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.surfaces)

    def __iter__(self) -> Iterator[tuple[SavedSurface, SurfaceTopology]]:
        """Iterate over the surfaces and what was found on each."""
        for surface in self.surfaces:
            assert surface.topology is not None
            yield surface, surface.topology

    @property
    def flat(self) -> bool:
        """Whether they have two directions."""
        return self.directions == 2

    @property
    def directions(self) -> int:
        """How many directions they span; 0 if there is no surface."""
        return self.surfaces[0].surface.mean.ndim if self.surfaces else 0

    @property
    def titled(self) -> list[tuple[str, SurfaceTopology]]:
        """The topology of each, with the step as its title."""
        return [(f"step {surface.step:,}", topology) for surface, topology in self]

    @property
    def single(self) -> str:
        """A title with the number of surfaces with one minimum, and that of confirmed branches."""
        trivial = sum(topology.trivial for _, topology in self)
        confirmed = sum(
            int(topology.branches.confirmed.sum()) for _, topology in self if topology.branches is not None
        )
        many = (
            f"; {confirmed or 'no'} branch{'es' * (confirmed != 1)} confirmed" if trivial < len(self) else ""
        )
        have = "has" if trivial == 1 else "have"
        return f"{trivial} of the {len(self):,} surfaces shown {have} a single minimum{many}"

    @property
    def graph_in_words(self) -> str:
        """Say which grid points are neighbours, and whether the trees were computed for the page."""
        graph_text = _GRAPHS.get(self.graph, "")
        chosen = f" ({option('graph', self.graph)})" if graph_text and self.graph != GRAPHS[0] else ""
        graph_text += f"{chosen}." if graph_text else ""
        if not self.recomputed:
            return graph_text
        return (
            f"{graph_text} The store has no trees because an earlier version wrote it, so they were "
            f"computed for "
            "this page. To store them, measure into the store again: "
            + f"`{runnable('landscape', 'SERIES', out='STORE')}`, with the options it was made with."
        )

    @property
    def beyond_them(self) -> str:
        """The sentence in the captions on what the figures of these surfaces do not show."""
        spanned = ("none", "one", "two", "three")[self.directions]
        return (
            "Anything about the other directions. A model has as many as it has parameters, and the surface "
            f"spans {spanned}. It is also the loss of one batch only."
        )


def shown_surfaces(study: Study) -> ShownSurfaces:
    """Return the surfaces of a study that the page shows; they are read once."""
    return study.once(_read)


def has_surfaces(study: Study) -> bool:
    """Return whether there is a stored surface that the page can show."""
    return len(shown_surfaces(study)) > 0


def _read(study: Study) -> ShownSurfaces:
    """Return the surfaces of the largest run that has any: of the first draw, at most six checkpoints."""
    mine = [] if study.kept is None else of_largest_run(study, saved_places(study.kept), _usable)
    if not mine:
        return ShownSurfaces()
    graph = _graph(study)
    recomputed = any(surface.topology is None for surface in mine)
    whole = (
        replace(surface, topology=surface.topology or topology_of(surface.surface, graph)) for surface in mine
    )
    return ShownSurfaces(tuple(whole), mine[0].topology.graph if mine[0].topology else graph, recomputed)


def _usable(at: SavedPlace) -> SavedSurface | None:
    """Return a surface; None if its file is damaged, or has a loss only at the centre."""
    surface = saved_surface(at)
    return surface if surface is not None and (surface.topology or surface.surface.finite.sum() > 1) else None


def of_largest_run(
    study: Study, places: Iterable[SavedPlace], read: Callable[[SavedPlace], Read | None]
) -> list[Read]:
    """Return what the page shows of the largest run that has any of these files, by step: at most six.

    Only these files are read. Where one cannot be used (`read` returns None), others are chosen.
    """
    every = sorted(places, key=lambda place: place.step)
    read_by_place: dict[SavedPlace, Read] = {}
    for run in reversed(study.ordered):
        left = [place for place in every if place.run == run]
        while left:
            chosen = spread(left)
            new = {place: read(place) for place in chosen if place not in read_by_place}
            read_by_place |= {place: surface for place, surface in new.items() if surface is not None}
            if all(place in read_by_place for place in chosen):
                return [read_by_place[place] for place in chosen]
            left = [place for place in left if place in read_by_place or place not in new]
    return []


def _graph(study: Study) -> str:
    """Return the graph that the store's settings name."""
    recipe = study.provenance.get("recipe")
    return str(recipe.get("graph", GRAPHS[0])) if isinstance(recipe, Mapping) else GRAPHS[0]


def spread(items: list) -> list:
    """Return at most six of the items, the first and the last among them."""
    if len(items) <= MOST:
        return items
    return [items[i] for i in np.unique(np.linspace(0, len(items) - 1, MOST).round().astype(int))]


def tested(found: SurfaceTopology) -> tuple[MergeTree, np.ndarray] | None:
    """Return the tree of half of the sequences, and which of its branches the other half confirms."""
    return None if found.branches is None else (found.branches.tree, found.branches.confirmed)
