"""The table of formats: how a file or folder is recognised, and which reader opens it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.plugins import brought, spared
from toposcope.core.wording import command
from toposcope.files.blobs import Blob, Folder
from toposcope.files.formats.adapter import bare_adapter, open_adapter
from toposcope.files.formats.distributed import METADATA, DistributedReader
from toposcope.files.formats.foreign import foreign_archive, foreign_file, refusal
from toposcope.files.formats.llama2c_file import Llama2cFile
from toposcope.files.formats.nanotron import NanotronReader, is_nanotron
from toposcope.files.formats.npz_file import NpzFile
from toposcope.files.formats.orbax import OrbaxReader, is_orbax
from toposcope.files.formats.parallel import is_neox, is_ranked, open_neox, open_ranks
from toposcope.files.formats.quantised import dequantised
from toposcope.files.formats.ranks import is_verl, open_verl
from toposcope.files.formats.reader import Facts, Reader, TensorInfo, read_json
from toposcope.files.formats.safetensors_file import SafetensorsFile
from toposcope.files.formats.sharded import from_index, from_shards, is_shard
from toposcope.files.formats.torch_reader import TorchReader
from toposcope.files.labels import tokens_of
from toposcope.files.trainer_state import stated_step

LINK_TEXT = re.compile(rb"\.\./\.\./(?:\.\./)?blobs/[0-9a-f]{40,64}\s*$")
"""The content of a link of the hub's cache that was copied as text, as git and zip do on some systems."""

Names = frozenset[str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A checkpoint that is one file: its suffixes and what opens it."""

    name: str
    suffixes: tuple[str, ...]
    open: Callable[[Blob], Reader]
    looks_right: Callable[[bytes], bool] = lambda head: True


@dataclass(frozen=True, slots=True)
class FolderFormat:
    """A checkpoint that is a folder: how its listing (files, folders) is recognised and what opens it."""

    name: str
    matches: Callable[[Names, Names], bool]
    open: Callable[[Folder], Reader]


FILES: tuple[FileFormat, ...] = (
    FileFormat("safetensors", (".safetensors",), SafetensorsFile),
    FileFormat("npz", (".npz",), NpzFile),
    FileFormat(
        "pytorch",
        (".pt", ".pth", ".ckpt", ".bin", ".th", ".pth.tar", ".pt.tar"),
        TorchReader,
        lambda head: head[:1] in (b"P", b"\x80"),
    ),
    FileFormat("llama2.c", (".bin",), Llama2cFile),
)

GROUP = "toposcope.formats"
"""The entry-point group with which installed packages offer their formats."""

_ADDED: list[FileFormat | FolderFormat] = []

OLMO_CORE = "model_and_optim"
"""The distributed checkpoint's folder inside each OLMo-core step."""

FSDP = "pytorch_model_fsdp_0"
"""The shards' folder inside each checkpoint of transformers or accelerate under FSDP."""

NOT_WEIGHTS = (
    "optimizer",
    "optim",
    "scheduler",
    "rng_state",
    "training_args",
    "scaler",
    "heldout",
    "resume",
    "tok",
    "random_states",
    "recipe_state",
    "train_state",
    "extra_state",
    "dataloader",
    "metadata.",
    "common.pt",
    "train.pt",
    "openvino",
)
"""Prefixes of files that lie beside weights but are not weights: of transformers, accelerate, torchtune,
verl, Megatron-LM and OLMo; and the weights that OpenVINO runs."""


_OPT = re.compile(r"opt\d{6}")
"""The beginning of the file of an optimizer's state beside model010000.pt."""


def add_format(form: FileFormat | FolderFormat) -> None:
    """Register a format in this process; the package's own formats are tried first.

    An installed package offers its formats to every process by the entry points `toposcope.formats`.
    """
    if form not in _ADDED:
        _ADDED.append(form)


@functools.cache
def _installed() -> tuple[FileFormat | FolderFormat, ...]:
    return tuple(brought(GROUP, FileFormat, FolderFormat))


def _further(kind: type[T]) -> tuple[T, ...]:
    return tuple(form for form in (*_installed(), *_ADDED) if isinstance(form, kind))


def _files() -> tuple[FileFormat, ...]:
    return (*FILES, *_further(FileFormat))


def is_weights_file(name: str) -> bool:
    """Return whether a file name is that of a checkpoint's weights; its suffix may be in upper case."""
    suffixes = tuple(suffix for form in _files() for suffix in form.suffixes)
    return name.lower().endswith(suffixes) and not name.startswith(".") and not is_beside_weights(name)


def is_beside_weights(name: str) -> bool:
    """Return whether a name is that of a file or folder that trainers save beside weights."""
    if _OPT.match(name):
        return True
    tokens = tokens_of(name.rsplit(".", 1)[0]) is not None  # tokens_4B.pt, but not tokenizer.bin
    return not tokens and name.lower().startswith(NOT_WEIGHTS)


def open_file(blob: Blob) -> Reader:
    """Open one file as a checkpoint; quantised weights are dequantised where possible."""
    return dequantised(bare_adapter(_open_file(blob)), {})


def open_checkpoint(folder: Folder) -> Reader | None:
    """Open a folder that is one checkpoint in a known form; None if it is not."""
    form = folder_format(folder)
    if form is None:
        return None
    config, step = config_of(folder), stated_step(folder)
    reader = dequantised(form.open(folder), config)
    return Configured(reader, config, step) if config or step is not None else reader


class Configured:
    """A reader with facts from beside its files: `config.json`, and the step in a trainer's state."""

    def __init__(self, inner: Reader, config: Mapping[str, Any], step: int | None) -> None:
        self.label = inner.label
        self._inner, self._config, self._step = inner, config, step

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype."""
        return self._inner.infos()

    def read(self, name: str) -> np.ndarray:
        """Read one tensor."""
        return self._inner.read(name)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        return self._inner.rows(name, start, stop)

    def facts(self) -> Facts:
        """Return what the format knows, with the configuration and the stated step."""
        facts = self._inner.facts()
        step = self._step if facts.step is None else facts.step
        return replace(facts, step=step, config={**self._config, **facts.config})


def _open_file(blob: Blob) -> Reader:
    name = blob.label.rsplit("/", 1)[-1].split("?")[0]
    fitting = [form for form in _files() if name.lower().endswith(form.suffixes)]
    if blob.size == 0 and fitting:
        raise SourceError(f"{blob.label}: is empty (0 bytes); fetch it again")
    head = blob.read(0, min(blob.size, 64)).tobytes()
    if (foreign := foreign_file(name, head)) is not None:
        raise refusal(blob.label, foreign)
    if name.endswith(".zip") and (foreign := foreign_archive(blob)) is not None:
        raise refusal(blob.label, foreign)
    if not fitting:
        suffixes = ", ".join(dict.fromkeys(suffix for form in _files() for suffix in form.suffixes))
        raise SourceError(
            f"{blob.label}: is not in a known format of checkpoints; known are {suffixes}",
            remedy=f"a training log is read by: {command('check', blob.label)}",
        )
    _refuse_stand_ins(blob, head)
    for form in fitting:
        if spared(form.looks_right, False, head):
            return _opened(form, blob)
    return _opened(fitting[-1], blob)


def _opened(form: FileFormat, blob: Blob) -> Reader:
    reader = spared(form.open, None, blob)
    if reader is None:
        raise SourceError(
            f"{blob.label}: the format {form.name} of an installed package failed; correct the package"
        )
    return reader


def _refuse_stand_ins(blob: Blob, head: bytes) -> None:
    """Raise SourceError for files that a failed download leaves in place of a checkpoint."""
    if head.startswith(b"version https://git-lfs"):
        raise SourceError(
            f"{blob.label}: is a Git LFS pointer, not the checkpoint",
            remedy="run git lfs pull in its folder",
        )
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise SourceError(
            f"{blob.label}: is an HTML page (such as a sign-in page), not the checkpoint",
            remedy="sign in or accept its licence, and fetch it again",
        )
    if LINK_TEXT.match(head):
        raise SourceError(
            f"{blob.label}: holds the text of a link to ../../blobs, not the checkpoint",
            remedy="open the model's folder (models--ORG--NAME), or copy it with its links",
        )


def _has(*wanted: str) -> Callable[[Names, Names], bool]:
    return lambda files, folders: all(name in files for name in wanted)


def _single(name: str) -> FolderFormat:
    return FolderFormat(name, _has(name), lambda folder: _open_file(folder.open(name)))


def _index(name: str) -> FolderFormat:
    return FolderFormat(name, _has(name), lambda folder: from_index(folder, name, _open_file))


def _loose_shards(folder: Folder) -> Reader:
    names = [name for name in folder.files() if is_weights_file(name) and is_shard(name)]
    kinds = [name for name in names if name.lower().endswith(".safetensors")]
    return from_shards(folder, kinds or names, _open_file)


FOLDERS: tuple[FolderFormat, ...] = (
    FolderFormat(
        "adapter",
        lambda files, folders: "adapter_config.json" in files,
        lambda folder: open_adapter(folder, _open_file),
    ),
    _index("model.safetensors.index.json"),
    _single("model.safetensors"),
    _index("pytorch_model.bin.index.json"),
    _single("pytorch_model.bin"),
    FolderFormat(
        "shards without an index",
        lambda files, folders: any(is_weights_file(name) and is_shard(name) for name in files),
        _loose_shards,
    ),
    FolderFormat("distributed", _has(METADATA), DistributedReader),
    FolderFormat(
        "OLMo-core",
        lambda files, folders: OLMO_CORE in folders,
        lambda folder: DistributedReader(folder.sub(OLMO_CORE)),
    ),
    FolderFormat(
        "FSDP shards",
        lambda files, folders: FSDP in folders,
        lambda folder: DistributedReader(folder.sub(FSDP)),
    ),
    FolderFormat("Orbax", is_orbax, OrbaxReader),
    FolderFormat("nanotron", is_nanotron, NanotronReader),
    FolderFormat("GPT-NeoX", is_neox, open_neox),
    FolderFormat("Megatron-LM or DeepSpeed", is_ranked, open_ranks),
    FolderFormat("a file per rank of verl", is_verl, open_verl),
)


def folder_format(folder: Folder) -> FolderFormat | None:
    """Return the format of a folder that is one checkpoint; None if it is not one."""
    files, folders = frozenset(folder.files()), frozenset(folder.folders())
    return next(
        (form for form in (*FOLDERS, *_further(FolderFormat)) if spared(form.matches, False, files, folders)),
        None,
    )


def config_of(folder: Folder) -> dict[str, Any]:
    """Return the model configuration (`config.json`) of a folder; empty when it has none."""
    if "config.json" not in folder.files():
        return {}
    content = read_json(folder.open("config.json"))
    return content if isinstance(content, dict) else {}
