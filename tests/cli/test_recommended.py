"""Commands that messages, help and docs recommend: each is complete, and parses as it stands there."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import click
import pytest

import toposcope as ts
from tests.syntax import parsed
from toposcope.cli.main import COMMANDS, toposcope
from toposcope.core.wording import free_place, recommended, runnable

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "toposcope"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(rf"\btoposcope ({'|'.join(COMMANDS)})\b")
MAKES = re.compile(r"\b(?:recommended|command|runnable)\(")
ONLY_A_NAME = re.compile(rf"`toposcope (?:{'|'.join(COMMANDS)})`")


def has_value(given: object) -> bool:
    """Return whether an option or an argument was given; click has a word of its own for what was not."""
    return given not in (None, (), []) and "UNSET" not in repr(given)


def complete(line: str) -> str:
    """Return what is wrong with a command as it is printed; "" where it parses and lacks nothing."""
    name, *words = shlex.split(line, comments=True)[1:]
    called = toposcope.get_command(click.Context(toposcope), name)
    if called is None:
        return f"{name} is no command"
    context = click.Context(called, info_name=name)
    if isinstance(called, click.Group) and words:
        if words[0].isupper():
            return ""  # stands for any subcommand
        if words[0] not in called.list_commands(context):
            return f"{name} {words[0]} is no command"
        name, *words = words
        called = called.get_command(context, name)
        context = click.Context(called, info_name=name)
    try:
        given, rest, _ = called.make_parser(context).parse_args([word for word in words if word != "…"])
    except click.UsageError as error:
        return error.format_message()
    if {"--list", "--calibrate", "--help", "--from-states"} & set(words):
        return ""  # these work alone
    lacks = [
        param.opts[0]
        for param in called.params
        if param.required
        and not has_value(given.get(str(param.name)))
        and not (param.name == "out" and "--plan" in words)
    ]
    lacks += ["--out"] if name == "train" and "--out" not in words else []
    lacks += ["--budget"] if "--advise" in words and "--budget" not in words else []
    return f"{', '.join(lacks)} missing" if lacks else f"too many words: {rest}" if rest else ""


def texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the texts of a module that names the program: line, text, whether it is a docstring."""
    if "toposcope " not in path.read_text():
        return
    tree = parsed(path)
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, id(node) in documented


def test_a_message_writes_no_command_by_hand() -> None:
    """`recommended` writes it, quoted and complete; a message may name a command: `toposcope audit`."""
    by_hand = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text, documented in texts(path)
        if not documented and NAMED.search(re.sub("<!--.*?-->", "", ONLY_A_NAME.sub("", text)))
    ]
    by_hand += [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in sorted(SOURCE.rglob("templates/**/*"))
        if path.is_file()
        for found in NAMED.finditer(re.sub(r"<!--.*?-->", "", ONLY_A_NAME.sub("", path.read_text())))
    ]
    by_hand += [
        str(path.relative_to(ROOT))
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "wording.py" and 'join(["toposcope"' in path.read_text()
    ]
    assert by_hand == []


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of `recommended`, `command` and `runnable` that state a whole command."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "wording.py" or not MAKES.search(path.read_text()):
            continue
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Call):
                continue
            name, given = getattr(node.func, "id", ""), len(node.args) + len(node.keywords)
            stated = given > 1 and node.args and isinstance(node.args[0], ast.Constant)
            if name == "recommended" or (name in ("command", "runnable") and stated):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_what_is_recommended_is_complete() -> None:
    """Each call names a command, options that it has, and all that it needs."""
    found = dict(calls())
    assert len(found) > 20
    wrong = {}
    for where, call in found.items():
        name, *words = call.args
        if isinstance(name, ast.Starred):
            continue  # a command as it was typed
        assert isinstance(name, ast.Constant), where
        flags = {"diagrams", "advise"}
        options: dict[str, object] = {
            word.arg: word.arg in flags or "1" for word in call.keywords if word.arg is not None
        }
        line = recommended(str(name.value), *("WORD" for _ in words), **options)
        if problem := complete(line):
            wrong[where] = f"{line}: {problem}"
    assert wrong == {}


def arguments(call: ast.Call) -> dict[str, object]:
    """Return values of the kind that the options of a call have."""
    own = {"seeds": "1,2", "rename": ["a=b"], "budget": "1e9", "diagrams": True, "advise": True}
    given = {word.arg: own.get(word.arg, "1") for word in call.keywords if word.arg is not None}
    unpacked = any(word.arg is None for word in call.keywords)  # those that say how a log is read
    return {**given, "rename": ["a=b"], "without": ["c"]} if unpacked else given


def binds(call: ast.Call) -> None:
    """Raise TypeError where a call of the package does not fit the signature of what it calls."""
    whole = ast.unparse(call.func)
    if whole.endswith("advise"):
        from toposcope.api.forecasts import Forecasts

        function: Callable[..., object] = partial(Forecasts.advise, None)  # type: ignore[arg-type]
    elif whole == "merge":
        from toposcope.store.merge import merge as function
    elif whole == "preset":
        from toposcope.subjects.weights.presets import preset as function
    else:
        function = getattr(ts, whole.removeprefix("toposcope."))
    named = {str(word.arg): None for word in call.keywords}
    inspect.signature(function).bind(*(None for _ in call.args), **named)


def test_what_is_recommended_in_python_is_a_call_that_python_takes() -> None:
    wrong, seen = {}, 0
    for where, call in calls():
        name, *words = call.args
        if getattr(call.func, "id", "") not in ("command", "runnable") or isinstance(name, ast.Starred):
            continue
        assert isinstance(name, ast.Constant), where
        line = runnable(str(name.value), *("WORD" for _ in words), **arguments(call))
        if line.startswith(("the command ", "help(")):
            continue
        seen += 1
        try:
            tree = ast.parse(line)
            for one in ast.walk(tree):
                if isinstance(one, ast.Call):
                    binds(one)
        except (TypeError, SyntaxError, AttributeError) as error:
            wrong[where] = f"{line}: {error}"
    assert seen > 12
    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "words", "options", "line"),
    [
        ("report", ["a", "b"], {"out": "c"}, "toposcope.report(['a', 'b'], 'c')"),
        ("compare", ["a", "b"], {}, "toposcope.compare('a', 'b')"),
        ("train", [], {"out": "DIR", "seeds": "1,2"}, "toposcope.train('demo', DIR, seeds=[1, 2])"),
        ("train", [], {"out": "r", "recipe": "grokking"}, "toposcope.train('grokking', 'r')"),
        (
            "merge", ["a", "b"], {"out": "c"},
            "from toposcope.store.merge import merge; merge(['a', 'b'], 'c')",
        ),
        (
            "forecast", ["s"], {"rename": ["v=loss"], "advise": True, "budget": "2e9"},
            "toposcope.forecast('s', rename={'v': 'loss'}).advise(2e9)",
        ),
        (
            "embeddings", ["SERIES"], {"losses": "FILE", "out": "o"},
            "toposcope.measure(toposcope.open_series(SERIES, losses=FILE), 'o', features='representations')",
        ),
        ("synth", [], {"out": "x"}, "the command toposcope synth"),
    ],
)  # fmt: skip
def test_a_command_in_python(name: str, words: list[str], options: dict[str, object], line: str) -> None:
    assert runnable(name, *words, **options) == line


def test_no_text_writes_an_option_by_hand() -> None:
    """`option` writes it, since Python has no flags; only the command line's own modules may."""
    flag = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    foreign = {  # options of other programs; the spelling
        "sweep/_cluster.py", "files/formats/foreign.py", "files/formats/parallel.py",
        "files/formats/ranks.py", "core/wording.py",
    }  # fmt: skip
    by_hand = [
        f"{name}:{node.lineno}: {node.value}"
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := path.relative_to(SOURCE).as_posix()) not in foreign and not name.startswith("cli/")
        if not (name.startswith("studies/") and path.name == "study.py")  # the options of `reproduce`
        if "--" in path.read_text()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and flag.search(node.value)
        if not flag.fullmatch(node.value)  # a declaration
        if id(node) not in expressions(path)
    ]
    by_hand += [
        f"{path.relative_to(SOURCE)}: {found[0]}"
        for path in sorted(SOURCE.rglob("templates/**/*.txt"))
        for found in flag.finditer(path.read_text())
    ]
    assert by_hand == []


@cache
def expressions(path: Path) -> frozenset[int]:
    """Return the texts that stand alone: docstrings, of constants and fields too."""
    return frozenset(id(node.value) for node in ast.walk(parsed(path)) if isinstance(node, ast.Expr))


def printed(text: str) -> Iterator[str]:
    """Yield the commands of a page: of its shell blocks, and in its running text those with options."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            for part in re.split(r"\s(?:&&|\|\|)\s", line):
                alone = re.sub(r"\s>\s*\S+", "", part).strip()  # without the file that the output goes to
                if alone.startswith("toposcope "):
                    yield alone
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for code in re.findall(r"`(toposcope [^`]+)`", prose):
        if len(code.split()) > 2:
            yield " ".join(code.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_the_docs_are_complete(page: Path) -> None:
    text = page.read_text()
    brought = re.findall(
        r'entry-points\."toposcope\.subjects"\]\n(\w+) =', text
    )  # commands that the page adds
    own = [line for line in printed(text) if line.split()[1] not in brought]
    wrong = {line: problem for line in own if (problem := complete(line))}
    assert wrong == {}


def test_commands_of_docstrings_are_complete() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}:{line}: {code}": problem
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text, documented in texts(path)
        if documented
        for code in printed(text)
        if (problem := complete(code))
    }
    assert wrong == {}


def test_a_command_is_quoted_for_a_shell(tmp_path: Path) -> None:
    place = tmp_path / "my runs; rm"
    line = recommended("weights", place, out="s", rename=["a b=c", "d=e"], yes=True, losses=None)
    assert shlex.split(line)[1:] == [
        "weights", str(place), "--out", "s", "--rename", "a b=c", "--rename", "d=e", "--yes",
    ]  # fmt: skip


def test_a_place_that_is_free(tmp_path: Path) -> None:
    assert free_place(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a-2").mkdir()
    assert free_place(tmp_path / "a") == tmp_path / "a-3"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("toposcope forecast STORE --advise", "--budget"),
        ("toposcope weights SERIES", "--out"),
        ("toposcope report STORE --oud x", "--oud"),
        ("toposcope train --recipe demo", "--out"),
        ("toposcope merge --out BOTH", "stores"),
    ],
)
def test_what_is_incomplete_is_seen(line: str, problem: str) -> None:
    assert problem in complete(line)
