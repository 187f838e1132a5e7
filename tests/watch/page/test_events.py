"""One event is one block: its plainest sentence first, its first step, one way back, and one thing to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toposcope.core.observations import AuditFinding
from toposcope.store import Store
from toposcope.watch.first_line import FirstLine, began, events_of
from toposcope.watch.journal import Event
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import fragment, page

MOVED = "(update_relative) moved by 13 standard deviations"
PLAIN = "layers.0.attn.qkv.weight was multiplied by 5.06"


def alarm(test: str, step: int, sentence: str, run: str = "a", **data: object) -> Event:
    told = {"name": "layers.0.attn.qkv.weight", "head": None, "feature": "x", "sentence": "norm 1 -> 5"}
    data = {"test": test, "sentence": sentence, "culprits": [told], "next": f"do what {test} says", **data}
    return Event(number=step, kind="alarm", run=run, step=step, data=data)


SCALED = [
    alarm("matrix or head", 2300, MOVED, last_good=2200),
    alarm("content", 2300, PLAIN, last_good=2250),
    alarm("update level", 2300, "the update is 9 standard deviations larger", last_good=2250),
    alarm("loss spike", 2340, "loss is 9 where 2 was expected", last_good=2250),
]
"""What a matrix that was multiplied by five raises."""


def test_one_event_is_led_by_its_plainest_alarm():
    (event,) = events_of(SCALED)
    assert event[0].data["sentence"] == PLAIN
    assert event[-1].data["test"] in ("matrix or head", "update level")
    assert began(event) == 2300


def test_the_first_line_is_the_plainest_alarm_from_its_first_step():
    first = FirstLine.of(SCALED, [], [], checked=True)
    assert (first.said, first.step, first.count) == (PLAIN, 2300, 1)
    assert first.next == "do what content says"


@pytest.mark.parametrize(
    "other",
    [alarm("content", 2300, PLAIN, run="b"), alarm("content", 5000, PLAIN, last_good=4900)],
)
def test_another_run_or_another_time_is_another_event(other):
    assert len(events_of([*SCALED, other])) == 2
    assert FirstLine.of([*SCALED, other], [], [], checked=True).count == 2


@pytest.fixture
def live(growing):
    for event in SCALED:
        growing.journal.append("alarm", "small-seed0", event.step, **event.data)
    made = Live(growing.path)
    made.visit()
    return made


CHECK = {"mark": "OK", "name": "measurements", "text": "9 of 9 readable, none misplaced"}
TO_DO = "Nothing has to be done about these runs."
GOOD = {"title": "Two runs trained", "next": TO_DO, "about": "", "left_out": "", "checks": [CHECK]}
SAID = {"act": "", "ground": "", "limits": "", "next": ""}
PART = {"subject": "weights", "said": SAID, "answers": [], "acts": [], "screen": GOOD}
ANSWER = {"seen": 9, "parts": [PART]}


def test_the_live_page_shows_one_block_for_an_event(live):
    (block,) = live.alarms()
    assert (block.sentence, block.step, block.last_good) == (PLAIN, 2300, 2250)  # as its Next says
    assert len(block.others) == 3
    text = fragment("alarms", live, ANSWER)
    assert text.count("<article") == 1
    assert text.count("<table") == 1
    assert text.count("Last good step") == 1
    assert "1 event with 4 alarms" in fragment("answer", live, ANSWER)


def test_nothing_on_the_live_page_contradicts_its_alarm(live):
    whole = page(live, ANSWER)
    assert "Nothing has to be done" not in whole
    assert "nothing has to be done" not in whole
    assert "none misplaced" not in whole
    assert "found nothing." not in whole
    assert whole.count("do what content says") >= 1
    assert "Next: do what content says." in fragment("answer", live, ANSWER)


def test_no_answer_beside_an_alarm_says_that_all_is_well(live, growing):
    rows = [
        ("trained", "healthy", "Five models trained without a fault."),
        ("sound", "clean", "9 of 9 readable."),
        ("changed", "moved", "The loss fell."),
    ]
    part = PART | {
        "answers": [[asked, act] for asked, _, act in rows],
        "acts": [act for _, _, act in rows],
        "kinds": [[asked, strength] for asked, strength, _ in rows],
    }
    beside = fragment("findings", live, {"parts": [part]})
    assert "The loss fell." in beside
    assert "without a fault" not in beside
    assert "readable" not in beside
    growing.journal.path.unlink()
    quiet = Live(growing.path)
    quiet.visit()
    assert "without a fault" in fragment("findings", quiet, {"parts": [part]})


def test_the_first_picture_has_ticks_on_both_axes(live):
    drawing = str(page(live, None)).split("<svg", 1)[1].split("</svg>")[0]
    assert drawing.count('class="tick middle"') >= 3
    assert drawing.count('class="tick end"') >= 3
    assert drawing.count('class="grid"') >= 3


def test_without_an_alarm_the_checks_and_next_are_shown(growing):
    made = Live(growing.path)
    made.visit()
    text = fragment("answer", made, ANSWER)
    assert "none misplaced" in text
    assert "Next: nothing has to be done" in text
    assert "(the first 9 of " in text


def test_next_is_never_about_topology_on_the_live_page(growing):
    made = Live(growing.path)
    made.visit()
    screen = GOOD | {"next": "To settle the open feature, save every 8 steps.", "about": "beyond"}
    part = ANSWER["parts"][0] | {"screen": screen}
    assert "Next:" not in fragment("answer", made, ANSWER | {"parts": [part]})


def test_the_title_says_what_is_watched(growing):
    made = Live(growing.path)
    made.visit()
    assert "<h1>small-seed0, " in page(made, None).replace(" and ", ", ")
    assert f"<h1>{growing.path.name}</h1>" not in page(made, None)


def test_an_alarm_that_passed_is_told_with_the_open_event_of_its_step(live):
    spike = alarm("loss spike", 2300, "loss is 3.6 where 2.4 was expected, back to normal by step 3,020")
    far = alarm("loss spike", 4000, "loss is 9 where 2 was expected, back to normal by step 4,020")
    far, spike = (replace(one, run="small-seed0") for one in (far, spike))
    block, alone = live.alarms(None, [spike, far])
    assert block.sentence == PLAIN
    assert spike.data["sentence"] in block.others
    assert alone.sentence == far.data["sentence"]


def test_a_fault_of_the_audit_leads_the_page_before_the_next_findings(growing):
    """It was in the table below `shows no fault so far` and `Next: nothing has to be done`."""
    fault = AuditFinding("small-seed0", 2300, "qkv", "was multiplied by 5.06", fault="rescaled-tensor")
    Store.open(growing.path).write_audit("runs", [fault])
    made = Live(growing.path)
    made.visit()
    text = fragment("answer", made, ANSWER)
    assert "was multiplied by 5.06" in text
    assert "nothing has to be done" not in text
    assert "none misplaced" not in text
    after = fragment("answer", made, ANSWER | {"audit": made.faults})
    assert "none misplaced" in after, "these findings know of the fault"
