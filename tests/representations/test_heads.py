"""The perplexity of models with tied, scaled or capped output embeddings is that of their own loss."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from toposcope.models._pretrained import TransformersModel  # noqa: E402
from toposcope.subjects.representations.forward import StateReading, read  # noqa: E402

from .conftest import write_tokenizer  # noqa: E402

TEXT = "the cat sat on the mat and the dog ran away from the old house"
_LLAMA = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 64, "initializer_range": 0.3,
}  # fmt: skip
FAMILIES = {
    "tied": (
        "gpt2",
        {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "tie_word_embeddings": True},
    ),
    "untied": ("llama", {**_LLAMA, "tie_word_embeddings": False}),
    "capped": ("gemma2", {**_LLAMA, "head_dim": 8, "final_logit_softcapping": 0.5}),
    "multiplied": ("cohere", {**_LLAMA, "logit_scale": 0.0625}),
    "divided": ("granite", {**_LLAMA, "logits_scaling": 4.0}),
}


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_loss_is_the_models_own(name: str, tmp_path: Path) -> None:
    family, settings = FAMILIES[name]
    size = write_tokenizer(tmp_path)
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config = transformers.AutoConfig.for_model(family, vocab_size=size, **ids, **settings)
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = TransformersModel(tmp_path)
    found = read(
        model, [TEXT], StateReading(layers=(2,), length=64, perplexity_texts=1, perplexity_length=64)
    )
    tokens = torch.tensor([model.encode([TEXT], 64)[0]])
    own = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with torch.inference_mode():
        expected = float(own(input_ids=tokens, labels=tokens).loss)
    assert found.nll == pytest.approx(expected, rel=1e-5)
