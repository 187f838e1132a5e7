"""The table of dialects: which logs are known, the most specific first."""

from __future__ import annotations

from toposcope.sources.logs import (
    folders,
    json_files,
    json_text,
    litgpt,
    llmc,
    megatron,
    modded_nanogpt,
    nanogpt_log,
    olmo_log,
    plain_text,
    progress_bar,
    tables,
    torchtitan,
    trackio_file,
    transformers_log,
    verl,
    wandb_file,
)
from toposcope.sources.logs.dialect import FileDialect, FolderDialect, TextDialect

TEXTS: tuple[TextDialect, ...] = (
    modded_nanogpt.DIALECT,
    megatron.DIALECT,
    transformers_log.DIALECT,
    litgpt.DIALECT,
    nanogpt_log.DIALECT,
    llmc.DIALECT,
    torchtitan.DIALECT,
    verl.DIALECT,
    olmo_log.DIALECT,
    json_text.DIALECT,
    progress_bar.DIALECT,
    plain_text.DIALECT,
)
FILES: tuple[FileDialect, ...] = (
    folders.EVENT_FILE,
    wandb_file.DIALECT,
    trackio_file.DIALECT,
    tables.PARQUET,
    tables.CSV,
    json_files.JSONL,
    json_files.JSON,
)
FOLDERS: tuple[FolderDialect, ...] = (folders.TENSORBOARD, folders.MLFLOW, folders.WANDB_FOLDER)
