"""A certificate's manifest in JSON, all of it untrusted."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leaveout.errors import CertificateError
from leaveout.files import UnusualFileError
from leaveout.models.archive import array_names, read_arrays
from leaveout.verifier.certify.tree_arrays import Numbers, TreeArrays, TreePart
from leaveout.verifier.checker.expressions.parts import ValuesPart
from leaveout.verifier.checker.expressions.parts import names as names_of
from leaveout.verifier.checker.files import BoxPart, FilePart, refuse_repeated
from leaveout.verifier.checker.forest_claims import ForestsPart, forest_texts
from leaveout.verifier.checker.linear import LinearPart


class DrawPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The uniform draw of ``size`` of ``rows``: number ``draw`` of ``draws`` planned ones."""

    size: int
    rows: int
    seed: int
    draw: int
    draws: int


class MembersBoundPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No leak of the question's members with the label has confidence above ``upper``."""

    label: int
    upper: float
    tree: str


class SampledPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim about all rows: at most a share of them have a leak above all the bounds."""

    question: int  # with the bounded members; members left out may exceed the bound
    name: str  # of the statement
    bounds: tuple[MembersBoundPart, ...]  # one per label of the claim
    sample: DrawPart
    share: str  # fraction
    confidence: str  # fraction: joint confidence of all results and all planned draws
    results: int  # number of results that share the error


def sampled_texts(part: SampledPart) -> Iterator[str]:
    """Yield the printed texts of a claim."""
    yield part.name
    yield from (each.tree for each in part.bounds)


Term = tuple[int, int, float]


class QuestionPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, members of a family and a box."""

    network: FilePart
    family: FilePart
    members: int
    box: BoxPart
    without: tuple[int, ...] = ()


class ResultPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim: no leak of the question with the label has confidence above ``upper``."""

    question: int
    name: str
    label: int
    upper: float
    tree: str


class FormPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``features + scores + constant >= 0``, or ``> 0`` if strict."""

    features: tuple[Term, ...]  # point, feature, coefficient; no position repeats
    scores: tuple[Term, ...]  # application, label, coefficient; no position repeats
    constant: float
    strict: bool = False


class CasePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of counter-example, and its layout.

    Its rows are the goals, the conditions, and box sides used as conditions.
    """

    goals: tuple[FormPart, ...]
    conditions: tuple[FormPart, ...]
    inside: tuple[tuple[int, int, int], ...]
    sums: tuple[tuple[int, int], ...]  # pairs of rows whose sum is also bounded
    near: bool  # whether the second of two points is stored as its difference from the first
    origin: tuple[float, ...]  # shift of the tree's regions


class FamilyPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family whose members an application ranges over."""

    file: FilePart
    members: int


class ApplicationPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, or a member of a family of its architecture, applied to a point."""

    network: FilePart
    point: int
    family: FamilyPart | None = None
    member: int | None = None  # index of a member of the family; None for any member


class ClaimPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim over points: no case has a counter-example with least goal above ``upper``."""

    name: str
    upper: float
    decides: bool
    reals: bool  # whether it is about exact rather than float32 arithmetic
    tree: str
    points: tuple[BoxPart, ...]
    applications: tuple[ApplicationPart, ...]
    cases: tuple[CasePart, ...]


class ManifestPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything except arrays.

    Format 1 has only leaks, format 2 no statements about values, format 3 no samples.
    """

    format: int
    leaveout: str
    spec: str
    text: str
    questions: tuple[QuestionPart, ...]
    results: tuple[ResultPart, ...]
    claims: tuple[ClaimPart, ...] = ()
    values: ValuesPart | None = None
    forests: ForestsPart | None = None
    samples: tuple[SampledPart, ...] = ()
    linear: LinearPart | None = None


def printed_texts(manifest: ManifestPart) -> Iterator[str]:
    """Yield the texts that are printed, which must not contain control characters."""
    for result in manifest.results:
        yield from (result.name, result.tree)
    for claim in manifest.claims:
        yield from (claim.name, claim.tree)
    for sampled in manifest.samples:
        yield from sampled_texts(sampled)
    files = [part for each in manifest.questions for part in (each.network, each.family)]
    applied = [each for claim in manifest.claims for each in claim.applications]
    files += [each.network for each in applied]
    files += [each.family.file for each in applied if each.family is not None]
    for part in files:
        yield from (part.path, part.sha256, part.kind)
    if manifest.values is not None:
        yield from names_of(manifest.values)
    if manifest.forests is not None:
        yield from forest_texts(manifest.forests)
    if manifest.linear is not None:
        yield from manifest.linear.texts()


_FORMATS = (1, 2, 3, 4)
_MAPPED_FROM = 2**20

SHORT = 3
"""The first format whose trees omit what can be derived."""

_OTHERS = {
    "removed": "a family",
    "member_upper": "a bounds file of verify --bounds, for leaveout guard",
    "ballots": "ballots",
}
"""Contents of leaveout's other files, by an array that no certificate has."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """A certificate as read."""

    path: Path
    manifest: ManifestPart
    arrays: dict[str, Numbers]

    def tree(self, name: str, *, leaks: bool) -> TreePart:
        """Return the arrays of a tree, see `TreeArrays.tree`."""
        arrays = TreeArrays(self.arrays, self.path, self.manifest.format >= SHORT)
        return arrays.tree(name, leaks=leaks)

    def under(self, prefix: str) -> dict[str, Numbers]:
        """Return the arrays with a name prefix, by the rest of their names."""
        start = f"{prefix}."
        return {
            name.removeprefix(start): array
            for name, array in self.arrays.items()
            if name.startswith(start)
        }


def _least_format(manifest: ManifestPart) -> int:
    """Return the first format that supports everything in a manifest."""
    if manifest.samples or any(each.without for each in manifest.questions):
        return 4
    later = any(each is not None for each in (manifest.values, manifest.forests, manifest.linear))
    return 3 if later else 2 if manifest.claims else 1


def read_certificate(path: Path) -> Certificate:
    """Read a certificate."""
    with _refuse_unreadable(path):
        names = array_names(path)
    for name, what in _OTHERS.items():
        if name in names:
            raise CertificateError(
                f"{path}: is {what}; expected a certificate of verify --certificate"
            )
    with _refuse_unreadable(path):
        raw = read_arrays(path, only=["manifest"], strangers=True).get("manifest")
    if raw is None:
        raise CertificateError(f"{path}: not a certificate: it has no manifest")
    try:
        manifest = msgspec.json.decode(raw.tobytes(), type=ManifestPart)
        refuse_repeated(raw.tobytes())
    except (msgspec.DecodeError, ValueError) as error:
        raise CertificateError(f"{path}: the manifest is damaged: {error}") from None
    except RecursionError:
        raise CertificateError(f"{path}: the manifest is nested too deeply") from None
    if manifest.format not in _FORMATS or manifest.format < _least_format(manifest):
        raise CertificateError(
            f"{path}: has format {manifest.format}; this program checks formats {_FORMATS[0]} "
            f"(leaks only), {_FORMATS[1]} (with claims over points), {_FORMATS[2]} (with "
            f"statements about values) and {_FORMATS[3]} (with samples)"
        )
    stated = manifest.values is not None and manifest.values.statements
    others = [each for each in (manifest.forests, manifest.linear) if each is not None]
    leaks = any(each.results for each in others)
    if not (manifest.results or manifest.claims or manifest.samples or stated or leaks):
        raise CertificateError(f"{path}: claims nothing")
    for text in printed_texts(manifest):
        if not text.isprintable() or "  " in text:
            raise CertificateError(f"{path}: contains an invalid name: {text!r}")
    for part, what in ((manifest.forests, "forests"), (manifest.linear, "linear models")):
        if part is None:
            continue
        known = len(part.questions)
        if not all(0 <= each.question < known for each in part.results):
            raise CertificateError(
                f"{path}: a claim about {what} refers to a question that does not exist"
            )
    asked = [(each.name, each.question) for each in manifest.results]
    asked += [(each.name, each.question) for each in manifest.samples]
    for name, question in asked:
        if not 0 <= question < len(manifest.questions):
            raise CertificateError(f"{path}: {name} refers to a question that does not exist")
    declared = set(_array_prefixes(manifest))
    # The file may have been replaced: arrays are used only with their own manifest.
    with _refuse_unreadable(path):
        wanted = {name for name in names if _is_declared(name, declared)}
        return Certificate(path, manifest, read_arrays(path, _MAPPED_FROM, wanted, strangers=True))


def _array_prefixes(manifest: ManifestPart) -> Iterator[str]:
    """Yield the name prefixes of the arrays that a manifest mentions."""
    yield from (each.tree for each in manifest.results)
    yield from (each.tree for each in manifest.claims)
    yield from (bound.tree for each in manifest.samples for bound in each.bounds)
    if manifest.forests is not None:
        yield from (each.proof for each in manifest.forests.results)
    if manifest.linear is not None:
        yield from (each.proof for each in manifest.linear.results)
        yield from (each.hints for each in manifest.linear.questions)
    if manifest.values is not None:
        yield from manifest.values.proofs.values()


def _is_declared(name: str, declared: Collection[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in declared for count in range(1, len(parts)))


@contextmanager
def _refuse_unreadable(path: Path) -> Iterator[None]:
    """Turn any reading error into one that says what is wrong with the file."""
    try:
        yield
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise CertificateError(f"{path}: is a folder, expected a certificate") from None
    except UnusualFileError as error:
        raise CertificateError(f"{path}: {error}") from None
    except MemoryError:
        raise CertificateError(f"{path}: its arrays do not fit in memory") from None
    except (
        OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
        zlib.error,
    ) as error:  # fmt: skip
        why = f": {error}" if str(error).startswith("it unpacks") else ""
        raise CertificateError(
            f"{path}: not a certificate, or damaged{why}; 'leaveout verify SPEC --certificate "
            "FILE' writes one"
        ) from None
