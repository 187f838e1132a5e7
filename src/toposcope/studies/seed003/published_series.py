"""The published series that the studies use: addresses of models, and which of their revisions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from toposcope.core.errors import RecipeError

SERIES = ("pythia", "olmo")
_KEYS = frozenset(("address", "revision", "tokens_per_step", "models", "steps"))


@dataclass(frozen=True, slots=True)
class Published:
    """One published family: the address of its models, its revisions' names, and the steps that studies use.

    >>> published("pythia").address_of("pythia-14m")
    'hf://EleutherAI/pythia-14m'
    >>> published("pythia").revisions("seed004")[:2]
    ('step0', 'step1000')
    """

    name: str
    address: str
    revision: str
    models: tuple[str, ...]
    steps: Mapping[str, tuple[int, ...] | str]
    tokens_per_step: int | None = None

    def address_of(self, model: str) -> str:
        """Return the address of a model."""
        if model not in self.models:
            raise RecipeError(f"{self.name} has no model {model!r}; it has {', '.join(self.models)}")
        return self.address.format(model=model)

    def revisions(self, study: str) -> tuple[str, ...]:
        """Return the revisions that a study uses: names, or patterns if names contain more than the step."""
        if study not in self.steps:
            raise RecipeError(f"{self.name} lists no steps for {study!r}; it has {', '.join(self.steps)}")
        steps = self.steps[study]
        if isinstance(steps, str):
            return (self.revision.format(step="*"),)
        return tuple(self.revision.format(step=step) for step in steps)


def published(name: str) -> Published:
    """Read the recipe of a published family.

    Raises
    ------
    RecipeError
        If there is none of that name, or it has an unknown key.
    """
    if name not in SERIES:
        raise RecipeError(f"{name!r} is not a published series; choose one of {', '.join(SERIES)}")
    text = resources.files("toposcope.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    content: dict[str, Any] = tomllib.loads(text)
    unknown = sorted(set(content) - _KEYS)
    if unknown:
        raise RecipeError(
            f"{name}.toml: the key {unknown[0]!r} is unknown; known are {', '.join(sorted(_KEYS))}"
        )
    steps = {
        key: value if isinstance(value, str) else tuple(value) for key, value in content["steps"].items()
    }
    return Published(
        name,
        content["address"],
        content["revision"],
        tuple(content["models"]),
        steps,
        content.get("tokens_per_step"),
    )
