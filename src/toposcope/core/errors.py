"""Errors of a call or an input, each with a one-line message that names the remedy.

Every class here is a `ValueError`, so library users catch one thing; the command line prints the
message on one line and exits with 2, or with 1 when work had started and was interrupted.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

from toposcope.core.wording import option

_FULL = (errno.ENOSPC, errno.EDQUOT)


def of_full_disk(error: BaseException) -> bool:
    """Return whether an error says that the disk, or the quota on it, is full.

    >>> of_full_disk(OSError(errno.ENOSPC, "No space left on device")), of_full_disk(OSError("else"))
    (True, False)
    """
    return isinstance(error, OSError) and error.errno in _FULL


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message that names the known word nearest to `word`; empty if there is none.

    For words such as a/b/c, the last part is compared as well.

    >>> did_you_mean("wieghts", ["weights", "train"])
    "; did you mean 'weights'?"
    >>> did_you_mean("xyz", ["weights", "train"])
    ''
    >>> did_you_mean("h0_totl", ["rips/model/h0_total"])
    "; did you mean 'rips/model/h0_total'?"
    """
    words = [str(word) for word in known]
    near = difflib.get_close_matches(word, words, n=1)
    if not near:
        ends = {word.rpartition("/")[2]: word for word in reversed(words)}
        near = [ends[near_word] for near_word in difflib.get_close_matches(word, ends, n=1)]
    return f"; did you mean {near[0]!r}?" if near else ""


class InputError(ValueError):
    """The input or the call is wrong; nothing was done.

    The error keeps its parts. Its text is `ARGUMENT VALUE: PROBLEM; REMEDY` in the reader's spelling: options
    and commands on the command line, arguments and calls in Python. The parts name further options and
    commands by `toposcope.core.wording.option` and `command`.

    Parameters
    ----------
    problem
        The problem.
    argument
        The wrong argument by its name in Python, if it is also an option of a command.
    value
        The value that was given.
    remedy
        What the reader can do about it.

    Examples
    --------
    >>> error = InputError("it has no group", argument="step_pattern", value="x", remedy="add one")
    >>> str(error)
    "step_pattern 'x': it has no group; add one"
    >>> from toposcope.core.wording import typed_options
    >>> with typed_options():
    ...     str(error)
    "--step-pattern 'x': it has no group; add one"
    """

    def __init__(
        self, problem: str, *, argument: str | None = None, value: object = None, remedy: str | None = None
    ) -> None:
        super().__init__(problem)
        self.problem, self.argument, self.value, self.remedy = problem, argument, value, remedy

    def __str__(self) -> str:
        """Return the message in the spelling of its reader."""
        named = "" if self.argument is None else option(self.argument).strip("`")
        if named and self.value is not None:
            named += f" {_shown(self.value)}"
        head = f"{named}: {self.problem}" if named else self.problem
        return head if self.remedy is None else f"{head}; {self.remedy}"

    def __repr__(self) -> str:
        """Return the class and the message."""
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Make the error picklable, whatever arguments its class takes."""
        return _restored, (type(self), self.args, self.__dict__)


def _shown(value: object) -> str:
    return (
        f"'{value}'" if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def _restored(kind: type[InputError], args: tuple[object, ...], parts: dict[str, object]) -> InputError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(parts)
    return error


class SourceError(InputError):
    """A checkpoint, a tensor or a series cannot be read in the format that it claims to have."""


class EmptyLogError(SourceError):
    """A log has no rows: it is not a log, or its trainer has not written any yet."""


class NoLogError(SourceError):
    """A file can be read, and is no training log."""


class UnrelatedTableError(NoLogError):
    """A table has no known step and no known loss, and no column that may be the step under another name."""


class StoreError(InputError):
    """A results folder is missing, from another schema, or from another recipe."""


class RecipeError(InputError):
    """A recipe has an unknown key, a missing value or a value of the wrong type."""


class BrokenOffError(InputError):
    """The work started and could not be finished; finished work is saved, and a repeated call continues."""


class MissingExtraError(InputError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed", remedy=f"install it with: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this very installation.

    For a source checkout the command has its path and the versions it was tested with. The package index may
    have another version under the name, and a looser request for torch may install GPU libraries.
    """
    import json
    import sys
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    pip = f"{sys.executable} -m pip install"
    try:
        origin = json.loads(distribution("toposcope").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    address = urlsplit(str(origin.get("url", "")))
    if address.scheme != "file":
        return f"{pip} 'toposcope[{extra}]'"
    checkout = Path(unquote(address.path))
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    pins = checkout / "constraints.txt"
    return f"{pip} {editable}'{checkout}[{extra}]'" + (f" -c {pins}" if pins.is_file() else "")
