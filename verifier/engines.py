"""The engines in order; the first one that accepts a statement decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leaveout.verifier.points.decide import Formulas
from leaveout.verifier.points.leak_statements import names_model
from leaveout.verifier.points.network_leaks import NativeLeaks, NetworkLeaks
from leaveout.verifier.points.sampled_leaks import Samples
from leaveout.verifier.tasks import Context, Engine
from leaveout.verifier.values.decider import Values

_Made = Engine[Any] | tuple[Engine[Any], ...]


def _forest_leaks(context: Context) -> tuple[Engine[Any], ...]:
    """Return the engine of forests if there is a forest: its libraries load slowly."""
    checked = context.checked
    if not any(names_model(each, checked, "forest") for each in checked.statements):
        return ()
    from leaveout.verifier.points.forest_leaks import ForestLeaks

    return (ForestLeaks(context),)


def _linear_models(context: Context) -> tuple[Engine[Any], ...]:
    """Return the engines of linear models if there is one."""
    checked = context.checked
    if not any(names_model(each, checked, "linear") for each in checked.statements):
        return ()
    from leaveout.verifier.points.linear_changes import LinearChanges
    from leaveout.verifier.points.linear_leaks import LinearLeaks
    from leaveout.verifier.points.linear_scores import LinearScores

    leaks = LinearLeaks(context)
    return LinearChanges(context, leaks), LinearScores(context, leaks), leaks


def _trees(context: Context) -> tuple[Engine[Any], ...]:
    """Return the engine of tree ensembles if there is one."""
    checked = context.checked
    if not any(names_model(each, checked, "trees") for each in checked.statements):
        return ()
    from leaveout.verifier.points.tree_claims import TreeClaims

    return (TreeClaims(context),)


_MORE = (_forest_leaks, _linear_models, _trees)
_ENGINES: Mapping[str, tuple[Callable[[Context], _Made], ...]] = {
    "native": (Samples, Values, *_MORE, NativeLeaks, Formulas),
    "lucid": (Samples, Values, *_MORE, NetworkLeaks),
}
"""By the option ``engine``; if none accepts a statement, the last one states the reason."""


def engines(context: Context) -> tuple[Engine[Any], ...]:
    """Return the engines of a run, in order of preference."""
    found: list[Engine[Any]] = []
    for make in _ENGINES[context.options.engine]:
        made = make(context)
        found += made if isinstance(made, tuple) else [made]
    return tuple(found)
