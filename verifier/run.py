"""``verify``: from a specification to a report."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from msgspec import structs

from leaveout.bab.lucid.options import LOOSE
from leaveout.bab.native.files.checkpoint import Checkpoints
from leaveout.bab.native.kernels import make_kernel
from leaveout.bab.native.workers.pool import make_executor
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import SolverError
from leaveout.names import find_reference
from leaveout.ray_cluster import refuse_unreachable
from leaveout.solvers import Feature, find_solver
from leaveout.specs import Spec
from leaveout.specs.typing.params import Value
from leaveout.verifier.options import ENGINES, VerifyOptions
from leaveout.verifier.points.given import GivenAnswers, GivenPoints
from leaveout.verifier.points.network_leaks import NetworkJob, NetworkLeaks
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.points.sentences import group_notes
from leaveout.verifier.provenance import Origin
from leaveout.verifier.records import ByRowRecord, FileRecord, constant_models
from leaveout.verifier.report import Report, Result
from leaveout.verifier.resolve_names import read_spec
from leaveout.verifier.statements import Statements
from leaveout.verifier.tasks import Context, StatementProgress
from leaveout.verifier.time_sharing import Clock
from leaveout.verifier.warm_up import Say, warm
from leaveout.version import VERSION

if TYPE_CHECKING:
    from leaveout.verifier.guard.target import BoundsTarget


_LONG = 5.0  # seconds from which on single rows have time of their own

_FOR_ROWS, _MOST_FOR_ROWS = 0.05, 10.0
"""Share of the time, and seconds at most, that bounding single rows is left in any case."""

_LATER, _LEAST_LATER, _MOST_LATER = 0.05, 2.0, 10.0
"""Share of the time, and seconds at least and at most, that a certificate is checked after it."""

P = ParamSpec("P")
R = TypeVar("R")


def _with_display(run: Callable[P, R]) -> Callable[P, R]:
    """Make ``progress=True`` show a live line on standard error or in a notebook."""

    @functools.wraps(run)
    def run_with_display(*args: P.args, **given: P.kwargs) -> R:
        """Run with a live line where it is asked for."""
        if given.get("progress") is not True:
            return run(*args, **given)
        make_display: Any = find_reference("leaveout.verifier.cli.progress:Display")
        with make_display() as display:
            given["progress"] = display.update
            if given.get("say") is None:
                given["say"] = display.say
            return run(*args, **given)

    return run_with_display


@_with_display
def verify(
    spec: Path | str | Spec,
    *,
    solver: str = "highs",
    engine: str = ENGINES[0],
    time: float | None = None,
    workers: int | None = None,
    variant: str = "LUCID",
    seed: int = 0,
    folder: Path | str | None = None,
    progress: StatementProgress | bool | None = None,
    certificate: Path | str | CertificateTarget | None = None,
    bounds: Path | str | None = None,
    resume: Path | str | None = None,
    executor: str = "processes",
    kernel: str = "cpu",
    params: Mapping[str, Value] | None = None,
    allow_include: Sequence[Path | str] = (),
    say: Say | None = None,
    begun: float | None = None,
    data: Any = None,
) -> Report:
    """Verify every statement of a specification.

    Parameters
    ----------
    spec : path or Spec
        A file, or a tree built in Python or by `leaveout.specs.text.parse`.
    solver, engine, time, workers, variant, seed
        See `leaveout.verifier.options.VerifyOptions`.
    folder : path, optional
        What relative paths are relative to; by default the specification's folder, or the
        working directory for a tree.
    progress : callable or bool, optional
        Called a few times a second with the statement's name and a `leaveout.bab.Progress`; True
        for a live line on standard error or in a notebook.
    certificate : path or CertificateTarget, optional
        File to write what proves the bounds to, for ``leaveout check``; of the native engine.
    bounds : path, optional
        File to write what is proved of each member to, for `leaveout.verifier.guard.Guard`.
    resume : path, optional
    executor, kernel : str
        See `leaveout.verifier.options.VerifyOptions`.
    params : mapping of str to float or str, optional
        Other values for params of the specification, by name.
    allow_include : sequence of path
        Folders that files may be included from, beside the specification's own.
    say : callable, optional
        Called with a line for whoever waits, such as that something is compiled.
    begun : float, optional
        When the time began to count, of `time.perf_counter`; by default now.
    data : path, data frame or array_like, optional
        Rows to count at the end: how many of the network's answers to them owe nothing to any one
        record. A CSV in the units of the training table, an NPZ with ``X_test`` (or ``X``), a
        frame of that table's columns, or numbers of shape (rows, features) as the network reads
        them.

    Returns
    -------
    Report
        On Ctrl-C, or when the time is over, with the best sound bounds so far.

    Raises
    ------
    LeaveoutError
        If the specification, a file it names, or an option cannot be used. Nothing is decided
        before everything is loaded.
    """
    started = perf_counter() if begun is None else begun
    kept, file = certificate is not None, None if resume is None else Path(resume)
    options = VerifyOptions(
        solver, engine, time, workers, variant, seed, kept, file, executor, kernel
    )
    target = _certificate_target(certificate, engine)
    features = usable_features(options)
    given = None if data is None else GivenPoints.of(data)
    guarded = _bounds_target(bounds)
    reading = read_spec(spec, folder, params, [Path(each) for each in allow_include])
    checked, resolver = reading.checked, reading.resolver()
    origin = Origin.of(checked, reading.folder, _file_of(spec), _file_of(data))
    if target is not None:
        target.begin(checked.source.name, reading.text)
    # Nothing of it is started before a search needs it.
    explorers = None if engine == "lucid" else make_executor(options.native(None))
    told = progress if callable(progress) else None
    context = Context(checked, resolver, reading.folder, options, told, target, explorers)
    statements = Statements(context)
    for option, asked in (("--bounds", guarded), ("--data", given)):
        if asked is not None:
            statements.refuse_without_networks(option)
    networks = statements.about("networks")
    leaks: list[NetworkJob] = [task.job for task in networks]
    if guarded is not None:
        guarded.begin(leaks)
    rows = None if given is None else GivenAnswers(leaks, given, bool(statements.about("samples")))
    if file is not None:
        context.notes.extend(_resume(statements, file))
    # What is done once for all runs is not charged to the first.
    started += warm(statements.kernels, say)
    whole = Clock(time, started, 1)
    with nullcontext() if explorers is None else closing(explorers):
        results, by_row = _decide(statements, _search_seconds(time, leaks), started, whole)
    if features is not None and Feature.TOLERANCES not in features:
        context.notes.append(
            f"solver {solver!r} has no tolerance setting: its bounds are padded by {LOOSE:g}"
        )
    if target is not None:
        context.notes.extend(
            _finish(target, time, whole, contradicted=statements.has_contradiction)
        )
    if guarded is not None:
        context.notes.append(guarded.write(cast("NetworkLeaks", networks[0].engine)))
    files, training = origin.files(), origin.training()
    models, answers = statements.models, () if rows is None else rows.records(results)
    return Report(
        leaveout=VERSION,
        spec=reading.text if isinstance(spec, Spec) else str(spec),
        results=tuple(results),
        notes=(
            *group_notes(training),
            *reading.notes,
            *resolver.notes,
            *statements.notes,
            *(
                f"{file}: {alike}, as if the model ignored its input: what is proved of it says "
                "little"
                for file, alike in constant_models(models, answers).items()
            ),
            *_changed_files(files),
        ),
        spec_sha256=reading.digest,
        answers=answers,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        folder=str(reading.folder),
        files=files,
        statements=origin.statements(),
        training=training,
        by_row=by_row,
        models=models,
    )


def _resume(statements: Statements, file: Path) -> list[str]:
    """Resume from a file of checkpoints; return notes on what is gone on from."""
    store = Checkpoints(file, VERSION)
    checkpoints = statements.resume(store)
    store.only(checkpoints)
    return [each.description for each in checkpoints if each.description]


def _decide(
    statements: Statements, seconds: float | None, started: float, whole: Clock
) -> tuple[list[Result], tuple[ByRowRecord, ...]]:
    """Return the results, and what is proved of each row; ``whole`` is the run's clock."""
    clock = Clock(seconds, started, statements.searches)
    results = statements.decide(clock)
    whole.interrupted = clock.interrupted
    by_row = statements.by_row(whole)
    if statements.has_contradiction:
        # Earlier statements rested on the same solver.
        results = statements.without_solver_proofs()
        by_row = statements.by_row(whole)
    results = [structs.replace(each, reason=whole.explain_reason(each.reason)) for each in results]
    return statements.with_advice(results), by_row


def _finish(
    target: CertificateTarget, time: float | None, clock: Clock, *, contradicted: bool
) -> list[str]:
    """Write the certificate; return notes on it."""
    if contradicted:
        return ["no certificate was written, because a bound was refuted"]
    target.write(_finish_deadline(time, clock))
    return target.notes


def _changed_files(files: Iterable[FileRecord]) -> Iterator[str]:
    """Yield a note on each file that was not the same during the run."""
    for each in files:
        if not each.sha256:
            yield (
                f"{each.path}: changed during the run; which contents the results refer to is "
                "unknown"
            )


def _file_of(given: Any) -> Path | None:
    """Return the path that a caller passes; None for a tree, a frame or numbers."""
    return Path(given) if isinstance(given, str | os.PathLike) else None


def _search_seconds(time: float | None, leaks: list[NetworkJob]) -> float | None:
    """Return the search time; of a long run some is kept for single rows."""
    if time is None or time < _LONG or all(job.compared.pair for job in leaks):
        return time
    return time - min(_FOR_ROWS * time, _MOST_FOR_ROWS)


def _finish_deadline(time: float | None, clock: Clock) -> Deadline:
    """Return the deadline of the final steps, slightly after the run's time."""
    if time is None:
        return NEVER
    spare = max(_LEAST_LATER, min(_LATER * time, _MOST_LATER))
    return Deadline.after((clock.seconds_left or 0.0) + spare)


def _certificate_target(
    given: Path | str | CertificateTarget | None, engine: str
) -> CertificateTarget | None:
    if given is None or isinstance(given, CertificateTarget):
        return given
    return CertificateTarget(Path(given), engine)


def _bounds_target(path: Path | str | None) -> BoundsTarget | None:
    """Return the target of member bounds, loading the guard's libraries on demand."""
    if path is None:
        return None
    from leaveout.verifier.guard.target import BoundsTarget

    return BoundsTarget(Path(path))


def usable_features(options: VerifyOptions) -> frozenset[Feature] | None:
    """Check names and options; return the features of the solver, if any."""
    options.lucid(None)
    features = find_solver(options.solver).features
    if options.engine != "lucid":
        make_kernel(options.kernel, threads=1)
        make_executor(options.native(None))
        if options.executor == "ray" and (options.workers or 1) > 1:
            refuse_unreachable(SolverError)
        return None
    if Feature.DUAL_BOUND not in features:
        raise SolverError(
            f"solver {options.solver!r} computes no dual bounds, so it cannot prove anything"
        )
    return features
