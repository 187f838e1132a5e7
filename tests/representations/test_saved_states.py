"""Saved states: the settings with which they were read count, and others are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.presets import preset
from toposcope.subjects.representations.saved_states import SavedFacts, SavedStates, save_states
from toposcope.subjects.representations.study import study_of_saved_states

SAVED = RepresentationOptions(layers="all", length=64, max_tokens=500)


@pytest.fixture
def series(tmp_path: Path) -> SavedStates:
    facts = SavedFacts("c", "t", SAVED.pass_settings(), 100, 3.0, 50, ())
    states = {layer: np.ones((24, 6), np.float32) for layer in (0, 1)}
    save_states(tmp_path, Checkpoint("kept", 0), states, facts)
    return SavedStates(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "last"}, "pooling 'last': the states were saved with mean; leave it out, or measure"),
        ({"length": 32}, "length 32: the states were saved with 64; leave it out, or measure the series"),
        ({"half": True}, "half True: the states were saved with False"),
        ({"cloud_texts": 9}, "cloud_texts 9: it does not work with saved states; give limit instead"),
    ],
)
def test_another_pass_is_refused(series: SavedStates, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        study_of_saved_states(RepresentationOptions(**settings), series)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("settings", [{}, {"length": 64}, {"length": 64, "max_tokens": 500, "layers": "0"}])
def test_defaults_and_saved_values_give_the_saved_pass(series: SavedStates, settings: dict[str, Any]) -> None:
    made = study_of_saved_states(RepresentationOptions(**settings), series, limit=9).options
    assert (made.length, made.max_tokens, made.cloud_texts) == (64, 500, 9)
    assert made.layers == settings.get("layers", "last")


def test_a_preset_may_prefer_another_precision(series: SavedStates) -> None:
    assert study_of_saved_states(preset("seed003"), series).options.half is False
