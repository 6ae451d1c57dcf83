"""``leaveout check``: prove a certificate again and check other evidence."""

from __future__ import annotations

from pathlib import Path

import typer

from leaveout.errors import SpecError
from leaveout.exit_codes import ExitCode
from leaveout.files import refuse_unread
from leaveout.verifier.cli.output import write_parts
from leaveout.verifier.cli.parameters import argument, flag, option
from leaveout.verifier.cli.progress import live_line

_HANDED = (
    "whoever gets it gets these files; a forest or linear model holds its training rows and their "
    "names"
)


def check(
    evidence: Path = argument(
        "A certificate, an attestation, or an evidence folder.",
        metavar="CERTIFICATE|ATTESTATION|DIR",
    ),
    key: Path | None = option("Public key that must have signed the attestation.", metavar="FILE"),
    network: list[Path] | None = option(
        "A network that has moved; it must be the same file. If there are several, name all."
    ),
    family: list[Path] | None = option(
        "A family that has moved; it must be the same. If there are several, name all."
    ),
    files: list[Path] | None = option(
        "A file that has moved, such as ballots, or a folder to search, such as the "
        "specification's new one. May be repeated.",
        metavar="PATH",
    ),
    exact: bool = flag(
        "--exact",
        "Prove leaks of linear models in whole numbers, without any rounding, up to 10,000 rows.",
    ),
    record: Path | None = option(
        "Write the answers to the kernel's questions to a file; the program leaveout-check proves "
        "the certificate again from them alone (networks of dense layers).",
        metavar="FILE",
    ),
    bundle: Path | None = option(
        "Write these answers, the certificate and the files that it names into one file, which "
        "leaveout-check proves again alone (pip install ./kernel from a checkout).",
        metavar="FILE",
    ),
    without_family: bool = flag(
        "--without-family",
        "Leave families out of the bundle: whoever checks it has to ask for them, and passes them "
        "with --family.",
    ),
) -> None:
    """Check a certificate, or a folder of evidence, with an independent program.

    For an attestation or a folder of evidence, the check first verifies the signature (if you pass
    the public key), the digest of every file, and that the attestation matches the results. It then
    reads the questions from the specification itself, and the certificate must prove the answers.

    The check rests on a small kernel that searches nothing: it checks every region, bound and
    multiplier, including rounding, and believes no hint. Trusted besides: numpy, that the runtime
    computes in float32, and for networks of other than dense layers the reader of ONNX files.

    For example: leaveout verify idp.spec --certificate idp.cert, then leaveout check idp.cert

    For example: leaveout check idp.cert --bundle claim.zip, then leaveout-check claim.zip

    For example: leaveout verify idp.spec --evidence proof --key me.key, then leaveout check proof
    --key me.pub

    Exit status: 0 everything is proved again, 1 something is forged or wrong (one line names the
    first part that fails), 2 a file is missing or unreadable, 3 nothing is wrong, but not every
    result is proved again.
    """
    from leaveout.verifier.certify.bundle import entries, is_bundle
    from leaveout.verifier.cli.checked_evidence import evidence_parts
    from leaveout.verifier.cli.result_table import checked_parts

    if is_bundle(evidence):
        raise SpecError(
            f"{evidence}: is a bundle; 'leaveout-check {evidence}' proves it again (pip install "
            "./kernel from a checkout)"
        )
    with refuse_unread(SpecError, evidence):
        attestation = _attestation(evidence)
    if attestation is None and key is not None:
        raise SpecError(
            f"--key {key}: only attestations are signed; {evidence} is not an attestation"
        )
    for name, file in (("--record", record), ("--bundle", bundle)):
        if attestation is not None and file is not None:
            raise SpecError(
                f"{name} {file}: name the certificate in {evidence} itself, not the folder"
            )
    if without_family and bundle is None:
        raise SpecError("--without-family needs --bundle FILE")
    status_code = ExitCode.PROVED
    with live_line("loading") as tell:

        def report(name: str, label: int | None, done: int, total: int) -> None:
            what = name if label is None else f"{name}, label {label}"
            tell(f"{what}: {done:,} of {total:,} nodes")

        if attestation is None:
            from leaveout.verifier.certify.check import check as run

            found = run(
                evidence,
                network=network,
                family=family,
                files=files,
                exact=exact,
                record=record,
                bundle=bundle,
                with_family=not without_family,
                progress=report,
            )
            shown = [*checked_parts(found)]
            if bundle is not None:
                shown += [f"{bundle}: {_HANDED}", *entries(bundle)]
        else:
            from leaveout.verifier.evidence.checking import check_evidence

            held = check_evidence(
                attestation,
                key=key,
                network=network or (),
                family=family or (),
                files=files or (),
                exact=exact,
                progress=report,
            )
            shown = [*evidence_parts(held)]
            if not all(each.proved for each in held.standings):
                status_code = ExitCode.UNKNOWN
    write_parts(shown)
    raise typer.Exit(status_code)


def _attestation(path: Path) -> Path | None:
    """Return the attestation a caller names; None for a certificate."""
    from leaveout.verifier.evidence.checking import is_attestation
    from leaveout.verifier.evidence.parts import ATTESTATION

    if path.is_dir():
        if not (path / ATTESTATION).exists():
            raise SpecError(
                f"{path}: is a folder without {ATTESTATION}; 'leaveout verify SPEC --evidence DIR' "
                "writes one to check"
            )
        return path / ATTESTATION
    return path if is_attestation(path) else None
