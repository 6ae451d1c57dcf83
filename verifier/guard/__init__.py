"""Label-only access that is private: answers that owe nothing to any one training point."""

from leaveout.verifier.guard.guard import Guard, Inspection
from leaveout.verifier.guard.memory import Account
from leaveout.verifier.guard.settings import GuardSettings

__all__ = ["Account", "Guard", "GuardSettings", "Inspection"]
