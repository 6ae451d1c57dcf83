"""Branch and bound over members and inputs."""

from __future__ import annotations

from leaveout.bab.instance import Instance, make_instance
from leaveout.bab.lucid import search
from leaveout.bab.options import LucidOptions
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, agree
from leaveout.bab.variants import VARIANTS, Variant, find_variant
from leaveout.bab.witness import Replayer, Witness

__all__ = [
    "VARIANTS",
    "EngineResult",
    "Instance",
    "LucidOptions",
    "Progress",
    "ProgressCallback",
    "Replayer",
    "Variant",
    "Witness",
    "agree",
    "find_variant",
    "make_instance",
    "search",
]
