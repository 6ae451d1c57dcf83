"""Private label-only access: answers that no single training point changes."""

from leaveout.verifier.guard.guard import Guard, Inspection
from leaveout.verifier.guard.memory import Account
from leaveout.verifier.guard.subject import GuardSettings

__all__ = ["Account", "Guard", "GuardSettings", "Inspection"]
