"""What a run would solve and how large it is, without solving anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leaveout.specs import Spec
from leaveout.specs.typing.params import Value
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.resolve_names import read_spec
from leaveout.verifier.run import usable_features
from leaveout.verifier.statements import Statements
from leaveout.verifier.tasks import Context, Outline


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    spec: str
    engine: str
    solver: str | None  # none where the engine needs none
    statements: tuple[Outline, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        by = self.engine if self.solver is None else f"{self.engine} with {self.solver}"
        searches = sum(each.searches for each in self.statements)
        total = f"{searches:,} search{'es' * (searches != 1)} by the engine {by}"
        last = f"{total if searches else 'no search'}; nothing was solved"
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*map(str, self.statements), "", last, *notes]) + "\n"


def plan(
    spec: Path | str | Spec,
    *,
    options: VerifyOptions | None = None,
    folder: Path | str | None = None,
    params: Mapping[str, Value] | None = None,
    allow_include: Sequence[Path | str] = (),
) -> Plan:
    """Read, check and load everything a run needs, without solving anything."""
    options = options or VerifyOptions()
    usable_features(options)
    reading = read_spec(spec, folder, params, [Path(each) for each in allow_include])
    resolver = reading.resolver()
    statements = Statements(Context(reading.checked, resolver, reading.folder, options))
    return Plan(
        spec=reading.checked.source.name,
        engine=options.engine,
        solver=options.solver if options.engine == "lucid" else None,
        statements=tuple(task.engine.outline(task.job) for task in statements.tasks),
        notes=(*reading.notes, *resolver.notes, *statements.notes),
    )
