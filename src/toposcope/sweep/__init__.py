"""The one loop: series x probe -> store, on one machine or many."""

from toposcope.sweep.loop import Execution, SweepReport, sweep
from toposcope.sweep.plan import Shard

__all__ = ["Execution", "Shard", "SweepReport", "sweep"]
