"""What the words beside a number mean: a place in training, a loss, or another quantity."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

HELD_OUT = frozenset(
    ["val", "valid", "validation", "validate", "dev", "eval", "evaluation", "evaluating", "test", "testing",
     "heldout", "held_out", "va", "vld", "tst", "validacion", "validacao"]
)  # fmt: skip
"""Words of a loss that the model was not trained on."""
TRAINED = frozenset(["train", "training", "trained", "tr", "trn", "treino", "treinamento", "entrenamiento"])
"""Words of a loss of training."""
LOSSES = frozenset(["loss", "losses", "perdida", "perda", "perte", "verlust"])
LOSS_PARTS = (
    "oss", "OSS", "Score at", "otal", "xent", "ost", "COST", "ntropy", "nll", "NLL", " ce", "CE",
    "损失", "損失", "손실", "отери", "rdida", "erda", "erlust", "erte",
    "eldout=", "al=", "alid=", "eldout:", "al:", "alid:",
)  # fmt: skip
"""Parts of the words for a loss, of which a line with one has some."""
LIKE_LOSSES = frozenset(
    ["xent", "ce", "nll", "cost", "crossentropy", "cross_entropy", "celoss", "crossentropyloss"]
)
"""Names of a loss that count where nothing is called a loss."""
BITS = frozenset(["bpb", "bpc", "bits_per_byte", "bits_per_char", "bits_per_character"])
"""Names of a loss in bits per byte or character."""

GLOBAL, STEP, PLACE, EPOCH = "global", "step", "place", "epoch"
"""A step that never falls; a step of the run or of an epoch; a place within an epoch; an epoch."""
LOSS, OTHER, NOTHING = "loss", "other", "nothing"
_PLACES = {
    "step": STEP, "steps": STEP, "iter": STEP, "iters": STEP, "iteration": STEP, "iterations": STEP,
    "it": STEP, "itr": STEP, "update": STEP, "updates": STEP,
    "global_step": GLOBAL, "global_steps": GLOBAL, "globalstep": GLOBAL, "num_updates": GLOBAL,
    "timesteps": GLOBAL, "total_num_steps": GLOBAL,
    "up": GLOBAL, "total_timesteps": GLOBAL, "total_steps": GLOBAL, "global_iter": GLOBAL,
    "batch": PLACE, "batches": PLACE, "batch_idx": PLACE, "batch_id": PLACE, "minibatch": PLACE,
    "mini_batch": PLACE, "batch_step": PLACE, "batch_index": PLACE,
    "epoch": EPOCH, "epochs": EPOCH, "ep": EPOCH, "epoch_id": EPOCH, "epoch_num": EPOCH, "epoch_idx": EPOCH,
    "epoca": EPOCH, "epocas": EPOCH, "epoche": EPOCH, "epoque": EPOCH, "round": EPOCH,
}  # fmt: skip
_OF_ALL = frozenset(["global", "overall", "cumulative"])
"""Words of a counter of the whole run: a `Global Batch` goes on where the next epoch begins."""
_STEPS_OF = frozenset(["train", "training", "trainer", "optimizer", "gradient", "opt", "current"])
_WHOLE = frozenset(
    ["total", "tot", "overall", "train", "training", "avg", "average", "mean", "batch", "step", "epoch",
     "iter", "iteration", "current", "running", "lm", "sum", "all", "global", "smooth", "smoothed",
     "moving", "ema", "final", "last", "reduced", "value", "item", "model", "ce", "raw", "tr", "trn",
     *HELD_OUT]
)  # fmt: skip
"""Words beside "loss" that name no part of it."""
_SMOOTH = frozenset(["avg", "average", "mean", "running", "smooth", "smoothed", "moving", "ema", "epoch"])
_TOTAL = frozenset(["total", "tot", "overall", "all"])
_NO_LOSS = frozenset(
    ["scale", "scaler", "weight", "weights", "ratio", "coef", "coeff", "coefficient", "fn", "function",
     "type", "std", "var", "window", "every", "interval", "spike", "spikes", "lambda", "alpha",
     "factor", "limit", "time", "best", "lowest", "minimum", "threshold", "margin", "mask", "id", "idx",
     "z", "lossz", "eps", "delta", "change", "improvement", "improved", "patience", "version", "min",
     "max"]
)  # fmt: skip
"""Words beside "loss" that make it no loss, or not that of this step."""
_BEFORE = (
    _WHOLE | TRAINED | LIKE_LOSSES
    | frozenset(["grad", "gradient", "learning", "cross", "weight", "param", "params", "tokens", "tok"])
    | frozenset(["time", "best"])
)  # fmt: skip
"""Words that belong to the name after them; other words before a name are text."""
_TEXT = frozenset(
    ["with", "the", "at", "and", "of", "is", "a", "for", "info", "debug", "warning", "has", "had",
     "new", "in", "to", "from", "got", "current", "achieved", "reached", "its", "this", "initial", "s"]
)  # fmt: skip
_PREPOSITIONS = frozenset(
    ["after", "before", "than", "by", "over", "under", "below", "above", "on", "per", "was", "lr", "acc"]
)
_SPLIT = re.compile(r"[^a-z0-9]+")
_WORDS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Phrase:
    """What the words before a number mean: the `kind` of number, its `name`, and whether it is held out.

    `place` orders the losses that a log may have: a total, a plain loss, a mean, a part.
    """

    kind: str
    name: str
    held_out: bool = False
    trained: bool = False
    order: int = 0


PART = 8
"""The order of a loss that is a part of another."""


@lru_cache(maxsize=8192)
def phrase(text: str) -> Phrase:
    """Return what the words before a number mean.

    >>> phrase("Average Train Loss").kind, phrase("Dev Loss").held_out, phrase("loss scale").kind
    ('loss', True, 'other')
    >>> phrase("global step").kind, phrase("Epoch").kind, phrase("INFO lr").name
    ('global', 'epoch', 'lr')
    >>> [phrase(words).kind for words in ("Global Batch", "overall iteration", "Batch", "current step")]
    ['global', 'global', 'place', 'step']
    """
    words = _WORDS.split(text.strip())
    name = _name(words)
    parts = [part for part in _SPLIT.split(name.lower()) if part]
    if not parts:
        return Phrase(NOTHING, "")
    stems = [*parts, *(part.removesuffix("loss") for part in parts)]  # "valloss"
    held = any(word in HELD_OUT for word in stems) or "held_out" in name.lower() or "held-out" in name.lower()
    if text.startswith("CV ") and len(parts) > 1:  # `CV Batch 4/100 loss 2.5`; a `cv_loss` is one of balance
        held, parts = True, parts[1:]
    trained = any(part in TRAINED for part in parts)
    if kind := _place(parts):
        return Phrase(kind, name, held, trained)
    if order := _order(parts):
        return Phrase(LOSS, name, held and not trained, trained, order)
    return Phrase(OTHER, name, held and not trained, trained)


def _name(words: list[str]) -> str:
    """Return the end of a phrase that is a name: a word, and those before it that belong to it."""
    last = len(words) - 1
    begin = last
    while begin > 0 and begin > last - 3:
        word = words[begin - 1].lower().strip(".-")
        near = begin == last and "loss" in words[last].lower() and word not in _TEXT
        named = begin == last and word in LOSSES and _is_part(words[last].lower())  # `loss gen: 1.2`
        if not (near or named or any(part in _BEFORE for part in _SPLIT.split(word))):
            break
        begin -= 1
    return " ".join(words[begin:]).strip(".-/ ")


def _is_part(word: str) -> bool:
    """Return whether a word after "loss" may name a part of it; a place, a unit or a preposition does not."""
    return word not in _TEXT | _PREPOSITIONS | _NO_LOSS | _BEFORE and word not in _PLACES and word.isalnum()


def _place(parts: list[str]) -> str:
    """Return which place in training the words of a name say; empty if they say none."""
    core = [part for part in parts if part not in HELD_OUT and part not in TRAINED]
    joined = "_".join(core or parts)
    if kind := _PLACES.get(joined):
        return kind
    kind = _PLACES.get(core[1], "") if len(core) == 2 and core[0] in _STEPS_OF | _OF_ALL else ""
    if kind in (STEP, PLACE) and core[0] in _OF_ALL:
        return GLOBAL
    if kind == STEP or (kind in (PLACE, EPOCH) and core[0] == "current"):
        return kind
    return ""


def _order(parts: list[str]) -> int:
    """Return the place of a loss among others by the words of its name: 1 is best, 0 says that it is none."""
    named = [part for part in parts if part in LOSSES or part.endswith("loss")]
    joined = "_".join(parts)
    if any(part in _NO_LOSS for part in parts):
        return 0
    if not named:
        rest = [part for part in parts if part not in _WHOLE]
        if "_".join(rest) in BITS and any(part in HELD_OUT for part in parts):
            return 6
        like = joined.endswith("cross_entropy") or any(part in LIKE_LOSSES for part in parts)
        return 5 if like and all(part in LIKE_LOSSES or part in ("cross", "entropy") for part in rest) else 0
    rest = [part for part in parts if part not in LOSSES and part not in _WHOLE]
    rest += [
        part for part, after in pairwise(parts) if part == "value" and after in LOSSES
    ]  # of a value function
    if rest and not (len(rest) == 1 and rest[0] in ("trainloss", "valloss", "totalloss", "avgloss")):
        return PART
    if any(part in _TOTAL for part in parts):
        return 1
    return 3 if any(part in _SMOOTH for part in parts) else 2
