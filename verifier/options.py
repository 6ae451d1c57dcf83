"""Options of a verification run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaveout.cores import cores
from leaveout.errors import SolverError, SpecError

if TYPE_CHECKING:
    from leaveout.bab import LucidOptions, NativeOptions


ENGINES = ("native", "lucid")  # engines by name; the first is the default

_LONGEST = 1e8


@dataclass(frozen=True)
class VerifyOptions:
    """How to verify.

    Attributes
    ----------
    solver : str
        Of the ``lucid`` engine: ``name`` or ``name:option``, as listed by ``leaveout solvers``.
    engine : str
        One of `ENGINES`.
    time : float or None
        Seconds for the whole specification, None for no limit.
    workers : int or None
        Explorers of the ``native`` engine, by default one that uses every core; solver processes
        of the ``lucid`` engine, by default one a core.
    variant : str
        Of the ``lucid`` engine: naive, H, HM, HMRiS, HMB or LUCID.
    seed : int
        Of the search for witnesses and the clustering.
    certificate : bool
        Whether the ``native`` engine keeps what a certificate needs.
    resume : Path or None
        Checkpoint of the ``native`` engine: gone on from if it exists, and kept up to date.
    executor : {"processes", "ray"}
        How several explorers of the ``native`` engine run.
    kernel : str
        What computes the ``native`` engine's bounds: ``cpu``, or a plug-in's kernel, such as
        ``torch:cuda`` of ``examples/plugin_kernel``.

    Raises
    ------
    SpecError, SolverError
        If a value is out of range or a name unknown.
    """

    solver: str = "highs"
    engine: str = ENGINES[0]
    time: float | None = None
    workers: int | None = None
    variant: str = "LUCID"
    seed: int = 0
    certificate: bool = False
    resume: Path | None = None
    executor: str = "processes"
    kernel: str = "cpu"

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SpecError(f"unknown engine {self.engine!r}; known engines: {', '.join(ENGINES)}")
        if self.time is not None and not 0 < self.time <= _LONGEST:
            raise SpecError(
                f"the time must be a positive number of seconds, at most {_LONGEST:g}, got "
                f"{self.time:g}; omit it for no limit"
            )
        if not 0 <= self.seed < 2**32:
            raise SpecError(
                f"the seed must be a whole number from 0 to {2**32 - 1}, got {self.seed}"
            )
        if self.resume is not None and self.engine != "native":
            raise SpecError(f"engine {self.engine!r} does not support checkpoints: drop --resume")
        if self.workers is not None and self.workers < 1:
            raise SolverError(f"at least one worker is needed, got {self.workers}")

    @property
    def gap(self) -> float:
        """The relative gap at which bounds count as closed."""
        return self.native(None).gap

    @property
    def proves_with(self) -> str:
        """What computes the upper bounds, in words."""
        return self.solver if self.engine == "lucid" else "the native engine"

    def lucid(self, seconds: float | None) -> LucidOptions:
        """Return the options of one search by the ``lucid`` engine."""
        from leaveout.bab import LucidOptions, find_variant

        return LucidOptions(
            variant=find_variant(self.variant),
            solver=self.solver,
            workers=self.workers or cores(),
            seconds=seconds,
            seed=self.seed,
        )

    def native(self, seconds: float | None) -> NativeOptions:
        """Return the options of one search by the ``native`` engine."""
        from leaveout.bab import NativeOptions

        return NativeOptions(
            seconds=seconds,
            seed=self.seed,
            workers=self.workers or 1,
            certificate=self.certificate,
            executor=self.executor,
            kernel=self.kernel,
        )
