"""Layouts of trainers for images, speech and adapters, as public reports list their folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from layouts import Arrays, Layout, llama, optimizer, put, put_safe, tensors

FURTHER: dict[str, Layout] = {}


def layout(*, steps: tuple[int, ...] = (), words: tuple[str, ...] = ()) -> Any:
    """Register a layout under the name of its function."""

    def register(write: Callable[[Path], None]) -> Callable[[Path], None]:
        FURTHER[write.__name__] = Layout(write, steps, words)
        return write

    return register


def lora(step: int) -> Arrays:
    """Return the matrices of a LoRA as image trainers name them."""
    down, up = llama(step), llama(step + 1)
    name = "lora_unet_down_blocks_0_attentions_0_proj_in"
    return {
        f"{name}.lora_down.weight": down["model.layers.0.self_attn.q_proj.weight"][:4].copy(),
        f"{name}.lora_up.weight": up["model.layers.0.self_attn.q_proj.weight"][:, :4].copy(),
    }


@layout(steps=(500, 1000))
def ai_toolkit(folder: Path) -> None:
    for step in (500, 1000):
        put_safe(folder / f"my_lora_{step:09d}.safetensors", lora(step))
    put_safe(folder / "my_lora.safetensors", lora(100))
    put(folder / "optimizer.pt", optimizer())
    put(folder / "config.yaml", "job: extension\n")


@layout(steps=(500, 1000))
def lora_scripts(folder: Path) -> None:
    for step in (500, 1000):
        put_safe(folder / f"checkpoints/pytorch_lora_weights_step_{step}.safetensors", lora(step))
    put_safe(folder / "pytorch_lora_weights.safetensors", lora(100))


@layout(steps=(300, 600))
def lora_scripts_folders(folder: Path) -> None:
    for step in (300, 600):
        inner = folder / f"checkpoints/step_{step:06d}"
        put_safe(inner / "model.safetensors", llama(step))
        put(inner / "optimizer.pt", optimizer())
        put(inner / "training_state.json", json.dumps({"step": step}))
    put_safe(folder / "pytorch_lora_weights.safetensors", lora(100))


@layout(steps=(500, 1000))
def sd_scripts_steps(folder: Path) -> None:
    for step in (500, 1000):
        put_safe(folder / f"last-step{step:08d}.safetensors", lora(step))
        put_safe(folder / f"last-step{step:08d}-state/model.safetensors", lora(step))
        put(folder / f"last-step{step:08d}-state/optimizer.bin", optimizer())
    put_safe(folder / "last.safetensors", lora(100))


@layout(steps=(1, 2))
def sd_scripts_epochs(folder: Path) -> None:
    for epoch in (1, 2):
        put_safe(folder / f"style-{epoch:06d}.safetensors", lora(epoch * 100))
    put_safe(folder / "style.safetensors", lora(300))


@layout(steps=(10000, 20000))
def coqui(folder: Path) -> None:
    for step in (10000, 20000):
        state = {"config": {}, "model": tensors(llama(step // 100)), "optimizer": optimizer(), "step": step}
        put(folder / f"checkpoint_{step}.pth", state)
    put(folder / "best_model.pth", {"model": tensors(llama(200)), "step": 20000})
    put(folder / "best_model_20000.pth", {"model": tensors(llama(200)), "step": 20000})
    put(folder / "config.json", "{}")


@layout(steps=(0, 1))
def ray_train(folder: Path) -> None:
    trial = folder / "TorchTrainer_2024-01-01/TorchTrainer_ab12c_00000_0_2024-01-01"
    for number in (0, 1):
        put(trial / f"checkpoint_{number:06d}/model.pt", tensors(llama(100 * number + 100)))
        put(trial / f"checkpoint_{number:06d}/.metadata.json", "{}")
    put(trial / "params.json", "{}")
    rows = [{"loss": 3.0 - number, "training_iteration": number + 1} for number in (0, 1)]
    put(trial / "result.json", "".join(json.dumps(row) + "\n" for row in rows))


@layout(words=("MindSpore",))
def mindspore(folder: Path) -> None:
    for step in (1875, 3750):
        put(folder / f"CKP-1_{step}.ckpt", b"\n\x1c\n\x0cconv1.weight\x12\x0c\x08\x06" + bytes(64))
    put(folder / "CKP-graph.meta", b"\n\x05graph")


@layout(steps=(0, 1, 2))
def wenet(folder: Path) -> None:
    for epoch in (0, 1, 2):
        put(folder / f"{epoch}.pt", tensors(llama(100 * epoch + 100)))
        put(folder / f"{epoch}.yaml", f"epoch: {epoch}\nstep: {100 * epoch}\n")
    for name in ("init.pt", "avg_2.pt", "final.pt"):
        put(folder / name, tensors(llama(300)))
    put(folder / "train.yaml", "{}")


@layout(words=("zarr", "Paxml"))
def paxml_in_a_cache(folder: Path) -> None:
    place = folder / "models--org--timeseries"
    inner = place / "snapshots/0123456789abcdef0123456789abcdef01234567/checkpoints/checkpoint_1100000"
    put(place / "refs/main", "0123456789abcdef0123456789abcdef01234567")
    put(inner / "descriptor/descriptor.pbtxt", "x")
    put(inner / "metadata/metadata", "{}")
    put(inner / "state/mdl_vars.params.lm.w/.zarray", "{}")
    put(inner / "state/mdl_vars.params.lm.w/0.0", bytes(64))


@layout(steps=(0,))
def nnunet(folder: Path) -> None:
    for name in ("checkpoint_best.pth", "checkpoint_latest.pth"):
        state: dict[str, Any] = {"network_weights": tensors(llama(100)), "optimizer_state": optimizer()}
        put(folder / "fold_0" / name, state | {"current_epoch": 51, "init_args": {}, "trainer_name": "x"})
    put(folder / "fold_0/progress.png", b"\x89PNG")


@layout(steps=(60, 120))
def trainer_with_exports(folder: Path) -> None:
    for step in (60, 120):
        put_safe(folder / f"checkpoint-{step}/model.safetensors", llama(step))
        put(folder / f"checkpoint-{step}/config.json", "{}")
    put(folder / "unsloth.Q4_K_M.gguf", b"GGUF\x03" + bytes(32))
    put(folder / "onnx/model.onnx", b"\x08\x07" + bytes(32))
    put(folder / "onnx/model.onnx_data", bytes(32))


@layout(steps=(0,))
def hub_folder_with_exports(folder: Path) -> None:
    put_safe(folder / "model.safetensors", llama(100))
    put(folder / "config.json", "{}")
    put(folder / "flax_model.msgpack", b"\x82\xa6params\x81\xa1w\xc7" + bytes(64))
    put(folder / "rust_model.ot", bytes(32))
    put(folder / "64.tflite", b"\x1c\x00\x00\x00TFL3" + bytes(32))
    put(folder / "coreml/model.mlpackage/Data/com.apple.CoreML/model.mlmodel", bytes(32))
    put(folder / "openvino/openvino_model.bin", bytes(64))
    put(folder / "openvino/openvino_model.xml", "<net/>")


@layout(steps=(100, 200))
def tuned_in_stages(folder: Path) -> None:
    for step in (100, 200):
        put_safe(folder / f"sft/checkpoint-{step}/model.safetensors", llama(step))
        put(folder / f"sft/checkpoint-{step}/rng_state.pth", optimizer())
    put_safe(folder / "sft/final_merged/model.safetensors", llama(200))
    put(folder / "sft/runs/Jan01/events.out.tfevents.1", b"")
