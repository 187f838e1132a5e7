"""The cost of a measurement of representations, from the shapes of the matrices alone."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.source import StateSource

_ON_CPU, _ELSEWHERE = 5e10, 2e13
"""FLOP per second, of one core and of a device of another kind."""
_PER_CHECKPOINT, _PER_LAYER = 0.01, 0.03
"""Seconds of a checkpoint and of a layer besides passes and clouds; they only predict a duration."""
_PER_CLOUD, _POINTS, _POWER = 1.5e-3, 200, 2.2
"""Seconds for the bars of a cloud of this many points, and their exponent in the number of points."""
_BLOCK = 4
"""The smallest number of matrices in a layer."""


def seconds_of(
    shapes: Sequence[tuple[int, int]], options: RepresentationOptions, source: StateSource, labelled: int = 0
) -> float:
    """Return a rough time of one checkpoint on one core, right to within a factor of three.

    Counted are two FLOP per matrix entry and token for the texts' states, the perplexity and `labelled`
    texts, and the clouds of every chosen layer with their nulls. Kept states need no pass.
    """
    texts = 0 if source.texts is None else len(source.texts.items)
    tokens = (texts + labelled) * options.length
    tokens += min(texts, options.perplexity_texts) * options.perplexity_length
    tokens += min(texts, options.attention_texts) * options.length * options.attention
    entries = sum(rows * columns for rows, columns in shapes)
    device = "cpu" if source.loader is None else source.loader.device
    rate = _ON_CPU if device == "cpu" else _ELSEWHERE
    passes = 2.0 * entries * tokens / rate if source.loader is not None else 0.0
    layers = _layers(options, len(shapes))
    max_tokens = options.max_tokens if options.pooling == "token" else options.cloud_texts or texts
    clouds = (1 if max_tokens <= options.points else options.draws) + options.nulls
    points = min(max_tokens or options.points, options.points)
    return passes + _PER_CHECKPOINT + layers * (_PER_LAYER + clouds * seconds_of_cloud(points))


def seconds_of_cloud(points: int) -> float:
    """Return the rough time that the bars of one cloud take.

    >>> round(seconds_of_cloud(400) / seconds_of_cloud(200), 1)
    4.6
    """
    return _PER_CLOUD * (points / _POINTS) ** _POWER


def _layers(options: RepresentationOptions, matrices: int) -> int:
    if options.layers == "all":
        return 1 + matrices // _BLOCK
    return 1 + options.layers.count(",")
