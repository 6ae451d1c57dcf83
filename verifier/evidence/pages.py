"""The pages of a folder of evidence, for people."""

from __future__ import annotations

from leaveout.verifier.evidence.parts import Given
from leaveout.verifier.page import Page, document, load

__all__ = ["page"]


def page(given: Given) -> bytes:
    """Return the HTML page of the results."""
    return document(Page(load([str(given.result)]))).encode()
