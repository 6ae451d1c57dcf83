"""Progress and report of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.models.family_file import FAMILY
from leaveout.models.train.export import NETWORK, SPEC


class TrainingInterruptedError(TrainingError):
    """Training was interrupted from the keyboard; finished parts are kept."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of training.

    Attributes
    ----------
    finished : int
        Networks on disk: the one on all rows, and members.
    networks : int
        How many there will be.
    work : float
        Networks' worth of training behind, unfinished blocks counted by their share.
    note : str
        A line on what happened since, such as that a worker died; mostly empty.
    """

    finished: int
    networks: int
    work: float
    note: str = ""


@dataclass(frozen=True, repr=False)
class TrainingReport:
    """What was trained.

    Attributes
    ----------
    directory : Path
    rows, features, labels, members : int
    train_accuracy : float
        Share of rows that the network on all rows labels right, in [0, 1].
    test_accuracy : float or None
        The same of the test rows; None where there are none.
    seconds : float
        Of this run.
    complete_before : bool
        Whether all was there already, so that nothing was done.
    files : tuple of Path
    warnings : tuple of str
        Why the members may be no leave-one-out family.
    """

    directory: Path
    rows: int
    features: int
    labels: int
    members: int
    train_accuracy: float
    test_accuracy: float | None
    seconds: float
    complete_before: bool
    files: tuple[Path, ...]
    warnings: tuple[str, ...] = ()

    @property
    def network(self) -> Path:
        """The network on all rows, as ONNX."""
        return self.directory / NETWORK

    @property
    def family(self) -> Path:
        """The members."""
        return self.directory / FAMILY

    @property
    def spec(self) -> Path:
        """The specification to start from."""
        return self.directory / SPEC

    @property
    def bounds(self) -> Path:
        """Where `leaveout.verify` should write the bounds, for a guard to find."""
        return self.directory / "bounds.npz"

    def __repr__(self) -> str:
        return (
            f"<{self.members:,} of {self.rows:,} rows left out, {self.features:,} features, "
            f"{self.labels:,} labels, train accuracy {self.train_accuracy:.1%}: {self.spec}>"
        )
