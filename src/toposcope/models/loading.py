"""Opens the model of a checkpoint: a run folder, a model folder, or a revision of the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError, SourceError
from toposcope.core.types import Checkpoint
from toposcope.core.wording import command, option
from toposcope.models._pretrained import TransformersModel, config_and_tokenizer
from toposcope.models.gpt import GPTModel, recipe_shape
from toposcope.recipes import TrainingRecipe, load_training_recipe
from toposcope.sources.layout import RunFolder, is_run_folder

if TYPE_CHECKING:
    import numpy as np

    from toposcope.models.protocol import LanguageModel
    from toposcope.sources import Series


@dataclass(frozen=True, slots=True)
class ModelLoader:
    """Opens the model of a checkpoint; `tokenizer` is a folder to use if the model has none.

    `recipe` defines the architecture for files that contain only weights; such models read characters.
    """

    tokenizer: Path | None = None
    device: str = "cpu"
    half: bool = False
    recipe: TrainingRecipe | None = None

    @contextmanager
    def model(self, series: Series, checkpoint: Checkpoint) -> Iterator[LanguageModel]:
        """Yield the model of a checkpoint of a series; what was fetched for it is removed at the end.

        Without `tokenizer`, `device` and `half` it has its own tokenizer, on the CPU, in float32.

        Raises
        ------
        SourceError
            When the checkpoint contains only weights and no model that can read text.
        """
        if (module := series.module(checkpoint)) is not None:
            yield model_of(module, tokenizer=self.tokenizer, device=self.device)
        elif self.needs_recipe(checkpoint):
            yield self.of_weights(checkpoint, dict(series.tensors(checkpoint)))
        else:
            with self.open(checkpoint) as model:
                yield model

    @contextmanager
    def open(self, checkpoint: Checkpoint) -> Iterator[LanguageModel]:
        """Yield the model of a checkpoint; what was fetched for it is removed at the end.

        Raises
        ------
        SourceError
            If the checkpoint contains only weights and no model that can read text.
        """
        path, run = local_path(checkpoint), run_folder_of(checkpoint)
        if run is not None:
            yield GPTModel.of_run(run, path, device=self.device)
        elif (path / "config.json").is_file():
            yield self._transformers(path)
        elif checkpoint.uri.startswith("hf://"):
            from toposcope.sources.hub import model_folder

            with model_folder(checkpoint) as folder:
                yield self._transformers(folder)
        else:
            raise _no_model(checkpoint)

    def n_layers(self, checkpoint: Checkpoint) -> int | None:
        """Return how many blocks a checkpoint's model has, without reading its weights.

        None for a checkpoint of the hub, which would have to be fetched first.

        Raises
        ------
        SourceError
            If it contains only weights, or has no tokenizer.
        """
        path, run = local_path(checkpoint), run_folder_of(checkpoint)
        if run is not None:
            return recipe_shape(load_training_recipe(str(run.recipe_file))).layers
        if checkpoint.uri.startswith("hf://"):
            return None
        if not (path / "config.json").is_file():
            raise _no_model(checkpoint)
        return int(config_and_tokenizer(path, tokenizer=self._tokenizer_of(path))[0].num_hidden_layers)

    def needs_recipe(self, checkpoint: Checkpoint) -> bool:
        """Return whether a checkpoint is a local file of only weights for which there is a recipe."""
        path = local_path(checkpoint)
        return self.recipe is not None and path.is_file() and run_folder_of(checkpoint) is None

    def of_weights(self, checkpoint: Checkpoint, tensors: Mapping[str, np.ndarray]) -> LanguageModel:
        """Return the recipe's model whose parameters have the shapes of these tensors.

        Raises
        ------
        SourceError
            When none of its models has.
        """
        assert self.recipe is not None
        return GPTModel.of_weights(self.recipe, tensors, checkpoint.uri, device=self.device)

    def _transformers(self, folder: Path) -> TransformersModel:
        half = self.half and self.device != "cpu"
        return TransformersModel(folder, tokenizer=self._tokenizer_of(folder), half=half, device=self.device)

    def _tokenizer_of(self, folder: Path) -> Path | None:
        return self.tokenizer or _tokenizer_near(folder)


def local_path(checkpoint: Checkpoint) -> Path:
    """Return the file or folder of a checkpoint on this machine."""
    return Path(checkpoint.uri.removeprefix("file://"))


def run_folder_of(checkpoint: Checkpoint) -> RunFolder | None:
    """Return the run folder in which a checkpoint lies; None if it is not in one."""
    path = local_path(checkpoint)
    in_run = path.suffix == ".safetensors" and is_run_folder(path.parent.parent)
    return RunFolder(path.parent.parent) if in_run else None


def _no_model(checkpoint: Checkpoint) -> SourceError:
    return SourceError(
        f"{checkpoint.uri} contains weights but no model; representations need a run folder or a folder with "
        f"config.json; {command('landscape')} also takes {option('recipe')}"
    )


def model_of(module: object, *, tokenizer: Path | None = None, device: str = "cpu") -> LanguageModel:
    """Return a copy of a module in memory as a language model: one of the GPT family, or of transformers.

    Without a tokenizer the model reads token ids only.

    Raises
    ------
    InputError
        When it is neither.
    """
    import copy

    from toposcope.training.model import GPT

    if isinstance(module, GPT):
        return GPTModel(copy.deepcopy(module), device=device)
    if type(module).__module__.startswith("transformers."):
        return TransformersModel.of_module(copy.deepcopy(module), tokenizer=tokenizer, device=device)
    raise InputError(
        f"a {type(module).__name__} is not a language model of a known kind; give a GPT of toposcope "
        "or a "
        "model of transformers, or measure its weights alone"
    )


def _tokenizer_near(folder: Path) -> Path | None:
    """Return the series' own folder if the tokenizer is there and not beside each step."""
    if (folder / "tokenizer.json").is_file() or not (folder.parent / "tokenizer.json").is_file():
        return None
    return folder.parent
