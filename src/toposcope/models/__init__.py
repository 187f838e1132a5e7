"""Language models, texts and batches: a model with a batch is an objective, for any format of model.

Its names are loaded on first use: the analysis of a table opens no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from toposcope.models.batch import Batch
    from toposcope.models.loading import ModelLoader
    from toposcope.models.objective import Objective
    from toposcope.models.protocol import LanguageModel
    from toposcope.models.texts import Texts, load_texts

__all__ = ["Batch", "LanguageModel", "ModelLoader", "Objective", "Texts", "load_texts"]

__getattr__, _, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "batch": ["Batch"],
        "loading": ["ModelLoader"],
        "objective": ["Objective"],
        "protocol": ["LanguageModel"],
        "texts": ["Texts", "load_texts"],
    },
)
