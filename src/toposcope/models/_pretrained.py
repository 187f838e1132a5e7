"""Models of transformers with the interface of a language model; code in a folder is never run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposcope.core.errors import InputError, MissingExtraError, SourceError
from toposcope.core.wording import command, option
from toposcope.models.protocol import mapped_token_losses, module_digest, next_token_losses

if TYPE_CHECKING:
    import numpy as np
    import torch

_LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Everything is loaded from this machine, without running code from the folder."""

_CAUSAL = ("ForCausalLM", "LMHeadModel")
"""Endings of the names of classes that predict the next token."""

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


class TransformersModel:
    """A causal model or an encoder loaded through transformers from a local folder."""

    last_only = False

    def __init__(
        self, folder: Path, *, tokenizer: Path | None = None, half: bool = False, device: str = "cpu"
    ) -> None:
        import torch

        transformers = _transformers()
        config, text_encoder = config_and_tokenizer(folder, tokenizer=tokenizer)
        kind = transformers.AutoModelForCausalLM if _is_causal(config) else transformers.AutoModel
        self._folder: tuple[Path, Any] | None = (folder, kind)
        self.device = torch.device(device)
        try:
            self._model = self._load(folder, kind, torch.float16 if half else torch.float32)
        except (OSError, ValueError, KeyError) as error:
            raise _does_not_load(folder, error) from error
        self._describe(config, text_encoder, causal=_is_causal(config))

    @classmethod
    def of_module(
        cls, module: Any, *, tokenizer: Path | None = None, device: str = "cpu"
    ) -> TransformersModel:
        """Return a model from one in memory; without a tokenizer it reads only token ids."""
        import torch

        model = cls.__new__(cls)
        model._folder, model.device = None, torch.device(device)
        model._model = module.to(model.device).eval()
        text_encoder = None if tokenizer is None else _tokenizer(_transformers(), tokenizer)
        model._describe(module.config, text_encoder, causal=type(module).__name__.endswith(_CAUSAL))
        return model

    def _describe(self, config: Any, tokenizer: Any, *, causal: bool) -> None:
        self.causal, self._tokenizer = causal, tokenizer
        self.n_layers = int(config.num_hidden_layers)
        self.width = int(config.hidden_size)
        self.vocabulary = int(config.vocab_size)
        positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        self.context = int(positions or 1024)

    @property
    def module(self) -> torch.nn.Module:
        """The module whose parameters the model reads."""
        return self._model

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the parameters."""
        return module_digest(self._model)

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return the token ids of every text, cut at the smaller of `max_length` and the context."""
        if self._tokenizer is None:
            raise InputError("this model has no tokenizer; give a Batch of token ids instead of texts")
        length = min(max_length, self.context)
        encoded = self._tokenizer(list(texts), truncation=True, max_length=length, padding=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def hidden_states(self, ids: torch.Tensor, mask: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return all hidden states of a right-padded batch."""
        base = self._model.base_model
        # Right padding never reaches an earlier position of a causal model: its mask would change nothing.
        attention = None if self.causal else mask
        return base(input_ids=ids, attention_mask=attention, output_hidden_states=True).hidden_states

    def final_states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the last hidden state of a right-padded batch."""
        attention = None if self.causal else mask
        return self._model.base_model(input_ids=ids, attention_mask=attention).last_hidden_state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return next-token logits, through the tied or untied output embedding."""
        head = self._model.get_output_embeddings()
        if head is None:
            raise InputError("this model has no output embedding, so it has no perplexity")
        return _adjusted(head(hidden), self._model.config)

    def token_losses_at(
        self, parameters: Mapping[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return `token_losses` at several parameters at once, (points, batch, length - 1)."""
        return mapped_token_losses(self, parameters, ids, mask)

    def attentions(self, ids: Sequence[int]) -> list[np.ndarray]:
        """Return the attention weights of one text, (heads, length, length) for each layer."""
        import torch

        self._model.set_attn_implementation("eager")  # the fused kernels never form the weights
        with torch.inference_mode():
            batch = torch.tensor([list(ids)], device=self.device)
            shown = self._model.base_model(input_ids=batch, output_attentions=True).attentions
        return [layer[0].float().cpu().numpy() for layer in shown]

    def token_losses(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the loss of every next token in nats, (batch, length - 1); 0 at padding."""
        return next_token_losses(self, ids, mask)

    def exchange(self, module: Any) -> None:
        """Read another module of the same class from now on."""
        self._model = module

    def widen(self) -> None:
        """Load the weights again in float32, because half precision loses weights beyond 65504."""
        import torch

        if self._folder is not None:
            self._model = self._load(*self._folder, torch.float32)

    def _load(self, folder: Path, kind: Any, dtype: torch.dtype) -> Any:
        from toposcope.kernels.torch_products import read_with_onednn

        model = kind.from_pretrained(folder, dtype=dtype, **_LOCAL)
        model = model.to(self.device).eval()
        read_with_onednn(model)
        return model


def config_and_tokenizer(folder: Path, *, tokenizer: Path | None = None) -> tuple[Any, Any]:
    """Return the configuration and the tokenizer of a model folder; its weights are not read.

    Raises
    ------
    SourceError
        When the folder is not a transformers model, needs its own code, or has no tokenizer.
    """
    transformers = _transformers()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **_LOCAL)
    except (OSError, ValueError, KeyError) as error:
        raise _does_not_load(folder, error) from error
    return config, _tokenizer(transformers, tokenizer or folder)


def _does_not_load(folder: Path, error: BaseException) -> SourceError:
    if _wants_code(error):
        return SourceError(
            f"{folder}: its model needs its own code (auto_map in config.json), which is never run: "
            f"save it as a class of transformers, or measure its weights alone: "
            f"{command('weights', 'SERIES', out='STORE')}"
        )
    return SourceError(
        f"{folder} does not load as a transformers model: {_first_line(error)}", remedy="check the folder"
    )


def _wants_code(error: BaseException) -> bool:
    """Return whether transformers refused because it would have to run code from the folder."""
    return "trust_remote_code" in str(error)


def _adjusted(logits: torch.Tensor, config: object) -> torch.Tensor:
    """Return logits, scaled or capped after the output embedding as in some families."""
    logits = logits * (getattr(config, "logit_scale", None) or 1.0)
    logits = logits / (getattr(config, "logits_scaling", None) or 1.0)
    cap = getattr(config, "final_logit_softcapping", None)
    return logits if not cap else cap * (logits / cap).tanh()


def _is_causal(config: object) -> bool:
    names = getattr(config, "architectures", None) or []
    return any(name.endswith(_CAUSAL) for name in names)


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
        raise SourceError(f"{folder} has no tokenizer: give one with {option('tokenizer')} FOLDER")
    if _needs_own_class(transformers, folder):
        raise _tokenizer_code(folder)
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, **_LOCAL)
    except (OSError, ValueError, KeyError) as error:
        if _wants_code(error):
            raise _tokenizer_code(folder) from error
        raise SourceError(
            f"{folder}: its tokenizer does not load: {_first_line(error)}",
            remedy=f"give another with {option('tokenizer')} FOLDER",
        ) from error


def _needs_own_class(transformers: Any, folder: Path) -> bool:
    """Return whether a tokenizer is a class from its folder, which the library would silently replace."""
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        return bool(settings.get("auto_map")) and not hasattr(transformers, str(settings["tokenizer_class"]))
    except (OSError, ValueError, KeyError, AttributeError):
        return False  # said when the library reads it


def _tokenizer_code(folder: Path) -> SourceError:
    return SourceError(
        f"{folder}: its tokenizer needs its own code (auto_map in tokenizer_config.json), which is "
        f"never run: give another with {option('tokenizer')} FOLDER"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
