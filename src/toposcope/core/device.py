"""The device on which a model runs, checked before a model is opened."""

from __future__ import annotations

import importlib.util
import re

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.core.wording import option


def require_device(device: str) -> None:
    """Refuse a device that this machine does not have, before a model is opened.

    Raises
    ------
    InputError
        When the device is unknown or not available.
    MissingExtraError
        When PyTorch is not installed, because no model can run without it.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", "train")
    if device == "cpu":  # without the import of torch, which takes seconds
        return
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise InputError("unknown device", argument="device", value=device, remedy="use cpu, cuda or cuda:1")
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            "not available on this machine",
            argument="device",
            value=device,
            remedy=f"use {option('device')} cpu",
        )
