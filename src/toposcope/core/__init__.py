"""Nouns, errors, random numbers, processes, progress and printed tables: what every room may import."""

from __future__ import annotations

WEIGHT_FILES = frozenset(
    {".safetensors", ".npz", ".pt", ".pth", ".ckpt", ".bin", ".th", ".tar"}
    | {".gguf", ".h5", ".hdf5", ".keras", ".onnx", ".msgpack", ".nemo", ".pdparams"}
)
"""Endings of weight files, read or only named: they are not logs, and a folder that holds any is a series."""

LOG_FILES = (".log", ".csv", ".tsv", ".jsonl", ".wandb")
"""Files with these endings in a folder of logs must be logs; others are only reported if they are not."""
