from . import topology as topology
from .api import analyze as analyze
from .api import audit as audit
from .api import average as average
from .api import check as check
from .api import cloud as cloud
from .api import compare as compare
from .api import fit_scaling_law as fit_scaling_law
from .api import forecast as forecast
from .api import measure as measure
from .api import report as report
from .api import two_sample as two_sample
from .core.errors import InputError as InputError
from .core.types import Checkpoint as Checkpoint
from .core.types import Diagram as Diagram
from .core.types import Feature as Feature
from .core.types import Kind as Kind
from .core.types import Matrix as Matrix
from .core.types import Row as Row
from .core.types import RunRecord as RunRecord
from .core.types import Scope as Scope
from .core.types import Status as Status
from .logs import Log as Log
from .logs import Run as Run
from .logs import read_log as read_log
from .sources import Series as Series
from .sources import open_series as open_series
from .store import Store as Store
from .store import open_store as open_store
from .study.analysis import Analysis as Analysis
from .subjects.base import Probe as Probe
from .topology import neural_persistence as neural_persistence
from .topology import rips as rips
from .topology import weight_diagram as weight_diagram
from .training.api import train as train
from .watch.inside import Monitor as Monitor

__version__: str
__all__: list[str]

def __dir__() -> list[str]: ...
