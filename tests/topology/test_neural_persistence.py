"""Neural persistence: closed forms, properties, bounds, the null, and the stored values of a study."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import ks_2samp

from toposcope.core.errors import InputError
from toposcope.topology import (
    batched_spanning_tree_weights,
    bottleneck,
    clipped_neural_persistence,
    magnitude_quantile,
    magnitude_variance,
    neural_persistence,
    neural_persistence_bounds,
    shuffled_neural_persistence,
    shuffled_spanning_tree_weights,
    stopping_index,
    weight_diagram,
)

MATRICES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8),
    elements=st.floats(-8, 8, width=16),
)


def test_two_by_two_by_hand():
    W = [[4.0, -2.0], [1.0, 3.0]]  # the tree: 4, 3, 2
    assert weight_diagram(W).death.tolist() == [4.0, 3.0, 2.0, -np.inf]
    assert weight_diagram(W).birth.tolist() == [4.0] * 4
    assert weight_diagram(W).n_vertices == 4
    assert neural_persistence(W, "seed004") == pytest.approx((0 + 0.25 + 0.5) / 3)
    assert neural_persistence(W) == pytest.approx(np.sqrt((0.25**2 + 0.5**2) / 3))
    assert neural_persistence(W, scale=8.0) == pytest.approx(np.sqrt((0.5**2 + 0.625**2 + 0.75**2) / 3))
    assert neural_persistence(W, essential=True) == pytest.approx(np.sqrt((0.25**2 + 0.5**2 + 1) / 3))
    assert neural_persistence(W, p=1) == neural_persistence(W, "seed004")


def test_a_row_is_its_own_tree():
    row = np.random.default_rng(0).standard_normal((1, 40))
    expected = (1 - np.abs(row) / np.abs(row).max()).mean()
    assert neural_persistence(row, "seed004") == pytest.approx(expected)


@pytest.mark.parametrize("value", [0.0, 1.0, -7.5])
def test_constant_magnitudes_have_none(value):
    assert neural_persistence(np.full((4, 6), value)) == 0.0
    assert shuffled_neural_persistence(np.full((4, 6), value), 2, rng=np.random.default_rng(0)).tolist() == [
        0,
        0,
    ]


@pytest.mark.parametrize(("name", "spelling"), [("network", "rieck"), ("matrix", "seed004")])
def test_a_normalization_has_the_value_of_its_older_spelling(name, spelling):
    W = np.random.default_rng(5).normal(size=(7, 4))
    for scale in (None, 9.0):
        value = neural_persistence(W, normalization=name, scale=scale)
        assert value == neural_persistence(W, convention=spelling, scale=scale)
        assert value == neural_persistence(W, spelling, scale)
    powers = {"network": 2.0, "matrix": 1.0}
    assert neural_persistence(W, name) == neural_persistence(W, p=powers[name])


def test_bad_options_meet_one_line():
    W = [[1.0, 2.0]]
    with pytest.raises(InputError, match="normalization 'girrbach' is unknown; use 'network'"):
        neural_persistence(W, "girrbach")
    with pytest.raises(InputError, match="p = 0 must be positive"):
        neural_persistence(W, p=0)
    with pytest.raises(InputError, match="scale = 0 must be positive"):
        neural_persistence(W, scale=0)
    with pytest.raises(InputError, match="scale = 1 is below the largest weight 2"):
        weight_diagram(W, scale=1)
    with pytest.raises(InputError, match=r"q = 1.5 must lie in \[0, 1\]"):
        magnitude_quantile(W, 1.5)
    with pytest.raises(InputError, match="draws = 0 must be at least 1"):
        shuffled_neural_persistence(W, 0, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="scale = -1 must be positive"):
        magnitude_variance(W, scale=-1)


@settings(max_examples=80, deadline=None)
@given(W=MATRICES, data=st.data())
def test_permutation_sign_and_scale_change_nothing(W, data):
    value = neural_persistence(W)
    rows = data.draw(st.permutations(range(W.shape[0])))
    columns = data.draw(st.permutations(range(W.shape[1])))
    assert neural_persistence(W[rows][:, columns]) == value
    assert neural_persistence(W.T) == value
    assert neural_persistence(-W) == value
    assert neural_persistence(4 * W) == value


@settings(max_examples=80, deadline=None)
@given(W=MATRICES, p=st.sampled_from([1.0, 2.0, 3.5]))
def test_it_lies_between_its_bounds(W, p):
    lower, upper = neural_persistence_bounds(W, p=p)
    assert 0 <= lower <= neural_persistence(W, p=p) + 1e-12
    assert neural_persistence(W, p=p) <= upper + 1e-12 <= 1 + 1e-12


@settings(max_examples=40, deadline=None)
@given(W=MATRICES, noise=st.integers(0, 2**32 - 1))
def test_the_diagram_is_stable(W, noise):
    """Its bottleneck distance to a perturbed matrix's diagram is at most the largest change."""
    change = np.random.default_rng(noise).uniform(-0.1, 0.1, W.shape)
    first, second = weight_diagram(W, scale=20), weight_diagram(W + change, scale=20)
    sup = np.abs(np.abs(W + change) - np.abs(W)).max()
    assert np.abs(first.death[:-1] - second.death[:-1]).max() <= sup + 1e-12
    assert bottleneck(first, second) <= sup + 1e-9


def test_network_scale_is_rieck_s_own():
    layers = [np.random.default_rng(k).standard_normal((10, 12)) * (k + 1) for k in range(3)]
    scale = max(float(np.abs(layer).max()) for layer in layers)
    assert neural_persistence(layers[0], scale=scale) > neural_persistence(layers[0])
    assert neural_persistence(layers[2], scale=scale) == neural_persistence(layers[2])


def test_a_batch_names_the_tensor_that_is_bad():
    good, bad = np.ones((3, 3)), np.ones((3, 3))
    bad[0, 1] = np.nan
    with pytest.raises(InputError, match=r"second\[0, 1\] is nan"):
        batched_spanning_tree_weights([good, bad], names=["first", "second"])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_equals_the_widened_matrix(dtype):
    W = np.random.default_rng(0).standard_normal((300, 200)).astype(dtype)
    assert neural_persistence(W) == neural_persistence(W.astype(np.float64))
    assert magnitude_variance(W) == pytest.approx(magnitude_variance(W.astype(np.float64)))
    assert magnitude_quantile(W) == magnitude_quantile(W.astype(np.float64))


def test_the_null_is_that_of_a_full_permutation():
    generator = np.random.default_rng(0)
    W = generator.standard_normal((30, 40)) * np.exp(generator.standard_normal((30, 1)))
    drawn = shuffled_neural_persistence(W, 600, rng=generator)
    permuted = [neural_persistence(generator.permutation(W.ravel()).reshape(W.shape)) for _ in range(600)]
    assert ks_2samp(drawn, permuted, method="asymp").pvalue > 1e-3


def test_structure_lies_outside_its_null_and_noise_inside():
    generator = np.random.default_rng(1)
    noise = generator.standard_normal((60, 80))
    null = shuffled_neural_persistence(noise, 200, rng=generator)
    assert null.min() < neural_persistence(noise) < null.max()
    scaled = noise * np.exp(generator.standard_normal((60, 1)))
    assert (
        abs(neural_persistence(scaled) - shuffled_neural_persistence(scaled, 50, rng=generator).mean()) > 0.05
    )


def test_null_draws_belong_to_their_generators():
    W = np.random.default_rng(2).standard_normal((200, 300)).astype(np.float32)
    one_by_one = [shuffled_spanning_tree_weights(W, rng=[np.random.default_rng(k)])[0] for k in range(3)]
    together = shuffled_spanning_tree_weights(W, rng=[np.random.default_rng(k) for k in range(3)])
    np.testing.assert_array_equal(one_by_one, together)
    assert all(weights[0] == np.abs(W).max() for weights in together)


def test_one_outlier_moves_the_plain_value_and_not_the_clipped_one():
    W = np.random.default_rng(3).standard_normal((100, 120))
    spoilt = W.copy()
    spoilt[4, 5] = 40.0
    assert abs(neural_persistence(spoilt) - neural_persistence(W)) > 0.03
    assert abs(clipped_neural_persistence(spoilt) - clipped_neural_persistence(W)) < 0.005
    assert clipped_neural_persistence(np.zeros((3, 3))) == 0.0


def test_quantile_and_variance_agree_with_numpy():
    W = np.random.default_rng(4).standard_normal((77, 33))
    for q in (0.0, 0.5, 0.99, 0.999, 1.0):
        assert magnitude_quantile(W, q) == np.quantile(np.abs(W), q, method="higher")
    assert magnitude_variance(W) == pytest.approx(np.var(np.abs(W) / np.abs(W).max()))
    assert magnitude_variance(W, scale=2.0) == pytest.approx(np.var(np.abs(W) / 2))


def test_early_stopping_waits_burns_in_and_resets():
    rising = [0.1, 0.2, 0.3, 0.4]
    assert stopping_index(rising, patience=1) is None
    assert stopping_index([*rising, 0.4, 0.4], patience=2) == 5
    assert stopping_index([*rising, 0.4, 0.5, 0.5, 0.5], patience=2) == 7
    assert stopping_index([0.9, 0.1, 0.2, 0.2], patience=1) == 1
    assert stopping_index([0.9, 0.1, 0.2, 0.2], patience=1, burn_in=1) == 3
    assert stopping_index(rising, patience=2, delta=0.15) is None
    assert stopping_index(rising, patience=1, delta=0.15) == 0
    with pytest.raises(InputError, match="patience = 0"):
        stopping_index(rising, patience=0)
    with pytest.raises(InputError, match="burn_in = -1"):
        stopping_index(rising, patience=1, burn_in=-1)


STUDY = {  # run: (first mean, first population std, last mean), as the study's own table prints them
    "tiny-3k": (0.3628, 0.0425, 0.5022),
    "small-7k": (0.4425, 0.0514, 0.4503),
    "med-21k": (0.3737, 0.0637, 0.4176),
    "large-46k": (0.3848, 0.0491, 0.4468),
    "xl-97k": (0.3602, 0.0391, 0.4570),
}


@pytest.mark.parametrize("run", STUDY)
def test_seed004_gives_the_study_s_stored_values(shared_data: Path, run: str):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    files = sorted((shared_data / "seed_runs" / run).glob("step_*.pt"))
    if not files:
        pytest.skip("the study's checkpoints are absent")
    found = []
    for file in (files[0], files[-1]):
        state = torch.load(file, weights_only=True, map_location="cpu")["model_state_dict"]
        weights = [W for name, W in state.items() if W.ndim == 2 and "ln" not in name and "emb" not in name]
        values = [neural_persistence(W, "seed004") for W in weights]
        found.append((np.mean(values), np.std(values)))
    first_mean, first_std, last_mean = STUDY[run]
    assert found[0][0] == pytest.approx(first_mean, abs=5.1e-5)
    assert found[0][1] == pytest.approx(first_std, abs=5.1e-5)
    assert found[1][0] == pytest.approx(last_mean, abs=5.1e-5)
