"""What the site's search finds: the words that people type, and no page that only keeps records."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

RECORDS = frozenset(
    {
        "benchmarks",
        "changes",
        "contributing",
        "evidence/README",
        "forecasting-evidence",
        "statistics-evidence",
    }
)
"""Pages that the search leaves out: they mention everything, and answer no question."""

TYPED = {
    "automation": ("exit code", "exit status", "CI", "GitHub Action", "pre-commit", "JSON output", "agent"),
    "average": ("EMA", "SWA", "weight averaging", "model soup"),
    "check": (
        "is my run ok",
        "is my run all right",
        "loss not going down",
        "false alarm",
        "learning rate too high",
    ),
    "checkpoint": ("corrupt checkpoint", "broken checkpoint", "NaN in weights", "checkpoint damaged"),
    "cloud": ("circle", "loop", "ring", "H1 persistence"),
    "cluster": ("HPC", "many runs", "parallel"),
    "compare": ("A/B test", "which run is better", "significant difference", "p-value", "ablation"),
    "error-rates": ("false positive rate", "how often is it wrong", "accuracy", "false alarm rate"),
    "fine-tune": (
        "LoRA broken",
        "adapter did nothing",
        "adapter not trained",
        "QLoRA",
        "SFT did nothing",
        "peft",
    ),
    "forecasting": ("final loss", "extrapolate loss", "predict loss", "forecast"),
    "formats": ("safetensors", "load checkpoint", "GGUF", "sharded", "DeepSpeed", "FSDP"),
    "how-many-seeds": ("how many seeds", "number of seeds", "sample size", "power analysis", "how many runs"),
    "limits": ("what it cannot do", "limitation"),
    "logs": ("wandb", "tensorboard", "read log", "CSV log", "stdout log", "mlflow"),
    "methods/two-sample": ("two-sample test", "permutation test", "compare two clouds", "compare diagrams"),
    "methods/neural-persistence": ("variance in disguise", "weight topology"),
    "one-run": ("tutorial", "walkthrough", "worked example", "real run", "case study"),
    "phase-change": ("grokking", "sudden drop", "change point", "emergence"),
    "restart": ("resumed run", "after restart", "loss jump after resume"),
    "resume": ("resume training", "continue training", "optimizer state", "missing optimizer"),
    "seeds": ("which seed is wrong", "outlier seed", "odd seed", "seed variance"),
    "spike": ("loss spike", "loss went up", "loss exploded", "diverged", "NaN loss"),
    "start": ("install", "quickstart", "getting started", "first steps", "pip install"),
    "statistics": ("correlation", "spurious correlation", "multiple testing", "detectable r"),
    "toolbox": ("gudhi", "ripser", "giotto-tda", "persim", "akriti", "alpha complex", "Mapper", "cubical"),
    "topology": (
        "topology negative",
        "negative result",
        "is topology useful",
        "does topology work",
        "null result",
    ),
    "trust": (
        "trust forecast",
        "trust answer",
        "can I trust",
        "reliable",
        "confidence",
        "when to stop",
        "early stopping",
    ),
    "watch": ("alert", "notification", "callback", "monitor training", "live"),
    "which-number": ("which number", "report in paper", "quote", "citation of a number", "headline number"),
}
"""What people type, by the page that answers it: words that the page lacks, or that many pages have."""


def tell_search(app: Sphinx, doctree: nodes.document) -> None:
    """Add the typed words to a page's keywords and to the index, or take the page out of the search."""
    page = app.env.docname
    if page in RECORDS:
        app.env.metadata[page]["nosearch"] = "true"
    typed = TYPED.get(page, ())
    if typed:
        words = dict.fromkeys(" ".join(typed).split())  # sphinx takes what stands between commas as one word
        doctree.insert(0, nodes.meta(name="keywords", content=", ".join(words)))
        doctree.insert(0, addnodes.index(entries=[("single", words, "", "main", None) for words in typed]))


def setup(app: Sphinx) -> dict[str, object]:
    """Look at every page once it is read."""
    app.connect("doctree-read", tell_search)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
