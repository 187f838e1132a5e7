"""Input is checked here, as a table: what goes in, which function meets it, what one line comes out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import (
    bottleneck,
    check_diagram,
    check_distance_matrix,
    check_matrix,
    check_points,
    components,
    deep_graph_persistence,
    magnitude_quantile,
    magnitude_variance,
    maximum_spanning_tree_weights,
    neural_persistence,
    neural_persistence_bounds,
    rips,
    shuffled_neural_persistence,
    summaries,
    wasserstein,
    weight_diagram,
)

NAN, INF = float("nan"), float("inf")


def holding(value: float, shape: tuple[int, int] = (3, 4), dtype: object = np.float32) -> np.ndarray:
    array = np.ones(shape)
    array[1, 2] = value
    return array.astype(dtype)


def shuffled(W: object) -> np.ndarray:
    return shuffled_neural_persistence(W, 1, rng=np.random.default_rng(0))


ON_MATRICES = [
    check_matrix,
    maximum_spanning_tree_weights,
    weight_diagram,
    neural_persistence,
    neural_persistence_bounds,
    magnitude_quantile,
    magnitude_variance,
    shuffled,
    lambda W: deep_graph_persistence([W]),
]
BAD_MATRICES = {
    "NaN": (holding(NAN), r"\[1, 2\] is nan"),
    "infinity": (holding(INF), r"\[1, 2\] is inf"),
    "minus infinity": (holding(-INF), r"\[1, 2\] is -inf"),
    "NaN in float64": (holding(NAN, dtype=np.float64), "not finite"),
    "NaN in float16": (holding(NAN, dtype=np.float16), r"\[1, 2\] is nan \(1 of 12"),
    "infinity in bfloat16": (holding(INF, dtype=ml_dtypes.bfloat16), r"\[1, 2\] is inf"),
    "NaN in a large matrix": (holding(NAN, (300, 400)), r"\[1, 2\] is nan"),
    "all NaN": (np.full((300, 400), NAN, np.float32), "120,000 of 120,000"),
    "no rows": (np.empty((0, 4)), "empty"),
    "no columns": (np.empty((4, 0)), "empty"),
    "vector": (np.ones(4), "two dimensions"),
    "three axes": (np.ones((2, 2, 2)), "two dimensions"),
    "complex": (np.ones((2, 2), complex), "complex128"),
    "text": ([["a", "b"]], "real numbers"),
    "truth values": (np.ones((2, 2), bool), "bool"),
    "ragged": ([[1.0], [1.0, 2.0]], "ragged"),
    "objects": (np.array([[None]]), "object"),
}


@pytest.mark.sample
@pytest.mark.slow
@pytest.mark.parametrize("function", ON_MATRICES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", BAD_MATRICES)
def test_bad_matrices_meet_one_line(function, case):
    values, message = BAD_MATRICES[case]
    with pytest.raises(InputError, match=message) as caught:
        function(values)
    assert "\n" not in str(caught.value)


ON_POINTS = [check_points, components, lambda X: components(X, metric="cosine"), rips]
BAD_POINTS = {
    "NaN point": (holding(NAN), r"\[1, 2\] is nan"),
    "infinite point": (holding(INF), r"\[1, 2\] is inf"),
    "NaN in bfloat16": (holding(NAN, dtype=ml_dtypes.bfloat16), "is nan"),
    "no points": (np.empty((0, 3)), "no points"),
    "no coordinates": (np.empty((3, 0)), "without coordinates"),
    "one flat point": (np.ones(3), "two dimensions"),
    "complex": (np.ones((2, 2), complex), "complex128"),
}


@pytest.mark.parametrize("function", ON_POINTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", BAD_POINTS)
def test_bad_clouds_meet_one_line(function, case):
    values, message = BAD_POINTS[case]
    with pytest.raises(InputError, match=message) as caught:
        function(values)
    assert "\n" not in str(caught.value)


BAD_DISTANCES = {
    "not square": (np.zeros((2, 3)), "square"),
    "empty": (np.zeros((0, 0)), "empty"),
    "NaN": (np.array([[0, NAN], [NAN, 0]]), "is nan"),
    "negative infinite": (np.array([[0, -INF], [-INF, 0]]), "is -inf"),
    "negative": (np.array([[0, -1.0], [-1.0, 0]]), "negative distance"),
    "diagonal": (np.array([[0, 1.0], [1.0, 0.5]]), r"\[1, 1\] = 0.5"),
    "not symmetric": (np.array([[0, 1.0], [2.0, 0]]), "not symmetric"),
}


@pytest.mark.parametrize("function", [check_distance_matrix, lambda D: rips(D, metric="precomputed")])
@pytest.mark.parametrize("case", BAD_DISTANCES)
def test_bad_distance_matrices_meet_one_line(function, case):
    values, message = BAD_DISTANCES[case]
    with pytest.raises(InputError, match=message):
        function(values)


GOOD = Diagram(0, np.zeros(2), np.array([1.0, 2.0]))
ON_DIAGRAMS = [
    check_diagram,
    summaries,
    lambda D: wasserstein(D, GOOD, order=1, ground="l2"),
    lambda D: wasserstein(GOOD, D, order=2, ground="l2"),
    lambda D: bottleneck(D, GOOD),
]
BAD_DIAGRAMS = {
    "NaN birth": (Diagram(0, np.array([NAN]), np.ones(1)), "birth must be a number"),
    "NaN death": (Diagram(0, np.zeros(1), np.array([NAN])), "death must be a number"),
    "infinite birth": (Diagram(0, np.array([-INF]), np.ones(1)), "birth must be a number"),
    "lengths": (Diagram(0, np.zeros(2), np.ones(3)), "one length"),
    "both directions": (Diagram(0, np.zeros(2), np.array([1.0, -1.0])), "both directions"),
}


@pytest.mark.parametrize("function", ON_DIAGRAMS)
@pytest.mark.parametrize("case", BAD_DIAGRAMS)
def test_bad_diagrams_meet_one_line(function, case):
    values, message = BAD_DIAGRAMS[case]
    with pytest.raises(InputError, match=message):
        function(values)


def test_essential_classes_pass_unless_a_finite_diagram_is_asked_for():
    diagram = check_diagram([[0.0, 1.0], [0.0, INF]])
    assert len(diagram) == 2
    with pytest.raises(InputError, match="1 essential classes"):
        check_diagram(diagram, finite=True)
    with pytest.raises(InputError, match=r"\(n, 2\) array"):
        check_diagram(np.zeros((2, 3)))
    assert len(check_diagram([])) == 0


def test_errors_name_the_tensor():
    with pytest.raises(InputError, match=r"layers\.3\.mlp\.fc1\.weight\[1, 2\] is nan"):
        neural_persistence(holding(NAN), name="layers.3.mlp.fc1.weight")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_floating_types_pass_as_they_are(dtype):
    array = np.ones((2, 3), dtype)
    assert check_matrix(array) is array
    assert check_points(array).dtype == array.dtype


def test_integers_become_float64_and_overflowing_sums_are_finite():
    assert check_matrix(np.ones((2, 2), np.int8)).dtype == np.float64
    largest = np.full((2, 2), np.finfo(np.float32).max, np.float32)
    assert check_matrix(largest) is largest


@pytest.mark.parametrize("value", [1e30, 1e-30, 1e300])
def test_extreme_values_give_finite_answers(value):
    """Other libraries overflow to infinite bars from about 1e19 on."""
    X = value * np.random.default_rng(0).standard_normal((20, 3))
    deaths = components(X).death
    assert np.isfinite(deaths[:-1]).all()
    np.testing.assert_allclose(deaths[:-1] / value, components(X / value).death[:-1], rtol=1e-9)
    assert 0 < neural_persistence(X) < 1


def test_one_and_two_points_have_defined_answers():
    assert components([[3.0, 4.0]]).death.tolist() == [INF]
    assert components([[0.0, 0.0], [3.0, 4.0]]).death.tolist() == [5.0, INF]
    assert components([[1.0, 0.0], [0.0, 2.0]], metric="cosine").death == pytest.approx([1.0, INF])


def test_duplicate_points_keep_the_count():
    assert components(np.zeros((4, 2))).death.tolist() == [0.0, 0.0, 0.0, INF]


def test_cosine_needs_a_direction_and_a_metric_a_name():
    with pytest.raises(InputError, match=r"X\[1\] is a zero row"):
        components([[1.0], [0.0]], metric="cosine")
    with pytest.raises(InputError, match="'manhattan' is unknown"):
        components([[1.0]], metric="manhattan")
