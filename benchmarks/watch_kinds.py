"""Healthy kinds and faults that `benchmarks.planted` does not have, in loops that are not toposcope's.

No constant of an alarm was set on a fault here. Which rules were changed after the healthy kinds had been
seen is in docs/watch.md, "How well it does".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.watch_loops import (
    CONTEXT,
    EVERY,
    HEADS,
    LAYERS,
    STEPS,
    VOCABULARY,
    WIDTH,
    Batch,
    Kind,
    PlainModel,
    State,
    Training,
    next_tokens,
    windows,
)  # fmt: skip
from toposcope.core.seeding import rng

_IN, _OUT = "body.layers.1.self_attn.in_proj_weight", "body.layers.1.self_attn.out_proj.weight"
_UP, _GAIN = "body.layers.0.linear1.weight", "body.layers.0.norm1.weight"


def _ramp(run: Training) -> Batch:
    length = 8 if run.step < 80 else 16 if run.step < 160 else CONTEXT
    return next_tokens(windows(run.number, run.step, length=length))


def _new_tokens(run: Training) -> Batch:
    """Digits and the signs beside them, one token in forty, are letters for the first half of the run."""
    tokens = windows(run.number, run.step)
    digits = (tokens >= 10) & (tokens < 27) & (run.step < STEPS // 2)
    return next_tokens(np.where(digits, 34 + tokens % 26, tokens))


class _Gated(PlainModel):
    """Each layer's change enters through a gate that begins near 0, as LayerScale's does."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ParameterList(nn.Parameter(torch.full((WIDTH,), 1e-4)) for _ in range(LAYERS))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        hidden = self.tokens(tokens) + self.positions.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=hidden.dtype)
        for gate, layer in zip(self.gates, self.body.layers, strict=True):
            hidden = hidden + gate * (layer(hidden, src_mask=mask, is_causal=True) - hidden)
        return self.head(self.body.norm(hidden))


class _Averaged(torch.optim.Optimizer):
    """Updates from a running mean of the gradients."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make an update."""
        for group in self.param_groups:
            for one in group["params"]:
                mean = self.state[one].setdefault("mean", torch.zeros_like(one))
                self.update(one, mean, group["lr"])

    def update(self, one: torch.Tensor, mean: torch.Tensor, lr: float) -> None:
        """Move a parameter, and its mean by its gradient."""
        raise NotImplementedError


class Signs(_Averaged):
    """Updates of one size, the signs of averaged gradients, as Lion's are."""

    def __init__(self, parameters: Any, lr: float = 5e-4) -> None:
        super().__init__(parameters, lr)

    def update(self, one: torch.Tensor, mean: torch.Tensor, lr: float) -> None:
        """Move by the sign of the mean with more of the newest gradient, then move the mean."""
        one.sub_(lr * torch.sign(0.9 * mean + 0.1 * one.grad))
        mean.mul_(0.99).add_(one.grad, alpha=0.01)


class Orthogonal(_Averaged):
    """Updates of matrices with equal singular values, as Muon's are; vectors move by signs."""

    def __init__(self, parameters: Any, lr: float = 5e-3) -> None:
        super().__init__(parameters, lr)

    def update(self, one: torch.Tensor, mean: torch.Tensor, lr: float) -> None:
        """Move the mean, then the parameter by its orthogonal part."""
        mean.mul_(0.95).add_(one.grad)
        if one.ndim == 2:
            left, _, right = torch.linalg.svd(mean, full_matrices=False)
            one.sub_(lr * (left @ right) * math.sqrt(max(1.0, one.shape[0] / one.shape[1])))
        else:
            one.sub_(0.1 * lr * torch.sign(mean))


def _groups(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW whose embeddings learn ten times as fast as the rest, as in maximal-update recipes."""
    fast = [one for name, one in model.named_parameters() if name.startswith(("tokens", "positions"))]
    slow = [one for name, one in model.named_parameters() if not name.startswith(("tokens", "positions"))]
    return torch.optim.AdamW([{"params": slow, "lr": 1e-3}, {"params": fast, "lr": 1e-2}])


def _decaying(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=1.0)


def _smoothed(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)


def tiny(config: str, model: str, given: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None,
         **settings: Any) -> Callable[[int], nn.Module]:  # fmt: skip
    """Return what makes a tiny model of transformers with random weights, by the names of its classes."""

    def make(number: int) -> nn.Module:
        import transformers

        torch.manual_seed(number)
        usual = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
                 "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH, "max_position_embeddings": 32,
                 "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}  # fmt: skip
        made = getattr(transformers, model)(getattr(transformers, config)(**usual | settings))
        if given is not None:
            made.given = given
        return made

    return make


def _masked(row: np.ndarray) -> Mapping[str, np.ndarray]:
    """Hide three tokens of a sequence, which a bidirectional model has to name."""
    row = row[:CONTEXT]
    hidden = np.zeros(CONTEXT, bool)
    hidden[rng(run=int(row.sum()), what="masked").choice(CONTEXT, 3, replace=False)] = True
    return {"input_ids": np.where(hidden, 63, row), "labels": np.where(hidden, row, -100)}


def _to_second(row: np.ndarray) -> Mapping[str, np.ndarray]:
    return {"input_ids": row[:12], "labels": row[12:CONTEXT]}


GPT2 = tiny("GPT2Config", "GPT2LMHeadModel", n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=32)
LLAMA = tiny("LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2)

HEALTHY: tuple[Kind, ...] = (
    Kind("SGD without momentum", optimiser=lambda model: torch.optim.SGD(model.parameters(), lr=0.5)),
    Kind("context ramp", batch=_ramp),
    Kind("tokens that come in later", batch=_new_tokens),
    Kind("gates from near 0", model=lambda number: _Gated()),
    Kind("dropout", model=lambda number: PlainModel(dropout=0.2)),
    Kind("label smoothing", loss=_smoothed),
    Kind("strong weight decay", optimiser=_decaying),
    Kind("checkpoints four times as far apart", saves=lambda step: step % (4 if step < 96 else 16) == 0),
    Kind("checkpoints four times as dense", saves=lambda step: step % (12 if step < 144 else 3) == 0),
    Kind("embeddings learn ten times as fast", optimiser=_groups),
    Kind("bfloat16 weights", dtype=torch.bfloat16),
    Kind("rate to 0", rate=lambda step: min(1.0, (step + 1) / 20) * (1 - step / STEPS)),
    Kind("mixture of experts, Trainer", tiny("MixtralConfig", "MixtralForCausalLM", num_key_value_heads=2,
         num_local_experts=4, num_experts_per_tok=1, intermediate_size=WIDTH), trainer=True),
    Kind("masked tokens, Trainer", tiny("BertConfig", "BertForMaskedLM", _masked), trainer=True),
    Kind("encoder and decoder, Trainer", tiny("T5Config", "T5ForConditionalGeneration", _to_second,
         d_model=WIDTH, d_kv=6, d_ff=4 * WIDTH, num_layers=LAYERS, num_heads=HEADS,
         decoder_start_token_id=0), trainer=True),
)  # fmt: skip
"""Fifteen healthy kinds."""

_ROTARY = {"num_key_value_heads": 2}
ARCHITECTURES: tuple[Kind, ...] = tuple(
    Kind(f"{name}, Trainer", tiny(f"{name}Config", f"{name}{head}", given, **settings), trainer=True)
    for name, head, given, settings in (
        (
            "GPT2",
            "LMHeadModel",
            None,
            {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 32},
        ),
        ("Llama", "ForCausalLM", None, _ROTARY),
        ("Qwen2", "ForCausalLM", None, _ROTARY),
        ("GPTNeoX", "ForCausalLM", None, {}),
        ("OPT", "ForCausalLM", None, {"ffn_dim": 4 * WIDTH, "word_embed_proj_dim": WIDTH}),
        ("Bloom", "ForCausalLM", None, {"n_layer": LAYERS, "n_head": HEADS}),
        ("Mistral", "ForCausalLM", None, _ROTARY),
        ("Gemma", "ForCausalLM", None, {**_ROTARY, "head_dim": 6}),
        ("Roberta", "ForMaskedLM", _masked, {"max_position_embeddings": 40}),
        ("Mamba", "ForCausalLM", None, {"state_size": 4}),
    )
)
"""Ten architectures of transformers."""

_OPTIMISERS: Mapping[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": partial(torch.optim.Adam, lr=3e-3),
    "Adamax": partial(torch.optim.Adamax, lr=5e-3),
    "NAdam": partial(torch.optim.NAdam, lr=3e-3),
    "RAdam": partial(torch.optim.RAdam, lr=3e-3),
    "Adagrad": partial(torch.optim.Adagrad, lr=2e-2),
    "Adadelta": partial(torch.optim.Adadelta, lr=1.0),
    "RMSprop": partial(torch.optim.RMSprop, lr=1e-3),
    "signs of averaged gradients (Lion)": Signs,
    "orthogonal updates (Muon)": Orthogonal,
    "Nesterov": partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
}


def _optimiser(of: Callable[[Any], torch.optim.Optimizer]) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda model: of(model.parameters())


OPTIMISERS: tuple[Kind, ...] = tuple(Kind(name, optimiser=_optimiser(of)) for name, of in _OPTIMISERS.items())
"""Ten optimisers other than AdamW."""


def _shrinks(run: Training) -> None:
    if run.late >= 0:
        run.weights()["tokens.weight"].mul_(3.0 ** (-1 / (10 * EVERY)))


def _held(name: str, block: tuple[slice, ...]) -> Callable[[Training], None]:
    """Return what puts a block of a matrix back where it was when the fault began."""

    def weights(run: Training) -> None:
        value = run.weights()[name]
        if run.late == -1:
            run.kept["block"] = value[block].clone()
        elif run.late >= 0:
            value[block] = run.kept["block"]

    return weights


def _head_held(run: Training) -> None:
    width = WIDTH // HEADS
    rows = [slice(part * WIDTH + width, part * WIDTH + 2 * width) for part in range(3)]
    blocks = [(_IN, (at,)) for at in rows] + [(_OUT, (slice(None), slice(width, 2 * width)))]
    for i, (name, block) in enumerate(blocks):
        value = run.weights()[name]
        if run.late == -1:
            run.kept[str(i)] = value[block].clone()
        elif run.late >= 0:
            value[block] = run.kept[str(i)]


def _repeated(run: Training) -> Batch:
    return next_tokens(windows(run.number, min(run.step, run.onset)))


def _leaking(run: Training) -> Batch:
    tokens, targets = next_tokens(windows(run.number, run.step))
    return (tokens, targets) if run.late < 0 else (tokens, tokens)


def _random(run: Training) -> Batch:
    tokens, targets = next_tokens(windows(run.number, run.step))
    if run.late >= 0:
        targets = torch.randint(
            0, VOCABULARY, targets.shape, generator=torch.Generator().manual_seed(run.step)
        )
    return tokens, targets


def _copied(run: Training) -> None:
    if run.late == 0:
        weights = run.weights()
        for name in [name for name in weights if ".layers.0." in name]:
            weights[name.replace(".layers.0.", ".layers.1.")].copy_(weights[name])


def _fast_layer(run: Training) -> None:
    for name, value in run.weights().items():
        if ".layers.1." in name:
            if run.late >= 0:
                value.add_(19.0 * (value - run.kept[name]))
            run.kept[name] = value.clone()


def _all_shrinks(run: Training) -> None:
    if run.late >= 0:
        for value in run.weights().values():
            if value.ndim > 1:
                value.mul_(1 - 0.012)


def _written(
    change: Callable[[State, Mapping[int, State]], None],
) -> Callable[[Training, State, Mapping[int, State]], State]:
    """Return a fault of the first file after the onset alone."""

    def file(run: Training, state: State, earlier: Mapping[int, State]) -> State:
        if 0 <= run.late < EVERY:
            change(state, earlier)
        return state

    return file


def _layers_exchanged(state: State, earlier: Mapping[int, State]) -> None:
    for name in [name for name in state if ".layers.0." in name]:
        other = name.replace(".layers.0.", ".layers.1.")
        state[name], state[other] = state[other], state[name]


def _transposed(state: State, earlier: Mapping[int, State]) -> None:
    state[_OUT] = state[_OUT].T.copy()


def _moved_by_one(state: State, earlier: Mapping[int, State]) -> None:
    state["tokens.weight"] = np.roll(state["tokens.weight"], 1, axis=0)


def _negated(state: State, earlier: Mapping[int, State]) -> None:
    state[_GAIN] = -state[_GAIN]


def _halved(state: State, earlier: Mapping[int, State]) -> None:
    state[_UP] = state[_UP] / 2


def _cut(state: State, earlier: Mapping[int, State]) -> None:
    state["head.weight"][-VOCABULARY // 4 :] = 0


def _stale(state: State, earlier: Mapping[int, State]) -> None:
    state |= {name: value.copy() for name, value in earlier[sorted(earlier)[-5]].items()}


FAULTS: tuple[Kind, ...] = tuple(
    replace(kind, begins_plainly=True)
    for kind in (
        Kind("an embedding falls to a third in ten checkpoints", weights=_shrinks),
        Kind("one batch again and again", batch=_repeated),
        Kind("the target is in the input", batch=_leaking),
        Kind("random targets", batch=_random),
        Kind("a head stands still", weights=_head_held),
        Kind("a quarter of the rows of a matrix stands still", weights=_held(_UP, (slice(0, WIDTH),))),
        Kind(
            "a quarter of the columns of a matrix stands still",
            weights=_held(_UP, (slice(None), slice(0, WIDTH // 4))),
        ),
        Kind("a layer is copied over another", weights=_copied),
        Kind("a layer moves twenty times as fast", weights=_fast_layer),
        Kind("all matrices shrink by 1.2% an update", weights=_all_shrinks),
        Kind("two layers are exchanged in a file", file=_written(_layers_exchanged)),
        Kind("a matrix is transposed in a file", file=_written(_transposed)),
        Kind("an embedding is moved by one row in a file", file=_written(_moved_by_one)),
        Kind("a gain is negated in a file", file=_written(_negated)),
        Kind("a matrix is halved in a file", file=_written(_halved)),
        Kind("the last quarter of the head is lost in a file", file=_written(_cut)),
        Kind("a file has the weights of five checkpoints before", file=_written(_stale)),
    )
)
"""Seventeen faults; each begins three updates after a checkpoint in the middle of the run."""
