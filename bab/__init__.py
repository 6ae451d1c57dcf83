"""Branch and bound over members and inputs."""

from __future__ import annotations

from leaveout.bab.instance import Instance, make_instance
from leaveout.bab.lucid import search
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.search import search as search_native
from leaveout.bab.options import LucidOptions
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, agree
from leaveout.bab.variants import VARIANTS, Variant, find_variant
from leaveout.bab.witness import Replayer, Witness

__all__ = [
    "VARIANTS",
    "EngineResult",
    "Instance",
    "LucidOptions",
    "NativeOptions",
    "Progress",
    "ProgressCallback",
    "Replayer",
    "Variant",
    "Witness",
    "agree",
    "find_variant",
    "make_instance",
    "search",
    "search_native",
]
