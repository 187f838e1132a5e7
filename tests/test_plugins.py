"""What installed packages bring is checked at one place: a broken one ends in a line that names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toposcope.cli.main import main
from toposcope.core import plugins
from toposcope.core.errors import InputError
from toposcope.files.formats import registry as formats
from toposcope.logs.remarks import Remark
from toposcope.rules import registry
from toposcope.rules.loss_spike import LossSpike
from toposcope.rules.rule import Rule
from toposcope.sources import open_series
from toposcope.sources.audit import audit


def offered(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    point = SimpleNamespace(name="mine", value="mine:THING", load=load)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])


def test_objects_and_classes_of_the_kind_are_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, lambda: "text")
    assert list(plugins.brought("toposcope.things", str, bytes)) == ["text"]
    offered(monkeypatch, lambda: KeyError)
    assert list(plugins.brought_classes("toposcope.things", LookupError)) == [KeyError]


def test_another_kind_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    offered(monkeypatch, lambda: 3)
    assert list(plugins.brought("toposcope.things", str, bytes)) == []
    said = capsys.readouterr().err
    assert "mine = mine:THING is left out, because it is not of the kind str or bytes" in said
    assert list(plugins.brought_classes("toposcope.things", LookupError)) == []
    assert "is not of the kind LookupError" in capsys.readouterr().err


class Odd:
    """An object whose class cannot be asked for."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return ValueError


def gone() -> None:
    raise ModuleNotFoundError("No module named 'gone'")


def ended() -> None:
    sys.exit("goodbye")


def of_many_lines() -> None:
    raise RuntimeError("one\ntwo\x1b[31m" + "x" * 10_000)


def without_end() -> None:
    without_end()


@pytest.mark.parametrize("load", [gone, ended, of_many_lines, without_end, Odd])
def test_a_package_that_fails_or_ends_is_named_once_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, load: Any
) -> None:
    offered(monkeypatch, load)
    monkeypatch.setattr(plugins, "_TOLD", set())
    for _ in range(2):
        assert list(plugins.brought("toposcope.things", str)) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("problem: toposcope.things: mine = mine:THING is left out")
    assert len(line) < 400


def test_an_interrupt_during_an_import_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise KeyboardInterrupt

    offered(monkeypatch, load)
    with pytest.raises(KeyboardInterrupt):
        list(plugins.brought("toposcope.things", str))


class Spiky(Rule):
    """A rule with the name of one of ours."""

    name = "loss spike"


def test_a_rule_with_a_taken_name_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    offered(monkeypatch, lambda: Spiky)
    ours = registry.EXTENSIBLE
    rules = plugins.Extensible("toposcope.rules", Rule, ours.own, ours.name_of, "a rule {} exists already")
    assert Spiky not in rules.by_name().values()
    assert "'loss spike' exists already" in capsys.readouterr().err


PROGRAM = """
import contextlib, sys
from toposcope.cli.main import main
from toposcope.files.formats.registry import is_weights_file
from toposcope.page.roster import _installed
from toposcope.rules.registry import family
from toposcope.subjects.landscape.direction_kinds import EXTENSIBLE as directions
from toposcope.watch.alarms.registry import EXTENSIBLE as alarms

family(), is_weights_file("a.pt"), _installed(), alarms.by_name(), directions.by_name()
with contextlib.suppress(SystemExit):
    main(["--help"])
main(["check", sys.argv[1]])
"""
GROUPS = ("rules", "alarms", "formats", "subjects", "figures", "directions")


@pytest.mark.slow
def test_commands_work_beside_packages_that_fail_or_end(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "broken-1.dist-info").mkdir(parents=True)
    (site / "broken-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    points = "".join(f"[toposcope.{name}]\nends = ends:THING\nfails = fails:THING\n" for name in GROUPS)
    (site / "broken-1.dist-info" / "entry_points.txt").write_text(points)
    (site / "ends.py").write_text("import sys\nsys.exit(3)\n")
    (site / "fails.py").write_text("1 / 0\n")
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},{3 - step / 100}\n" for step in range(1, 31)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    words = [sys.executable, "-c", PROGRAM, str(log)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "loss" in done.stdout
    left_out = {line.partition(" is left out")[0] for line in done.stderr.splitlines()}
    assert left_out == {
        f"problem: toposcope.{group}: {name} = {name}:THING" for group in GROUPS for name in ("ends", "fails")
    }


class Failing(Rule):
    """A rule that fails where it judges."""

    name = "failing"

    def judge(self, run: Any) -> Any:
        raise ZeroDivisionError("no rows")


class Exhausting(Rule):
    """A rule that has not enough memory."""

    name = "exhausting"

    def judge(self, run: Any) -> Any:
        raise MemoryError


class Endless(Rule):
    """A rule that calls itself without end."""

    name = "endless"

    def judge(self, run: Any) -> Any:
        return self.judge(run)


class OfInput(Rule):
    """A rule that raises one of our errors."""

    name = "of input"

    def judge(self, run: Any) -> Any:
        raise InputError("no such column")


class Unmade(Rule):
    """A rule that cannot be made."""

    name = "unmade"

    def __init__(self, spending: Any = None) -> None:
        raise KeyError("no settings")


class Inheriting(LossSpike):
    """A rule whose method is one of ours, which fails with its state."""

    name = "inheriting"

    def __init__(self, spending: Any = None) -> None:
        super().__init__(spending)
        self._series = None  # type: ignore[assignment]

    def pass_over(self, rows: Any, start: int) -> int:
        return 0


class FailingAfter(Rule):
    """A rule that fails where it says by when its signal has passed."""

    name = "failing after"
    looks = "back"

    def on_row(self, row: Any) -> Any:
        return self.signal(row.step, "here") if row.step == 30 else []

    def passed(self, signal: Any, rows: Any) -> Any:
        raise KeyError("loss")


class FailingOnce(Rule):
    """A rule that fails where it says each thing once."""

    name = "failing once"

    def judge(self, run: Any) -> Any:
        return [Remark("noticed", self.name, 5, "here")]

    def once(self, judged: Any, replayed: Any) -> Any:
        raise KeyError("loss")


class Backwards(Rule):
    """A rule that passes over fewer rows than none."""

    name = "backwards"
    looks = "back"

    def on_row(self, row: Any) -> Any:
        return []

    def pass_over(self, rows: Any, start: int) -> Any:
        return -1 if start % 2 else "two"


class Ending(Rule):
    """A rule that ends the program where it follows a log."""

    name = "ending"
    looks = "back"

    def on_row(self, row: Any) -> Any:
        sys.exit(5)


@pytest.mark.parametrize("rule", [Failing, Exhausting, Endless, OfInput, Unmade, Inheriting, Ending])
def test_a_rule_that_fails_when_it_is_used_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any, rule: type[Rule]
) -> None:
    monkeypatch.setattr(registry.EXTENSIBLE, "added", [rule])
    monkeypatch.setattr(plugins, "_TOLD", set())
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},{3 - step / 100}\n" for step in range(1, 61)))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(log)])
    said = capsys.readouterr()
    assert (ended.value.code, said.out[:9]) == (0, "all right"), said
    assert f"{rule.__module__}.{rule.__name__}" in said.err
    assert len(said.err.splitlines()) == 1


def written(folder: Path, losses: Any) -> Path:
    log = folder / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},{loss}\n" for step, loss in enumerate(losses, 1)))
    return log


@pytest.mark.parametrize("rule", [FailingAfter, FailingOnce, Backwards])
def test_a_rule_that_fails_after_it_has_spoken_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any, rule: type[Rule]
) -> None:
    monkeypatch.setattr(registry.EXTENSIBLE, "added", [rule])
    monkeypatch.setattr(plugins, "_TOLD", set())
    log = written(tmp_path, [3 - step / 100 for step in range(60)])
    with pytest.raises(SystemExit) as ended:
        main(["check", str(log)])
    said = capsys.readouterr()
    assert ended.value.code == (rule is FailingAfter), said
    assert said.err.count("\n") == (rule is not Backwards), said


class Writing(Rule):
    """A rule that makes every loss good, in whatever it is given."""

    name = "writing"

    def judge(self, run: Any) -> Any:
        run.scale.value[:] = 0.0
        for rows in (run.losses, run.rows):
            rows.loc[:, "loss"] = 1.0
            rows["loss"] = 1.0
        return []

    def on_row(self, row: Any) -> Any:
        return []

    def pass_over(self, rows: Any, start: int) -> int:
        rows.loss[:] = 1.0
        return 0


def test_a_rule_that_writes_into_the_rows_changes_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    log = written(tmp_path, [3 - 0.01 * step if step < 200 else 9 for step in range(400)])
    monkeypatch.setattr(registry, "rules_of", lambda run: (*registry.EXTENSIBLE.others(), *registry.RULES))
    outputs = []
    for added in ([], [Writing]):
        monkeypatch.setattr(registry.EXTENSIBLE, "added", added)
        with pytest.raises(SystemExit) as ended:
            main(["check", str(log), "--json"])
        assert ended.value.code == 1
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


class Curious(Rule):
    """A rule that says which columns it was given."""

    name = "curious"

    def judge(self, run: Any) -> Any:
        return [Remark("noticed", self.name, 5, f"columns {', '.join(sorted(run.rows))}")]


def test_a_rule_gets_the_same_columns_of_one_run_and_of_several(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setattr(registry.EXTENSIBLE, "added", [Curious])
    log = written(tmp_path, [3 - step / 100 for step in range(60)])
    other = tmp_path / "other.csv"
    other.write_bytes(log.read_bytes())
    said = []
    for words in ([log], [log, other]):
        with pytest.raises(SystemExit):
            main(["check", *map(str, words), "--json"])
        for run in json.loads(capsys.readouterr().out)["runs"]:
            said += [one["sentence"] for one in run["noticed"] if one["kind"] == "curious"]
    assert len(said) == 3
    assert len(set(said)) == 1
    assert "run" not in said[0].split(", ")


ANSWERS: dict[str, Any] = {
    "none": None,
    "texts": ["plateau"],
    "a number": 5,
    "another level": lambda: [Remark("panic", "mine", 5, "no")],
    "no sentence": lambda: [Remark("look", "mine", 5, None)],  # type: ignore[arg-type]
    "a step that is none": lambda: [Remark("look", "mine", float("nan"), "no")],
    "an error in the middle": lambda: (1 / place for place in (1, 0)),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("side", ["judge", "on_row"])
def test_a_rule_that_answers_with_something_else_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any, name: str, side: str
) -> None:
    def answer(self: Rule, seen: Any) -> Any:
        return ANSWERS[name]() if callable(ANSWERS[name]) else ANSWERS[name]

    rule = type("Answering", (Rule,), {"name": "answering", side: answer})
    monkeypatch.setattr(registry.EXTENSIBLE, "added", [rule])
    monkeypatch.setattr(plugins, "_TOLD", set())
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},{3 - step / 100}\n" for step in range(1, 61)))
    for words in (["check", str(log)], ["check", str(log), "--json"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    said = capsys.readouterr()
    assert "answer" in said.err
    assert len(said.err.splitlines()) == 1, said.err


def test_a_rule_that_would_never_be_asked_is_no_rule() -> None:
    with pytest.raises(TypeError, match="looks 'back' or 'both', not 'sideways'"):
        type("Sideways", (Rule,), {"name": "sideways", "looks": "sideways"})


def test_a_format_that_fails_is_named_and_opens_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    def failing(*_: object) -> Any:
        raise RuntimeError("no reader")

    forms = [formats.FileFormat("mine", (".mine",), failing), formats.FolderFormat("ours", failing, failing)]
    monkeypatch.setattr(formats, "_ADDED", forms)
    (tmp_path / "step_10.mine").write_bytes(b"weights")
    (finding,) = audit(open_series(tmp_path))
    assert (finding.fault, "format mine" in finding.message) == ("unreadable", True)
    assert "failed (RuntimeError: no reader)" in capsys.readouterr().err


def test_an_error_of_ours_is_not_hidden() -> None:
    with pytest.raises(AttributeError):
        plugins.spared(registry.remarks_on, [], None)
