"""How commands print (a readable table, or JSON with `--json`), and the options that several share."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toposcope.core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from toposcope.study.analysis import Analysis

_UNWRAPPED = 10_000
"""Width of what is not printed to a terminal: nothing is wrapped."""
_NARROWEST = 20
"""Narrower terminals are treated as this wide: a long word would fill their lines."""
_COLUMNS = 120
"""Columns that a first screen takes at most: longer lines are slow to read."""


class SuggestingGroup(click.Group):
    """A group whose error for an unknown subcommand suggests the nearest."""

    def has_command(self, ctx: click.Context, name: str) -> bool:
        """Return whether a subcommand is known."""
        return name in self.list_commands(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand at the start of `args`."""
        if args and not args[0].startswith("-") and not self.has_command(ctx, args[0]):
            ctx.fail(f"No such command {args[0]!r}{self.suggestion(ctx, args[0])}")
        return super().resolve_command(ctx, args)

    def suggestion(self, ctx: click.Context, word: str) -> str:
        """Return the end of the error for an unknown subcommand: the nearest that there is."""
        return did_you_mean(word, self.list_commands(ctx))


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


_beside: ContextVar[Mapping[str, object]] = ContextVar("beside")


@contextlib.contextmanager
def beside_json(more: Mapping[str, object]) -> Iterator[None]:
    """Let `print_json` print these fields beside those of its dictionary."""
    token = _beside.set(more)
    try:
        yield
    finally:
        _beside.reset(token)


def print_json(payload: object) -> None:
    """Print `payload` as strict JSON: NaN and infinity become null."""
    if isinstance(payload, Mapping):
        payload = {**payload, **_beside.get({})}
    click.echo(json.dumps(plain(payload), indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; numbers to four significant figures, None as an empty cell."""
    from toposcope.core.tabular import of_cells

    of_cells(title, columns, rows).show()


def say(text: str, indent: str = "", *, err: bool = False) -> None:
    """Print a sentence, wrapped to the width of a terminal; no word is cut or left out."""
    width = max(shutil.get_terminal_size((_UNWRAPPED, 24)).columns, _NARROWEST)
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent + "  ",
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    click.echo("\n".join(lines), err=err)


def show_first(analysis: Analysis) -> None:
    """Print the first screen of every study of an analysis."""
    width = min(shutil.get_terminal_size((_COLUMNS, 24)).columns, _COLUMNS)
    click.echo(analysis.as_text(width=width))
    click.echo("")


def plain(value: object) -> object:
    """Return plain data for strict JSON: NaN and infinity become None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)


PATTERN: dict[str, Any] = {
    "metavar": "REGEX",
    "help": "Regex for the lines of a text log that is not recognised: 'it (?P<step>\\d+) L=(?P<loss>\\S+)'. "
    "Further groups: heldout_loss, learning_rate, grad_norm, epoch.",
}
STEP_PATTERN: dict[str, Any] = {
    "metavar": "REGEX",
    "help": "Regex with one group that extracts the step from the name of a file or folder: 'run_(\\d+)'.",
}
WITHOUT: dict[str, Any] = {
    "multiple": True,
    "metavar": "RUN",
    "help": "Leave this run out. Can be repeated.",
}
pattern_option = click.option("--pattern", **PATTERN)
step_pattern_option = click.option("--step-pattern", **STEP_PATTERN)
without_option = click.option("--without", **WITHOUT)


def renamed(pairs: Sequence[str]) -> dict[str, str]:
    """Return the columns that `OLD=NEW` renames.

    >>> renamed(["val=heldout_loss"])
    {'val': 'heldout_loss'}
    """
    for pair in pairs:
        if not re.fullmatch(r"[^=]+=[^=]+", pair):
            raise InputError(
                "not OLD=NEW", argument="rename", value=pair, remedy="write for example val=heldout_loss"
            )
    return dict(pair.split("=") for pair in pairs)  # type: ignore[misc]


def naming_part_faults(
    *arguments: str, printed: bool = True
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a command name the faults of the stores in its `arguments`; without `printed` it does so itself."""

    def around(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def told(**given: Any) -> int:
            faults = [fault for name in arguments for fault in _faults(given[name])]
            try:
                with beside_json({"part_faults": faults} if faults else {}):
                    code = command(**given)
            except BaseException:  # it names nothing itself any more
                _name(faults)
                raise
            _name(faults if printed else [])
            return max(code, 1) if faults else code

        return told

    return around


def _name(faults: Iterable[str]) -> None:
    for fault in faults:
        click.echo(f"problem: {fault}", err=True)


def _faults(given: object) -> Iterator[str]:
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for path in several:
        if isinstance(path, str | Path) and (Path(path) / "store.json").is_file():
            yield from _of_store(Path(path))


def _of_store(path: Path) -> tuple[str, ...]:
    from toposcope.store import Store

    try:
        return Store.open(path).part_faults()
    except (InputError, OSError):
        return ()  # the command itself says what is wrong with the store
