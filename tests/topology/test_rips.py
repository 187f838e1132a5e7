"""Vietoris-Rips persistence against closed forms, known answers and independent implementations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ripser import ripser

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import (
    bottleneck,
    pooled_rows,
    rips,
    rips_batch,
    rips_memory,
    subsample,
    summaries,
)
from toposcope.topology.clouds import distance_matrix


def bars(diagram: Diagram) -> np.ndarray:
    """Bars longer than rounding, sorted."""
    pairs = np.column_stack([diagram.birth, diagram.death])
    pairs = pairs[pairs[:, 1] - pairs[:, 0] > 1e-5 * np.maximum(pairs[:, 0], 1e-30)]
    return pairs[np.lexsort(np.round(pairs, 5).T)]


def assert_same(first: list[Diagram], second: list[Diagram]) -> None:
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(bars(one), bars(other), rtol=1e-5)


Compute = Callable[..., list[Diagram]]
BACKENDS: list[Compute] = [partial(rips, backend="native"), partial(rips, backend="gudhi")]


def by_ripser(points: np.ndarray, maxdim: int = 1, thresh: float | None = None) -> list[Diagram]:
    distances = distance_matrix(points)
    limit = min(float(distances.max(axis=1).min()), np.inf if thresh is None else thresh)
    return _diagrams(ripser(distances, maxdim, limit, distance_matrix=True)["dgms"])


def _diagrams(found: list[np.ndarray]) -> list[Diagram]:
    return [Diagram(dim, part[:, 0], part[:, 1]) for dim, part in enumerate(np.float64(p) for p in found)]


def polygon(n: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def subdivided_projective_plane() -> np.ndarray:
    """Distances on the barycentric subdivision of the 6-vertex projective plane: 1 in an edge, else 2."""
    triangles = [
        (0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5), (0, 1, 5),
        (1, 2, 4), (2, 3, 5), (1, 3, 4), (2, 4, 5), (1, 3, 5),
    ]  # fmt: skip
    faces = sorted({face for t in triangles for k in (1, 2, 3) for face in itertools.combinations(t, k)})
    distances = np.full((len(faces), len(faces)), 2.0)
    for (i, one), (j, other) in itertools.product(enumerate(faces), repeat=2):
        if set(one) < set(other) or set(other) < set(one):
            distances[i, j] = 1.0
    np.fill_diagonal(distances, 0.0)
    return distances


@pytest.mark.parametrize("n", [4, 5, 6, 7, 12, 30, 31, 32, 64, 65])
def test_a_polygon_has_one_loop_from_its_side_to_the_chord_over_a_third(n: int) -> None:
    h0, h1 = rips(polygon(n))
    side, chord = 2 * np.sin(np.pi / n), 2 * np.sin(np.pi * np.ceil(n / 3) / n)
    np.testing.assert_allclose(h0.death[:-1], side, rtol=1e-5)
    np.testing.assert_allclose(bars(h1), [[side, chord]], rtol=1e-5)


def test_equidistant_points_merge_together_and_have_no_loop() -> None:
    h0, h1 = rips(np.eye(7))
    np.testing.assert_allclose(h0.death[:-1], np.sqrt(2), rtol=1e-6)
    assert np.isinf(h0.death[-1])
    assert len(h1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("compute", [*BACKENDS, by_ripser])
def test_the_octahedron_encloses_one_void(compute: Compute) -> None:
    _, h1, h2 = compute(np.vstack([np.eye(3), -np.eye(3)]), maxdim=2)
    assert len(h1) == 0
    np.testing.assert_allclose(bars(h2), [[np.sqrt(2), 2.0]], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("field", "loops"), [(2, 1), (3, 0)])
def test_the_projective_plane_shows_its_torsion_over_two_only(field: int, loops: int) -> None:
    _, h1, h2 = rips(subdivided_projective_plane(), maxdim=2, metric="precomputed", field=field)
    assert [bars(h1).tolist(), bars(h2).tolist()] == [[[1.0, 2.0]] * loops] * 2


def test_field_two_and_three_differ_in_dimension_one_alone() -> None:
    plane = subdivided_projective_plane()
    assert len(rips(plane, metric="precomputed")[1]) == 1
    assert len(rips(plane, metric="precomputed", field=3)[1]) == 0


@pytest.mark.parametrize("other", [BACKENDS[1], by_ripser])
@pytest.mark.parametrize("kind", ["gauss", "grid", "repeated", "rounded", "clusters"])
def test_native_agrees_with_other_implementations(kind: str, other: Compute) -> None:
    random = np.random.default_rng(sum(map(ord, kind)))
    for trial in range(25):
        n, d = int(random.integers(4, 45)), int(random.integers(1, 6))
        points = random.standard_normal((n, d))
        if kind == "grid":
            points = random.integers(0, 3, (n, d)).astype(float)
        elif kind == "repeated":
            points = points[random.integers(0, n // 2 + 1, n)]
        elif kind == "rounded":
            points = np.round(points, 1)
        elif kind == "clusters":
            points = 0.1 * points + 5.0 * random.integers(0, 2, (n, 1))
        thresh = None if trial % 2 else float(random.uniform(0.3, 2.5))
        assert_same(rips(points, thresh=thresh, backend="native"), other(points, thresh=thresh))


@pytest.mark.parametrize(("n", "d"), [(150, 3), (300, 40), (500, 8)])
def test_native_agrees_with_gudhi_on_larger_clouds(n: int, d: int) -> None:
    points = np.random.default_rng(n).standard_normal((n, d))
    assert_same(rips(points, backend="native"), rips(points, backend="gudhi"))


@pytest.mark.parametrize(("noise", "circles"), [(0.02, 1), (0.2, 1), (0.0, 2)])
def test_native_agrees_where_loops_live_long(noise: float, circles: int) -> None:
    random = np.random.default_rng(4)
    angle = random.uniform(0, 2 * np.pi, (250, circles))
    points = np.hstack([np.cos(angle), np.sin(angle)])
    points += noise * random.standard_normal(points.shape)
    assert_same(rips(points, backend="native"), rips(points, backend="gudhi"))


@pytest.mark.parametrize("kind", ["gauss", "grid", "repeated", "threshold"])
def test_native_voids_agree_with_gudhi(kind: str) -> None:
    random = np.random.default_rng(sum(map(ord, kind)))
    for _ in range(20):
        n, d = int(random.integers(4, 40)), int(random.integers(2, 8))
        points = random.standard_normal((n, d))
        if kind == "grid":
            points = random.integers(0, 3, (n, d)).astype(float)
        elif kind == "repeated":
            points = points[random.integers(0, n // 2 + 1, n)]
        thresh = float(random.uniform(0.5, 3.0)) if kind == "threshold" else None
        native, reference = (rips(points, 2, thresh=thresh, backend=b) for b in ("native", "gudhi"))
        assert_same(native, reference)


def test_native_voids_agree_with_gudhi_on_a_larger_cloud() -> None:
    points = np.random.default_rng(0).standard_normal((120, 12))
    native = rips(points, maxdim=2)
    assert len(native[2]) > 20
    assert_same(native, rips(points, maxdim=2, backend="gudhi"))


@pytest.mark.parametrize("kind", ["walk", "circle", "sphere", "cauchy"])
def test_voids_agree_with_gudhi_on_clouds_with_a_shape_in_any_order(kind: str) -> None:
    random = np.random.default_rng(7)
    points = random.standard_normal((80, 3))
    if kind == "walk":
        points = points.cumsum(axis=0)
    elif kind == "circle":
        points = polygon(80) + 0.05 * points[:, :2]
    elif kind == "sphere":
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    elif kind == "cauchy":
        points = random.standard_cauchy((80, 3))
    reference = rips(points, 2, backend="gudhi")
    far_first = np.argsort(-distance_matrix(points).sum(axis=1))
    for order in (np.arange(80), far_first):
        assert_same(rips(points[order], 2, backend="native"), reference)


def test_giotto_agrees() -> None:
    gph = pytest.importorskip("gph", reason="giotto-ph is not installed")
    points = np.random.default_rng(0).standard_normal((60, 3))
    assert_same(rips(points, maxdim=2), _diagrams(gph.ripser_parallel(points, maxdim=2)["dgms"]))


clouds = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 3)),
    elements=st.floats(-10, 10).map(lambda x: round(x, 3)),
)


@settings(deadline=None, max_examples=60)
@given(clouds, st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(points: np.ndarray, random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(points)))
    random.shuffle(order)
    assert_same(rips(points), rips(points[order]))


@settings(deadline=None, max_examples=60)
@given(clouds, st.floats(1e-12, 1e12))
def test_scaling_the_points_scales_the_bars(points: np.ndarray, factor: float) -> None:
    for plain, scaled in zip(rips(points), rips(factor * points), strict=True):
        expected = Diagram(plain.dim, factor * plain.birth, factor * plain.death)
        largest = factor * (1.0 + np.abs(points).max())
        assert bottleneck(expected, scaled) <= 1e-5 * largest


@settings(deadline=None, max_examples=60)
@given(clouds, st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_diagrams_move_no_more_than_the_distances_do(points: np.ndarray, seed: int, size: float) -> None:
    moved = points + size * np.random.default_rng(seed).uniform(-1, 1, points.shape)
    change = np.abs(distance_matrix(points) - distance_matrix(moved)).max()
    for one, other in zip(rips(points), rips(moved), strict=True):
        assert bottleneck(one, other) <= change + 1e-5


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_extreme_units_lose_nothing(scale: float) -> None:
    _, plain = rips(polygon(9))
    _, scaled = rips(scale * polygon(9))
    np.testing.assert_allclose(bars(scaled), scale * bars(plain), rtol=1e-5)


def test_tight_clusters_far_apart_keep_their_loops() -> None:
    ring = 1e-3 * polygon(12)
    points = np.vstack([ring, ring + 1e3, ring - [1e3, 0.0]])
    side, chord = 2e-3 * np.sin(np.pi / 12), 2e-3 * np.sin(np.pi / 3)
    np.testing.assert_allclose(bars(rips(points)[1]), [[side, chord]] * 3, rtol=1e-5)


def test_one_and_two_points_have_defined_diagrams() -> None:
    h0, h1 = rips([[1.0, 2.0]])
    assert (h0.birth.tolist(), h0.death.tolist(), len(h1)) == ([0.0], [np.inf], 0)
    h0, h1 = rips([[0.0], [3.0]])
    assert (h0.death.tolist(), len(h1)) == ([3.0, np.inf], 0)


def test_duplicates_stay_in_h0() -> None:
    h0, h1 = rips([[0.0], [0.0], [0.0]])
    assert h0.death.tolist() == [0.0, 0.0, np.inf]
    assert len(h1) == 0


def test_a_threshold_is_recorded_and_leaves_classes_alive() -> None:
    h0, h1 = rips(polygon(12), thresh=0.6)
    assert h0.truncated_at == h1.truncated_at == 0.6
    assert np.isinf(h1.death).tolist() == [True]
    assert rips(polygon(12), thresh=5.0)[1].truncated_at is None
    only_h0 = rips([[0.0], [1.0], [5.0]], maxdim=0, thresh=2.0)[0]
    assert only_h0.death.tolist() == [1.0, np.inf, np.inf]
    assert only_h0.truncated_at == 2.0


def test_cosine_is_one_minus_cos() -> None:
    angle = np.array([0.0, 0.3, 1.2])
    points = np.column_stack([np.cos(angle), np.sin(angle)]) * [[1.0], [7.0], [0.1]]
    for maxdim in (0, 1):
        death = rips(points, maxdim=maxdim, metric="cosine")[0].death
        np.testing.assert_allclose(death[:2], 1 - np.cos([0.3, 0.9]), rtol=1e-5)


def test_precomputed_distances_and_points_agree() -> None:
    points = np.random.default_rng(1).standard_normal((40, 3))
    assert_same(rips(points), rips(distance_matrix(points), metric="precomputed"))
    np.testing.assert_allclose(
        rips(points, maxdim=0)[0].death,
        rips(distance_matrix(points), maxdim=0, metric="precomputed")[0].death,
        rtol=1e-6,
    )


def test_a_batch_equals_single_calls() -> None:
    random = np.random.default_rng(3)
    clouds = [random.standard_normal((int(n), 4)) for n in random.integers(1, 80, 20)]
    for together, alone in zip(rips_batch(clouds), map(rips, clouds), strict=True):
        assert_same(together, alone)
    assert rips_batch([]) == []


def test_a_batch_names_the_bad_cloud() -> None:
    with pytest.raises(InputError, match=r"clouds\[1\]\[0, 0\] is nan"):
        rips_batch([np.eye(3), np.full((2, 2), np.nan)])


def test_too_large_a_cloud_is_refused_before_it_starts() -> None:
    with pytest.raises(InputError, match=r"W has 20,000 points: H1 needs about 10.4 GiB.*subsample\(\)"):
        rips(np.zeros((20000, 2)), name="W")
    with pytest.raises(InputError, match=r"W has 500 points: H3 needs about .* GiB"):
        rips(np.zeros((500, 2)), maxdim=3, name="W")
    assert rips_memory(4000) < 2**30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxdim": -1}, "maxdim is -1"),
        ({"thresh": 0.0}, "thresh is 0.0"),
        ({"thresh": float("nan")}, "thresh is nan"),
        ({"backend": "fast"}, "backend is 'fast'; use one of auto"),
        ({"backend": "ripser"}, "backend is 'ripser'; use one of auto, native, gudhi"),
        ({"field": 4}, "field is 4; .* prime"),
        ({"backend": "native", "maxdim": 3}, "backend 'native' goes up to maxdim 2"),
        ({"metric": "manhattan"}, "metric is 'manhattan'; use one of"),
        ({"metric": "cosine", "X": np.array([[1.0], [0.0]])}, r"X\[1\] is a zero row"),
        ({"X": np.array([[np.inf]])}, r"X\[0, 0\] is inf"),
        ({"X": np.empty((0, 3))}, "no points"),
        ({"X": np.array([[0.0, 1.0], [2.0, 0.0]]), "metric": "precomputed"}, "not symmetric"),
    ],
)
def test_bad_calls_say_what_to_do(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rips(**({"X": np.eye(3)} | options))


def test_pooled_rows_pads_and_checks() -> None:
    pooled = pooled_rows([np.ones((2, 1), np.float16), np.ones((1, 3), np.float32)], width=4)
    assert pooled.tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]
    assert pooled.dtype == np.float32
    with pytest.raises(InputError, match="matrices is empty"):
        pooled_rows([])
    with pytest.raises(InputError, match="width is 2 but a matrix has 3 columns"):
        pooled_rows([np.ones((1, 3))], width=2)


def test_subsamples_depend_on_their_axes_alone() -> None:
    chosen = subsample(1000, 50, draw=0, run="a", step=1)
    assert np.array_equal(chosen, subsample(1000, 50, step=1, run="a", draw=0))
    assert not np.array_equal(chosen, subsample(1000, 50, draw=1, run="a", step=1))
    assert len(np.unique(chosen)) == 50
    with pytest.raises(InputError, match="size is 0"):
        subsample(10, 0, draw=0)


@pytest.mark.parametrize(("field", "loops"), [(2, 1), (3, 0)])
def test_known_projective_plane(shared_data: Path, field: int, loops: int) -> None:
    path = shared_data / "ph_known/ripser/examples/projective_plane.csv"
    points = np.loadtxt(path, delimiter=",")
    _, h1, h2 = rips(points, maxdim=2, metric="precomputed", field=field)
    assert (len(h1), len(h2)) == (loops, loops)


def test_known_sphere(shared_data: Path) -> None:
    text = (shared_data / "ph_known/ripser/examples/sphere_3_192.lower_distance_matrix").read_text()
    lower = np.array(text.replace("\n", ",").split(","))
    values = lower[lower != ""].astype(np.float64)
    n = round((1 + np.sqrt(1 + 8 * len(values))) / 2)
    distances = np.zeros((n, n))
    distances[np.tril_indices(n, -1)] = values
    _, _, h2 = rips(distances + distances.T, maxdim=2, metric="precomputed")
    longest = bars(h2)[np.argmax(np.diff(bars(h2), axis=1))]
    np.testing.assert_allclose(longest, [0.7205, 1.6556], atol=1e-4)


@pytest.mark.parametrize(("step", "totals"), [(0, (7.557, 0.497)), (5000, (81.768, 2.115))])
def test_the_weight_space_papers_tiny_model(
    shared_data: Path, step: int, totals: tuple[float, float]
) -> None:
    torch = pytest.importorskip("torch")
    path = shared_data / f"seed_runs/tiny-3k/step_{step:06d}.pt"
    state = torch.load(path, weights_only=True, map_location="cpu")["model_state_dict"]
    matrices = [
        tensor.numpy()
        for name, tensor in state.items()
        if tensor.ndim == 2 and "ln" not in name and "emb" not in name
    ]
    diagrams = rips(pooled_rows(matrices), thresh=2.0)
    for diagram, total in zip(diagrams, totals, strict=True):
        assert summaries(diagram)["total"] == pytest.approx(total, abs=6e-4)
