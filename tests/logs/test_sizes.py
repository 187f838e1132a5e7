"""The size of a model that a text log states is the size of its run."""

from __future__ import annotations

import json

import pytest

import toposcope as ts
from tests.check.dialects import nanogpt, torchtitan
from tests.check.written import falling, megatron, modded
from toposcope.cli.main import main
from toposcope.runs.reading import Reading, log_at

RANK = " > number of parameters on (tensor, pipeline) model parallel rank ({}, {}): {}\n"
WORLD = "using world size: 4, tensor-model-parallel size: 2, pipeline-model-parallel size: 2\n"


def sizes(tmp_path, text: str) -> list[int]:
    """Return the sizes of the runs of a text log."""
    log = tmp_path / "train.log"
    log.write_text(text)
    return [run.parameters for run in ts.read_log(log).runs]


def test_nanogpt_states_the_size_in_millions(tmp_path):
    head = "num decayed parameter tensors: 26, with 10,740,096 parameters\nnumber of parameters: 10.65M\n"
    assert sizes(tmp_path, head + nanogpt(falling(50))) == [10_650_000]
    log = log_at(str(tmp_path / "train.log"), "train", Reading())
    assert [run.parameters for run in log.runs] == [10_650_000]
    assert "10,650,000 parameters" in log.said


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (RANK.format(0, 0, 354871296), 354871296),
        (WORLD + "".join(RANK.format(t, p, 1000 + t + 10 * p) for t in (0, 1) for p in (0, 1)), 4022),
        (WORLD + RANK.format(0, 0, 1000), 0),  # the log of one rank of four
        (RANK.format(1, 0, 1000), 0),
        ("".join(RANK.format(t, 0, 500) for t in (1, 0)), 1000),
    ],
)
def test_megatron_states_the_size_by_rank(tmp_path, head, expected):
    assert sizes(tmp_path, head + megatron(falling(50))) == [expected]


def test_other_trainers_state_it_too(tmp_path):
    titan = "Model llama3 debugmodel size: 6,270,976 total parameters\n"
    assert sizes(tmp_path, titan + torchtitan(falling(50))) == [6_270_976]
    assert sizes(tmp_path, "model_params:17059912\n" + modded(falling(50))) == [17_059_912]


def test_two_runs_of_a_file_have_their_own_sizes(tmp_path):
    text = "number of parameters: 0.80M\n" + nanogpt(falling(50))
    assert sizes(tmp_path, text + "number of parameters: 1.59M\n" + nanogpt(falling(50, seed=1))) == [
        800_000, 1_590_000,
    ]  # fmt: skip


def test_a_line_of_a_script_states_no_size(tmp_path):
    source = 'print("number of parameters: %.2fM" % (n / 1e6,))\nlog(f"model_params:{n}")\n'
    assert sizes(tmp_path, source + nanogpt(falling(50))) == [0]


def test_advice_needs_no_size_that_the_log_states(tmp_path, capsys):
    log = tmp_path / "train.log"
    log.write_text("number of parameters: 10.65M\n" + nanogpt(falling(200)))
    words = ["forecast", str(log), "--horizon", "400", "--tokens-per-step", "1000", "--advise", "--budget"]
    with pytest.raises(SystemExit):
        main([*words, "1e13", "--json"])
    assert json.loads(capsys.readouterr().out)["advice"][0]["options"][0]["parameters"] == 10_650_000
