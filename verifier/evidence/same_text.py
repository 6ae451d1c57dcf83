"""Whether results say of each statement, and its definitions, what the specification says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.specs import Find, Guarantee, Let, expand, load, params, with_params
from leaveout.specs.text.errors import Slip
from leaveout.verifier.evidence.errors import TamperedError
from leaveout.verifier.page.spec_text import set_otherwise
from leaveout.verifier.report import Report

__all__ = ["hold_against_text"]


def hold_against_text(report: Report, spec: Path, allowed: Sequence[Path]) -> None:
    """Hold what results say that they decided against the specification they are of.

    Parameters
    ----------
    report : Report
    spec : Path
        The specification, whose digest is that of the results.
    allowed : sequence of Path
        Folders that files may be included from, beside the specification's own.

    Raises
    ------
    TamperedError
        If a statement, or a definition it is made of, is another; or there is none such.

    Notes
    -----
    Params have the values that the results say they were given.
    """
    try:
        written = expand(load(spec), spec.parent, spec, allowed)
        tree = with_params(written, set_otherwise(report.notes, params(written)))
    except (LeaveoutError, Slip, RecursionError):
        # No message of the parser is shown: it would quote a file that evidence chose.
        raise TamperedError(f"{spec}: cannot be read as a specification") from None
    asked = {each.name: each for each in tree.statements if isinstance(each, Guarantee | Find)}
    lets = {str(each) for each in tree.statements if isinstance(each, Let)}
    for said in report.statements:
        if said.name not in asked or str(asked[said.name]) != said.text:
            raise TamperedError(
                f"{spec}: does not have the statement {said.name!r} as the results have it"
            )
        for each in said.definitions:
            if each not in lets:
                raise TamperedError(
                    f"{spec}: has no {each!r}, of which the results say that {said.name!r} is made"
                )
