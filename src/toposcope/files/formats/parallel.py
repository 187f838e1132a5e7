"""Tensor-parallel checkpoints of GPT-NeoX, Megatron-LM and DeepSpeed, merged by a table of known layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.foreign import ForeignFormatError
from toposcope.files.formats.reader import Facts, TensorInfo, check_rows, find
from toposcope.files.formats.torch_reader import TorchReader

COLUMN, ROW, GATED, SAME = (
    "rows are spread",
    "columns are spread",
    "gate and up rows are spread",
    "the same on every rank",
)

LAYOUTS: tuple[tuple[str, str], ...] = (
    ("word_embeddings.weight", COLUMN),
    ("output_layer.weight", COLUMN),
    ("final_linear.weight", COLUMN),
    ("query_key_value.weight", COLUMN),
    ("query_key_value.bias", COLUMN),
    ("linear_qkv.weight", COLUMN),
    ("linear_qkv.bias", COLUMN),
    ("dense_h_to_4h.weight", GATED),
    ("dense_h_to_4h.bias", GATED),
    ("linear_fc1.weight", GATED),
    ("linear_fc1.bias", GATED),
    ("attention.dense.weight", ROW),
    ("self_attention.linear_proj.weight", ROW),
    ("dense_4h_to_h.weight", ROW),
    ("linear_fc2.weight", ROW),
)
"""How a parameter with this name ending is spread over the ranks; other vectors are the same on all."""

_LAYER = re.compile(r"layer_(\d+)-model_(\d+)-model_states\.pt")
_RANK = re.compile(r"mp_rank_(\d+)(?:_model_states\.pt)?")
_FIRST_BLOCK = 2
"""GPT-NeoX numbers the layers of its pipeline: 0 is the embedding, 1 does nothing, 2 is the first block."""

MEGATRON_CONVERTER = "convert it with Megatron-LM's tools/checkpoint/convert.py"
NEOX_CONVERTER = "convert it with GPT-NeoX's tools/ckpts/convert_neox_to_hf.py"
ZERO_CONVERTER = (
    "in the folder above, which DeepSpeed put zero_to_fp32.py into, run "
    "python zero_to_fp32.py . OUT --tag {tag}, and name OUT step_N"
)


class ParallelReader:
    """Parameters merged over tensor-parallel ranks; `pieces` maps a name to its reader and name per rank."""

    def __init__(
        self, label: str, pieces: Mapping[str, list[tuple[TorchReader, str]]], facts: Facts, converter: str
    ) -> None:
        self.label = label
        self._pieces, self._facts, self._converter = pieces, facts, converter
        self._gated = bool(facts.config.get("swiglu"))
        self._layouts = {name: self._layout(name, parts) for name, parts in pieces.items()}
        self._infos = {name: self._merged(name, parts) for name, parts in pieces.items()}

    def _layout(self, name: str, parts: list[tuple[TorchReader, str]]) -> str:
        layout = next((layout for end, layout in LAYOUTS if name.endswith(end)), None)
        if layout is None:
            dimensions = len(parts[0][0].infos()[parts[0][1]].shape)
            if dimensions > 1 and len(parts) > 1 and not name.endswith("position_embeddings.weight"):
                raise SourceError(
                    f"{self.label}: how {name!r:.80} is spread over {len(parts):,} ranks is not known; "
                    f"{self._converter}"
                )
            layout = SAME
        return COLUMN if layout == GATED and not self._gated else layout

    def _merged(self, name: str, parts: list[tuple[TorchReader, str]]) -> TensorInfo:
        infos = [reader.infos()[inner] for reader, inner in parts]
        first, layout = infos[0], self._layouts[name]
        axis = 1 if layout == ROW else 0
        rest = {
            info.shape[:axis] + info.shape[axis + 1 :] if layout != SAME else info.shape for info in infos
        }
        if (
            len(rest) > 1
            or len({info.dtype for info in infos}) > 1
            or (layout != SAME and len(first.shape) <= axis)
        ):
            raise SourceError(
                f"{self.label}: the ranks' shapes of {name!r:.80} do not fit together; {self._converter}"
            )
        shape = list(first.shape)
        if layout != SAME:
            shape[axis] = sum(info.shape[axis] for info in infos)
        return TensorInfo(name, tuple(shape), first.dtype)

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every merged parameter's name, shape and dtype."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one parameter, merged over its ranks."""
        find(self._infos, self.label, name)
        parts = [reader.read(inner) for reader, inner in self._pieces[name]]
        layout = self._layouts[name]
        if len(parts) == 1 or layout == SAME:
            if any(part.tobytes() != parts[0].tobytes() for part in parts[1:]):
                raise SourceError(
                    f"{self.label}: {name!r:.80} differs between ranks but should be the same; "
                    f"{self._converter}"
                )
            return parts[0]
        if layout == GATED:
            halves = [np.split(part, 2) for part in parts]
            return np.concatenate([half[0] for half in halves] + [half[1] for half in halves])
        return np.concatenate(parts, axis=1 if layout == ROW else 0)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one merged parameter."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self.read(name)[start:stop]

    def facts(self) -> Facts:
        """Return step and configuration from the first rank."""
        return self._facts


def is_neox(files: frozenset[str], folders: frozenset[str]) -> bool:
    """Return whether a listing is that of a GPT-NeoX checkpoint with one file per layer and rank."""
    return any(_LAYER.fullmatch(name) for name in files)


def is_ranked(files: frozenset[str], folders: frozenset[str]) -> bool:
    """Return whether a listing is that of a checkpoint with one file or folder per rank."""
    return any(name.startswith("mp_rank_") for name in files | folders) or _zero3(list(files))


def open_neox(folder: Folder) -> ParallelReader:
    """Open a GPT-NeoX checkpoint."""
    files: dict[tuple[int, int], str] = {}
    for name in folder.files():
        match = _LAYER.fullmatch(name)
        if match:
            files[int(match[1]), int(match[2])] = name
    ranks = sorted({rank for _, rank in files})
    for layer in sorted({layer for layer, _ in files}):
        for rank in range(ranks[-1] + 1):
            if (layer, rank) not in files:
                raise SourceError(
                    f"{folder.label}: layer {layer} lacks its part of rank {rank}; fetch it again"
                )
    pieces: dict[str, list[tuple[TorchReader, str]]] = {}
    for (layer, _), name in sorted(files.items()):
        reader = TorchReader(folder.open(name))
        for inner in reader.infos():
            pieces.setdefault(_neox_name(layer, inner), []).append((reader, inner))
    return ParallelReader(folder.label, pieces, Facts(), NEOX_CONVERTER)


def _neox_name(layer: int, inner: str) -> str:
    block = inner.startswith(("attention.", "mlp.", "input_layernorm", "post_attention_layernorm"))
    return f"layers.{layer - _FIRST_BLOCK}.{inner}" if block else inner


def open_ranks(folder: Folder) -> ParallelReader:
    """Open a Megatron-LM (`mp_rank_00/`) or DeepSpeed (`mp_rank_00_model_states.pt`) checkpoint."""
    names = folder.files() + folder.folders()
    if _zero3(names):
        raise ForeignFormatError(
            f"{folder.label}: its weights are partitioned over the ranks by ZeRO stage 3; "
            + ZERO_CONVERTER.format(tag=folder.label.rstrip("/").rsplit("/", 1)[-1])
        )
    if any(re.fullmatch(r"mp_rank_\d+_\d+", name) for name in names):
        raise SourceError(f"{folder.label}: it is split over pipeline stages; {MEGATRON_CONVERTER}")
    ranked = {int(match[1]): name for name in names if (match := _RANK.fullmatch(name))}
    if sorted(ranked) != list(range(len(ranked))):
        raise SourceError(f"{folder.label}: a rank among {sorted(ranked)} is missing; fetch it again")
    readers = [TorchReader(_rank_file(folder, ranked[rank])) for rank in sorted(ranked)]
    size = readers[0].facts().config.get("tensor_model_parallel_size", len(ranked))
    if str(size) != str(len(ranked)):  # some files state the number as text
        raise SourceError(
            f"{folder.label}: contains {len(ranked):,} of the {size} ranks that saved it; fetch it again"
        )
    names_of = [set(reader.infos()) for reader in readers]
    if any(names_ != names_of[0] for names_ in names_of):
        raise SourceError(f"{folder.label}: its ranks have different parameters; {MEGATRON_CONVERTER}")
    pieces = {name: [(reader, name) for reader in readers] for name in readers[0].infos()}
    return ParallelReader(folder.label, pieces, readers[0].facts(), MEGATRON_CONVERTER)


def _zero3(names: list[str]) -> bool:
    return any(name.endswith("_model_states.pt") and name.startswith("zero_pp_rank") for name in names)


def _rank_file(folder: Folder, name: str) -> Any:
    if name.endswith(".pt"):
        return folder.open(name)
    inner = folder.sub(name)
    weights = [
        file for file in inner.files() if file in ("model_optim_rng.pt", "model_rng.pt", "model_states.pt")
    ]
    if not weights:
        raise SourceError(f"{inner.label}: has no model_optim_rng.pt; {MEGATRON_CONVERTER}")
    return inner.open(weights[0])
