"""What can go wrong with a call or an input, each with a one-line message that names the remedy.

Every class here is a `ValueError`, so library users catch one thing; the command line prints the
message on one line and exits with 2, or with 1 for what was begun and broke off.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message that names the known word nearest to `word`; empty without one.

    >>> did_you_mean("wieghts", ["weights", "train"])
    "; did you mean 'weights'?"
    >>> did_you_mean("xyz", ["weights", "train"])
    ''
    """
    near = difflib.get_close_matches(word, [str(one) for one in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


_FLAG = re.compile(r"(\b(?:toposcope [a-z]|ray start|pip install)[^;`]*)|--([a-z][a-z-]*)")
_NAMES = {"range": "reach"}
"""Options that Python calls otherwise."""
_typed: ContextVar[bool] = ContextVar("typed", default=False)


@contextmanager
def typed_options() -> Iterator[None]:
    """Let messages name options as they are typed at the command line while this lasts."""
    token = _typed.set(True)
    try:
        yield
    finally:
        _typed.reset(token)


class InputError(ValueError):
    """The input or the call is wrong; nothing was done.

    A message is written with options as they are typed, `--step-pattern`. From Python it names the argument;
    what is a whole command stays one.

    >>> str(InputError("--step-pattern 'x': has no group; see: toposcope weights --help"))
    "step_pattern 'x': has no group; see: toposcope weights --help"
    >>> with typed_options():
    ...     str(InputError("--step-pattern 'x': has no group"))
    "--step-pattern 'x': has no group"
    """

    def __str__(self) -> str:
        """Return the message, its options named as the caller gives them."""
        text = super().__str__()
        return text if _typed.get() else _FLAG.sub(_argument, text)


def _argument(found: re.Match[str]) -> str:
    name = found[2]
    return found[1] if name is None else _NAMES.get(name, name.replace("-", "_"))


class SourceError(InputError):
    """A checkpoint, a tensor or a series cannot be read as what it claims to be."""


class StoreError(InputError):
    """A results folder is missing, from another schema, or from another recipe."""


class RecipeError(InputError):
    """A recipe has an unknown key, a missing value or a value of the wrong type."""


class BrokenOffError(InputError):
    """The work was begun and could not be finished; what was done is kept, and repeating goes on."""


class MissingExtraError(InputError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; install it with: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this very installation.

    A source checkout is named by its path, with the versions it was tested with: on the package index alone
    the name may mean another version, and a looser request for torch may bring GPU libraries.
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
