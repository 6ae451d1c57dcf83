"""The built-in functions, one file per subject."""

from __future__ import annotations

import os
import warnings

from leaveout.specs.table import access, deletion, inputs, networks, points, votes
from leaveout.specs.table.signatures import Bound, Function, Parameter, Types

__all__ = [
    "BUILT_IN",
    "SUBJECTS",
    "Bound",
    "Function",
    "Parameter",
    "Types",
    "functions",
    "is_built_in",
]

SUBJECTS = (networks, inputs, points, votes, deletion, access)

BUILT_IN: tuple[Function, ...] = tuple(each for file in SUBJECTS for each in file.FUNCTIONS)


_BY_NAME = {function.name: function for function in BUILT_IN}

GROUP = "leaveout.functions"


def is_built_in(name: str) -> bool:
    """Return whether a function is built in rather than from a plug-in."""
    return name in _BY_NAME


def functions() -> dict[str, Function]:
    """Return the functions available to specifications, by name.

    Returns
    -------
    dict of str to Function
        The built-in ones, then those of the entry points ``leaveout.functions``. The
        environment variable ``LEAVEOUT_PLUGINS=off`` leaves plug-ins out.

    Warns
    -----
    UserWarning
        For a plug-in that cannot be loaded or whose name is taken; it is left out.
    """
    table = dict(_BY_NAME)
    if os.environ.get("LEAVEOUT_PLUGINS", "").lower() in {"off", "0", "no", "false"}:
        return table
    # Parsing alone need not read the metadata of every installed package.
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            function = point.load()
        except Exception as error:  # a plug-in may raise anything
            _skip(point.value, f"cannot load it: {type(error).__name__}: {error}")
            continue
        if not isinstance(function, Function):
            _skip(point.value, f"it is a {type(function).__name__}, expected a Function")
        elif function.name in table:
            _skip(point.value, f"there is already a function '{function.name}'")
        else:
            table[function.name] = function
    return table


def _skip(plugin: str, why: str) -> None:
    warnings.warn(f"plug-in function {plugin} is skipped: {why}", stacklevel=3)
