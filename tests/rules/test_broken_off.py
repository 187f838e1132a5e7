"""A text log that ends with an error says so, and one whose training went on does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import toposcope as ts
from toposcope.core.errors import InputError

ROWS = [f"step {step} | loss {2 + 5 / step:.4f} | lr 1.0e-04" for step in range(1, 61)]
TRACE = ["Traceback (most recent call last):", '  File "train.py", line 9, in <module>', "    step()"]
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.46 GiB."

ENDS = {
    "traceback": ([*TRACE, "ValueError: no more data"], "ValueError: no more data", "mend its cause"),
    "memory": ([*TRACE, MEMORY], "torch.OutOfMemoryError: CUDA out of memory", "take smaller batches"),
    "hand": ([*TRACE, "KeyboardInterrupt"], "KeyboardInterrupt", "resume it"),
    "rank": ([f"[rank3]: {line}" for line in [*TRACE, "RuntimeError: NCCL"]], "RuntimeError: NCCL", "mend"),
    "launcher": (
        [*TRACE, "RuntimeError: shapes", *TRACE, "torch.distributed.errors.ChildFailedError: "],
        "RuntimeError: shapes",
        "mend its cause",
    ),
    "chained": (
        [*TRACE, "KeyError: 'x'", "", "During handling of the above exception, another exception occurred:",
         "", *TRACE, "ValueError: no column x"],
        "ValueError: no column x",
        "mend its cause",
    ),
    "scheduler": (
        ["slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-27T10:00:00 DUE TO TIME LIMIT ***"],
        "DUE TO TIME LIMIT",
        "resume it",
    ),
    "killed": (["Killed"], "Killed", "take smaller batches"),
    "signal": (
        ["run.sh: line 3:    71 Segmentation fault      (core dumped) python train.py"],
        "Segmentation fault",
        "mend its cause",
    ),
    "bar": ([*TRACE, "ValueError: no more data", ROWS[-1]], "ValueError: no more data", "mend its cause"),
}  # fmt: skip


def write(folder: Path, lines: list[str]) -> Path:
    """Write a log, and return its path."""
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", ENDS)
def test_a_log_that_ends_with_an_error_is_looked_at(tmp_path, kind):
    lines, error, remedy = ENDS[kind]
    (run,) = ts.check(write(tmp_path, ROWS + lines)).runs
    (ground,) = run.judgement.grounds
    assert (ground.kind, ground.level) == ("broken off", "look")
    assert ground.sentence.startswith("the log ends with an error after step 60: ")
    assert error in ground.sentence
    assert remedy in ground.remedy


@pytest.mark.parametrize("kind", sorted(set(ENDS) - {"bar"}))
def test_an_error_after_which_the_training_goes_on_counts_for_nothing(tmp_path, kind):
    lines, *_ = ENDS[kind]
    check = ts.check(write(tmp_path, [*ROWS[:30], *lines, *ROWS[30:]]))
    assert check.level == "all right"


def test_a_word_of_an_error_within_a_message_is_none(tmp_path):
    lines = ["INFO Killed 3 stale workers of the data loader", "ValueError: is caught here and told", "done"]
    assert ts.check(write(tmp_path, ROWS + lines)).level == "all right"


def test_of_two_runs_in_a_log_only_the_last_ends_with_its_error(tmp_path):
    lines = [*TRACE, "ValueError: no more data"]
    again = [row.replace("loss ", "loss 1") for row in ROWS]
    log = ts.read_log(write(tmp_path, [*ROWS, *again, *lines]))
    assert [bool(run.error) for run in log.runs] == [False, True]


def test_a_short_log_and_one_of_a_policy_say_it_too(tmp_path):
    policy = [f"step {s} | loss {(-1) ** s * 0.01:.4f} | reward {s / 60:.3f} | kl 0.01" for s in range(1, 61)]
    for rows in (ROWS[:2], policy):
        (run,) = ts.check(write(tmp_path, [*rows, *TRACE, MEMORY])).runs
        assert "broken off" in [ground.kind for ground in run.judgement.grounds]


def test_a_text_without_training_names_its_error(tmp_path):
    path = write(tmp_path, ["loading 2 shards", *TRACE, MEMORY])
    with pytest.raises(InputError, match=r"tells of the error 'torch\.OutOfMemoryError: CUDA out of memory'"):
        ts.check(path)


def test_no_pattern_is_offered_where_no_number_rises(tmp_path):
    path = write(tmp_path, ["(q): Linear(in=64, out=8)"] * 20)
    with pytest.raises(InputError) as raised:
        ts.read_log(path)
    assert "(?P<" not in str(raised.value)
