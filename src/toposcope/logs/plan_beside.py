"""The plan in a trainer's own files beside a log: its steps, its learning rate, its warm-up.

These files are Lightning's hparams.yaml, transformers' trainer_state.json, nanoGPT's ckpt.pt, and a config,
args or hparams file in YAML, JSON or TOML.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toposcope import files
from toposcope.core.errors import SourceError
from toposcope.files import LIGHTNING_METRICS, TRAINER_STATE
from toposcope.files.blobs import LocalFolder
from toposcope.logs.records import PLANNED

PLAN_FROM = "plan_from"
"""The fact that names the file with the plan."""

BESIDE = "beside the log"
"""The words in every note on such a plan."""
PLAN_UNUSED = "plan_unused"
"""The fact that says why a plan beside a log is not used."""

_STEMS = ("config", "args", "hparams", "training_args", "train_config", "hyperparameters", "params")
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_LARGEST = 2**20
"""The largest size of a configuration file in bytes."""


def plan_beside(log: Path, *, alone: bool) -> dict[str, Any]:
    """Return the facts in the files beside a log, under the names of `Run.config`.

    hparams.yaml applies to every run of Lightning's metrics.csv, any other file only to a log with a single
    run (`alone`). The first file that states the steps is used: trainer_state.json, then a config, args or
    hparams file, then ckpt.pt, or the newest that a loop numbers (ckpt_2000.pt).

    Raises
    ------
    SourceError
        When a file that should state the plan cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "hparams.yaml").write_text("max_steps: 400")
    >>> plan_beside(folder / "metrics.csv", alone=False), plan_beside(folder / "other.csv", alone=False)
    ({'planned_steps': 400, 'plan_from': 'hparams.yaml'}, {})
    """
    place = Path(os.path.realpath(log)).parent
    if log.name == LIGHTNING_METRICS and not alone:
        facts = files.lightning_facts(LocalFolder(place))
        return facts | {PLAN_FROM: "hparams.yaml"} if facts else {}
    if not alone:
        return {}
    for file in _files(place):
        if os.path.realpath(file) != os.path.realpath(log) and (facts := files.stated_plan(_read(file))):
            return facts | {PLAN_FROM: str(file.relative_to(place))}
    checkpoints = [file.name for file in place.glob("ckpt*.pt") if file.is_file()]
    name = files.nanogpt_checkpoint(checkpoints) if checkpoints else ""
    if not name:
        return {}
    try:
        facts = files.facts_of_checkpoint(LocalFolder(place), name)
    except SourceError as error:
        raise SourceError(f"{name} beside it states no plan: {error}") from error
    return facts | {PLAN_FROM: name} if facts else {}


def with_plan(own: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts in a log with the plan beside it; if they differ, the log's plan is used.

    >>> with_plan({"planned_steps": 900}, {"planned_steps": 400, "plan_from": "args.json"})["plan_unused"]
    "args.json beside the log plans 400 steps, the log itself 900: the log's plan is used"
    """
    mine, theirs = own.get(PLANNED), beside.get(PLANNED)
    if not theirs or mine in (None, theirs):
        return {**beside, **own}
    file = beside.get(PLAN_FROM)
    note = f"{file} {BESIDE} plans {theirs:,} steps, the log itself {mine:,}: the log's plan is used"
    return {**own, PLAN_UNUSED: note}


def _files(place: Path) -> Iterator[Path]:
    """Yield the files of a folder that may state a plan, the most reliable first."""
    states = [place / TRAINER_STATE]
    folders = [path for path in place.glob("checkpoint-*") if files.step_of(path.name) is not None]
    folders.sort(key=lambda folder: files.step_of(folder.name) or 0, reverse=True)
    states += [folder / TRAINER_STATE for folder in folders]
    yield from (state for state in states[:2] if state.is_file())
    inside = {path.name.lower(): path for path in place.iterdir() if path.is_file()} if place.is_dir() else {}
    for stem in _STEMS:
        for suffix in _SUFFIXES:
            if stem + suffix in inside:
                yield inside[stem + suffix]
    if (hydra := place / ".hydra" / "config.yaml").is_file():
        yield hydra


def _read(file: Path) -> Mapping[str, Any]:
    """Return the content of a configuration; empty if it is too large, or not a table of names and values."""
    try:
        if file.name != TRAINER_STATE and file.stat().st_size > _LARGEST:
            return {}
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".json":
            settings = json.loads(text)
        elif file.suffix == ".toml":
            settings = tomllib.loads(text)
        else:
            settings = files.read_yaml(text)
    except (OSError, ValueError, RecursionError) as error:
        why = str(error).splitlines()[0][:80]
        raise SourceError(f"{file.name} beside it states no plan: it cannot be read ({why})") from error
    if file.name == TRAINER_STATE and isinstance(settings, Mapping):
        return {"max_steps": settings.get("max_steps")}
    return settings if isinstance(settings, Mapping) else {}
