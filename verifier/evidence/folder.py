"""``verify --evidence``: a folder with all evidence of a run, written atomically."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaveout.files import (
    clear_partials,
    partial_folder,
    put_folder,
    refuse_unwritten,
    settle,
    sha256_of,
    write_whole,
)
from leaveout.verifier.evidence.attest import Attestation, Made, seal_statement, statement_of
from leaveout.verifier.evidence.parts import (
    ATTESTATION,
    CERTIFICATE,
    NAMES,
    PARTS,
    RESULT,
    Given,
    make_part,
)
from leaveout.verifier.evidence.signing import read_signer
from leaveout.verifier.evidence.statement import EvidenceError, relocate_report
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.report import Report

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner


_ENGINE = "native"  # the engine with proofs


@dataclass(frozen=True)
class Written:
    """A written folder."""

    folder: Path
    names: tuple[str, ...]  # its files
    attestation: Attestation

    def words(self) -> str:
        """Describe the content, and whether it is signed."""
        signed = "is not signed; pass a private key with --key to sign"
        if self.attestation.keyid:
            signed = f"is signed by key {self.attestation.keyid}"
        without = "" if CERTIFICATE in self.names else ", without a certificate"
        return (
            f"{self.folder}: {len(self.names)} files of evidence{without}; {ATTESTATION} has "
            f"{self.attestation.digests} digests and {signed}"
        )


@dataclass(frozen=True, eq=False)
class EvidenceFolder:
    """A folder of evidence that replaces an earlier one only when complete."""

    path: Path  # path as given by the caller
    certificate: CertificateTarget | None
    _partial: Path
    _signer: CryptoSigner | None

    @staticmethod
    @contextmanager
    def open(path: Path, engine: str, key: Path | None = None) -> Iterator[EvidenceFolder]:
        """Check that the folder can be written; remove unfinished leftovers."""
        signer = None if key is None else read_signer(key)
        stack = ExitStack()
        with refuse_unwritten(EvidenceError, f"--evidence {path}"):
            _refuse_unusable(path)
            where = path.resolve().parent
            with suppress(OSError):
                # As far as possible: other programs write there, too.
                clear_partials(where)
            staged = stack.enter_context(partial_folder(where))
        with stack:
            target = None
            if engine == _ENGINE:
                target = CertificateTarget(staged / CERTIFICATE, engine, path)
            yield EvidenceFolder(path, target, staged, signer)

    def write(self, report: Report) -> Written:
        """Write the folder atomically."""
        own, target = self._partial, self.path.resolve()
        # Paths are relative to the final location.
        report = relocate_report(report, target)
        with refuse_unwritten(EvidenceError, f"--evidence {self.path}"):
            write_whole(own / RESULT, report.to_json())
            for name in PARTS:
                content = make_part(name, Given(report, own / RESULT, self._signer is not None))
                if content is not None:
                    write_whole(own / name, content)
            statement = statement_of(report, [_describe_file(own / name) for name in _names(own)])
            attestation = seal_statement(statement, self._signer)
            write_whole(own / ATTESTATION, attestation.content)
            names = tuple(_names(own))
            put_folder(own, target, NAMES)
        return Written(self.path, names, attestation)


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def _describe_file(path: Path) -> Made:
    kind = {RESULT: "result", CERTIFICATE: "certificate"}.get(path.name, "evidence")
    return Made(kind, path.name, sha256_of(path))


def _refuse_unusable(path: Path) -> None:
    if not path.resolve().parent.is_dir():
        raise EvidenceError(f"--evidence {path}: no folder {path.parent}; create it first")
    if not path.exists():
        return
    if not path.is_dir():
        raise EvidenceError(f"--evidence {path}: is a file; name a folder")
    settle(path)
    clear_partials(path)
    if Path.cwd().is_relative_to(path.resolve()):
        raise EvidenceError(
            f"--evidence {path}: is the working directory or contains it, and would be replaced; "
            "name a folder inside it"
        )
    foreign = sorted({each.name for each in path.iterdir()} - NAMES)
    if foreign:
        raise EvidenceError(
            f"--evidence {path}: exists and contains {foreign[0]!r}, which is not evidence; it "
            "would be replaced, so name another folder"
        )
