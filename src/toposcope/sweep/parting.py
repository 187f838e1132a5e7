"""Whether two series of checkpoints are from one run: the steps up to which they are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toposcope.sources.audit_evidence import distance

if TYPE_CHECKING:
    from toposcope.core.types import Checkpoint
    from toposcope.sources import Series


@dataclass(frozen=True, slots=True)
class SeriesParting:
    """How far the checkpoints of two runs agree at their `common` steps.

    `last_equal` and `first_apart` are steps, or None. At `first_apart`, `differing` of `tensors` tensors are
    not equal bit for bit; `tensor` is the one that differs most relative to its norm.
    """

    common: int
    last_equal: int | None
    first_apart: int | None
    tensor: str = ""
    differing: int = 0
    tensors: int = 0

    @property
    def sentence(self) -> str:
        """The answer in words.

        >>> SeriesParting(11, 400, 500, "fc", 2, 12).sentence
        'the weights are equal bit for bit up to step 400 and differ from step 500 on, in 2 of 12 \
tensors there, most in fc'
        """
        if self.first_apart is None:
            return f"yes: the weights are equal bit for bit at all {self.common:,} common steps"
        where = f"in {self.differing:,} of {self.tensors:,} tensors there, most in {self.tensor}"
        if self.last_equal is None:
            return f"no: the weights differ from step {self.first_apart:,} on, the first common one, {where}"
        return (
            f"the weights are equal bit for bit up to step {self.last_equal:,} and differ from step "
            f"{self.first_apart:,} on, {where}"
        )


def series_parting(first: Series, second: Series) -> SeriesParting | None:
    """Return where two series of one run each begin to differ; None if they share no step.

    Checkpoints are read in the order of their steps, up to the first one that differs.
    """
    sides = [{checkpoint.step: checkpoint for checkpoint in series} for series in (first, second)]
    steps = sorted(set(sides[0]) & set(sides[1]))
    if not steps:
        return None
    last: int | None = None
    for step in steps:
        first_checkpoint, other = (side[step] for side in sides)
        if first.content_hash(first_checkpoint) != second.content_hash(other):
            return _parted(first, first_checkpoint, second, other, len(steps), last)
        last = step
    return SeriesParting(len(steps), last, None)


def _parted(
    first: Series, checkpoint: Checkpoint, second: Series, other: Checkpoint, common: int, last: int | None
) -> SeriesParting:
    hashes = first.tensor_hashes(checkpoint), second.tensor_hashes(other)
    names = list(dict.fromkeys([*hashes[0], *hashes[1]]))
    differing = [name for name in names if hashes[0].get(name) != hashes[1].get(name)]
    most, moved = differing[0] if differing else "", -1.0
    with first.reading(checkpoint) as old, second.reading(other) as new:
        for name in differing:
            if name not in old.infos() or name not in new.infos():
                continue
            before, after = old.read(name), new.read(name)
            if before.shape != after.shape:
                continue
            size = distance(before, 0 * before)
            far = distance(before, after) / size if size > 0 else 0.0
            most, moved = (name, far) if far > moved else (most, moved)
    return SeriesParting(common, last, checkpoint.step, most, len(differing), len(names))
