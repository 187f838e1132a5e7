"""Faults by kind and healthy oddities: what each does to a training or to a file, and which tensor it hits.

A kind is a tempo (sudden, slow), a direction (rise, fall, stall, break), what is hit (matrix, vector, scalar,
tensor), how much of the model (one, layer, all) and where (memory: the training continues from it; disk: only
the file). A slow fault doubles every 2, 4 or 8 checkpoints, depending on the run's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.planted_plan import EVERY, Plan
from toposcope.core.seeding import rng

State = dict[str, np.ndarray]


@dataclass(frozen=True)
class Fault:
    """One kind of fault; of its functions those that it needs are given.

    `edit(plan, weights, t)` changes live weights after the t-th update since the fault began (0: before any),
    `factor(plan, name, t)` multiplies the update of a tensor, `batch(plan, tokens, t)` changes a batch,
    `file(plan, state, context)` what is written; `context` has another run's weights and averaged ones.
    `hits(plan)` names the tensors, none where it hits all.
    """

    name: str
    kind: str
    hits: Callable[[Plan], tuple[str, ...]] = lambda plan: ()
    edit: Callable[[Plan, State, int], None] | None = None
    factor: Callable[[Plan, str, int], float] | None = None
    batch: Callable[[Plan, np.ndarray, int], np.ndarray] | None = None
    file: Callable[[Plan, State, Mapping[str, State]], State] | None = None
    adapter: bool = False
    """Whether it is planted into an adapter's training."""
    average: bool = False
    """Whether the files hold averaged weights."""
    tied: bool = False
    """Whether the embedding is the output head as well."""
    once: bool = False
    """Whether only the first checkpoint after it is hit."""

    @property
    def slow(self) -> bool:
        """Whether it takes checkpoints to come about."""
        return self.kind.startswith("slow")


def _grow(plan: Plan, *, halves: bool = False, root: int = 1) -> float:
    """Return the factor per update of what doubles, or halves, in the plan's number of checkpoints."""
    return 2.0 ** ((-1 if halves else 1) / (EVERY * plan.doubling * root))


def _at(plan: Plan, name: str) -> str:
    return f"transformer.h.{plan.layer}.{name}"


def _one(name: str) -> Callable[[Plan], tuple[str, ...]]:
    return lambda plan: (name if name.startswith(("transformer", "logit")) else _at(plan, name),)


def _layer(plan: Plan) -> tuple[str, ...]:
    return (_at(plan, ""),)


def _set(name: str, value: float) -> Callable[[Plan, State, int], None]:
    def edit(plan: Plan, weights: State, t: int) -> None:
        for one in _one(name)(plan):
            weights[one][...] = value

    return edit


def _times(name: str, by: float, *, held: bool = False) -> Callable[[Plan, State, int], None]:
    def edit(plan: Plan, weights: State, t: int) -> None:
        if held or not t:
            for one in _one(name)(plan):
                weights[one][...] *= by

    return edit


def _slow(name: str, *, halves: bool = False) -> Callable[[Plan, State, int], None]:
    def edit(plan: Plan, weights: State, t: int) -> None:
        if t:
            for one in _one(name)(plan):
                weights[one][...] *= _grow(plan, halves=halves)

    return edit


def _rows(plan: Plan, weights: State, t: int) -> None:
    weights[_at(plan, "mlp.c_fc.weight")][::2] = 0


def _exchange(plan: Plan, weights: State, t: int) -> None:
    value = weights["transformer.wte.weight"]
    first, second = np.argsort(np.linalg.norm(value, axis=1))[[-1, len(value) // 2]]
    if not t:
        value[[first, second]] = value[[second, first]]


def _head(plan: Plan, weights: State, t: int) -> None:
    value = weights[_at(plan, "attn.c_attn.weight")]
    width = len(value) // 3 // plan.heads
    if not t:
        value[plan.head * width : (plan.head + 1) * width] *= 1.5


def _product(first: int, parts: tuple[str, str]) -> Callable[[Plan, State, int], None]:
    def edit(plan: Plan, weights: State, t: int) -> None:
        if not t:
            return
        by = _grow(plan, root=2)
        n = len(weights[_at(plan, "attn.c_attn.weight")]) // 3
        for part in parts:
            whole = weights[_at(plan, "attn.c_proj.weight" if part == "o" else "attn.c_attn.weight")]
            piece = whole if part == "o" else whole["qkv".index(part) * n :][:n]
            piece[...] *= by

    return edit


def _row(plan: Plan, weights: State, t: int) -> None:
    if t:
        weights["transformer.wte.weight"][plan.row] *= _grow(plan)


def _of_layer(plan: Plan, name: str) -> bool:
    return f".h.{plan.layer}." in name


def _nowhere(plan: Plan, tokens: np.ndarray, t: int) -> np.ndarray:
    return rng(run=plan.number, what="planted/batch").integers(0, 64, tokens.shape) if not t else tokens


def _worse(plan: Plan, tokens: np.ndarray, t: int) -> np.ndarray:
    """Replace a share of the tokens that doubles as slow things do, from a hundredth on."""
    source = rng(run=plan.number, what=f"planted/worse/{t}")
    share = min(0.9, 0.01 * _grow(plan) ** t)
    return np.where(source.random(tokens.shape) < share, source.integers(0, 64, tokens.shape), tokens)


def _noise(name: str) -> Callable[[Plan, State, Mapping[str, State]], State]:
    def file(plan: Plan, state: State, context: Mapping[str, State]) -> State:
        value = state[_one(name)(plan)[0]]
        rows = max(1, len(value) // 4)
        draw = rng(run=plan.number, what="planted/shard").standard_normal(value[:rows].shape)
        value[:rows] = value.std() * draw
        return state

    return file


def _spoil(name: str, what: float) -> Callable[[Plan, State, Mapping[str, State]], State]:
    def file(plan: Plan, state: State, context: Mapping[str, State]) -> State:
        state[_one(name)(plan)[0]].reshape(-1)[plan.row % 8 if state[_one(name)(plan)[0]].ndim else 0] = what
        return state

    return file


def _without(plan: Plan, state: State, context: Mapping[str, State]) -> State:
    return {name: value for name, value in state.items() if name != _at(plan, "ln_2.weight")}


def _without_matrix(plan: Plan, state: State, context: Mapping[str, State]) -> State:
    return {name: value for name, value in state.items() if name != _at(plan, "mlp.c_fc.weight")}


def _with(plan: Plan, state: State, context: Mapping[str, State]) -> State:
    return state | {_at(plan, "mlp.extra.weight"): np.ones((8, 8), np.float32)}


def _shuffled(plan: Plan, state: State, context: Mapping[str, State]) -> State:
    value = state[_at(plan, "mlp.c_fc.weight")]
    value[...] = value[rng(run=plan.number, what="planted/order").permutation(len(value))]
    return state


def _zero_vector(plan: Plan, state: State, context: Mapping[str, State]) -> State:
    state[_at(plan, "ln_1.weight")][...] = 0
    return state


_FC, _NORM, _BIAS = "mlp.c_fc.weight", "ln_1.weight", "mlp.c_fc.bias"
_LORA = "mlp.c_fc.lora_B.weight"

FAULTS: tuple[Fault, ...] = (
    Fault("bad batch", "sudden break, all, memory", batch=_nowhere),
    Fault("learning rate x 10", "sudden rise, all, memory", factor=lambda plan, name, t: 10.0),
    Fault("dead rows", "sudden break, matrix, memory", _one(_FC), edit=_rows),
    Fault(
        "dead matrix",
        "sudden break, matrix, memory",
        _one("mlp.c_proj.weight"),
        edit=_set("mlp.c_proj.weight", 0.0),
    ),
    Fault(
        "swapped rows of a tied embedding",
        "sudden break, rows, memory",
        _one("transformer.wte.weight"),
        edit=_exchange,
        tied=True,
    ),
    Fault("one head x 1.5", "sudden rise, head, memory", _one("attn.c_attn.weight"), edit=_head),
    Fault("norm of zeros", "sudden fall, vector, memory", _one(_NORM), edit=_set(_NORM, 0.0)),
    Fault("norm x 4", "sudden rise, vector, memory", _one("ln_2.weight"), edit=_times("ln_2.weight", 4.0)),
    Fault("scalar x 3", "sudden rise, scalar, memory", _one("logit_scale"), edit=_times("logit_scale", 3.0)),
    Fault(
        "one layer stands still",
        "sudden stall, layer, memory",
        _layer,
        factor=lambda plan, name, t: 0.0 if _of_layer(plan, name) else 1.0,
    ),
    Fault("updates x 1/30", "sudden fall, all, memory", factor=lambda plan, name, t: 1 / 30),
    Fault("corrupted shard", "sudden break, matrix, disk", _one(_FC), file=_noise(_FC), once=True),
    Fault("permuted rows", "sudden break, matrix, disk", _one(_FC), file=_shuffled, once=True),
    Fault("NaN in a norm", "sudden break, vector, disk", _one(_NORM), file=_spoil(_NORM, np.nan), once=True),
    Fault("infinite bias", "sudden break, vector, disk", _one(_BIAS), file=_spoil(_BIAS, np.inf), once=True),
    Fault(
        "NaN scalar",
        "sudden break, scalar, disk",
        _one("logit_scale"),
        file=_spoil("logit_scale", np.nan),
        once=True,
    ),
    Fault("norm of zeros in a file", "sudden fall, vector, disk", _one(_NORM), file=_zero_vector, once=True),
    Fault("norm is gone", "tensor goes, vector, disk", _one("ln_2.weight"), file=_without),
    Fault("matrix is gone", "tensor goes, matrix, disk", _one(_FC), file=_without_matrix),
    Fault("another tensor came", "tensor comes, matrix, disk", _one("mlp.extra.weight"), file=_with),
    Fault(
        "weights of another run",
        "sudden break, all, disk",
        file=lambda plan, state, context: dict(context["other"]),
        once=True,
    ),
    Fault(
        "averaged in place of the weights",
        "sudden break, all, disk",
        file=lambda plan, state, context: dict(context["average"]),
        once=True,
    ),
    Fault("dead rows, averaged weights", "sudden break, matrix, memory", _one(_FC), edit=_rows, average=True),
    Fault(
        "QK of a layer grows",
        "slow rise, heads, memory",
        _one("attn.c_attn.weight"),
        edit=_product(0, ("q", "k")),
    ),
    Fault(
        "OV of a layer grows",
        "slow rise, heads, memory",
        lambda plan: (_at(plan, "attn.c_attn.weight"), _at(plan, "attn.c_proj.weight")),
        edit=_product(1, ("v", "o")),
    ),
    Fault("an embedding row grows", "slow rise, row, memory", _one("transformer.wte.weight"), edit=_row),
    Fault("a matrix grows", "slow rise, matrix, memory", _one(_FC), edit=_slow(_FC)),
    Fault("a matrix fades", "slow fall, matrix, memory", _one(_FC), edit=_slow(_FC, halves=True)),
    Fault("a norm grows", "slow rise, vector, memory", _one(_NORM), edit=_slow(_NORM)),
    Fault("a norm fades", "slow fall, vector, memory", _one(_NORM), edit=_slow(_NORM, halves=True)),
    Fault("the scalar grows", "slow rise, scalar, memory", _one("logit_scale"), edit=_slow("logit_scale")),
    Fault("updates grow", "slow rise, all, memory", factor=lambda plan, name, t: _grow(plan) ** t),
    Fault(
        "updates fade", "slow stall, all, memory", factor=lambda plan, name, t: _grow(plan, halves=True) ** t
    ),
    Fault(
        "a layer's updates grow",
        "slow rise, layer, memory",
        _layer,
        factor=lambda plan, name, t: _grow(plan) ** t if _of_layer(plan, name) else 1.0,
    ),
    Fault(
        "a layer's updates fade",
        "slow stall, layer, memory",
        _layer,
        factor=lambda plan, name, t: _grow(plan, halves=True) ** t if _of_layer(plan, name) else 1.0,
    ),
    Fault("tokens turn to noise", "slow break, all, memory", batch=_worse),
    Fault(
        "adapter of another run",
        "sudden break, adapter, disk",
        adapter=True,
        file=lambda plan, state, context: dict(context["other"]),
        once=True,
    ),
    Fault(
        "averaged adapter in place",
        "sudden break, adapter, disk",
        adapter=True,
        file=lambda plan, state, context: dict(context["average"]),
        once=True,
    ),
    Fault(
        "NaN in an adapter",
        "sudden break, adapter, disk",
        _one("mlp.c_fc"),
        file=_spoil(_LORA, np.nan),
        adapter=True,
        once=True,
    ),
    Fault(
        "an adapter's matrix grows",
        "slow rise, adapter, memory",
        _one("mlp.c_fc"),
        edit=_slow(_LORA),
        adapter=True,
    ),
)


@dataclass(frozen=True)
class Oddity:
    """One kind of healthy run that is not the plainest; `settings` go over the recipe's draw.

    One that is not `healthy` has a fault that its log and weights may not show.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    healthy: bool = True


ODDITIES: tuple[Oddity, ...] = (
    Oddity("plain"),
    Oddity("warm-up, stable, decay", {"schedule": "wsd"}),
    Oddity("warm restarts of the rate", {"schedule": "restarts"}),
    Oddity("constant rate", {"schedule": "constant"}),
    Oddity("batch ramp x 2 to x 8", {"ramp": True}),
    Oddity("curriculum: another text comes in", {"curriculum": True}),
    Oddity("bfloat16 files", {"bf16": True}),
    Oddity("adapter of rank 4", {"rank": 4}),
    Oddity("adapter of rank 16", {"rank": 16}),
    Oddity("adapter of rank 64", {"rank": 64}),
    Oddity("averaged weights", {"average": True}),
    Oddity("a layer frozen from the start", {"frozen": "start"}),
    Oddity("a frozen layer is let go", {"frozen": "until"}),
    Oddity("resumed without the optimiser's state", {"resumed": True}, healthy=False),
    Oddity("tied head", {"tied": True}),
    Oddity("sharded writer", {"layout": "llama"}),
    Oddity("tiny batches", {"batch": 1}),
    Oddity("SGD with momentum", {"optimiser": "sgd"}),
    Oddity("fine-tuning of a trained model", {"tuned": True}),
)
