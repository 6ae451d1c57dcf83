"""Private label-only access: answers that no single training point changes."""

from leaveout.verifier.guard.account import Account
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.inspection import Inspection
from leaveout.verifier.guard.settings import GuardSettings

__all__ = ["Account", "Guard", "GuardSettings", "Inspection"]
