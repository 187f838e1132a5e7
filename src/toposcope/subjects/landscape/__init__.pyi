from .options import RULE as RULE
from .options import LandscapeOptions as LandscapeOptions
from .study import study_of_texts as study_of_texts
from .tables.surfaces import shares as shares
