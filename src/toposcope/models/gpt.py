"""The project's own GPT family with the interface of a language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.errors import InputError, SourceError
from toposcope.models.protocol import module_digest, next_token_losses
from toposcope.recipes import TrainingRecipe, load_training_recipe
from toposcope.sources.layout import RunFolder

if TYPE_CHECKING:
    import torch

    from toposcope.training.model import GPT, Block
    from toposcope.training.shapes import GPTShape


def recipe_shape(recipe: TrainingRecipe) -> GPTShape:
    """Return the shape of the model that a run's recipe trains."""
    from toposcope.training.shapes import GPTShape

    return GPTShape.in_recipe(recipe.models[0], recipe)


class GPTModel:
    """A model of the project's own family; without `encode` it reads token ids only."""

    causal = True

    def __init__(
        self, module: GPT, encode: Callable[[str], Sequence[int]] | None = None, *, device: str = "cpu"
    ) -> None:
        import torch

        shape = module.shape
        self.device = torch.device(device)
        self.n_layers, self.width = shape.layers, shape.width
        self.vocabulary, self.context, self.last_only = shape.vocabulary, shape.context, shape.last_only
        self._encode = encode
        self._model = module.to(self.device).eval()

    @classmethod
    def of_run(cls, folder: RunFolder, weights: Path, *, device: str = "cpu") -> GPTModel:
        """Open a checkpoint of a run folder; its recipe defines the shape and the tokenizer.

        Raises
        ------
        SourceError
            If the weights do not fit the recipe's model.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from toposcope.training.model import GPT

        recipe = load_training_recipe(str(folder.recipe_file))
        module = GPT(recipe_shape(recipe))
        try:
            module.load_state_dict(load_file(weights))
        except (OSError, RuntimeError, SafetensorError) as error:
            raise SourceError(
                f"{weights} does not fit the run's recipe: {str(error).splitlines()[0]}",
                remedy="train the run again",
            ) from error
        return cls(module, _encoder(folder, recipe.tokenizer, recipe.vocabulary), device=device)

    @classmethod
    def of_weights(
        cls, recipe: TrainingRecipe, tensors: Mapping[str, np.ndarray], label: str, *, device: str = "cpu"
    ) -> GPTModel:
        """Return the model of a recipe whose parameters have the shapes of `tensors`.

        Raises
        ------
        SourceError
            If none of its models has, or the recipe's tokenizer is made in training.
        """
        import torch

        from toposcope.training.model import GPT
        from toposcope.training.shapes import HEAD, GPTShape, parameter_shapes

        if recipe.tokenizer != "characters":
            raise SourceError(
                f"{label}: the recipe {recipe.name} reads subwords but has no tokenizer; correct the recipe"
            )
        shapes = {name: value.shape for name, value in tensors.items() if name != HEAD}
        for model in recipe.models:
            shape = GPTShape.in_recipe(model, recipe)
            if dict(parameter_shapes(shape)) == shapes:
                module = GPT(shape)
                given = {name: torch.tensor(value) for name, value in tensors.items()}
                module.load_state_dict(given, strict=False)  # without a head where it is tied
                return cls(module, _characters(recipe.vocabulary), device=device)
        names = ", ".join(model.name for model in recipe.models)
        raise SourceError(
            f"{label} does not have the shapes of any model of the recipe ({names}); give its own recipe"
        )

    @property
    def module(self) -> GPT:
        """The module whose parameters the model reads."""
        return self._model

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the parameters."""
        return module_digest(self._model)

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return the token ids of every text, cut at the smaller of `max_length` and the context."""
        if self._encode is None:
            raise InputError("this model has no tokenizer; give a Batch of token ids instead of texts")
        length = min(max_length, self.context)
        return [list(self._encode(text))[:length] for text in texts]

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        """Return all hidden states, the last one after the final norm."""
        model = self._model
        x = model.token_emb(ids) + model.pos_emb.weight[: ids.shape[1]]
        states = [x]
        for block in model.layers:
            x = block(x)
            states.append(x)
        return [*states[:-1], model.ln_f(x)]

    def final_states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the features before the head, after the final norm."""
        return self._model.hidden(ids)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return next-token logits through the tied head."""
        return self._model.head(hidden)

    def token_losses(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the loss of every next token in nats, (batch, length - 1); 0 at padding."""
        return next_token_losses(self, ids, mask)

    def token_losses_at(
        self, parameters: Mapping[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return `token_losses` at several parameters at once, (points, batch, length - 1)."""
        from toposcope.models._gpt_batched import token_losses_at

        return token_losses_at(self._model.shape, parameters, ids) * mask[:, 1:]

    def attentions(self, ids: Sequence[int]) -> list[np.ndarray]:
        """Return the attention weights of one text, (heads, length, length) for each layer."""
        import torch

        maps = []
        with torch.inference_mode():
            batch = torch.tensor([list(ids)], device=self.device)
            x = self._model.token_emb(batch) + self._model.pos_emb.weight[: batch.shape[1]]
            for block in self._model.layers:
                maps.append(_attention_of(block, x))  # type: ignore[arg-type]
                x = block(x)
        return maps

    def exchange(self, module: Any) -> None:
        """Read another module of the same class from now on."""
        self._model = module

    def widen(self) -> None:
        """Do nothing: the run's weights are float32."""


def _attention_of(block: Block, x: torch.Tensor) -> np.ndarray:
    import torch

    _, time, width = x.shape
    heads = block.attn.heads
    qkv = block.attn.qkv(block.ln1(x)).view(time, 3, heads, width // heads).permute(1, 2, 0, 3)
    scores = qkv[0] @ qkv[1].transpose(-1, -2) / math.sqrt(width // heads)
    later = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(-1).cpu().numpy()


def _characters(vocabulary: int) -> Callable[[str], list[int]]:
    from toposcope.training.tokens import characters

    return lambda text: characters(text, vocabulary).tolist()


def _encoder(folder: RunFolder, tokenizer: str, vocabulary: int) -> Callable[[str], list[int]]:
    if tokenizer == "characters":
        return _characters(vocabulary)
    from tokenizers import Tokenizer

    try:
        trained = Tokenizer.from_file(str(folder.tokenizer_file))
    except Exception as error:  # the library raises bare exceptions
        raise SourceError(
            f"{folder.tokenizer_file} is not a tokenizer: {error}", remedy="train the run again"
        ) from error
    return lambda text: trained.encode(text).ids
