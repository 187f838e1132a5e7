"""Weights, clouds and diagrams from 1e-300 to 1e300, and far from the origin: right, or nan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposcope.core.types import Diagram
from toposcope.topology import baselines, magnitude_variance, neural_persistence, rips
from toposcope.topology.dimension import mle_dimension, ph_dimension, twonn
from toposcope.topology.distances import bottleneck, wasserstein
from toposcope.topology.summaries import summaries
from toposcope.topology.vectors import persistence_image, silhouette

G = np.random.default_rng(0)
ANGLES = np.linspace(0, 2 * np.pi, 40, endpoint=False)
CLOUD = np.c_[np.cos(ANGLES), np.sin(ANGLES)] + 0.05 * G.standard_normal((40, 2))
W = G.standard_normal((12, 9))
BARS, OTHER = np.sort(G.random((20, 2)), axis=1), np.sort(G.random((15, 2)), axis=1)
EXPONENTS = st.integers(-980, 980)
DEGREES = {"frobenius_norm": 1, "spectral_norm": 1, "top_eigenvalue": 2, "mean_pairwise_distance": 1}


@settings(deadline=None, max_examples=25)
@given(EXPONENTS)
def test_weights_of_any_scale(exponent: int) -> None:
    scaled = np.ldexp(W, exponent)
    found, plain = baselines(scaled), baselines(W)
    for key, value in plain.items():
        with np.errstate(over="ignore", under="ignore"):
            expected = float(np.ldexp(value, exponent * DEGREES.get(key, 0)))
        if not np.isfinite(expected) or abs(expected) < np.finfo(float).tiny:
            assert np.isnan(found[key]), key
        else:
            assert found[key] == pytest.approx(expected, rel=1e-5), key
    assert magnitude_variance(scaled) == pytest.approx(magnitude_variance(W))
    top = float(np.ldexp(10.0, exponent))
    assert magnitude_variance(scaled, scale=top) == pytest.approx(magnitude_variance(W, scale=10.0))
    assert neural_persistence(scaled) == pytest.approx(neural_persistence(W))


@settings(deadline=None, max_examples=10)
@given(st.integers(-1040, 980))
def test_clouds_of_any_scale(exponent: int) -> None:
    cloud = np.ldexp(CLOUD, exponent)
    plain, found = rips(CLOUD)[1], rips(cloud)[1]
    rel = max(1e-6, 2.0 ** (-1060 - exponent))
    longest = float(np.max(found.death - found.birth))
    assert longest == pytest.approx(float(np.ldexp(np.max(plain.death - plain.birth), exponent)), rel=rel)
    assert twonn(cloud).value == pytest.approx(twonn(CLOUD).value, rel=1e-3)
    assert mle_dimension(cloud).value == pytest.approx(mle_dimension(CLOUD).value, rel=1e-3)
    for alpha in (1.0, 2.0):
        expected = ph_dimension(CLOUD, alpha=alpha).value
        assert ph_dimension(cloud, alpha=alpha).value == pytest.approx(expected, rel=1e-3)
    cosine = rips(cloud, metric="cosine")[0].death[:-1]
    assert cosine == pytest.approx(rips(CLOUD, metric="cosine")[0].death[:-1], rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("backend", ["gudhi", "native"])
@pytest.mark.parametrize("scale", [1e-310, 1e-100, 1e100, 1e300])
def test_every_backend_finds_the_circle(backend: str, scale: float) -> None:
    assert len(rips(CLOUD * scale, backend=backend)[1]) >= 1


@settings(deadline=None, max_examples=25)
@given(EXPONENTS)
def test_diagrams_of_any_scale(exponent: int) -> None:
    a, b = np.ldexp(BARS, exponent), np.ldexp(OTHER, exponent)
    unit = float(np.ldexp(1.0, exponent))
    for order in (1, 2):
        assert wasserstein(a, b, order=order) / unit == pytest.approx(wasserstein(BARS, OTHER, order=order))
    assert bottleneck(a, b) / unit == pytest.approx(bottleneck(BARS, OTHER))
    found = summaries(Diagram(1, a[:, 0], a[:, 1]))
    plain = summaries(Diagram(1, BARS[:, 0], BARS[:, 1]))
    for key, value in plain.items():
        has = unit if key in ("total", "max", "mean", "std") else 1.0
        if key != "total_sq":
            assert found[key] / has == pytest.approx(value), key
    grid = np.linspace(0, 1, 11)
    for power in (1.0, 2.0):
        expected = silhouette(BARS, grid, power)
        assert silhouette(a, grid * unit, power) / unit == pytest.approx(expected)
    image = persistence_image(a, grid * unit, grid * unit, bandwidth=0.1 * unit, power=2.0)
    assert image == pytest.approx(persistence_image(BARS, grid, grid, bandwidth=0.1, power=2.0), abs=1e-12)


@pytest.mark.parametrize("shape", [(40, 25), (25, 40), (1500, 12), (12, 1500)])
@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_the_covariance_far_from_the_origin(shape: tuple[int, int], offset: float) -> None:
    values = np.round(np.random.default_rng(1).standard_normal(shape) * 2**20) / 2**20
    near, far = baselines(values), baselines(values + offset)  # the sum is exact
    for key in ("top_eigenvalue", "participation_ratio", "rankme_eigenvalues", "mean_pairwise_distance"):
        assert far[key] == pytest.approx(near[key], rel=1e-5), key
