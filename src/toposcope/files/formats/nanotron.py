"""Nanotron checkpoints: `model/` has a file for every parameter and rank, which says where it belongs.

A file's name has its rank (`model_weight_pp-rank-0-of-1_tp-rank-1-of-2.safetensors`). Its metadata has the
shape of the whole parameter, and maps slices of the file to slices of the parameter; see `serialize/` in
https://github.com/huggingface/nanotron (checkpoint version 1.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.reader import Facts, TensorInfo, check_rows, check_shape, find, read_json
from toposcope.files.formats.safetensors_file import SafetensorsFile

METADATA = "checkpoint_metadata.json"
"""The file that the first rank writes after its weights."""
WEIGHTS, DATA = "model", "data"
CONFIG = "model_config.json"
# How many folders deep to read: parameter names have fewer parts, and a loop of links must end.
MAX_DEPTH = 16
CONVERTER = "convert it with nanotron's convert_nanotron_to_hf.py"

_FILE = re.compile(
    r"model_(?P<name>(?:(?!-rank-).)+?)"
    r"(?:_pp-rank-(?P<stage>\d+)-of-(?P<stages>\d+)_tp-rank-(?P<rank>\d+)-of-(?P<ranks>\d+))?\.safetensors"
)
_SLICE = re.compile(r"(\d+|None),(\d+|None),(\d+|None)")
_LLAMA = (
    (re.compile(r"^model\.token_position_embeddings\.pp_block\.token_embedding\."), "model.embed_tokens."),
    (re.compile(r"^model\.decoder\.(\d+)\.pp_block\.attn\."), r"model.layers.\1.self_attn."),
    (re.compile(r"^model\.decoder\.(\d+)\.pp_block\."), r"model.layers.\1."),
    (re.compile(r"^model\.final_layer_norm\.pp_block\."), "model.norm."),
    (re.compile(r"^model\.lm_head\.pp_block\."), "lm_head."),
)
"""Nanotron's names for its Llama and Qwen -> the names after its own conversion."""

Slices = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """One file: its reader, and which of its slices map to which slices of the whole parameter."""

    file: SafetensorsFile
    pairs: tuple[tuple[Slices, Slices], ...]


class NanotronReader:
    """One nanotron checkpoint, its parameters merged over tensor-parallel ranks.

    Raises
    ------
    SourceError
        When a rank, a pipeline stage or a layer is missing, or a file does not say where it belongs.
    """

    def __init__(self, folder: Folder) -> None:
        self.label = folder.label
        self._facts = _facts(folder)
        self._infos: dict[str, TensorInfo] = {}
        self._pieces: dict[str, tuple[_Piece, ...]] = {}
        files: dict[str, dict[tuple[int, int], SafetensorsFile]] = {}
        sizes: set[tuple[int, int]] = set()
        for place, name, match in _files(folder.sub(WEIGHTS), ()):
            inner = ".".join((*place, match["name"]))
            position = int(match["stage"] or 0), int(match["rank"] or 0)
            if match["rank"]:
                sizes.add((int(match["stages"]), int(match["ranks"])))
            files.setdefault(inner, {})[position] = SafetensorsFile(
                _sub(folder.sub(WEIGHTS), place).open(name)
            )
        if not files:
            raise SourceError(f"{self.label}: its folder {WEIGHTS} contains no weights; fetch it again")
        stages, ranks = sizes.pop() if len(sizes) == 1 else (1, 1)
        if sizes:
            raise SourceError(
                f"{self.label}: its files come from runs with different numbers of ranks; fetch it again"
            )
        self._check_stages({stage for parts in files.values() for stage, _ in parts}, stages)
        for inner, parts in files.items():
            self._add(parameter_name(inner), parts, ranks)
        self._check_layers()

    def _check_stages(self, have: set[int], stages: int) -> None:
        missing = sorted(set(range(stages)) - have)
        if missing:
            raise SourceError(
                f"{self.label}: has no file of pipeline stage {missing[0]} of {stages}; fetch it again"
            )

    def _check_layers(self) -> None:
        layers = self._facts.config.get("num_hidden_layers")
        have = {match[1] for name in self._infos if (match := re.match(r"model\.layers\.(\d+)\.", name))}
        for layer in range(layers if type(layers) is int and have else 0):
            if str(layer) not in have:
                raise SourceError(f"{self.label}: layer {layer} of {layers} is missing; fetch it again")

    def _add(self, name: str, parts: Mapping[tuple[int, int], SafetensorsFile], ranks: int) -> None:
        first = next(iter(parts.values()))
        if DATA not in first.infos():
            raise SourceError(f"{first.label}: has no tensor {DATA!r}; fetch it again")
        info = first.infos()[DATA]
        if "unsharded_shape" not in first.metadata:
            self._infos[name] = TensorInfo(name, info.shape, info.dtype)
            self._pieces[name] = (_Piece(first, ()),)
            return
        have = {rank for _, rank in parts}
        for rank in range(ranks):
            if rank not in have:
                raise SourceError(f"{self.label}: {name!r:.80} lacks its part of rank {rank}; fetch it again")
        shape = check_shape(self.label, name, _shape(first))
        pieces = tuple(_Piece(file, _pairs(file)) for _, file in sorted(parts.items()))
        covered = sum(_size(target, shape) for piece in pieces for _, target in piece.pairs)
        whole = TensorInfo(name, shape, info.dtype)
        if covered != whole.size or any(piece.file.infos()[DATA].dtype != info.dtype for piece in pieces):
            raise SourceError(f"{self.label}: the parts of {name!r:.80} do not cover it; {CONVERTER}")
        self._infos[name], self._pieces[name] = whole, pieces

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every parameter's name, shape and dtype."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one parameter, put together from its ranks."""
        info = find(self._infos, self.label, name)
        pieces = self._pieces[name]
        if not pieces[0].pairs:
            return pieces[0].file.read(DATA)
        whole, filled = np.empty(info.shape, info.dtype), np.zeros(info.shape, dtype=bool)
        for piece in pieces:
            values = piece.file.read(DATA)
            for source_part, target in piece.pairs:
                if values[source_part].shape != whole[target].shape:
                    raise SourceError(f"{piece.file.label}: its slices do not fit; {CONVERTER}")
                whole[target], filled[target] = values[source_part], True
        if not filled.all():
            raise SourceError(f"{self.label}: the parts of {name!r:.80} overlap; {CONVERTER}")
        return whole

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one parameter."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self.read(name)[start:stop]

    def facts(self) -> Facts:
        """Return the step and the model's configuration."""
        return self._facts


def is_nanotron(files: frozenset[str], folders: frozenset[str]) -> bool:
    """Return whether a listing is that of a nanotron checkpoint."""
    return METADATA in files and WEIGHTS in folders


def _facts(folder: Folder) -> Facts:
    content = read_json(folder.open(METADATA))
    metas = content.get("metas") if isinstance(content, dict) else None
    step = metas.get("last_train_step") if isinstance(metas, dict) else None
    if CONFIG not in folder.files():
        raise SourceError(
            f"{folder.label}: has no {CONFIG}, which is written last, so it is incomplete; fetch it again"
        )
    config = read_json(folder.open(CONFIG))
    return Facts(step if type(step) is int else None, config=config if isinstance(config, dict) else {})


def _sub(folder: Folder, place: tuple[str, ...]) -> Folder:
    for part in place:
        folder = folder.sub(part)
    return folder


def _files(folder: Folder, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, re.Match[str]]]:
    """Yield folder, name and parsed name of every weight file under a folder."""
    for name in folder.files():
        if not name.endswith(".safetensors"):
            continue
        match = _FILE.fullmatch(name)
        if match is None:
            raise SourceError(f"{folder.label}/{name}: its distribution over ranks is unknown; {CONVERTER}")
        yield place, name, match
    for name in folder.folders() if len(place) < MAX_DEPTH else ():
        yield from _files(folder.sub(name), (*place, name))


def parameter_name(inner: str) -> str:
    """Return the name of a parameter after nanotron's own conversion of its Llama and Qwen."""
    for pattern, ours in _LLAMA:
        inner = pattern.sub(ours, inner)
    return inner


def _shape(file: SafetensorsFile) -> list[int]:
    text = file.metadata["unsharded_shape"].strip("()")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise SourceError(f"{file.label}: unsharded_shape {text!r:.40} is not a shape; fetch it again")
    return [int(part) for part in parts]


def _pairs(file: SafetensorsFile) -> tuple[tuple[Slices, Slices], ...]:
    text = file.metadata.get("local_global_slices_pairs", "")
    try:
        slice_pairs = tuple(
            (_slices(source_part), _slices(target))
            for source_part, target in (pair.split("#") for pair in text.split(";"))
        )
    except ValueError:
        raise SourceError(f"{file.label}: says {text!r:.60}, which are not slices; {CONVERTER}") from None
    dimensions = len(file.infos()[DATA].shape) if DATA in file.infos() else -1
    if any(
        len(source_part) != dimensions or len(target) != dimensions for source_part, target in slice_pairs
    ):
        raise SourceError(f"{file.label}: its slices have a different number of dimensions; {CONVERTER}")
    return slice_pairs


def _slices(text: str) -> Slices:
    matches = [_SLICE.fullmatch(part) for part in text.split("|")]
    if not all(matches):
        raise ValueError(text)
    numbers = [
        [None if part == "None" else int(part) for part in match.groups()] for match in matches if match
    ]
    if any(step == 0 for *_, step in numbers):
        raise ValueError(text)
    return tuple(slice(*three) for three in numbers)


def _size(target: Slices, shape: tuple[int, ...]) -> int:
    count = 1
    for part, extent in zip(target, shape, strict=True):
        count *= len(range(*part.indices(extent)))
    return count
