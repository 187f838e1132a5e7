"""The project's own GPT family behind the face of a language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.errors import SourceError
from toposcope.models.pretrained import gradient_arrays
from toposcope.recipes import TrainingRecipe, load_training_recipe
from toposcope.sources.layout import RunFolder

if TYPE_CHECKING:
    import torch

    from toposcope.train.model import GPT, Block
    from toposcope.train.shapes import GPTShape


def recipe_shape(recipe: TrainingRecipe) -> GPTShape:
    """Return the shape of the model that a run's recipe trains."""
    from toposcope.train.shapes import GPTShape

    return GPTShape.of(recipe.models[0], vocabulary=recipe.vocabulary, context=recipe.context)


class RunModel:
    """A checkpoint of a run folder; the recipe gives the shape, its tokenizer or characters the tokens."""

    causal = True

    def __init__(self, folder: RunFolder, weights: Path, *, device: str = "cpu") -> None:
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from toposcope.train.model import GPT

        recipe = load_training_recipe(str(folder.recipe_file))
        shape = recipe_shape(recipe)
        self.device = torch.device(device)
        self.n_layers, self.width = shape.layers, shape.width
        self.vocabulary, self.context = shape.vocabulary, shape.context
        self._encode = _encoder(folder, recipe.tokenizer, recipe.vocabulary)
        self._model: GPT = GPT(shape)
        try:
            self._model.load_state_dict(load_file(weights))
        except (OSError, RuntimeError, SafetensorError) as error:
            raise SourceError(
                f"{weights} does not fit the run's recipe: {str(error).splitlines()[0]}"
            ) from error
        self._model.to(self.device).eval()

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return the token ids of every text, cut at the smaller of `max_length` and the context."""
        length = min(max_length, self.context)
        return [self._encode(text)[:length] for text in texts]

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        """Return all hidden states, the last one after the final norm."""
        model = self._model
        x = model.token_emb(ids) + model.pos_emb.weight[: ids.shape[1]]
        states = [x]
        for block in model.layers:
            x = block(x)
            states.append(x)
        return [*states[:-1], model.ln_f(x)]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return next-token logits through the tied head."""
        return self._model.head(hidden)

    def attentions(self, ids: Sequence[int]) -> list[np.ndarray]:
        """Return the attention weights of one text, (heads, length, length) for each layer."""
        import torch

        found = []
        with torch.inference_mode():
            batch = torch.tensor([list(ids)], device=self.device)
            x = self._model.token_emb(batch) + self._model.pos_emb.weight[: batch.shape[1]]
            for block in self._model.layers:
                found.append(_attention_of(block, x))  # type: ignore[arg-type]
                x = block(x)
        return found

    def gradients(self, windows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the gradient of the mean loss on windows of (batch, time + 1) tokens, by parameter name."""
        import torch

        self._model.loss(torch.as_tensor(windows, dtype=torch.long, device=self.device)).backward()
        return gradient_arrays(self._model)

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


def _encoder(folder: RunFolder, tokenizer: str, vocabulary: int) -> Callable[[str], list[int]]:
    if tokenizer == "characters":
        from toposcope.train.tokens import characters

        return lambda text: characters(text, vocabulary).tolist()
    from tokenizers import Tokenizer

    try:
        trained = Tokenizer.from_file(str(folder.tokenizer_file))
    except Exception as error:  # the library raises bare exceptions
        raise SourceError(f"{folder.tokenizer_file} is not a tokenizer: {error}") from error
    return lambda text: trained.encode(text).ids
