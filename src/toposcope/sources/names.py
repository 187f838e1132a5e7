"""Parameter names as tables: name -> role, layer, layout of fused and transposed weights.

A family is a list of rules over names without wrapper prefixes; `{i}` stands for the layer and `{e}` for the
expert. The family that matches most of a checkpoint's matrices is used; names that match no rule are plain
matrices of role "other".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from toposcope.core.types import Role
from toposcope.files.formats.naming import plain_name

PREFIXES = (
    "module.",
    "app.",
    "state.",
    "params.",
    "target.",
    "net.",
    "network.",
    "_model.",
    "base_model.model.",
    "model.",
    "transformer.",
    "gpt_neox.",
    "language_model.",
    "decoder.",
    "bert.",
    "roberta.",
    "auto_model.",
)
"""Names of a model inside another module, and of a state inside another; all of them are stripped.

`app.` is of PyTorch's distributed checkpoints, `state.` of Composer, `params.` of Flax, `target.` of T5X.
"""

_FLAX_LAYER = re.compile(r"(^|\.)(layers?|h|blocks?)_(\d{1,6})(?=\.)")
_FLAX_ENDS = {"kernel": "weight", "embedding": "weight", "scale": "weight"}
"""Flax's names of the last part; a kernel has its inputs first."""

BUFFERS = re.compile(
    r"(^|\.)(masked_bias|inv_freq|position_ids|token_type_ids|rotary_emb\..*|attn\.bias|attention\.bias"
    r"|rope\.freqs|num_batches_tracked|freqs_(cos|sin|cis)|_extra_state.*"
    r"|(causal_|attn_|attention_)?mask|tril|(cos|sin)_cached|running_(mean|var)"
    r"|relative_position_index)$"
)
"""Entries that are stored beside the parameters but are not parameters."""

HEADS = re.compile(
    r"(^|\.)(attn|attention|self_attn|self_attention)\.(W_[QKVO]|w[qkvo]|[qkvo]_proj|query|key|value)(\.weight)?$"
)
"""Attention weights that may be stored as (heads, d_head, d_model): one matrix for each head."""


@dataclass(frozen=True, slots=True)
class Fused:
    """How several projections share one matrix of shape (n_out, n_in).

    `order` is "blocks" (all rows of the first part, then of the next), "heads" (per head its q, k and v rows)
    or "groups" (per key-value group its query heads, then k, then v). `split` says whether the matrix is
    split if the caller does not decide.
    """

    parts: tuple[str, ...]
    order: str = "blocks"
    split: bool = True


QKV = Fused(("q", "k", "v"))
QKV_HEADS = Fused(("q", "k", "v"), "heads")
QKV_GROUPS = Fused(("q", "k", "v"), "groups")
QKV_WHOLE = Fused(("q", "k", "v"), split=False)
GATE_UP = Fused(("gate", "up"))


@dataclass(frozen=True, slots=True)
class NameRule:
    """One line of a family's table."""

    pattern: str
    role: Role
    fused: Fused | None = None
    transposed: bool = False
    """Whether it is stored as (inputs, outputs). For a module in memory, its layers decide
    (`models/_filters.py`)."""
    part: str = ""
    """What it is in its block: "q", "k", "v" (which can be split into heads), "o", "gate", "up" or "down"; or
    "token" for the embedding of the tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class NamingScheme:
    """A naming scheme; `shape_of` with `tall` distinguishes schemes that share their names."""

    name: str
    rules: tuple[NameRule, ...]
    shape_of: str = ""
    tall: bool = True


ATT, MLP, EMB, HEAD, OTHER = Role.ATTENTION, Role.MLP, Role.EMBEDDING, Role.HEAD, Role.OTHER


def _gpt2(transposed: bool) -> tuple[NameRule, ...]:
    return (
        NameRule("wte.weight", EMB, part="token"),
        NameRule("wpe.weight", EMB),
        NameRule("h.{i}.attn.c_attn.weight", ATT, QKV, transposed),
        NameRule("h.{i}.attn.c_proj.weight", ATT, None, transposed, "o"),
        NameRule("h.{i}.mlp.c_fc.weight", MLP, None, transposed, "up"),
        NameRule("h.{i}.mlp.c_proj.weight", MLP, None, transposed, "down"),
        NameRule("lm_head.weight", HEAD),
    )


_GATED = ("gate", "up", "down")
_NUMBERED = ((1, "gate"), (2, "down"), (3, "up"))
_LLAMA_BLOCK = (
    *(NameRule(f"layers.{{i}}.self_attn.{part}_proj.weight", ATT, part=part) for part in "qkv"),
    NameRule("layers.{i}.self_attn.o_proj.weight", ATT, part="o"),
    NameRule("layers.{i}.self_attn.qkv_proj.weight", ATT, QKV),
    *(NameRule(f"layers.{{i}}.mlp.{part}_proj.weight", MLP, part=part) for part in _GATED),
    NameRule("layers.{i}.mlp.gate_up_proj.weight", MLP, GATE_UP),
    NameRule("layers.{i}.mlp.gate.weight", MLP),
    NameRule("layers.{i}.mlp.shared_expert_gate.weight", MLP),
    *(NameRule(f"layers.{{i}}.mlp.shared_expert.{part}_proj.weight", MLP, part=part) for part in _GATED),
    *(NameRule(f"layers.{{i}}.mlp.experts.{{e}}.{part}_proj.weight", MLP, part=part) for part in _GATED),
    *(NameRule(f"layers.{{i}}.mlp.experts.{part}", MLP) for part in ("gate_up_proj", "down_proj")),
    *(
        NameRule(f"layers.{{i}}.block_sparse_moe.experts.{{e}}.w{n}.weight", MLP, part=part)
        for n, part in _NUMBERED
    ),
    NameRule("layers.{i}.block_sparse_moe.gate.weight", MLP),
)

FAMILIES: tuple[NamingScheme, ...] = (
    NamingScheme(
        "gpt",
        (
            NameRule("token_emb.weight", EMB, part="token"),
            NameRule("pos_emb.weight", EMB),
            NameRule("layers.{i}.attn.qkv.weight", ATT, QKV_WHOLE),
            NameRule("layers.{i}.attn.proj.weight", ATT, part="o"),
            NameRule("layers.{i}.mlp.fc1.weight", MLP, part="up"),
            NameRule("layers.{i}.mlp.fc2.weight", MLP, part="down"),
            NameRule("head.weight", HEAD),
        ),
    ),
    NamingScheme("gpt2", _gpt2(transposed=True), "h.{i}.attn.c_attn.weight", tall=False),
    NamingScheme("nanogpt", _gpt2(transposed=False), "h.{i}.attn.c_attn.weight", tall=True),
    NamingScheme(
        "gpt_neox",
        (
            NameRule("embed_in.weight", EMB, part="token"),
            NameRule("layers.{i}.attention.query_key_value.weight", ATT, QKV_HEADS),
            NameRule("layers.{i}.attention.dense.weight", ATT, part="o"),
            NameRule("layers.{i}.mlp.dense_h_to_4h.weight", MLP, part="up"),
            NameRule("layers.{i}.mlp.dense_4h_to_h.weight", MLP, part="down"),
            NameRule("embed_out.weight", HEAD),
            # GPT-NeoX's own names
            NameRule("word_embeddings.weight", EMB, part="token"),
            NameRule("final_linear.weight", HEAD),
        ),
    ),
    NamingScheme(
        "llama",
        (NameRule("embed_tokens.weight", EMB, part="token"), *_LLAMA_BLOCK, NameRule("lm_head.weight", HEAD)),
    ),
    NamingScheme(
        "llama_original",
        (
            NameRule("tok_embeddings.weight", EMB, part="token"),
            *(NameRule(f"layers.{{i}}.attention.w{part}.weight", ATT, part=part) for part in "qkv"),
            NameRule("layers.{i}.attention.wo.weight", ATT, part="o"),
            *(NameRule(f"layers.{{i}}.feed_forward.w{n}.weight", MLP, part=part) for n, part in _NUMBERED),
            NameRule("output.weight", HEAD),
        ),
    ),
    NamingScheme(
        "olmo_original",
        (
            NameRule("wte.weight", EMB, part="token"),
            NameRule("wpe.weight", EMB),
            NameRule("blocks.{i}.att_proj.weight", ATT, QKV),
            NameRule("blocks.{i}.attn_out.weight", ATT, part="o"),
            NameRule("blocks.{i}.ff_proj.weight", MLP, Fused(("up", "gate"))),
            NameRule("blocks.{i}.ff_out.weight", MLP, part="down"),
            NameRule("ff_out.weight", HEAD),
        ),
    ),
    NamingScheme(
        "bert",
        (
            *(
                NameRule(f"embeddings.{kind}_embeddings.weight", EMB, part=part)
                for kind, part in (("word", "token"), ("position", ""), ("token_type", ""))
            ),
            NameRule("encoder.layer.{i}.attention.self.query.weight", ATT, part="q"),
            NameRule("encoder.layer.{i}.attention.self.key.weight", ATT, part="k"),
            NameRule("encoder.layer.{i}.attention.self.value.weight", ATT, part="v"),
            NameRule("encoder.layer.{i}.attention.output.dense.weight", ATT, part="o"),
            NameRule("encoder.layer.{i}.intermediate.dense.weight", MLP, part="up"),
            NameRule("encoder.layer.{i}.output.dense.weight", MLP, part="down"),
            NameRule("pooler.dense.weight", OTHER),
            NameRule("cls.predictions.transform.dense.weight", OTHER),
            NameRule("cls.predictions.decoder.weight", HEAD),
            NameRule("lm_head.dense.weight", OTHER),
            NameRule("lm_head.decoder.weight", HEAD),
        ),
    ),
    NamingScheme(
        "transformer_lens",  # computes x W throughout
        (
            NameRule("embed.W_E", EMB, part="token"),
            NameRule("pos_embed.W_pos", EMB),
            *(
                NameRule(f"blocks.{{i}}.attn.W_{part.upper()}", ATT, transposed=True, part=part)
                for part in "qkv"
            ),
            NameRule("blocks.{i}.attn.W_O", ATT, transposed=True, part="o"),
            NameRule("blocks.{i}.mlp.W_gate", MLP, transposed=True, part="gate"),
            NameRule("blocks.{i}.mlp.W_in", MLP, transposed=True, part="up"),
            NameRule("blocks.{i}.mlp.W_out", MLP, transposed=True, part="down"),
            NameRule("unembed.W_U", HEAD, transposed=True),
        ),
    ),
    NamingScheme(
        "megatron",
        (
            NameRule("embedding.word_embeddings.weight", EMB, part="token"),
            NameRule("embedding.position_embeddings.weight", EMB),
            NameRule("layers.{i}.self_attention.linear_qkv.weight", ATT, QKV_GROUPS),
            NameRule("layers.{i}.self_attention.linear_proj.weight", ATT, part="o"),
            NameRule("layers.{i}.mlp.linear_fc1.weight", MLP, part="up"),
            NameRule("layers.{i}.mlp.linear_fc2.weight", MLP, part="down"),
            NameRule("encoder.layers.{i}.self_attention.query_key_value.weight", ATT, QKV_HEADS),
            NameRule("encoder.layers.{i}.self_attention.dense.weight", ATT, part="o"),
            NameRule("encoder.layers.{i}.mlp.dense_h_to_4h.weight", MLP, part="up"),
            NameRule("encoder.layers.{i}.mlp.dense_4h_to_h.weight", MLP, part="down"),
            NameRule("output_layer.weight", HEAD),
        ),
    ),
)

PLAIN = NamingScheme("", ())
_ENDS = ("weight", "kernel")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parameter belongs: its rule (None if no table knows it), layer and expert."""

    rule: NameRule | None = None
    layer: int | None = None
    expert: int | None = None

    @property
    def role(self) -> Role:
        """The role of the rule; "other" without one."""
        return self.rule.role if self.rule is not None else Role.OTHER


def strip(name: str) -> str:
    """Return `name` without the prefixes that wrappers put in front.

    >>> strip("module.model.layers.0.mlp.up_proj.weight")
    'layers.0.mlp.up_proj.weight'
    """
    name = plain_name(name)
    while name.startswith(PREFIXES):
        for prefix in PREFIXES:
            if name.startswith(prefix):
                name = name[len(prefix) :]
    return name


_DIGITS = re.compile(r"\d+|\{[ie]\}")


@cache
def _compiled(family: NamingScheme) -> Mapping[str, Sequence[tuple[re.Pattern[str], NameRule]]]:
    """Return the rules of a family, in their order, by their pattern without its numbers.

    A mixture of experts has 100,000 names: each of them is compared with the rules that differ from it in
    numbers alone.
    """
    table: dict[str, list[tuple[re.Pattern[str], NameRule]]] = {}
    for rule in family.rules:
        pattern = (
            re.escape(rule.pattern).replace(r"\{i\}", r"(?P<i>\d{1,6})").replace(r"\{e\}", r"(?P<e>\d{1,6})")
        )
        near = table.setdefault(_DIGITS.sub("#", rule.pattern), [])
        near.append((re.compile(pattern + r"\Z", re.ASCII), rule))
    return table


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A name as PyTorch would have it, the same without its numbers, and whether its inputs come first."""

    plain: str
    without_numbers: str
    inputs_first: bool

    @classmethod
    def of(cls, name: str) -> _Spelling:
        plain, inputs_first = _as_in_torch(strip(name))
        return cls(plain, _DIGITS.sub("#", plain), inputs_first)

    def match(self, family: NamingScheme) -> tuple[NameRule, re.Match[str]] | None:
        """Return the first rule of a family that knows the name."""
        for pattern, rule in _compiled(family).get(self.without_numbers, ()):
            if parsed := pattern.match(self.plain):
                return rule, parsed
        return None


@lru_cache(maxsize=1 << 16)
def place(family: NamingScheme, name: str) -> Place:
    """Return where the parameter `name` belongs in a model of `family`.

    >>> place(FAMILIES[0], "layers.2.mlp.fc1.weight").layer
    2
    """
    spelling = _Spelling.of(name)
    if (match := spelling.match(family)) is None:
        return Place(None, _layer_of(spelling.plain))
    rule, groups_found = match
    groups = groups_found.groupdict()
    layer, expert = groups.get("i"), groups.get("e")
    if spelling.inputs_first and not family.shape_of:  # the shape has decided there
        rule = replace(rule, transposed=not rule.transposed)
    return Place(rule, int(layer) if layer else None, int(expert) if expert else None)


def shared_names(names: Iterable[str], reference: Collection[str]) -> dict[str, str]:
    """Return each name as the reference has it, if only the modules around the model differ.

    A name stays if the new one would not be clear: if either side has two such names, or this side has the
    new one already.

    >>> shared_names(["model.layers.0.w", "lm_head.w"], ["layers.0.w", "lm_head.w"])
    {'model.layers.0.w': 'layers.0.w', 'lm_head.w': 'lm_head.w'}
    """
    tensor_names = list(names)
    if set(tensor_names) == set(reference):
        return {name: name for name in tensor_names}
    count = Counter(map(strip, tensor_names))
    count_there = Counter(map(strip, reference))
    there = {short: name for name in reference if count_there[short := strip(name)] == 1}
    taken = set(tensor_names)

    def new(name: str) -> str:
        short = strip(name)
        other = there.get(short, name)
        return other if count[short] == 1 and other not in taken else name

    return {name: name if name in reference else new(name) for name in tensor_names}


def _as_in_torch(name: str) -> tuple[str, bool]:
    """Return a name of Flax as PyTorch would have it, and whether its inputs come first.

    >>> _as_in_torch("layers_0.mlp.up_proj.kernel")
    ('layers.0.mlp.up_proj.weight', True)
    """
    front, dot, last = name.rpartition(".")
    if not dot or last not in _FLAX_ENDS:
        return name, False
    front = _FLAX_LAYER.sub(r"\1\2.\3", front)
    return f"{front}.{_FLAX_ENDS[last]}", last == "kernel"


def _layer_of(name: str) -> int | None:
    """Return the first number between dots: the layer, in every known scheme."""
    match = re.search(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d{1,6})\.", name)
    return int(match.group(1)) if match else None


def family_of(shapes: Mapping[str, tuple[int, ...]]) -> NamingScheme:
    """Return the family whose table knows most of the names; `PLAIN` if none knows any.

    >>> family_of({"transformer.h.0.attn.c_attn.weight": (8, 24)}).name
    'gpt2'
    >>> family_of({"transformer.h.0.attn.c_attn.weight": (24, 8)}).name
    'nanogpt'
    """
    best, most = PLAIN, 0
    alike: dict[str, list[_Spelling]] = {}
    for spelling in map(_Spelling.of, shapes):
        alike.setdefault(spelling.without_numbers, []).append(spelling)
    for family in FAMILIES:
        matching = sum(
            spelling.match(family) is not None
            for pattern in alike.keys() & _compiled(family).keys()
            for spelling in alike[pattern]
        )
        if matching > most and _shape_fits(family, shapes):
            best, most = family, matching
    return best


def _shape_fits(family: NamingScheme, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    if not family.shape_of:
        return True
    fused: Iterable[tuple[int, ...]] = (
        shape
        for name, shape in shapes.items()
        if len(shape) == 2 and getattr(place(family, name).rule, "pattern", "") == family.shape_of
    )
    return all((shape[0] > shape[1]) == family.tall for shape in fused)


def kind_of(name: str) -> str:
    """Return the kind of a matrix, whatever its layer.

    >>> kind_of("model.layers.3.attn.q_proj.weight")
    'q_proj'
    """
    name = plain_name(name)
    parts = [part for part in name.split(".") if part not in _ENDS and not part.isdigit()]
    return parts[-1] if parts else name
