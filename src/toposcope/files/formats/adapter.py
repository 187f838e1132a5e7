"""PEFT adapters: each low-rank pair is read as the weight change that it encodes, scale * B A (LoRA)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, Folder
from toposcope.files.formats.reader import DTYPES, Facts, Reader, TensorInfo, check_rows, find, read_json

_PAIR = re.compile(r"(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<side>[AB])(\.\w+)?(?:\.weight)?")
_F32 = DTYPES["float32"]
PEFT = "base_model."
"""The prefix of module names in PEFT adapters."""
ADAPTER = "LoRA"
"""The family prefix of a run whose weights are the changes of an adapter."""


class AdapterReader:
    """The weight changes of a LoRA adapter, under the names of the weights that they change.

    Parameters that the adapter stores in full (`modules_to_save`) keep their names and values.
    """

    def __init__(self, label: str, inner: Reader, config: Mapping[str, Any]) -> None:
        self.label = label
        self._inner, self._config = inner, config
        kind = config.get("peft_type", "LORA")
        if kind != "LORA":
            raise SourceError(
                f"{label}: adapters of type {kind!r:.40} cannot be read; merge the adapter into its model "
                "with PEFT"
            )
        self._pairs: dict[str, tuple[str, str, bool]] = {}
        self._infos: dict[str, TensorInfo] = {}
        self._find_pairs()

    def _find_pairs(self) -> None:
        inner = self._inner.infos()
        sides: dict[str, dict[str, tuple[str, bool]]] = {}
        for name, info in inner.items():
            found = _PAIR.fullmatch(name)
            if found:
                sides.setdefault(found["module"], {})[found["side"]] = (name, bool(found["embedding"]))
            elif ".lora_magnitude_vector" not in name:
                self._infos[name] = info
        for module, pair in sides.items():
            if set(pair) != {"A", "B"}:
                raise SourceError(
                    f"{self.label}: {module!r} has lora_{next(iter(pair))} without its partner; fetch "
                    "it again"
                )
            (a, embedding), (b, _) = pair["A"], pair["B"]
            shape_a, shape_b = inner[a].shape, inner[b].shape
            name = f"{module}.weight"
            skip = "" if len(shape_a) == len(shape_b) == 2 else "its low-rank pair is not two matrices"
            if any(other.startswith(f"{module}.lora_magnitude_vector") for other in inner):
                skip = "DoRA rescales the sum of base and change; merge it into its model with PEFT"
            if not skip and shape_b[1] != shape_a[0]:
                raise SourceError(
                    f"{self.label}: {module!r} pairs shapes {shape_b} and {shape_a}; fetch it again"
                )
            shape = (shape_b[0], shape_a[-1]) if not self._flips(embedding) else (shape_a[-1], shape_b[0])
            self._infos[name] = TensorInfo(name, shape, _F32, skip)
            self._pairs[name] = (a, b, embedding)

    def _flips(self, embedding: bool) -> bool:
        return embedding != bool(self._config.get("fan_in_fan_out", False))

    def _scale(self, name: str, rank: int) -> float:
        alpha = self._config.get("lora_alpha", rank)
        module = name.removesuffix(".weight")
        patterns = self._config.get("alpha_pattern") or {}
        for key, value in patterns.items() if isinstance(patterns, dict) else ():
            if module == key or module.endswith("." + key):
                alpha = value
        if not isinstance(alpha, int | float) or not math.isfinite(alpha):
            raise SourceError(
                f"{self.label}: lora_alpha is {alpha!r:.40} in adapter_config.json, which is not a number; "
                "correct it"
            )
        return float(alpha) / (math.sqrt(rank) if self._config.get("use_rslora") else max(rank, 1))

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return the changed weights' names, shapes and dtypes."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Compute one weight's change, or read a parameter that is stored in full."""
        find(self._infos, self.label, name)
        if name not in self._pairs:
            return self._inner.read(name)
        a_name, b_name, embedding = self._pairs[name]
        a = self._inner.read(a_name).astype(np.float32)
        b = self._inner.read(b_name).astype(np.float32)
        with np.errstate(all="ignore"):  # hostile values; the check of matrices reports NaN
            change = np.float32(self._scale(name, a.shape[0])) * (b @ a)
        return change.T if self._flips(embedding) else change

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Compute rows `start` to `stop` of one weight's change."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self.read(name)[start:stop]

    def facts(self) -> Facts:
        """Return the adapter's configuration."""
        return Facts(config={str(key): value for key, value in self._config.items()})


def bare_adapter(reader: Reader) -> Reader:
    """Return a file as an adapter if all its matrices are low-rank pairs; other files unchanged.

    Without `adapter_config.json`, lora_alpha is unknown and the changes are B A.
    """
    infos = reader.infos()
    matrices = [name for name, info in infos.items() if len(info.shape) > 1]
    if not matrices or not all(_PAIR.fullmatch(name) for name in matrices):
        return reader
    ranks = [infos[name].shape[0] for name in matrices if _sides(name) == "A"]
    return AdapterReader(reader.label, reader, {"peft_type": "LORA", "r": max(ranks, default=1)})


def _sides(name: str) -> str:
    found = _PAIR.fullmatch(name)
    return found["side"] if found else ""


def adapted(config: Mapping[str, Any]) -> str:
    """Return the base of an adapter, with its kind and rank; empty for a whole model.

    >>> adapted({"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8})
    'LoRA r=8 on org/base'
    """
    if config.get("peft_type") != "LORA":
        return ""
    return (
        f"{ADAPTER} r={config.get('r', '?')} on {config.get('base_model_name_or_path') or 'an unnamed base'}"
    )


def open_adapter(folder: Folder, open_file: Callable[[Blob], Reader]) -> AdapterReader:
    """Open a folder with `adapter_config.json` and `adapter_model.*`."""
    config = read_json(folder.open("adapter_config.json"))
    if not isinstance(config, dict):
        raise SourceError(f"{folder.label}/adapter_config.json: is not a JSON object; fetch it again")
    names = [name for name in ("adapter_model.safetensors", "adapter_model.bin") if name in folder.files()]
    if not names:
        raise SourceError(
            f"{folder.label}: adapter_model.safetensors is missing beside adapter_config.json; fetch it"
        )
    return AdapterReader(folder.label, open_file(folder.open(names[0])), config)
