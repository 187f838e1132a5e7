"""What a code in an answer means: a rule of a log, an alarm of a watch, or a kind of finding of the audit."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.forms import capital
from toposcope.core.wording import option
from toposcope.rules.judgement import NO_LOSS, TOO_EARLY, UNREAD
from toposcope.rules.registry import rules
from toposcope.rules.rises import FEWEST
from toposcope.watch.alarms.advice import filled
from toposcope.watch.alarms.registry import EXTENSIBLE, family

_WATCH = "all statistical alarms of a run together raise one in at most 5% of healthy runs, by design"
_FIXED = (
    "a fixed check, without a rate of its own; with all of them, 0 of 145 healthy runs of other loops alarm"
)
_AUDIT = (
    "1 of 1,211 healthy series of tiny models has a fault of any kind (95%: at most 0.5%), and 137 have a "
    "remark"
)
_STATE = "0 of 800 sound states of eight writers were accused"
_NO_VERDICT = "It is no verdict, so it cannot be wrong."
"""The rates are those of docs/watch.md, docs/checkpoint.md and docs/resume.md."""

_EVERY = "audit, check, watch and every measurement"
_BY_AND_RATE = {
    "fault": (f"{_EVERY}, as a fault", _AUDIT),
    "remark": (f"{_EVERY}, as a remark", _AUDIT),
    "state": ("audit and check, of what training needs to continue", _STATE),
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code: what it is, where it is said, how often it is wrong on healthy runs, and what to do."""

    code: str
    what: str
    said_by: str
    wrong: str
    next: str

    def __str__(self) -> str:
        """Return the four sentences, a line each."""
        return (
            f"{self.code}: {self.what}\nSaid by: {self.said_by}\nHow often it is wrong: {self.wrong}\n"
            f"What to do: {self.next}"
        )


def explain(code: str) -> Explanation:
    """Return what a code means; hyphens and blanks are alike.

    Raises
    ------
    InputError
        When nothing has this code.

    >>> explain("loss-spike").said_by
    'check, forecast, report and watch'
    """
    by_code = {_plain(explanation.code): explanation for explanation in explanations()}
    if _plain(code) not in by_code:
        near = did_you_mean(_plain(code), list(by_code))
        raise InputError(f"no code is called {code!r}", remedy=f"leave it out for a list{near}")
    return by_code[_plain(code)]


def explanations() -> tuple[Explanation, ...]:
    """Return every code with its meaning: of rules, logs, seeds, alarms, and of the audit's findings."""
    by_plain_code: dict[str, Explanation] = {}
    for explanation in (*_of_rules(), *_of_logs(), *_of_seeds(), *_of_alarms(), *_of_audit()):
        by_plain_code.setdefault(_plain(explanation.code), explanation)
    return tuple(by_plain_code.values())


def _plain(code: str) -> str:
    return code.strip().lower().replace(" ", "-").replace("_", "-")


def _first(kind: type) -> str:
    """Return the first paragraph of a class's docstring as one line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _of_rules() -> Iterator[Explanation]:
    text = resources.files("toposcope.rules").joinpath("kinds.toml").read_text("utf-8")
    meanings = tomllib.loads(text)
    for rule in rules():
        by = "check, forecast, report and watch" if rule.looks_back() else "check, forecast and report"
        for code in dict.fromkeys((rule.name, *rule.speaks_of())):
            meaning = meanings.get(code, _first(rule))
            yield Explanation(code, meaning, by, _sentence(rule.rate), _without_place(rule.next))


def _of_logs() -> Iterator[Explanation]:
    """Yield what is said where a log cannot be judged."""
    by = "check, forecast, report and watch"
    yield Explanation(
        TOO_EARLY, f"Fewer than {FEWEST} losses are logged, too few to judge the run.", by, _NO_VERDICT,
        "Look again later.",
    )  # fmt: skip
    yield Explanation(
        NO_LOSS, "The run has no log, or its log has no finite loss.", by, _NO_VERDICT,
        "Put its log into the folder, or name the log.",
    )  # fmt: skip
    yield Explanation(
        UNREAD, "A log of the run cannot be read, or is not used.", by, _NO_VERDICT,
        "Read the reason beside it, and give the log in a form that can be read.",
    )  # fmt: skip


def _of_seeds() -> Iterator[Explanation]:
    yield Explanation(
        "odd run",
        "A run is not like its siblings: of four or more seeds of one recipe, its losses or features "
        "stand apart. Two odd runs of six can hide each other.",
        "check, report and watch",
        "It is said of 0.0% of healthy groups of 5 or 10 seeds by losses, of 2.4 and 1.2% with features.",
        f"Compare its settings with those of the others; leave it out of means with {option('without')}.",
    )


def _of_alarms() -> Iterator[Explanation]:
    shares = family()
    for alarm in EXTENSIBLE.by_name().values():
        has_share = alarm.share > 0 and alarm.test in shares.shares
        wrong = f"{shares.rate_of(alarm.test):.2%} of healthy runs at most; {_WATCH}" if has_share else _FIXED
        yield Explanation(alarm.test, _first(alarm), "watch", _sentence(wrong), _without_place(alarm.next))


def _of_audit() -> Iterator[Explanation]:
    text = resources.files("toposcope.sources").joinpath("kinds.toml").read_text("utf-8")
    for kind, rows in tomllib.loads(text).items():
        for row in rows:
            by, usual = _BY_AND_RATE[kind]
            for code, meaning in row["meaning"].items():
                yield Explanation(code, meaning, by, row.get("rate", _sentence(usual)), row["next"])


def _without_place(clause: str) -> str:
    """Return what to do as a sentence, without the step to go back to."""
    return _sentence(
        filled(
            clause.replace("resume{back}", "resume from the last good step").replace(
                "{back}", " to the last good step"
            )
        )
    )


def _sentence(clause: str) -> str:
    """Return a clause with its capital and its full stop.

    >>> _sentence("go back"), _sentence("Stop.")
    ('Go back.', 'Stop.')
    """
    return capital(clause) + "." * (not clause.endswith("."))
