"""The engines in order; the first one that accepts a statement decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leaveout.verifier.points.decide import Formulas
from leaveout.verifier.points.leak_statements import names_forest
from leaveout.verifier.points.network_leaks import NativeLeaks, NetworkLeaks
from leaveout.verifier.points.sampled_leaks import Samples
from leaveout.verifier.tasks import Context, Engine
from leaveout.verifier.values.decider import Values


def _forest_leaks(context: Context) -> Engine[Any] | None:
    """Return the engine of forests if there is a forest: its libraries load slowly."""
    checked = context.checked
    if not any(names_forest(each, checked) for each in checked.statements):
        return None
    from leaveout.verifier.points.forest_leaks import ForestLeaks

    return ForestLeaks(context)


_ENGINES: Mapping[str, tuple[Callable[[Context], Engine[Any] | None], ...]] = {
    "native": (Samples, Values, _forest_leaks, NativeLeaks, Formulas),
    "lucid": (Samples, Values, _forest_leaks, NetworkLeaks),
}
"""By the option ``engine``; if none accepts a statement, the last one states the reason."""


def engines(context: Context) -> tuple[Engine[Any], ...]:
    """Return the engines of a run, in order of preference."""
    made = (make(context) for make in _ENGINES[context.options.engine])
    return tuple(each for each in made if each is not None)
