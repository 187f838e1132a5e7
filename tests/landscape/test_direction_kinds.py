"""The kinds of directions: one list, from which options, checks and costs follow."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

import toposcope
from tests.landscape.conftest import tiny_objective
from toposcope.core.errors import InputError
from toposcope.subjects.landscape import direction_kinds
from toposcope.subjects.landscape.direction_kinds import (
    KINDS,
    Centre,
    DirectionKind,
    RandomDirections,
    add_directions,
    described_kinds,
)
from toposcope.subjects.landscape.geometry.directions import Directions
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.request import options_of


class Pairs(DirectionKind):
    """Random directions that need a product and two earlier checkpoints."""

    name = "pairs"
    description = "two by two"
    random = True
    origin = "of the pairs"

    def earlier(self, n: int) -> int:
        return 2 * n

    def products(self, settings) -> int:
        return settings.products + 1

    def check(self, settings) -> None:
        if settings.n == 3:
            raise InputError("not a pair", argument="n", value=settings.n)

    def at(self, centre: Centre) -> Directions:
        return RandomDirections().at(centre)


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direction_kinds.EXTENSIBLE, "added", [])
    add_directions(Pairs)


def _directions_option():
    return next(said for field, _, said in options_of(LandscapeOptions) if field.name == "directions")


def test_the_options_of_a_kind_are_what_they_were() -> None:
    """Draws, first checkpoint, products: as the code had them as branches on the name."""
    said = {name: LandscapeOptions(directions=name, n=2, batches=3, draws=4)
            for name in ("random", "hessian", "trajectory")}  # fmt: skip
    assert {name: (one.surfaces, one.first, one.kind.products(one)) for name, one in said.items()} == {
        "random": (12, 0, 0), "hessian": (3, 0, 100), "trajectory": (3, 2, 0),
    }  # fmt: skip
    with pytest.raises(InputError, match="eigenvalues 1: 2 directions need at least 2"):
        LandscapeOptions(directions="hessian", n=2, eigenvalues=1)
    with pytest.raises(InputError, match=r"choose random, hessian, trajectory$"):
        LandscapeOptions(directions="up")
    assert _directions_option().help == (
        "Axes of the surface: random (filter-normalised), hessian (top eigenvectors) or trajectory "
        "(principal components of the checkpoints)."
    )


def test_an_added_kind_is_an_option_with_its_own_rules(pairs: None) -> None:
    options = LandscapeOptions(directions="pairs", n=1, batches=3, draws=4)
    assert (options.surfaces, options.first, options.kind.products(options)) == (12, 2, 101)
    assert options.kind.phrase(1) == "1 direction of the pairs needs"
    assert options.recipe("texts")["directions"] == "pairs"
    assert _directions_option().choices == ("random", "hessian", "trajectory", "pairs")
    assert described_kinds().endswith(" or pairs (two by two)")
    with pytest.raises(InputError, match="n 3: not a pair"):
        LandscapeOptions(directions="pairs", n=3)
    add_directions(Pairs)  # again is no other kind


def test_a_process_that_does_not_know_a_kind_says_what_to_do(pairs: None, monkeypatch) -> None:
    sent = pickle.dumps(LandscapeOptions(directions="pairs", n=1))
    monkeypatch.setattr(direction_kinds.EXTENSIBLE, "added", [])  # as in a process of `--jobs`
    with pytest.raises(InputError) as refused:
        _ = pickle.loads(sent).kind
    assert str(refused.value) == (
        "directions 'pairs': these directions are registered only in the calling process; offer them by the "
        "entry point toposcope.directions, or use 1 process"
    )


def test_two_kinds_of_one_name_are_refused(pairs: None) -> None:
    class Other(Pairs):
        pass

    with pytest.raises(InputError, match="directions 'pairs' exist already; give yours another name"):
        add_directions(Other)


def test_random_directions_differ_by_seed_and_not_by_step() -> None:
    objective = tiny_objective()

    def at(step: int, seed: int) -> Directions:
        return RandomDirections().at(Centre(objective, 1, "run", step, 0, seed, 10, list))

    assert at(0, 1).vectors.equal(at(5, 1).vectors)
    assert not at(0, 1).vectors.equal(at(0, 2).vectors)


def test_no_code_compares_with_the_name_of_a_kind() -> None:
    names = {kind.name for kind in KINDS}
    found = []
    for path in (Path(toposcope.__file__).parent / "subjects" / "landscape").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Compare):
                texts = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
                found += [f"{path.name}:{node.lineno}" for _ in texts & names]
    assert not found
