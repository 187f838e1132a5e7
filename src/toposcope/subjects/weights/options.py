"""The settings of the weight probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from toposcope.core.errors import InputError
from toposcope.core.types import Normalization
from toposcope.sources.matrices import SPLITS
from toposcope.subjects.request import check_choices, check_counts, make_tuples, option

PRESETS = ("default", "seed004", "text")
"""The names of the settings: `default`, and those of the papers (`presets.py` has their values)."""
CLOUDS = ("matrix", "pooled")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightOptions:
    """The settings that change numbers; together they are a store's recipe.

    A list counts as a tuple, and a string as a tuple of one.

    Parameters
    ----------
    preset : str
        The name of the settings: `default`, or that of a paper's settings.
    points : int
        Clouds with more rows are subsampled to this number.
    draws : int
        Number of random subsamples.
    nulls : int
        Number of random shuffles of the weights, the null of neural persistence.
    confounds : bool
        Whether to measure also the clipped neural persistence and the variance of the weights.
    thresh : float or None
        Largest Rips filtration value that is computed.
    conventions : tuple of Normalization
        Normalizations of neural persistence.
    clouds : tuple of str
        "matrix" for the rows of every matrix, "pooled" for those of all matrices together.
    without : tuple of str
        Parts of names: matrices whose name contains one of them are left out.
    split : str
        How fused matrices are read, as in `toposcope.open_series`.
    """

    preset: str = "default"
    points: int = option(200, "Maximum number of rows per point cloud; larger clouds are subsampled.")
    draws: int = option(5, "Number of random subsamples.", shown="5; seed004: 20")
    nulls: int = option(5, "Number of random shuffles of the weights to compare with.", shown="5; seed004: 0")
    confounds: bool = True
    thresh: float | None = None
    conventions: tuple[Normalization, ...] = (Normalization.NETWORK, Normalization.MATRIX)
    clouds: tuple[str, ...] = CLOUDS
    without: tuple[str, ...] = ()
    split: str = "table"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be measured."""
        make_tuples(self)
        check_counts(self, {"points": 3, "draws": 1, "nulls": 0})
        choices = {"preset": PRESETS, "conventions": tuple(Normalization), "clouds": CLOUDS, "split": SPLITS}
        check_choices(self, choices)
        # a value such as "rieck" is equal to its member, but has no power
        object.__setattr__(self, "conventions", tuple(map(Normalization, self.conventions)))
        if "" in self.without:
            raise InputError("every name contains it", argument="without", value="", remedy="leave it out")
        if self.thresh is not None and not self.thresh > 0:
            raise InputError(
                "it must be positive", argument="thresh", value=self.thresh,
                remedy="leave it out for no threshold",
            )  # fmt: skip

    def recipe(self) -> dict[str, object]:
        """Return the settings as the store's recipe: plain JSON values."""
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }

    @classmethod
    def typed(cls, recipe: Mapping[str, object]) -> dict[str, object]:
        """Return the options with which a command measures into a store of this recipe, without defaults.

        >>> WeightOptions.typed(WeightOptions(draws=2).recipe())
        {'draws': 2}
        """
        defaults = cls().recipe()
        preset = recipe.get("preset", defaults["preset"])
        of_preset = preset != defaults["preset"]  # its settings are not known here, so all are named
        names = [name for name in ("points", "draws", "nulls") if name in recipe]
        chosen = {name: recipe[name] for name in names if of_preset or recipe[name] != defaults[name]}
        return {"preset": preset, **chosen} if of_preset else chosen

    def keeps(self, name: str) -> bool:
        """Return whether a matrix of this name is measured.

        >>> bare = WeightOptions(without=("emb",))
        >>> bare.keeps("token_emb.weight"), bare.keeps("head.weight")
        (False, True)
        """
        return not any(part in name for part in self.without)
