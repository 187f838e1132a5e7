"""Families of simulated runs with random exponents: the samples of a regression on features."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from toposcope.core.seeding import rng
from toposcope.sources.layout import RunFolder
from toposcope.synthetic.model import Spectrum
from toposcope.synthetic.runs import SyntheticRecipe, simulate
from toposcope.synthetic.write import write_family

POWERS = (1.2, 2.4)
"""The range of the target exponent a."""
DECAYS = (0.9, 2.0)
"""The range of the spectrum exponent b."""


@dataclass(frozen=True, slots=True)
class Family:
    """The folder of one family, and its exponents."""

    folder: Path
    a: float
    b: float


def drawn_family(out: Path, draw: int) -> Family:
    """Return the family of a draw: a uniform in `POWERS` and b in `DECAYS`, to three digits.

    >>> drawn_family(Path("x"), 0) == drawn_family(Path("x"), 0)
    True
    """
    g = rng(name="synthetic family", draw=draw)
    a, b = round(float(g.uniform(*POWERS)), 3), round(float(g.uniform(*DECAYS)), 3)
    return Family(out / f"a{a:g}-b{b:g}", a, b)


def write_families(
    out: Path, recipe: SyntheticRecipe, count: int, *, resume: bool = False
) -> Iterator[Family]:
    """Simulate and write `count` families, one after the other; yield each when it is written.

    With `resume`, finished runs are kept, and interrupted runs are written again.

    Raises
    ------
    InputError
        If a run's folder is not empty, without `resume`.
    """
    for draw in range(count):
        family = drawn_family(out, draw)
        resized = replace(recipe, spectrum=Spectrum(family.a, family.b, recipe.spectrum.modes))
        for seed in resized.seeds:
            for width in resized.widths:
                run = simulate(resized, width=width, seed=seed)
                target = RunFolder(family.folder / run.run)
                if resume and target.run_file.is_file():
                    continue
                if resume:
                    shutil.rmtree(target.path, ignore_errors=True)
                write_family(family.folder, resized, run)
        yield family
