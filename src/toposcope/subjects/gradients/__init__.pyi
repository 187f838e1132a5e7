from .probe import gradient_probes as gradient_probes
from .probe import gradient_series as gradient_series
from .probe import has_own_batch as has_own_batch
