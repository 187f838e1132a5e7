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


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: topology.from_gudhi([(0, 1.0)]), "persistence"),
        (lambda: topology.from_gudhi([(-1, (0.0, 1.0))]), "dimension -1"),
        (lambda: topology.from_gudhi([(0, (float("nan"), 1.0))]), "birth"),
        (lambda: topology.from_ripser({"cocycles": []}), "dgms"),
        (lambda: topology.from_ripser([np.zeros((2, 3))]), "shape"),
        (lambda: topology.from_akriti(object()), "dims, births and deaths"),
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
