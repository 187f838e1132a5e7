"""The command line as a whole: every listed command exists, explains itself and fails in one line."""

import errno
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from toposcope.cli import main as cli
from toposcope.core.errors import InputError


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help(name):
    result = CliRunner().invoke(cli.toposcope, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Usage:")


def _exit_of(monkeypatch, capsys, error):
    def explode(**_):
        raise error

    monkeypatch.setattr(cli.toposcope, "main", explode)
    with pytest.raises(SystemExit) as raised:
        cli.main([])
    return raised.value.code, capsys.readouterr().err


def test_wrong_input_is_one_line_and_exit_2(monkeypatch, capsys):
    code, err = _exit_of(monkeypatch, capsys, InputError("tensor 'w' holds NaN:\n drop it"))
    assert code == 2
    assert err == "toposcope: error: tensor 'w' holds NaN: drop it\n"


def test_a_full_disk_is_one_line_and_exit_1(monkeypatch, capsys):
    code, err = _exit_of(monkeypatch, capsys, OSError(errno.ENOSPC, "No space left on device", "/x/part"))
    assert code == 1
    assert err.count("\n") == 1
    assert "disk is full (/x/part)" in err


def test_an_unknown_command_is_exit_2(capsys):
    with pytest.raises(SystemExit) as raised:
        cli.main(["bogus"])
    assert raised.value.code == 2
    assert "No such command 'bogus'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyze", "store", "--scores", "/nope.csv"], "File '/nope.csv' does not exist"),
        (["analyze", "store", "--columns"], "Option '--columns' requires an argument"),
        (["export", "store"], "Missing option '--out'; see: toposcope export --help"),
        (["report", "store", "--bogus"], "No such option"),
    ],
)
def test_a_wrong_usage_is_one_line_and_exit_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    err = capsys.readouterr().err
    assert raised.value.code == 2
    assert err.count("\n") == 1
    assert err.startswith("toposcope: error: ")
    assert message in err


def test_no_command_prints_the_help(capsys):
    with pytest.raises(SystemExit) as raised:
        cli.main([])
    assert raised.value.code == 2
    assert "Ask about runs:" in capsys.readouterr().err


def test_the_list_of_commands_imports_none_of_them():
    call = (
        "import sys; from click.testing import CliRunner; from toposcope.cli import main; "
        "print(CliRunner().invoke(main.toposcope, ['--help']).output); "
        "print([name for name in ('numpy', 'toposcope.cli.analyze') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True).stdout
    assert all(f"  {name} " in out for name in cli.COMMANDS)
    assert out.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["forecast", "a.log"], "interrupted; nothing was written"),
        (
            ["weights", "runs", "--out", "store"],
            "interrupted; finished work is saved: repeat the command to continue",
        ),
    ],
)
def test_an_interruption_says_what_is_kept(typed, said, monkeypatch, capsys):
    def interrupted(**_):
        raise click.exceptions.Abort

    monkeypatch.setattr(cli.toposcope, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(typed)
    assert ended.value.code == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(said)


@pytest.mark.parametrize("words", [["--version"], ["check", "--help"], ["no-such"], ["check", "no.log"]])
def test_the_module_is_the_command(words, tmp_path):
    """`python -m toposcope` prints and ends as `toposcope` does, each in a fresh process."""

    def ended(*way):
        done = subprocess.run(
            [sys.executable, *way, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    code, printed, complained = ended("-m", "toposcope")
    assert (code, printed, complained) == ended("-c", "from toposcope.cli.main import main; main()")
    assert "__main__" not in printed + complained
