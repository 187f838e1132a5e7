"""What each figure on the loss surface shows, and what can and what cannot be concluded from it."""

from __future__ import annotations

from toposcope.page import losses
from toposcope.page.notes import beside_null, correlations_caption, of_seeds
from toposcope.page.parts import Caption
from toposcope.study.study import Study
from toposcope.subjects.landscape.page.pictures import ShownSurfaces

_SLICE = "Anything about the other directions: two of thousands are shown, and the surface is one batch's."


def captions(study: Study, shown: ShownSurfaces) -> dict[str, Caption]:
    """Return the caption of every figure by its name."""
    return {
        "landscape_training": _training(study),
        **losses.captions(study),
        "loss_surfaces": _surfaces(shown),
        "landscape_profiles": _profiles(shown),
        "merge_tree": _tree(shown),
        "surface_diagrams": _diagrams(shown),
        "spectral_density": _density(),
        "landscape_correlations": correlations_caption(study),
    }


def _training(study: Study) -> Caption:
    beside = beside_null(study)
    return Caption(
        "The loss surface over training",
        "Critical sharpness, the Hessian's top eigenvalue and trace, minima, average persistence and reach "
        "of the sampled surfaces. Bands are 95% intervals over batches and direction seeds. Grey: random "
        "directions for sharpness and eigenvalue, the quadratic model for minima and persistence.",
        "Which numbers move, when, and whether they leave what a quadratic or a random direction shows"
        + (f": {beside}." if beside else "."),
        "Whether they move with the loss for any reason but time. Critical sharpness is in units of the "
        "update between checkpoints, so checkpoints at uneven steps shift it. And " + of_seeds(study) + ".",
        "Six panels against the log step, a line for each model size with its interval.",
    )


def _surfaces(shown: ShownSurfaces) -> Caption:
    n = len(shown)
    return Caption(
        "The sampled surface over training",
        f"Loss around {n} checkpoint{'s' * (n != 1)} of one run, on one scale of colours. Dots are minima, "
        "crosses saddles, thin lines join what merges. Thick: a branch that half of the sequences show and "
        f"the other half confirms (95%), where the first half has it. {_of_graph(shown)}",
        "Where the sampled plane has more than one basin, and how far the plane reaches.",
        _SLICE,
        "Contour panels of the loss around several checkpoints with minima and saddles.",
    )


def view_caption(shown: ShownSurfaces) -> Caption:
    """Return the caption of the turning view of a run's surfaces."""
    return Caption(
        "The surface to turn",
        f"The loss of {shown.surfaces[0].run} over the sampled plane: height and colour are the loss, dots "
        "minima, crosses saddles, lines what merges, thick where half of the sequences confirm what the "
        f"other half shows. {_of_graph(shown)} Drag it or use the arrow keys; the slider goes through the "
        "checkpoints.",
        "Which shape the plane has: a bowl, a saddle, or more than one basin.",
        _SLICE + " Without the common scale, heights of different checkpoints cannot be compared.",
        "The sampled loss as a surface in three dimensions, with a slider over checkpoints.",
    )


_GRAPHS = {
    "lattice": "Places are joined along the axes.",
    "kuhn": "Places are joined by Kuhn's triangulation (--graph kuhn).",
    "knn": "Places are joined to their mutual nearest neighbours (--graph knn).",
}
"""What the caption says of each graph."""


def _of_graph(shown: ShownSurfaces) -> str:
    """Return in words how places are joined, and that trees were made for the page where they were."""
    said = _GRAPHS.get(shown.graph, "")
    if not shown.made_here:
        return said
    return (
        f"{said} The store keeps no trees, as an earlier version wrote it: they were computed for this page. "
        "Repeat the `toposcope landscape` command that made it, and they are kept."
    )


def _profiles(shown: ShownSurfaces) -> Caption:
    return Caption(
        "Landscape profiles over training",
        f"Each merge tree as basins: width is the number of places at or below a loss. {_of_graph(shown)}",
        "How much of the sampled plane lies low, and which basins are wide.",
        _SLICE,
        "One profile for each checkpoint over a common axis of loss.",
    )


def _tree(shown: ShownSurfaces) -> Caption:
    return Caption(
        "The merge tree with most branches",
        "Left: the tree of all sequences, every branch from its minimum to the saddle where it ends. Middle: "
        "the tree of half of the sequences. Its dark branches are confirmed by the other half, whose 95% "
        "interval of loss(saddle) - loss(minimum) lies above 0; grey ones are not. Right: the profile of the "
        f"left tree. {_of_graph(shown)}",
        "How the minima of this surface are joined, and which of them other sequences show as well.",
        "That other directions, batches or checkpoints have such a tree: it was chosen for its branches.",
        "A merge tree beside its landscape profile.",
    )


def _diagrams(shown: ShownSurfaces) -> Caption:
    rings = " and H1 (rings around maxima)" if shown.graph != "knn" else "; this graph has no H1"
    return Caption(
        "Persistence of the surface over training",
        f"Sublevel diagrams: H0 (minima and the saddles that join them){rings}. {_of_graph(shown)}",
        "How long basins and rings last, in nats per token.",
        "Points near the diagonal may be noise of the sequences: the table counts what is confirmed.",
        "Birth against death of H0 and H1 for several checkpoints.",
    )


def _density() -> Caption:
    return Caption(
        "Density of the Hessian's eigenvalues over training",
        "Stochastic Lanczos quadrature on the first batch, smoothed by 1% of the range; bands are twice the "
        "standard error over random vectors.",
        "How much of the spectrum lies near 0, below it, and in outliers.",
        "The exact place of eigenvalues between nodes; the top and the lowest are measured by themselves.",
        "Density on a log axis against the eigenvalue, a line for each checkpoint.",
    )
