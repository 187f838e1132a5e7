"""Further small folders in the layouts of trainers: a function each, with the names that writers give."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from layouts import (
    STEPS,
    Arrays,
    Layout,
    _distributed,
    _lit,
    _megatron,
    _short,
    _zero3,
    llama,
    optimizer,
    put,
    put_safe,
    tensors,
)

MORE: dict[str, Layout] = {}


def layout(*, steps: tuple[int, ...] = (), words: tuple[str, ...] = ()) -> Any:
    """Register a layout under the name of its function."""

    def register(write: Callable[[Path], None]) -> Callable[[Path], None]:
        MORE[write.__name__] = Layout(write, steps, words)
        return write

    return register


def _halves(state: Arrays) -> tuple[Arrays, Arrays]:
    """Return the two parts of a state that two files of shards hold."""
    names = list(state)
    return {name: state[name] for name in names[:4]}, {name: state[name] for name in names[4:]}


def _sharded(folder: Path, front: str, state: Arrays, index: str) -> None:
    """Write two safetensors shards and their index."""
    table = {}
    for number, part in enumerate(_halves(state), 1):
        file = f"{front}-{number:05d}-of-00002.safetensors"
        put_safe(folder / file, part)
        table |= dict.fromkeys(part, file)
    put(folder / index, json.dumps({"metadata": {}, "weight_map": table}))


def _tokenizers(folder: Path) -> None:
    """Write what tokenizers leave beside weights: sentencepiece models, vocabularies, merges."""
    for name in ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model.v3"):
        put(folder / name, b"\x0a\x0d\x0a\x05<unk>" + bytes(32))
    put(folder / "tokenizer.json", "{}")
    put(folder / "merges.txt", "a b\n")
    put(folder / "vocab.json", "{}")


# --- the hub's model folders ------------------------------


@layout(steps=(0,))
def variant(folder: Path) -> None:
    put_safe(folder / "model.fp16.safetensors", llama(100))
    put(folder / "config.json", "{}")


@layout(steps=(0,))
def variant_beside_the_whole(folder: Path) -> None:
    put_safe(folder / "model.safetensors", llama(100))
    half = {name: value.astype(np.float16) for name, value in llama(100).items()}
    put_safe(folder / "model.fp16.safetensors", half)
    put(folder / "config.json", "{}")


@layout(steps=(0,))
def variant_in_shards(folder: Path) -> None:
    _sharded(folder, "model.fp16", llama(100), "model.safetensors.index.fp16.json")
    put(folder / "config.json", "{}")


@layout(steps=(0,))
def safetensors_beside_bin(folder: Path) -> None:
    put_safe(folder / "model.safetensors", llama(100))
    put(folder / "pytorch_model.bin", tensors(llama(100)))
    put(folder / "flax_model.msgpack", b"\x82\xa6params\x81\xa1w\xc7" + bytes(64))
    put(folder / "tf_model.h5", b"\x89HDF\r\n\x1a\n" + bytes(64))
    _tokenizers(folder)


@layout(steps=(0,))
def llama_original(folder: Path) -> None:
    put(folder / "consolidated.00.pth", tensors(llama(100)))
    put(folder / "params.json", json.dumps({"dim": 8, "n_layers": 1}))
    put(folder / "checklist.chk", "0 consolidated.00.pth\n")
    _tokenizers(folder)


@layout(words=("2 ranks of one checkpoint",))
def llama_original_of_two(folder: Path) -> None:
    for rank in (0, 1):
        part = {
            name: value[rank * len(value) // 2 : (rank + 1) * len(value) // 2].copy()
            for name, value in llama(100).items()
        }
        put(folder / f"consolidated.{rank:02d}.pth", tensors(part))
    put(folder / "params.json", json.dumps({"dim": 8, "n_layers": 1}))


@layout(steps=(0,))
def mistral(folder: Path) -> None:
    put_safe(folder / "consolidated.safetensors", llama(100))
    _sharded(folder, "model", llama(100), "model.safetensors.index.json")
    put(folder / "params.json", "{}")
    _tokenizers(folder)


@layout(steps=(0,))
def mistral_alone(folder: Path) -> None:
    put_safe(folder / "consolidated.safetensors", llama(100))
    put(folder / "params.json", "{}")
    _tokenizers(folder)


@layout(steps=(0,))
def mlx_weights(folder: Path) -> None:
    for number, part in enumerate(_halves(llama(100))):
        put_safe(folder / f"weights.{number:02d}.safetensors", part)
    put(folder / "config.json", "{}")


# --- trainers on transformers ------------------------------


def _trainer(folder: Path, step: int) -> None:
    put_safe(folder / f"checkpoint-{step}/model.safetensors", llama(step))
    put(folder / f"checkpoint-{step}/optimizer.pt", optimizer())
    put(folder / f"checkpoint-{step}/training_args.bin", {"args": 1})
    _tokenizers(folder / f"checkpoint-{step}")


@layout(steps=STEPS)
def axolotl(folder: Path) -> None:
    for step in STEPS:
        _trainer(folder, step)
    put_safe(folder / "model.safetensors", llama(300))
    put(folder / "config.json", "{}")
    put(folder / "README.md", "# out\n")
    put(folder / "debug.log", "[INFO] axolotl\n")
    _tokenizers(folder)


@layout(steps=STEPS)
def trainer_with_best(folder: Path) -> None:
    for step in STEPS:
        _trainer(folder, step)
    put_safe(folder / "checkpoint-best/model.safetensors", llama(200))
    (folder / "latest").symlink_to("checkpoint-300")


@layout(steps=STEPS)
def unsloth(folder: Path) -> None:
    for step in STEPS:
        put_safe(folder / f"checkpoint-{step}/model.safetensors", llama(step))
    put(folder / "model-unsloth.Q4_K_M.gguf", b"GGUF" + bytes(64))
    put(folder / "Modelfile", "FROM ./model-unsloth.Q4_K_M.gguf\n")


@layout(steps=(0,))
def sentence_transformer(folder: Path) -> None:
    put(folder / "modules.json", json.dumps([{"idx": 0, "path": "0_Transformer"}]))
    put_safe(folder / "0_Transformer/model.safetensors", llama(100))
    put(folder / "0_Transformer/config.json", "{}")
    put(folder / "1_Pooling/config.json", "{}")


@layout(steps=STEPS)
def diffusers_with_ema(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"checkpoint-{step}"
        put_safe(at / "unet/diffusion_pytorch_model.safetensors", llama(step))
        put_safe(at / "unet_ema/diffusion_pytorch_model.safetensors", llama(step))
        put(at / "optimizer.bin", optimizer())
        put(at / "random_states_0.pkl", bytes(8))


# --- trainers of their own ------------------------------


@layout(steps=STEPS)
def nanochat(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"model_{step:06d}.pt", tensors(llama(step)))
        put(folder / f"meta_{step:06d}.json", json.dumps({"step": step, "val_bpb": 1.0}))
        put(folder / f"optim_{step:06d}_rank0.pt", optimizer())


@layout(steps=STEPS)
def modded_nanogpt(folder: Path) -> None:
    for step in STEPS:
        state = {"step": step, "code": "...", "model": tensors(llama(step)), "optimizers": [optimizer()]}
        put(folder / f"state_step{step:06d}.pt", state)


@layout(words=("llm.c",))
def llm_c(folder: Path) -> None:
    for step in STEPS:
        head = np.zeros(256, np.int32)
        head[:8] = [20240326, 5, 64, 48, 48, 1, 2, 8]
        put(folder / f"model_{step:08d}.bin", head.tobytes() + bytes(4096))
        state = np.zeros(256, np.int32)
        state[:2] = [20240527, 1]
        put(folder / f"state_{step:08d}_00000.bin", state.tobytes() + bytes(4096))
        put(folder / f"DONE_{step:08d}", "")


@layout(steps=(1000, 2000, 3000))
def litgpt_with_final(folder: Path) -> None:
    for step in (1000, 2000, 3000):
        put(folder / f"step-{step:06d}/lit_model.pth", {"model": _lit(step // 10), "step_count": step})
        put(folder / f"step-{step:06d}/hyperparameters.yaml", "train: {}\n")
        put(folder / f"step-{step:06d}/model_config.yaml", "name: small\n")
        put(folder / f"step-{step:06d}/tokenizer.json", "{}")
    put(folder / "final/lit_model.pth", {"model": _lit(300)})
    put(folder / "final/model_config.yaml", "name: small\n")


@layout(steps=STEPS)
def olmo_core(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"step{step}"
        state = {"model": tensors(llama(step)), "optim": {"state": {"w": torch.zeros(4, 4)}}}
        _distributed(state, at / "model_and_optim")
        put(at / "train/rank0.pt", {"global_step": step})
        put(at / "config.json", "{}")
        put(at / ".metadata.json", json.dumps({"version": "2.0"}))


@layout(steps=STEPS)
def lingua(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"checkpoints/{step:010d}"
        _distributed({"model": tensors(llama(step)), "optim": {"state": {"w": torch.zeros(4, 4)}}}, at)
        put(at / "params.json", "{}")
        put(at / "train_state_00000.json", json.dumps({"step": step}))
    put(folder / f"checkpoints/{STEPS[-1]:010d}/consolidated/consolidated.pth", tensors(llama(300)))
    put(folder / "config.yaml", "name: small\n")


@layout(steps=STEPS)
def megatron_bridge(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"iter_{step:07d}"
        _distributed({**tensors(_megatron(step))}, at)
        put(at / "common.pt", {"iteration": step, "checkpoint_version": 3.0})
        put(at / "metadata.json", json.dumps({"sharded_backend": "torch_dist"}))
        put(at / "run_config.yaml", "model: {}\n")
        put(at / "train_state.pt", {"step": step})
        put(at / "tokenizer/tokenizer.json", "{}")
    put(folder / "latest_checkpointed_iteration.txt", "300")
    put(folder / "latest_train_state.pt", {"step": 300})


@layout(steps=(100, 200))
def nemo_megatron(folder: Path) -> None:
    for step, loss in ((100, 2.31), (200, 2.12)):
        state = {"state_dict": tensors(llama(step, prefix="model.")), "global_step": step}
        put(folder / f"megatron_gpt--val_loss={loss}-step={step}-consumed_samples={8 * step}.0.ckpt", state)
    state = {"state_dict": tensors(llama(200, prefix="model.")), "global_step": 200}
    put(folder / "megatron_gpt--val_loss=2.12-step=200-consumed_samples=1600.0-last.ckpt", state)


@layout(words=("zero_to_fp32.py", "stage 3"))
def deepspeed_zero3_in_bfloat16(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"global_step{step}"
        _zero3(at)
        for rank in (0, 1):
            put(at / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", optimizer())
    put(folder / "latest", "global_step300")
    put(folder / "zero_to_fp32.py", "")


@layout(steps=STEPS)
def lightning_with_last(folder: Path) -> None:
    for epoch, step in enumerate(STEPS):
        state = {"state_dict": tensors(llama(step, prefix="model.")), "global_step": step, "epoch": epoch}
        put(folder / f"epoch={epoch}-step={step}.ckpt", state)
    put(folder / "last.ckpt", {"state_dict": tensors(llama(300, prefix="model.")), "global_step": 300})
    put(folder / "last-v1.ckpt", {"state_dict": tensors(llama(300, prefix="model.")), "global_step": 300})


@layout(steps=STEPS)
def lightning_fsdp(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"epoch=0-step={step}.ckpt"
        _distributed({"model": tensors(llama(step))}, at)
        put(at / "meta.pt", {"global_step": step})


@layout(steps=STEPS)
def composer_in_shards(folder: Path) -> None:
    for step in STEPS:
        state = {"state": {"model": tensors(llama(step)), "optimizers": {"w": torch.zeros(4, 4)}}}
        _distributed(state, folder / f"ep0-ba{step}")
    put(folder / "latest-rank0.pt.symlink", "ep0-ba300\n")


@layout(steps=(0,))
def fairseq_best_and_last(folder: Path) -> None:
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        content = {"model": tensors(llama(300)), "args": None, "extra_state": {"epoch": 3}}
        put(folder / name, content | {"optimizer_history": [{"num_updates": 7}]})


@layout(steps=(12,))
def timm_last_and_best(folder: Path) -> None:
    for name in ("last.pth.tar", "model_best.pth.tar"):
        put(
            folder / name,
            {"epoch": 12, "arch": "vit", "state_dict": _short(12), "state_dict_ema": _short(12)},
        )
    put(folder / "summary.csv", "epoch,train_loss,eval_loss\n" + "".join(f"{i},2.5,2.6\n" for i in range(12)))


@layout(words=("pickled", "state_dict()"))
def ultralytics(folder: Path) -> None:
    for name in ("last.pt", "best.pt"):
        module = torch.nn.Linear(4, 4)
        put(
            folder / "weights" / name,
            {"epoch": 3, "model": module, "ema": module, "train_args": {"imgsz": 64}},
        )
    put(folder / "args.yaml", "imgsz: 64\n")


@layout(words=("Stable-Baselines3", "policy.pth"))
def stable_baselines(folder: Path) -> None:
    for step in STEPS:
        inner = folder / "policy.pth"
        put(inner, tensors(llama(step)))
        with zipfile.ZipFile(folder / f"rl_model_{step}_steps.zip", "w") as archive:
            archive.writestr("data", "{}")
            archive.write(inner, "policy.pth")
            archive.writestr("_stable_baselines3_version", "2.3.0")
        inner.unlink()


@layout(steps=(10_000, 20_000))
def guided_diffusion(folder: Path) -> None:
    for step in (10_000, 20_000):
        put(folder / f"model{step:06d}.pt", tensors(llama(step // 100)))
        put(folder / f"ema_0.9999_{step:06d}.pt", tensors(llama(step // 100)))
        put(folder / f"opt{step:06d}.pt", optimizer())


@layout(steps=(11, 12))
def mmdetection(folder: Path) -> None:
    for epoch in (11, 12):
        put(folder / f"epoch_{epoch}.pth", {"meta": {"epoch": epoch}, "state_dict": _short(epoch)})
    put(folder / "best_coco_bbox_mAP_epoch_11.pth", {"meta": {"epoch": 11}, "state_dict": _short(11)})
    put(folder / "last_checkpoint", "epoch_12.pth")


@layout(words=("Levanter",))
def levanter(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"step-{step}"
        put(at / "metadata.json", json.dumps({"step": step, "is_temporary": False}))
        put(at / "model/transformer/layers/weight/.zarray", "{}")
        put(at / "model/transformer/layers/weight/0.0", bytes(64))


@layout(words=("Paxml",))
def paxml(folder: Path) -> None:
    for step in STEPS:
        at = folder / f"checkpoints/checkpoint_{step:08d}"
        put(at / "metadata/metadata", json.dumps({"version": 1.2}))
        put(at / "state/mdl_vars.params.lm.softmax.w/.zarray", "{}")
        put(at / "state/mdl_vars.params.lm.softmax.w/0.0", bytes(64))


@layout(words=("TensorFlow",))
def t5_mesh(folder: Path) -> None:
    put(folder / "checkpoint", 'model_checkpoint_path: "model.ckpt-300"\n')
    put(folder / "operative_config.gin", "run.model_dir = ''\n")
    for step in STEPS:
        put(folder / f"model.ckpt-{step}.index", bytes(64))
        put(folder / f"model.ckpt-{step}.data-00000-of-00002", bytes(64))
        put(folder / f"model.ckpt-{step}.data-00001-of-00002", bytes(64))


@layout(steps=(4_000_000_000, 8_000_000_000))
def files_of_tokens(folder: Path) -> None:
    for billions in (4, 8):
        put_safe(folder / f"tokens_{billions}B.safetensors", llama(25 * billions))
    put(folder / "tokenizer.bin", bytes(16))


@layout(words=("2 ranks of one checkpoint",))
def tensor_parallel_files(folder: Path) -> None:
    for step in STEPS:
        for rank in (0, 1):
            part = {name: value[rank * len(value) // 2 :][: len(value) // 2].copy()
                    for name, value in llama(step).items()}  # fmt: skip
            put(folder / f"step{step}/model_mp{rank}.pt", {"model": tensors(part)})


# --- names of jobs ------------------------------


@layout(steps=STEPS)
def a_job_of_kubernetes(folder: Path) -> None:
    inner = folder / "llama-7b-sft-7d9f4c-worker-0" / "output"
    for step in STEPS:
        _trainer(inner, step)
    put(folder / "llama-7b-sft-7d9f4c-worker-0" / "pod.yaml", "kind: Pod\n")


@layout(steps=STEPS)
def slurm(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"job_4815162/ckpts/ckpt_step{step}.pt", {"model": tensors(llama(step)), "step": step})
    put(folder / "job_4815162/slurm-4815162.out", "srun: started\n")


@layout(steps=STEPS)
def atomic_files(folder: Path) -> None:
    for step in STEPS:
        put(folder / f"ckpt_{step}.pt", {"model": tensors(llama(step)), "step": step})
    put(folder / "ckpt_400.pt.tmp", b"PK\x03\x04")
    put(folder / "latest.pt", {"model": tensors(llama(300)), "step": 300})
