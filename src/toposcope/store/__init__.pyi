from .columns import catalogue_table as catalogue_table
from .draws import counted as counted
from .draws import over_draws as over_draws
from .export import outside as outside
from .export import records as records
from .parts import slug as slug
from .store import Store as Store
from .store import open_store as open_store
from .units import KeptDiagram as KeptDiagram
from .units import Result as Result
from .units import Unit as Unit

MANIFEST: str

__all__ = [
    "KeptDiagram",
    "Result",
    "Store",
    "Unit",
    "catalogue_table",
    "counted",
    "open_store",
    "outside",
    "over_draws",
    "records",
    "slug",
]
