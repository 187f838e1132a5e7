"""The states of a checkpoint: from a pass through its model, or saved by an earlier pass."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from toposcope.core.errors import InputError, SourceError
from toposcope.models.loading import ModelLoader
from toposcope.models.protocol import LanguageModel
from toposcope.models.texts import Texts
from toposcope.subjects.representations.forward import Representation, read, resolve_layers
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.saved_states import (
    SavedFacts,
    read_facts,
    read_states,
    save_states,
)
from toposcope.subjects.snapshot import Snapshot


@dataclass(frozen=True)
class StateSource:
    """Provides the states of checkpoints, with one pass per checkpoint for all probes.

    With `keep`, states are written there. If a checkpoint's states are there already, from the same weights
    and texts and read in the same way, its model does not run again. Without a loader there is no model, and
    all states come from `keep`.
    """

    texts: Texts | None
    loader: ModelLoader | None = None
    keep: Path | None = None

    def states(self, snapshot: Snapshot, options: RepresentationOptions) -> Representation:
        """Return the result of one pass, cached while the checkpoint is in use."""
        with self.visit(snapshot, options) as visit:
            return visit.states()

    def visit(self, snapshot: Snapshot, options: RepresentationOptions) -> Visit:
        """Return a visit to a checkpoint, to be entered with `with`."""
        return Visit(self, snapshot, options)


class Visit:
    """One checkpoint, whose model is opened on first use and closed at the end."""

    def __init__(self, source: StateSource, snapshot: Snapshot, options: RepresentationOptions) -> None:
        self._source, self._snapshot, self._options = source, snapshot, options
        self._stack = ExitStack()
        self._model: LanguageModel | None = None

    def __enter__(self) -> Self:
        """Start; nothing is opened yet."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the model and remove what was fetched for it."""
        self._stack.close()

    @property
    def model(self) -> LanguageModel:
        """The checkpoint's model."""
        if self._model is None:
            if self._source.loader is None:
                raise InputError(
                    "attention and labels need the model, which saved states do not contain; measure the "
                    "series itself"
                )
            self._model = self._stack.enter_context(self._snapshot.model(self._source.loader))
        return self._model

    def states(self) -> Representation:
        """Return the pooled states of every chosen layer, and the loss."""
        key = ("states", tuple(self._options.pass_settings().items()))
        return self._snapshot.remember(key, self._read)

    def _read(self) -> Representation:
        if self._source.loader is None:
            return self._from_saved()
        saved = self._saved_of_these_weights()
        if saved is not None:
            return saved
        assert self._source.texts is not None
        layers = resolve_layers(self._options.layers, self.model.n_layers)
        seen = read(self.model, self._source.texts.items, self._options.reading(layers))
        if self._source.keep is not None:
            facts = self._facts(self._source.texts, seen)
            save_states(self._source.keep, self._snapshot.checkpoint, seen.states, facts)
        return seen

    def _saved_of_these_weights(self) -> Representation | None:
        folder, at = self._source.keep, self._snapshot.checkpoint
        if folder is None or self._source.texts is None:
            return None
        try:
            saved = read_facts(folder, at)
        except SourceError:
            return None
        wanted = self._facts(self._source.texts, _NOTHING)
        alike = (saved.content, saved.texts, saved.reading) == (wanted.content, wanted.texts, wanted.reading)
        return _represented(saved, read_states(folder, at)) if alike else None

    def _facts(self, texts: Texts, seen: Representation) -> SavedFacts:
        nll = seen.nll if math.isfinite(seen.nll) else None
        return SavedFacts(
            self._snapshot.content_hash, texts.digest, self._options.pass_settings(),
            self._snapshot.checkpoint.tokens, nll, seen.predicted, seen.notes,
        )  # fmt: skip

    def _from_saved(self) -> Representation:
        folder, at = self._source.keep, self._snapshot.checkpoint
        assert folder is not None
        states = read_states(folder, at)
        choice = self._options.layers
        chosen = tuple(sorted(states)) if choice == "all" else resolve_layers(choice, max(states))
        missing = [layer for layer in chosen if layer not in states]
        if missing:
            have = ", ".join(map(str, sorted(states)))
            raise InputError(
                f"{missing[0]} is not saved in {folder}, which has {have}",
                argument="layers",
                value=choice,
                remedy="choose layers from these",
            )
        few = min(len(values) for values in states.values())
        if self._options.cloud_texts is not None and self._options.cloud_texts > few:
            raise InputError(
                f"{few} texts are saved in {folder}",
                argument="limit",
                value=self._options.cloud_texts,
                remedy="give a smaller number",
            )
        return _represented(read_facts(folder, at), {layer: states[layer] for layer in chosen})


_NOTHING = Representation({}, float("nan"), 0)


def _represented(facts: SavedFacts, states: dict[int, Any]) -> Representation:
    nll = float("nan") if facts.nll is None else facts.nll
    return Representation(states, nll, facts.predicted, facts.notes)
