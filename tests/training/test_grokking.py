from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from toposcope.core.errors import InputError
from toposcope.recipes import load_training_recipe
from toposcope.sources.layout import RunFolder
from toposcope.training import train
from toposcope.training.grokking import fourier_plane, frequency_power, modular_addition


def test_the_table_holds_every_sum_once() -> None:
    recipe = load_training_recipe("grokking", {"vocabulary": 7, "heldout_fraction": 0.5})
    data = modular_addition(recipe)
    rows = np.concatenate([data.train, data.heldout])
    assert {tuple(row) for row in rows.tolist()} == {(a, b, (a + b) % 7) for a in range(7) for b in range(7)}
    assert len(rows) == 49
    assert len(data.heldout) == 24
    assert data.sha256 == modular_addition(recipe).sha256


def test_wrong_settings_are_named() -> None:
    with pytest.raises(InputError, match="context is 3; modular addition reads two numbers"):
        modular_addition(load_training_recipe("grokking", {"context": 3}))
    with pytest.raises(InputError, match=r"heldout_fraction is 0\.01; of 9 sums, none would be left"):
        modular_addition(load_training_recipe("grokking", {"vocabulary": 3, "heldout_fraction": 0.01}))


def test_a_plane_keeps_the_distances_of_a_circle_and_its_frequency() -> None:
    angles = 2 * np.pi * 3 * np.arange(11) / 11
    frame, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))
    circle = 2.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ frame[:2]
    points = fourier_plane(circle + 4.0, 3)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 2.5)
    np.testing.assert_allclose(frequency_power(circle + 4.0), [0, 0, 1, 0, 0], atol=1e-12)


@pytest.mark.slow
def test_it_groks_and_the_embedding_ends_on_circles(tmp_path: Path) -> None:
    """Held-out loss falls long after the training loss, and few frequencies carry the embedding."""
    overrides = {"heldout_fraction": 0.5, "learning_rate": 3e-3, "final_learning_rate": 3e-3, "steps": 1000}
    results = train("grokking", tmp_path, overrides=overrides)
    folder = RunFolder(results[0].folder)
    metrics = pd.concat([pd.read_parquet(path) for *_, path in folder.metrics_parts()])
    kept = metrics[metrics.heldout_loss.notna()]
    learnt = kept.step[kept.loss < 0.1].min()
    understood = kept.step[kept.heldout_loss < 0.2].min()
    assert kept.heldout_loss.max() > 1.0
    assert 2 * learnt < understood < 1000
    share = np.sort(frequency_power(load_file(folder.checkpoint(1000))["token_emb.weight"]))[::-1]
    first = np.sort(frequency_power(load_file(folder.checkpoint(0))["token_emb.weight"]))[::-1]
    assert share[:8].sum() > 0.8
    assert first[:8].sum() < 0.5
