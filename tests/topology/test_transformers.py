"""The scikit-learn face of the vectors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import rips, vectors
from toposcope.topology.transformers import (
    BettiCurves,
    DiagramSummaries,
    EntropyCurves,
    Landscapes,
    PersistenceImages,
    Silhouettes,
)

ALL = [BettiCurves(), DiagramSummaries(), EntropyCurves(), Landscapes(), PersistenceImages(), Silhouettes()]
RANDOM = np.random.default_rng(0)
DIAGRAMS = [rips(RANDOM.standard_normal((30, 3)))[1] for _ in range(6)]


@pytest.mark.parametrize("transformer", ALL, ids=lambda t: type(t).__name__)
def test_passes_the_estimator_checks(transformer) -> None:  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke some on purpose
        results = check_estimator(transformer, on_skip=None, on_fail=None)
    bad = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert bad == []
    # Array-API input needs an environment variable that is set before scipy is imported.
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("transformer", ALL, ids=lambda t: type(t).__name__)
def test_takes_diagrams_and_names_its_columns(transformer) -> None:  # type: ignore[no-untyped-def]
    fitted = clone(transformer).fit(DIAGRAMS)
    table = fitted.transform(DIAGRAMS)
    names = fitted.get_feature_names_out()
    assert table.shape == (len(DIAGRAMS), len(names))
    assert len(set(names)) == len(names)
    assert np.isfinite(table).all()
    assert table.any()
    frame = clone(transformer).set_output(transform="pandas").fit_transform(DIAGRAMS)
    assert list(frame.columns) == list(names)


def test_the_range_of_fit_is_kept() -> None:
    fitted = Landscapes(levels=2, resolution=10).fit(DIAGRAMS[:1])
    expected = vectors.landscape(DIAGRAMS[1], vectors.common_grid(DIAGRAMS[:1], 10), 2).ravel()
    assert fitted.transform(DIAGRAMS[1:2])[0].tolist() == expected.tolist()
    given = BettiCurves(resolution=5, value_range=(0.0, 4.0)).fit(DIAGRAMS)
    assert given.grid_.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_tables_stacks_and_lists_mean_the_same() -> None:
    deaths = RANDOM.uniform(0.1, 1.0, (4, 7))
    stack = np.stack([np.zeros_like(deaths), deaths], axis=2)
    as_list = [Diagram(0, np.zeros(7), row) for row in deaths]
    for transformer in ALL:
        table = clone(transformer).fit_transform(deaths)
        assert np.array_equal(table, clone(transformer).fit_transform(stack))
        assert np.array_equal(table, clone(transformer).fit_transform(as_list))


def test_works_in_a_pipeline() -> None:
    radius = np.linspace(1.0, 2.0, 12)
    angle = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    rings = [r * np.column_stack([np.cos(angle), np.sin(angle)]) for r in radius]
    model = make_pipeline(DiagramSummaries(), Ridge(1e-6)).fit([rips(ring)[1] for ring in rings], radius)
    assert model.score([rips(ring)[1] for ring in rings], radius) > 0.99


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BettiCurves().fit([]), "X has no diagrams"),
        (lambda: BettiCurves().fit([[[0.0, np.nan]]]), r"X\[0\] bar 0"),
        (lambda: BettiCurves().fit(np.array([[-1.0, 2.0]])), "Negative values in data"),
        (lambda: BettiCurves(value_range=(1.0, 0.0)).fit(DIAGRAMS), "value_range is"),
        (lambda: PersistenceImages(birth_range=(1.0, 0.0)).fit(DIAGRAMS), "range is"),
    ],
)
def test_bad_calls_say_what_to_do(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        call()
