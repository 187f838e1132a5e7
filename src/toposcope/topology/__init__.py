"""Arrays in, diagrams and numbers out; everything enters through one gate."""

from __future__ import annotations

from toposcope.topology.baselines import baselines as baselines
from toposcope.topology.dimension import Estimate as Estimate
from toposcope.topology.dimension import magnitude as magnitude
from toposcope.topology.dimension import mle_dimension as mle_dimension
from toposcope.topology.dimension import ph_dimension as ph_dimension
from toposcope.topology.dimension import twonn as twonn
from toposcope.topology.distances import bottleneck as bottleneck
from toposcope.topology.distances import wasserstein as wasserstein
from toposcope.topology.rips import pooled_rows as pooled_rows
from toposcope.topology.rips import rips as rips
from toposcope.topology.summaries import persistent_entropy as persistent_entropy
from toposcope.topology.summaries import summaries as summaries
from toposcope.topology.components import components as components
from toposcope.topology.gate import check_diagram as check_diagram
from toposcope.topology.gate import check_distance_matrix as check_distance_matrix
from toposcope.topology.gate import check_matrix as check_matrix
from toposcope.topology.gate import check_points as check_points
from toposcope.topology.neural_persistence import maximum_spanning_tree_weights as maximum_spanning_tree_weights
from toposcope.topology.neural_persistence import neural_persistence as neural_persistence
from toposcope.topology.neural_persistence import weight_diagram as weight_diagram
