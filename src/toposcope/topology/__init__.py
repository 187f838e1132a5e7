"""Arrays in, diagrams and numbers out; every input is validated before it reaches a kernel.

`toposcope.topology` is public: diagrams (`rips`, `weight_diagram`), distances between two of them
(`bottleneck`, `wasserstein`), curves and images of one (`betti_curve`, `euler_curve`, `entropy_curve`,
`landscape`, `silhouette`, `persistence_image`, `crocker`), numbers (`summaries`, `persistent_entropy`,
`neural_persistence`), dimensions (`twonn`, `mle_dimension`, `ph_dimension`, `magnitude`); a test of two
groups of diagrams or two clouds (`two_sample`), a distance of clouds of the same rows (`rtd_lite`), and
their exchange with other packages (`from_gudhi`, `to_ripser` and so
on). A diagram is a `Diagram` or any array of shape (n, 2).

>>> diagram = [[0.0, 1.0], [0.2, 0.9]]
>>> bottleneck(diagram, [[0.0, 1.0]]), persistence_image(diagram).shape, landscape(diagram).shape
(0.35, (20, 20), (5, 100))
"""

from __future__ import annotations

from toposcope.statistics.stopping import stopping_index as stopping_index
from toposcope.topology._exchange import from_akriti as from_akriti
from toposcope.topology._exchange import from_giotto as from_giotto
from toposcope.topology._exchange import from_gudhi as from_gudhi
from toposcope.topology._exchange import from_ripser as from_ripser
from toposcope.topology._exchange import to_akriti as to_akriti
from toposcope.topology._exchange import to_giotto as to_giotto
from toposcope.topology._exchange import to_gudhi as to_gudhi
from toposcope.topology._exchange import to_ripser as to_ripser
from toposcope.topology.baselines import baselines as baselines
from toposcope.topology.clouds import pooled_rows as pooled_rows
from toposcope.topology.clouds import subsample as subsample
from toposcope.topology.components import components as components
from toposcope.topology.dimension import DimensionEstimate as DimensionEstimate
from toposcope.topology.dimension import magnitude as magnitude
from toposcope.topology.dimension import mle_dimension as mle_dimension
from toposcope.topology.dimension import ph_dimension as ph_dimension
from toposcope.topology.dimension import twonn as twonn
from toposcope.topology.distances import bottleneck as bottleneck
from toposcope.topology.distances import matched_bars as matched_bars
from toposcope.topology.distances import wasserstein as wasserstein
from toposcope.topology.graph_persistence import deep_graph_persistence as deep_graph_persistence
from toposcope.topology.graph_persistence import (
    shuffled_deep_graph_persistence as shuffled_deep_graph_persistence,
)
from toposcope.topology.merge_tree import MergeTree as MergeTree
from toposcope.topology.merge_tree import merge_tree as merge_tree
from toposcope.topology.neural_persistence import (
    batched_spanning_tree_weights as batched_spanning_tree_weights,
)
from toposcope.topology.neural_persistence import (
    maximum_spanning_tree_weights as maximum_spanning_tree_weights,
)
from toposcope.topology.neural_persistence import neural_persistence as neural_persistence
from toposcope.topology.neural_persistence import neural_persistence_bounds as neural_persistence_bounds
from toposcope.topology.neural_persistence import weight_diagram as weight_diagram
from toposcope.topology.rips import rips as rips
from toposcope.topology.rips import rips_batch as rips_batch
from toposcope.topology.rips import rips_memory as rips_memory
from toposcope.topology.rtd_lite import rtd_lite as rtd_lite
from toposcope.topology.rtd_lite import rtd_lite_matrix as rtd_lite_matrix
from toposcope.topology.summaries import persistent_entropy as persistent_entropy
from toposcope.topology.summaries import summaries as summaries
from toposcope.topology.surface_homology import surface_homology as surface_homology
from toposcope.topology.two_sample import TwoSample as TwoSample
from toposcope.topology.two_sample import two_sample as two_sample
from toposcope.topology.validation import check_diagram as check_diagram
from toposcope.topology.validation import check_distance_matrix as check_distance_matrix
from toposcope.topology.validation import check_matrix as check_matrix
from toposcope.topology.validation import check_points as check_points
from toposcope.topology.vectors import betti_curve as betti_curve
from toposcope.topology.vectors import common_grid as common_grid
from toposcope.topology.vectors import crocker as crocker
from toposcope.topology.vectors import entropy_curve as entropy_curve
from toposcope.topology.vectors import euler_curve as euler_curve
from toposcope.topology.vectors import landscape as landscape
from toposcope.topology.vectors import persistence_image as persistence_image
from toposcope.topology.vectors import silhouette as silhouette
from toposcope.topology.weight_null import clipped_neural_persistence as clipped_neural_persistence
from toposcope.topology.weight_null import magnitude_quantile as magnitude_quantile
from toposcope.topology.weight_null import magnitude_variance as magnitude_variance
from toposcope.topology.weight_null import shuffled_neural_persistence as shuffled_neural_persistence
from toposcope.topology.weight_null import shuffled_spanning_tree_weights as shuffled_spanning_tree_weights

__all__ = [
    "DimensionEstimate",
    "MergeTree",
    "TwoSample",
    "baselines",
    "batched_spanning_tree_weights",
    "betti_curve",
    "bottleneck",
    "check_diagram",
    "check_distance_matrix",
    "check_matrix",
    "check_points",
    "clipped_neural_persistence",
    "common_grid",
    "components",
    "crocker",
    "deep_graph_persistence",
    "entropy_curve",
    "euler_curve",
    "from_akriti",
    "from_giotto",
    "from_gudhi",
    "from_ripser",
    "landscape",
    "magnitude",
    "magnitude_quantile",
    "magnitude_variance",
    "matched_bars",
    "maximum_spanning_tree_weights",
    "merge_tree",
    "mle_dimension",
    "neural_persistence",
    "neural_persistence_bounds",
    "persistence_image",
    "persistent_entropy",
    "ph_dimension",
    "pooled_rows",
    "rips",
    "rips_batch",
    "rips_memory",
    "rtd_lite",
    "rtd_lite_matrix",
    "shuffled_deep_graph_persistence",
    "shuffled_neural_persistence",
    "shuffled_spanning_tree_weights",
    "silhouette",
    "stopping_index",
    "subsample",
    "summaries",
    "surface_homology",
    "to_akriti",
    "to_giotto",
    "to_gudhi",
    "to_ripser",
    "two_sample",
    "twonn",
    "wasserstein",
    "weight_diagram",
]
