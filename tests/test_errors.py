import ast
import json
import pickle
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click
import pytest

import toposcope
from tests.syntax import parsed
from toposcope.cli.main import COMMANDS
from toposcope.cli.main import toposcope as group
from toposcope.core.errors import BrokenOffError, InputError, MissingExtraError, StoreError, install_command
from toposcope.core.processes import spread
from toposcope.core.wording import option, typed_options
from toposcope.watch.watching import AnotherWatchError


class _Distribution:
    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.fixture
def installed(monkeypatch):
    def as_from(origin):
        monkeypatch.setattr(metadata, "distribution", lambda name: _Distribution(origin))

    return as_from


def test_a_checkout_is_named_by_its_path_and_pins(installed, tmp_path):
    (tmp_path / "constraints.txt").write_text("torch==0\n")
    installed({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    wanted = f"{sys.executable} -m pip install -e '{tmp_path}[hf]' -c {tmp_path}/constraints.txt"
    assert install_command("hf") == wanted


def test_a_released_package_is_named_by_its_name(installed):
    installed(None)
    assert install_command("ray") == f"{sys.executable} -m pip install 'toposcope[ray]'"


def test_what_is_missing_is_one_line(installed):
    installed(None)
    with pytest.raises(
        ValueError, match=r"^torch is not installed; install it with: .*'toposcope\[train\]'$"
    ):
        raise MissingExtraError("torch", "train")


def _refuse(_shared):
    def act(task, _tell):
        raise StoreError(
            "it is full", argument="save_states", value=task, remedy=f"give another {option('out')}"
        )

    return act


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (False, "save_states 'a b': it is full; give another `out`"),
        (True, "--save-states 'a b': it is full; give another --out"),
    ],
)
def test_an_error_crosses_processes_with_its_parts_in_the_spelling_of_its_reader(typed, text):
    with typed_options(typed):
        (event,) = spread(_refuse, None, ["a b"], workers=1)
        error = event.outcome
        assert type(error) is StoreError
        assert (error.argument, error.value) == ("save_states", "a b")
        assert str(error) == text


@pytest.mark.parametrize(
    "error",
    [
        InputError("it is full", argument="out", value=3, remedy="free some"),
        BrokenOffError("it is full"),
        MissingExtraError("torch", "train"),
        AnotherWatchError("it is watched", Path("store")),
    ],
)
def test_every_kind_of_error_is_pickled_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)


SOURCE = Path(toposcope.__file__).parent
WORDING = "toposcope.core.wording"
SPELT = re.compile(rf"--[a-z]|(?<!a )toposcope (?:{'|'.join(COMMANDS)})")
"""An option as it is typed, or a command."""
ELSEWHERE = {
    "start one with: ray start --head",
    ": holds a part of every tensor for each rank (verl, FSDP); run python -m verl.model_merger merge "
    "--backend fsdp --local_dir FOLDER --target_dir OUT",
}
"""Texts with an option of another program."""


def _kinds(trees: list[ast.Module]) -> set[str]:
    """Return the names of InputError and its subclasses, wherever the source defines them."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    kinds = {"InputError"}
    while more := {name for name, of in bases.items() if of & kinds} - kinds:
        kinds |= more
    return kinds


def _texts(call: ast.Call) -> list[str]:
    given = [*call.args, *(one.value for one in call.keywords)]
    parts = [part for one in given for part in ast.walk(one) if isinstance(part, ast.Constant)]
    return [part.value for part in parts if isinstance(part.value, str)]


def _calls(tree: ast.AST, names: set[str]) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in names]


def _made_early(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that run when a module is imported: all outside functions."""
    if isinstance(node, ast.Call):
        yield node
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for part in [node.args, *getattr(node, "decorator_list", [])] if inside else ast.iter_child_nodes(node):
        yield from _made_early(part)


def test_no_text_names_an_option_before_its_reader_is_known():
    early = []
    for path in SOURCE.rglob("*.py"):
        tree = parsed(path)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names = {
            one.asname or one.name for node in imports if node.module == WORDING for one in node.names
        } & {"option", "command", "renaming", "named"}
        calls = [call for call in _made_early(tree) if getattr(call.func, "id", "") in names]
        early += [f"{path.relative_to(SOURCE)}:{call.lineno}" for call in calls]
    assert early == []


def test_no_error_spells_an_option_or_a_command_for_one_reader_alone():
    trees = [parsed(path) for path in SOURCE.rglob("*.py")]
    kinds = _kinds(trees)
    raised = [_texts(call) for tree in trees for call in _calls(tree, kinds)]
    assert len(raised) > 400
    # a usage error of click is read at the command line alone, but its text is data there, too
    usage = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    raised += [_texts(call) for call in usage if getattr(call.func, "attr", "") == "UsageError"]
    wrong = [text for texts in raised for text in texts if SPELT.search(text) and text not in ELSEWHERE]
    assert not wrong


ARRAYS_ALONE = ("topology", "statistics", "subjects/landscape/geometry", "recipes")
"""Rooms whose arguments no option sets, and the keys of a TOML file."""
PYTHON_ALONE = {"thresh", "eigenvalues", "cloud_texts"}
"""Settings that only Python can change: no option leads to their errors."""


def _typed_names(command: click.Command) -> set[str]:
    """Return the names of a command's options, and of its arguments."""
    own = {one.lstrip("-").replace("-", "_") for param in command.params for one in param.opts}
    if not isinstance(command, click.Group):
        return own
    context = click.Context(command)
    further = [command.get_command(context, name) for name in command.list_commands(context)]
    return own.union(*(_typed_names(one) for one in further if one is not None))


def test_every_argument_that_an_error_names_is_one_of_a_command():
    """An error about `components` said "--components", and the option was called --pca."""
    context = click.Context(group)
    commands = [group.get_command(context, name) for name in COMMANDS]
    known = set().union(*(_typed_names(one) for one in commands if one is not None)) | PYTHON_ALONE
    named = {}
    for path in SOURCE.rglob("*.py"):
        if str(path.relative_to(SOURCE)).startswith(ARRAYS_ALONE):
            continue
        tree = parsed(path)
        for call in [node for node in ast.walk(tree) if isinstance(node, ast.Call)]:
            said = [one.value for one in call.keywords if one.arg == "argument"]
            marks = path.name != "options.py" and getattr(call.func, "id", "") == "option"
            for one in [*said, *call.args[:marks]]:
                if isinstance(one, ast.Constant):
                    named[one.value] = f"{path.relative_to(SOURCE)}:{call.lineno}"
    assert len(named) > 80
    assert {name: where for name, where in named.items() if name not in known} == {}


def test_no_message_names_an_option_without_its_mark():
    """A message that begins with the name of an argument has it as data: the command line shows `--jobs`."""
    root = Path(toposcope.__file__).parent
    bare = []
    for file in sorted(root.rglob("*.py")):
        if str(file.relative_to(root)).startswith(ARRAYS_ALONE):
            continue
        for node in ast.walk(parsed(file)):
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.JoinedStr)):
                continue
            if not getattr(node.func, "id", "").endswith("Error"):
                continue
            first, *more = node.args[0].values
            begins = first.value if isinstance(first, ast.Constant) else ""
            named = begins or (ast.unparse(first.value) == "name" and more and more[0].value)
            if re.fullmatch(r"[\w-]*( is| =) ", str(named)):
                bare.append(f"{file.relative_to(root)}:{node.lineno}: {ast.unparse(node.args[0])}")
    assert not bare
