"""Wasserstein and bottleneck distances against closed forms and independent implementations."""

from __future__ import annotations

import itertools

import gudhi
import gudhi.hera
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import bottleneck, distances, matched_bars, rips, wasserstein

NONE = Diagram(1, np.empty(0), np.empty(0))


def diagram(pairs: list[tuple[float, float]]) -> Diagram:
    array = np.array(pairs, np.float64).reshape(-1, 2)
    return Diagram(1, array[:, 0], array[:, 0] + array[:, 1])


values = st.floats(0, 4).map(lambda x: round(x, 2))
diagrams = st.lists(st.tuples(values, values), max_size=5).map(diagram)
orders = st.sampled_from([1, 2])
grounds = st.sampled_from(["l2", "linf"])


def by_enumeration(one: Diagram, other: Diagram, order: float, ground: str) -> float:
    """The least cost over all matchings, each written out."""
    a, b = (np.column_stack([d.birth, d.death]) for d in (one, other))
    norm = np.inf if ground == "linf" else 2
    diagonal = 0.5 if ground == "linf" else np.sqrt(0.5)
    best = np.inf
    slots: list[int | None] = [*range(len(b)), *[None] * len(a)]
    for places in set(itertools.permutations(slots, len(a))):
        costs = [
            diagonal * (a[i, 1] - a[i, 0]) if j is None else np.linalg.norm(a[i] - b[j], norm)
            for i, j in enumerate(places)
        ]
        costs += [diagonal * (b[j, 1] - b[j, 0]) for j in range(len(b)) if j not in places]
        total = max(costs, default=0.0) if np.isinf(order) else sum(c**order for c in costs) ** (1 / order)
        best = min(best, total)
    return float(best)


@pytest.mark.parametrize(
    ("order", "ground", "value"),
    [(1, "linf", 0.5), (2, "linf", 0.5), (1, "l2", np.sqrt(0.5)), (2, "l2", np.sqrt(0.5))],
)
def test_one_bar_against_none(order: int, ground: str, value: float) -> None:
    one = diagram([(0.0, 1.0)])
    assert wasserstein(one, NONE, order=order, ground=ground) == pytest.approx(value)
    assert wasserstein(NONE, one, order=order, ground=ground) == pytest.approx(value)
    assert bottleneck(one, NONE) == 0.5


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(values, values), max_size=3).map(diagram),
    st.lists(st.tuples(values, values), max_size=3).map(diagram),
    orders,
    grounds,
)
def test_no_matching_is_better(one: Diagram, other: Diagram, order: int, ground: str) -> None:
    assert wasserstein(one, other, order=order, ground=ground) == pytest.approx(
        by_enumeration(one, other, order, ground), abs=1e-9
    )
    assert bottleneck(one, other) == pytest.approx(by_enumeration(one, other, np.inf, "linf"), abs=1e-12)


@pytest.mark.parametrize("kind", ["spread", "short", "born together", "rounded"])
@pytest.mark.parametrize(("order", "ground"), list(itertools.product([1, 2], ["l2", "linf"])))
def test_agrees_with_hera_and_gudhi(kind: str, order: int, ground: str) -> None:
    random = np.random.default_rng(sum(map(ord, kind)))
    pair = []
    for _ in range(2):
        n = int(random.integers(20, 60))
        birth = random.uniform(0, 1, n) * (kind != "born together")
        length = random.exponential(0.02 if kind == "short" else 0.4, n)
        bars = np.column_stack([birth, birth + length])
        pair.append(np.round(bars, 1) if kind == "rounded" else bars)
    norm = np.inf if ground == "linf" else 2.0
    reference = gudhi.hera.wasserstein_distance(*pair, order=order, internal_p=norm, delta=1e-7)
    assert wasserstein(*pair, order=order, ground=ground) == pytest.approx(reference, rel=1e-5)
    assert bottleneck(*pair) == pytest.approx(gudhi.bottleneck_distance(*pair, 0.0), abs=1e-12)


@settings(deadline=None)
@given(diagrams, diagrams, diagrams, orders, grounds)
def test_distances_obey_the_triangle(a: Diagram, b: Diagram, c: Diagram, order: int, ground: str) -> None:
    def apart(x: Diagram, y: Diagram) -> float:
        return wasserstein(x, y, order=order, ground=ground)

    assert apart(a, c) <= apart(a, b) + apart(b, c) + 1e-9
    assert apart(a, b) == pytest.approx(apart(b, a), abs=1e-9)
    assert apart(a, a) == 0.0
    assert bottleneck(a, c) <= bottleneck(a, b) + bottleneck(b, c) + 1e-12
    assert bottleneck(a, b) <= wasserstein(a, b, order=2, ground="linf") + 1e-9


@given(diagrams, diagrams, st.floats(1e-200, 1e200))
@settings(deadline=None)
def test_distances_scale_with_the_unit(a: Diagram, b: Diagram, factor: float) -> None:
    scaled = [Diagram(1, factor * d.birth, factor * d.death) for d in (a, b)]
    for order in (1, 2):
        expected = factor * wasserstein(a, b, order=order)
        assert wasserstein(*scaled, order=order) == pytest.approx(expected, rel=1e-7, abs=1e-9 * factor)


@given(diagrams, diagrams, orders)
@settings(deadline=None)
def test_superlevel_diagrams_are_compared_upside_down(a: Diagram, b: Diagram, order: int) -> None:
    flipped = [Diagram(1, -d.birth, -d.death) for d in (a, b)]
    assert wasserstein(*flipped, order=order) == pytest.approx(wasserstein(a, b, order=order))
    assert bottleneck(*flipped) == pytest.approx(bottleneck(a, b))


@given(diagrams, diagrams, grounds)
@settings(max_examples=60, deadline=None)
def test_matched_bars_cost_what_the_distance_says(a: Diagram, b: Diagram, ground: str) -> None:
    first, second = matched_bars(a, b, ground=ground)
    norm, diagonal = (np.inf, 0.5) if ground == "linf" else (2, np.sqrt(0.5))
    tied = np.linalg.norm(first - second, ord=norm, axis=1).sum() if len(first) else 0.0
    alone = sum((d.death - d.birth).sum() for d in (a, b)) - sum(
        (bars[:, 1] - bars[:, 0]).sum() for bars in (first, second)
    )
    assert tied + diagonal * alone == pytest.approx(wasserstein(a, b, ground=ground), abs=1e-9)


def test_a_diagram_is_at_no_distance_from_itself() -> None:
    bars = rips(np.random.default_rng(2).standard_normal((80, 5)))
    for diagram in bars:
        for order, ground in itertools.product([1, 2], ["l2", "linf"]):
            assert wasserstein(diagram, diagram, order=order, ground=ground) == 0.0
        assert bottleneck(diagram, diagram) == 0.0


def test_essential_classes_are_matched_by_birth() -> None:
    one = Diagram(0, np.array([0.0, 3.0]), np.array([np.inf, np.inf]))
    other = Diagram(0, np.array([3.5, 0.0]), np.array([np.inf, np.inf]))
    assert wasserstein(one, other) == 0.5
    assert bottleneck(one, other) == 0.5
    assert wasserstein(one, NONE) == np.inf
    assert bottleneck(one, NONE) == np.inf


def test_h0_of_large_clouds_is_exact() -> None:
    random = np.random.default_rng(0)
    deaths = np.sort(random.gamma(9.0, 0.1, (2, 3000)), axis=1)
    one, other = (Diagram(0, np.zeros(3000), row) for row in deaths)
    # All lengths are far from 0 here, so sorted deaths are matched in order.
    assert wasserstein(one, other) == pytest.approx(np.abs(deaths[0] - deaths[1]).sum())


def test_above_the_exact_size_the_tolerance_is_recorded_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    pair = [rips(random.standard_normal((60, 3)))[1] for _ in range(2)]
    exact = wasserstein(*pair)
    monkeypatch.setattr(distances, "EXACT_POINTS", 3)
    assert distances.TOLERANCE == 0.01
    rough = wasserstein(*pair)
    assert rough != exact
    assert rough == pytest.approx(exact, rel=distances.TOLERANCE)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[0.0, np.nan]], "second bar 0 is .* death must be a number"),
        ([[np.inf, np.inf]], "second bar 0 is .* birth must be a number"),
        ([[1.0, 0.0]], "sublevel and a superlevel"),
    ],
)
def test_bad_diagrams_are_refused(bad: list, message: str) -> None:
    for distance in (wasserstein, bottleneck):
        with pytest.raises(InputError, match=message):
            distance([[0.0, 1.0]], bad)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(InputError, match="order is 3; use 1 or 2"):
        wasserstein([], [], order=3)
    with pytest.raises(InputError, match="ground is 'l1'; use one of l2, linf"):
        wasserstein([], [], ground="l1")
