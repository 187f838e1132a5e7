"""Faults of mixtures of experts: how many planted ones the audit finds, and how many healthy runs it accuses.

    python -m benchmarks.experts [--first SEED] [--seeds 3] [--cases FILE]

For each seed, a model of two layers with eight experts each learns tokens of eight random languages, by
seven recipes. The series of each recipe is healthy: any fault is an accusation. In the
series of the first recipe, 20 faults are planted, four of each kind, at random layers, experts and steps, in
turn in the names of Mixtral, Qwen, GPT-OSS (stacks) and nanoMoE. A fault is found if the audit names its
kind and the layer's experts or gate it is in, and finds no other fault of experts. The limits of
`sources/experts.py` were set on seeds from 100 on, and on 0; 10 to 12 judge them.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot, scaled_dot_product_attention, silu

from toposcope import open_series
from toposcope.sources.audit import audit
from toposcope.sources.experts import KINDS

EXPERTS, WIDTH, HIDDEN, LAYERS, TOKENS, LENGTH = 8, 32, 32, 2, 32, 32
UPDATES, EVERY = 240, 30

Weights = dict[tuple[int, str, int], np.ndarray]
"""By layer, part ("gate", "up", "down", "router", "attn" or "embed") and expert (0 where there is none)."""


@dataclass(frozen=True)
class Recipe:
    """How a mixture is trained."""

    name: str
    chosen: int = 2
    sgd: bool = False
    decay: float = 0.1
    rate: float = 5e-3
    start: str = ""
    """"gate of zeros" or "copies of one MLP"."""


RECIPES = (
    Recipe("AdamW"),
    Recipe("SGD with momentum", sgd=True, rate=0.05, decay=0.0),
    Recipe("gate of zeros", start="gate of zeros"),
    Recipe("copies of one MLP", start="copies of one MLP"),
    Recipe("one expert per token", chosen=1),
    Recipe("no weight decay", decay=0.0),
    Recipe("triple rate", rate=1.5e-2),
)


class Mixture(nn.Module):
    """The experts of one layer: a gate of softmax scores, of which the largest count."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.chosen = recipe.chosen
        self.router = nn.Parameter(torch.randn(EXPERTS, WIDTH) * WIDTH**-0.5)
        self.gate = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * WIDTH**-0.5)
        self.up = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * WIDTH**-0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) * HIDDEN**-0.5)
        with torch.no_grad():
            if recipe.start == "gate of zeros":
                self.router.zero_()
            if recipe.start == "copies of one MLP":
                for part in (self.gate, self.up, self.down):
                    part.copy_(part[:1].expand_as(part))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the layer's output, and the loss that balances the experts."""
        flat = x.reshape(-1, WIDTH)
        scores = (flat @ self.router.T).softmax(-1)
        kept, which = scores.topk(self.chosen, -1)
        share = torch.zeros_like(scores).scatter(1, which, kept / kept.sum(-1, keepdim=True).detach())
        inner = silu(torch.einsum("nd,ehd->enh", flat, self.gate)) * torch.einsum(
            "nd,ehd->enh", flat, self.up
        )
        out = torch.einsum("enh,edh,ne->nd", inner, self.down, share)
        used = one_hot(which, EXPERTS).sum(1).float().mean(0)
        return out.reshape(x.shape), EXPERTS * (used * scores.mean(0)).sum() / self.chosen


class Model(nn.Module):
    """A transformer of two layers."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.attn = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH, bias=False) for _ in range(LAYERS))
        self.mixtures = nn.ModuleList(Mixture(recipe) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits and the balancing loss."""
        x, balance = self.embed(tokens), torch.zeros(())
        for attn, mixture in zip(self.attn, self.mixtures, strict=True):
            q, k, v, o = attn(self.norm(x)).chunk(4, -1)
            x = x + scaled_dot_product_attention(q, k, v, is_causal=True) * o.sigmoid()
            out, uneven = mixture(self.norm(x))
            x, balance = x + out, balance + uneven
        return self.norm(x) @ self.embed.weight.T, balance

    def weights(self) -> Weights:
        """Return a copy of the matrices."""
        out = {(0, "embed", 0): self.embed.weight}
        for at in range(LAYERS):
            out[at, "attn", 0], out[at, "router", 0] = self.attn[at].weight, self.mixtures[at].router
            for part in ("gate", "up", "down"):
                stack = getattr(self.mixtures[at], part)
                out |= {(at, part, expert): stack[expert] for expert in range(EXPERTS)}
        return {name: value.detach().numpy().copy() for name, value in out.items()}


def texts(seed: int) -> Iterator[torch.Tensor]:
    """Yield batches of sequences, each in one of eight languages: a table of likely next tokens."""
    rng = np.random.default_rng(seed)
    following = rng.dirichlet(np.full(TOKENS, 0.05), size=(EXPERTS, TOKENS)).cumsum(-1)
    while True:
        language, now = rng.integers(EXPERTS, size=32), rng.integers(TOKENS, size=32)
        rows = [now]
        for draw in rng.random((LENGTH, 32, 1)):
            now = np.minimum((following[language, now] < draw).sum(-1), TOKENS - 1)
            rows.append(now)
        yield torch.from_numpy(np.stack(rows, 1))


def trained(seed: int, recipe: Recipe) -> tuple[dict[int, Weights], float]:
    """Return the checkpoints of a training by step, and its last loss."""
    torch.manual_seed(seed)
    model = Model(recipe)
    if recipe.sgd:
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), recipe.rate, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), recipe.rate, weight_decay=recipe.decay)
    saved, loss = {0: model.weights()}, torch.zeros(())
    for step, tokens in zip(range(1, UPDATES + 1), texts(seed), strict=False):
        logits, balance = model(tokens[:, :-1])
        loss = cross_entropy(logits.reshape(-1, TOKENS), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        (loss + 0.01 * balance).backward()
        optimizer.step()
        if step % EVERY == 0:
            saved[step] = model.weights()
    return saved, loss.item()


LAYOUTS = {
    "Mixtral": (
        "block_sparse_moe.experts.{e}.{p}.weight",
        ("w1", "w3", "w2"),
        "block_sparse_moe.gate.weight",
    ),
    "Qwen": ("mlp.experts.{e}.{p}.weight", ("gate_proj", "up_proj", "down_proj"), "mlp.gate.weight"),
    "GPT-OSS": ("mlp.experts.{p}", ("gate_proj", "up_proj", "down_proj"), "mlp.router.weight"),
    "nanoMoE": ("mlp.experts.{e}.{p}.weight", ("c_gate", "c_fc", "c_proj"), "mlp.router.w_g.weight"),
}


def spelled(weights: Weights, layout: str) -> dict[str, np.ndarray]:
    """Return a checkpoint in the names of a layout."""
    pattern, parts, router = LAYOUTS[layout]
    names = dict(zip(("gate", "up", "down"), parts, strict=True))
    out = {}
    for (layer, part, expert), value in weights.items():
        start = f"model.layers.{layer}."
        if part == "embed":
            out["model.embed_tokens.weight"] = value
        elif part in ("attn", "router"):
            out[start + (router if part == "router" else "self_attn.qkvo.weight")] = value
        elif layout != "GPT-OSS":
            out[start + pattern.format(e=expert, p=names[part])] = value
        elif not expert:
            whole = np.stack([weights[layer, part, one] for one in range(EXPERTS)])
            out[start + pattern.format(p=names[part])] = whole
    return out


@dataclass(frozen=True)
class Case:
    """A planted fault."""

    kind: str
    how: str
    layer: int
    expert: int
    other: int
    step: int


HOW = {
    "expert-twin": ("equal from a step on", "equal at one step", "noise of 5%", "noise of 20%"),
    "expert-dead": (
        "a hundredth from a step on",
        "zero",
        "one matrix a twentieth",
        "fades tenfold a checkpoint",
    ),
    "expert-frozen": ("from the start", "from a step on", "only decays", "for two checkpoints"),
    "experts-swapped": ("from a step on", "at one step", "three in a ring", "with the gate's rows"),
    "router-collapsed": ("equal rows and noise of 2%", "one row 30 times", "one row 15 times", "equal rows"),
}


def planted(series: dict[int, Weights], case: Case, rng: np.random.Generator) -> dict[int, Weights]:
    """Return a series with a fault."""
    out = {step: dict(weights) for step, weights in series.items()}
    only = case.how in ("equal at one step", "at one step")
    late = [step for step in out if (step == case.step if only else step >= case.step)]
    layer, expert, other = case.layer, case.expert, case.other
    before = max(step for step in out if step < case.step)
    for count, step in enumerate(late, 1):
        now = out[step]
        for part in ("gate", "up", "down"):
            here, there = (layer, part, expert), (layer, part, other)
            size = {"noise of 5%": 0.05, "noise of 20%": 0.2}.get(case.how, 0.0) * now[there].std()
            noise = (size * rng.standard_normal(now[there].shape)).astype(np.float32)
            if case.kind == "expert-twin":
                now[here] = now[there] + noise
            elif case.kind == "expert-dead":
                factor = {"a hundredth from a step on": 0.01, "zero": 0.0}.get(case.how, 1.0)
                factor = 0.05 if case.how == "one matrix a twentieth" and part == "down" else factor
                factor = 0.1**count / 5 if case.how == "fades tenfold a checkpoint" else factor
                now[here] = now[here] * np.float32(factor)
            elif case.kind == "experts-swapped":
                ring = (expert, other, (max(expert, other) + 1) % EXPERTS)[: 3 if "ring" in case.how else 2]
                held = [series[step][layer, part, one] for one in ring]
                for one, value in zip(ring, held[1:] + held[:1], strict=True):
                    now[layer, part, one] = value
        rows = now[layer, "router", 0].copy()
        if case.how == "with the gate's rows":
            rows[[expert, other]] = rows[[other, expert]]
        if case.kind == "router-collapsed":
            scale = {"one row 30 times": 30.0, "one row 15 times": 15.0}.get(case.how)
            if scale is None:
                share = 0.02 if "noise" in case.how else 0.0
                noise = rng.standard_normal(rows.shape) * rows.std() * share
                rows = np.repeat(rows[expert][None], EXPERTS, 0) + noise.astype(np.float32)
            else:
                rows[expert] *= np.float32(scale)
        now[layer, "router", 0] = rows
    if case.kind == "expert-frozen":
        begun = 0 if case.how in ("from the start", "only decays") else before
        still = [s for s in out if s > begun][: 2 if case.how == "for two checkpoints" else None]
        for count, step in enumerate(still, 1):
            shrunk = np.float32(0.97**count if case.how == "only decays" else 1.0)
            for part in ("gate", "up", "down"):
                out[step][layer, part, expert] = shrunk * series[begun][layer, part, expert]
    return out


def cases(seed: int, steps: list[int]) -> Iterator[Case]:
    """Yield 20 faults at random places, the first of them no earlier than the third checkpoint."""
    rng = np.random.default_rng(1_000 + seed)
    for kind, ways in HOW.items():
        for how in ways:
            expert, other = rng.choice(EXPERTS, 2, replace=False).tolist()
            yield Case(kind, how, int(rng.integers(LAYERS)), expert, other, int(rng.choice(steps[2:-1])))


def faults(series: dict[int, Weights], layout: str) -> list[tuple[str, str, int]]:
    """Return the kind, the place and the step of each finding on experts, and of other faults."""
    found = audit(open_series({step: spelled(weights, layout) for step, weights in series.items()}))
    return [(one.fault, one.tensor, one.step or 0) for one in found if not one.is_remark]


def is_named(case: Case, found: list[tuple[str, str, int]]) -> bool:
    """Return whether a case is found and named: its kind, in its layer, at its expert, and no other kind."""
    kinds = {kind for kind, *_ in found if kind in KINDS}
    endings = tuple(end.format(e) for e in (case.expert, case.other) for end in (".{}", "[{}]"))
    here = [name for kind, name, _ in found if kind == case.kind and f"layers.{case.layer}." in name]
    place = case.kind == "router-collapsed" or any(name.endswith(endings) for name in here)
    return bool(here) and kinds == {case.kind} and place


def main() -> None:
    """Print a line for each case and for each healthy series, and the counts."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--cases", type=Path)
    options = asked.parse_args()
    torch.set_num_threads(1)
    rows: list[tuple[str, ...]] = []
    begun = time.process_time()
    for seed in range(options.first, options.first + options.seeds):
        for at, recipe in enumerate(RECIPES):
            series, loss = trained(seed, recipe)
            layout = list(LAYOUTS)[(seed + at) % len(LAYOUTS)]
            found = faults(series, layout)
            rows.append((str(seed), "healthy", recipe.name, layout, "yes" if found else "no", str(found)))
            print(*rows[-1], f"loss {loss:.3f}", flush=True)
            if at:
                continue
            rng = np.random.default_rng(2_000 + seed)
            for number, case in enumerate(cases(seed, list(series))):
                layout = list(LAYOUTS)[(number // 4 + number) % len(LAYOUTS)]
                found = faults(planted(series, case, rng), layout)
                named = is_named(case, found)
                rows.append((str(seed), case.kind, case.how, layout, "yes" if named else "no", str(found)))
                if not named:
                    print(*rows[-1], case, flush=True)
    for kind in ("healthy", *HOW):
        of_kind = [row for row in rows if row[1] == kind]
        print(f"{kind}: {sum(row[4] == 'yes' for row in of_kind)} of {len(of_kind)}")
    print(f"{time.process_time() - begun:.0f} s of processor time")
    if options.cases:
        with options.cases.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerows([("seed", "kind", "how", "names", "found", "findings"), *rows])


if __name__ == "__main__":
    main()
