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

    Of words such as a/b/c, the last part is enough.

    >>> did_you_mean("wieghts", ["weights", "train"])
    "; did you mean 'weights'?"
    >>> did_you_mean("xyz", ["weights", "train"])
    ''
    >>> did_you_mean("h0_totl", ["rips/model/h0_total"])
    "; did you mean 'rips/model/h0_total'?"
    """
    words = [str(one) for one in known]
    near = difflib.get_close_matches(word, words, n=1)
    if not near:
        ends = {one.rpartition("/")[2]: one for one in reversed(words)}
        near = [ends[one] for one in difflib.get_close_matches(word, ends, n=1)]
    return f"; did you mean {near[0]!r}?" if near else ""


_SHELL = r"\b(?:ray start|pip install)[^;`]*"
_COMMAND = r"(?:`|\b)toposcope [a-z]+(?: (?!(?:or|and)\b)(?:--?[a-z][\w-]*|[^\s;`,()]+))*`?"
_FLAG = re.compile(rf"(?P<shell>{_SHELL})|(?P<command>{_COMMAND})|--(?P<flag>[a-z][a-z-]*)")
_CALLS = {
    "weights": ("measure", ""),
    "embeddings": ("measure", "features='representations'"),
    "landscape": ("measure", "features='landscape'"),
    "merge": ("store.merge.merge", ""),
    **{
        name: (name, "")
        for name in ("analyze", "audit", "check", "cloud", "compare", "forecast", "report", "train")
    },
}
"""Commands, and the call that does the same: the function, and an argument that it needs besides."""
_NAMES = {"range": "reach", "save-states": "keep"}
"""Options whose argument has another name in Python."""
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

    A message is written as the command line speaks: options as they are typed, `--step-pattern`, and whole
    commands. To who calls from Python it names the argument, and the call that does what the command does.

    >>> str(InputError("--step-pattern 'x': has no group; see: toposcope weights --help"))
    "step_pattern 'x': has no group; see: help(toposcope.measure)"
    >>> str(InputError("runs is no store; make one with: toposcope weights SERIES --out runs"))
    "runs is no store; make one with: toposcope.measure(SERIES, 'runs')"
    >>> with typed_options():
    ...     str(InputError("--step-pattern 'x': has no group"))
    "--step-pattern 'x': has no group"
    """

    def __str__(self) -> str:
        """Return the message, its options named as the caller gives them."""
        text = super().__str__()
        return spoken(text)


def spoken(text: str) -> str:
    """Return a text that is written as the command line speaks as its reader speaks: typed, or in Python.

    >>> spoken("the end is unknown: give --horizon STEP or --schedule")
    'the end is unknown: give horizon STEP or schedule'
    """
    return text if _typed.get() else _FLAG.sub(_in_python, text)


def _in_python(found: re.Match[str]) -> str:
    if found["shell"]:
        return found["shell"]
    if found["command"]:
        return _call(found["command"].strip("`").split()[1:]) or found["command"]
    return _argument(found["flag"])


def _argument(flag: str) -> str:
    return _NAMES.get(flag, flag.replace("-", "_"))


def _call(words: list[str]) -> str:
    """Return the call that does what a command does; empty where there is none."""
    function, more = _CALLS.get(words[0], ("", ""))
    if not function:
        return "" if not any(word.startswith("--") for word in words) else f"the command toposcope {words[0]}"
    if "--help" in words:
        return f"help(toposcope.{function})"
    given: list[str] = []
    options: list[str] = [more] * bool(more)
    name = ""
    for word in words[1:]:
        if word.startswith("--"):
            options += [f"{_argument(name)}=True"] * bool(name)
            name = word[2:]
        elif name == "out" or not name:
            given.append(word if word.isupper() or word == "..." else repr(word))
            name = ""
        else:
            options.append(f"{_argument(name)}={word if word.isupper() else repr(word)}")
            name = ""
    given += ["STORE"] * (name == "out")
    if function == "store.merge.merge" and len(given) > 1:
        given = [f"[{', '.join(given[:-1])}]", given[-1]]
    return f"toposcope.{function}({', '.join([*given, *options])})"


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
