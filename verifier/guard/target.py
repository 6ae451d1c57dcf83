"""The output path of the guard's bounds, checked before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leaveout.errors import GuardError, SpecError
from leaveout.models.archive import holds_arrays
from leaveout.verifier.amounts import bound
from leaveout.verifier.guard.access import ProvedBounds, expect_key, save_bounds
from leaveout.verifier.output_file import OutputFile
from leaveout.verifier.points.network_leaks import NetworkJob, NetworkLeaks
from leaveout.written import first_few


def _holds_bounds(path: Path) -> bool:
    return not path.stat().st_size or holds_arrays(path, ["member_upper"])


class BoundsTarget:
    """A file of bounds per member."""

    def __init__(self, path: Path) -> None:
        self.path = path
        OutputFile.open("--bounds", path, kind="a bounds file", is_one=_holds_bounds)

    def begin(self, jobs: Sequence[NetworkJob]) -> None:
        """Raise on specifications that are not about one family's members."""
        expect_key()
        self._jobs = [job for job in jobs if not job.compared.pair]
        questions = {id(job.compared) for job in self._jobs}
        if len(questions) != 1:
            several = f"{len(questions)} different questions"
            found = several if questions else "no statement about leaks of a family"
            raise SpecError(
                f"--bounds {self.path}: a guard needs statements about one network, one family "
                "and one set of inputs, such as 'forall x in X, M in F: confidence(N, x) > b => "
                f"label(M, x) == label(N, x)'; the specification has {found}; a sample of the "
                "rows ('but') guards nothing: drop 'but' and 'with confidence' to cover the "
                "rows drawn"
            )

    def write(self, leaks: NetworkLeaks) -> str:
        """Write the file atomically; return a note for the report."""
        if leaks.contradicted:
            return "no bounds were written, because one was refuted"
        compared = self._jobs[0].compared
        bounds = ProvedBounds.of(compared.instance, leaks.known_results(compared))
        try:
            save_bounds(self.path, bounds)
        except GuardError as error:
            raise SpecError(f"--bounds {error}") from None
        shown = first_few((bound(each, up=True) for each in bounds.thresholds.tolist()), 4)
        return f"{self.path}: bounds of each member for a guard, by label at most {shown}"
