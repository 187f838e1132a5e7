"""The table of dialects: which logs are known, the most specific first."""

from __future__ import annotations

from toposcope.logs.dialects import (
    boxes,
    build_nanogpt,
    columns,
    folders,
    json_files,
    json_text,
    litgpt,
    llmc,
    megatron,
    modded_nanogpt,
    nanogpt,
    olmo,
    plain_text,
    progress_bar,
    rwkv,
    tables,
    torchtitan,
    trackio,
    transformers,
    verl,
    wandb,
)
from toposcope.logs.dialects.dialect import FileDialect, FolderDialect, TextDialect

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
    plain_text.DIALECT,
    columns.DIALECT,
)
FILES: tuple[FileDialect, ...] = (
    folders.EVENT_FILE,
    wandb.DIALECT,
    trackio.DIALECT,
    tables.PARQUET,
    json_files.JSONL,
    json_files.JSON,
    tables.CSV,
)
FOLDERS: tuple[FolderDialect, ...] = (folders.TENSORBOARD, folders.MLFLOW, folders.WANDB_FOLDER)
