"""What a training run needs to know: the recipe as one frozen dataclass, its file and its overrides."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from toposcope.core.errors import RecipeError
from toposcope.core.wording import command, option
from toposcope.recipes import _toml_text as toml_text
from toposcope.recipes._strict import build, nearest

TASKS = ("language", "modular-addition")
TOKENIZERS = ("characters", "bpe", "byte-bpe")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One decoder-only transformer of a family: `width` features, `layers` blocks, `heads` per block."""

    name: str
    width: int
    layers: int
    heads: int


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """A family of models and how each is trained.

    `corpus` is "python-docs" (the language reference inside CPython), "wikitext2" (from the Hugging
    Face hub) or a path. The learning rate rises linearly from 0 over `warmup_steps`, then falls along
    half a cosine to `final_learning_rate` at step `steps`. A checkpoint is kept every
    `checkpoint_every` steps, including the first (step 0) and the last (step `steps`).
    `gradients` also keeps the gradients on the first held-out batch with each.
    """

    name: str
    models: tuple[ModelShape, ...]
    steps: int
    checkpoint_every: int
    description: str = ""
    task: str = "language"
    corpus: str = "python-docs"
    tokenizer: str = "characters"
    vocabulary: int = 128
    context: int = 128
    batch_size: int = 64
    heldout_fraction: float = 0.1
    heldout_batches: int = 4
    seeds: tuple[int, ...] = (42,)
    learning_rate: float = 3e-3
    final_learning_rate: float = 1e-5
    warmup_steps: int = 200
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    gradient_clip: float = 1.0
    init_std: float = 0.02
    gradients: bool = False

    def to_toml(self) -> str:
        """Return the recipe as the text of a file that `load_training_recipe` reads back."""
        return toml_text.dumps(asdict(self))

    def of_run(self, model: str, seed: int) -> TrainingRecipe:
        """Return the same recipe for one model and one seed only."""
        shapes = tuple(shape for shape in self.models if shape.name == model)
        return replace(self, models=shapes, seeds=(seed,))

    def checkpoint_steps(self) -> tuple[int, ...]:
        """Return the steps at which weights are kept."""
        steps = range(0, self.steps, self.checkpoint_every)
        return (*steps, self.steps)

    def hash(self) -> str:
        """Return a hash of everything that determines the numbers; the description does not."""
        content = {key: value for key, value in asdict(self).items() if key != "description"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def training_recipes() -> list[str]:
    """Return the names of the training recipes in the package.

    >>> "seed004" in training_recipes()
    True
    """
    folder = resources.files("toposcope.recipes")
    files = [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return sorted(
        file.name.removesuffix(".toml") for file in files if "\n[[models]]\n" in file.read_text("utf-8")
    )


def load_training_recipe(name: str, overrides: Mapping[str, object] | None = None) -> TrainingRecipe:
    """Return the recipe called `name` (or the TOML file at that path), with `overrides` applied.

    A key of `overrides` is a field of `TrainingRecipe`, or `models.NAME.FIELD` for one model. `models`
    itself may be overridden by names, which picks those models.

    Raises
    ------
    RecipeError
        For an unknown recipe, an unknown key (naming the nearest), or a value of the wrong type or range.

    Examples
    --------
    >>> load_training_recipe("seed004", {"steps": 100}).checkpoint_steps()
    (0, 100)
    """
    content = _read(name)
    if content.get("model") == "random features":
        raise RecipeError(
            f"{name} is of a run that {command('synth')} simulated: it has no language model; "
            f"{command('weights')} measures it"
        )
    content.pop("compute", None)  # which of two ways computed the same numbers: runs until 2026 name it
    picked: Sequence[str] | None = None
    for key, value in (overrides or {}).items():
        if key == "models":
            picked = _names(value)
        elif key.startswith("models."):
            _override_model(content, key, value)
        else:
            content[key] = value
    recipe: TrainingRecipe = build(TrainingRecipe, content, where=f"recipe {name}")
    if picked is not None:
        recipe = replace(recipe, models=_pick(recipe, picked))
    _check(recipe)
    return recipe


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of a list such as "1,2,3"."""
    try:
        return [int(item) for item in text.split(",")]
    except ValueError:
        raise RecipeError(
            "not a list of whole numbers",
            argument="seeds",
            value=text,
            remedy=f"write for example {option('seeds')} 1,2,3",
        ) from None


def parse_override(text: str) -> tuple[str, object]:
    """Return key and value of a `key=value` text; the value is read as TOML, or else taken as text.

    >>> parse_override("steps=200"), parse_override("corpus=notes.txt")
    (('steps', 200), ('corpus', 'notes.txt'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise RecipeError(
            "not of the form key=value",
            argument="set",
            value=text,
            remedy=f"write for example {option('set')} steps=200",
        )
    try:
        parsed: object = tomllib.loads(f"value = {value.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = value.strip()
    return key.strip(), parsed


def _read(name: str) -> dict[str, Any]:
    path = Path(name)
    is_file = path.suffix == ".toml" or path.is_file()
    if is_file and not path.is_file():
        raise RecipeError(
            f"recipe {name!r} is not a file; name one of {', '.join(training_recipes())} or a TOML file"
        )
    if not is_file and name not in training_recipes():
        raise RecipeError(f"recipe {name!r} is unknown: {nearest(name, training_recipes())}")
    source = path if is_file else resources.files("toposcope.recipes") / f"{name}.toml"
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecipeError(f"recipe {name!r} is not valid TOML: {error}") from None


def _names(value: object) -> Sequence[str]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(item, str) for item in names):
        raise RecipeError(f"models is {value!r}; give names, for example tiny-3k,small-7k")
    return [item.strip() for item in names]


def _pick(recipe: TrainingRecipe, names: Sequence[str]) -> tuple[ModelShape, ...]:
    shapes = {shape.name: shape for shape in recipe.models}
    for name in names:
        if name not in shapes:
            raise RecipeError(f"model {name!r} is not in recipe {recipe.name}: {nearest(name, shapes)}")
    return tuple(shapes[name] for name in dict.fromkeys(names))


def _override_model(content: dict[str, Any], key: str, value: object) -> None:
    _, _, rest = key.partition(".")
    name, _, field = rest.rpartition(".")
    tables = {str(table.get("name")): table for table in content.get("models", ())}
    if name not in tables:
        raise RecipeError(
            f"{key!r} is not the name of a model of the recipe: {nearest(name or rest, tables)}"
        )
    tables[name][field] = value


_AT_LEAST = {
    "steps": 1,
    "checkpoint_every": 1,
    "vocabulary": 2,
    "context": 1,
    "batch_size": 1,
    "heldout_batches": 1,
    "warmup_steps": 0,
    "learning_rate": 0.0,
    "final_learning_rate": 0.0,
    "weight_decay": 0.0,
    "init_std": 0.0,
}


def _check(recipe: TrainingRecipe) -> None:
    where = f"recipe {recipe.name}"
    for key, low in _AT_LEAST.items():
        value = getattr(recipe, key)
        if not low <= value < float("inf"):
            raise RecipeError(f"{where}: {key} is {value}; give at least {low}")
    for key, choices in {"task": TASKS, "tokenizer": TOKENIZERS}.items():
        if getattr(recipe, key) not in choices:
            raise RecipeError(f"{where}: {key} is {getattr(recipe, key)!r}; choose from {', '.join(choices)}")
    for key in ("beta1", "beta2"):
        if not 0 <= getattr(recipe, key) < 1:
            raise RecipeError(f"{where}: {key} is {getattr(recipe, key)}; it must lie in [0, 1)")
    if not 0 < recipe.heldout_fraction < 1:
        raise RecipeError(f"{where}: heldout_fraction is {recipe.heldout_fraction}; it must lie in (0, 1)")
    if not recipe.gradient_clip > 0:
        raise RecipeError(
            f"{where}: gradient_clip is {recipe.gradient_clip}; it must be above 0 (inf: no clipping)"
        )
    if not recipe.seeds or len(set(recipe.seeds)) != len(recipe.seeds):
        raise RecipeError(f"{where}: seeds are {list(recipe.seeds)}; give one or more, each once")
    _check_models(recipe, where)


def _check_models(recipe: TrainingRecipe, where: str) -> None:
    names = [shape.name for shape in recipe.models]
    if not names or len(set(names)) != len(names):
        raise RecipeError(f"{where}: models are {names}; give one or more, each once")
    for shape in recipe.models:
        if not shape.name or not set(shape.name) <= _NAME_LETTERS or shape.name.startswith("."):
            raise RecipeError(
                f"{where}: model name {shape.name!r} cannot be a folder name; use letters, digits, - and _"
            )
        if min(shape.width, shape.layers, shape.heads) < 1 or shape.width % shape.heads:
            raise RecipeError(
                f"{where}: model {shape.name} has width {shape.width}, {shape.layers} layers, "
                f"{shape.heads} heads; each must be at least 1 and the width a multiple of the heads"
            )


_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
