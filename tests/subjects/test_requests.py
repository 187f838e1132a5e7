"""The requests of the subjects: what they refuse, their former names, and the recipes of their stores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toposcope.api import TextRequest
from toposcope.core.errors import InputError
from toposcope.core.types import Normalization
from toposcope.store.units import recipe_hash
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.representations import presets as representation_presets
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.weights import options as weight_options
from toposcope.subjects.weights import presets as weight_presets
from toposcope.subjects.weights.options import WeightOptions

REFUSED = [
    (RepresentationOptions, {"reduction": "zzz"}, "reduction 'zzz': unknown; choose pca, random, none"),
    (RepresentationOptions, {"layers": "foo"}, "layers 'foo': not a choice of layers; give last, all, or"),
    (RepresentationOptions, {"layers": 6}, "layers 6: it must be a string; give 'last', 'all', or numbers"),
    (RepresentationOptions, {"layers": [0, 6]}, "layers [0, 6]: it must be a string"),
    (RepresentationOptions, {"pooling": ("mean",)}, "pooling ('mean',): unknown; choose mean, last, token"),
    (RepresentationOptions, {"cloud_texts": -1}, "cloud_texts -1: it must be at least 1"),
    (RepresentationOptions, {"pooling": "max"}, "pooling 'max': unknown; choose mean, last, token"),
    (RepresentationOptions, {"preset": "nope"}, "preset 'nope': unknown; choose default, seed003"),
    (RepresentationOptions, {"components": 2.5}, "components 2.5: it must be a whole number"),
    (WeightOptions, {"clouds": ("matrix", "foo")}, "clouds 'foo': unknown; choose matrix, pooled"),
    (WeightOptions, {"conventions": ("x",)}, "conventions 'x': unknown; choose rieck"),
    (WeightOptions, {"conventions": "x"}, "conventions 'x': unknown; choose rieck"),
    (WeightOptions, {"clouds": [["matrix"]]}, "clouds ['matrix']: unknown; choose matrix, pooled"),
    (WeightOptions, {"without": None}, "without: it must be a tuple or a list"),
    (WeightOptions, {"without": ("",)}, "without '': every name contains it; leave it out"),
    (WeightOptions, {"split": "bar"}, "split 'bar': unknown; choose table, whole, parts, heads"),
    (WeightOptions, {"preset": "nope"}, "preset 'nope': unknown; choose default, seed004"),
    (WeightOptions, {"draws": 1.5}, "draws 1.5: it must be a whole number"),
    (WeightOptions, {"points": float("nan")}, "points nan: it must be a whole number"),
    (WeightOptions, {"nulls": True}, "nulls True: it must be a whole number"),
    (LandscapeOptions, {"directions": ["random"]}, "directions ['random']: unknown; choose random, hessian"),
    (LandscapeOptions, {"steps": -5}, "steps -5: it must be at least 1"),
    (LandscapeOptions, {"nulls": -1}, "nulls -1: it must be at least 0"),
    (LandscapeOptions, {"draws": 0}, "draws 0: it must be at least 1"),
    (LandscapeOptions, {"n": 2.0}, "n 2: it must be a whole number"),
    (TextRequest, {"limit": 0}, "limit 0: it must be at least 1"),
    (TextRequest, {"min_chars": -1}, "min_chars -1: it must be at least 0"),
]


@pytest.mark.parametrize(("request_", "settings", "message"), REFUSED)
def test_a_request_refuses_what_it_does_not_know(
    request_: type, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        request_(**settings)
    assert str(refused.value).startswith(message)


def test_a_convention_may_be_written_as_its_value() -> None:
    made = WeightOptions(conventions=("rieck",))  # type: ignore[arg-type]
    assert made.conventions[0] is Normalization.NETWORK


def test_a_list_counts_as_a_tuple_and_a_string_as_a_tuple_of_one() -> None:
    made = WeightOptions(
        clouds=["matrix"], conventions=[Normalization.MATRIX], without=["ln"]  # type: ignore[arg-type]
    )  # fmt: skip
    assert made == WeightOptions(clouds=("matrix",), conventions=(Normalization.MATRIX,), without=("ln",))
    kept: dict[str, Any] = json.loads(json.dumps(made.recipe()))
    assert WeightOptions(**kept) == made
    alone = WeightOptions(without="mlp", conventions="rieck")  # type: ignore[arg-type]
    assert alone == WeightOptions(without=("mlp",), conventions=(Normalization.NETWORK,))
    assert (alone.keeps("head.weight"), alone.keeps("mlp.weight")) == (True, False)
    assert TextRequest(features="rips") == TextRequest(features=("rips",))  # type: ignore[arg-type]


def test_the_presets_of_the_papers_are_known_to_the_requests() -> None:
    assert {*weight_presets.PRESETS} <= {*weight_options.PRESETS}
    assert {one.preset for one in representation_presets.PRESETS.values()} == {
        *representation_presets.PRESETS
    }


def test_the_recipes_of_stores_are_those_of_earlier_versions() -> None:
    """Another recipe would refuse every store that is there already."""
    drawn = LandscapeOptions(draws=3, range=0.5).recipe("t")
    assert {"seeds", "reach"} <= drawn.keys()
    assert [
        recipe_hash(LandscapeOptions().recipe("t")),
        recipe_hash(drawn),
        recipe_hash(RepresentationOptions().recipe("t", "l")),
        recipe_hash(RepresentationOptions(components=7, reduction="random", cloud_texts=9).recipe("t")),
        recipe_hash(WeightOptions().recipe()),
        recipe_hash(WeightOptions(points=30, draws=2, without=("ln",)).recipe()),
        recipe_hash(weight_presets.PRESETS["seed004"].recipe()),
    ] == [
        "f08d32e6bbe2aa9d", "55290eb8be79d595", "5d3573ae8cd8f35c", "8d455bcb6d96d80a", "7edaed984195443d",
        "79e3f75fd40788af", "226233ef4593156d",
    ]  # fmt: skip
