"""The interface of language models: token ids in; hidden states, attention, logits and losses out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import torch


class LanguageModel(Protocol):
    """What every measurement needs of a model, whatever library it is written in.

    `hidden_states` has `n_layers + 1` entries of shape (batch, length, width): the embeddings, then each
    block, the last one after the final norm. Batches are right-padded; `mask` is 1 at tokens and 0 at
    padding. `last_only` says that only the token after the whole context is predicted.
    """

    n_layers: int
    width: int
    vocabulary: int
    context: int
    causal: bool
    last_only: bool
    device: torch.device

    @property
    def module(self) -> torch.nn.Module:
        """The module whose parameters the model reads; replacing them replaces the model."""

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the parameters."""

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return the token ids of every text, cut at `max_length`, without padding."""

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return all hidden states of a right-padded batch."""

    def final_states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the last of the hidden states, (batch, length, width), without keeping the others."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return next-token logits of final hidden states, (..., width) -> (..., vocabulary)."""

    def token_losses(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the loss of every next token in nats, (batch, length - 1); 0 at padding."""

    def token_losses_at(
        self, parameters: Mapping[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return `token_losses` at several parameters, each stacked: (points, ...) to (points, ...)."""

    def attentions(self, ids: Sequence[int]) -> Sequence[np.ndarray]:
        """Return the attention weights of one text, (heads, length, length) for each layer."""

    def exchange(self, module: Any) -> None:
        """Read another module of the same class from now on."""

    def widen(self) -> None:
        """Switch to float32, for weights that overflow in half precision."""


def next_token_losses(model: LanguageModel, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return `LanguageModel.token_losses`, from the model's own final states and logits."""
    from torch.nn.functional import cross_entropy

    logits = widened(model.logits(model.final_states(ids[:, :-1], mask[:, :-1])))
    targets = ids[:, 1:]
    losses = cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), reduction="none")
    return losses.view(targets.shape) * mask[:, 1:]


def with_parameters(
    module: torch.nn.Module,
    parameters: Mapping[str, torch.Tensor],
    function: Callable[..., torch.Tensor],
    *arguments: torch.Tensor,
) -> torch.Tensor:
    """Return `function(*arguments)` with other parameters in `module`, which the function reads."""
    import torch
    from torch.func import functional_call

    class Caller(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *arguments: torch.Tensor) -> torch.Tensor:
            return function(*arguments)

    return functional_call(Caller(), {f"module.{name}": v for name, v in parameters.items()}, arguments)


def mapped_token_losses(
    model: LanguageModel, parameters: Mapping[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return `LanguageModel.token_losses_at` for any module that torch can map over."""
    from torch.func import vmap
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from toposcope.kernels.torch_products import torchs_own_products

    def one(named: dict[str, torch.Tensor]) -> torch.Tensor:
        return with_parameters(model.module, named, model.token_losses, ids, mask)

    with sdpa_kernel(SDPBackend.MATH), torchs_own_products():  # others have no rule for a mapped axis
        return vmap(one)(dict(parameters))


def full_precision(model: LanguageModel) -> LanguageModel:
    """Return an exact float32 copy of a model with 16-bit parameters; other models are returned as they are.

    Differences of a loss between nearby parameters are far below the resolution of 8 or 11 bits.
    """
    short = (p.is_floating_point() and p.element_size() < 4 for p in model.module.parameters())
    if not any(short):
        return model
    copied = copy(model)
    copied.exchange(deepcopy(model.module).float())
    return copied


def widened(logits: torch.Tensor) -> torch.Tensor:
    """Return 16-bit logits in float32, because a softmax needs the range; others as they are."""
    return logits.float() if logits.element_size() < 4 else logits


def module_digest(module: torch.nn.Module) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a module's parameters and their names."""
    import torch

    digest = hashlib.sha256()
    for name, parameter in module.named_parameters():
        digest.update(f"{name}\0{parameter.dtype}{tuple(parameter.shape)}".encode())
        values = parameter.detach().contiguous().reshape(-1).cpu()
        digest.update(values.view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
