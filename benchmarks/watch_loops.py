"""Two training loops that are not toposcope's: plain torch with its own layers, and transformers' Trainer.

Both call a kind (`benchmarks.watch_kinds`) at the same places, and return checkpoints and log as arrays.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.planted_plan import texts
from toposcope.core.seeding import rng, seed_of

STEPS, EVERY = 240, 8
"""Updates of a run, and from one checkpoint to the next."""
CONTEXT, BATCH, VOCABULARY, WIDTH, HEADS, LAYERS = 24, 8, 64, 24, 4, 2

State = dict[str, np.ndarray]
Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass
class Training:
    """A run while it trains, as a kind sees it: `onset` is the update before which a fault begins."""

    number: int
    model: nn.Module
    step: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    """What a kind remembers from one update to the next."""

    @property
    def onset(self) -> int:
        """Three updates after a checkpoint between 45% and 65% of the run."""
        share = rng(run=self.number, what="watch kinds/when").uniform(0.45, 0.65)
        return int(share * STEPS) // EVERY * EVERY + 3

    @property
    def late(self) -> int:
        """Updates since the fault began; below 0 before."""
        return self.step - self.onset

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the parameters by name."""
        return dict(self.model.named_parameters())


Hook = Callable[[Training], None]


@dataclass(frozen=True)
class Kind:
    """One kind of run: what differs from a plain one.

    `model(number)` makes the model, `optimiser(model)` its optimiser, `rate(step)` the share of the peak
    rate, `batch(training)` a batch of tokens and targets. `gradients` and `weights` are called before and
    after each update, `file` changes a checkpoint as it is written (with those before it), `saves(step)` says
    at which updates there is one. `trainer` runs it in transformers' Trainer.
    """

    name: str
    model: Callable[[int], nn.Module] | None = None
    optimiser: Callable[[nn.Module], torch.optim.Optimizer] | None = None
    rate: Callable[[int], float] | None = None
    batch: Callable[[Training], Batch] | None = None
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    gradients: Hook | None = None
    weights: Hook | None = None
    file: Callable[[Training, State, Mapping[int, State]], State] | None = None
    saves: Callable[[int], bool] = lambda step: step % EVERY == 0
    trainer: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the Trainer."""
    peak: float = 3e-3
    dtype: torch.dtype = torch.float32
    begins_plainly: bool = False
    """Whether it is a plain run up to two updates before the onset, which is then trained once."""


class PlainModel(nn.Module):
    """A causal language model of torch's own layers, whose names and fused attention are torch's."""

    def __init__(self, *, dropout: float = 0.0, first: float = 0.02) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for one in self.parameters():
            if one.ndim > 1:
                nn.init.normal_(one, std=first)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        length = tokens.shape[1]
        hidden = self.tokens(tokens) + self.positions.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=hidden.dtype)
        return self.head(self.body(hidden, mask=mask, is_causal=True))


def windows(number: int, step: int, *, size: int = BATCH, length: int = CONTEXT) -> np.ndarray:
    """Return the tokens of the batch of an update, int64 of shape (size, length + 1)."""
    one, _ = texts()
    at = rng(run=number, what=f"watch kinds/{step}").integers(0, len(one) - length - 1, size)
    return np.stack([one[i : i + length + 1] for i in at])


def next_tokens(tokens: np.ndarray) -> Batch:
    """Return inputs and the targets one place later."""
    return torch.from_numpy(tokens[:, :-1]), torch.from_numpy(tokens[:, 1:])


def usual_rate(step: int) -> float:
    """Return warm-up over 20 updates, then a cosine to a tenth."""
    part = min(1.0, step / STEPS)
    return min(1.0, (step + 1) / 20) * (0.55 + 0.45 * np.cos(np.pi * part))


@dataclass
class Trained:
    """Checkpoints by step, and a row of the log for each update."""

    states: dict[int, State]
    log: list[dict[str, float]]
    onset: int
    config: Mapping[str, object]


def trained(kind: Kind, number: int) -> Trained:
    """Train one run of a kind; its number decides everything else."""
    torch.manual_seed(seed_of(run=number, what="watch kinds/model") % 2**31)
    return _with_trainer(kind, number) if kind.trainer else _plainly(kind, number)


@dataclass
class _Begun:
    """The plain run of a number up to two updates before the onset: what all faults of that number share."""

    model: dict[str, Any]
    optimiser: dict[str, Any]
    made: Trained


_BEGUN: dict[int, _Begun] = {}


def _plainly(kind: Kind, number: int) -> Trained:
    model = (kind.model(number) if kind.model else PlainModel()).to(kind.dtype)
    optimiser = (kind.optimiser or _usual_optimiser)(model)
    run = Training(number, model)
    made = Trained({}, [], run.onset, {"num_attention_heads": HEADS})
    peak = [group["lr"] for group in optimiser.param_groups]
    if kind.begins_plainly and number in _BEGUN:
        begun = _BEGUN[number]
        model.load_state_dict(begun.model)
        optimiser.load_state_dict(copy.deepcopy(begun.optimiser))
        made = Trained(dict(begun.made.states), list(begun.made.log), run.onset, made.config)
    else:
        _save(kind, run, made)
    for step in range(len(made.log), STEPS):
        if kind.begins_plainly and step == run.onset - 2 and number not in _BEGUN:
            kept = Trained(dict(made.states), list(made.log), run.onset, made.config)
            _BEGUN[number] = _Begun(
                copy.deepcopy(model.state_dict()), copy.deepcopy(optimiser.state_dict()), kept
            )
        run.step = step
        _update(kind, run, optimiser, peak, made)
    return made


def _usual_optimiser(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.1)


def _update(
    kind: Kind, run: Training, optimiser: torch.optim.Optimizer, peak: Sequence[float], made: Trained
) -> None:
    share = (kind.rate or usual_rate)(run.step)
    for group, rate in zip(optimiser.param_groups, peak, strict=True):
        group["lr"] = rate * share
    tokens, targets = kind.batch(run) if kind.batch else next_tokens(windows(run.number, run.step))
    loss = (kind.loss or _cross_entropy)(run.model(tokens), targets)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    if kind.gradients:
        kind.gradients(run)
    norm = nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    optimiser.step()
    if kind.weights:
        with torch.no_grad():
            kind.weights(run)
    row = {"loss": loss.item(), "grad_norm": norm.item(), "learning_rate": peak[0] * share}
    made.log.append({"step": run.step, **row})
    run.step += 1
    _save(kind, run, made)


def _cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def _save(kind: Kind, run: Training, made: Trained) -> None:
    if not kind.saves(run.step):
        return
    seen, state = set(), {}
    for name, value in run.model.state_dict().items():
        if value.data_ptr() not in seen and value.is_floating_point():
            state[name] = value.detach().float().numpy().copy()
        seen.add(value.data_ptr())
    made.states[run.step] = kind.file(run, state, made.states) if kind.file else state


class _Batches(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    def __init__(
        self, kind: Kind, run: Training, given: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    ) -> None:
        self.kind, self.run, self.given = kind, run, given

    def __iter__(self) -> Iterator[Mapping[str, np.ndarray]]:
        for step in range(100 * STEPS):
            self.run.kept["asked"] = step
            for row in windows(self.run.number, step):
                yield self.given(row)


def causal(row: np.ndarray) -> Mapping[str, np.ndarray]:
    """Return what a causal model of transformers takes."""
    return {"input_ids": row[:CONTEXT], "labels": row[:CONTEXT]}


def _with_trainer(kind: Kind, number: int) -> Trained:
    import tempfile

    import transformers

    transformers.logging.set_verbosity_error()
    assert kind.model is not None
    model = kind.model(number)
    run = Training(number, model)
    made = Trained({}, [], run.onset, model.config.to_dict())
    _save(kind, run, made)

    class Observer(transformers.TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            if kind.gradients:
                kind.gradients(run)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if kind.weights:
                with torch.no_grad():
                    kind.weights(run)
            run.step = state.global_step
            _save(kind, run, made)

        def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float], **_: Any) -> None:
            if "loss" in logs:
                row = {name: logs[name] for name in ("loss", "grad_norm", "learning_rate")}
                made.log.append({"step": state.global_step - 1, **row})

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, **{
                "max_steps": STEPS, "per_device_train_batch_size": BATCH, "learning_rate": kind.peak,
                "warmup_steps": 20, "lr_scheduler_type": "cosine", "logging_steps": 1,
                "save_strategy": "no", "report_to": [],
                "use_cpu": True, "disable_tqdm": True, "seed": number, **kind.arguments,
            },
        )  # fmt: skip
        given = run.kept.get("given") or getattr(model, "given", causal)
        trainer = transformers.Trainer(
            model, arguments, train_dataset=_Batches(kind, run, given), callbacks=[Observer()]
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return made
