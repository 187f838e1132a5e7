"""`toposcope train`: train a recipe's models into run folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toposcope.cli.output import json_option, print_json, print_table
from toposcope.cli.requests import as_option, options_from
from toposcope.core.errors import InputError
from toposcope.core.wording import option, recommended
from toposcope.recipes import training_recipes
from toposcope.recipes.training import parse_override, parse_seeds

if TYPE_CHECKING:
    from toposcope.training import Trained


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """What to train and where, as typed; each field is an option of the command."""

    recipe: str = as_option(
        default="demo", show_default=True, help="Name of a recipe, or a TOML file. --list names them."
    )
    out: Path | None = as_option(
        type=click.Path(path_type=Path), help="Folder for the runs; each run gets a folder of its own."
    )
    models: str | None = as_option(help="Train only these models of the recipe, separated by commas.")
    seeds: str | None = as_option(
        help="Random seeds, separated by commas: 1,2,3. Each model is trained once per seed."
    )
    updates: int | None = as_option(type=int, help="How long to train: the number of optimiser steps.")
    corpus: str | None = as_option(
        help="Text to train on: python-docs, installed, wikitext2, a file or a folder."
    )
    gradients: bool = as_option(
        is_flag=True, help="Also save the gradients on a fixed batch at every checkpoint."
    )
    set: tuple[str, ...] = as_option(
        multiple=True, metavar="KEY=VALUE", help="Change a value of the recipe. Can be repeated."
    )
    device: str = as_option(default="cpu", show_default=True, help="cpu or cuda.")
    jobs: int | None = as_option(type=int, help="Number of runs to train at once.  [default: one per core]")
    watch: bool = as_option(
        is_flag=True, help="Watch the runs while they train; write the measurements to OUT-watch."
    )
    plan: bool = as_option(
        is_flag=True,
        help="Print the cost, the memory and what the runs can show, then stop. Nothing is written.",
    )
    list: bool = as_option(is_flag=True, help="List the recipes, then stop.")

    def overrides(self) -> dict[str, object]:
        """Return the values of the recipe that change."""
        overrides = dict(parse_override(text) for text in self.set)
        named = {
            "steps": self.updates, "corpus": self.corpus, "models": self.models,
            "gradients": self.gradients or None,
        }  # fmt: skip
        overrides |= {key: value for key, value in named.items() if value is not None}
        if self.seeds is not None:
            overrides["seeds"] = parse_seeds(self.seeds)
        return overrides


@click.command("train")
@options_from(TrainingOptions, "options")
@json_option
def command(options: TrainingOptions, as_json: bool) -> int:
    """Train the small language models of a recipe.

    Each run writes one folder with its checkpoints (safetensors), the metrics of every step (parquet) and
    the recipe. If the command is interrupted, repeat it: it resumes.
    """
    if options.list:
        return _list(as_json)
    out, jobs = options.out, options.jobs
    if out is None and not options.plan:
        raise InputError(f"{option('out')} is missing", remedy="name the folder for the runs")
    overrides = options.overrides()
    if options.plan:
        return _show_plan(options.recipe, overrides, as_json)
    assert out is not None
    from toposcope.training.api import default_jobs, train

    if options.watch and jobs not in (None, 1):
        raise InputError(
            f"it does not work with {option('watch')}, which sees only one process",
            argument="jobs",
            value=jobs,
            remedy="leave it out",
        )
    most = default_jobs() if jobs is None else jobs
    with _watched(out if options.watch else None) as on_step:
        results = train(
            options.recipe, out, overrides=overrides, device=options.device,
            jobs=1 if options.watch else most, quiet=False, on_step=on_step,
        )  # fmt: skip
    _show(results, as_json)
    return 1 if any(result.status == "failed" for result in results) else 0


@contextmanager
def _watched(out: Path | None) -> Iterator[Callable[[Any], object] | None]:
    """Yield a callback that watches every step, None without a folder; print the alarms at the end."""
    if out is None:
        yield None
        return
    from toposcope.watch.training import TrainingWatch

    place = out.resolve().with_name(f"{out.resolve().name}-watch")
    click.echo(
        f"the measurements go to {place}; show its page with: {recommended('watch', place, port=8765)}",
        err=True,
    )
    with TrainingWatch(place) as watch:
        yield watch
    for alarm in watch.alarms():
        click.echo(f"alarm: {alarm.place}: {alarm.data['sentence']}", err=True)


def _show_plan(recipe: str, overrides: dict[str, object], as_json: bool) -> int:
    from toposcope.api.plans import training_plan
    from toposcope.recipes import load_training_recipe

    plan = training_plan(load_training_recipe(recipe, overrides))
    if as_json:
        print_json(plan.as_data())
    else:
        click.echo(repr(plan))
    return 0


def _list(as_json: bool) -> int:
    from toposcope.recipes import load_training_recipe

    recipes = [load_training_recipe(name) for name in training_recipes()]
    if as_json:
        print_json([{"name": r.name, "description": r.description, "steps": r.steps} for r in recipes])
    else:
        rows = [(r.name, len(r.models), r.steps, len(r.checkpoint_steps()), r.description) for r in recipes]
        print_table("Recipes", ["recipe", "models", "steps", "checkpoints", "what it is"], rows)
    return 0


def _show(trained: Trained, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "run": result.run.run,
                    "family": result.run.family,
                    "parameters": result.run.parameters,
                    "seed": result.run.seed,
                    "folder": str(result.folder),
                    "status": result.status,
                    "loss": result.loss,
                    "heldout_loss": result.heldout_loss,
                    "problem": result.problem,
                }
                for result in trained
            ]
        )
        return
    rows = [
        (r.run.run, r.run.parameters, r.status, r.loss, r.heldout_loss, r.problem or str(r.folder))
        for r in trained
    ]
    print_table("Trained runs", ["run", "parameters", "status", "loss", "held-out loss", "folder"], rows)
