"""Small GPT-NeoX models, of the class in transformers and trained from scratch, as a series of model folders.

They replace a published series if none can be fetched: the same class, initialisation and kind of schedule as
the Pythia models, with log-spaced checkpoints, at a size that trains on two cores.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.core.progress import Progress
from toposcope.core.seeding import seed_of
from toposcope.core.wording import option
from toposcope.sources.layout import write_aside
from toposcope.training.corpus import Corpus
from toposcope.training.tokens import batch, heldout_batches

if TYPE_CHECKING:
    import torch

_STATE = "resume.pt"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoxShape:
    """One model of the family: hidden width, blocks, heads."""

    name: str
    width: int
    layers: int
    heads: int


SHAPES = (
    NeoxShape(name="neox-48x2", width=48, layers=2, heads=4),
    NeoxShape(name="neox-80x3", width=80, layers=3, heads=4),
    NeoxShape(name="neox-128x4", width=128, layers=4, heads=8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoxPlan:
    """How the family is trained: AdamW, linear warm-up, cosine decay to a tenth, clipped gradients."""

    vocabulary: int = 2048
    context: int = 256
    length: int = 256
    batch_size: int = 8
    steps: int = 3000
    learning_rate: float = 2e-3
    warmup: int = 30
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 42

    def checkpoints(self) -> list[int]:
        """Return 0, the powers of two up to 512, then round numbers, and the last step.

        >>> NeoxPlan(steps=3000).checkpoints()[-4:]
        [512, 1000, 2000, 3000]
        """
        early = [0, *(2**k for k in range(10)), 1000, 2000, 5000, 10000, 20000, 50000]
        return [step for step in early if step < self.steps] + [self.steps]

    def rate(self, step: int) -> float:
        """Return the learning rate of the update that follows `step`."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (0.1 + 0.45 * (1.0 + math.cos(math.pi * min(1.0, done))))


def train_neox(shape: NeoxShape, corpus: Corpus, out: Path, plan: NeoxPlan, *, quiet: bool = False) -> Path:
    """Train one model into `out`/NAME-seedSEED/stepN folders and return the series' folder.

    Each folder holds `config.json`, `model.safetensors`, the tokenizer and a `trainer_state.json` with the
    losses so far. A killed training continues from its last checkpoint; a finished one is not changed.

    Raises
    ------
    InputError
        When the folder was trained with another plan, or the corpus is shorter than one batch.
    """
    import torch

    folder = out / f"{shape.name}-seed{plan.seed}"
    _check_plan(folder, shape, plan, corpus)
    steps = plan.checkpoints()
    if (folder / f"step{plan.steps}" / "config.json").is_file():
        return folder
    tokenizer = _tokenizer(corpus, plan)
    train = np.array(tokenizer(corpus.train)["input_ids"], dtype=np.int64)
    held = np.array(tokenizer(corpus.heldout)["input_ids"], dtype=np.int64)
    if min(len(train), len(held)) <= plan.length + 1:
        raise InputError(
            f"corpus {corpus.name} is too small: one part has only {min(len(train), len(held)):,} tokens; "
            "give a longer text"
        )
    fixed = torch.from_numpy(heldout_batches(held, count=4, size=plan.batch_size, context=plan.length))
    trainer = _Trainer(shape, plan, folder)
    with Progress(f"training {folder.name}", plan.steps, quiet=quiet) as progress:
        progress.advance(trainer.step)
        if trainer.step == 0 and not trainer.log:
            trainer.save(tokenizer, fixed)
        for step in range(trainer.step, plan.steps):
            windows = batch(train, seed=plan.seed, step=step, size=plan.batch_size, context=plan.length)
            trainer.update(torch.from_numpy(windows))
            progress.advance()
            if trainer.step in steps:
                trainer.save(tokenizer, fixed)
    (folder / _STATE).unlink(missing_ok=True)
    return folder


def _check_plan(folder: Path, shape: NeoxShape, plan: NeoxPlan, corpus: Corpus) -> None:
    wanted = {**_fields(shape), **_fields(plan), "corpus_sha256": corpus.sha256}
    path = folder / "plan.json"
    if path.is_file():
        if json.loads(path.read_text()) != wanted:
            raise InputError(
                f"{folder} was trained with another plan or corpus; choose another {option('out')}"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_aside(path, lambda aside: aside.write_text(json.dumps(wanted, indent=1)))


def _fields(record: NeoxShape | NeoxPlan) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


class _Trainer:
    """A model, its optimiser and its log; takes steps and writes checkpoints."""

    def __init__(self, shape: NeoxShape, plan: NeoxPlan, folder: Path) -> None:
        import torch

        self.plan, self.folder, self.step = plan, folder, 0
        self.log: list[dict[str, float]] = []
        self.model = new_model(shape, plan)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=plan.weight_decay
        )
        state = folder / _STATE
        if state.is_file():
            saved = torch.load(state, weights_only=True, map_location="cpu")
            self.model.load_state_dict(saved["model"])
            self.optimiser.load_state_dict(saved["optimiser"])
            self.step, self.log = saved["step"], saved["log"]

    def update(self, windows: torch.Tensor) -> None:
        """Take one optimiser step on windows of (batch, length + 1) tokens."""
        import torch

        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.rate(self.step)
        loss = _loss(self.model, windows)
        self.optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.clip)
        self.optimiser.step()
        self.step += 1
        entry = {"step": self.step, "loss": float(loss.detach()), "grad_norm": float(norm)}
        self.log.append({**entry, "learning_rate": self.plan.rate(self.step - 1)})

    def save(self, tokenizer: Any, fixed: torch.Tensor) -> None:
        """Write the model folder of this step, then what is needed to continue from it."""
        import torch

        with torch.no_grad():
            heldout = sum(float(_loss(self.model, windows)) for windows in fixed) / len(fixed)
        self.log.append({"step": self.step, "eval_loss": heldout})
        folder = self.folder / f"step{self.step}"
        self.model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        per_step = self.plan.batch_size * self.plan.length
        history = {"global_step": self.step, "num_input_tokens_seen": self.step * per_step}
        text = json.dumps({**history, "log_history": self.log})
        write_aside(folder / "trainer_state.json", lambda aside: aside.write_text(text))
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "log": self.log,
        }
        write_aside(self.folder / _STATE, lambda aside: torch.save(state, aside))


def _loss(model: Any, windows: torch.Tensor) -> torch.Tensor:
    from torch.nn.functional import cross_entropy

    logits = model(windows[:, :-1]).logits
    return cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())


def new_model(shape: NeoxShape, plan: NeoxPlan) -> Any:
    """Return a GPT-NeoX model with Pythia's random initialisation.

    Weights are normal with standard deviation sqrt(2 / (5 d)), or 2 / (L sqrt d) in the layers that write to
    the residual stream; biases are 0 (the "small" and "wang" initialisations of GPT-NeoX).
    """
    import torch

    try:
        from transformers import GPTNeoXConfig, GPTNeoXForCausalLM
        from transformers.utils import logging as transformers_logging
    except ImportError as error:
        raise MissingExtraError("transformers", "hf") from error
    transformers_logging.disable_progress_bar()
    config = GPTNeoXConfig(
        vocab_size=plan.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        max_position_embeddings=plan.context,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(seed_of(name="init", model=shape.name, seed=plan.seed) % 2**63)
    model = GPTNeoXForCausalLM(config)
    small, wang = math.sqrt(2.0 / (5.0 * shape.width)), 2.0 / (shape.layers * math.sqrt(shape.width))
    with torch.no_grad():
        for name, parameter in _matrices(model):
            writes = name.endswith(("attention.dense.weight", "dense_4h_to_h.weight"))
            parameter.normal_(0.0, wang if writes else small)
    return model


def _matrices(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            yield name, parameter
        elif name.endswith(".bias"):
            parameter.data.zero_()


def _tokenizer(corpus: Corpus, plan: NeoxPlan) -> Any:
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingExtraError("transformers", "hf") from error
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=plan.vocabulary,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus.train.splitlines(keepends=True), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
