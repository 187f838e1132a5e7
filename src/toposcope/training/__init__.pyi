from .api import default_jobs as default_jobs
from .api import train as train
from .loop import TrainingStep as TrainingStep
from .outcome import Trained as Trained
from .outcome import TrainedRun as TrainedRun
