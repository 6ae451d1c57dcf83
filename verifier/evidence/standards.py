"""What is proved, measured or declared, mapped to the requirements of standards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from leaveout.verifier.evidence.parts import Given
from leaveout.verifier.evidence.topics import topic_of
from leaveout.verifier.points.sentences import group_note
from leaveout.verifier.report import Report, Result

NIST = "NIST SP 800-226"
EDPB = "EDPB Opinion 28/2024"
AISVS = "OWASP AISVS 1.0"

Nature = Literal["proved", "measured", "declared"]
Fact = Literal["files", "training", "inputs", "attestation", "bom", "certificate"]
"""What a run declares or leaves behind, besides its statements."""


@dataclass(frozen=True)
class Row:
    """A requirement of a document."""

    document: str
    place: str  # its name or number in the document
    asks: str  # its demand in our words
    topics: tuple[str, ...] = ()  # topics of statements that support it
    fact: Fact | Literal[""] = ""  # facts that support it, besides statements
    most: Nature | None = "proved"
    elsewhere: str = ""  # what supports it apart from a run


_ATTACK = "apart from this run, `leaveout audit attack` measures it"
_ANSWERS = ("one-record", "guarded-access")

ROWS: tuple[Row, ...] = (
    Row(
        NIST,
        "privacy parameter",
        "state epsilon and what it bounds",
        ("guarded-access", "adaptive-deletion"),
    ),
    Row(
        NIST,
        "unit of privacy",
        "say whose presence is protected",
        _ANSWERS,
        "training",
        "declared",
    ),
    Row(
        NIST,
        "threat model",
        "say what is published and who sees it",
        _ANSWERS,
        "inputs",
        "declared",
    ),
    Row(NIST, "composition", "account for every answer released", ("adaptive-deletion",)),
    Row(
        NIST,
        "implementation",
        "show that the program matches the mathematics, including rounding",
        _ANSWERS,
        "certificate",
    ),
    Row(NIST, "data collection exposure", "say what is collected and who holds it", (), "training"),
    Row(
        EDPB,
        "queries",
        "show how likely answers are to reveal personal data from the training set",
        _ANSWERS,
    ),
    Row(
        EDPB,
        "resistance to attacks",
        "test the model with attacks such as membership inference",
        ("membership-audit",),
        elsewhere=_ATTACK,
    ),
    Row(EDPB, "measures on outputs", "limit what answers reveal", ("guarded-access",)),
    Row(
        EDPB,
        "removal from a model",
        "show what is left of data that must no longer be used",
        ("exact-deletion", "adaptive-deletion", "membership-audit"),
    ),
    Row(EDPB, "documentation", "keep what is needed to check the claim", (), "files"),
    Row(AISVS, "1.1.3, 1.1.4", "notice changes of training data", (), "training"),
    Row(AISVS, "1.3.5", "defend against undetected poisoning of training data", ("poisoning",)),
    Row(AISVS, "3.1.2", "sign model artefacts", (), "attestation"),
    Row(AISVS, "6.1.3", "let the integrity of model artefacts be checked", (), "files"),
    Row(AISVS, "6.2.1", "publish a machine-readable bill of materials", (), "bom"),
    Row(AISVS, "6.2.2", "sign it", (), "attestation"),
    Row(
        AISVS,
        "11.2.4",
        "train on sensitive data with differential privacy",
        ("guarded-access",),
        most=None,
    ),
    Row(
        AISVS,
        "11.2.5",
        "simulate membership inference and compare it with guessing",
        ("membership-audit",),
        elsewhere=_ATTACK,
    ),
)
"""In the order of the table."""

_NOT_THAT = {
    ("privacy parameter", "guarded-access"): (
        "epsilon refers to iDP, for rows with a member, not to differential privacy"
    ),
    ("privacy parameter", "adaptive-deletion"): "epsilon refers to one answer when a seed is "
    "replaced",
    ("unit of privacy", "one-record"): "one training row with a member",
    ("unit of privacy", "guarded-access"): "one training row with a member",
    ("threat model", "one-record"): "labels, for inputs of a stated set",
    ("threat model", "guarded-access"): "labels, for inputs of a stated set",
    ("implementation", "one-record"): "for the bounds, including float32",
    ("implementation", "guarded-access"): "for the bounds; the drawing of noise is not proved",
    ("queries", "one-record"): "that answers do not change without a row, not what they reveal",
    ("queries", "guarded-access"): "for labels only",
    ("1.3.5", "poisoning"): "for the named test rows; poisoning is not detected, answers "
    "survive it",
    ("6.2.1", ""): "licences and origins are not in it",
    ("11.2.4", "guarded-access"): "a different goal: the answers are private, not the training",
    ("11.2.5", "membership-audit"): "compared with retraining, not with guessing",
}
"""By row and topic or fact: what is shown, if it is not exactly what is required."""


@dataclass(frozen=True)
class Support:
    """The support of a run for a requirement."""

    row: Row
    nature: Nature | None  # strongest kind of support; None if the run has none
    words: str  # description


def part(given: Given) -> bytes:
    """Return the standards table of an evidence folder."""
    names = {each.name for each in given.result.parent.iterdir()}
    facts: set[Fact] = {"attestation", "bom"} if given.signed else {"bom"}
    if "certificate.npz" in names:
        facts.add("certificate")
    return standards(given.report, frozenset(facts)).encode()


def supports(report: Report, held: frozenset[Fact] = frozenset()) -> list[Support]:
    """Return a run's support for each requirement."""
    facts = _facts(report) | {each: _HELD[each] for each in held}
    return [_support(row, report, facts) for row in ROWS]


def standards(report: Report, held: frozenset[Fact] = frozenset()) -> str:
    """Return the table as Markdown."""
    lines = [
        "# What this run supports",
        "",
        "*Proved*: holds for all inputs and rows that the statement names. *Measured*: was "
        "observed in trials and holds with the stated confidence. *Declared*: is recorded with "
        "a digest and not checked by this run. This table does not claim compliance; it lists "
        "which figures support which question, in our words.",
        "",
    ]
    found = supports(report, held)
    for document in dict.fromkeys(each.document for each in ROWS):
        lines += [f"## {document}", "", "| place | asks | this run | by |", "|---|---|---|---|"]
        lines += [_line(each) for each in found if each.row.document == document]
        lines.append("")
    return "\n".join(lines)


def _line(support: Support) -> str:
    row = support.row
    shown = "nothing" if support.nature is None else f"*{support.nature}*"
    cells = (row.place, row.asks, shown, support.words or "–")
    return f"| {' | '.join(each.replace('|', '∣') for each in cells)} |"


def _support(row: Row, report: Report, facts: dict[Fact, str]) -> Support:
    own = [(each, topic_of(each, report).name) for each in report.results]
    own = [(each, name) for each, name in own if name in row.topics]
    shown = [(each, name) for each, name in own if each.verdict == "proved"]
    nature: Nature | None = None
    if any(each.confidence is None for each, _ in shown):
        nature = "proved"
    elif shown or any(each.confidence is not None for each, _ in own):
        nature = "measured"
    if nature is not None:
        nature = row.most if row.most != "proved" else nature
    words = list(_results([each for each, _ in own]))
    about = [name for _, name in own]
    if row.fact and row.fact in facts:
        words.append(facts[row.fact])
        nature = nature or "declared"
        about.append("")
    if words:
        limits = (_NOT_THAT.get((row.place, name)) for name in about)
        words += dict.fromkeys(each for each in limits if each is not None)
    words += [row.elsewhere] * bool(row.elsewhere)
    return Support(row, nature, "; ".join(words))


def _results(own: list[Result]) -> Iterator[str]:
    """Yield each verdict, with its confidence and statements."""
    told: dict[str, dict[str, None]] = {}
    for each in own:
        held = "measured" if each.at_confidence and each.verdict == "proved" else each.verdict
        told.setdefault(f"{held}{each.at_confidence}", {})[f"`{each.name}`"] = None
    yield from (f"{verdict}: {', '.join(names)}" for verdict, names in told.items())


_HELD: dict[Fact, str] = {
    "attestation": "`attestation.json`, signed over the digests",
    "bom": "`mlbom.json`",
    "certificate": "`certificate.npz`, which an independent program checks",
}


def _facts(report: Report) -> dict[Fact, str]:
    found: dict[Fact, str] = {}
    if report.files:
        found["files"] = f"digests of {len(report.files)} files"
    if report.training:
        told = (
            f"{each.rows:,} training rows of `{each.path}`, digest {each.sha256[:12]}"
            + (f" ({group_note(each.group)})" if each.group else "")
            for each in report.training
        )
        found["training"] = ", ".join(told)
    boxes = {len(each.box.lower) for each in report.results if each.box.lower}
    if boxes:
        listed = " or ".join(f"{each}" for each in sorted(boxes))
        found["inputs"] = f"sets of inputs with {listed} features, in `result.json`"
    return found
