"""Small folders in the layouts of trainers: a function each, with the names that their writers give."""

from __future__ import annotations

import json
import struct
import tarfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

Arrays = dict[str, np.ndarray]
STEPS = (100, 200, 300)


def llama(step: int, *, width: int = 8, prefix: str = "") -> Arrays:
    """Return the weights of a small Llama on a random walk from step 0 to `step`."""
    shapes = {
        "model.embed_tokens.weight": (24, width),
        **{f"model.layers.0.self_attn.{part}_proj.weight": (width, width) for part in "qkvo"},
        "model.layers.0.mlp.gate_proj.weight": (2 * width, width),
        "model.layers.0.mlp.up_proj.weight": (2 * width, width),
        "model.layers.0.mlp.down_proj.weight": (width, 2 * width),
        "model.layers.0.input_layernorm.weight": (width,),
        "lm_head.weight": (24, width),
    }
    state = {}
    for index, (name, shape) in enumerate(shapes.items()):
        rng = np.random.default_rng([3, index])
        start = 0.02 * rng.standard_normal(shape)
        moves = [start, *(0.002 * rng.standard_normal(shape) for _ in range(step // 100))]
        state[prefix + name] = np.sum(moves, axis=0).astype(np.float32)
    return state


def tensors(arrays: Arrays) -> dict[str, torch.Tensor]:
    """Return arrays as tensors."""
    return {name: torch.from_numpy(values.copy()) for name, values in arrays.items()}


def optimizer() -> dict[str, Any]:
    """Return an optimizer's state as PyTorch writes it."""
    return {"state": {0: {"exp_avg": torch.zeros(4, 4)}}, "param_groups": [{"lr": 1e-3, "params": [0]}]}


def put(path: Path, content: Any = b"") -> None:
    """Write bytes, text, or with `torch.save`, whatever the content is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content)
    else:
        torch.save(content, path)


def put_safe(path: Path, arrays: Arrays) -> None:
    """Write a safetensors file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(arrays, path)


def _distributed(state: dict[str, Any], folder: Path) -> None:
    """Write a distributed checkpoint of one process."""
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no process group
        dcp.save(state, checkpoint_id=str(folder), no_dist=True)


@dataclass(frozen=True)
class Layout:
    """A layout: how it is written, and the steps that are read from it, or the words of its one line."""

    write: Callable[[Path], None]
    steps: tuple[int, ...] = ()
    words: tuple[str, ...] = ()


LAYOUTS: dict[str, Layout] = {}


def layout(*, steps: tuple[int, ...] = (), words: tuple[str, ...] = ()) -> Any:
    """Register a layout under the name of its function."""

    def register(write: Callable[[Path], None]) -> Callable[[Path], None]:
        LAYOUTS[write.__name__] = Layout(write, steps, words)
        return write

    return register


# --- read: files and folders whose names state the step ------------------------------


def _each(folder: Path, name: str, wrap: Callable[[int], Any], steps: tuple[int, ...] = STEPS) -> None:
    for step in steps:
        put(folder / name.format(step=step), wrap(step))


def _safe(folder: Path, name: str, steps: tuple[int, ...] = STEPS) -> None:
    for step in steps:
        put_safe(folder / name.format(step=step), llama(step if step >= 100 else 100 * step))


def _short(step: int) -> dict[str, torch.Tensor]:
    """Return weights of epoch `step`, each a hundred updates after the one before."""
    return tensors(llama(100 * step))


@layout(steps=STEPS)
def trainer(folder: Path) -> None:
    _safe(folder, "checkpoint-{step}/model.safetensors")
    for step in STEPS:
        put(folder / f"checkpoint-{step}/optimizer.pt", optimizer())
        put(folder / f"checkpoint-{step}/scheduler.pt", {"last_epoch": step})


@layout(steps=STEPS)
def trainer_bin_shards(folder: Path) -> None:
    for step in STEPS:
        names = list(state := tensors(llama(step)))
        parts = [names[:3], names[3:6], names[6:]]
        files = [f"pytorch_model-{i:05d}-of-00003.bin" for i in (1, 2, 3)]
        for file, part in zip(files, parts, strict=True):
            put(folder / f"checkpoint-{step}" / file, {name: state[name] for name in part})
        weights = {name: file for file, part in zip(files, parts, strict=True) for name in part}
        index = {"metadata": {}, "weight_map": weights}
        put(folder / f"checkpoint-{step}/pytorch_model.bin.index.json", json.dumps(index))


@layout(steps=STEPS)
def trainer_deepspeed_inside(folder: Path) -> None:
    trainer(folder)
    for step in STEPS:
        inner = folder / f"checkpoint-{step}"
        put(inner / "latest", f"global_step{step}")
        put(inner / "zero_to_fp32.py", "")
        put(inner / f"global_step{step}/mp_rank_00_model_states.pt", {"module": tensors(llama(step))})
        put(inner / f"global_step{step}/zero_pp_rank_0_mp_rank_00_optim_states.pt", optimizer())


@layout(steps=STEPS)
def trainer_deepspeed_alone(folder: Path) -> None:
    for step in STEPS:
        inner = folder / f"checkpoint-{step}"
        put(inner / "latest", f"global_step{step}")
        put(inner / "zero_to_fp32.py", "")
        put(inner / f"global_step{step}/mp_rank_00_model_states.pt", {"module": tensors(llama(step))})


@layout(words=("zero_to_fp32.py", "stage 3"))
def trainer_zero3(folder: Path) -> None:
    for step in STEPS:
        inner = folder / f"checkpoint-{step}"
        put(inner / "latest", f"global_step{step}")
        put(inner / "zero_to_fp32.py", "")
        _zero3(inner / f"global_step{step}")


def _zero3(folder: Path) -> None:
    empty = {name: torch.empty(0) for name in llama(100)}
    for rank in (0, 1):
        put(folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt", {"module": empty})
        put(folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", optimizer())


@layout(words=("zero_to_fp32.py", "stage 3"))
def deepspeed_zero3(folder: Path) -> None:
    for step in STEPS:
        _zero3(folder / f"global_step{step}")
    put(folder / "latest", "global_step300")


@layout(steps=STEPS)
def deepspeed(folder: Path) -> None:
    _each(
        folder,
        "global_step{step}/mp_rank_00_model_states.pt",
        lambda step: {"module": tensors(llama(step)), "global_steps": step},
    )
    put(folder / "latest", "global_step300")


@layout(steps=STEPS)
def lightning_deepspeed(folder: Path) -> None:
    for step in STEPS:
        inner = folder / f"epoch=0-step={step}.ckpt"
        put(inner / "checkpoint/mp_rank_00_model_states.pt", {"module": tensors(llama(step))})
        put(inner / "checkpoint/zero_pp_rank_0_mp_rank_00_optim_states.pt", optimizer())
        put(inner / "latest", "checkpoint")
        put(inner / "zero_to_fp32.py", "")


@layout(steps=STEPS)
def lightning(folder: Path) -> None:
    for epoch, step in enumerate(STEPS):
        state = tensors(llama(step, prefix="model."))
        put(folder / f"epoch={epoch}-step={step}.ckpt", {"state_dict": state, "global_step": step})


@layout(steps=STEPS)
def torch_distributed(folder: Path) -> None:
    for step in STEPS:
        state = {"model": tensors(llama(step)), "optimizer": {"state": {"exp_avg": torch.zeros(4, 4)}}}
        _distributed(state, folder / f"step-{step}")


@layout(steps=STEPS)
def torch_distributed_app(folder: Path) -> None:
    for step in STEPS:
        state = {"app": {"model": tensors(llama(step)), "optim": {"state": {"w": torch.zeros(4, 4)}}}}
        _distributed(state, folder / f"step-{step}")


@layout(steps=STEPS)
def megatron_dist(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"iter_{step:07d}"
        _distributed({**tensors(_megatron(step))}, at)
        put(at / "common.pt", {"iteration": step, "checkpoint_version": 3.0})
        put(at / "metadata.json", json.dumps({"sharded_backend": "torch_dist"}))
    put(folder / "latest_checkpointed_iteration.txt", "300")


def _drifted(shapes: dict[str, tuple[int, ...]], step: int) -> Arrays:
    """Weights that leave one start in proportion to the step, each step in a direction of its own."""
    base, moves = np.random.default_rng(0), np.random.default_rng(step)
    return {
        name: (0.02 * base.standard_normal(shape) + 1e-5 * step * moves.standard_normal(shape)).astype("f4")
        for name, shape in shapes.items()
    }


def _megatron(step: int) -> Arrays:
    shapes = {
        "embedding.word_embeddings.weight": (24, 8),
        "decoder.layers.0.self_attention.linear_qkv.weight": (24, 8),
        "decoder.layers.0.self_attention.linear_proj.weight": (8, 8),
        "decoder.layers.0.mlp.linear_fc1.weight": (16, 8),
        "decoder.layers.0.mlp.linear_fc2.weight": (8, 16),
        "output_layer.weight": (24, 8),
    }
    return _drifted(shapes, step)


@layout(steps=STEPS)
def megatron_ranks(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"iter_{step:07d}/mp_rank_00/model_optim_rng.pt"
        put(at, {"model": tensors(_megatron(step)), "iteration": step, "checkpoint_version": 3.0})
    put(folder / "latest_checkpointed_iteration.txt", "300")


@layout(words=("zarr", "Megatron"))
def megatron_zarr(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"iter_{step:07d}"
        put(at / "common.pt", {"iteration": step})
        put(at / "metadata.json", json.dumps({"sharded_backend": "zarr"}))
        put(at / "model.embedding.word_embeddings.weight/.zarray", "{}")
        put(at / "model.embedding.word_embeddings.weight/0.0", bytes(64))


@layout(steps=STEPS)
def nemo2(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"model--epoch=0-step={step}"
        (at / "context").mkdir(parents=True)
        put(at / "context/io.json", "{}")
        state = {f"module.{name}": value for name, value in tensors(_megatron(step)).items()}
        _distributed(state, at / "weights")
        put(at / "weights/common.pt", {"iteration": step})


@layout(steps=(1, 2, 3))
def nemo_automodel(folder: Path) -> None:
    for step in (1, 2, 3):
        at = folder / f"epoch_0_step_{step}"
        put_safe(at / "model/consolidated/model.safetensors", llama(100 * step))
        put(at / "optim/shard.pt", optimizer())


@layout(words=(".nemo", "tar"))
def nemo_archive(folder: Path) -> None:
    put(folder / "model_weights.ckpt", tensors(llama(100)))
    with tarfile.open(folder / "small.nemo", "w") as archive:
        archive.add(folder / "model_weights.ckpt", "model_weights.ckpt")
    (folder / "model_weights.ckpt").unlink()


@layout(steps=(0, 1, 2))
def accelerate(folder: Path) -> None:
    for index in (0, 1, 2):
        at = folder / f"checkpoint_{index}"
        put_safe(at / "model.safetensors", llama(100 * index))
        put(at / "optimizer.bin", optimizer())
        put(at / "random_states_0.pkl", bytes(8))


@layout(steps=(0, 1, 2))
def accelerate_deepspeed(folder: Path) -> None:
    for index in (0, 1, 2):
        at = folder / f"epoch_{index}"
        state = {"module": tensors(llama(100 * index))}
        put(at / "pytorch_model/mp_rank_00_model_states.pt", state)
        put(at / "latest", "pytorch_model")
        put(at / "scheduler.bin", {"last_epoch": index})


@layout(steps=STEPS)
def accelerate_fsdp(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"checkpoint-{step}/pytorch_model_fsdp_0"
        _distributed({"model": tensors(llama(step))}, at)
        put(folder / f"checkpoint-{step}/scheduler.pt", {"last_epoch": step})


@layout(steps=STEPS)
def composer(folder: Path) -> None:
    for epoch, step in enumerate(STEPS):
        state = {"state": {"model": tensors(llama(step, prefix="model."))}, "rng": []}
        put(folder / f"ep{epoch}-ba{step}-rank0.pt", state)
    (folder / "latest-rank0.pt").symlink_to("ep2-ba300-rank0.pt")


@layout(steps=STEPS)
def litgpt(folder: Path) -> None:
    _each(folder, "step-{step:08d}/lit_model.pth", lambda step: {"model": _lit(step), "step_count": step})
    put(folder / "step-00000300/model_config.yaml", "name: small\nn_layer: 1\n")


def _lit(step: int) -> dict[str, torch.Tensor]:
    names = {"model.embed_tokens": "transformer.wte", "model.layers.0": "transformer.h.0"}
    state = tensors(llama(step))
    for old, new in names.items():
        state = {name.replace(old, new): value for name, value in state.items()}
    return state


@layout(steps=STEPS)
def olmo(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"step{step}-unsharded/model.pt", tensors(_olmo(step)))
        put(folder / f"step{step}-unsharded/optim.pt", optimizer())
        put(folder / f"step{step}-unsharded/train.pt", {"global_step": step})
        put(folder / f"step{step}-unsharded/config.yaml", "model: {}\n")
    (folder / "latest-unsharded").symlink_to("step300-unsharded")


def _olmo(step: int) -> Arrays:
    shapes = {
        "transformer.wte.weight": (24, 8),
        "transformer.blocks.0.att_proj.weight": (24, 8),
        "transformer.blocks.0.attn_out.weight": (8, 8),
        "transformer.blocks.0.ff_proj.weight": (32, 8),
        "transformer.blocks.0.ff_out.weight": (8, 16),
    }
    return _drifted(shapes, step)


@layout(steps=STEPS)
def fairseq(folder: Path) -> None:
    for epoch, step in enumerate(STEPS, 1):
        state = {"model": tensors(llama(step)), "args": None, "optimizer_history": [{"num_updates": step}]}
        put(folder / f"checkpoint_{epoch}_{step}.pt", state)
    put(folder / "checkpoint_best.pt", {"model": tensors(llama(200))})
    put(folder / "checkpoint_last.pt", {"model": tensors(llama(300))})


@layout(steps=(1, 2, 3))
def fairseq_epochs(folder: Path) -> None:
    _each(folder, "checkpoint{step}.pt", lambda epoch: {"model": _short(epoch)}, (1, 2, 3))
    put(folder / "checkpoint_last.pt", {"model": _short(3)})


@layout(steps=(1, 2, 3))
def espnet(folder: Path) -> None:
    _each(folder, "{step}epoch.pth", _short, (1, 2, 3))
    (folder / "latest.pth").symlink_to("3epoch.pth")
    put(folder / "valid.acc.ave.pth", _short(3))


@layout(steps=(10, 11, 12))
def timm(folder: Path) -> None:
    _each(
        folder,
        "checkpoint-{step}.pth.tar",
        lambda epoch: {"state_dict": _short(epoch), "epoch": epoch, "optimizer": optimizer()},
        (10, 11, 12),
    )
    put(folder / "last.pth.tar", {"state_dict": _short(12)})
    put(folder / "model_best.pth.tar", {"state_dict": _short(12)})


@layout(steps=STEPS)
def mmengine(folder: Path) -> None:
    _each(
        folder, "iter_{step}.pth", lambda step: {"meta": {"iter": step}, "state_dict": tensors(llama(step))}
    )
    put(folder / "last_checkpoint", "iter_300.pth")


@layout(steps=(99, 199, 299))
def detectron2(folder: Path) -> None:
    for step in (99, 199, 299):
        state = {"model": tensors(llama(step + 1)), "iteration": step, "optimizer": optimizer()}
        put(folder / f"model_{step:07d}.pth", state)
    put(folder / "last_checkpoint", "model_0000299.pth")


@layout(words=("HDF5",))
def keras(folder: Path) -> None:
    for epoch in (1, 2, 3):
        put(folder / f"weights.{epoch:02d}-{3 / epoch:.2f}.h5", b"\x89HDF\r\n\x1a\n" + bytes(64))


@layout(words=("msgpack",))
def flax_checkpoints(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"checkpoint_{step}", b"\x82\xa6params\x81\xa1w\xc7" + bytes(64))


@layout(words=("msgpack",))
def flax_model(folder: Path) -> None:
    put(folder / "flax_model.msgpack", b"\x82\xa6params\x81\xa1w\xc7" + bytes(64))
    put(folder / "config.json", "{}")


@layout(words=("Orbax",))
def orbax_manager(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"{step}/_CHECKPOINT_METADATA", "{}")
        put(folder / f"{step}/default/_METADATA", "{}")
        put(folder / f"{step}/default/manifest.ocdbt", bytes(32))
        put(folder / f"{step}/default/d/0", bytes(32))


@layout(words=("Orbax",))
def maxtext(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"{step}/items/_METADATA", "{}")
        put(folder / f"{step}/items/ocdbt.process_0/manifest.ocdbt", bytes(32))
        put(folder / f"{step}/items/manifest.ocdbt", bytes(32))
        put(folder / f"{step}/commit_success.txt", "")


@layout(words=("Orbax",))
def orbax_v1(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"{step}/orbax.checkpoint")
        put(folder / f"{step}/pytree/_METADATA", "{}")
        put(folder / f"{step}/pytree/manifest.ocdbt", bytes(32))


@layout(words=("T5X",))
def t5x(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"checkpoint_{step}/checkpoint", b"\x83\xa7version\x03" + bytes(32))
        put(folder / f"checkpoint_{step}/target.decoder.layers_0.mlp.wi.kernel/.zarray", "{}")
        put(folder / f"checkpoint_{step}/target.decoder.layers_0.mlp.wi.kernel/0.0", bytes(32))


@layout(words=("TensorFlow",))
def tensorflow(folder: Path) -> None:
    put(folder / "checkpoint", 'model_checkpoint_path: "model.ckpt-300"\n')
    for step in STEPS:
        put(folder / f"model.ckpt-{step}.index", bytes(64))
        put(folder / f"model.ckpt-{step}.data-00000-of-00001", bytes(64))
        put(folder / f"model.ckpt-{step}.meta", bytes(64))


@layout(words=("TensorFlow",))
def saved_model(folder: Path) -> None:
    put(folder / "saved_model.pb", bytes(64))
    put(folder / "variables/variables.index", bytes(64))
    put(folder / "variables/variables.data-00000-of-00001", bytes(64))


@layout(words=("HDF5",))
def tf_model(folder: Path) -> None:
    put(folder / "tf_model.h5", b"\x89HDF\r\n\x1a\n" + bytes(64))
    put(folder / "config.json", "{}")


@layout(words=("ONNX",))
def onnx(folder: Path) -> None:
    put(folder / "model.onnx", bytes(64))


@layout(words=("GGUF",))
def gguf(folder: Path) -> None:
    put(folder / "small-q4_k_m.gguf", b"GGUF" + struct.pack("<I", 3) + bytes(64))


@layout(words=("ggml",))
def ggml(folder: Path) -> None:
    put(folder / "ggml-model-q4_0.bin", struct.pack("<I", 0x67676A74) + bytes(64))


@layout(steps=(10, 11, 12))
def rwkv(folder: Path) -> None:
    _each(folder, "rwkv-{step}.pth", _short, (10, 11, 12))


@layout(steps=STEPS)
def mlx_adapters(folder: Path) -> None:
    for step in STEPS:
        put_safe(folder / f"{step:07d}_adapters.safetensors", _mlx(step))
    put_safe(folder / "adapters.safetensors", _mlx(300))
    put(
        folder / "adapter_config.json", json.dumps({"fine_tune_type": "lora", "lora_parameters": {"rank": 2}})
    )


def _mlx(step: int) -> Arrays:
    rng = np.random.default_rng(step)
    name = "model.layers.0.self_attn.q_proj.lora_"
    return {
        name + "a": rng.standard_normal((8, 2)).astype("f4"),
        name + "b": rng.standard_normal((2, 8)).astype("f4"),
    }


@layout(steps=STEPS)
def sentence_transformers(folder: Path) -> None:
    for step in STEPS:
        put_safe(folder / f"checkpoint-{step}/model.safetensors", llama(step))
        put(folder / f"checkpoint-{step}/modules.json", "[]")
        put(folder / f"checkpoint-{step}/1_Pooling/config.json", "{}")
        put_safe(
            folder / f"checkpoint-{step}/2_Dense/model.safetensors", {"linear.weight": np.eye(8, dtype="f4")}
        )


@layout(steps=STEPS)
def diffusers(folder: Path) -> None:
    for step in STEPS:
        put_safe(folder / f"checkpoint-{step}/unet/diffusion_pytorch_model.safetensors", llama(step))
        put(folder / f"checkpoint-{step}/unet/config.json", "{}")
        put(folder / f"checkpoint-{step}/optimizer.bin", optimizer())


@layout(steps=STEPS)
def peft_checkpoints(folder: Path) -> None:
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": "org/base"}
    for step in STEPS:
        rng = np.random.default_rng(step)
        name = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
        state = {
            name + "A.weight": rng.standard_normal((2, 8)).astype("f4"),
            name + "B.weight": rng.standard_normal((8, 2)).astype("f4"),
        }
        put_safe(folder / f"checkpoint-{step}/adapter_model.safetensors", state)
        put(folder / f"checkpoint-{step}/adapter_config.json", json.dumps(config))


@layout(steps=STEPS)
def nanotron_like_last(folder: Path) -> None:
    _safe(folder, "checkpoint-{step}/model.safetensors")
    (folder / "last-checkpoint").symlink_to("checkpoint-300")


@layout(words=("model_merger",))
def verl(folder: Path) -> None:
    for step in STEPS:
        for rank in (0, 1):
            half = {name: values[: len(values) // 2] for name, values in llama(step).items()}
            at = folder / f"global_step_{step}/actor"
            put(at / f"model_world_size_2_rank_{rank}.pt", tensors(half))
            put(at / f"optim_world_size_2_rank_{rank}.pt", optimizer())
            put(at / "huggingface/config.json", "{}")
    put(folder / "latest_checkpointed_iteration.txt", "300")


@layout(steps=(0, 1, 2))
def torchtune(folder: Path) -> None:
    for epoch in (0, 1, 2):
        put_safe(folder / f"epoch_{epoch}/model-00001-of-00001.safetensors", llama(100 * epoch + 100))
        put(folder / f"epoch_{epoch}/config.json", "{}")
    put(folder / "recipe_state/recipe_state.pt", {"epochs_run": 2})


@layout(steps=(0, 1, 2))
def torchtune_bin(folder: Path) -> None:
    for epoch in (0, 1, 2):
        state = tensors(llama(100 * epoch + 100))
        names = list(state)
        put(folder / f"hf_model_0001_{epoch}.pt", {name: state[name] for name in names[:4]})
        put(folder / f"hf_model_0002_{epoch}.pt", {name: state[name] for name in names[4:]})


@layout(steps=(20, 40, 60))
def openlm(folder: Path) -> None:
    for epoch in (20, 40, 60):
        put(
            folder / f"epoch_{epoch}.pt",
            {"epoch": epoch, "state_dict": tensors(llama(10 * epoch, prefix="module."))},
        )
        put(folder / f"optimizer_{epoch}.pt", {"optimizer": optimizer()})


@layout(steps=STEPS)
def checkpoint_with_epoch(folder: Path) -> None:
    _each(folder, "checkpoint-{step}-epoch-1/pytorch_model.bin", lambda step: tensors(llama(step)))


@layout(steps=STEPS)
def opennmt(folder: Path) -> None:
    _each(
        folder,
        "small_step_{step}.pt",
        lambda step: {"model": tensors(llama(step)), "generator": {"weight": torch.ones(24, 8)}, "optim": {}},
    )


@layout(words=("pickled", "state_dict()"))
def pickled_modules(folder: Path) -> None:
    _each(folder, "model_step{step}.pt", lambda step: torch.nn.Linear(4, 4))


@layout(words=("TorchScript",))
def torchscript(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torch.jit is deprecated
            traced = torch.jit.trace(torch.nn.Linear(4, 4), torch.ones(1, 4))
            traced.save(str(folder / f"model_step{step}.pt"))


@layout(words=("optimizer",))
def optimizers_alone(folder: Path) -> None:
    _each(folder, "checkpoint-{step}/optimizer.pt", lambda step: optimizer())


@layout(words=("pdparams", "paddle"))
def paddle(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"checkpoint-{step}/model_state.pdparams", b"\x80\x04" + bytes(32))


@layout(words=("llama.cpp", "GGUF"))
def gguf_of_steps(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"ckpt-{step}.gguf", b"GGUF" + struct.pack("<I", 3) + bytes(64))


@layout(steps=(100_000, 200_000, 1_200_000))
def kilo(folder: Path) -> None:
    for name in ("100k", "200k", "1.2M"):
        put_safe(folder / f"step-{name}/model.safetensors", llama(int(100 * float(name[:-1]) % 700)))


CASES: Mapping[str, Layout] = LAYOUTS
