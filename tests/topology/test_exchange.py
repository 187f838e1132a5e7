"""Diagrams go to other packages and come back as they were."""

import sys
from types import SimpleNamespace

import gudhi
import numpy as np
import persim
import pytest
import ripser

import toposcope as ts
from toposcope import topology
from toposcope.core.errors import InputError


@pytest.fixture
def diagrams():
    return ts.rips(np.random.default_rng(0).standard_normal((30, 3)))


def same(first, second):
    assert [one.dim for one in first] == [one.dim for one in second]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.pairs, other.pairs)


def test_gudhis_own_persistence_is_read_and_says_the_same(diagrams):
    points = np.random.default_rng(0).standard_normal((30, 3))
    tree = gudhi.RipsComplex(points=points).create_simplex_tree(max_dimension=2)
    read = topology.from_gudhi(tree.persistence())
    lengths = [np.sort(one.death - one.birth) for one in (diagrams[1], read[1])]
    np.testing.assert_allclose(*lengths, atol=1e-12)


def test_gudhi_and_back(diagrams):
    same(topology.from_gudhi(topology.to_gudhi(diagrams)), diagrams)


def test_ripser_and_persim_read_what_is_given_and_are_read(diagrams):
    points = np.random.default_rng(0).standard_normal((30, 3))
    theirs = topology.from_ripser(ripser.ripser(points))
    assert topology.bottleneck(theirs[1], diagrams[1]) < 1e-6
    given = topology.to_ripser(diagrams)
    same(topology.from_ripser(given), diagrams)
    assert persim.bottleneck(given[1], theirs[1]) < 1e-6


def test_akritis_arrays_are_read():
    found = SimpleNamespace(
        dims=np.array([1, 0], np.int32), births=np.array([1.0, 0.0]), deaths=np.array([2.0, np.inf])
    )
    h0, h1 = topology.from_akriti(found)
    assert h0.pairs.tolist() == [[0.0, np.inf]]
    assert h1.pairs.tolist() == [[1.0, 2.0]]


def test_akriti_and_back(diagrams):
    pytest.importorskip("akriti")
    back = topology.from_akriti(topology.to_akriti(diagrams))
    same(back, diagrams)


def test_persim_takes_what_is_given(diagrams):
    h0, h1 = topology.to_ripser(diagrams)
    distance = persim.wasserstein(h1, h1 + 0.01)
    assert distance == pytest.approx(topology.wasserstein(diagrams[1], h1 + 0.01), abs=1e-9)
    image = persim.PersistenceImager(pixel_size=0.1)
    image.fit([h1])
    assert image.transform(h1).sum() > 0
    assert topology.from_ripser([h0, h1])[1].dim == 1


def test_gudhis_vectors_and_distances_take_what_is_given(diagrams):
    h1 = topology.to_ripser(diagrams)[1]
    assert gudhi.bottleneck_distance(h1, h1 + 0.01) == pytest.approx(
        topology.bottleneck(h1, h1 + 0.01), abs=1e-9
    )


def test_gudhis_infinite_edges_are_ours(diagrams):
    points = np.random.default_rng(0).standard_normal((30, 3))
    D = np.linalg.norm(points[:, None] - points, axis=2)
    D[D > 1.5] = np.inf
    tree = gudhi.RipsComplex(distance_matrix=D).create_simplex_tree(max_dimension=2)
    theirs = topology.from_gudhi(tree.persistence())
    ours = ts.rips(D, metric="precomputed")
    essential = [[int(np.isinf(one.death).sum()) for one in pair] for pair in (theirs, ours)]
    assert essential[0] == essential[1]
    finite = [np.sort(one.death[np.isfinite(one.death)]) for one in (theirs[0], ours[0])]
    np.testing.assert_allclose(*finite, atol=1e-12)


ONE_CLOUD = [[[0.0, 0.5, 0], [0.0, 0.7, 0], [0.0, 0.0, 0], [1.0, 2.0, 1], [1.0, 1.0, 1]]]
"""giotto-tda's array of one cloud as its documentation describes it: rows of length zero fill up."""


def test_giottos_array_is_read_without_the_rows_that_fill_it_up():
    [[h0, h1]] = topology.from_giotto(ONE_CLOUD)
    assert (h0.dim, h1.dim) == (0, 1)
    assert h0.pairs.tolist() == [[0.0, 0.5], [0.0, 0.7]]
    assert h1.pairs.tolist() == [[1.0, 2.0]]


def test_a_dimension_without_bars_stays_a_dimension():
    [[h0, h1]] = topology.from_giotto([[[0.0, 1.0, 0], [0.3, 0.3, 1]]])
    assert (len(h0), len(h1), h1.dim) == (1, 0, 1)
    assert topology.to_giotto([[h0, h1]]).tolist() == [[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]


def test_clouds_of_several_sizes_go_to_giotto_and_come_back():
    generator = np.random.default_rng(1)
    clouds = [ts.rips(generator.standard_normal((n, 3))) for n in (12, 20, 30)]
    array = topology.to_giotto(clouds)
    assert array.shape[0] == 3
    assert (np.diff(array[:, :, 2], axis=1) >= 0).all()  # one block for each dimension, in every cloud alike
    assert (array[0, :, 2] == array[2, :, 2]).all()
    for diagrams, back in zip(clouds, topology.from_giotto(array), strict=True):
        same(back, diagrams)


def test_no_clouds_are_no_rows():
    assert topology.to_giotto([]).shape == (0, 0, 3)
    assert topology.from_giotto(topology.to_giotto([])) == []


def test_giotto_itself_takes_and_gives_the_same():
    pytest.importorskip("gtda")
    from gtda.diagrams import Amplitude
    from gtda.homology import VietorisRipsPersistence

    points = np.random.default_rng(0).standard_normal((3, 30, 3))
    theirs = VietorisRipsPersistence(homology_dimensions=(0, 1)).fit_transform(points)
    ours = [[_finite(one) for one in ts.rips(cloud)] for cloud in points]
    for read, diagrams in zip(topology.from_giotto(theirs), ours, strict=True):
        for one, other in zip(read, diagrams, strict=True):
            np.testing.assert_allclose(np.sort(one.death), np.sort(other.death), atol=1e-6)
    sizes = [Amplitude(metric="wasserstein").fit_transform(one) for one in (theirs, topology.to_giotto(ours))]
    np.testing.assert_allclose(*sizes, atol=1e-5)


def _finite(diagram):
    return topology.check_diagram(diagram.pairs[np.isfinite(diagram.death)], dim=diagram.dim)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: topology.from_gudhi([(0, 1.0)]), "persistence"),
        (lambda: topology.from_gudhi([(-1, (0.0, 1.0))]), "dimension -1"),
        (lambda: topology.from_gudhi([(0, (float("nan"), 1.0))]), "birth"),
        (lambda: topology.from_ripser({"cocycles": []}), "dgms"),
        (lambda: topology.from_ripser([np.zeros((2, 3))]), "shape"),
        (lambda: topology.from_akriti(object()), "dims, births and deaths"),
        (lambda: topology.from_giotto(np.zeros((4, 3))), "clouds has shape"),
        (lambda: topology.from_giotto(np.full((1, 1, 3), 0.5)), "dimension 0.5"),
        (lambda: topology.from_giotto([[[0.0, 1.0, -1]]]), "dimension -1"),
    ],
)
def test_what_is_no_diagram_is_refused_in_one_line(call, word):
    with pytest.raises(InputError, match=word) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_without_akriti_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "akriti.diagrams", None)
    with pytest.raises(InputError, match="pip install akriti"):
        topology.to_akriti([])
