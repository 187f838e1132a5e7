"""The plan that a trainer's own files beside a log state: its steps, its learning rate, its warm-up.

Such files are Lightning's hparams.yaml, transformers' trainer_state.json, nanoGPT's ckpt.pt, and a config,
args or hparams file in YAML, JSON or TOML.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.sources.blobs import LocalFolder
from toposcope.sources.labels import step_of
from toposcope.sources.lightning import METRICS, lightning_facts
from toposcope.sources.logs.collect import PLANNED
from toposcope.sources.nanogpt import CHECKPOINT, facts_beside
from toposcope.sources.trainer_state import TRAINER_STATE

PLANNED_RATE = "planned_rate"
"""The fact that holds a planned learning rate: kind, peak, last, warmup, steps and, where known, decay."""
PLAN_FROM = "plan_from"
"""The fact that names the file which states the plan."""

BESIDE = "beside the log"
"""Words that every note on such a plan has."""
PLAN_UNUSED = "plan_unused"
"""The fact that says why a plan beside a log is not used."""

_STEMS = ("config", "args", "hparams", "training_args", "train_config", "hyperparameters", "params")
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_LARGEST = 2**20
"""Bytes above which a file is no configuration that someone wrote."""
_STEPS = (
    "max_steps", "max_iters", "train_iters", "total_steps", "num_iterations", "max_train_steps",
    "num_train_steps", "num_training_steps", "total_training_steps", "train_steps", "planned_steps", "steps",
)  # fmt: skip
_PEAK = ("learning_rate", "max_lr", "peak_lr", "lr")
_LAST = ("min_lr", "final_learning_rate", "lr_end", "end_lr")
_WARMUP = ("warmup_steps", "warmup_iters", "lr_warmup_iters", "num_warmup_steps", "lr_warmup_steps")
_KIND = ("lr_scheduler_type", "lr_decay_style", "lr_scheduler", "scheduler", "lr_schedule", "schedule")
_SECTIONS = (
    "training", "train", "trainer", "optimizer", "optim", "lr_scheduler", "scheduler", "training_args",
    "hparams", "args", "config",
)  # fmt: skip
"""Sections of a file in which a plan stands; a data set or a model has steps of its own."""


def plan_beside(log: Path, *, alone: bool) -> dict[str, Any]:
    """Return what the files beside a log say of its runs, under the names of `Run.config`.

    hparams.yaml speaks for every run of Lightning's metrics.csv, any other file for a log of one run
    (`alone`). The first that states the steps counts: trainer_state.json, then a config, args or hparams
    file, then ckpt.pt.

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
    place = log.resolve().parent
    if log.name == METRICS and not alone:
        found = lightning_facts(LocalFolder(place))
        return found | {PLAN_FROM: "hparams.yaml"} if found else {}
    if not alone:
        return {}
    for file in _files(place):
        if file.resolve() != log.resolve() and (found := stated_plan(_read(file))):
            return found | {PLAN_FROM: str(file.relative_to(place))}
    try:
        found = facts_beside(LocalFolder(place))
    except SourceError as error:
        raise SourceError(f"{CHECKPOINT} beside it states no plan: {error}") from error
    return found | {PLAN_FROM: CHECKPOINT} if found else {}


def with_plan(own: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a log says of its run with the plan beside it; where both differ, the log's counts.

    >>> with_plan({"planned_steps": 900}, {"planned_steps": 400, "plan_from": "args.json"})["plan_unused"]
    "args.json beside the log plans 400 steps, the log itself 900: the log's plan is used"
    """
    mine, theirs = own.get(PLANNED), beside.get(PLANNED)
    if not theirs or mine in (None, theirs):
        return {**beside, **own}
    file = beside.get(PLAN_FROM)
    said = f"{file} {BESIDE} plans {theirs:,} steps, the log itself {mine:,}: the log's plan is used"
    return {**own, PLAN_UNUSED: said}


def stated_plan(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the planned steps of a configuration and, where it names one, the learning rate's schedule.

    >>> stated_plan({"training": {"steps": 400}, "model": {"max_steps": 3}})
    {'planned_steps': 400}
    >>> stated_plan({"max_iters": 400, "lr": 1e-3, "decay_lr": True, "warmup_iters": 20})["planned_rate"]
    {'kind': 'cosine', 'peak': 0.001, 'last': 0.0, 'warmup': 20, 'steps': 400}
    >>> stated_plan({"max_steps": -1})
    {}
    """
    known = dict(_leaves(said))
    steps = _first(known, _STEPS, least=1)
    if steps is None:
        return {}
    found: dict[str, Any] = {"planned_steps": int(steps)}
    if (rate := _rate(known, int(steps))) is not None:
        found[PLANNED_RATE] = rate
    return found


def _rate(known: Mapping[str, Any], steps: int) -> dict[str, Any] | None:
    """Return the schedule that a configuration names; None where it names none that is known."""
    named = next((str(known[name]).lower() for name in _KIND if isinstance(known.get(name), str)), "")
    if known.get("decay_lr") is True and not named:
        named = "cosine"
    kind = next((one for one in ("cosine", "linear", "constant") if one in named), None)
    peak = _first(known, _PEAK)
    if kind is None or peak is None or "restart" in named:
        return None
    warmup = _first(known, _WARMUP)
    share = _first(known, ("warmup_ratio", "warmup_proportion"))
    if warmup is None or (not warmup and share):
        warmup = (share or 0.0) * steps
    decayed = _first(known, ("lr_decay_iters", "lr_decay_steps"), least=1)
    end = min(steps, int(decayed)) if decayed is not None else steps
    last = peak if kind == "constant" else (_first(known, _LAST) or 0.0)
    if not 0 <= warmup < end or last > peak:
        return None
    found = {"kind": kind, "peak": peak, "last": last, "warmup": int(warmup), "steps": steps}
    return found | ({"decay": end} if end < steps else {})


def _first(known: Mapping[str, Any], names: tuple[str, ...], least: float = 0.0) -> float | None:
    """Return the first of some numbers that is stated and not below `least`."""
    for name in names:
        value = known.get(name)
        if isinstance(value, str):
            try:
                value = float(value)  # YAML takes 1e-4 for a word
            except ValueError:
                continue
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value < float("inf"):
            return value
    return None


def _leaves(said: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield names and values, those of the sections that hold a plan before those of the file itself.

    W&B's config.yaml wraps each value: {"desc": ..., "value": ...}.
    """
    for name, value in said.items():
        if isinstance(value, Mapping) and "value" not in value and name in _SECTIONS and depth < 2:
            yield from _leaves(value, depth + 1)
            if isinstance(kind := value.get("name") or value.get("type"), str) and "sched" in name:
                yield "lr_scheduler_type", kind
    for name, value in said.items():
        plain = value["value"] if isinstance(value, Mapping) and "value" in value else value
        if not isinstance(plain, Mapping):
            yield str(name).replace("-", "_").lower(), plain


def _files(place: Path) -> Iterator[Path]:
    """Yield the files of a folder that may state a plan, the surest first."""
    states = [place / TRAINER_STATE]
    folders = [one for one in place.glob("checkpoint-*") if step_of(one.name) is not None]
    folders.sort(key=lambda one: step_of(one.name) or 0, reverse=True)
    states += [one / TRAINER_STATE for one in folders]
    yield from (one for one in states[:2] if one.is_file())
    inside = {one.name.lower(): one for one in place.iterdir() if one.is_file()} if place.is_dir() else {}
    for stem in _STEMS:
        for suffix in _SUFFIXES:
            if stem + suffix in inside:
                yield inside[stem + suffix]
    if (hydra := place / ".hydra" / "config.yaml").is_file():
        yield hydra


def _read(file: Path) -> Mapping[str, Any]:
    """Return what a configuration says; empty where it is too large or no table of names and values."""
    try:
        if file.name != TRAINER_STATE and file.stat().st_size > _LARGEST:
            return {}
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".json":
            said = json.loads(text)
        elif file.suffix == ".toml":
            said = tomllib.loads(text)
        else:
            said = _yaml(text)
    except (OSError, ValueError, RecursionError) as error:
        why = str(error).splitlines()[0][:80]
        raise SourceError(f"{file.name} beside it states no plan: it cannot be read ({why})") from error
    if file.name == TRAINER_STATE and isinstance(said, Mapping):
        return {"max_steps": said.get("max_steps")}
    return said if isinstance(said, Mapping) else {}


def _yaml(text: str) -> object:
    """Read YAML; values of a type of Python's own, as Lightning writes them, become None."""
    import yaml

    class Plain(yaml.SafeLoader):
        """Reads every tag that it does not know as None."""

    Plain.add_multi_constructor("", lambda *_: None)
    try:
        return yaml.load(text, Loader=Plain)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
