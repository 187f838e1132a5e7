"""Sharded checkpoints as ranks write them: over minutes, out of order, in pieces, one rank far behind."""

import argparse
import shutil
import warnings

import numpy as np
import pytest

from tests.watch.test_completeness import FORMATS, STATE
from toposcope.watch.follow import Follower

torch = pytest.importorskip("torch")

TRACKED = {
    "megatron": "latest_checkpointed_iteration.txt", "neox": "latest", "deepspeed": "latest",
    "nanotron": "latest.txt",
}  # fmt: skip
"""Layouts whose trainer moves a tracker file after the last rank."""
LOOKS = 10.0
"""Simulated seconds between looks."""


def _fsdp(run):
    import torch.distributed.checkpoint as dcp

    files = []
    for folder, state in (
        ("pytorch_model_fsdp_0", {"model": {name: torch.from_numpy(v) for name, v in STATE.items()}}),
        ("optimizer_0", {"optimizer": {"exp_avg": torch.ones(4, 4)}}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save(state, checkpoint_id=run / "checkpoint-10" / folder, no_dist=True)
        files += [f"checkpoint-10/{folder}/{name}" for name in (".metadata", "__0_0.distcp")]
    return files


def _deepspeed(run):
    path = run / "global_step10"
    path.mkdir(parents=True)
    files = []
    for rank in (0, 1):
        halves = {
            f"transformer.layers.{i}.attention.dense.weight": torch.from_numpy(
                np.split(v, 2, axis=1)[rank].copy()
            )
            for i, v in enumerate(STATE.values())
        }
        content = {"module": halves, "args": argparse.Namespace(), "global_steps": 10}
        torch.save(content, path / f"mp_rank_0{rank}_model_states.pt")
        torch.save({"exp_avg": torch.ones(8)}, path / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
        files += [f"global_step10/mp_rank_0{rank}_model_states.pt"]
        files += [f"global_step10/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"]
    return files


LAYOUTS = {
    **{
        name: FORMATS[name]
        for name in ("transformers", "torchtitan", "olmo_core", "megatron", "neox", "nanotron")
    },
    "fsdp": _fsdp,
    "deepspeed": _deepspeed,
}  # fmt: skip


def _writes(files, sizes, random):
    """Return when which file reaches which length: pieces over minutes, the last file far behind."""
    order = list(random.permutation(files))
    if order[-1].endswith(".index.json"):  # without it, all numbered shards are a checkpoint too
        order.insert(0, order.pop())
    lagging, writes, at = order[-1], [], 0.0
    for file in order[:-1]:
        begins = at + random.uniform(0, 30)
        cuts = sorted(random.uniform(0, sizes[file], size=2).astype(int).tolist())
        writes += [(begins + 25.0 * i, file, cut) for i, cut in enumerate([*cuts, sizes[file]])]
        at += random.uniform(0, 40)
    late = max(when for when, *_ in writes) + random.uniform(300, 550)
    return sorted([*writes, (late, lagging, sizes[lagging])])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nothing_is_measured_early_and_nothing_is_told_as_lost(tmp_path, layout, seed):
    whole, run = tmp_path / "whole", tmp_path / "run"
    files = [name for name in LAYOUTS[layout](whole) if (whole / name).is_file()]
    contents = {name: (whole / name).read_bytes() for name in files}
    random = np.random.default_rng([seed, sorted(LAYOUTS).index(layout)])
    clock = [0.0]
    follower = Follower(run, rest=5.0, clock=lambda: clock[0])
    writes = _writes(files, {name: len(content) for name, content in contents.items()}, random)
    while writes:
        while writes and writes[0][0] <= clock[0]:
            _, name, length = writes.pop(0)
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(contents[name][:length])
        if layout in TRACKED and not writes:
            (run / TRACKED[layout]).write_text("global_step10")
        visit = follower.visit()
        assert not visit.ready
        assert not visit.vanished
        assert not visit.stuck
        clock[0] += LOOKS
    (sighting,) = follower.visit().ready  # a rest after the last byte
    assert sighting.checkpoint.step == 10
    assert len(sighting.files) >= len(files)
    for number, name in enumerate(sorted(contents)):  # and rotation removes it file by file
        (run / name).unlink()
        clock[0] += LOOKS if number % 2 else 0.0
        visit = follower.visit()
        assert not visit.ready
        assert not visit.vanished
    shutil.rmtree(run / files[0].split("/")[0])
    assert not follower.visit().vanished
