"""Losses that go by the name of what they measure: a column `val_mse`, `train-rmse:0.52`, `logprob: 0.68`.

They count only where nothing in a log is called a loss. Of several, the one that trainers minimise most often
is taken, and a note names it. This module is loaded for such logs alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from toposcope.logs.dialects.phrases import HELD_OUT, TRAINED

_NAMES = (
    "logloss binary_logloss multi_logloss mlogloss binary_error_logloss nll negloglik neg_log_likelihood "
    "negative_log_likelihood deviance logprob crossentropy cross_entropy categorical_crossentropy "
    "sparse_categorical_crossentropy binary_crossentropy bce xent nelbo neg_elbo objective criterion "
    "bpd bits_dim bits_per_dim nats",
    "tot total",
    "mse l2 mean_squared_error squared_error",
    "rmse l2_norm root_mean_squared_error",
    "mae l1 mean_absolute_error",
    "huber smooth_l1 quantile poisson tweedie rmsle msle mape smape",
    "err error merror",
)
"""What a trainer minimises, the likeliest loss first; the second row holds sums of parts."""
_RANKS = {name: rank for rank, names in enumerate(_NAMES) for name in names.split()}
SUM = 1
"""The rank of a sum of parts."""
_WORDS = frozenset(word for name in _RANKS for word in name.split("_"))
_LEARNT = TRAINED | {"learn", "trn"}
_NO_PART = frozenset(["avg", "average", "mean", "epoch", "batch", "running", "s"])
_CLEAR = frozenset(
    ["step", "steps", "iter", "iteration", "epoch", "batch", "lr", "rate", "time", "sec", "second",
     "seconds", "s", "ms", "eta", "speed", "mem", "memory", "gpu", "grad", "norm", "gnorm", "acc",
     "accuracy", "r2", "auc", "aucpr", "f1", "precision", "recall", "prec", "top1", "top5", "iou",
     "miou", "map", "psnr", "ssim", "bleu", "score", "best", "patience", "size", "seed", "fold", "data",
     "samples", "examples", "tokens", "images", "weight", "decay", "wd", "momentum", "dropout",
     "temperature", "ndcg", "kappa", "mcc", "pearson", "corr", "spearman", "remaining", "elapsed",
     "date", "timestamp", "wall", "row", "index", "average", "avg", "r", "round", "tick", "pass",
     "cost", "err", "error"]
)  # fmt: skip
"""Words of quantities that are surely no loss: beside them a measure is the loss."""
_GENERATOR = re.compile(r"(?:loss_?)?(?:G|[Gg]en|[Gg]enerator)(?:_\w{1,24})?")
_DISCRIMINATOR = re.compile(r"(?:loss_?)?(?:D|[Dd]isc|[Dd]iscriminator)(?:_\w{1,24})?")
_BESIDE_THEM = re.compile(r"(?:cycle|idt|identity|feat|rec|gp|adv|gan|kl)\w{0,24}", re.IGNORECASE)
"""Losses of two networks that train against each other, and those beside: CycleGAN's `D_A`, `cycle_A`."""


class MinimisedMeasure(NamedTuple):
    """What a trainer minimises: its rank among others, the likeliest loss first, and where it is measured."""

    rank: int
    held_out: bool


def measure(name: str) -> MinimisedMeasure | None:
    """Return what a name measures, and on what; None if it is no measure that a trainer minimises.

    >>> measure("valid_1's rmse"), measure("train_mse"), measure("rmse_e_trn"), measure("val_acc")
    (MinimisedMeasure(rank=3, held_out=True), MinimisedMeasure(rank=2, held_out=False), None, None)
    """
    words = words_of(name)
    sets = [word for word in words if word in HELD_OUT or word in _LEARNT]
    rest = [word for word in words if word not in sets and word not in _NO_PART and not word.isdigit()]
    if not rest and sets == ["learn"]:  # CatBoost
        return MinimisedMeasure(0, held_out=False)
    rank = _RANKS.get("_".join(rest))
    return None if rank is None else MinimisedMeasure(rank, any(word in HELD_OUT for word in sets))


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case."""
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def is_clear(name: str) -> bool:
    """Return whether a quantity beside a measure leaves no doubt about the loss.

    >>> is_clear("lr"), is_clear("rmse_e_trn"), is_clear("RRC_stage1")
    (True, True, False)
    """
    words = words_of(name)
    plain_words = _CLEAR | _WORDS | _LEARNT | HELD_OUT
    return not words or any(word in plain_words or word.startswith("acc") for word in words)


def with_measures(tables: Sequence[pd.DataFrame], taken: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return meanings with the measures that are the losses of tables without any, and notes.

    >>> rows = pd.DataFrame({"epoch": [1], "train_mse": 0.5, "train_mae": 0.4, "val_mse": 0.6, "lr": 0.1})
    >>> with_measures([rows], {"step": "epoch"})[0]
    {'step': 'epoch', 'loss': 'train_mse', 'heldout_loss': 'val_mse'}
    >>> with_measures([rows.assign(stage1=0.2)], {"step": "epoch"})[0]
    {'step': 'epoch'}
    """
    columns = {str(c): table[c] for table in tables for c in table if str(c) not in taken.values()}
    names = {c: measured for c in columns if (measured := measure(c)) and _is_minimised(columns[c])}
    roles = losses_of_measures(names, (c for c in columns if c not in names))
    return {**taken, **roles}, notes_of(roles)


def _is_minimised(column: pd.Series) -> bool:
    """Return whether numbers may be a loss: above 0, and not all whole."""
    values = pd.to_numeric(column, errors="coerce").dropna()
    return bool(len(values)) and bool(values.median() >= 0) and bool((values % 1 != 0).any())


def losses_of_measures(names: Mapping[str, MinimisedMeasure], beside: Iterable[str]) -> dict[str, str]:
    """Return the loss and the held-out loss among measures by name, both of one measure."""
    trained = {measured.rank for measured in names.values() if not measured.held_out}
    ranks = trained or {measured.rank for measured in names.values()}
    rank = SUM  # a total has parts of any name, and is none without them
    if all(map(is_clear, beside)):
        rank = min(ranks - {SUM}, default=-1)
    if rank not in ranks:
        return {}
    roles: dict[str, str] = {}
    for name, measured in names.items():
        if measured.rank == rank:
            roles.setdefault("heldout_loss" if measured.held_out else "loss", name)
    return roles


def notes_of(roles: Mapping[str, str]) -> list[str]:
    """Return notes that say which measures are taken."""
    return [f"nothing is called a loss: {name!r} is taken as {role}" for role, name in roles.items()]


def parts_among(columns: Collection[str]) -> list[str]:
    """Return the losses of networks that train against each other; none unless both are there.

    >>> parts_among(["epoch", "D_A", "G_A", "cycle_A"]), parts_among(["epoch", "G", "lr"])
    (['D_A', 'G_A', 'cycle_A'], [])
    """
    both = all(any(form.fullmatch(column) for column in columns) for form in (_GENERATOR, _DISCRIMINATOR))
    forms = (_GENERATOR, _DISCRIMINATOR, _BESIDE_THEM)
    return [column for column in columns if any(form.fullmatch(column) for form in forms)] if both else []
