"""PEFT adapters: each low-rank pair is read as the weight change that it encodes, such as scale * B A."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, Folder
from toposcope.files.formats.reader import DTYPES, Facts, Reader, TensorInfo, check_rows, find, read_json

_PAIR = re.compile(
    r"(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<side>[ABE])(\.(?!bias$)\w+)?(?:\.weight)?"
)
_F32 = DTYPES["float32"]
PEFT = "base_model."
"""The prefix of module names in PEFT adapters."""
ADAPTER = "LoRA"
"""The name of the plain method, and of an adapter without a configuration."""
MAGNITUDE = ".lora_magnitude_vector"
"""The end of the name of DoRA's vector: the norms of the weights of each output."""
LOW_RANK = ("LORA", "ADALORA")
"""PEFT's types whose change of a weight is a product of two matrices."""
_PROMPTS = {
    "PROMPT_TUNING": "prompt tuning", "PREFIX_TUNING": "prefix tuning", "P_TUNING": "p-tuning",
    "MULTITASK_PROMPT_TUNING": "multitask prompt tuning", "ADAPTION_PROMPT": "an adaption prompt",
}  # fmt: skip
"""PEFT's types that change no weight: they put trained vectors before the input, or before the keys."""


@dataclass(frozen=True, slots=True)
class _Factors:
    """The names of a change's two matrices, and of AdaLoRA's singular values ("" if there are none)."""

    a: str
    b: str
    e: str
    embedding: bool


class AdapterReader:
    """The weight changes of an adapter of low rank, under the names of the weights that they change.

    The change is scale * B A (LoRA, rsLoRA), scale / r * B (E * A) (AdaLoRA). Of DoRA it is the same product,
    which changes the direction of the weights; the vector of their magnitudes is beside it. Parameters that
    the adapter stores in full (`modules_to_save`) and those of other kinds of adapters keep their names and
    values.
    """

    def __init__(self, label: str, inner: Reader, config: Mapping[str, Any]) -> None:
        self.label = label
        self._inner, self._config = inner, config
        self._pairs: dict[str, _Factors] = {}
        self._infos: dict[str, TensorInfo] = {}
        if peft_type(config) in LOW_RANK:
            self._find_pairs()
        else:
            self._infos = dict(inner.infos())

    def _find_pairs(self) -> None:
        inner = self._inner.infos()
        sides: dict[str, dict[str, tuple[str, bool]]] = {}
        for name, info in inner.items():
            match = _PAIR.fullmatch(name)
            if match:
                sides.setdefault(match["module"], {})[match["side"]] = (name, bool(match["embedding"]))
            else:
                self._infos[name] = info
        for module, parts in sides.items():
            if not {"A", "B"} <= set(parts):
                raise SourceError(
                    f"{self.label}: {module!r} has lora_{next(iter(parts))} without its partner; fetch "
                    "it again"
                )
            (a, embedding), (b, _) = parts["A"], parts["B"]
            self._add(f"{module}.weight", _Factors(a, b, parts["E"][0] if "E" in parts else "", embedding))

    def _add(self, name: str, pair: _Factors) -> None:
        shape_a, shape_b = (self._inner.infos()[side].shape for side in (pair.a, pair.b))
        skip = "" if len(shape_a) == len(shape_b) == 2 else "its low-rank pair is not two matrices"
        if not skip and shape_b[1] != shape_a[0]:
            module = name.removesuffix(".weight")
            raise SourceError(
                f"{self.label}: {module!r} pairs shapes {shape_b} and {shape_a}; fetch it again"
            )
        shape = (shape_a[-1], shape_b[0]) if self._flips(pair.embedding) else (shape_b[0], shape_a[-1])
        self._infos[name] = TensorInfo(name, shape, _F32, skip)
        self._pairs[name] = pair

    def _flips(self, embedding: bool) -> bool:
        return embedding or bool(self._config.get("fan_in_fan_out", False))

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
        pair = self._pairs[name]
        a = self._inner.read(pair.a).astype(np.float32)
        b = self._inner.read(pair.b).astype(np.float32)
        with np.errstate(all="ignore"):  # hostile values; the check of matrices reports NaN
            if pair.e:
                a = a * self._inner.read(pair.e).astype(np.float32).reshape(-1, 1)
            change = np.float32(self._scale(name, a.shape[0])) * (b @ a)
        return change.T if self._flips(pair.embedding) else change

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Compute rows `start` to `stop` of one weight's change."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self.read(name)[start:stop]

    def facts(self) -> Facts:
        """Return the adapter's configuration, and which tensors are changes."""
        inner = self._inner.infos()
        ranks = {name: inner[pair.a].shape[0] for name, pair in self._pairs.items() if inner[pair.a].shape}
        return Facts(config={str(key): value for key, value in self._config.items()}, changes=ranks)


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
    match = _PAIR.fullmatch(name)
    return match["side"] if match else ""


def peft_type(config: Mapping[str, Any]) -> str:
    """Return PEFT's type of an adapter by its configuration; "" for a whole model.

    >>> peft_type({"peft_type": "LORA"}), peft_type({"hidden_size": 64}), peft_type({"lora_alpha": 8, "r": 4})
    ('LORA', '', 'LORA')
    """
    stated = config.get("peft_type")
    if stated is None and "lora_alpha" in config and "r" in config:
        return LOW_RANK[0]  # written before PEFT stated the type
    return str(stated) if stated else ""


def is_low_rank(config: Mapping[str, Any]) -> bool:
    """Return whether an adapter changes weights by products of two matrices."""
    return peft_type(config) in LOW_RANK


def method_of(config: Mapping[str, Any]) -> str:
    """Return the name of an adapter's method; "" for a whole model.

    >>> method_of({"peft_type": "LORA", "use_dora": True}), method_of({"peft_type": "PREFIX_TUNING"})
    ('DoRA', 'prefix tuning')
    """
    kind = peft_type(config)
    if kind == "LORA":
        scaled = "rsLoRA" if config.get("use_rslora") else ADAPTER
        return "DoRA" if config.get("use_dora") else scaled
    return "AdaLoRA" if kind == "ADALORA" else _PROMPTS.get(kind, kind)


def is_prompt(config: Mapping[str, Any]) -> bool:
    """Return whether an adapter changes no weight but puts trained vectors before the input."""
    return peft_type(config) in _PROMPTS


def names_adapter(family: str) -> bool:
    """Return whether the family of a run says that its weights are changes of low rank, as `adapted` does.

    >>> names_adapter("DoRA r=4 on org/base"), names_adapter("llama")
    (True, False)
    """
    return family.startswith(tuple(f"{name} r=" for name in (ADAPTER, "rsLoRA", "DoRA", "AdaLoRA")))


def adapted(config: Mapping[str, Any]) -> str:
    """Return the base of an adapter, with its kind and rank; empty for a whole model.

    >>> adapted({"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8})
    'LoRA r=8 on org/base'
    >>> adapted({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4})
    'prompt tuning with 4 virtual tokens on an unnamed base'
    """
    if not (method := method_of(config)):
        return ""
    size = ""
    if is_low_rank(config):
        size = f" r={config.get('init_r' if peft_type(config) == 'ADALORA' else 'r', '?')}"
    elif is_prompt(config) and isinstance(count := config.get("num_virtual_tokens"), int):
        size = f" with {count:,} virtual tokens"
    return f"{method}{size} on {config.get('base_model_name_or_path') or 'an unnamed base'}"


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
