from .configuration import read_yaml as read_yaml
from .configuration import stated_plan as stated_plan
from .labels import step_of as step_of
from .lightning import lightning_facts as lightning_facts
from .nanogpt import facts_of_checkpoint as facts_of_checkpoint
from .nanogpt import nanogpt_checkpoint as nanogpt_checkpoint

TRAINER_STATE: str
LIGHTNING_METRICS: str
NANOGPT_CHECKPOINT: str
PLANNED_RATE: str

__all__ = [
    "facts_of_checkpoint",
    "lightning_facts",
    "nanogpt_checkpoint",
    "read_yaml",
    "stated_plan",
    "step_of",
]
