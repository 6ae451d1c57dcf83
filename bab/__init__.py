"""Branch and bound over members and inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leaveout.bab.instance import Instance, make_instance
from leaveout.bab.lucid.options import VARIANTS, LucidOptions, Variant, find_variant
from leaveout.bab.native.leaks import search as search_native
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, SearchResult, agree
from leaveout.bab.witness import Replayer, Witness

if TYPE_CHECKING:
    from leaveout.bab.lucid.algorithm import search

__all__ = [
    "VARIANTS",
    "EngineResult",
    "Instance",
    "LucidOptions",
    "NativeOptions",
    "Progress",
    "ProgressCallback",
    "Replayer",
    "SearchResult",
    "Variant",
    "Witness",
    "agree",
    "find_variant",
    "make_instance",
    "search",
    "search_native",
]


# Imported on first use, so that the native engine does not wait for the MILP encoders.
def __getattr__(name: str) -> object:
    if name == "search":
        from leaveout.bab.lucid.algorithm import search

        return search
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
