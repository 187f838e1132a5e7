"""A PyTorch file as a checkpoint: plain state dicts, training checkpoints, nanoGPT's and Lightning's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.files.formats.inert import Record
from toposcope.files.formats.reader import Facts, TensorInfo, check_rows, find
from toposcope.files.formats.torch_file import StoredTensor, TorchArchive, holds_tensors, tensors_of

WEIGHTS = ("model_state_dict", "state_dict", "model", "module", "weights", "params")
"""The keys under which training checkpoints keep their weights, in the order in which they are tried."""

NOT_WEIGHTS = ("optim", "scheduler", "lr_scheduler", "rng", "scaler", "ema_optim")
"""Prefixes of the parts of a training checkpoint that are not weights."""

STEPS = ("step", "iter_num", "global_step", "iteration", "iterations", "steps")
TOKENS = ("tokens", "tokens_seen", "num_input_tokens_seen", "consumed_tokens")
CONFIGS = ("model_args", "config", "hyper_parameters", "args")
PARAMETERS = ("n_params", "num_params", "parameters")


class TorchReader:
    """The weights of one PyTorch file; optimiser states and the like are left out."""

    def __init__(self, blob: Blob) -> None:
        self.label = blob.label
        self._archive = TorchArchive(blob)
        self._tensors = tensors_of(self.weights(), self.label)
        if not self._tensors:
            raise SourceError(f"{blob.label}: contains no tensors; check that it is a checkpoint")
        self._infos = {name: tensor.info(name) for name, tensor in self._tensors.items()}

    @property
    def tree(self) -> Any:
        """Everything in the file as plain data."""
        return self._archive.tree

    def weights(self) -> Any:
        """Return the part of the file that holds the weights."""
        if isinstance(self.tree, Mapping):
            for key in WEIGHTS:
                part = self.tree.get(key)
                if isinstance(part, Mapping) and holds_tensors(part):
                    return part
            return {
                key: part
                for key, part in self.tree.items()
                if not (isinstance(key, str) and key.startswith(NOT_WEIGHTS))
            }
        return self.tree

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype, in the file's order."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one tensor."""
        find(self._infos, self.label, name)
        return self._archive.read(self._tensors[name])

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self._archive.read(self._tensors[name], (start, stop))

    def facts(self) -> Facts:
        """Return step, tokens, number of parameters and configuration, if the file has them."""
        tree = self.tree if isinstance(self.tree, Mapping) else {}
        return Facts(
            step=_integer(tree, STEPS),
            epoch=_integer(tree, ("epoch",)),
            tokens=_integer(tree, TOKENS),
            parameters=_integer(tree, PARAMETERS),
            config=_config(tree),
        )


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
