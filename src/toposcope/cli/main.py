"""The `toposcope` command: finds the subcommand, runs it, and ends with its exit code."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from toposcope import __version__
from toposcope.cli.output import SuggestingGroup
from toposcope.core.errors import InputError
from toposcope.core.legible import as_legible
from toposcope.core.wording import recommended, typed_options

if TYPE_CHECKING:
    from toposcope.subjects.subject import Subject

SECTIONS: dict[str, dict[str, str]] = {
    "Ask about runs": {
        "check": "Say whether a run is all right, and forecast its final loss.",
        "forecast": "Forecast the final loss of unfinished runs.",
        "compare": "Say which of two recipes is better, or which weights differ.",
        "audit": "Look for damaged, swapped or identical checkpoints.",
        "average": "Average the last checkpoints, if that lowers the held-out loss.",
        "watch": "Follow a run while it trains; say what breaks, and where.",
        "explain": "Say what a code in an answer means, and how often it is wrong.",
    },
    "Measure checkpoints": {
        "weights": "Measure the weights of every checkpoint.",
        "embeddings": "Measure how every checkpoint represents a set of texts.",
        "landscape": "Measure the loss surface around every checkpoint.",
        "optimizer": "Measure the optimiser's state: updates, rates, noise, moments.",
        "cloud": "Say whether a cloud of points has a ring, or whether two clouds differ.",
    },
    "Read the measurements": {
        "analyze": "Test whether the measurements say more than the loss does.",
        "report": "Write the results as one page.",
        "merge": "Join stores that were measured separately.",
        "export": "Write a store's tables as CSV, JSON or NetCDF.",
    },
    "Train and reproduce": {
        "demo": "Train five small models, measure them and write a report.",
        "train": "Train small language models into run folders.",
        "reproduce": "Run a study again, and judge each of its claims.",
        "synth": "Simulate training runs whose scaling exponents are known.",
    },
}
"""Heading -> subcommand -> what it does, as `toposcope --help` prints them."""

COMMANDS = tuple(name for section in SECTIONS.values() for name in section)
"""`cli/NAME.py` holds each as `command`. The module is imported when it is called: the list costs nothing."""


def _with_checked_out(command: click.Command) -> click.Command:
    """Return a command whose `--out` is refused if it is a pipe, a device, or a link to no folder."""
    for option in command.params:
        if "--out" in option.opts and option.callback is None:
            option.callback = _checked_out
    return command


def _checked_out(context: click.Context, option: click.Parameter, place: Path | None) -> Path | None:
    if place is None:
        return None
    from toposcope.core.outputs import checked_output

    checked_output(Path(place))
    return place


class LazyGroup(SuggestingGroup):
    """A command group that imports a subcommand's module when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order a user meets them; then those of further subjects."""
        return [*COMMANDS, *_further_subjects()]

    def has_command(self, ctx: click.Context, name: str) -> bool:
        """Return whether a subcommand is known; further subjects are looked for only if it is not ours."""
        return name in COMMANDS or super().has_command(ctx, name)

    def suggestion(self, ctx: click.Context, word: str) -> str:
        """Return the end of the error for an unknown subcommand; of a path it is what checks it."""
        if Path(word).exists() or Path(word).suffix or os.sep in word:
            return f"; to check a log or a folder, type: {recommended('check', word)}"
        return super().suggestion(ctx, word)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the subcommand."""
        if cmd_name not in COMMANDS:
            from toposcope.cli.subject import command_of

            subject = _further_subjects().get(cmd_name)
            return None if subject is None else _with_checked_out(command_of(subject))
        return _with_checked_out(importlib.import_module(f"toposcope.cli.{cmd_name}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing any."""
        further = {name: subject.title for name, subject in _further_subjects().items()}
        for heading, commands in {**SECTIONS, "Measure further subjects": further}.items():
            if commands:
                with formatter.section(heading):
                    formatter.write_dl(list(commands.items()))


def _further_subjects() -> dict[str, Subject]:
    """Return the subjects without a command of their own, from a folder or an installed package.

    Only these are imported.
    """
    from toposcope.subjects.roster import with_made_command

    return with_made_command()


@click.group(
    cls=LazyGroup,
    # click would strip control characters from names; ours are written by their numbers
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)
@click.version_option(__version__, prog_name="toposcope")
def toposcope() -> None:
    """Find out from checkpoints and logs how the training of a language model is going.

    Start with `toposcope check LOG`: it says in one line whether a run is all right and where its loss
    will end. `toposcope demo --out DIR` shows everything else on five small models.

    The measurements come from persistent homology, which describes the shape of a set of points or of a
    network: which parts are connected, which loops exist, and over what range of distances. A *store* is
    the folder that holds them.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line; exit 0 when done, 1 with listed problems, 2 when nothing was done."""
    if args is None:
        # The last collection of garbage, which Python makes when it ends, takes .25 s: nothing needs it then.
        atexit.register(gc.freeze)
    with _ended_like_ctrl_c(), typed_options(), _spoken_to_nobody():
        _run(args)


class _Unheard:
    """The stream of messages; the work continues if nobody reads it any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, if the stream is still open."""
        with contextlib.suppress(BrokenPipeError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if the stream is still open."""
        with contextlib.suppress(BrokenPipeError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Return everything else from the stream itself."""
        return getattr(self._stream, name)


@contextlib.contextmanager
def _spoken_to_nobody() -> Iterator[None]:
    """Let a command do its work although its stderr is closed or its pipe has no reader.

    The numbers of closed streams are taken first, or the next file that is opened would get the messages.
    """
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(taken, True)
    os.close(taken)
    before, out = sys.stderr, sys.stdout
    stream = before if before is not None else os.fdopen(os.dup(2), "w")
    sys.stderr = as_legible(cast("TextIO", _Unheard(stream)))
    sys.stdout = out and as_legible(out)
    try:
        yield
    finally:
        sys.stderr, sys.stdout = before, out
        if before is None:
            stream.close()


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: files closed, workers ended, one line."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _run(args: list[str] | None) -> None:
    typed = list(sys.argv[1:] if args is None else args)
    try:
        _check_text(typed)
        code = toposcope.main(
            args=args,
            prog_name="toposcope",
            standalone_mode=False,
            obj=typed,
        )
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (click.exceptions.Abort, click.ClickException, InputError, MemoryError, OSError) as error:
        from toposcope.cli.failure import die

        die(error, typed)


def _check_text(typed: list[str]) -> None:
    """Refuse arguments that no file or store could hold as text, and empty ones.

    An empty path is the current folder for Python: a variable that is not set would have it checked or
    written to.
    """
    for word in typed:
        if not word or (word.startswith("--") and word.find("=") == len(word) - 1):
            raise InputError("an argument is empty; give a value, or check that the variable in it is set")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word!r} is not UTF-8; rename it or give another name") from None
