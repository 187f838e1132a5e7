"""Language models, texts and batches: a model with a batch is an objective, for any format of model."""

from __future__ import annotations

from toposcope.models.batch import Batch
from toposcope.models.loading import ModelLoader
from toposcope.models.objective import Objective
from toposcope.models.protocol import LanguageModel
from toposcope.models.texts import Texts, load_texts

__all__ = ["Batch", "LanguageModel", "ModelLoader", "Objective", "Texts", "load_texts"]
