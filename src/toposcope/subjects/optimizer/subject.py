"""The optimiser's state as a subject."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.subjects.base import Probe
from toposcope.subjects.optimizer.features import DECLARED, OPTIMIZER
from toposcope.subjects.optimizer.options import OptimizerOptions
from toposcope.subjects.subject import SHUFFLED, SIZE, Subject


def _probes(options: OptimizerOptions) -> Sequence[Probe]:
    from toposcope.subjects.optimizer.probes.moments import Moments
    from toposcope.subjects.optimizer.probes.persistence import MomentPersistence

    return [Moments(options.without, asked=True), MomentPersistence(options)]


SUBJECT = Subject(
    name=OPTIMIZER,
    heading="Optimiser",
    topology="the topology of the optimiser's moments",
    title="Measure the optimiser's state: its updates, rates and noise, and the topology of its moments.",
    null=SHUFFLED.format("moments"),
    entries="moments",
    size=SIZE.format("the updates"),
    request=OptimizerOptions,
    make=_probes,
    declared=DECLARED,
    order=4,
)
