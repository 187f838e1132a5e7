"""Language models behind one small face: token ids in, hidden states and logits out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toposcope.errors import InputError, MissingExtraError, SourceError

if TYPE_CHECKING:
    import numpy as np
    import torch

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


class LanguageModel(Protocol):
    """What a measurement of representations needs from a model.

    `hidden_states` has `n_layers + 1` entries of shape (batch, length, width): the embeddings, then each
    block, the last one after the final norm.
    """

    n_layers: int
    width: int
    vocabulary: int
    context: int
    causal: bool
    device: torch.device

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return the token ids of every text, cut at `max_length`, without padding."""

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return all hidden states of a right-padded batch."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return next-token logits of final hidden states, (..., width) -> (..., vocabulary)."""

    def widen(self) -> None:
        """Switch to float32, for weights that overflow in half precision."""


class TransformersModel:
    """A causal model or an encoder loaded through transformers from a local folder."""

    def __init__(
        self, folder: Path, *, tokenizer: Path | None = None, half: bool = False, device: str = "cpu"
    ) -> None:
        import torch

        transformers = _transformers()
        config, self._tokenizer = config_and_tokenizer(folder, tokenizer=tokenizer)
        self.causal = _is_causal(config)
        self._kind = transformers.AutoModelForCausalLM if self.causal else transformers.AutoModel
        self._folder = folder
        self.device = torch.device(device)
        try:
            self._model = self._load(torch.float16 if half else torch.float32)
        except (OSError, ValueError, KeyError) as error:
            raise _does_not_load(folder, error) from error
        self.n_layers = int(config.num_hidden_layers)
        self.width = int(config.hidden_size)
        self.vocabulary = int(config.vocab_size)
        positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        self.context = int(positions or 1024)

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return the token ids of every text, cut at the smaller of `max_length` and the context."""
        length = min(max_length, self.context)
        encoded = self._tokenizer(list(texts), truncation=True, max_length=length, padding=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return all hidden states of a right-padded batch."""
        base = self._model.base_model
        # Right padding never reaches an earlier position of a causal model: its mask would change nothing.
        attention = None if self.causal else mask
        return base(input_ids=ids, attention_mask=attention, output_hidden_states=True).hidden_states

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return next-token logits, through the tied or untied output embedding."""
        head = self._model.get_output_embeddings()
        if head is None:
            raise InputError("this model has no output embedding, so it has no perplexity")
        return _adjusted(head(hidden), self._model.config)

    def attentions(self, ids: Sequence[int]) -> list[np.ndarray]:
        """Return the attention weights of one text, (heads, length, length) for each layer."""
        import torch

        self._model.set_attn_implementation("eager")  # the fused kernels never form the weights
        with torch.inference_mode():
            batch = torch.tensor([list(ids)], device=self.device)
            shown = self._model.base_model(input_ids=batch, output_attentions=True).attentions
        return [layer[0].float().cpu().numpy() for layer in shown]

    def gradients(self, rows: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """Return the gradient of the mean loss per token over some texts, by parameter name."""
        total = sum(len(row) - 1 for row in rows)
        self._model.zero_grad()
        for row in rows:
            if len(row) > 1:
                (self._sequence_loss(row) / total).backward()
        return gradient_arrays(self._model)

    def _sequence_loss(self, row: Sequence[int]) -> torch.Tensor:
        import torch
        from torch.nn.functional import cross_entropy

        ids = torch.tensor([list(row)], device=self.device)
        hidden = self._model.base_model(input_ids=ids).last_hidden_state
        return cross_entropy(self.logits(hidden[0, :-1]).float(), ids[0, 1:], reduction="sum")

    def widen(self) -> None:
        """Load the weights again in float32: a weight beyond 65504 is lost in half precision."""
        import torch

        self._model = self._load(torch.float32)

    def _load(self, dtype: torch.dtype) -> Any:
        from toposcope.kernels.torch_products import read_with_onednn

        model = self._kind.from_pretrained(self._folder, local_files_only=True, dtype=dtype)
        model = model.to(self.device).eval()
        read_with_onednn(model)
        return model


def config_and_tokenizer(folder: Path, *, tokenizer: Path | None = None) -> tuple[Any, Any]:
    """Return what a model folder says of itself and how it reads text; its weights are left alone.

    Raises
    ------
    SourceError
        When the folder is no model of transformers, or there is no tokenizer.
    """
    transformers = _transformers()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise _does_not_load(folder, error) from error
    return config, _tokenizer(transformers, tokenizer or folder)


def _does_not_load(folder: Path, error: BaseException) -> SourceError:
    return SourceError(f"{folder} does not load as a transformers model: {_first_line(error)}")


def gradient_arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Return every parameter's gradient as float32, and let go of it."""
    found = {
        name: parameter.grad.float().cpu().numpy()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    module.zero_grad(set_to_none=True)
    return found


def _adjusted(logits: torch.Tensor, config: object) -> torch.Tensor:
    """Return logits as some families scale or cap them after the output embedding."""
    logits = logits * (getattr(config, "logit_scale", None) or 1.0)
    logits = logits / (getattr(config, "logits_scaling", None) or 1.0)
    cap = getattr(config, "final_logit_softcapping", None)
    return logits if not cap else cap * (logits / cap).tanh()


def _is_causal(config: object) -> bool:
    names = getattr(config, "architectures", None) or []
    return any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("transformers", "hf") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def _tokenizer(transformers: Any, folder: Path) -> Any:
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise SourceError(f"{folder} has no tokenizer: give one with --tokenizer FOLDER")
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise SourceError(f"{folder}: its tokenizer does not load: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
