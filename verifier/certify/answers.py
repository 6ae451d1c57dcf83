"""Who answers the kernel's questions about a function of the language."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.kernel.values import Ask
from leaveout.verifier.certify import audits, forests

ANSWERS: Mapping[str, Ask] = {**audits.ANSWERS, **forests.ANSWERS}
"""By name in the language."""
