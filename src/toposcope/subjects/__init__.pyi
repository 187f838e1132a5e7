from .base import Cost as Cost
from .base import Measured as Measured
from .base import Probe as Probe
from .catalogue import own_catalogue as own_catalogue
from .labels import Label as Label
from .registry import weight_probes as weight_probes
from .snapshot import Snapshot as Snapshot
