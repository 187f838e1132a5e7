from .configuration import read_yaml as read_yaml
from .configuration import stated_plan as stated_plan
from .labels import step_of as step_of
from .lightning import lightning_facts as lightning_facts
from .nanogpt import facts_beside as facts_beside

TRAINER_STATE: str
LIGHTNING_METRICS: str
NANOGPT_CHECKPOINT: str
PLANNED_RATE: str

__all__ = ["facts_beside", "lightning_facts", "read_yaml", "stated_plan", "step_of"]
