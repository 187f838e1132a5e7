"""The probes by name, from which `--features` chooses, including those of installed packages."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from toposcope.core.errors import InputError, did_you_mean
from toposcope.subjects.base import Probe
from toposcope.subjects.roster import further_subject, measurable
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.by_name import WEIGHT_PROBES, named

GROUP = "toposcope.probes"
"""The entry points under which a package offers probes: NAME = "module:Class"."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The probes that features name, the recipe of their store, and how fused matrices are read."""

    probes: list[Probe]
    recipe: dict[str, object]
    split: str = "table"


def chosen(features: Sequence[str], options: WeightOptions | None = None) -> Chosen:
    """Return what features choose: probes of weights, or a subject that is measured from a request alone.

    >>> [probe.name for probe in chosen(["cheap"]).probes][-1]
    'moments'
    >>> chosen(["baselines"]).recipe == WeightOptions().recipe()
    True

    Raises
    ------
    InputError
        When a name is unknown, or a subject is named beside other features.
    """
    subject = further_subject(features)
    if subject is not None:
        probes = subject.probes(options)
        return Chosen(probes, subject.recipe(options))
    options = options or WeightOptions()
    probes = weight_probes(features, options)
    return Chosen([*probes, *beside_weights(features)], options.recipe(), options.split)


def beside_weights(features: Sequence[str]) -> list[Probe]:
    """Return the cheap probes of what a checkpoint may keep beside its weights, for `cheap` and `all`.

    They have no rows where it keeps nothing. Their numbers do not depend on the settings of weights.

    >>> [probe.name for probe in beside_weights(["cheap"])], beside_weights(["rips"])
    (['moments'], [])
    """
    from toposcope.subjects.optimizer.probes.moments import Moments

    return [Moments()] if {"cheap", "all"} & {*features} else []


def weight_probes(features: Sequence[str], options: WeightOptions) -> list[Probe]:
    """Return the probes that `features` names: probe names, `cheap`, `all`, or MODULE:CLASS.

    Other names are looked up among the probes of installed packages.

    >>> [probe.name for probe in weight_probes(["cheap"], WeightOptions())]
    ['neural_persistence', 'rips', 'baselines', 'trajectory']

    Raises
    ------
    InputError
        When a name is unknown, or what it names is no probe.
    """
    ours, others = named(features, options)
    further = further_probes(others, known=("cheap", "all", *WEIGHT_PROBES, *measurable()))
    taken = [probe.name for probe in further if probe.name in WEIGHT_PROBES]
    if taken:
        raise InputError(
            "toposcope has a probe of this name",
            argument="features",
            value=taken[0],
            remedy="give your probe another name",
        )
    return [*ours, *further]


def further_probes(names: Iterable[str], *, known: Sequence[str]) -> list[Probe]:
    """Return probes from outside the package: entry points by name, or MODULE:CLASS.

    `known` are the other names that could have been given. Modules are also looked up in the working folder.

    Raises
    ------
    InputError
        When a name is unknown, a module cannot be imported, or what it names is no probe.
    """
    probes = [_imported(name) if ":" in name else _installed(name, known) for name in names]
    return list({probe.name: probe for probe in probes}.values())


def _installed(name: str, known_names: Sequence[str]) -> Probe:
    points = entry_points(group=GROUP)
    for point in points:
        if point.name == name:
            return _imported(point.value)
    offered = ", ".join([*known_names, *sorted(point.name for point in points)])
    near = did_you_mean(name, [*known_names, *(point.name for point in points)])
    raise InputError(
        "no such probe", argument="features", value=name, remedy=f"use {offered}, or MODULE:CLASS{near}"
    )


def _imported(spec: str) -> Probe:
    module_name, _, attribute = spec.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        probe = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # a package's own module may do anything while it is imported
        raise InputError(
            f"{type(error).__name__}: {error}",
            argument="features",
            value=spec,
            remedy="give MODULE:CLASS of a module on the path",
        ) from error
    if isinstance(probe, type) and issubclass(probe, Probe):
        try:
            probe = probe()
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{type(error).__name__}: {error}",
                argument="features",
                value=spec,
                remedy="give every field of the probe a default",
            ) from error
    if not isinstance(probe, Probe):
        raise InputError(
            "not a probe", argument="features", value=spec, remedy="derive it from toposcope.Probe"
        )
    if not re.fullmatch(r"[A-Za-z0-9_-]+", probe.name):
        raise InputError(
            f"the name {probe.name!r} may contain only letters, digits, - and _",
            argument="features",
            value=spec,
            remedy="change it",
        )
    if not probe.features:
        raise InputError(
            "the probe declares no feature",
            argument="features",
            value=spec,
            remedy="list them in its `features`",
        )
    return probe
