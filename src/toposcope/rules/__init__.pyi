from . import companions as companions
from .judgement import judge as judge
from .registry import assess as assess
from .replaying import replay as replay
