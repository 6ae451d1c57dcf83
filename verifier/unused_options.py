"""Which options affect which claims; unused ones are reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from leaveout.verifier.options import VerifyOptions

Kind = str
"""Of a claim: a key of `USED`."""

USED: Mapping[Kind, frozenset[str]] = {
    "leaks, native": frozenset(
        {"engine", "time", "workers", "executor", "kernel", "seed", "certificate", "resume"}
    ),
    "leaks, lucid": frozenset({"engine", "time", "solver", "variant", "workers", "seed"}),
    "leaks of samples, native": frozenset(
        {"engine", "time", "workers", "executor", "kernel", "seed", "certificate"}
    ),
    "leaks of samples, lucid": frozenset(
        {"engine", "time", "solver", "variant", "workers", "seed"}
    ),
    "leaks, forests": frozenset({"time", "workers", "certificate"}),
    "formula": frozenset(
        {"time", "workers", "executor", "kernel", "seed", "certificate", "resume"}
    ),
    "value": frozenset({"time", "seed", "certificate"}),
    "value, by a solver": frozenset({"time", "seed", "solver", "certificate"}),
}
"""Options of `VerifyOptions` that each kind of claim reads."""


def unused_option_notes(options: VerifyOptions, claims: Iterable[tuple[str, Kind]]) -> list[str]:
    """Return a note for each option set that some claims ignore."""
    listed = list(claims)
    notes = []
    for each in fields(options):
        if getattr(options, each.name) == each.default:
            continue
        vain = [name for name, kind in listed if not _reads(options, kind, each.name)]
        if vain:
            notes.append(f"--{each.name} has no say in {', '.join(dict.fromkeys(vain))}")
    return notes


def _reads(options: VerifyOptions, kind: Kind, option: str) -> bool:
    if option == "executor" and (options.workers or 1) == 1:
        # One worker is no crowd to run anywhere.
        return False
    return option in USED[kind]
