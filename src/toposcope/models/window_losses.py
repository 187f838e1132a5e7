"""Held-out losses of averages over the last checkpoints, of every window from one to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.types import Checkpoint
from toposcope.models.objective import Objective

if TYPE_CHECKING:
    from toposcope.models.batch import Batch
    from toposcope.models.loading import ModelLoader
    from toposcope.models.protocol import LanguageModel
    from toposcope.sources.series import Series


def window_losses(
    series: Series, newest_first: Sequence[Checkpoint], batch_of: Callable[[LanguageModel], Batch],
    loader: ModelLoader, *, decay: float = 1.0,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Yield the loss of every sequence for the average of the last 1, 2, ... checkpoints.

    Sums are in float64, and every average is rounded to the type of the newest model's parameters, as it
    would be stored. In memory are the sums and two models. With `decay` the shares fall by it from each
    checkpoint to the one before it.
    """
    import torch

    totals: dict[str, torch.Tensor] = {}
    types: dict[str, torch.dtype] = {}
    objective: Objective | None = None
    weight = 0.0
    for age, at in enumerate(newest_first):
        with loader.model(series, at) as model:
            if objective is None:
                objective = Objective(model, batch_of(model))
            share = decay**age
            weight += share
            for name, values in model.module.named_parameters():
                part = values.detach().to(torch.float64) * share
                totals[name] = totals[name] + part if name in totals else part
                types.setdefault(name, values.dtype)
        averaged = {name: (total / weight).to(types[name]) for name, total in totals.items()}
        yield objective.at(averaged).per_sequence_losses()
