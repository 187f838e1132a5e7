"""Train the runs in which faults are planted: each depends on its number and is saved as arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.planted_kinds import FAULTS, ODDITIES, Fault
from benchmarks.planted_model import CONTEXT, Stack, first_adapter, first_weights
from benchmarks.planted_plan import EVERY, STEPS, Plan, texts
from toposcope.core.seeding import rng

LATER = 3
"""Updates from the checkpoint before a fault to the fault."""

SUDDEN, SLOW = 60, 160
"""Updates for which a run is followed after a fault."""

AVERAGING = 0.98
State = dict[str, np.ndarray]


@dataclass
class Trained:
    """A run's checkpoints and log; `at` is what a branch goes on from."""

    states: dict[int, State]
    log: list[dict[str, float]]
    average: State
    at: dict[str, Any] | None = None

    def save(self, path: Path) -> None:
        """Write it as one file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        held = {
            f"{step}|{name}": value for step, state in self.states.items() for name, value in state.items()
        }
        held["log"] = np.array(json.dumps(self.log))
        with (path.with_suffix(".part")).open("wb") as file:
            np.savez(file, **held)
        path.with_suffix(".part").rename(path)

    @classmethod
    def read(cls, path: Path) -> Trained:
        """Read it back, without what a branch goes on from."""
        states: dict[int, State] = {}
        with np.load(path) as held:
            for key in held.files:
                step, _, name = key.partition("|")
                if name:
                    states.setdefault(int(step), {})[name] = held[key]
            return cls(states, json.loads(str(held["log"])), {})


def rate_at(settings: Mapping[str, Any], step: int) -> float:
    """Return the learning rate of an update."""
    peak, warm = settings["rate"], settings["warmup"]
    part = step / STEPS
    if step < warm:
        return peak * (step + 1) / warm
    if settings["schedule"] == "constant":
        return peak
    if settings["schedule"] == "wsd":
        return peak * min(1.0, (1.0 - part) / 0.2 + 0.01)
    if settings["schedule"] == "restarts":
        part = 3.0 * part % 1.0
    return peak * (0.1 + 0.45 * (1.0 + math.cos(math.pi * part)))


def _batch(plan: Plan, settings: Mapping[str, Any], step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return eight sequences, and 1 for those that the batch of this update has."""
    draw = rng(run=plan.number, what=f"planted/tokens/{step}")
    size = settings["batch"]
    if settings.get("ramp"):
        size = 2 * (1 + (step >= 120) + 2 * (step >= 240))
    one, other = texts()
    at = draw.integers(0, len(one) - CONTEXT - 1, MOST)
    share = min(1.0, max(0.0, (step - 120) / 120)) if settings.get("curriculum") else 0.0
    share = 1.0 if settings.get("tuned") else share
    use = draw.random(MOST) < share
    tokens = [(other if swap else one)[i : i + CONTEXT + 1] for i, swap in zip(at, use, strict=True)]
    return np.stack(tokens), (np.arange(MOST) < size).astype(np.float32)


@dataclass
class Spec:
    """One run of a stack: its plan and settings, a fault, and where it goes on from."""

    plan: Plan
    settings: Mapping[str, Any]
    path: Path
    fault: Fault | None = None
    begin: Mapping[str, Any] | None = None
    weights: State | None = None
    until: int = STEPS
    keep: bool = False

    @property
    def step(self) -> int:
        """The update that comes first."""
        return 0 if self.begin is None else int(self.begin["step"])

    @property
    def onset(self) -> int:
        """The update before which a fault begins."""
        return self.plan.checkpoint + LATER

    def late(self, step: int) -> bool:
        """Say whether an update has the fault."""
        return self.fault is not None and step >= self.onset

    def first(self) -> State:
        """Return all weights that it begins with, the frozen ones of an adapter too."""
        size, rank = self.settings["size"], self.settings["rank"]
        made = self.weights or first_weights(size, self.plan.number)
        made = made | (first_adapter(size, rank, self.plan.number) if rank else {})
        return made if self.begin is None else made | self.begin["weights"]

    def moves(self, name: str, step: int) -> bool:
        """Say whether an update moves a tensor."""
        how = self.settings.get("frozen")
        if how and f".h.{self.plan.layer}." in name and (how == "start" or step < 200):
            return False
        return (name != "lm_head.weight" or not self.settings["tied"]) and (
            not name.endswith(".bias") or self.settings["bias"]
        )

    def holds(self, name: str) -> bool:
        """Say whether a checkpoint has a tensor."""
        if self.settings["rank"]:
            return ".lora_" in name
        return (name != "lm_head.weight" or not self.settings["tied"]) and (
            not name.endswith(".bias") or self.settings["bias"]
        )


class Batch:
    """Many runs of one size, rank and first update, trained side by side with AdamW or SGD each.

    All that moves is one array (runs, weights): what the optimiser does is a few operations on it.
    """

    def __init__(self, specs: Sequence[Spec]) -> None:
        self.specs, settings = list(specs), specs[0].settings
        first = [one.first() for one in specs]
        names = [name for name in first[0] if not settings["rank"] or ".lora_" in name]
        self.fixed = {
            n: torch.from_numpy(np.stack([one[n] for one in first])) for n in first[0] if n not in names
        }
        self.shapes = {name: first[0][name].shape for name in names}
        self.flat = torch.from_numpy(np.stack([self._flat(one) for one in first]))
        zeros, runs = np.zeros(self.flat.shape[1], np.float32), len(specs)
        begun = [one.begin for one in specs]
        self.one, self.two, self.average = (
            torch.from_numpy(np.stack([other if at is None else self._flat(at[key]) for at in begun]))
            for key, other in (("one", zeros), ("two", zeros), ("average", zeros))
        )
        for i, at in enumerate(begun):
            if at is None:
                self.average[i] = self.flat[i]
        self.counts = np.array([0 if at is None else at["updates"] for at in begun], np.float32)
        self.stack = Stack(
            settings["size"], torch.tensor([float(one.settings["tied"]) for one in specs]), settings["rank"]
        )
        matrix = np.concatenate(
            [np.full(math.prod(s), float(len(s) > 1), np.float32) for s in self.shapes.values()]
        )
        decay = np.array([one.settings["decay"] for one in specs], np.float32)
        self.decay = torch.from_numpy(decay[:, None] * matrix)
        self.sgd = torch.tensor([[float(one.settings["optimiser"] == "sgd")] for one in specs])
        self.made = [Trained({}, [], {}) for _ in range(runs)]
        self.step = specs[0].step
        self.frozen = self._multiplier(lambda spec, name: float(spec.moves(name, self.step)))

    def _flat(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.asarray(state[name], np.float32).reshape(-1) for name in self.shapes])

    def _views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        parts = flat.split([math.prod(shape) for shape in self.shapes.values()], dim=1)
        return {
            n: part.view(len(flat), *shape)
            for (n, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def _state(self, flat: torch.Tensor, i: int) -> State:
        return {name: value[0].numpy().copy() for name, value in self._views(flat[i : i + 1]).items()}

    def _multiplier(self, of: Callable[[Spec, str], float]) -> torch.Tensor:
        found = [[of(spec, name) for name in self.shapes] for spec in self.specs]
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        return torch.from_numpy(np.repeat(np.array(found, np.float32), sizes, axis=1))

    def run(self) -> None:
        """Train to the end of the longest."""
        while True:
            for i, one in enumerate(self.specs):
                if self.step <= one.until:
                    self._checkpoint(i, one)
            if self.step >= max(one.until for one in self.specs):
                return
            self._update()
            self.step += 1

    def _checkpoint(self, i: int, spec: Spec) -> None:
        step, fault, onset = self.step, spec.fault, spec.plan.checkpoint + LATER
        if step % EVERY == 0:
            average = {n: v for n, v in self._state(self.average, i).items() if spec.holds(n)}
            state = {n: v for n, v in self._state(self.flat, i).items() if spec.holds(n)}
            state = {n: v.copy() for n, v in average.items()} if spec.settings.get("average") else state
            late = step > onset and not (fault is not None and fault.once and step > onset + EVERY)
            if fault is not None and fault.file is not None and late:
                state = fault.file(spec.plan, state, {"average": average, "other": spec.begin["other"]})
            self.made[i].states[step] = state
        if spec.keep and step == spec.plan.checkpoint:
            one, two, average = (self._state(part, i) for part in (self.one, self.two, self.average))
            weights = self._state(self.flat, i)
            self.made[i].at = {"weights": weights, "one": one, "two": two, "average": average,
                               "step": step, "updates": self.counts[i]}  # fmt: skip
        if spec.settings.get("resumed") and step == 200:
            self.counts[i] = 0.0
            self.one[i] = self.two[i] = 0.0

    def _tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        found, known = [], {}
        for one in self.specs:
            key = (
                one.plan.number,
                tuple(one.settings.get(name) for name in ("batch", "ramp", "curriculum", "tuned")),
            )
            if key not in known:
                known[key] = _batch(one.plan, one.settings, self.step)
            tokens, weights = known[key]
            if one.late(self.step) and one.fault.batch is not None:
                tokens = one.fault.batch(one.plan, tokens, self.step - one.onset)
            found.append((tokens, weights))
        tokens, weights = (np.stack(part) for part in zip(*found, strict=True))
        return torch.from_numpy(tokens), torch.from_numpy(weights)

    def _update(self) -> None:
        for i, one in enumerate(self.specs):
            if one.late(self.step) and one.fault.edit is not None:
                views = {n: value[0].numpy() for n, value in self._views(self.flat[i : i + 1]).items()}
                one.fault.edit(one.plan, views, self.step - one.onset)
        leaf = self.flat.detach().requires_grad_()
        losses = self.stack.losses(self.fixed | self._views(leaf), *self._tokens())
        (gradient,) = torch.autograd.grad(losses.sum(), [leaf])
        norms = gradient.square().sum(1).sqrt()
        rates = torch.tensor([rate_at(one.settings, self.step) for one in self.specs])
        self._move(gradient * torch.clamp(1.0 / (norms + 1e-6), max=1.0)[:, None], rates[:, None])
        for i, (one, loss) in enumerate(zip(self.specs, losses.tolist(), strict=True)):
            if self.step < one.until:
                self.made[i].log.append(
                    {
                        "step": self.step,
                        "loss": loss,
                        "learning_rate": float(rates[i]),
                        "grad_norm": float(norms[i]),
                    }
                )

    def _move(self, gradient: torch.Tensor, rates: torch.Tensor) -> None:
        self.counts += 1
        count = torch.from_numpy(self.counts)[:, None]
        self.one.mul_(0.9).add_(gradient, alpha=0.1)
        self.two.mul_(0.95).addcmul_(gradient, gradient, value=0.05)
        adam = (self.one / (1 - 0.9**count)) / (
            (self.two / (1 - 0.95**count)).sqrt() + 1e-8
        ) + self.decay * self.flat
        change = -rates * torch.lerp(adam, 300.0 * self.one, self.sgd) * self._factors()
        self.flat.add_(change)
        self.average.lerp_(self.flat, 1.0 - AVERAGING)

    def _factors(self) -> torch.Tensor:
        if self.step == 200:
            self.frozen = self._multiplier(lambda spec, name: float(spec.moves(name, self.step)))
        if not any(one.late(self.step) and one.fault.factor is not None for one in self.specs):
            return self.frozen
        return self.frozen * self._multiplier(
            lambda one, name: one.fault.factor(one.plan, name, self.step - one.onset)
            if one.late(self.step) and one.fault.factor is not None else 1.0
        )  # fmt: skip


def settings_of(
    plan: Plan, fault: Fault | None = None, over: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of a run, with what a fault or an oddity asks for."""
    found = plan.recipe | {"bias": fault is not None or plan.number % 2 == 0} | dict(over or {})
    if fault is not None:
        found |= {"rank": (4, 16, 64)[plan.number // 3 % 3]} if fault.adapter else {}
        found |= {"average": True} if fault.average else {}
        found |= {"tied": True} if fault.tied else {}
    return found


MOST = 8
"""Sequences of the largest batch."""


def _train(specs: Iterable[Spec]) -> dict[Path, Trained]:
    """Train what shares a size, a rank and a first update side by side, and keep each as a file."""
    groups: dict[tuple[Any, ...], list[Spec]] = {}
    for one in specs:
        groups.setdefault((one.settings["size"], one.settings["rank"], one.step), []).append(one)
    found = {}
    for group in groups.values():
        batch = Batch(group)
        batch.run()
        for spec, made in zip(batch.specs, batch.made, strict=True):
            made.save(spec.path)
            found[spec.path] = made
    return found


def make(plans: Sequence[Plan], root: Path, *, faults: bool) -> None:
    """Train some plans with every oddity into PLAN/healthy/, and with every fault into PLAN/faults/."""
    homes = {plan: root / str(plan.number) for plan in plans}
    whole = _train(
        Spec(plan, settings_of(plan, over={"bias": True}), homes[plan] / "trained.npz") for plan in plans
    )
    trained = {plan: _filled(plan, whole[homes[plan] / "trained.npz"].states[STEPS]) for plan in plans}
    specs = []
    for plan in plans:
        for oddity in ODDITIES:
            settings = settings_of(plan, over=oddity.settings)
            begin = trained[plan] if settings["rank"] or settings.get("tuned") else None
            specs.append(Spec(plan, settings, homes[plan] / "healthy" / f"{oddity.name}.npz", weights=begin))
    _train(specs)
    if faults:
        _faults(plans, homes, trained)


def _filled(plan: Plan, state: State) -> State:
    return first_weights(plan.recipe["size"], plan.number) | state


def kind_of(fault: Fault) -> str:
    return "adapter" if fault.adapter else "average" if fault.average else "tied" if fault.tied else "whole"


def _faults(plans: Sequence[Plan], homes: Mapping[Plan, Path], trained: Mapping[Plan, State]) -> None:
    kinds = {kind_of(fault): fault for fault in FAULTS}
    specs, others = [], []
    for plan in plans:
        for kind, fault in kinds.items():
            settings = settings_of(plan, fault)
            own = trained[plan] if settings["rank"] else None
            home = homes[plan] / "faults"
            specs.append(Spec(plan, settings, home / f"base {kind}.npz", weights=own, keep=True))
            twin = Plan(plan.number + 90_000)
            others.append(
                Spec(twin, settings, home / f"other {kind}.npz", weights=own, until=plan.checkpoint)
            )
    bases, strangers = _train(specs), _train(others)
    specs = []
    for plan in plans:
        for fault in FAULTS:
            home, kind = homes[plan] / "faults", kind_of(fault)
            states = strangers[home / f"other {kind}.npz"].states
            begin = bases[home / f"base {kind}.npz"].at | {"other": states[plan.checkpoint]}
            own = trained[plan] if fault.adapter else None
            until = plan.checkpoint + LATER + (SLOW if fault.slow else SUDDEN)
            specs.append(
                Spec(
                    plan,
                    settings_of(plan, fault),
                    home / f"{fault.name}.npz",
                    fault,
                    begin,
                    own,
                    min(STEPS, until),
                )
            )
    _train(specs)
