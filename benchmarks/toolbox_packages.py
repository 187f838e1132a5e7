"""What gudhi, ripser.py, giotto-tda and toposcope do and do not do, tried by calling each.

`python -m benchmarks.toolbox_packages` prints a row for each capability and, for each package that is
installed, "yes" if the call below it works, and "no" if the package has no such call. giotto-tda needs
numpy below 2, so it has an environment of its own. `--write` writes docs/evidence/toolbox-packages.csv, if
all packages are there.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

TABLE = Path(__file__).parents[1] / "docs" / "evidence" / "toolbox-packages.csv"
PACKAGES = {"gudhi": "gudhi", "ripser.py": "ripser", "giotto-tda": "gtda", "toposcope": "toposcope"}
"""The packages by the names of their modules."""
POINTS = np.random.default_rng(0).standard_normal((40, 3))
DISTANCES = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
CUT = np.where(DISTANCES > 1.5, np.inf, DISTANCES)
SPARSE = sparse.coo_matrix(np.where(np.isinf(CUT), 0.0, CUT))
IMAGE = np.random.default_rng(1).standard_normal((12, 12))


def _gudhi(name: str, **arguments: object) -> object:
    return getattr(importlib.import_module("gudhi"), name)(**arguments)


def _gtda(module: str, name: str, data: object = None, **settings: object) -> object:
    transformer = getattr(importlib.import_module(f"gtda.{module}"), name)(**settings)
    return transformer if data is None else transformer.fit_transform(data)


def _ours(name: str, *arguments: object, **settings: object) -> object:
    return getattr(importlib.import_module("toposcope.topology"), name)(*arguments, **settings)


def _ripser(*arguments: object, **settings: object) -> object:
    return importlib.import_module("ripser").ripser(*arguments, **settings)


def _two_groups() -> tuple[list[np.ndarray], list[np.ndarray]]:
    generator = np.random.default_rng(2)
    first, second = ([np.array([[0.0, 1 + u]]) for u in generator.uniform(size=3)] for _ in range(2))
    return first, second


NO = None
CAPABILITIES: dict[str, tuple[Callable[[], object] | None, ...]] = {
    "Rips, H0 and H1 of a cloud": (
        lambda: _gudhi("RipsComplex", points=POINTS).create_simplex_tree(max_dimension=2).persistence(),  # type: ignore[attr-defined]
        lambda: _ripser(POINTS),
        lambda: _gtda("homology", "VietorisRipsPersistence", [POINTS]),
        lambda: _ours("rips", POINTS),
    ),
    "distances that are given, inf for no edge": (
        lambda: _gudhi("RipsComplex", distance_matrix=CUT).create_simplex_tree(max_dimension=2),  # type: ignore[attr-defined]
        lambda: _ripser(CUT, distance_matrix=True),
        lambda: _gtda("homology", "VietorisRipsPersistence", [CUT], metric="precomputed"),
        lambda: _ours("rips", CUT, metric="precomputed"),
    ),
    "a sparse matrix of distances": (
        lambda: _gudhi("SimplexTree").insert_edges_from_coo_matrix(SPARSE),  # type: ignore[attr-defined]
        lambda: _ripser(SPARSE, distance_matrix=True),
        lambda: _gtda("homology", "VietorisRipsPersistence", [SPARSE.tocsr()], metric="precomputed"),
        lambda: _ours("rips", SPARSE, metric="precomputed"),
    ),
    "approximate Rips of a large cloud (sparse, or fewer points)": (
        lambda: _gudhi("RipsComplex", points=POINTS, sparse=0.5),
        lambda: _ripser(POINTS, n_perm=20),
        lambda: _gtda("homology", "SparseRipsPersistence", [POINTS]),
        NO,
    ),
    "alpha complex": (
        lambda: _gudhi("AlphaComplex", points=POINTS),
        NO,
        lambda: _gtda("homology", "WeakAlphaPersistence", [POINTS]),
        NO,
    ),
    "witness complex": (lambda: _gudhi("EuclideanWitnessComplex", witnesses=POINTS, landmarks=POINTS[:9]),
                        NO, NO, NO),
    "cubical complex of an image": (
        lambda: _gudhi("CubicalComplex", vertices=IMAGE).persistence(),  # type: ignore[attr-defined]
        NO,
        lambda: _gtda("homology", "CubicalPersistence", [IMAGE]),
        lambda: _ours("surface_homology", IMAGE),
    ),
    "merge tree of sampled values": (NO, NO, NO, lambda: _ours("merge_tree", IMAGE)),
    "Mapper": (
        lambda: importlib.import_module("gudhi.cover_complex").MapperComplex,
        NO,
        lambda: importlib.import_module("gtda.mapper").make_mapper_pipeline,
        NO,
    ),
    "a representative of an H1 class": (
        NO,
        lambda: _ripser(POINTS, do_cocycles=True),
        NO,
        lambda: _ours("rips", POINTS, cycles=True),
    ),
    "distances of two diagrams": (
        lambda: _gudhi("bottleneck_distance", diagram_1=[[0.0, 1.0]], diagram_2=[[0.0, 2.0]]),
        NO,
        lambda: _gtda("diagrams", "PairwiseDistance", metric="bottleneck"),
        lambda: _ours("bottleneck", [[0.0, 1.0]], [[0.0, 2.0]]),
    ),
    "landscapes and images": (
        lambda: importlib.import_module("gudhi.representations").PersistenceImage,
        NO,
        lambda: importlib.import_module("gtda.diagrams").PersistenceImage,
        lambda: _ours("persistence_image", [[0.0, 1.0], [0.2, 0.9]]),
    ),
    "test of two groups of diagrams": (NO, NO, NO, lambda: _ours("two_sample", *_two_groups())),
    "neural persistence of a matrix, with its shuffled null": (
        NO, NO, NO,
        lambda: _ours("shuffled_neural_persistence", IMAGE, rng=np.random.default_rng(0)),
    ),
    "intrinsic dimension": (NO, NO, NO, lambda: _ours("twonn", POINTS)),
}  # fmt: skip
NOTES = {
    "a representative of an H1 class": "ripser.py gives a cocycle (edges), toposcope a cycle (points); "
    "gudhi names the edges of birth and death",
    "cubical complex of an image": "toposcope: lattices of 1 to 3 dimensions, without periodic sides",
    "distances of two diagrams": "persim and POT stand beside ripser.py",
    "Mapper": "KeplerMapper stands beside ripser.py",
}


def answer(call: Callable[[], object] | None, module: str) -> str:
    """Return whether a package does it; "not installed" if the package is not here."""
    try:
        importlib.import_module(module)
    except ImportError:
        return "not installed"
    if call is None:
        return "no"
    call()
    return "yes"


def main() -> None:
    """Try all, print the rows, and write the table on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    write = parser.parse_args().write
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name.removesuffix('.py'))}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(name)
    heading = ("what", *versions, "note")
    rows = []
    for what, calls in CAPABILITIES.items():
        answers = [answer(call, module) for call, module in zip(calls, PACKAGES.values(), strict=True)]
        rows.append((what, *answers, NOTES.get(what, "-")))
        print("  ".join(rows[-1]))
    if write and not any("not installed" in row for row in rows):
        with TABLE.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle, lineterminator="\n").writerows([heading, *rows])


if __name__ == "__main__":
    main()
