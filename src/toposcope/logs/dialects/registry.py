"""The table of dialects: which logs are known, the most specific first."""

from __future__ import annotations

from toposcope.logs import dialects
from toposcope.logs.dialects import (
    any_loop,
    boxes,
    build_nanogpt,
    columns,
    json_text,
    litgpt,
    llmc,
    megatron,
    modded_nanogpt,
    nanogpt,
    olmo,
    progress_bar,
    rwkv,
    tables,
    torchtitan,
    transformers,
    verl,
)
from toposcope.logs.dialects.dialect import (
    EVENTS,
    SQLITE,
    SWANLAB,
    WANDB,
    FileDialect,
    FolderDialect,
    TextDialect,
)

TEXTS: tuple[TextDialect, ...] = (
    modded_nanogpt.DIALECT,
    megatron.DIALECT,
    transformers.DIALECT,
    litgpt.DIALECT,
    nanogpt.DIALECT,
    llmc.DIALECT,
    torchtitan.DIALECT,
    verl.DIALECT,
    olmo.DIALECT,
    json_text.DIALECT,
    progress_bar.DIALECT,
    build_nanogpt.DIALECT,
    boxes.DIALECT,
    rwkv.DIALECT,
    any_loop.DIALECT,
    columns.DIALECT,
)
FILES: tuple[FileDialect, ...] = (
    FileDialect(
        "TensorBoard", lambda name, head: EVENTS in name, lambda blob: dialects.folders.event_file(blob)
    ),
    FileDialect(
        "W&B",
        lambda name, head: name.endswith(".wandb") or head.startswith(WANDB),
        lambda blob: dialects.wandb.runs(blob),
    ),
    FileDialect(
        "SwanLab",
        lambda name, head: name.endswith(".swanlab") or head.startswith(SWANLAB),
        lambda blob: dialects.swanlab.runs(blob),
    ),
    FileDialect(
        "trackio", lambda name, head: head.startswith(SQLITE), lambda blob: dialects.trackio.runs(blob)
    ),
    tables.PARQUET,
    FileDialect(
        "JSONL", json_text.is_jsonl, lambda blob: dialects.json_files.jsonl(blob), (".jsonl", ".ndjson")
    ),
    FileDialect(
        "JSON",
        json_text.is_json,
        lambda blob: dialects.json_files.json_runs(blob),
        (".json", ".jsonl", ".ndjson"),
    ),
    tables.CSV,
)
FOLDERS: tuple[FolderDialect, ...] = (
    FolderDialect(
        "TensorBoard",
        lambda folder: dialects.folders.is_tensorboard(folder),
        lambda folder: dialects.folders.tensorboard(folder),
    ),
    FolderDialect(
        "MLflow",
        lambda folder: dialects.folders.is_mlflow(folder),
        lambda folder: dialects.folders.mlflow(folder),
    ),
    FolderDialect(
        "W&B",
        lambda folder: dialects.folders.is_wandb(folder),
        lambda folder: dialects.folders.wandb_folder(folder),
    ),
    FolderDialect(
        "SwanLab",
        lambda folder: dialects.folders.is_swanlab(folder),
        lambda folder: dialects.folders.swanlab_folder(folder),
    ),
)
"""A lambda loads the module of a dialect when a file or a folder has been recognised."""
