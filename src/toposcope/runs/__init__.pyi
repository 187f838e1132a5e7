from .checked import Check as Check
from .checking import check as check
from .compared_seeds import RunComparison as RunComparison
from .judging import judged as judged
from .run_check import RunCheck as RunCheck

__all__ = ["Check", "RunCheck", "RunComparison", "check", "judged"]
