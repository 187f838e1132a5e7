"""A folder of parquet parts: runs, metrics, features, diagrams and the findings of the audit."""

from toposcope.store.columns import catalogue_table
from toposcope.store.store import Store, open_store
from toposcope.store.units import KeptDiagram, Result, Unit

__all__ = ["KeptDiagram", "Result", "Store", "Unit", "catalogue_table", "open_store"]
