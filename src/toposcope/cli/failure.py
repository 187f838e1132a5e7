"""An error as one line and an exit code: 1 if something was done, 2 if nothing was."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from toposcope.core.errors import BrokenOffError, InputError, did_you_mean


def die(error: BaseException, typed: Sequence[str]) -> NoReturn:
    """Print an error of the command that was `typed`, and exit; with --json, it is printed as JSON, too."""
    message, code = _message(error, typed)
    line = " ".join(message.split())
    if "--json" in typed:
        with contextlib.suppress(OSError):  # nobody may read the output any more
            click.echo(json.dumps({"error": line, "exit_code": code}))
    print(f"toposcope: error: {line}", file=sys.stderr)
    sys.exit(code)


def _message(error: BaseException, typed: Sequence[str]) -> tuple[str, int]:
    """Return the line of an error, and the exit code."""
    if isinstance(error, click.exceptions.Abort):
        writes = list(typed[:1]) == ["watch"] or any(word.partition("=")[0] == "--out" for word in typed)
        rest = "finished work is saved: repeat the command to continue" if writes else "nothing was written"
        return f"interrupted; {rest}", 1
    if isinstance(error, click.ClickException):
        return _worded(error), 2
    if isinstance(error, InputError):
        return str(error), 1 if isinstance(error, BrokenOffError) else 2
    if isinstance(error, MemoryError):
        missing = error or "none is left"
        return f"there is not enough memory ({missing}); measure fewer points or texts at once", 1
    assert isinstance(error, OSError)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = error.filename or "writing"
        saved = "finished work is saved: free some space and repeat the command"
        return f"the disk is full ({where}); {saved}", 1
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}", 2


def _worded(error: click.ClickException) -> str:
    """Return a usage error with what to do about it: the help of the command that was called."""
    message = error.format_message().rstrip(".")
    if isinstance(error, click.BadParameter) and error.param is not None:
        choices = getattr(error.param.type, "choices", ())
        typed = re.match(r".*?'([^']*)' is not one of", message)
        message += did_you_mean(typed[1], choices) if typed else ""
    context = error.ctx if isinstance(error, click.UsageError) else None
    called = context.command_path if context is not None else "toposcope"
    return f"{message}; see: {called} --help"
