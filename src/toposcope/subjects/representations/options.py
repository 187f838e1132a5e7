"""The settings of the representation probe."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from toposcope.core.errors import InputError
from toposcope.subjects.representations.features import REPRESENTATIONS
from toposcope.subjects.representations.forward import Pooling, StateReading
from toposcope.subjects.representations.probes.reduce import Reduction
from toposcope.subjects.request import check_choices, check_counts, option

_LOWEST = {
    "length": 1,
    "perplexity_length": 2,
    "perplexity_texts": 0,
    "components": 1,
    "points": 4,
    "draws": 1,
    "max_tokens": 4,
    "attention_texts": 1,
    "nulls": 0,
    "maxdim": 0,
}
_CHOICES = {
    "preset": ("default", "seed003"),  # presets.py has the settings
    "pooling": ("mean", "last", "token"),
    "reduction": ("pca", "random", "none"),
}
_PASS = ("layers", "pooling", "length", "max_tokens", "perplexity_texts", "perplexity_length", "half")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepresentationOptions:
    """The settings that change numbers; together with the texts they are a store's recipe.

    Parameters
    ----------
    layers : str
        "last", "all", or hidden-state numbers such as "0,6,12"; 0 is the embedding.
    pooling : "mean", "last" or "token"
        How a text becomes a point; with "token" every position is a point, up to `max_tokens` of them.
    length : int
        Number of tokens of a text that are read for its point.
    perplexity_texts, perplexity_length : int
        Number of texts, and of tokens per text, from which the perplexity is computed.
    reduction, components : str, int
        "pca" or "random" reduces the states to `components` dimensions; "none" does not.
    maxdim : int
        Highest homology dimension: 0, 1 or 2.
    points, draws : int
        Clouds with more points are subsampled to `points`, `draws` times.
    nulls : int
        Number of Gaussian clouds with the same mean and covariance that are measured beside each cloud.
    cloud_texts : int or None
        Number of texts that become points; more may be read. None uses all.
    dimension : bool
        Measure the TwoNN, MLE and persistent-homology dimensions.
    attention : bool
        Measure H0 of every head's attention graph, on the first `attention_texts` texts.
    half : bool
        Read in float16 if the device supports it; states that overflow are read again in float32.
    """

    preset: str = "default"
    layers: str = option("last", "Layers to measure: last, all, or numbers of hidden states such as 0,6,12.")
    pooling: Pooling = option(
        "mean",
        "Points of a text: the mean over its tokens (mean), its last token (last), or every token (token).",
        choices=_CHOICES["pooling"],
    )
    length: int = option(128, "Number of tokens to read from each text.")
    max_tokens: int = 2000
    perplexity_texts: int = 100
    perplexity_length: int = 256
    reduction: Reduction = option(
        "pca",
        "How to reduce the number of dimensions before the homology: PCA, random projection, or not at all.",
        choices=_CHOICES["reduction"],
    )
    components: int = option(50, "Number of dimensions after the reduction.")
    maxdim: int = option(1, "Highest homology dimension: 0 for connected parts, 1 for loops, 2 for voids.")
    points: int = option(500, "Maximum number of points per cloud; larger clouds are subsampled.")
    draws: int = option(5, "Number of random subsamples.")
    nulls: int = option(5, "Number of random Gaussian clouds to compare each cloud with.")
    cloud_texts: int | None = None
    dimension: bool = True
    attention: bool = option(False, "Also measure the attention graph of every head.")
    attention_texts: int = 20
    half: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that cannot be measured."""
        check_counts(self, _LOWEST if self.cloud_texts is None else {**_LOWEST, "cloud_texts": 1})
        check_choices(self, _CHOICES)
        if self.maxdim > 2:
            raise InputError("it must be 0, 1 or 2", argument="maxdim", value=self.maxdim)
        _check_layers(self.layers)
        if self.cloud_texts is not None and self.pooling == "token":
            raise InputError(
                "only some of the texts are used for the cloud, but here a point is not a text",
                argument="pooling",
                value=self.pooling,
                remedy="use mean or last",
            )

    def recipe(self, texts_digest: str, labelled_digest: str = "") -> dict[str, object]:
        """Return the settings and the texts as the store's recipe: plain JSON values."""
        texts = {"texts": texts_digest, "labelled": labelled_digest}
        return {"probe": REPRESENTATIONS, **texts, **asdict(self)}

    def pass_settings(self) -> dict[str, str | int | bool]:
        """Return the settings of the forward pass, which determine the states."""
        return {name: getattr(self, name) for name in _PASS}

    def reading(self, layers: tuple[int, ...]) -> StateReading:
        """Return the request for one forward pass."""
        return StateReading(
            layers=layers,
            pooling=self.pooling,
            length=self.length,
            perplexity_texts=self.perplexity_texts,
            perplexity_length=self.perplexity_length,
            max_tokens=self.max_tokens,
        )


def _check_layers(choice: object) -> None:
    """Refuse a choice of layers that no model could have."""
    if not isinstance(choice, str):
        raise InputError(
            "it must be a string",
            argument="layers",
            value=choice,
            remedy="give 'last', 'all', or numbers such as '0,6,12'",
        )
    if choice not in ("last", "all") and not all(part.strip().isdecimal() for part in choice.split(",")):
        raise InputError(
            "not a choice of layers",
            argument="layers",
            value=choice,
            remedy="give last, all, or numbers such as 0,6,12",
        )
