from . import folders as folders
from . import json_files as json_files
from . import notebook as notebook
from . import swanlab as swanlab
from . import tracker_exports as tracker_exports
from . import trackio as trackio
from . import wandb as wandb

__all__ = ["folders", "json_files", "notebook", "swanlab", "tracker_exports", "trackio", "wandb"]
