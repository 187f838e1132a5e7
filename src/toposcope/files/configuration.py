"""Reads the plan in a trainer's configuration: its steps, its learning rate, its warm-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toposcope.files import PLANNED_RATE

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
"""Sections of a file that may contain a plan; steps in a data or model section mean something else."""


def stated_plan(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the planned steps of a configuration and, if it names one, the learning rate's schedule.

    >>> stated_plan({"training": {"steps": 400}, "model": {"max_steps": 3}})
    {'planned_steps': 400}
    >>> stated_plan({"max_iters": 400, "lr": 1e-3, "decay_lr": True, "warmup_iters": 20})["planned_rate"]
    {'kind': 'cosine', 'peak': 0.001, 'last': 0.0, 'warmup': 20, 'steps': 400}
    >>> stated_plan({"max_steps": -1})
    {}
    """
    settings = dict(_leaves(said))
    steps = _first(settings, _STEPS, least=1)
    if steps is None:
        return {}
    plan: dict[str, Any] = {"planned_steps": int(steps)}
    if (rate := _rate(settings, int(steps))) is not None:
        plan[PLANNED_RATE] = rate
    return plan


def _rate(settings: Mapping[str, Any], steps: int) -> dict[str, Any] | None:
    """Return the schedule that a configuration names; None for none or an unknown one."""
    named = next((str(settings[name]).lower() for name in _KIND if isinstance(settings.get(name), str)), "")
    if settings.get("decay_lr") is True and not named:
        named = "cosine"
    kind = next((kind_name for kind_name in ("cosine", "linear", "constant") if kind_name in named), None)
    peak = _first(settings, _PEAK)
    if kind is None or peak is None or "restart" in named:
        return None
    warmup = _first(settings, _WARMUP)
    share = _first(settings, ("warmup_ratio", "warmup_proportion"))
    if warmup is None or (not warmup and share):
        warmup = (share or 0.0) * steps
    decayed = _first(settings, ("lr_decay_iters", "lr_decay_steps"), least=1)
    end = min(steps, int(decayed)) if decayed is not None else steps
    last = peak if kind == "constant" else (_first(settings, _LAST) or 0.0)
    if not 0 <= warmup < end or last > peak:
        return None
    schedule = {"kind": kind, "peak": peak, "last": last, "warmup": int(warmup), "steps": steps}
    return schedule | ({"decay": end} if end < steps else {})


def _first(settings: Mapping[str, Any], names: tuple[str, ...], least: float = 0.0) -> float | None:
    """Return the first stated number that is at least `least`."""
    for name in names:
        value = settings.get(name)
        if isinstance(value, str):
            try:
                value = float(value)  # YAML reads 1e-4 as text
            except ValueError:
                continue
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value < float("inf"):
            return value
    return None


def _leaves(settings: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield names and values: first those of the sections with a plan, then those of the file itself.

    W&B's config.yaml wraps each value: {"desc": ..., "value": ...}.
    """
    for name, value in settings.items():
        if isinstance(value, Mapping) and "value" not in value and name in _SECTIONS and depth < 2:
            yield from _leaves(value, depth + 1)
            if isinstance(kind := value.get("name") or value.get("type"), str) and "sched" in name:
                yield "lr_scheduler_type", kind
    for name, value in settings.items():
        plain = value["value"] if isinstance(value, Mapping) and "value" in value else value
        if not isinstance(plain, Mapping):
            yield str(name).replace("-", "_").lower(), plain


def read_yaml(text: str) -> object:
    """Read YAML; values with Python type tags, as Lightning writes them, become None.

    Raises
    ------
    ValueError
        When it is not YAML.
    """
    import yaml

    class Plain(yaml.SafeLoader):
        """Reads every unknown tag as None."""

    Plain.add_multi_constructor("", lambda *_: None)
    try:
        return yaml.load(text, Loader=Plain)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
