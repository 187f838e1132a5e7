from .features import GRADIENT as GRADIENT
from .options import WeightOptions as WeightOptions
from .presets import preset as preset
