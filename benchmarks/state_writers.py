"""Write a training's state in the forms of writers that do not run here, by their specification.

DeepSpeed's ZeRO stages 1 and 2 (two ranks) and 3, Megatron-LM's distributed optimiser and its two forms of
torch_dist, nanotron's ZeRO stage 1 (two ranks), and Orbax with its real writer where that is installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle
import shutil
import sys
import types
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

RANKS = 2
MOMENTS = ("exp_avg", "exp_avg_sq")
BATCH = 8


@dataclasses.dataclass
class Training:
    """A training at a step: weights, and by name the moments, masters and counts of its optimiser.

    `groups` are the parameters' names in the order of the optimiser; `schedule` and `samples` count.
    """

    step: int
    weights: dict[str, torch.Tensor]
    state: dict[str, dict[str, Any]]
    groups: list[list[str]]
    betas: tuple[float, float]
    rate: float
    schedule: int
    samples: int

    def settings(self, group: int) -> dict[str, Any]:
        """Return the settings of a group as PyTorch keeps them."""
        decay = (0.1, 0.0)[group % 2]
        return {"lr": self.rate, "betas": self.betas, "eps": 1e-8, "weight_decay": decay}

    def names(self, group: int) -> list[str]:
        """Return the parameters of a group that have a state."""
        return [name for name in self.groups[group] if name in self.state]

    def flat(self, names: list[str], field: str) -> torch.Tensor:
        """Return a field of parameters, one after the other."""
        parts = [self._field(name, field).reshape(-1) for name in names]
        return torch.cat(parts) if parts else torch.zeros(0)

    def _field(self, name: str, field: str) -> torch.Tensor:
        kept = self.state[name]
        return kept[field] if field in kept else self.weights[name].float()

    def schedule_state(self) -> dict[str, Any]:
        """Return the schedule's state as PyTorch writes it."""
        return {"last_epoch": self.schedule, "_step_count": self.schedule + 1, "_last_lr": [self.rate],
                "base_lrs": [self.rate]}  # fmt: skip


@contextlib.contextmanager
def stand_in(module: str, *classes: type) -> Iterator[None]:
    """Let classes be pickled under the name of a module that is not installed."""
    names = [module.rsplit(".", count)[0] for count in range(module.count("."), -1, -1)]
    added = [name for name in names if name not in sys.modules]
    try:
        for name in added:
            sys.modules[name] = types.ModuleType(name)
        for one in classes:
            one.__module__ = module
            setattr(sys.modules[module], one.__qualname__, one)
        yield
    finally:
        for name in added:
            del sys.modules[name]


@dataclasses.dataclass
class fragment_address:  # noqa: N801 - DeepSpeed's name
    """Where a parameter's values lie in a rank's flat part."""

    numel: int
    start: int


def deepspeed(place: Path, one: Training, *, stage: int = 2) -> None:
    """Write what DeepSpeed's ZeRO optimiser of a stage writes on two ranks."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    model = {
        "module": {name: value.bfloat16() if stage < 3 else torch.zeros(0)
                   for name, value in one.weights.items()},
        "param_shapes": [{name: one.weights[name].shape for name in group} for group in one.groups],
        "lr_scheduler": one.schedule_state(), "global_steps": one.step, "global_samples": one.samples,
        "skipped_steps": 0, "ds_version": "0.18.0",
    }  # fmt: skip
    front = "zero_pp_rank_0_" if stage == 3 else ""
    torch.save(model, place / f"{front}mp_rank_00_model_states.pt")
    for rank in range(RANKS):
        outer = _zero3(one, rank) if stage == 3 else _zero2(one, rank, stage)
        with stand_in("deepspeed.utils.tensor_fragment", fragment_address):
            torch.save({"optimizer_state_dict": outer, "ds_version": "0.18.0"},
                       place / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")  # fmt: skip


def _zero2(one: Training, rank: int, stage: int) -> dict[str, Any]:
    state, masters, slices, paddings = {}, [], [], []
    for group in range(len(one.groups)):
        names = one.names(group)
        sizes = [one.weights[name].numel() for name in names]
        per = -(-sum(sizes) // RANKS)
        start, stop = rank * per, min((rank + 1) * per, sum(sizes))
        pad = (rank + 1) * per - stop
        flat = {
            field: torch.nn.functional.pad(one.flat(names, field)[start:stop], (0, pad)) for field in MOMENTS
        }
        state[group] = {"step": _step(one, names), **flat}
        masters.append(one.flat(names, "master_param")[start:stop].clone())
        paddings.append(pad)
        table, at = {}, 0
        for name, size in zip(names, sizes, strict=True):
            first, last = max(at, start), min(at + size, stop)
            if first < last:
                table[name] = fragment_address(last - first, first - start)
            at += size
        slices.append(table)
    groups = [{**one.settings(group), "params": [group]} for group in range(len(one.groups))]
    return {
        "base_optimizer_state": {"state": state, "param_groups": groups},
        "single_partition_of_fp32_groups": masters, "param_slice_mappings": slices, "zero_stage": stage,
        "group_paddings": paddings, "partition_count": [RANKS] * len(groups), "ds_version": "0.18.0",
    }  # fmt: skip


def _zero3(one: Training, rank: int) -> dict[str, Any]:
    state, masters = {}, []
    for group in range(len(one.groups)):
        names = one.names(group)

        def part(field: str, names: list[str] = names) -> torch.Tensor:
            parts = []
            for name in names:
                whole = one.flat([name], field)
                per = -(-whole.numel() // RANKS)
                padded = torch.nn.functional.pad(whole, (0, RANKS * per - whole.numel()))
                parts.append(padded[rank * per : (rank + 1) * per])
            return torch.cat(parts)

        state[group] = {"step": _step(one, names), **{field: part(field) for field in MOMENTS}}
        masters.append(part("master_param"))
    groups = [{**one.settings(group), "params": [group]} for group in range(len(one.groups))]
    return {"zero_stage": 3, "partition_count": RANKS, "fp32_flat_groups": masters,
            "optimizer_state_dict": {"state": state, "param_groups": groups}}  # fmt: skip


def _step(one: Training, names: list[str]) -> torch.Tensor:
    counts = [float(one.state[name]["step"]) for name in names]
    return torch.tensor(max(counts, default=0.0))


def _arguments(one: Training) -> Namespace:
    return Namespace(consumed_train_samples=one.samples, tensor_model_parallel_size=1, iteration=one.step)


def _common(one: Training) -> dict[str, Any]:
    groups = [{**one.settings(at), "step": int(_step(one, one.names(at)))} for at in range(len(one.groups))]
    return {
        "args": _arguments(one), "iteration": one.step, "optimizer": {"optimizer": {"param_groups": groups}},
        "opt_param_scheduler": {"max_lr": one.rate, "num_steps": one.schedule * BATCH},
    }  # fmt: skip


def megatron(place: Path, one: Training) -> None:
    """Write the files of Megatron-LM's distributed optimiser: one buffer, in reverse, starts padded to 64."""
    folder = place / "mp_rank_00"
    shutil.rmtree(place, ignore_errors=True)
    folder.mkdir(parents=True)
    tree = {**_common(one), "model": {name: value.bfloat16() for name, value in one.weights.items()},
            "rng_state": [{"random_rng_state": 0}]}  # fmt: skip
    torch.save(tree, folder / "model_optim_rng.pt")
    fields: dict[str, Any] = {}
    for field, name in (("param", "master_param"), ("exp_avg", "exp_avg"), ("exp_avg_sq", "exp_avg_sq")):
        parts: list[torch.Tensor] = []
        for key in reversed([key for key in one.weights if key in one.state]):
            gap = -sum(map(torch.numel, parts)) % 64
            parts += [torch.zeros(gap), one.flat([key], name)]
        fields[field] = torch.cat(parts)
    count = fields["param"].numel()
    padded = {name: torch.nn.functional.pad(value, (0, -count % 128)) for name, value in fields.items()}
    state = {
        "buckets_coalesced": True,
        0: {(torch.bfloat16, torch.float32): {**padded, "numel_unpadded": count}},
    }
    torch.save(state, folder / "distrib_optim.pt")


def torch_dist(place: Path, one: Training, *, named: bool = True) -> None:
    """Write Megatron-LM's torch_dist, `fully_reshardable` if named, else `dp_reshardable`."""
    import torch.distributed.checkpoint as dcp

    shutil.rmtree(place, ignore_errors=True)
    tree: dict[str, Any] = {name: value.bfloat16() for name, value in one.weights.items()}
    tree["rng_state/shard_0_1"] = pickle.dumps([0])
    fields = (("fp32_param", "master_param"), ("exp_avg", "exp_avg"), ("exp_avg_sq", "exp_avg_sq"))
    for written, field in fields:
        if named:
            tree |= {
                f"optimizer.state.{written}.{name}": one.flat([name], field).view(one.weights[name].shape)
                for name in one.state
            }
        else:
            names = [name for name in reversed(one.weights) if name in one.state]
            head = "optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32)"
            last = written.replace("fp32_", "")
            tree[f"{head}.bucket_idx_0.{last}"] = one.flat(names, field)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch, which says that there is one process
        dcp.save(tree, checkpoint_id=place, no_dist=True)
    torch.save(_common(one), place / "common.pt")


def nanotron(place: Path, one: Training) -> None:
    """Write nanotron's folders: weights in a file each, the optimiser of ZeRO stage 1 on two ranks."""
    from safetensors.torch import save_file

    shutil.rmtree(place, ignore_errors=True)
    for name, value in one.weights.items():
        *inner, last = name.split(".")
        folder = place.joinpath("model", *inner)
        folder.mkdir(parents=True, exist_ok=True)
        save_file({"data": value.bfloat16().contiguous()}, folder / f"model_{last}.safetensors")
    (place / "model_config.json").write_text("{}")
    metas = {"last_train_step": one.step, "consumed_train_samples": one.samples}
    (place / "checkpoint_metadata.json").write_text(json.dumps({"version": "1.4", "metas": metas}))
    for folder, tree in (("lr_scheduler", one.schedule_state()), ("random", {"seed": 1})):
        (place / folder).mkdir()
        torch.save(tree, place / folder / ("lr_scheduler.pt" if folder == "lr_scheduler" else "tp-0.pt"))
    (place / "optimizer").mkdir()
    names = [name for group in range(len(one.groups)) for name in one.names(group)]
    spans = {name: _spans(one.weights[name].numel()) for name in names}
    config = {
        "type": "ZeroDistributedOptimizer",
        "parallelism": {"tp_size": "1", "dp_size": str(RANKS), "pp_size": "1", "expert_parallel_size": "1"},
        "configs": {
            "param_name_to_dp_rank_offsets": {
                name: {str(rank): [str(start), str(stop)] for rank, (start, stop) in enumerate(found)}
                for name, found in spans.items()
            },
            "orig_param_shapes": {name: [str(side) for side in one.weights[name].shape] for name in names},
        },
    }
    (place / "optimizer/optimizer_config.json").write_text(json.dumps(config))
    for rank in range(RANKS):
        file = f"optimizer_pp-0-of-1_dp-{rank}-of-{RANKS}_tp-0-of-1_exp-0-of-1.pt"
        torch.save(_nanotron_rank(one, names, spans, rank), place / "optimizer" / file)


def _spans(count: int) -> list[tuple[int, int]]:
    per = -(-count // RANKS)
    return [(rank * per, min((rank + 1) * per, count)) for rank in range(RANKS)]


def _nanotron_rank(
    one: Training, names: list[str], spans: Mapping[str, list[tuple[int, int]]], rank: int
) -> dict[str, Any]:
    place = {name: at for at, name in enumerate(names)}
    state = {
        place[name]: {"step": torch.tensor(float(one.state[name]["step"])),
                      **{field: one.flat([name], field)[slice(*spans[name][rank])].clone()
                         for field in MOMENTS}}
        for name in names
    }  # fmt: skip
    groups = [{**one.settings(at), "params": [place[name] for name in one.names(at)]}
              for at in range(len(one.groups))]  # fmt: skip
    masters = {name: one.flat([name], "master_param")[slice(*spans[name][rank])].clone() for name in names}
    return {"state": state, "param_groups": groups, "names": {at: name for name, at in place.items()},
            "gradient_accumulator": masters}  # fmt: skip


def orbax(place: Path, one: Training) -> None:
    """Write with Orbax's StandardCheckpointer a tree as flax's TrainState and optax's Adam have it."""
    import orbax.checkpoint as ocp

    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)

    def tree(values: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        outer: dict[str, Any] = {}
        for name, value in values.items():
            *inner, last = name.split(".")
            here = outer
            for part in inner:
                here = here.setdefault(part, {})
            here[last] = value.float().numpy()
        return outer

    import numpy as np

    moments = [tree({name: fields[field] for name, fields in one.state.items()}) for field in MOMENTS]
    every = [name for group in range(len(one.groups)) for name in one.names(group)]
    adam = {"count": np.asarray(int(_step(one, every)), np.int32), "mu": moments[0], "nu": moments[1]}
    state = {"step": np.asarray(one.step, np.int32), "params": tree(one.weights),
             "opt_state": [adam, {"count": np.asarray(one.schedule, np.int32)}]}  # fmt: skip
    with ocp.StandardCheckpointer() as writer:
        writer.save(place.resolve(), state)
