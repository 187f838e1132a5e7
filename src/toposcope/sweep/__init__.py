"""The sweep: every probe at every checkpoint of a series, into a store, on one machine or many."""

from toposcope.sweep.loop import Execution, SweepReport, sweep
from toposcope.sweep.plan import Shard

__all__ = ["Execution", "Shard", "SweepReport", "sweep"]
