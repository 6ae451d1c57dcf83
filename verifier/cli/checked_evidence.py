"""Checked evidence on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from leaveout.verifier.cli.output import Part
from leaveout.verifier.cli.result_table import checked_parts
from leaveout.verifier.evidence.certified import Standing
from leaveout.verifier.evidence.checking import CheckedEvidence


def evidence_parts(found: CheckedEvidence) -> Iterator[Part]:
    """Yield the signer, the checked parts, and what was proved again."""
    yield from _head(found)
    yield ""
    yield from map(_standing_line, found.standings)
    if found.checked:
        yield ""
        yield from checked_parts(found.checked)


def _head(found: CheckedEvidence) -> Iterator[str]:
    if found.keyid:
        yield f"signature: by key {found.keyid}, verified"
    elif found.signers:
        yield (
            f"signature: NOT verified; it claims to be by key {', '.join(found.signers)}: pass "
            "the signer's public key with --key to verify it"
        )
    else:
        yield "signature: none; the author is unknown"
    yield f"digests: all {found.digests} match the files"
    if found.unnamed:
        yield (
            f"not attested: {', '.join(found.unnamed)}: the attestation does not name these "
            "files; do not trust them"
        )
    yield (
        "results: they match the attestation; the pages and tables next to them match their "
        "digests, but were not regenerated"
    )
    if found.report.by_row:
        yield (
            "rows: named as in the files; the bounds of single rows rest on the run: they are "
            "not in the certificate"
        )
    if found.params:
        yield f"params: set differently from the specification: {', '.join(found.params)}"
    again, total = sum(each.proved for each in found.standings), len(found.standings)
    counted = f"{again} of {total} results proved again" if again else "no result was proved again"
    yield f"certificate: {'accepted' if found.checked else 'none'}; {counted}"


def _standing_line(standing: Standing) -> str:
    """Return the line of a result: its verdict and what was proved of it."""
    result = standing.result
    told = f"{result.title}: {result.outcome}"
    if standing.why:
        return f"{told}; NOT proved again: {standing.why}"
    if not standing.words:
        return f"{told}; not in the certificate"
    if standing.words == result.verdict:
        return f"{told}; {result.verdict} again"
    if standing.proved:
        return f"{told}; proved again: {standing.words}"
    return f"{told}; the certificate proves only: {standing.words}"
