"""The first five minutes of a stranger: for each trainer's folder, what five commands must say first.

In an answer `#` is a number, `FOLDER` and `STORE` are what the stranger gave, and `...` is any text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.trainers import folders, strangers
from tests.trainers.layouts import lora_gpt2, lora_llama

COMMANDS = ("check", "audit", "weights", "report", "watch")


@dataclass(frozen=True)
class Answer:
    """The exit code of a command, and its first line; of an error, its one line."""

    code: int
    line: str


@dataclass(frozen=True)
class Stranger:
    """Someone's folder: how the trainer makes it, what that needs, and what each command must say of it."""

    name: str
    make: Callable[[Path], Path]
    answers: dict[str, Answer]
    packages: tuple[str, ...] = ()
    """Without these there is no folder."""
    for_weights: tuple[str, ...] = ()
    """Without these the folder has a log and no checkpoint, so `check` alone has something to say."""
    sampled: tuple[str, ...] = ()
    """The commands that are in the fast suite as well."""


def sound(runs: str, check: str, report: str, measured: str = "#", code: int = 0) -> dict[str, Answer]:
    """Return the answers of a folder in which nothing is wrong; `runs` is "3 checkpoints of 1 run"."""
    return {
        "check": Answer(code, check),
        "audit": Answer(0, f"{runs} read: nothing found"),
        "weights": Answer(0, f"STORE: {measured} measurements made, 0 failed, in # s"),
        "report": Answer(0, report),
        "watch": Answer(0, f"no alarm in {runs}"),
    }


THREE = "3 checkpoints of 1 run"
ODD = "is not like its 4 siblings: ... its learning rate is 0.0268 at step 2 (the others have 2.98e-3)"
ENDED = "all right: FOLDER at step 30 of 30 (loss #) has reached its last step"
SO_FAR = "has no problem so far; its last step is unknown, so give --horizon STEP for a forecast"
FAULTLESS = "trained without a fault (minibatch loss #)."
NO_STORE = (
    "toposcope: error: STORE does not exist; a store is made with: toposcope weights SERIES --out STORE"
)
KERAS = (
    "FOLDER/model.01.keras: is a Keras archive, which is not read here; load it with "
    "keras.saving.load_model(FILE) and save its arrays by name with numpy.savez as step_N.npz: "
    "weight.path is each one's name"
)
BASELINES = (
    "FOLDER/rl_model_1024_steps.zip: is an archive of Stable-Baselines3, which is not read here; unzip "
    "policy.pth out of each into a folder of its own: unzip FILE policy.pth -d step_N"
)


def refused(check: str, reason: str, watch: Answer) -> dict[str, Answer]:
    """Return the answers of a folder whose log is read and whose checkpoints are not, with the reason."""
    return {
        "check": Answer(0, check),
        "audit": Answer(2, f"toposcope: error: {reason}"),
        "weights": Answer(2, f"toposcope: error: {reason}"),
        "report": Answer(2, NO_STORE),
        "watch": watch,
    }


STRANGERS = (
    Stranger(
        "five-seeds", strangers.five_seeds,
        {
            "check": Answer(1, "look: 1 of 5 runs to look at (FOLDER: seed4), 4 all right"),
            "audit": Answer(1, "15 checkpoints of 5 runs read: no fault of a checkpoint found"),
            "weights": Answer(0, "STORE: 75 measurements made, 0 failed, in # s"),
            "report": Answer(1, f"Run seed4 {ODD}."),
            "watch": Answer(1, f"no alarm in 15 checkpoints of 5 runs, but 1 problem: seed4 {ODD}"),
        },
        ("accelerate",), sampled=("check",),
    ),
    Stranger(
        "unfinished", strangers.unfinished,
        sound(
            THREE,
            "all right: FOLDER at step 60 of 120 (loss #) may end near # (# to #; coverage not measured)",
            "FOLDER (step 60 of 120) may end near # (# to #; not verified for runs like this).", "15",
        ),
        ("accelerate",),
    ),
    Stranger(
        "lora-c-attn", lora_gpt2,
        sound(THREE, ENDED, f"FOLDER {FAULTLESS}", "15"),
        ("accelerate", "peft"),
    ),
    Stranger(
        "lora-q-proj", lora_llama,
        sound(THREE, ENDED, f"FOLDER {FAULTLESS}", "15"),
        ("accelerate", "peft"),
    ),
    Stranger(
        "accelerate", folders.by_accelerate,
        sound(
            THREE, "not judged: no log of FOLDER with 3 checkpoints; put its log into the folder",
            "H0 total (pooled) rose from # to #.", "15", code=1,
        ),
        ("accelerate",),
    ),
    Stranger(
        "accelerate-tensorboard", strangers.accelerate_logged,
        sound(THREE, f"all right: FOLDER/clm at step 30 (loss #) {SO_FAR}", f"FOLDER {FAULTLESS}", "15"),
        ("accelerate", "tensorboard"),
    ),
    Stranger(
        "lightning", folders.by_lightning,
        sound(THREE, f"all right: FOLDER at step 29 (loss #) {SO_FAR}", f"version_0 {FAULTLESS}", "15"),
        ("lightning",),
    ),
    Stranger(
        "trl-sft", folders.by_trl,
        sound(THREE, ENDED, f"FOLDER {FAULTLESS}", "15"),
        ("accelerate", "trl", "datasets"),
    ),
    Stranger(
        "trl-grpo", strangers.trl_grpo,
        sound(
            THREE,
            f"{ENDED}; the loss is that of a policy: judged by reward, entropy, clipped share, truncated "
            "share, response length and gradient norm; a forecast does not apply",
            "FOLDER was measured (minibatch loss #).", "15",
        ),
        ("accelerate", "trl", "datasets"),
    ),
    Stranger(
        "nanogpt", strangers.nanogpt,
        sound(
            "1 checkpoint of 1 run",
            "all right: FOLDER/train.log at step 29 of 29 (loss #) has reached its last step",
            "FOLDER trained without a fault (held-out loss #).", "5",
        ),
        sampled=("check", "audit"),
    ),
    Stranger(
        "torchtune", strangers.torchtune,
        sound(
            THREE, f"all right: FOLDER/logs/log_1764290000.txt at step 30 (loss #) {SO_FAR}",
            "H0 total (pooled) rose from # to #.", "12",  # its checkpoints are epochs, its log counts steps
        ),
    ),
    Stranger(
        "keras", strangers.keras_csv,
        refused(
            f"all right: FOLDER/training.log at step 11 (loss #) {SO_FAR}",
            KERAS, Answer(1, f"nothing was checked: {KERAS}"),
        ),
        for_weights=("keras",), sampled=("check",),
    ),
    Stranger(
        "stable-baselines3", strangers.stable_baselines3,
        refused(
            "all right: FOLDER/progress.csv at step 2,560 (loss #) has no problem so far; the loss is that "
            "of a policy: judged by reward, KL, entropy and clipped share; a forecast does not apply",
            BASELINES, Answer(1, f"nothing was checked: {BASELINES}"),
        ),
        for_weights=("stable_baselines3",), sampled=("check",),
    ),
)  # fmt: skip
