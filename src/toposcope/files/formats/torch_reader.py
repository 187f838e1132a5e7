"""A PyTorch file as a checkpoint: plain state dicts, training checkpoints, nanoGPT's and Lightning's."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.files.formats._stated_losses import stated_losses
from toposcope.files.formats.foreign import ForeignFormatError, optimizer_alone
from toposcope.files.formats.inert import Record, brief
from toposcope.files.formats.reader import Facts, TensorInfo, check_rows, find
from toposcope.files.formats.torch_file import StoredTensor, TorchArchive, holds_tensors, tensors_of

WEIGHTS = ("model_state_dict", "state_dict", "model", "module", "weights", "params")
"""The keys under which training checkpoints keep their weights, in the order in which they are tried."""

NOT_WEIGHTS = ("optim", "scheduler", "lr_scheduler", "rng", "scaler", "ema_optim")
"""Prefixes of the parts of a training checkpoint that are not weights."""

_FURTHER = re.compile(r"ema|model|state_dict|module|weights|generator|discriminator|teacher|student", re.I)
"""Names of parts that hold weights."""

STEPS = ("step", "iter_num", "global_step", "iteration", "iterations", "steps", "global_steps", "step_count")
TOKENS = ("tokens", "tokens_seen", "num_input_tokens_seen", "consumed_tokens")
CONFIGS = ("model_args", "config", "hyper_parameters", "args")
PARAMETERS = ("n_params", "num_params", "parameters")


class TorchReader:
    """The weights of one PyTorch file; optimiser states and the like are left out."""

    def __init__(self, blob: Blob) -> None:
        self.label = blob.label
        self._archive = TorchArchive(blob)
        self._tensors = tensors_of(self.weights(), self.label)
        if not self._tensors or self._is_optimizer():
            raise self._without_weights()
        self._infos = {name: tensor.info(name) for name, tensor in self._tensors.items()}

    @property
    def tree(self) -> Any:
        """Everything in the file as plain data."""
        return self._archive.tree

    def _is_optimizer(self) -> bool:
        """Return whether the file is the state of one optimizer, as its `state_dict` returns it."""
        return isinstance(self.tree, Mapping) and {"state", "param_groups"} <= set(self.tree)

    def _without_weights(self) -> SourceError:
        """Return the error for a file that holds no weights as data."""
        if self._is_optimizer() or any(_is_named(key, ("optim",)) for key in _keys(self.tree)):
            return optimizer_alone(self.label)
        parts = [self.tree.get(key) for key in WEIGHTS] if isinstance(self.tree, Mapping) else [self.tree]
        module = next((part for part in parts if isinstance(part, Record)), None)
        # A hostile symbol can be a structure without an end to its text: `brief` has one.
        if module is not None and brief(module.symbol).startswith("__torch__."):
            return ForeignFormatError(
                f"{self.label}: is a TorchScript module, whose code is not run; "
                "save torch.jit.load(FILE).state_dict() with torch.save"
            )
        if module is not None:
            return ForeignFormatError(
                f"{self.label}: a whole module was pickled ({brief(module.symbol)}), and its code "
                "is not run; load it where it was written and save model.state_dict()"
            )
        return SourceError(f"{self.label}: contains no tensors; check that it is a checkpoint")

    def weights(self) -> Any:
        """Return the part of the file that holds the weights."""
        if isinstance(self.tree, Mapping):
            state = self.tree.get("state")  # Composer's
            inner = state.get("model") if isinstance(state, Mapping) else None
            for part in (*map(self.tree.get, WEIGHTS), inner):
                if isinstance(part, Mapping) and holds_tensors(part):
                    return part
            return {key: part for key, part in self.tree.items() if not _is_named(key, NOT_WEIGHTS)}
        return self.tree

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype, in the file's order."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one tensor."""
        find(self._infos, self.label, name)
        return self._archive.read(self._stored(name))

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self._archive.read(self._stored(name), (start, stop))

    def _stored(self, name: str) -> StoredTensor:
        tensor = self._tensors[name]
        assert isinstance(tensor, StoredTensor)  # `find` refuses others
        return tensor

    def facts(self) -> Facts:
        """Return step, tokens, number of parameters and configuration, if the file has them."""
        tree = self.tree if isinstance(self.tree, Mapping) else {}
        return Facts(
            step=_integer(tree, STEPS),
            epoch=_integer(tree, ("epoch",)),
            metrics=tuple(stated_losses(tree, _integer(tree, STEPS), self._number)),
            tokens=_integer(tree, TOKENS),
            parameters=_integer(tree, PARAMETERS),
            config=_config(tree),
            beside=tuple(key for key in tree if isinstance(key, str) and key.startswith(NOT_WEIGHTS)),
            further=self._further(tree),
        )

    def _further(self, tree: Mapping[Any, Any]) -> tuple[str, ...]:
        """Return the parts that are named as weights are, or as their average, and were not taken."""
        taken = self.weights()
        names = [key for key in tree if isinstance(key, str) and _FURTHER.search(key)]
        there = [key for key in names if not _is_named(key, NOT_WEIGHTS) and tree[key] is not taken]
        whole = not any(part is taken for part in tree.values())  # then every part of the file was taken
        return () if whole else tuple(key for key in there if _holds_weights(tree[key]))

    def _number(self, value: Any) -> float | None:
        """Return a number, or the number in a tensor of one value; None for anything else."""
        if isinstance(value, StoredTensor) and math.prod(value.shape) == 1:
            try:
                value = float(self._archive.read(value).astype(np.float64).reshape(()))
            except SourceError:
                return None
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if plain and math.isfinite(value) else None


def _keys(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, Mapping) else []


def _holds_weights(part: Any) -> bool:
    return isinstance(part, Mapping) and holds_tensors(part)


def _is_named(key: Any, prefixes: tuple[str, ...]) -> bool:
    return isinstance(key, str) and key.startswith(prefixes)


def _integer(tree: Mapping[Any, Any], keys: tuple[str, ...]) -> int | None:
    values = (tree.get(key) for key in keys)
    return next((value for value in values if type(value) is int and 0 <= value < 2**62), None)


def _config(tree: Mapping[Any, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for key in CONFIGS:
        part = tree.get(key)
        if isinstance(part, Record):
            part = part.state
        if isinstance(part, Mapping):
            config |= {
                name: value
                for name, value in part.items()
                if isinstance(name, str) and _plain(value) and name not in config
            }
    return config


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


__all__ = ["StoredTensor", "TorchReader"]
