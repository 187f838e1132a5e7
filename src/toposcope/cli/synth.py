"""`toposcope synth`: run folders of a model whose scaling exponents are known."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toposcope.cli.output import json_option, print_json, print_table, say
from toposcope.cli.requests import as_option, options_from
from toposcope.core.errors import InputError
from toposcope.core.wording import option

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.synthetic import SyntheticRecipe, SyntheticRun


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """What to simulate and where, as typed; each field is an option of the command."""

    out: Path = as_option(required=True, type=click.Path(path_type=Path), help="Folder for the runs.")
    a: float = as_option(
        default=1.5, show_default=True,
        help="Exponent of the target: the k-th direction of the inputs carries k^-a of it.",
    )  # fmt: skip
    b: float = as_option(
        default=1.25, show_default=True,
        help="Exponent of the spectrum: the inputs have variance k^-b along their k-th direction.",
    )  # fmt: skip
    modes: int = as_option(default=1024, show_default=True, help="Number of directions of the inputs.")
    widths: str = as_option(
        default="16,32,64,128,0", show_default=True,
        help="Model widths, separated by commas; 0 is the limit of infinite width.",
    )  # fmt: skip
    seeds: str = as_option(
        default="0", show_default=True,
        help="Random seeds, separated by commas; each gives a run of each width.",
    )  # fmt: skip
    data: str = as_option(
        default="0", show_default=True,
        help="Numbers of training examples, separated by commas; 0 draws fresh examples at every step.",
    )  # fmt: skip
    noise: float = as_option(default=0.0, show_default=True, help="Variance of the label noise.")
    batch: int = as_option(
        default=256, show_default=True, help="Examples per step; 0 means no gradient noise."
    )
    updates: int = as_option(
        default=2000, show_default=True, help="How long to train: the number of optimiser steps."
    )
    schedule: str = as_option(
        default="cosine", show_default=True, help="Learning rate schedule: constant, cosine or wsd."
    )
    learning_rate: float = as_option(
        default=0.5, show_default=True,
        help="Peak learning rate, in units of 1 / largest eigenvalue of the Hessian.",
    )  # fmt: skip
    families: int = as_option(
        type=click.IntRange(min=0), default=0,
        help="Write this many families instead, each with random exponents and in its own folder.",
    )  # fmt: skip
    checkpoints: int = as_option(
        default=21, show_default=True, help="Number of checkpoints per run, equally spaced."
    )

    def recipe(self, amount: int) -> SyntheticRecipe:
        """Return what is simulated with this number of training examples."""
        from toposcope.synthetic import Spectrum, SyntheticRecipe

        return SyntheticRecipe(
            spectrum=Spectrum(self.a, self.b, self.modes),
            widths=_numbers("widths", self.widths), seeds=_numbers("seeds", self.seeds),
            data=amount, noise=self.noise, batch=self.batch, steps=self.updates, schedule=self.schedule,
            learning_rate=self.learning_rate, checkpoints=self.checkpoints,
        )  # fmt: skip


@click.command("synth")
@options_from(SimulationOptions, "options")
@json_option
def command(options: SimulationOptions, as_json: bool) -> int:
    """Simulate training runs whose scaling exponents are known.

    The model is linear regression on random features of the inputs, trained by stochastic gradient descent.
    Its loss falls as a power of training time, of width and of data, and theory gives each exponent. Each
    width and seed becomes a run folder for the other commands. The command prints the
    exponents fitted to the runs beside those of the theory.
    """
    from toposcope.synthetic import exponent_table, fitted_exponents

    if not options.b > 1:
        raise InputError(
            "the trace of the spectrum k^-b diverges",
            argument="b",
            value=options.b,
            remedy="give a value above 1",
        )
    amounts = _numbers("data", options.data)
    if len(set(amounts)) < len(amounts) or min(amounts) < 0:
        raise InputError(
            "a number is given twice or is 1",
            argument="data",
            value=options.data,
            remedy="give each number of examples once: 0, or at least 2",
        )
    recipe, out = options.recipe(amounts[0]), options.out
    if options.families:
        if len(amounts) > 1:
            raise InputError(
                f"{option('families')} takes one number of examples",
                argument="data",
                value=options.data,
                remedy="give only one",
            )
        return _families(out, recipe, options.families, as_json)
    folders, runs, seen = _written(out, recipe, amounts, quiet=as_json)
    last = recipe.steps
    late = f"fitted to held-out losses at step {last:,}, before training is complete: this biases the fit"
    fits = fitted_exponents(runs, seen)
    table = exponent_table(recipe.spectrum, fits, {"size": late, "data": late})
    if as_json:
        theory = recipe.spectrum.exponents()
        print_json({"runs": folders, "theory": theory, "exponents": table.to_dict("records")})
        return 0
    for line in _answer(table):
        say(line)
    click.echo(f"{len(folders):,} run{'s' * (len(folders) > 1)} in {out}")
    if not table.empty:
        shown = ("exponent", "theory", "fitted", "95% interval", "fitted to", "agrees")
        print_table("Exponents of the power laws", shown, [_row(row) for row in table.to_dict("records")])
    return 0


def _answer(table: pd.DataFrame) -> list[str]:
    """Return whether the runs follow the theory, and the caveats of each exponent."""
    if table.empty:
        return [
            "No exponents were fitted. The exponent of training time needs a run of width 0 on fresh data. "
            "That of size needs three widths, and that of data three numbers of examples."
        ]
    agree = int(table["agrees"].sum())
    first = f"{agree} of {len(table):,} fitted exponents agree{'s' * (agree == 1)} with the theory."
    notes = table.loc[table["reason"] != "", ["exponent", "reason"]].itertuples(index=False)
    return [first, *(f"note on {name}: {reason}" for name, reason in notes)]


def _row(fit: Mapping[Any, Any]) -> list[object]:
    interval = f"{fit['low']:.3g} to {fit['high']:.3g}"
    agrees = "yes" if fit["agrees"] else "no"
    return [fit["exponent"], fit["theory"], fit["fitted"], interval, f"{fit['n']} points", agrees]


def _written(
    out: Path, recipe: SyntheticRecipe, amounts: tuple[int, ...], *, quiet: bool
) -> tuple[list[Path], list[SyntheticRun], list[int]]:
    """Simulate and write a run per amount of data, seed and width; return folders, runs and amounts."""
    from dataclasses import replace

    from toposcope.core.progress import Progress
    from toposcope.synthetic import simulate, write_family

    folders, runs, seen = [], [], []
    count = len(amounts) * len(recipe.widths) * len(recipe.seeds)
    with Progress("simulating", count, quiet=quiet) as progress:
        for amount, seed, width in itertools.product(amounts, recipe.seeds, recipe.widths):
            resized = replace(recipe, data=amount)
            run = simulate(resized, width=width, seed=seed)
            if len(amounts) > 1:
                name = f"{run.run}-data{amount}"
                run = replace(run, run=name, metrics=run.metrics.assign(run=name))
            folders.append(write_family(out, resized, run))
            runs.append(run)
            seen.append(amount)
            progress.advance(note=run.run)
    return folders, runs, seen


def _families(out: Path, recipe: SyntheticRecipe, count: int, as_json: bool) -> int:
    """Write families whose exponents are drawn; print them."""
    from dataclasses import asdict

    from toposcope.core.progress import Progress
    from toposcope.synthetic import write_families

    families = []
    with Progress("simulating", count, quiet=as_json) as progress:
        for family in write_families(out, recipe, count):
            families.append(asdict(family))
            progress.advance(note=family.folder.name)
    if as_json:
        print_json({"families": families})
    else:
        print_table(
            f"{count} families in {out}", ("folder", "a", "b"), [list(row.values()) for row in families]
        )
    return 0


def _numbers(argument: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "not a list of whole numbers", argument=argument, value=text, remedy="write for example 16,32,64"
        ) from None
