"""Which model a checkpoint is, and how to open it: a run folder, a model folder, a revision of the hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toposcope.errors import SourceError
from toposcope.probes.representations.gpt import RunModel
from toposcope.probes.representations.models import TransformersModel
from toposcope.sources.layout import RunFolder, is_run_folder
from toposcope.types import Checkpoint


@dataclass(frozen=True, slots=True)
class ModelLoader:
    """Opens the model of a checkpoint; `tokenizer` is a folder to use where a model brings none."""

    tokenizer: Path | None = None
    device: str = "cpu"
    half: bool = False

    @contextmanager
    def open(self, checkpoint: Checkpoint) -> Iterator[Any]:
        """Yield the model of a checkpoint; what was fetched for it is removed at the end.

        Raises
        ------
        SourceError
            When the checkpoint holds weights only, and no model that can read text.
        """
        path = Path(checkpoint.uri.removeprefix("file://"))
        if is_run_folder(path.parent.parent) and path.suffix == ".safetensors":
            yield RunModel(RunFolder(path.parent.parent), path, device=self.device)
        elif (path / "config.json").is_file():
            yield self._transformers(path)
        elif checkpoint.uri.startswith("hf://"):
            from toposcope.sources.hub import model_folder

            with model_folder(checkpoint) as folder:
                yield self._transformers(folder)
        else:
            raise SourceError(
                f"{checkpoint.uri} holds weights but no model: representations need a run folder or a folder "
                "with config.json"
            )

    def _transformers(self, folder: Path) -> TransformersModel:
        half = self.half and self.device != "cpu"
        tokenizer = self.tokenizer or _tokenizer_near(folder)
        return TransformersModel(folder, tokenizer=tokenizer, half=half, device=self.device)


def _tokenizer_near(folder: Path) -> Path | None:
    """Return the series' own folder when the tokenizer lies there and not beside each step."""
    if (folder / "tokenizer.json").is_file() or not (folder.parent / "tokenizer.json").is_file():
        return None
    return folder.parent
