from .columns import catalogue_table as catalogue_table
from .store import Store as Store
from .store import open_store as open_store
from .units import KeptDiagram as KeptDiagram
from .units import Result as Result
from .units import Unit as Unit

MANIFEST: str

__all__ = ["KeptDiagram", "Result", "Store", "Unit", "catalogue_table", "open_store"]
