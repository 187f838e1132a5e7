"""Step labels: steps and tokens in names of files, folders and revisions, and selections of steps."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar

import numpy as np

from toposcope.core.bounds import MAX_STEP
from toposcope.core.errors import SourceError

_COUNT = r"(?P<count>\d{1,15}(?:\.\d{1,3}(?=[km]))?)(?P<unit>[km](?![a-z0-9]))?"
_COUNT += r"(?!\d|(?:\.\d{1,3})?[bt](?![a-z0-9])|e[+-]?\d|x[\da-f]|,\d)"  # 1e3, 0x10 and 1,000 are not 1
"""A number, or one in thousands or millions (100k, 1.2M); one in billions counts tokens."""
_WORDS = r"global[_-]?steps?|steps?|checkpoint|ckpt|iters?|iterations?|updates?"
_STEP = re.compile(rf"(?:^|[^a-z])(?:{_WORDS})[_\-=]?{_COUNT}", re.I)
_LIKE_STEP = re.compile(rf"(?:^|[^a-z])(?:{_WORDS})[^a-z0-9]{{0,3}}\d", re.I)
_UPDATES = re.compile(r"(?:checkpoint_\d{1,6}_|ep\d{1,6}-ba)(?P<count>\d{1,15})(?P<unit>)(?:-rank\d+)?", re.I)
"""fairseq's checkpoint_EPOCH_UPDATES, Composer's epEPOCH-baBATCH-rankRANK."""
# Whole names only: a run that was trained for so many steps or epochs often has a name that ends like these.
_STEP_AFTER = re.compile(
    r"(?P<count>\d{1,15}(?:\.\d{1,3}(?=[km]))?)(?P<unit>[km])?[_-]?(?:steps?|iters?|iterations?)", re.I
)
_EPOCH = re.compile(r"(?:(?:^|[^a-z])epochs?|^ep)[_\-=]?(?P<count>\d{1,15})(?P<unit>)(?!\d)", re.I)
_EPOCH_AFTER = re.compile(r"(?P<count>\d{1,15})(?P<unit>)[_-]?epochs?", re.I)
_NUMBERED = re.compile(
    r"(?:model|weights?|gpt|net|state|params|rwkv)[_\-=](?P<count>\d{1,15})(?P<unit>k?)", re.I
)
_PADDED = re.compile(r"(?:model|weights?|ckpt|checkpoint|net)(?P<count>\d{6,15})(?P<unit>)", re.I)
"""A word and a number of six digits at least, as in model010000 (guided diffusion)."""
_ENDING = re.compile(r"(?P<before>.*)[_\-](?P<count>0\d{5,14})(?P<unit>)", re.I)
"""A name that ends with a number padded to six digits or more, as image trainers write them; no date."""
_BARE = re.compile(r"(?P<count>\d{1,15})(?P<unit>k?)", re.I)
_COPY = re.compile(r"(?:^|[^a-z])(?:best|last|latest|final|ema)(?:[^a-z]|$)", re.I)
_PARTS = frozenset(
    ["rank", "shard", "part", "size", "mp", "tp", "pp", "dp", "layer", "expert", "fold", "seed"]
)
"""Words before a number that is no step."""
_MLX = re.compile(r"(?P<count>\d{7})(?P<unit>)_adapters", re.I)
_TOKENS = re.compile(r"tokens?[_\-=]?(?P<count>\d{1,15}(?:\.\d{1,3}(?=[kmbt]))?)(?P<unit>[KMBT]?)", re.I)
_TOKENS_AFTER = re.compile(r"(?P<count>\d{1,15}(?:\.\d{1,3})?)(?P<unit>[KMBT]?)[_-]?(?:tokens?|toks?)", re.I)
_BILLIONS = re.compile(
    rf"(?:^|[^a-z])(?:{_WORDS})[_\-=]?(?P<count>\d{{1,6}}(?:\.\d{{1,3}})?)(?P<unit>[BT])(?![a-z0-9])", re.I
)
"""A number of billions after a word for a checkpoint: tokens, because no run has so many steps."""
_AFTER_STEP = re.compile(
    rf"(?:^|[^a-z])(?:{_WORDS})[_\-=]?\d[\d.]*[km]?[_-](?P<count>\d{{1,6}}(?:\.\d{{1,3}})?)(?P<unit>[BT])",
    re.I,
)
"""The tokens at the end of a name such as step-50K-105b."""
_MILLIONS = re.compile(r"(?P<count>\d{1,6}(?:\.\d{1,3})?)(?P<unit>M)", re.I)
_SEED = re.compile(r"[-_]seed[-_]?(\d{1,15})$", re.I)
_MOST_REPETITIONS = 3
"""A search with so many in a name of 255 letters, the longest of a file, takes some 3 million steps: .1 s."""
_LONGEST_NAME = 255
_stated: ContextVar[re.Pattern[str] | None] = ContextVar("step_pattern", default=None)
_MULTIPLE = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


@contextlib.contextmanager
def step_pattern(pattern: str | None) -> Iterator[None]:
    """Inside the block, read steps from names with the user's pattern; None changes nothing.

    Raises
    ------
    SourceError
        When it is not a regular expression with exactly one group.
    """
    token = _stated.set(_checked(pattern) if pattern is not None else _stated.get())
    try:
        yield
    finally:
        _stated.reset(token)


def stated_pattern() -> str:
    """Return the user's pattern; "" without one."""
    pattern = _stated.get()
    return pattern.pattern if pattern else ""


def _checked(pattern: str) -> re.Pattern[str]:
    from toposcope.core.expressions import is_endless, repetitions

    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise SourceError(
            f"not a regular expression ({error})",
            argument="step_pattern",
            value=pattern[:200],
            remedy="correct it",
        ) from error
    if is_endless(pattern) or repetitions(pattern) > _MOST_REPETITIONS:
        raise SourceError(
            f"a repetition within another, or more than {_MOST_REPETITIONS}, may search without end",
            argument="step_pattern", value=pattern[:200], remedy=r"write for example 'run_(\d+)'",
        )  # fmt: skip
    if compiled.groups != 1:
        raise SourceError(
            f"the pattern has {compiled.groups} groups",
            argument="step_pattern",
            value=pattern,
            remedy=r"put one around the step, as in 'run_(\d+)'",
        )
    return compiled


def pattern_of(name: str) -> str:
    r"""Return the regex of the first number in a name, with the letters before it; "" without such a number.

    A number after a word such as rank or shard counts parts of one checkpoint.

    >>> pattern_of("gpt-it250-loss4.75.pth"), pattern_of("last.pt"), pattern_of("zero_pp_rank_0_states.pt")
    ('it(\\d+)', '', '')
    """
    matches = re.finditer(r"([A-Za-z]+)[_\-=]?\d+", name)
    first = next((match for match in matches if match.group(1).lower() not in _PARTS), None)
    return f"{first.group(0).rstrip('0123456789')}(\\d+)" if first else ""


def step_of_file(name: str) -> int | None:
    """Return the step in a weight file's name without its suffix; None if there is none.

    For files a plain number is enough: a folder gpt-2 is a model, but a file gpt_2.pt is a checkpoint.

    >>> step_of_file("model_0"), step_of_file("gpt_250"), step_of_file("weights-3"), step_of_file("model")
    (0, 250, 3, None)
    >>> step_of_file("model010000"), step_of_file("model7")
    (10000, None)
    >>> step_of_file("style-000002"), step_of_file("my_lora_000005000"), step_of_file("run_20240101")
    (2, 5000, None)
    >>> step_of_file("style_shard-000002"), step_of_file("expert_000001")
    (None, None)
    """
    step = step_of(name)
    if step is None and _stated.get() is None:
        match = _NUMBERED.fullmatch(name) or _PADDED.fullmatch(name) or _ending(name)
        step = _number(match) if match else None
    return step


def _ending(name: str) -> re.Match[str] | None:
    """Return the padded number at the end of a name; None if it counts parts of one checkpoint."""
    match = _ENDING.fullmatch(name)
    return None if match is None or re.split(r"[_\-]", match["before"].lower())[-1] in _PARTS else match


def step_of(name: str) -> int | None:
    """Return the step in a file, folder or revision name; None if there is none.

    `100k` are thousands, `1.2M` millions. Without a step, the tokens in a name count as one, then an epoch.

    >>> step_of("step_000100"), step_of("checkpoint-500"), step_of("epoch=1-step=20"), step_of("final")
    (100, 500, 20, None)
    >>> step_of("step-100k"), step_of("ckpt_1.2M"), step_of("ckpt-4B"), step_of("7B"), step_of("12epoch")
    (100000, 1200000, 4000000000, None, 12)
    >>> step_of("checkpoint_3_1000"), step_of("ep0-ba100-rank0")
    (1000, 100)
    """
    pattern = _stated.get()
    if pattern is not None:
        match = pattern.search(name[:_LONGEST_NAME])
        stated = match.group(1) or "" if match else ""
        return checked_step(int(stated[:40]), name) if stated.isascii() and stated.isdecimal() else None
    match = _UPDATES.fullmatch(name) or _STEP.search(name) or _BARE.fullmatch(name) or _MLX.fullmatch(name)
    match = match or _STEP_AFTER.fullmatch(name)
    if match is None and (tokens := tokens_of(name)) is not None:
        return tokens
    match = match or _EPOCH.search(name) or _EPOCH_AFTER.fullmatch(name)
    return _number(match) if match else None


def counts_epochs(name: str) -> bool:
    """Return whether the step in a name is the number of an epoch.

    >>> counts_epochs("epoch_2"), counts_epochs("epoch=1-step=20"), counts_epochs("step_2")
    (True, False, False)
    """
    if _stated.get() is not None or not (_EPOCH.search(name) or _EPOCH_AFTER.fullmatch(name)):
        return False
    return worded_step(name) is None and tokens_of(name) is None and not _UPDATES.fullmatch(name)


def is_copy(name: str) -> bool:
    """Return whether a name calls a checkpoint the best, the last or an average; a step may stand beside it.

    >>> is_copy("checkpoint_best"), is_copy("model-step=200-last"), is_copy("blasted_100")
    (True, True, False)
    """
    return _COPY.search(name) is not None


def is_state_of(name: str, names: Iterable[str]) -> bool:
    """Return whether a folder has the state of the trainer of a file of weights beside it (sd-scripts).

    >>> is_state_of("a-step00000500-state", ["a-step00000500.safetensors"]), is_state_of("a-state", ["b.pt"])
    (True, False)
    """
    stem = name.removesuffix("-state")
    return stem != name and any(other.rsplit(".", 1)[0] == stem for other in names)


def worded_step(name: str) -> int | None:
    """Return the step that a name states by a word for it; None for a number alone.

    >>> worded_step("checkpoint-500"), worded_step("500")
    (500, None)
    """
    match = _STEP.search(name)
    return _number(match) if match else None


def looks_like_step(name: str) -> bool:
    """Return whether a name has a number after a word for a step, read or not.

    >>> looks_like_step("step_-5.pt"), looks_like_step("checkpoint_best.pt")
    (True, False)
    """
    return _LIKE_STEP.search(name) is not None


def step_among(name: str, names: Iterable[str]) -> int | None:
    """Return the step in the name of one of several folders.

    A bare `1.2M` may be a model's size; beside a bare number or thousands, such as `100k`, it is a step.

    >>> step_among("1.2M", ["100k", "1.2M"]), step_among("15M", ["15M", "42M"])
    (1200000, None)
    """
    match = _MILLIONS.fullmatch(name)
    if match is None or _stated.get() is not None or not any(map(_BARE.fullmatch, names)):
        return step_of(name)
    return _number(match)


def _number(match: re.Match[str]) -> int | None:
    """Return the count of a match times its unit; None for digits of another script, which `int` reads."""
    if not match["count"].isascii():
        return None
    unit = _MULTIPLE[(match["unit"] or "").upper()]
    return round(float(match["count"]) * unit) if "." in match["count"] else int(match["count"]) * unit


def checked_step(step: int, label: str) -> int:
    """Return a step that a store can hold.

    Raises
    ------
    SourceError
        When it is below 0 or above 10^15, more than any run has.
    """
    if not 0 <= step < MAX_STEP:
        raise SourceError(f"{label}: states the step {step:.3g}; a step is a number from 0 to 10^15")
    return step


def pattern_of_numbered(names: Sequence[str]) -> str:
    r"""Return the pattern that finds the steps in names such as model-0 and model-10; empty if none does.

    >>> pattern_of_numbered(["model-0", "model-10"]), pattern_of_numbered(["model-1", "gpt-2"])
    ('model-(\\d+)', '')
    """
    matches = [_NUMBERED.fullmatch(name) for name in names]
    stems = {name[: match.start(1)] for name, match in zip(names, matches, strict=True) if match}
    return f"{stems.pop()}(\\d+)" if len(names) > 1 and all(matches) and len(stems) == 1 else ""


def seed_of(name: str) -> int | None:
    """Return the seed at the end of a run's name.

    >>> seed_of("pythia-14m-seed3"), seed_of("small-7k")
    (3, None)
    """
    match = _SEED.search(name)
    return int(match.group(1)) if match and match.group(1).isascii() else None


def tokens_of(name: str) -> int | None:
    """Return the tokens that a name states.

    >>> tokens_of("step1000-tokens4B"), tokens_of("ckpt-4B"), tokens_of("step-50k-token-105B")
    (4000000000, 4000000000, 105000000000)
    >>> tokens_of("7B")
    """
    match = _TOKENS.search(name) or _TOKENS_AFTER.fullmatch(name) or _BILLIONS.search(name)
    match = match or _AFTER_STEP.search(name)
    return _number(match) if match else None


def select(available: Iterable[int], steps: str | Sequence[int] | None) -> set[int]:
    """Return which of the available steps a selection keeps.

    Parameters
    ----------
    available
        The steps of a run.
    steps
        None (all), "log" (first, last, and the step nearest to each power of two and of ten), "first",
        "last", "A:B" (the steps from A to B, both included) or "A:B:EVERY" (of these the steps A, A + EVERY,
        A + 2 EVERY ..., where there is such a checkpoint), or steps by number ("0,1000,5000" or a sequence).

    Examples
    --------
    >>> sorted(select(range(0, 1001, 100), "0:300"))
    [0, 100, 200, 300]
    >>> sorted(select(range(0, 1001, 100), "log"))
    [0, 100, 300, 500, 1000]
    """
    have = sorted(set(available))
    if steps is None or not have:
        return set(have)
    if not isinstance(steps, str):
        return _named(have, steps)
    text = steps.strip()
    if text == "log":
        return _log(have)
    if text in ("first", "last"):
        return {have[0] if text == "first" else have[-1]}
    try:
        if ":" in text:
            return _range(have, text)
        return _named(have, [int(part) for part in text.split(",")])
    except ValueError as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(
            "not a choice of steps",
            argument="steps",
            value=steps,
            remedy="use log, first, last, A:B, A:B:EVERY or 0,1000",
        ) from error


def _named(have: list[int], steps: Iterable[int]) -> set[int]:
    wanted = set(steps)
    missing = sorted(wanted - set(have))
    if missing:
        near = min(have, key=lambda step: abs(step - missing[0]))
        raise SourceError(
            f"there is no step {missing[0]:,}",
            argument="steps",
            remedy=f"the nearest is {near:,} (of {have[0]:,} to {have[-1]:,})",
        )
    return wanted


def _range(have: list[int], text: str) -> set[int]:
    first, last, *every = text.split(":")
    start = int(first) if first else have[0]
    stop = int(last) if last else have[-1]
    stride = int(every[0]) if every else 1
    if stride < 1 or len(every) > 1:
        raise ValueError(text)
    return {step for step in have if start <= step <= stop and (step - start) % stride == 0}


def _log(have: list[int]) -> set[int]:
    positive = np.array([step for step in have if step > 0], dtype=np.float64)
    selected = {have[0], have[-1]}
    if len(positive):
        top = positive[-1]
        marks = [base**power for base in (2, 10) for power in range(64) if base**power <= top]
        for mark in marks:
            ratio = np.abs(np.log(positive / mark))
            if ratio.min() < np.log(2) / 2:
                selected.add(int(positive[ratio.argmin()]))
    return selected
