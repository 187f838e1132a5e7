"""Plant faults of a training's state, and count which are named and which sound checkpoints are accused.

Small GPT-2s (2 layers, width 16 or 32) are trained with the real writers: transformers' Trainer, Lightning,
and PyTorch's distributed checkpoint with the keys of torchtitan. DeepSpeed, Megatron-LM and nanotron are
written by their specification (`state_writers`), Orbax by itself. Twelve kinds of faults are planted ten
times in the newest checkpoint of each. The clean cases are every checkpoint from the second on of 25 runs,
each as the newest, so four of them share a run.

    python -m benchmarks.resume_faults FORMAT [RUNS [CASES]]

FORMAT is transformers, lightning, dcp, deepspeed, megatron, torch_dist, nanotron or orbax. Orbax keeps no
masters and no loader's position: ten kinds are planted there.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import pickle
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import state_writers
from toposcope.core.seeding import rng
from toposcope.sources import open_series
from toposcope.sources.audit import audited
from toposcope.sources.optimizer.resumption import Resumption

EVERY, LAST = 10, 50
FORMATS = ("transformers", "lightning", "dcp")
SPECIFIED = ("deepspeed", "megatron", "torch_dist", "nanotron", "orbax")
"""Formats that `state_writers` writes: one training, in the form of each."""
NOT_PLANTED = {"orbax": {"masters unlike weights", "loader restarted"}}

NAMED = {
    "moments zeroed": {"moments-zero"},
    "half zeroed": {"moments-zero"},
    "moments of another step": {"moments-of-another-step"},
    "swapped between equal shapes": {"moments-swapped"},
    "NaN": {"moments-not-finite"},
    "missing for a tenth": {"moments-missing"},
    "step 0": {"updates-of-optimizer"},
    "schedule restarted": {"schedule-of-another-step"},
    "loader restarted": {"data-begun-anew"},
    "a shard of another step": {"shard-of-another-step"},
    "masters unlike weights": {"masters-unlike-weights"},
    "newest tensor scaled": {"rescaled-tensor", "replaced-tensor", "jump"},
}
"""Each kind of fault, and the kinds of findings that name it right."""


class Mastered(torch.optim.AdamW):
    """AdamW that keeps a copy of the weights in full precision, as Apex and Transformer Engine do."""

    def step(self, closure: Any = None) -> Any:
        """Make an update and keep the copies."""
        loss = super().step(closure)
        for group in self.param_groups:
            for one in group["params"]:
                self.state[one]["master_param"] = one.detach().float().clone()
        return loss


@dataclass
class Parts:
    """One checkpoint, unpacked: weights by name, the optimiser's state, the schedule, and all the rest."""

    weights: dict[str, torch.Tensor]
    state: dict[Any, dict[str, Any]]
    schedule: dict[str, Any]
    rest: dict[str, Any] = field(default_factory=dict)


def model_of(seed: int) -> tuple[torch.nn.Module, torch.Tensor, float]:
    """Return a small model, its data and its learning rate."""
    from transformers import GPT2Config, GPT2LMHeadModel

    width = (16, 32)[seed % 2]
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=width, n_head=2, vocab_size=48, n_positions=16))
    return model, torch.randint(0, 48, (64, 12)), (3e-4, 1e-3, 3e-3)[seed % 3]


def optimizer_of(model: torch.nn.Module, rate: float, seed: int) -> torch.optim.Optimizer:
    """Return AdamW with two groups; every second run keeps masters."""
    kind = Mastered if seed % 2 else torch.optim.AdamW
    decayed = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    betas = ((0.9, 0.999), (0.9, 0.95))[seed // 2 % 2]
    return kind(groups, lr=rate, betas=betas)


def schedule_of(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    """Return a warm-up and a linear decay."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 5, 1 - step / (LAST + 1))
    )


def train_transformers(folder: Path, seed: int) -> None:
    """Train with transformers' Trainer."""
    from transformers import Trainer, TrainingArguments

    model, data, rate = model_of(seed)
    optimizer = optimizer_of(model, rate, seed)
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=LAST, save_steps=EVERY, per_device_train_batch_size=8, report_to=[],
        use_cpu=True, disable_tqdm=True, logging_steps=EVERY, seed=seed, learning_rate=rate,
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for row in data]
    Trainer(model, arguments, train_dataset=rows, optimizers=(optimizer, schedule_of(optimizer))).train()


def train_lightning(folder: Path, seed: int) -> None:
    """Train with Lightning's Trainer."""
    import lightning

    model, data, rate = model_of(seed)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any, index: int) -> Any:
            return self.model(batch[0], labels=batch[0]).loss

        def configure_optimizers(self) -> Any:
            optimizer = optimizer_of(model, rate, seed)
            plan = {"scheduler": schedule_of(optimizer), "interval": "step"}
            return {"optimizer": optimizer, "lr_scheduler": plan}

    keep = lightning.pytorch.callbacks.ModelCheckpoint(
        str(folder), filename="{step}", every_n_train_steps=EVERY, save_top_k=-1
    )
    trainer = lightning.Trainer(
        max_steps=LAST, accelerator="cpu", logger=False, callbacks=[keep], enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    rows = torch.utils.data.TensorDataset(data)
    trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True, num_workers=0))


def train_dcp(folder: Path, seed: int) -> None:
    """Train with a loop and save with PyTorch's distributed checkpoint."""
    from torch.distributed.checkpoint import state_dict as states

    model, data, rate = model_of(seed)
    optimizer = optimizer_of(model, rate, seed)
    schedule = schedule_of(optimizer)
    options = states.StateDictOptions(flatten_optimizer_state_dict=seed % 3 == 0)
    for step in range(1, LAST + 1):
        rows = data[torch.randint(0, len(data), (8,))]
        optimizer.zero_grad()
        model(rows, labels=rows).loss.backward()
        optimizer.step()
        schedule.step()
        if step % EVERY == 0:
            tree = {
                "model": states.get_model_state_dict(model),
                "optimizer": states.get_optimizer_state_dict(model, optimizer, options=options),
                "lr_scheduler": schedule.state_dict(),
                "dataloader": {"dp_rank_0": pickle.dumps({"_num_yielded": step}), "world_size": 1},
                "train_state": {"step": torch.tensor(step)},
            }
            write_dcp(folder / f"step-{step}", tree)


def train_specified(form: str) -> Callable[[Path, int], None]:
    """Return a loop that writes the form of a writer; every run keeps masters."""

    def train(folder: Path, seed: int) -> None:
        model, data, rate = model_of(seed)
        optimizer = optimizer_of(model, rate, 2 * (seed // 2) + 1)
        names = {one: name for name, one in model.named_parameters()}
        groups = [[names[one] for one in group["params"]] for group in optimizer.param_groups]
        for step in range(1, LAST + 1):
            rows = data[torch.randint(0, len(data), (8,))]
            optimizer.zero_grad()
            model(rows, labels=rows).loss.backward()
            optimizer.step()
            if step % EVERY == 0:
                state = {name: {field: value.clone() for field, value in optimizer.state[one].items()}
                         for one, name in names.items()}  # fmt: skip
                weights = {name: one.detach().clone() for one, name in names.items()}
                betas = optimizer.param_groups[0]["betas"]
                training = state_writers.Training(step, weights, state, groups, betas, rate, step, 8 * step)
                write_specified(form, folder / PLACES[form].format(step), training)

    return train


def write_specified(form: str, place: Path, training: state_writers.Training) -> None:
    """Write a checkpoint in the form of a writer, and its content aside, from which faults are planted."""
    getattr(state_writers, form)(place, training)
    aside = place.parent.parent / "aside"
    aside.mkdir(exist_ok=True)
    torch.save(dataclasses.asdict(training), aside / f"{place.name}.pt")


def write_dcp(place: Path, tree: dict[str, Any]) -> None:
    """Write a distributed checkpoint, and the same as one file aside, from which faults are planted."""
    import torch.distributed.checkpoint as dcp

    shutil.rmtree(place, ignore_errors=True)
    dcp.save(dict(tree), checkpoint_id=place, no_dist=True)
    aside = place.parent.parent / "aside"
    aside.mkdir(exist_ok=True)
    torch.save(tree, aside / f"{place.name}.pt")


PLACES = {"transformers": "checkpoint-{}", "lightning": "step={}.ckpt", "dcp": "step-{}",
          "deepspeed": "global_step{}", "megatron": "iter_{:07d}", "torch_dist": "iter_{:07d}",
          "nanotron": "{}", "orbax": "{}"}  # fmt: skip


def places(form: str, folder: Path) -> list[Path]:
    """Return the checkpoints of a run by step."""
    every = [folder / PLACES[form].format(step) for step in range(EVERY, LAST + 1, EVERY)]
    return [one for one in every if one.exists()]


def load(form: str, place: Path) -> Parts:
    """Unpack a checkpoint."""
    if form in SPECIFIED:
        kept = torch.load(place.parent.parent / "aside" / f"{place.name}.pt", weights_only=False)
        return Parts(kept["weights"], kept["state"], {"last_epoch": kept["schedule"]}, kept)
    if form == "transformers":
        from safetensors.torch import load_file

        optimizer = torch.load(place / "optimizer.pt", weights_only=False)
        schedule = torch.load(place / "scheduler.pt", weights_only=False)
        weights = load_file(place / "model.safetensors")
        return Parts(weights, optimizer["state"], schedule, {"optimizer": optimizer})
    file = place if form == "lightning" else place.parent.parent / "aside" / f"{place.name}.pt"
    tree = torch.load(file, weights_only=False)
    if form == "lightning":
        state = tree["optimizer_states"][0]["state"]
        return Parts(tree["state_dict"], state, tree["lr_schedulers"][0], tree)
    inner = tree["optimizer"]
    if "state" in inner:
        return Parts(tree["model"], inner["state"], tree["lr_scheduler"], tree)
    state: dict[Any, dict[str, Any]] = {}
    for name, value in inner.items():
        if name.startswith("state."):
            key, _, last = name.removeprefix("state.").rpartition(".")
            state.setdefault(key, {})[last] = value
    return Parts(tree["model"], state, tree["lr_scheduler"], tree)


def save(form: str, place: Path, parts: Parts, *, loader: bool) -> None:
    """Write a checkpoint back with its writer's functions; `loader` puts the data's position to its start."""
    if form in SPECIFIED:
        kept = parts.rest | {"schedule": parts.schedule["last_epoch"]}
        kept["samples"] = 0 if loader else kept["samples"]
        write_specified(form, place, state_writers.Training(**kept))
        return
    if form == "transformers":
        from safetensors.torch import save_file

        torch.save(parts.rest["optimizer"], place / "optimizer.pt")
        torch.save(parts.schedule, place / "scheduler.pt")
        save_file(parts.weights, place / "model.safetensors", metadata={"format": "pt"})
        if loader:
            state = json.loads((place / "trainer_state.json").read_text())
            (place / "trainer_state.json").write_text(json.dumps(state | {"epoch": 0.0}))
        return
    tree = parts.rest
    if form == "lightning":
        if loader:
            progress = tree["loops"]["fit_loop"]["epoch_loop.batch_progress"]
            for part in ("total", "current"):
                progress[part] = dict.fromkeys(progress[part], 0)
        torch.save(tree, place)
        return
    if loader:
        tree["dataloader"]["dp_rank_0"] = pickle.dumps({"_num_yielded": 0})
    if "state" not in tree["optimizer"]:
        flat = {f"state.{key}.{name}": value for key, fields in parts.state.items()
                for name, value in fields.items()}  # fmt: skip
        others = {name: value for name, value in tree["optimizer"].items() if not name.startswith("state.")}
        tree["optimizer"] = flat | others
    write_dcp(place, tree)


MOMENTS = ("exp_avg", "exp_avg_sq")


def plant(kind: str, now: Parts, before: list[Parts], random: np.random.Generator, case: int) -> None:
    """Damage the newest checkpoint; `before` has the two before it, the last first."""
    keys = list(now.state)
    some = [keys[at] for at in random.permutation(len(keys))]
    if kind in ("moments zeroed", "half zeroed"):
        for key in keys if kind == "moments zeroed" else some[: len(keys) // 2]:
            for name in MOMENTS:
                now.state[key][name].zero_()
    elif kind == "moments of another step":
        for key in keys:
            for name in MOMENTS:
                now.state[key][name] = before[case % 2].state[key][name].clone()
    elif kind == "swapped between equal shapes":
        pairs = [(a, b) for a in some for b in some if a != b
                 and now.state[a]["exp_avg"].shape == now.state[b]["exp_avg"].shape]  # fmt: skip
        a, b = pairs[0]
        for name in MOMENTS:
            now.state[a][name], now.state[b][name] = now.state[b][name], now.state[a][name]
    elif kind == "NaN":
        for key in some[: 1 + case % 3]:
            now.state[key][MOMENTS[case % 2]].view(-1)[0] = float("nan")
    elif kind == "missing for a tenth":
        for key in some[: max(1, len(keys) // 10)]:
            del now.state[key]
    elif kind == "step 0":
        for key in keys:
            now.state[key]["step"] = torch.tensor(0.0)
    elif kind == "schedule restarted":
        now.schedule |= {"last_epoch": 0, "_step_count": 1}
    elif kind == "a shard of another step":
        for key in keys[len(keys) // 2 :]:
            now.state[key].update({name: value.clone() for name, value in before[0].state[key].items()})
        names = list(now.weights)
        for name in names[len(names) // 2 :]:
            now.weights[name].copy_(before[0].weights[name])
    elif kind == "masters unlike weights":
        for key in some[: 1 + len(keys) // 2]:
            old = before[0].state[key]["master_param"].clone()
            now.state[key]["master_param"] = old if case % 2 else torch.randn_like(old) * 0.02
    elif kind == "newest tensor scaled":
        names = [name for name, value in now.weights.items() if value.ndim == 2 and "lm_head" not in name]
        now.weights[names[int(random.integers(len(names)))]].mul_((5.0, 10.0, 100.0, 0.1, 0.01)[case % 5])


TRAIN: dict[str, Callable[[Path, int], None]] = {
    "transformers": train_transformers, "lightning": train_lightning, "dcp": train_dcp,
    **{form: train_specified(form) for form in SPECIFIED},
}  # fmt: skip

SHARDS = {"deepspeed": "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
          "nanotron": "optimizer/optimizer_pp-0-of-1_dp-1-of-2_tp-0-of-1_exp-0-of-1.pt"}  # fmt: skip
"""The file of the second rank, where a rank has one: a shard of another step is that of the step before."""


def answer(folder: Path, *, cheap: bool) -> Resumption:
    """Return the answer for the newest checkpoint of a run."""
    return audited(open_series(str(folder), logs=False), cheap=cheap).resume[0]


def copied(form: str, run: Path, place: Path, count: int) -> Path:
    """Copy the first checkpoints of a run."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "run").mkdir(parents=True)
    for one in places(form, run)[:count]:
        (shutil.copytree if one.is_dir() else shutil.copy)(one, place / "run" / one.name)
    if (run.parent / "aside").exists():
        shutil.copytree(run.parent / "aside", place / "aside")
    return place / "run"


def clean_cases(form: str, runs: list[Path], work: Path) -> list[Resumption]:
    """Return the answers for sound checkpoints that were accused."""
    accused = []
    for run in runs:
        for count in range(2, len(places(form, run)) + 1):
            found = answer(copied(form, run, work / "case", count), cheap=count % 2 == 0)
            accused += [found] if found.verdict != "resumable" else []
    return accused


def planted_cases(form: str, runs: list[Path], work: Path, cases: int) -> dict[str, list[Resumption]]:
    """Return the answers for every planted fault, by kind."""
    answers: dict[str, list[Resumption]] = {}
    for kind in NAMED:
        if kind in NOT_PLANTED.get(form, ()):
            continue
        fitting = runs[1::2] if kind.startswith("masters") and form not in SPECIFIED else runs
        for case in range(cases):
            folder = copied(form, fitting[case % len(fitting)], work / "case", 5)
            at = places(form, folder)
            if kind == "a shard of another step" and form in SHARDS:
                shutil.copy(at[-2] / SHARDS[form], at[-1] / SHARDS[form])
                answers.setdefault(kind, []).append(answer(folder, cheap=case % 2 == 0))
                continue
            now, *before = (load(form, one) for one in (at[-1], at[-2], at[-3]))
            plant(kind, now, before, rng(study="resume faults", form=form, kind=kind, case=case), case)
            save(form, at[-1], now, loader=kind == "loader restarted")
            answers.setdefault(kind, []).append(answer(folder, cheap=case % 2 == 0))
    return answers


def named(kind: str, found: Resumption) -> bool:
    """Return whether the first fault of an answer is the planted one."""
    return bool(found.faults) and found.faults[0].fault in NAMED[kind]


def main() -> None:
    """Print the shares."""
    form, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 25
    cases = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as work:
        runs = [Path(work) / f"{seed}/run" for seed in range(count)]
        for seed, run in enumerate(runs):
            run.mkdir(parents=True)
            TRAIN[form](run, seed)
        accused = clean_cases(form, runs, Path(work))
        print(
            f"{form}: {len(accused)} of {4 * count} clean accused",
            *(one.line for one in accused[:5]),
            sep="\n  ",
        )
        answers = planted_cases(form, runs, Path(work), cases)
        right = {kind: sum(named(kind, one) for one in found) for kind, found in answers.items()}
        print(f"{form}: {sum(right.values())} of {cases * len(answers)} named right")
        for kind, found in answers.items():
            wrong = [one for one in found if not named(kind, one)]
            stopped = sum(one.verdict == "not resumable" for one in found)
            kinds = Counter(one.faults[0].fault if one.faults else one.verdict for one in wrong)
            print(f"  {kind}: {right[kind]} of {len(found)} named, {stopped} stopped", dict(kinds) or "")


if __name__ == "__main__":
    main()
