"""Label-only access that is private: answers that owe nothing to any one training point."""

from leaveout.verifier.guard.account import Account
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.inspection import Inspection
from leaveout.verifier.guard.settings import GuardSettings

__all__ = ["Account", "Guard", "GuardSettings", "Inspection"]
