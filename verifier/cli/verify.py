"""``leaveout verify``: decide a specification."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.output import reader_may_leave, write_out, write_parts
from leaveout.verifier.cli.parameters import argument, flag, option

if TYPE_CHECKING:
    from leaveout.verifier.evidence.folder import EvidenceFolder
    from leaveout.verifier.options import VerifyOptions


def verify(
    spec: Path = argument("A .spec file."),
    solver: str = option("MILP solver of lucid, as listed by 'leaveout solvers'.", default="highs"),
    engine: str = option(
        "Search engine: native (leaveout's own branch and bound, exact and fast) or lucid (the "
        "paper's algorithm, one MILP per set of members).",
        default="native",
    ),
    variant: str = option(
        "Variant of the lucid engine: naive, H, HM, HMRiS, HMB or LUCID (all techniques).",
        default="LUCID",
    ),
    time: float | None = option(
        "Time limit in seconds for the whole specification; the best sound bounds so far are "
        "reported.",
        shown="no limit",
    ),
    workers: int | None = option(
        "Number of processes: search processes for native, solver processes for lucid.",
        shown="1 for native, one per core for lucid",
    ),
    executor: str = option("Where native's workers run: processes or ray.", default="processes"),
    kernel: str = option(
        "Kernel that computes native's bounds: cpu, or one from a plug-in, e.g. torch.",
        default="cpu",
    ),
    seed: int = option("Seed of the search for witnesses.", default=0),
    json: str | None = option(
        "Write the results as JSON; '-' writes to standard output.", metavar="FILE"
    ),
    resume: Path | None = option(
        "Save a checkpoint to this file every minute, and resume from it if it exists (native "
        "engine).",
        metavar="FILE",
    ),
    certificate: Path | None = option(
        "Write a certificate of the bounds for 'leaveout check' (native engine).", metavar="FILE"
    ),
    evidence: Path | None = option(
        "Write a folder of evidence: results, certificate, attestation, page and machine-readable "
        "reports. 'leaveout check DIR' checks it.",
        metavar="DIR",
    ),
    key: Path | None = option(
        "Private key to sign the --evidence attestation; 'leaveout attest --new-key' creates one.",
        metavar="FILE",
    ),
    bounds: Path | None = option(
        "Write the bound of each member, for 'leaveout guard'.", metavar="FILE"
    ),
    data: str | None = option(
        "Rows to evaluate: report how many answers to them no single record can change. A CSV in "
        "the units of the training data, or an NPZ with X_test (or X).",
        metavar="FILE",
    ),
    settings: list[str] | None = option(
        "Set a param of the specification. May be repeated.", "--set", metavar="NAME=VALUE"
    ),
    allow_include: list[Path] | None = option(
        "A further folder that specifications may include files from. May be repeated.",
        metavar="DIR",
    ),
    dry_run: bool = flag(
        "--dry-run", "Load everything and show what would be solved, without solving it."
    ),
) -> None:
    """Decide every guarantee of a specification, and bound every find.

    Results go to standard output, progress to standard error. Ctrl-C ends the search and reports
    the best sound bounds so far.

    For example: leaveout verify examples/breast_cancer/breast_cancer.spec --json result.json

    With --evidence DIR everything that others need to check the results goes into one folder; --key
    signs it.

    With --data rows.csv the last lines say how many of the network's answers to these rows no
    single record can change, and why the others may change.

    --set eps=0.2 replaces the value of a specification's 'param eps = 0.1'.

    Exit status: 0 all proved, 1 something refuted, 3 something unknown, 2 bad input.
    """
    from leaveout.errors import SpecError
    from leaveout.verifier.cli.options import open_json, read_settings
    from leaveout.verifier.cli.progress import Display
    from leaveout.verifier.cli.result_table import result_parts
    from leaveout.verifier.cli.running import since_start
    from leaveout.verifier.options import VerifyOptions
    from leaveout.verifier.report import exit_code, json_for
    from leaveout.verifier.run import verify as run

    params = read_settings(settings or [])
    if dry_run:
        written = {
            "json": json,
            "certificate": certificate,
            "evidence": evidence,
            "key": key,
            "bounds": bounds,
            "resume": resume,
            "data": data,
        }
        for name, value in written.items():
            if value is not None:
                raise SpecError(f"--dry-run solves nothing: drop --{name}")
        _show_plan(
            spec,
            VerifyOptions(
                solver, engine, time, workers, variant, seed, executor=executor, kernel=kernel
            ),
            params,
            allow_include or [],
        )
        raise typer.Exit(0)
    if key is not None and evidence is None:
        raise SpecError("--key needs --evidence DIR: it signs that folder's attestation")
    if evidence is not None and certificate is not None:
        raise SpecError("--certificate: drop it; --evidence already writes one into its folder")
    target = open_json(json)
    with _evidence_folder(evidence, engine, key) as folder, Display() as display:
        report = run(
            spec,
            solver=solver,
            engine=engine,
            variant=variant,
            time=time,
            workers=workers,
            seed=seed,
            progress=display.update,
            certificate=certificate if folder is None else folder.certificate,
            bounds=bounds,
            resume=resume,
            executor=executor,
            kernel=kernel,
            params=params,
            allow_include=allow_include or [],
            say=display.say,
            # The time limit counts from the program's start, not the search's.
            begun=perf_counter() - since_start(),
            data=data,
        )
        kept = None if folder is None else folder.write(report)
    if json != "-":
        write_parts(result_parts(report))
        if kept is not None:
            write_out(f"{kept.words()}\n")
    if target is not None:
        with reader_may_leave():
            target.write(json_for(report, target.path))
    raise typer.Exit(exit_code(report))


def _evidence_folder(
    evidence: Path | None, engine: str, key: Path | None
) -> AbstractContextManager[EvidenceFolder | None]:
    """Return the folder for evidence, or a null context if there is none."""
    if evidence is None:
        return nullcontext()
    from leaveout.verifier.evidence.folder import EvidenceFolder

    return EvidenceFolder.open(evidence, engine, key)


def _show_plan(
    spec: Path, options: VerifyOptions, params: dict[str, str], allow_include: list[Path]
) -> None:
    from leaveout.verifier.plan import plan

    found = plan(spec, options=options, params=params, allow_include=allow_include)
    write_out(str(found))
