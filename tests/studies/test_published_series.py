from __future__ import annotations

import pytest

from toposcope.core.errors import RecipeError
from toposcope.files.labels import step_of
from toposcope.sources.hub import parse
from toposcope.studies.seed003.published_series import SERIES, published


def test_nine_pythia_models_at_the_steps_of_the_studies():
    pythia = published("pythia")
    assert len(pythia.models) == 9
    assert len(pythia.revisions("seed004")) == 7
    assert len(pythia.revisions("seed003")) == 19
    assert [step_of(name) for name in pythia.revisions("seed003")] == sorted(pythia.steps["seed003"])


@pytest.mark.parametrize("name", SERIES)
def test_every_address_is_one_of_the_hub(name: str):
    family = published(name)
    for model in family.models:
        assert parse(family.address_of(model))[0].endswith(model)
    for study in family.steps:
        assert all(name.startswith("step") for name in family.revisions(study))


def test_what_is_not_listed_is_refused():
    with pytest.raises(RecipeError, match="'gpt5' is not a published series"):
        published("gpt5")
    with pytest.raises(RecipeError, match="has no model 'pythia-3b'"):
        published("pythia").address_of("pythia-3b")
    with pytest.raises(RecipeError, match="lists no steps for 'seed009'"):
        published("pythia").revisions("seed009")
