"""The embedding study's cost per checkpoint: toposcope beside the plain route, in one run.

    python benchmarks/embeddings.py [TEXTS] [--checkpoints 2] [--repeats 1] [--json FILE]

The plain route is what a script does: batches of 32 padded to the longest text, a second pass text by text
for the perplexity, scikit-learn's PCA, ripser.py, persim. Both are whole processes over the same GPT-NeoX
series, and take turns. By default the series has random weights of Pythia-70M's shape; it is made for the run
and removed. TEXTS is a file or a WikiText folder; without it, CPython's language reference is used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_TEXTS, LENGTH, SCORED, SCORED_LENGTH, COMPONENTS = 200, 128, 100, 256, 50
TOLERANCE = 1e-4


def make_series(folder: Path, checkpoints: int, width: int, layers: int, texts: list[str]) -> None:
    """Write model folders: a random start, then small random steps away from it."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=4096, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    config = GPTNeoXConfig(
        vocab_size=50304, hidden_size=width, num_hidden_layers=layers, num_attention_heads=8,
        intermediate_size=4 * width, bos_token_id=0, eos_token_id=0, initializer_range=0.05,
    )  # fmt: skip
    torch.manual_seed(0)
    model = GPTNeoXForCausalLM(config)
    for step in range(checkpoints):
        model.save_pretrained(folder / f"step{step}")
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="!").save_pretrained(
            folder / f"step{step}"
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)


def plain(folder: Path, texts: list[str], out: Path) -> None:
    """Do the study the plain way and write its numbers."""
    import torch
    from persim import wasserstein
    from ripser import ripser
    from sklearn.decomposition import PCA
    from transformers import AutoModelForCausalLM, AutoTokenizer

    rows, before = [], None
    for path in sorted(folder.iterdir()):
        tokenizer = AutoTokenizer.from_pretrained(path)
        model = AutoModelForCausalLM.from_pretrained(path).eval()
        pooled, total, count = [], 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(texts), 32):
                batch = tokenizer(
                    texts[start : start + 32],
                    return_tensors="pt",
                    padding=True,
                    truncation=True,
                    max_length=LENGTH,
                )
                ids, mask = batch["input_ids"], batch["attention_mask"]
                hidden = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states[
                    -1
                ]
                pooled.append(((hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)).numpy())
            for text in texts[:SCORED]:
                ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=SCORED_LENGTH)[
                    "input_ids"
                ]
                total += model(input_ids=ids, labels=ids).loss.item() * (ids.shape[1] - 1)
                count += ids.shape[1] - 1
        points = PCA(COMPONENTS, svd_solver="full").fit_transform(np.concatenate(pooled).astype(np.float64))
        diagrams = ripser(points, maxdim=1)["dgms"]
        row = {"loss": total / count}
        for dim, bars in enumerate(diagrams):
            finite = bars[np.isfinite(bars[:, 1])]
            row[f"h{dim}_total"] = float((finite[:, 1] - finite[:, 0]).sum())
        row["wasserstein1_h1"] = float(wasserstein(before, diagrams[1])) if before is not None else None
        before = diagrams[1]
        rows.append(row)
    out.write_text(json.dumps(rows))


def ours(folder: Path, texts: Path, out: Path) -> list[str]:
    """Return the command that does the same study with toposcope."""
    command = [sys.executable, "-c", "from toposcope.cli.main import main; main()", "embeddings", str(folder)]
    options = {"--texts": texts, "--limit": N_TEXTS, "--min-chars": 1, "--preset": "seed003", "--out": out}
    return [
        *command,
        *(str(word) for pair in options.items() for word in pair),
        "--no-audit",
        "--no-diagrams",
    ]


def our_rows(store: Path) -> list[dict[str, float | None]]:
    """Return toposcope's numbers in the plain route's form."""
    from toposcope.store import Store

    features = Store.open(store).features()
    wide = features.pivot_table(index="step", columns="feature", values="value").sort_index()
    names = ("loss", "h0_total", "h1_total", "wasserstein1_h1")
    return [
        {name: (float(row[name]) if np.isfinite(row[name]) else None) for name in names}
        for _, row in wide.iterrows()
    ]


def largest_difference(one: list[dict], other: list[dict]) -> float:
    """Return the largest relative difference of two lists of numbers."""
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        for name, value in a.items():
            if value is not None:
                worst = max(worst, abs(value - b[name]) / max(abs(value), 1.0))
    return worst


def _timed(command: list[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} ... failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="?", help="a file of texts or a WikiText folder")
    parser.add_argument("--checkpoints", type=int, default=2)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plain", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plain:
        folder, texts, out = map(Path, given.plain)
        plain(folder, texts.read_text().splitlines(), out)
        return
    with tempfile.TemporaryDirectory() as scratch:
        result = compare(Path(scratch), given)
    print(f"{'':12}{'plain s':>12}{'toposcope s':>14}{'ratio':>8}")
    for i, (a, b) in enumerate(zip(result["plain_seconds"], result["toposcope_seconds"], strict=True)):
        print(f"run {i + 1:<8}{a:12.2f}{b:14.2f}{a / b:8.2f}")
    plain_each, ours_each = (
        np.median(result[name]) / given.checkpoints for name in ("plain_seconds", "toposcope_seconds")
    )
    print(
        f"embedding study: {result['ratio']:.2f} times faster ({plain_each:.1f} s against {ours_each:.1f} s "
        f"per checkpoint, imports included); largest relative difference {result['difference']:.1e} "
        f"(at most {TOLERANCE:.0e} allowed)"
    )
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))
    sys.exit(0 if result["difference"] < TOLERANCE else 1)


def compare(scratch: Path, given: argparse.Namespace) -> dict:
    """Run both routes in turns and return their seconds, the median ratio and the largest difference."""
    lines = _texts(given.texts)
    texts = scratch / "texts.txt"
    texts.write_text("\n".join(lines))
    make_series(scratch / "series", given.checkpoints, given.width, given.layers, lines)
    seconds: dict[str, list[float]] = {"plain": [], "toposcope": []}
    for repeat in range(given.repeats):
        call = [
            sys.executable,
            __file__,
            "--plain",
            str(scratch / "series"),
            str(texts),
            str(scratch / "plain"),
        ]
        seconds["plain"].append(_timed(call))
        seconds["toposcope"].append(_timed(ours(scratch / "series", texts, scratch / f"store{repeat}")))
    ratios = np.array(seconds["plain"]) / np.array(seconds["toposcope"])
    return {
        "checkpoints": given.checkpoints,
        "plain_seconds": seconds["plain"],
        "toposcope_seconds": seconds["toposcope"],
        "ratio": float(np.median(ratios)),
        "difference": largest_difference(
            json.loads((scratch / "plain").read_text()), our_rows(scratch / "store0")
        ),
    }


def _texts(source: str | None) -> list[str]:
    from toposcope.models.texts import load_texts

    if source is not None:
        return list(load_texts(source, limit=N_TEXTS, min_chars=100).items)
    from pydoc_data.topics import topics

    paragraphs = (" ".join(part.split()) for text in topics.values() for part in text.split("\n\n"))
    return [part for part in paragraphs if len(part) >= 100][:N_TEXTS]


if __name__ == "__main__":
    main()
