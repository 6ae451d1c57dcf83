"""The HTML page for readers: RESULT.json files as one self-contained file."""

from leaveout.verifier.page.document import document
from leaveout.verifier.page.loading import load
from leaveout.verifier.page.model import Page, Run
from leaveout.verifier.page.target import PageError

__all__ = ["Page", "PageError", "Run", "document", "load"]
