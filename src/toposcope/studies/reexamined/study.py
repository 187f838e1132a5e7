"""Published claims, tested again on models trained here: against twins, drift and untrained networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import pandas as pd

from toposcope.studies.study import Reproduction, StudyCall

if TYPE_CHECKING:
    from toposcope.studies.claims import Claim
    from toposcope.studies.reexamined.family import RunPlan
    from toposcope.studies.sections import Section

CLAIMS = ("clusters", "peak", "dimension", "stopping", "moments")
"""What `--only` takes, in the order of the page: a module each, with `plans`, `judge` and `NAME`."""


def sections(call: StudyCall, *, only: tuple[str, ...] = (), seeds: int = 10) -> Sequence[Section]:
    """Test published claims about topology on small transformers.

    Each claim is tested on models that are trained here, on the built-in corpus: against Gaussian clouds of
    the same covariance, beyond the drift of training, and beside untrained networks. The rows stay in the
    folder of --out, and a run whose rows are there is not trained again.
    """
    import importlib

    from toposcope.studies.claims import claims_section
    from toposcope.studies.reexamined.family import rows_of
    from toposcope.studies.versions import versions

    chosen = [importlib.import_module(f"toposcope.studies.reexamined.{name}")
              for name in CLAIMS if name in (only or CLAIMS)]  # fmt: skip
    runs: dict[str, RunPlan] = {}
    for plan in (plan for module in chosen for plan in module.plans(seeds)):
        before = runs.setdefault(plan.name, plan)  # claims about the same runs share one training
        runs[plan.name] = replace(before, measures={**before.measures, **plan.measures})
    with call.folder() as folder:
        rows = {name: rows_of(plan, folder, call) for name, plan in runs.items()}
    claims: list[Claim] = []
    tables: list[Section] = []
    for module in chosen:
        named = (plan.name for plan in module.plans(seeds))
        mine = [rows[name][module.NAME].assign(plan=name) for name in named]
        judged, behind = module.judge(pd.concat(mine, ignore_index=True))
        claims += judged
        tables += behind
    return [claims_section(claims), *tables, versions()]


STUDY = Reproduction(
    "Published claims",
    "Clusters over layers, early stopping, the moments: what holds on small models?",
    sections,
    (
        click.option(
            "--only", type=click.Choice(CLAIMS), multiple=True,
            help="Test this claim alone; may be repeated.  [default: all]",
        ),
        click.option(
            "--seeds", type=click.IntRange(min=2), default=10, show_default=True,
            help="Number of runs of each kind.",
        ),
    ),
)  # fmt: skip
