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


def _forests(context: Context) -> tuple[Engine[Any], ...]:
    from leaveout.verifier.points.forest_leaks import ForestLeaks

    return (ForestLeaks(context),)


def _linear_models(context: Context) -> tuple[Engine[Any], ...]:
    from leaveout.verifier.points.linear_changes import LinearChanges
    from leaveout.verifier.points.linear_leaks import LinearLeaks
    from leaveout.verifier.points.linear_scores import LinearScores

    leaks = LinearLeaks(context)
    return LinearChanges(context, leaks), LinearScores(context, leaks), leaks


def _trees(context: Context) -> tuple[Engine[Any], ...]:
    from leaveout.verifier.points.tree_claims import TreeClaims

    return (TreeClaims(context),)


_OF_MODELS = {"forest": _forests, "linear": _linear_models, "trees": _trees}
"""What makes the engines of a kind of model, whose libraries load slowly."""

_LAST: Mapping[str, tuple[Callable[[Context], Engine[Any]], ...]] = {
    "native": (NativeLeaks, Formulas),
    "lucid": (NetworkLeaks,),
}
"""By the option ``engine``; if none accepts a statement, the last one states the reason."""


def engines(context: Context) -> tuple[Engine[Any], ...]:
    """Return the engines of a run, in order of preference; those of models that it names."""
    checked = context.checked
    found: list[Engine[Any]] = [Samples(context), Values(context)]
    for kind, make in _OF_MODELS.items():
        if any(names_model(each, checked, kind) for each in checked.statements):
            found += make(context)
    return (*found, *(last(context) for last in _LAST[context.options.engine]))
