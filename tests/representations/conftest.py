"""A tiny causal model and a tiny encoder with their tokenizer, written by transformers itself."""

from __future__ import annotations

from pathlib import Path

import pytest

WORDS = ("fox", "dog", "cat", "hen", "owl")
TEXTS = [f"the {word} ran over the hill and saw {n} birds" for n, word in enumerate(WORDS)]
TEXTS += ["a short text", "one", "the hill and the birds " * 12]


def write_tokenizer(folder: Path) -> int:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return tokenizer.get_vocab_size()


def write_causal_model(folder: Path, seed: int = 0, *, scale: float = 1.0) -> None:
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    vocabulary = write_tokenizer(folder)
    config = GPTNeoXConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=48,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    torch.manual_seed(seed)
    model = GPTNeoXForCausalLM(config)
    with torch.no_grad():
        model.gpt_neox.layers[1].mlp.dense_4h_to_h.weight.mul_(scale)
    model.save_pretrained(folder)


@pytest.fixture(scope="session")
def causal_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("causal")
    write_causal_model(folder)
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory) -> Path:
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    config = BertConfig(
        vocab_size=write_tokenizer(folder),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    torch.manual_seed(1)
    BertModel(config).save_pretrained(folder)
    return folder
