"""Two sides compared: seeds of two recipes by their losses, or two checkpoints by their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.comparison import Comparison
from toposcope.api.tuned import AdapterComparison, beside_base, equal, not_finite
from toposcope.core.errors import InputError, SourceError
from toposcope.core.wording import command, option, renaming
from toposcope.runs.compare_sources import LOSSES, names_of, seeds_at, series_at
from toposcope.runs.compared_seeds import RunComparison, diverged, is_loss

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.core.types import Checkpoint
    from toposcope.runs.compare_sources import Seeds, Side
    from toposcope.runs.reading import Reading
    from toposcope.sources import Series
    from toposcope.subjects.weights.options import WeightOptions


_OF_OTHER_SHAPES = "the two have no matrix of the same name and shape"


def compare(
    first: Side,
    second: Side,
    *,
    siblings: Sequence[Side] = (),
    horizon: int | None = None,
    column: str | None = None,
    rename: Mapping[str, str] | None = None,
    pattern: str | None = None,
    step: int | None = None,
    preset: str = "default",
    points: int | None = None,
    draws: int | None = None,
    step_pattern: str | None = None,
) -> RunComparison | Comparison | AdapterComparison:
    """Say which of two recipes is better by the losses of their seeds, or compare two checkpoints' weights.

    Two places with the checkpoints of one run each are compared by their weights; everything else is compared
    by the losses, and so are checkpoints when `siblings`, `horizon` or `column` is given, or when the two
    have no matrix of the same name and shape.

    Parameters
    ----------
    first, second
        Each is a log, a folder of logs, a store, a table, a list of logs or tables, a folder of runs, a
        checkpoint, or a series.
    siblings
        Other places with several seeds of one recipe, also used to estimate the noise between seeds.
    horizon
        The step at which the runs end, and up to which they are compared; by default what their logs plan.
    column
        The loss to compare; by default the training loss, or else the held-out loss. For a column that is
        not a loss, such as a reward, the answer is whether the two differ, not which one is better.
    rename
        New names of columns of tables: {"nll": "loss"}.
    pattern
        A regular expression for the lines of a text log that is not recognised: see `read_log`.
    step
        For weights: the step at which to compare; by default the last step of each.
    preset
        For weights: the settings of the probes, "default" or "seed004".
    points, draws
        For weights: the rows of a subsampled cloud, and the number of random subsamples.
    step_pattern
        As for `open_series`: extracts the step from file names.

    Returns
    -------
    RunComparison, Comparison or AdapterComparison
        Of losses, which recipe is better, and since when. Of weights, a `table` with a row for each matrix
        and feature, with the difference and its standard error over the draws. Of a base and an adapter,
        what the adapter changes.

    Raises
    ------
    InputError
        When a place cannot be read, has neither losses nor checkpoints of one run, lacks the step, or an
        option does not fit what is compared.

    Examples
    --------
    >>> import numpy as np
    >>> base, tuned = ({0: {"fc.weight": np.vander(range(1, 5)) * scale}} for scale in (1.0, 2.0))
    >>> compare(base, tuned).line
    'fc.weight changed by 100% of its norm'
    """
    from toposcope.core.bounds import check_horizon
    from toposcope.logs.described import canonical_name
    from toposcope.logs.inputs import tables_among
    from toposcope.runs.reading import Reading
    from toposcope.subjects.weights.presets import preset as preset_options

    check_horizon(horizon)
    first, second, *siblings = (tables_among(side) for side in (first, second, *siblings))  # type: ignore
    _refuse_clouds(first, second)
    options = preset_options(preset, points=points, draws=draws)
    of_losses = bool(siblings) or horizon is not None or column is not None
    opened = [series_at(side, split=options.split, step_pattern=step_pattern) for side in (first, second)]
    series = [place for place in opened if place is not None and not isinstance(place, SourceError)]
    notes: tuple[str, ...] = ()
    if not of_losses and len(series) == 2 and all(len(side.names) == 1 for side in series):
        comparison = _of_weights(series, step, options)
        if comparison is not None:
            return comparison
        notes = (f"{_OF_OTHER_SHAPES}, so their losses are compared",)
    given = {"step": step, "points": points, "draws": draws}
    if unfit := next((name for name, value in given.items() if value is not None), None):
        if notes:
            raise InputError(_OF_OTHER_SHAPES, remedy=f"leave out {option(unfit)} to compare their losses")
        _refuse_several(series)
        problem, remedy = (
            "it is for weights, but losses are compared",
            "leave it out, or name two checkpoints",
        )
        raise InputError(problem, argument=unfit, value=given[unfit], remedy=remedy)
    reading = Reading(column or "loss", dict(rename or {}), horizon, None, 0, step_pattern, pattern)
    names = names_of([first, second, *siblings])
    try:
        read = [
            _seeds(side, name, reading, opened[i] if i < 2 else None)
            for i, (side, name) in enumerate(zip([first, second, *siblings], names, strict=True))
        ]
    except InputError as error:
        if notes:
            remedy = "name checkpoints of one architecture, or add their logs"
            raise InputError(f"{_OF_OTHER_SHAPES}, and have no losses to compare", remedy=remedy) from error
        raise
    reading.refuse_unmet()
    return _of_losses(read, canonical_name(column) if column else None, horizon, notes)


def _refuse_clouds(first: Side, second: Side) -> None:
    """Refuse arrays of points, and say which command compares them."""
    import numpy as np

    def is_cloud(side: object) -> bool:
        named = isinstance(side, str | Path) and Path(side).suffix.lower() == ".npy"
        return named or isinstance(side, np.ndarray)

    sides = {"FIRST": first, "SECOND": second}
    if not (clouds := [side for side in sides.values() if is_cloud(side)]):
        return
    words = [
        name if isinstance(side, np.ndarray) or not is_cloud(side) else side for name, side in sides.items()
    ]
    which = clouds[0] if isinstance(clouds[0], str | Path) else "an array"
    raise InputError(
        f"{which}: is a cloud of points, and neither a run nor a checkpoint",
        remedy=f"compare two clouds with {command('cloud', *words)}",
    )


def _of_weights(
    series: Sequence[Series], step: int | None, options: WeightOptions
) -> Comparison | AdapterComparison | None:
    """Compare two checkpoints, or a base and an adapter; None where no matrix is in both, by its shape."""
    from toposcope.sources.adapter_state import adapter_state
    from toposcope.subjects.weights.compare import compare as both
    from toposcope.subjects.weights.compare import no_differences, of_other_shapes, weight_changes
    from toposcope.sweep.parting import series_parting

    sides = [_checkpoint(side, step) for side in series]
    twice = sides[0][1].run == sides[1][1].run and sides[0][1].step != sides[1][1].step
    labels = [_label(*side, steps=twice) for side in sides]
    states = [adapter_state(*side) for side in sides]
    for at, state in enumerate(states):
        if state is not None and states[1 - at] is None:
            return beside_base(sides[1 - at], labels[1 - at], state, sides[at])
    faults = [fault for side in sides for fault in not_finite(*side)]
    if faults:
        table, moved = no_differences()
        return Comparison(labels[0], labels[1], table, moved, faults=tuple(faults))
    several = step is None and min(map(len, series)) > 1
    faults += [fault for state in states if state is not None for fault in state.faults]
    if not faults and of_other_shapes(sides[0], sides[1]):
        return None
    faults += [] if several else equal(sides[0], sides[1])
    moved = weight_changes(sides[0], sides[1])
    table = _without_tied_heads(both(sides[0], sides[1], options=options), moved, sides)
    return Comparison(
        labels[0], labels[1], table, moved,
        series_parting(series[0], series[1]) if several else None, tuple(faults),
    )  # fmt: skip


def _without_tied_heads(
    table: pd.DataFrame, moved: pd.DataFrame, sides: Sequence[tuple[Series, Checkpoint]]
) -> pd.DataFrame:
    """Leave out the heads that one side stores although they are its embedding, and the other does not."""
    from toposcope.sources.content import tied_heads

    alone = set(table["name"].dropna()) - set(moved["name"])
    tied: set[str] = set()
    for series, checkpoint in sides if alone else ():
        with series.reading(checkpoint) as reader:
            tied |= alone.intersection(tied_heads(reader))
    return table[~table["name"].isin(tied)]


def _seeds(side: Side, name: str, reading: Reading, opened: Series | SourceError | None) -> Seeds:
    """Return the logs of a side; where it has none, say what is wrong with its checkpoints."""
    try:
        return seeds_at(side, name, reading)
    except InputError as error:
        if isinstance(opened, SourceError):
            raise error from opened
        if opened is not None:
            _refuse_several([opened])
        raise


def _refuse_several(series: Sequence[Series]) -> None:
    """Raise InputError where checkpoints of several runs were given and no losses can be compared."""
    for side in series:
        if len(side.names) > 1:
            runs = sorted(side.names)
            raise InputError(
                f"{side.uri} contains {len(runs):,} runs ({', '.join(runs[:5])}); name one of them"
            )


def _of_losses(
    read: Sequence[Seeds], column: str | None, horizon: int | None, notes: tuple[str, ...]
) -> RunComparison:
    from toposcope.runs.seeds import compare_recipes

    if any(side.counted for side in read) and not all(side.counted for side in read):
        counted = next(side.name for side in read if side.counted)
        raise InputError(
            f"{counted} states no step, so its records were counted; the others state theirs",
            remedy=f"name its column of steps with {renaming('COLUMN', 'step')}",
        )
    chosen = column or next((loss for loss in LOSSES if all(side.has(loss) for side in read)), LOSSES[0])
    recipes = [side.recipe(chosen) for side in read]
    of_loss = is_loss(chosen)
    comparison = compare_recipes(recipes[0], recipes[1], recipes[2:], horizon=horizon, of_loss=of_loss)
    problems = [*(problem for side in read for problem in side.problems), *comparison.problems]
    problems += diverged(comparison) if of_loss else []
    problems += [
        (
            f"{option('siblings')} {recipe.name}: one run does not show the noise between seeds, so it "
            f"was left "
            "out"
        )
        for recipe in recipes[2:]
        if len(recipe.runs) < 2
    ]
    return RunComparison(
        comparison, chosen, tuple(problems), (*notes, *(note for side in read for note in side.notes))
    )


def _label(series: Series, checkpoint: Checkpoint, *, steps: bool) -> str:
    """Return the name of a checkpoint; a model alone states no step, unless `steps` distinguish the two."""
    alone = len(series) == 1 and checkpoint.step == 0 and not steps
    return checkpoint.run if alone else f"{checkpoint.run} step {checkpoint.step:,}"


def _checkpoint(series: Series, step: int | None) -> tuple[Series, Checkpoint]:
    """Return the checkpoint at a step, or the last one."""
    checkpoints = list(series)
    if step is None:
        return series, checkpoints[-1]
    at_step = [checkpoint for checkpoint in checkpoints if checkpoint.step == step]
    if not at_step:
        raise InputError(
            f"{series.uri} has the steps {checkpoints[0].step:,} to {checkpoints[-1].step:,}",
            argument="step",
            value=step,
            remedy="give one of them",
        )
    return series, at_step[0]
