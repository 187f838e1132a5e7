"""Folders of people who never heard of toposcope: what their trainer left there, and nothing else.

The trainers are real, as in `folders.py`. Where one is not installed, its log is written in the form that its
own code writes.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.trainers.folders import (
    BATCH,
    CONTEXT,
    EVERY,
    LAYERS,
    RATE,
    STEPS,
    VOCABULARY,
    WIDTH,
    by_trainer,
    gpt2,
    llama,
    records,
    sentences,
    updates,
)
from toposcope.core.seeding import rng

LONG = 120
"""The updates of a run whose log is long enough to be compared with its siblings or forecast."""


def five_seeds(folder: Path) -> Path:
    """Five seeds of transformers' Trainer in a folder each; seed4 has nine times the learning rate."""
    for seed in range(1, 6):
        by_trainer(
            folder / f"seed{seed}", gpt2(seed), rate=RATE * (9 if seed == 4 else 1), max_steps=LONG,
            save_steps=LONG // 3, seed=seed,
        )  # fmt: skip
    return folder


def unfinished(folder: Path) -> Path:
    """A run of transformers' Trainer that was interrupted at step 70 of 120; its last checkpoint is 60."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Interrupt(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if state.global_step == 70:
                raise KeyboardInterrupt

    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=LONG, save_steps=LONG // 6, logging_steps=EVERY, learning_rate=RATE,
        per_device_train_batch_size=BATCH, report_to=[], disable_tqdm=True, use_cpu=True, seed=1,
    )  # fmt: skip
    trainer = Trainer(model=gpt2(), args=arguments, train_dataset=records(), callbacks=[Interrupt()])
    try:
        trainer.train()
    except KeyboardInterrupt:
        return folder
    raise AssertionError("the run was to be interrupted")


def accelerate_logged(folder: Path) -> Path:
    """accelerate with its TensorBoard tracker beside the states that save_state wrote."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=str(folder))
    accelerator.init_trackers("clm", config={"learning_rate": RATE})
    model = gpt2()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=RATE))
    for step, loss in updates(model, optimizer):
        accelerator.log({"train_loss": loss}, step=step)
        if step in STEPS:
            accelerator.save_state(str(folder / f"step_{step}"))
    accelerator.end_training()
    return folder


def trl_grpo(folder: Path) -> Path:
    """TRL's GRPOTrainer, rewarded for even numbers: checkpoint-10, -20 and -30."""
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    words = Tokenizer(WordLevel({str(one): one for one in range(VOCABULARY)}, unk_token="0"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="0", pad_token="0", bos_token="0")

    def even(completions: list[str], **more: Any) -> list[float]:
        return [float(sum(int(word) % 2 == 0 for word in text.split())) for text in completions]

    prompts = [" ".join(map(str, row[:4])) for row in sentences(64).tolist()]
    arguments = GRPOConfig(
        output_dir=str(folder), max_steps=STEPS[-1], save_steps=STEPS[0], logging_steps=EVERY, bf16=False,
        learning_rate=RATE, per_device_train_batch_size=BATCH, num_generations=4, max_completion_length=8,
        report_to=[], disable_tqdm=True, use_cpu=True, seed=1,
    )  # fmt: skip
    GRPOTrainer(
        model=gpt2(), args=arguments, train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer, reward_funcs=even,
    ).train()  # fmt: skip
    return folder


def nanogpt(folder: Path) -> Path:
    """Train as nanoGPT's train.py does: iter 0 to max_iters, one ckpt.pt, and what it prints in train.log."""
    folder.mkdir(parents=True)
    model, held = gpt2(), sentences(32, "held")
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    args = {"n_layer": LAYERS, "n_head": 2, "n_embd": WIDTH, "block_size": CONTEXT, "bias": True,
            "vocab_size": VOCABULARY, "dropout": 0.0}  # fmt: skip
    last = STEPS[-1] - 1  # `updates` makes 30 of them, so the iterations are 0 to 29
    config = {"max_iters": last, "learning_rate": RATE, "batch_size": BATCH, "out_dir": str(folder)}
    lines = ["number of parameters: 0.03M", "using fused AdamW: False"]
    for step, loss in updates(model, optimizer):
        iteration = step - 1
        if iteration % STEPS[0] == 0 or iteration == last:
            with torch.no_grad():
                best = model(input_ids=held, labels=held).loss.item()
            lines.append(f"step {iteration}: train loss {loss:.4f}, val loss {best:.4f}")
            state = {
                "model": model.state_dict(), "optimizer": optimizer.state_dict(), "model_args": args,
                "iter_num": iteration, "best_val_loss": torch.tensor(best), "config": config,
            }  # fmt: skip
            torch.save(state, folder / "ckpt.pt")
            lines.append(f"saving checkpoint to {folder}")
        lines.append(f"iter {iteration}: loss {loss:.4f}, time {9 + step / 7:.2f}ms, mfu -100.00%")
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return folder


def torchtune(folder: Path) -> Path:
    """A folder as torchtune's recipes leave it: DiskLogger's text, and epoch_0 to epoch_2 as safetensors."""
    from safetensors.torch import save_file

    (folder / "logs").mkdir(parents=True)
    model = llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    lines = []
    for step, loss in updates(model, optimizer):
        lines.append(f"Step {step} | loss:{loss} lr:{RATE} tokens_per_second_per_gpu:{3120.5 + step} \n")
        if step in STEPS:
            place = folder / f"epoch_{STEPS.index(step)}"
            model.config.save_pretrained(place)
            weights = {name: value.contiguous() for name, value in model.state_dict().items()}
            save_file(weights, place / "model-00001-of-00001.safetensors", {"format": "pt"})
            listed = {"weight_map": dict.fromkeys(weights, "model-00001-of-00001.safetensors")}
            (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, **listed}))
    (folder / "logs" / "log_1764290000.txt").write_text("".join(lines))
    return folder


def installed(*packages: str) -> bool:
    """Return whether all of some packages can be imported."""
    return all(importlib.util.find_spec(one) is not None for one in packages)


def keras_csv(folder: Path) -> Path:
    """Keras' fit with CSVLogger and ModelCheckpoint; without Keras, the log that CSVLogger writes."""
    folder.mkdir(parents=True)
    if not installed("keras"):
        _falling(folder / "training.log", ("epoch", "accuracy", "loss", "val_accuracy", "val_loss"))
        return folder
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    keras.utils.set_random_seed(1)
    rows = sentences(256).numpy()
    layers = keras.layers
    model = keras.Sequential([
        layers.Input((CONTEXT - 1,)), layers.Embedding(VOCABULARY, WIDTH),
        layers.Dense(2 * WIDTH, activation="relu"), layers.Dense(VOCABULARY),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(RATE), loss=loss, metrics=["accuracy"])
    model.fit(
        rows[:, :-1], rows[:, 1:], epochs=12, batch_size=32, validation_split=0.25, verbose=0,
        callbacks=[
            keras.callbacks.CSVLogger(str(folder / "training.log")),
            keras.callbacks.ModelCheckpoint(str(folder / "model.{epoch:02d}.keras")),
        ],
    )  # fmt: skip
    return folder


def _falling(file: Path, names: tuple[str, ...], rows: int = 12) -> None:
    """Write a table whose losses fall and whose accuracies rise, a row for each epoch from 0 on."""
    noise = rng(name="trainers/falling").normal(0, 0.01, (rows, len(names)))
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(names)
        for epoch in range(rows):
            level = {"loss": 2 + 2 * np.exp(-epoch / 6), "accuracy": 0.3 - 0.25 * np.exp(-epoch / 6)}
            values = [
                level[name.removeprefix("val_")] + noise[epoch, at] for at, name in enumerate(names[1:])
            ]
            writer.writerow([epoch, *values])


def stable_baselines3(folder: Path) -> Path:
    """PPO of stable-baselines3 with its two loggers of files; without it, what these write."""
    folder.mkdir(parents=True)
    if not installed("stable_baselines3"):
        _policy(folder)
        return folder
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import CheckpointCallback
    from stable_baselines3.common.logger import configure

    model = PPO(
        "MlpPolicy", "CartPole-v1", n_steps=128, batch_size=64, seed=1, device="cpu",
        policy_kwargs={"net_arch": [32, 32]},
    )  # fmt: skip
    model.set_logger(configure(str(folder), ["csv", "log"]))
    model.learn(2560, callback=CheckpointCallback(512, str(folder)))
    model.logger.close()
    return folder


def _policy(folder: Path) -> None:
    """Write progress.csv and log.txt as stable-baselines3's loggers do; the first row has no loss."""
    draw = rng(name="trainers/policy")
    rows: list[dict[str, Any]] = []
    for n in range(1, 21):
        row = {
            "rollout/ep_len_mean": 19.0 + n, "rollout/ep_rew_mean": 19.0 + n, "time/fps": 1000,
            "time/iterations": n, "time/time_elapsed": n // 4, "time/total_timesteps": 128 * n,
        }  # fmt: skip
        if n > 1:
            row |= {
                "train/approx_kl": draw.uniform(1e-4, 1e-3), "train/clip_fraction": 0.0,
                "train/clip_range": 0.2, "train/entropy_loss": -0.69 + 0.002 * n,
                "train/explained_variance": 0.01 * n, "train/learning_rate": 3e-4,
                "train/loss": draw.uniform(25, 35), "train/n_updates": 10 * (n - 1),
                "train/policy_gradient_loss": draw.normal(-3e-3, 1e-3),
                "train/value_loss": draw.uniform(55, 75),
            }  # fmt: skip
        rows.append(row)
    names = list(rows[-1])
    with (folder / "progress.csv").open("w", newline="") as opened:
        writer = csv.DictWriter(opened, names)
        writer.writeheader()
        writer.writerows(rows)
    (folder / "log.txt").write_text("".join(map(_box, rows)))


def _box(row: dict[str, Any]) -> str:
    """Return a row as HumanOutputFormat draws it: a box whose keys stand below their group."""
    lines, group = [], ""
    for name, value in row.items():
        front, _, key = name.partition("/")
        if front != group:
            group = front
            lines.append(f"| {front + '/':<24} |            |")
        shown = f"{value:<10.3g}" if isinstance(value, float) else f"{value:<10}"
        lines.append(f"|    {key:<21} | {shown} |")
    rule = "-" * len(lines[0])
    return "\n".join([rule, *lines, rule, ""])
