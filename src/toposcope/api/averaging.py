"""The average of the last checkpoints: which window lowers the held-out loss, and the weights of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.api.averaged import LEVEL, Average, AveragePlan, PairedDifference, WindowLoss
from toposcope.api.checkpoints import opened
from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint
from toposcope.core.wording import option

if TYPE_CHECKING:
    from toposcope.api.checkpoints import Where
    from toposcope.models.batch import Batch
    from toposcope.models.protocol import LanguageModel
    from toposcope.sources import Series
    from toposcope.subjects.text_request import TextRequest

UNIFORM, EMA = "uniform", "ema"
KINDS = (UNIFORM, EMA)
MOST_SEQUENCES, LENGTH = 256, 128
"""How many sequences are read, and how many tokens of each."""
LEAST_SEQUENCES = 8
"""Fewer sequences give no interval: each half judges what the other chose."""


def average(
    series: Where, out: str | Path | None = None, *, last: int = 5, kind: str = UNIFORM, decay: float = 0.8,
    run: str | None = None, texts: str | TextRequest | None = None, scored: bool = True,
    steps: str | None = None,
) -> Average:  # fmt: skip
    """Average the last checkpoints of a run, and say which window lowers the held-out loss.

    Where the run's model and texts are at hand, the loss of the average of the last 1, 2, ..., `last`
    checkpoints is measured. The window with the lowest loss is written if choosing pays, else nothing is:
    each half of the sequences judges the window that the other half chooses, against the newest checkpoint,
    in pairs, and the whole 95% interval of the difference must be below 0. Without a model, the last `last`
    checkpoints are averaged.

    Parameters
    ----------
    series
        A `Series`, or anything that `open_series` opens.
    out
        The new folder of the average; None to write nothing.
    last
        The largest window.
    kind
        "uniform", or "ema": shares fall by `decay` from each checkpoint to the one before it.
    decay
        Of an EMA over checkpoints, between 0 and 1.
    run
        The run, if the series has several.
    texts
        Texts for the loss, as in `measure`; run folders have their own. A `TextRequest` has the tokenizer,
        the recipe of files that hold only weights, and the device.
    scored
        Whether to measure the loss.
    steps
        Steps to read, if `series` is opened here.

    Returns
    -------
    Average
        Its `line` says whether a window pays, `windows` has every loss, `ok` is False if none pays.

    Raises
    ------
    InputError
        When an argument is impossible, or neither a loss can be measured nor a folder was named.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> states = {step: {"fc.weight": np.full((2, 2), float(step))} for step in (10, 20, 30)}
    >>> answer = average(states, Path(tempfile.mkdtemp()) / "mean", last=2)
    >>> print(answer.line)
    memory: the average of the last 2 checkpoints was not measured: no model and texts are at hand
    >>> from toposcope import open_series
    >>> made = open_series(answer.written)
    >>> float(next(made.matrices(next(iter(made)))).values[0, 0])
    25.0
    """
    request = _checked(last, kind, decay, texts)
    every = opened(series, steps=steps)
    name = _run_of(every, run)
    newest_first = every.of_run(name)[::-1][:last]
    if len(newest_first) < 2:
        raise InputError(f"{every.uri}: run {name!r} has one checkpoint; an average needs two")
    falls = decay if kind == EMA else 1.0
    losses = _losses(every, newest_first, request, falls) if scored else None
    if losses is None and out is None:
        raise InputError(
            "no loss can be measured, and no folder is named", argument="out",
            remedy=f"give {option('out')} FOLDER, or {option('texts')} FILE for a model folder",
        )  # fmt: skip
    windows = () if losses is None else compared(losses)
    window = len(newest_first) if losses is None else chosen(losses)
    average_result = Average(
        name, kind, falls, tuple(at.step for at in newest_first), windows,
        0 if losses is None else losses.shape[1], window,
        None if losses is None else gain_of_choosing(losses),
    )  # fmt: skip
    if out is None or not average_result.ok:
        return average_result
    from toposcope.sources.averages import shares_of, write_average

    write_average(every, shares_of(newest_first[:window], falls), Path(out))
    return replace(average_result, written=Path(out))


def compared(losses: np.ndarray) -> tuple[WindowLoss, ...]:
    """Return every window's loss against the newest checkpoint's; losses has shape (windows, sequences).

    >>> losses = np.array([[2.0, 2.5, 3.0, 3.5], [1.9, 2.4, 2.9, 3.3]])
    >>> [round(one.difference, 3) for one in compared(losses)]
    [0.0, -0.125]
    """
    window_losses = []
    for number, differences in enumerate(losses - losses[0], 1):
        estimate = paired(differences)
        loss = float(losses[number - 1].mean())
        window_losses.append(WindowLoss(number, loss, estimate.mean, estimate.lower, estimate.upper))
    return tuple(window_losses)


def paired(differences: np.ndarray) -> PairedDifference:
    """Return the mean of differences over sequences, with Student's t interval."""
    from scipy.stats import t

    count, mean = len(differences), float(differences.mean())
    reach = float(t.ppf((1 + LEVEL) / 2, count - 1) * differences.std(ddof=1) / np.sqrt(count))
    return PairedDifference(mean, mean - reach, mean + reach)


def gain_of_choosing(losses: np.ndarray) -> PairedDifference:
    """Return what choosing a window changes: each half of the sequences judges what the other half chose.

    The halves are not mixed, because neighbours may be of one document. If a half chooses the newest
    checkpoint, its differences are 0.
    """
    half = losses.shape[1] // 2
    parts = losses[:, :half], losses[:, half:]
    judged = [judge[chosen(choose) - 1] - judge[0] for choose, judge in (parts, parts[::-1])]
    return paired(np.concatenate(judged))


def chosen(losses: np.ndarray) -> int:
    """Return the window with the lowest mean loss; the smallest of equal ones.

    >>> chosen(np.array([[2.0, 2.2], [2.0, 2.1], [2.1, 2.0]]))
    2
    """
    return int(losses.mean(axis=1).round(12).argmin()) + 1


def average_plan(
    series: Where, *, last: int = 5, kind: str = UNIFORM, decay: float = 0.8, run: str | None = None,
    texts: str | TextRequest | None = None, scored: bool = True, steps: str | None = None,
) -> AveragePlan:  # fmt: skip
    """Return what `average` would read and need; only headers are read."""
    from toposcope.sources.averages import BLOCK_BYTES
    from toposcope.sweep.expect import PROCESS_BYTES

    request = _checked(last, kind, decay, texts)
    every = opened(series, steps=steps)
    newest_first = every.of_run(_run_of(every, run))[::-1][:last]
    with every.reading(newest_first[0]) as reader:
        infos = list(reader.infos().values())
    whole, measured = sum(info.nbytes for info in infos), scored and _at_hand(every, newest_first, request)
    sums = 8 * sum(info.size for info in infos)
    memory = 3 * sums + 2 * whole if measured else 3 * BLOCK_BYTES
    passes = 2 if measured else 1
    steps_read = tuple(at.step for at in newest_first)
    return AveragePlan(steps_read, passes * whole * len(newest_first), PROCESS_BYTES + memory, measured)


def _checked(last: int, kind: str, decay: float, texts: str | TextRequest | None) -> TextRequest:
    from toposcope.subjects.text_request import TextRequest

    if last < 2:
        raise InputError(
            "an average needs two checkpoints", argument="last", value=last, remedy="give 2 or more"
        )
    if kind not in KINDS:
        raise InputError("unknown", argument="kind", value=kind, remedy=f"choose {' or '.join(KINDS)}")
    if not 0 < decay < 1:
        raise InputError("it must be between 0 and 1", argument="decay", value=decay, remedy="give 0.8")
    return texts if isinstance(texts, TextRequest) else TextRequest(texts=texts)


def _run_of(series: Series, run: str | None) -> str:
    """Return the run that is averaged: the one named, or the only one."""
    if run is not None:
        series.of_run(run)  # an unknown one is refused
        return run
    if len(series.names) != 1:
        raise InputError(
            f"{series.uri} has {len(series.names):,} runs ({', '.join(series.names[:3])}, ...)",
            argument="run", remedy="name one of them",
        )  # fmt: skip
    return series.names[0]


def _at_hand(series: Series, newest_first: Sequence[Checkpoint], request: TextRequest) -> bool:
    """Return whether a model and texts are at hand: a run folder has both, others need texts."""
    from toposcope.models.loading import run_folder_of

    return request.texts is not None or all(run_folder_of(at) is not None for at in newest_first)


def _losses(
    series: Series, newest_first: Sequence[Checkpoint], request: TextRequest, decay: float
) -> np.ndarray | None:
    """Return the losses of every window and sequence; None where no model and texts are at hand."""
    from toposcope.models import Batch, ModelLoader, load_texts
    from toposcope.models.loading import run_folder_of
    from toposcope.models.window_losses import window_losses
    from toposcope.recipes import load_training_recipe
    from toposcope.subjects.gradients.probe import held_out_tokens

    if not _at_hand(series, newest_first, request):
        return None
    recipe = None if request.recipe is None else load_training_recipe(request.recipe)
    loader = ModelLoader(tokenizer=request.tokenizer, device=request.device or "cpu", recipe=recipe)

    def batch_of(model: LanguageModel) -> Batch:
        if request.texts is not None:
            texts = load_texts(request.texts, split=request.part).items[:MOST_SEQUENCES]
            return Batch.of_texts(model, texts, length=min(LENGTH, model.context + 1))
        folder = run_folder_of(newest_first[0])
        assert folder is not None
        return Batch.of(held_out_tokens(folder)[:MOST_SEQUENCES], last_only=model.last_only)

    losses = np.stack(list(window_losses(series, newest_first, batch_of, loader, decay=decay)))
    if losses.shape[1] < LEAST_SEQUENCES:
        raise InputError(
            f"{losses.shape[1]} texts give no interval", argument="texts", value=request.texts,
            remedy=f"give at least {LEAST_SEQUENCES} texts",
        )  # fmt: skip
    return losses
