"""Small real folders, as trainers write them: two layers of width 32, trained for 30 updates.

Each function trains and saves with the trainer's own code. No model and no text is downloaded.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from toposcope.core.seeding import rng

VOCABULARY, CONTEXT, WIDTH, LAYERS, BATCH = 48, 16, 32, 2, 8
STEPS = (10, 20, 30)
"""The updates after which a checkpoint is saved; the plan is the last of them."""
EVERY = 2
"""Updates from one logged loss to the next."""
RATE = 3e-3


def sentences(count: int, name: str = "text") -> torch.Tensor:
    """Return sequences of a random language in which each token has four likely successors."""
    after = rng(name="trainers/language").integers(0, VOCABULARY, size=(VOCABULARY, 4))
    draw = rng(name=f"trainers/{name}")
    rows = np.empty((count, CONTEXT), np.int64)
    rows[:, 0] = draw.integers(0, VOCABULARY, count)
    for at in range(1, CONTEXT):
        rows[:, at] = after[rows[:, at - 1], draw.integers(0, 4, count)]
    return torch.from_numpy(rows)


def records(count: int = 64) -> list[dict[str, torch.Tensor]]:
    """Return sequences as transformers' Trainer reads them."""
    return [{"input_ids": row, "labels": row} for row in sentences(count)]


def gpt2(seed: int = 0) -> Any:
    """Return a GPT-2 with first weights of its own."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=2,
            bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip


def llama(seed: int = 0) -> Any:
    """Return a Llama with first weights of its own."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS,
            num_attention_heads=2, num_key_value_heads=2, bos_token_id=0, eos_token_id=0,
            max_position_embeddings=CONTEXT,
        )
    )  # fmt: skip


def by_trainer(folder: Path, model: Any = None, *, rate: float = RATE, **changed: Any) -> Path:
    """Train with transformers' Trainer: checkpoint-10, -20 and -30, with their trainer_state.json."""
    from transformers import Trainer, TrainingArguments

    settings = {
        "output_dir": str(folder), "max_steps": STEPS[-1], "save_steps": STEPS[0], "logging_steps": EVERY,
        "learning_rate": rate, "per_device_train_batch_size": BATCH, "report_to": [], "disable_tqdm": True,
        "use_cpu": True, "seed": 1,
    }  # fmt: skip
    arguments = TrainingArguments(**(settings | changed))
    Trainer(model=model or gpt2(), args=arguments, train_dataset=records()).train()
    return folder


def adapted(folder: Path, model: Any, config: Any) -> tuple[Path, Path]:
    """Save a base, train an adapter on it with transformers' Trainer; return the folders of both."""
    from peft import get_peft_model

    base = folder / "base"
    model.save_pretrained(base)
    model.name_or_path = str(base)
    return base, by_trainer(folder / "run", get_peft_model(model, config))


def by_lightning(folder: Path) -> Path:
    """Train with Lightning: .ckpt files beside the metrics.csv of its CSVLogger."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.save_hyperparameters({"learning_rate": RATE})
            self.model = gpt2()

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            loss = self.model(input_ids=batch[0], labels=batch[0]).loss
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=RATE)

    trainer = lightning.Trainer(
        default_root_dir=folder, max_steps=STEPS[-1], accelerator="cpu", log_every_n_steps=EVERY,
        callbacks=[ModelCheckpoint(every_n_train_steps=STEPS[0], save_top_k=-1)],
        logger=CSVLogger(folder, flush_logs_every_n_steps=EVERY),
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    rows = torch.utils.data.TensorDataset(sentences(64))
    trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=BATCH))
    return folder


def updates(model: Any, optimizer: torch.optim.Optimizer) -> Iterator[tuple[int, float]]:
    """Train a model by a plain loop; yield the number of updates and the loss before each."""
    data, draw = sentences(64), rng(name="trainers/batches")
    for step in itertools.count(1):
        rows = data[torch.from_numpy(draw.integers(0, len(data), BATCH))]
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield step, loss.item()
        if step == STEPS[-1]:
            return


def by_accelerate(folder: Path) -> Path:
    """Train with accelerate, whose save_state writes folders step_10, step_20 and step_30."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = gpt2()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=RATE))
    for step, _ in updates(model, optimizer):
        if step in STEPS:
            accelerator.save_state(str(folder / f"step_{step}"))
    return folder


@contextlib.contextmanager
def _one_process() -> Iterator[None]:
    """Let torch.distributed.checkpoint work without a group of processes, which it warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*single process", category=UserWarning)
        yield


def by_distributed(folder: Path) -> Path:
    """Save the model and the optimizer with torch.distributed.checkpoint: step-10, step-20 and step-30."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for step, _ in updates(model, optimizer):
        if step in STEPS:
            weights, moments = get_state_dict(model, optimizer)
            with _one_process():
                state = {"model": weights, "optimizer": moments}
                dcp.save(state, checkpoint_id=folder / f"step-{step}", no_dist=True)
    return folder


def by_loop(folder: Path, name: str = "ckpt_{step}.pt") -> Path:
    """Save as nanoGPT's train.py does: a file with model, optimizer, config, iter_num and best_val_loss."""
    folder.mkdir(parents=True, exist_ok=True)
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    args = {"n_layer": LAYERS, "n_head": 2, "n_embd": WIDTH, "block_size": CONTEXT, "vocab_size": VOCABULARY}
    config = {"max_iters": STEPS[-1], "learning_rate": RATE, "batch_size": BATCH, "eval_interval": STEPS[0]}
    best = float("inf")
    for step, loss in updates(model, optimizer):
        if step in STEPS:
            best = min(best, loss)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "model_args": args,
                     "iter_num": step, "best_val_loss": torch.tensor(best), "config": config}  # fmt: skip
            torch.save(state, folder / name.format(step=step))
    return folder


Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


def rewrite(place: Path, change: Change) -> None:
    """Change the tensors of one checkpoint, whatever its format, and leave the rest of it as it is."""
    from safetensors.torch import load_file, save_file

    if (place / ".metadata").exists():
        _rewrite_distributed(place, change)
    elif place.suffix in (".pt", ".ckpt"):
        held = torch.load(place, weights_only=False)
        key = "state_dict" if "state_dict" in held else "model"
        torch.save(held | {key: change(dict(held[key]))}, place)
    else:
        (file,) = place.glob("*.safetensors")
        save_file({k: v.contiguous() for k, v in change(load_file(file)).items()}, file, {"format": "pt"})


def _rewrite_distributed(place: Path, change: Change) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    entries = FileSystemReader(place).read_metadata().state_dict_metadata
    state = {
        name: torch.empty(one.size, dtype=one.properties.dtype) if hasattr(one, "size") else 0
        for name, one in entries.items()
    }
    with _one_process():
        dcp.load(state, checkpoint_id=place, no_dist=True)
        model = {name: value for name, value in state.items() if name.startswith("model.")}
        changed = change({name.removeprefix("model."): value for name, value in model.items()})
        rest = {name: value for name, value in state.items() if name not in model}
        shutil.rmtree(place)
        dcp.save({"model": changed, **rest}, checkpoint_id=place, no_dist=True)


def scaled(name: str, factor: float = 100.0) -> Change:
    """Return the change that multiplies the tensor whose name ends so."""

    def change(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        (full,) = [one for one in tensors if one.endswith(name)]
        return tensors | {full: factor * tensors[full]}

    return change


def wrapped(prefix: str, after: str = "") -> Change:
    """Return the change that puts a wrapper's prefix before each name, after a first part that stays."""

    def change(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {after + prefix + name.removeprefix(after): value for name, value in tensors.items()}

    return change


def by_trl(folder: Path) -> Path:
    """Train with TRL's SFTTrainer on token ids: checkpoint-10, -20 and -30, as transformers writes them."""
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    words = WordLevel({str(one): one for one in range(VOCABULARY)}, unk_token="0")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), eos_token="0", pad_token="0")
    rows = Dataset.from_dict({"input_ids": sentences(64).tolist()})
    arguments = SFTConfig(
        output_dir=str(folder), max_steps=STEPS[-1], save_steps=STEPS[0], logging_steps=EVERY, bf16=False,
        learning_rate=RATE, per_device_train_batch_size=BATCH, report_to=[], disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    SFTTrainer(model=gpt2(), args=arguments, train_dataset=rows, processing_class=tokenizer).train()
    return folder
