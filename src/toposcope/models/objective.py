"""A model and a batch as one function of the parameters: the loss and its gradient."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from copy import copy, deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toposcope.core.errors import InputError
from toposcope.models._filters import Filters, filters_of
from toposcope.models.batch import Batch
from toposcope.models.protocol import full_precision, with_parameters
from toposcope.sources.names import family_of, place

if TYPE_CHECKING:
    import torch

    from toposcope.models.protocol import LanguageModel

# Largest table of float32 logits of a micro-batch, and most tokens of one: they bound memory.
_LOGIT_BYTES = 64 * 2**20
_TOKENS = 8192


class BatchPart(NamedTuple):
    """A micro-batch: which sequences, ids and mask (sequences, length), scored (sequences, length - 1)."""

    members: list[int]
    ids: torch.Tensor
    mask: torch.Tensor
    scored: torch.Tensor


class Objective:
    r"""The mean loss of a model on a batch, as a function of the parameters.

    .. math:: L(\theta) = \frac{1}{T} \sum_{i} \sum_{t} -\log p_\theta(x_{i,t} \mid x_{i,<t})

    over the T predicted tokens of all sequences i. Vectors are flat tensors of `n_parameters` numbers on the
    model's device, in the order of the module's parameters; a tied parameter counts once. The model's own
    parameters are never changed; for a model in bfloat16 or float16, a copy in float32 is evaluated.

    Parameters
    ----------
    model : LanguageModel
        A causal model.
    batch : Batch
        The tokens.
    tokens_at_once : int, optional
        The size of a micro-batch in padded tokens; by default as many as fit into 64 MiB of logits, at most
        8,192.

    Raises
    ------
    InputError
        If the model is not causal, or a sequence is longer than its context or has a token outside its
        vocabulary.
    """

    def __init__(self, model: LanguageModel, batch: Batch, *, tokens_at_once: int | None = None) -> None:
        _check(model, batch)
        self.model, self.batch = full_precision(model), batch
        self._at_once = tokens_at_once or max(16, min(_TOKENS, _LOGIT_BYTES // (4 * model.vocabulary)))
        self._parameters: dict[str, torch.Tensor] = {
            name: parameter.detach() for name, parameter in self.model.module.named_parameters()
        }
        self._fixed: dict[str, torch.Tensor] = {}

    @property
    def n_parameters(self) -> int:
        """The number of parameters; a tied one counts once."""
        return sum(parameter.numel() for parameter in self._parameters.values())

    @property
    def parameters(self) -> torch.Tensor:
        """The point at which everything is evaluated, flat."""
        return self.flat(self._parameters)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters' names and shapes, in the order of the flat vectors."""
        return {name: tuple(parameter.shape) for name, parameter in self._parameters.items()}

    @property
    def filters(self) -> Filters:
        """The parameters' filters: which weights lead into one output unit."""
        return filters_of(self.model.module)

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the parameters and the batch."""
        import torch

        digest = hashlib.sha256(self.batch.digest.encode())
        for part in (self._parameters, self._fixed):
            for name, value in part.items():
                digest.update(f"{name}\0{value.dtype}".encode())
                digest.update(value.contiguous().reshape(-1).cpu().view(torch.uint8).numpy().data)
            digest.update(b"fixed")
        return digest.hexdigest()[:16]

    def at(self, parameters: torch.Tensor | Mapping[str, torch.Tensor]) -> Objective:
        """Return the same objective at other parameters, flat or by name; the model is not changed.

        Raises
        ------
        InputError
            When they do not have the shapes of the model's parameters.
        """
        named = parameters if isinstance(parameters, Mapping) else self.named(parameters)
        for name, parameter in self._parameters.items():
            if name not in named or tuple(named[name].shape) != tuple(parameter.shape):
                shape_text = tuple(named[name].shape) if name in named else "missing"
                raise InputError(
                    f"parameter {name!r} is {shape_text}, the model's is {tuple(parameter.shape)}: give "
                    f"that shape"
                )
        moved = copy(self)
        moved._parameters = {
            name: named[name].detach().to(parameter.device, parameter.dtype)
            for name, parameter in self._parameters.items()
        }
        return moved

    def block(self, names: Collection[str]) -> Objective:
        """Return the objective as a function of only some parameters; the others stay fixed.

        Raises
        ------
        InputError
            If a name is not a parameter, or no name is given.
        """
        unknown = sorted(set(names) - set(self._parameters))
        if unknown or not names:
            what = f"parameter {unknown[0]!r} is none of them" if unknown else "no parameter is named"
            raise InputError(f"{what}; the objective has {', '.join(list(self._parameters)[:3])}, ...")
        part = copy(self)
        part._parameters = {name: value for name, value in self._parameters.items() if name in names}
        others = {name: value for name, value in self._parameters.items() if name not in names}
        part._fixed = self._fixed | others
        return part

    def layer_blocks(self) -> dict[str, Objective]:
        """Return the objective of each layer's parameters: "layer 0", ...; "outside" has the rest."""
        family = family_of({name: shape for name, shape in self.shapes.items() if len(shape) > 1})
        names: dict[str, list[str]] = {}
        for name in self._parameters:
            layer = place(family, name).layer
            names.setdefault("outside" if layer is None else f"layer {layer}", []).append(name)
        return {label: self.block(layer_names) for label, layer_names in names.items()}

    def named(self, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return a flat vector as views by parameter name.

        Raises
        ------
        InputError
            When it has another number of entries.
        """
        if tuple(vector.shape) != (self.n_parameters,):
            raise InputError(
                f"vector has shape {tuple(vector.shape)}; this objective has {self.n_parameters:,} parameters"
            )
        parts_by_name, start = {}, 0
        for name, parameter in self._parameters.items():
            parts_by_name[name] = vector[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
        return parts_by_name

    def flat(self, named: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return tensors by parameter name as one flat vector."""
        import torch

        return torch.cat([named[name].reshape(-1) for name in self._parameters])

    def loss(self) -> float:
        """Return the mean loss per predicted token, in nats."""
        losses, counts = self.per_sequence_losses(), self.batch.counts
        return float((losses * counts).sum() / counts.sum())

    def per_sequence_losses(self) -> np.ndarray:
        """Return the mean loss per predicted token of every sequence, float64 of shape (sequences,)."""
        import torch

        losses_of_batch = np.empty(len(self.batch))
        with torch.no_grad():
            for part in self.pieces:
                losses = self.call(self._parameters, part).double().sum(1).cpu().numpy()
                losses_of_batch[part.members] = losses / self.batch.counts[part.members]
        return losses_of_batch

    def per_sequence_losses_at(self, points: torch.Tensor) -> np.ndarray:
        """Return every sequence's losses at several flat parameter vectors, from one pass over the batch.

        Parameters
        ----------
        points : tensor of shape (points, parameters)

        Returns
        -------
        float64 array of shape (points, sequences)
        """
        import torch

        stacked, start = {}, 0
        for name, parameter in self._parameters.items():
            stacked[name] = points[:, start : start + parameter.numel()].reshape(
                len(points), *parameter.shape
            )
            start += parameter.numel()
        stacked |= {name: value.expand(len(points), *value.shape) for name, value in self._fixed.items()}
        losses_of_points = np.empty((len(points), len(self.batch)))
        with torch.no_grad():
            for part in self.pieces:
                losses = (self.model.token_losses_at(stacked, part.ids, part.mask) * part.scored).sum(2)
                losses_of_points[:, part.members] = (
                    losses.double().cpu().numpy() / self.batch.counts[part.members]
                )
        return losses_of_points

    def movable(self) -> Movable:
        """Return a copy of the model whose parameters are one flat buffer, for evaluating many points."""
        return Movable(self)

    def gradient(self) -> torch.Tensor:
        """Return the gradient of the loss, flat."""
        return self.flat(self._gradients())

    def gradient_arrays(self) -> dict[str, np.ndarray]:
        """Return the gradient of the loss by name, float32; a parameter that is not read is left out."""
        return {name: values.float().cpu().numpy() for name, values in self._gradients(drop=True).items()}

    def _gradients(self, *, drop: bool = False) -> dict[str, torch.Tensor]:
        import torch

        leaves = self.leaves()
        total: dict[str, torch.Tensor | None] = dict.fromkeys(leaves)
        for part in self.pieces:
            loss = self.call(leaves, part).sum() / self.batch.tokens
            gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            for name, value in zip(leaves, gradients, strict=True):
                if value is not None:
                    before = total[name]
                    total[name] = value if before is None else before + value
        present = {name: value for name, value in total.items() if value is not None}
        return (
            present
            if drop
            else {name: present.get(name, torch.zeros_like(leaf)).detach() for name, leaf in leaves.items()}
        )

    def leaves(self) -> dict[str, torch.Tensor]:
        """Return a copy of the parameters as leaves of a graph; further training does not change them."""
        return {name: value.detach().clone().requires_grad_() for name, value in self._parameters.items()}

    @cached_property
    def pieces(self) -> list[BatchPart]:
        """The micro-batches."""
        return self.micro_batches(self._at_once)

    def micro_batches(self, tokens: int) -> list[BatchPart]:
        """Return the batch in parts of at most `tokens` padded tokens, or of what fits a pass if less."""
        import torch

        parts = []
        for members in self.batch.parts(min(tokens, self._at_once)):
            arrays = (torch.from_numpy(array).to(self.model.device) for array in self.batch.padded(members))
            parts.append(BatchPart(members, *arrays))
        return parts

    def call(self, parameters: Mapping[str, torch.Tensor], part: BatchPart) -> torch.Tensor:
        """Return a micro-batch's losses (sequences, length - 1) at given parameters; 0 where not scored."""
        return self.with_parameters(parameters, self.model.token_losses, part.ids, part.mask) * part.scored

    def with_parameters(
        self,
        parameters: Mapping[str, torch.Tensor],
        function: Callable[..., torch.Tensor],
        *arguments: torch.Tensor,
    ) -> torch.Tensor:
        """Return `function(*arguments)` with `parameters` in the model's module."""
        return with_parameters(self.model.module, self._fixed | dict(parameters), function, *arguments)


class Movable:
    """A copy of a model with its parameters in one flat buffer, so that they are set in a single copy."""

    def __init__(self, objective: Objective) -> None:
        from toposcope.kernels.torch_products import read_with_onednn

        self._objective = objective
        self._model = copy(objective.model)
        module = deepcopy(objective.model.module).requires_grad_(False)
        read_with_onednn(module)
        self._model.exchange(module)
        self._buffer = objective.parameters.clone()
        views = objective.named(self._buffer)
        fixed = objective._fixed
        for name, parameter in module.named_parameters():
            parameter.data = views[name] if name in views else fixed[name].clone()

    def per_sequence_losses(self, point: torch.Tensor) -> np.ndarray:
        """Return the losses of every sequence at a flat parameter vector, float64 of shape (sequences,)."""
        import torch

        batch, pieces = self._objective.batch, self._objective.pieces  # made here: a gradient may need them
        losses_of_batch = np.empty(len(batch))
        with torch.inference_mode():
            self._buffer.copy_(point)
            for part in pieces:
                losses = self._model.token_losses(part.ids, part.mask)
                if batch.last_only:
                    losses = losses * part.scored
                losses_of_batch[part.members] = (
                    losses.sum(1).double().cpu().numpy() / batch.counts[part.members]
                )
        return losses_of_batch


def _check(model: LanguageModel, batch: Batch) -> None:
    if not model.causal:
        raise InputError(
            "this model does not predict the next token, so it has no loss; give a causal language model"
        )
    longest = max(len(row) for row in batch.rows) - 1
    if longest > model.context:
        raise InputError(
            f"a sequence of the batch has {longest:,} tokens before its last one, but the context of the "
            f"model is {model.context}: cut it"
        )
    largest = max(max(row) for row in batch.rows)
    if largest >= model.vocabulary or min(min(row) for row in batch.rows) < 0:
        raise InputError(
            f"the batch has token {largest}, but the vocabulary of the model has {model.vocabulary}; "
            "encode the texts with its own tokenizer"
        )
