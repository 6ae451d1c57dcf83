"""From a path or a tree to a checked specification, with includes and params."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.specs import CheckedSpec, Spec, check, expand, params, parse, with_params
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.parse import decode_text, read_bytes, with_text
from leaveout.specs.text.place import error_in_file
from leaveout.specs.typing.params import Value, value_text
from leaveout.verifier.resolve_names import Resolver


@dataclass(frozen=True)
class Reading:
    """A specification ready to be decided."""

    checked: CheckedSpec
    folder: Path  # what relative paths are relative to
    text: str
    notes: tuple[str, ...]  # the value of each param
    digest: str  # sha256 of the file, in hexadecimal; empty for a tree

    def resolver(self) -> Resolver:
        """Return the resolver of the specification's expressions."""
        return _Resolver(self.checked, self.folder)


class _Resolver(Resolver):
    """A resolver whose errors also point into included files."""

    def slip_error(self, slip: Slip) -> LeaveoutError:
        """Return the error that shows a slip in any of the files."""
        return error_in_file(self._spec.source, slip)


def read_spec(
    spec: Path | str | Spec,
    folder: Path | str | None = None,
    values: Mapping[str, Value] | None = None,
    allowed: Sequence[Path] = (),
) -> Reading:
    """Read a specification and what it includes, set its params, and check it."""
    file = None if isinstance(spec, Spec) else Path(spec)
    if isinstance(spec, Spec):
        parsed, digest = with_text(spec), ""
    else:
        data = read_bytes(spec)
        parsed, digest = parse(decode_text(data, str(spec)), str(spec)), sha256(data).hexdigest()
    base = Path(folder) if folder is not None else Path() if file is None else file.parent
    written = expand(parsed, base, file, allowed)
    tree = with_params(written, values or {})
    same = tree is written and not tree.source.included
    before, now = params(written), params(tree)
    notes = (
        f"param {name} = {value_text(value)}"
        + (f", not {value_text(before[name])} as written" if value != before[name] else "")
        for name, value in now.items()
    )
    text = tree.source.text if same else str(tree)
    return Reading(check(tree), base, text, tuple(notes), digest)
