"""A measurement of the loss surface: its texts, its probes, its recipe and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.forms import listed, listed_steps, step_text
from toposcope.core.types import Checkpoint
from toposcope.core.wording import option
from toposcope.models import ModelLoader, load_texts
from toposcope.models.loading import run_folder_of
from toposcope.subjects.base import Probe
from toposcope.subjects.landscape._timed import HessianProducts, timed_pass, timed_products
from toposcope.subjects.landscape.direction_kinds import RandomDirections
from toposcope.subjects.landscape.features import FOLDER, SURFACE
from toposcope.subjects.landscape.geometry.cost import ComputeCost, refuse_above
from toposcope.subjects.landscape.options import RULE, LandscapeOptions
from toposcope.subjects.landscape.probes.curvature import Curvature
from toposcope.subjects.landscape.probes.paths import Partners, Paths, partners_of
from toposcope.subjects.landscape.probes.retrain import Retrain
from toposcope.subjects.landscape.probes.sharpness import Sharpness
from toposcope.subjects.landscape.probes.surface import Surfaces
from toposcope.subjects.landscape.source import ObjectiveSource

if TYPE_CHECKING:
    from toposcope.sources.series import Series

NAMES = ("sharpness", "curvature", SURFACE, "paths", "retrain")
CHEAP = ("sharpness",)
_NAMED = 3
"""The most runs that a sentence names; the others are counted."""
BY_NAME = ("retrain",)
"""Measured if named, but not with "all": it trains, and only runs of `toposcope train` can be trained."""


@dataclass(frozen=True)
class LandscapeStudy:
    """What a sweep over the loss surface measures; `store` is the folder that keeps the surfaces."""

    options: LandscapeOptions
    source: ObjectiveSource
    store: Path
    names: tuple[str, ...] = field(default=NAMES)
    partners: Partners = field(default_factory=dict, repr=False)
    products: HessianProducts = field(default_factory=HessianProducts)

    def recipe(self) -> dict[str, object]:
        """Return the settings and the texts as the store's recipe: plain JSON values."""
        return self.options.recipe(self.source.digest)

    def probes(self) -> list[Probe]:
        """Return the chosen probes."""
        folder = self.store.resolve() / FOLDER
        probes_by_name: dict[str, Probe] = {
            "sharpness": Sharpness(self.options, self.source),
            "curvature": Curvature(self.options, self.source, folder, self.products.seconds),
            "surface": Surfaces(self.options, self.source, folder, self.products.seconds),
            "paths": Paths(self.options, self.source, self.partners),
            "retrain": Retrain(self.options, self.source),
        }
        return [probes_by_name[name] for name in NAMES if name in self.names]

    def of(self, series: Series) -> LandscapeStudy:
        """Return the study of this series: with its pairs of seeds, and the cost of its Hessian.

        Paths lead from one seed to another.

        Raises
        ------
        InputError
            If only surfaces are requested, and no run has the checkpoints that their directions need.
        """
        self._check_history(series)
        if run_folder_of(first := next(iter(series))) is not None:
            self.source.loader.n_layers(first)  # refuses a run without a language model
        study = replace(self, partners=partners_of(series.runs, list(series)))
        study.cost(series)  # refuses before anything is timed
        shapes = _shapes(series, series.names[0])
        slowness = timed_pass(series, self.source, self.options, shapes)
        study = replace(study, source=replace(self.source, slowness=slowness))
        if not self._multiplies:
            return study
        return replace(study, products=timed_products(series, self.source, self.options, shapes))

    def _check_history(self, series: Series) -> None:
        lengths = {run: len(series.of_run(run)) for run in series.names}
        longest = max(lengths, key=lambda run: lengths[run])
        if self.names != (SURFACE,) or lengths[longest] > self.options.first:
            return
        chosen, has = self.options, lengths[longest]
        raise InputError(
            f"{chosen.kind.phrase(chosen.n)} {chosen.first + 1:,} checkpoints of a run, and {longest} has "
            f"{has}",
            argument="directions",
            value=chosen.directions,
            remedy=f"measure more, or use {option('directions')} {RandomDirections.name}",
        )

    def without_surface(self, series: Series) -> str:
        """Say at which checkpoints no surface can be sampled, and why; empty if all have one."""
        first = self.options.first
        if SURFACE not in self.names or not first:
            return ""
        early = [f"{run} at {_steps(series.of_run(run)[:first])}" for run in series.names]
        named = listed(early, most=_NAMED, last=", ", what="more runs")
        return (
            f"No surface for {named}: {self.options.kind.phrase(self.options.n)} {first + 1} checkpoints of "
            "the run, up to and including this one."
        )

    @property
    def _multiplies(self) -> bool:
        """Whether many products with the Hessian are needed."""
        return "curvature" in self.names or self.options.kind.products(self.options) > 0

    def cost(self, series: Series) -> ComputeCost:
        """Return the cost of the most expensive checkpoint, from the header of every run's first one.

        Raises
        ------
        InputError
            If it is above the limit; the message names a cheaper way.
        """
        most = ComputeCost(0.0, 0.0)
        for run in series.names:
            shapes = _shapes(series, run)
            for probe in self.probes():
                cost = probe.work(shapes)  # type: ignore[attr-defined]
                if probe.name not in CHEAP:
                    refuse_above(cost)
                most = max(most, cost, key=lambda each: each.flop)
        return most

    def announcement(self, series: Series) -> str:
        """Describe what will be measured and its cost; printed before the start."""
        fixed = self.options.range
        range_text = (
            RULE
            if fixed is None
            else (f"each axis goes to {fixed:g} of its unit; a second surface has a quarter of this range")
        )
        ranges = f" Surfaces: {range_text}." if "surface" in self.names else ""
        ranges += f" {early}" if (early := self.without_surface(series)) else ""
        products = f" {self.products.sentence()}" if self._multiplies else ""
        range_text = (
            f"Per checkpoint, the longest measurement takes {self.cost(series).sentence()}.{products}"
        )
        return range_text.rstrip() + ranges


def study_of_texts(
    options: LandscapeOptions,
    texts: str | None,
    store: Path,
    *,
    features: Sequence[str] = ("all",),
    loader: ModelLoader | None = None,
    min_chars: int = 1,
    split: str = "validation",
) -> LandscapeStudy:
    """Return the study of the first texts of a source; `features` are cheap, all, or names of probes.

    Without texts, run folders use the text that their training held out.

    Raises
    ------
    InputError
        When a name is unknown, or there are too few texts.
    """
    names = _chosen(features)
    read = None
    if texts is not None:
        read = load_texts(
            texts, limit=options.texts, counted_by=("batches", "sequences"), min_chars=min_chars, split=split
        )
    return LandscapeStudy(options, ObjectiveSource(read, loader or ModelLoader()), store, names)


def _chosen(features: Sequence[str]) -> tuple[str, ...]:
    wanted: set[str] = set()
    for name in (feature.strip() for feature in features):
        if name not in ("all", "landscape", "cheap", *NAMES):
            known_names = ("cheap", "all", *NAMES)
            raise InputError(
                "no such probe of the loss surface",
                argument="features",
                value=name,
                remedy=f"use {', '.join(known_names)}{did_you_mean(name, known_names)}",
            )
        wanted |= {"cheap": set(CHEAP)}.get(name, {name} if name in NAMES else set(NAMES) - set(BY_NAME))
    return tuple(name for name in NAMES if name in wanted)


def _shapes(series: Series, run: str) -> list[tuple[int, int]]:
    """Return the shapes (rows, columns) of the matrices of a run's first checkpoint, from its header."""
    with series.reading(series.of_run(run)[0]) as reader:
        infos = [info for info in reader.infos().values() if len(info.shape) > 1]
    return [(_product(info.shape[:-1]), int(info.shape[-1])) for info in infos]


def _steps(checkpoints: Sequence[Checkpoint]) -> str:
    """Return the steps of some checkpoints in words.

    >>> _steps([Checkpoint("a", 0, None, ""), Checkpoint("a", 5, None, "")])
    'steps 0 and 5'
    """
    steps = [step_text(at.step) for at in checkpoints]
    return f"step{'s' * (len(steps) != 1)} {listed_steps(steps)}"


def _product(values: Sequence[int]) -> int:
    result = 1
    for value in values:
        result *= int(value)
    return result
