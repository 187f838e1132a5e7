"""The GPT family in torch."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

from toposcope.training.shapes import GPTShape, parameter_shapes


class SelfAttention(nn.Module):
    """Causal self-attention with one fused projection to queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mixed values, (batch, time, width)."""
        batch, time, width = x.shape
        qkv = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
        return self.proj(mixed.transpose(1, 2).reshape(batch, time, width))


class MLP(nn.Module):
    """Two linear layers, four times the width between them, exact GELU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the transformed features, (batch, time, width)."""
        return self.fc2(gelu(self.fc1(x)))


class Block(nn.Module):
    """Attention and MLP, each after a LayerNorm and added to the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = SelfAttention(width, heads)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the stream after this block."""
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """A decoder-only transformer; tokens (batch, time) to logits (batch, time, vocabulary)."""

    def __init__(self, shape: GPTShape) -> None:
        super().__init__()
        self.shape = shape
        self.token_emb = nn.Embedding(shape.vocabulary, shape.width)
        self.pos_emb = nn.Embedding(shape.context, shape.width)
        self.layers = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.token_emb.weight

    def hidden(self, tokens: Tensor) -> Tensor:
        """Return the normalised features before the head, (batch, time, width)."""
        x = self.token_emb(tokens) + self.pos_emb.weight[: tokens.shape[1]]
        for block in self.layers:
            x = block(x)
        return self.ln_f(x)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token at every position."""
        return self.head(self.hidden(tokens))

    def loss(self, tokens: Tensor) -> Tensor:
        """Return the mean cross-entropy in nats; `tokens` has one more column than the inputs."""
        if self.shape.last_only:
            return cross_entropy(self.head(self.hidden(tokens[:, :-1])[:, -1]), tokens[:, -1])
        logits = self(tokens[:, :-1])
        return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def bind(model: GPT, values: Tensor, gradients: Tensor) -> None:
    """Make every parameter and its gradient a view of two flat buffers, in `parameter_shapes` order."""
    parameters = dict(model.named_parameters())
    start = 0
    for name, shape in parameter_shapes(model.shape):
        stop = start + math.prod(shape)
        parameters[name].data = values[start:stop].view(shape)
        parameters[name].grad = gradients[start:stop].view(shape)
        start = stop
