"""Claims of a certificate: read, said in words, and handed to the kernel to prove.

It imports neither the engine, the encoders, the solvers nor the specification language. Trusted are
this package, `leaveout.kernel` and `leaveout.models`, which reads networks and families.
"""

from __future__ import annotations

from leaveout.errors import CertificateError, RejectedError
from leaveout.verifier.checker.check import Checked, check
from leaveout.verifier.checker.claim_words import PointsSubject
from leaveout.verifier.checker.expressions.statements import ValueSubject
from leaveout.verifier.checker.forest_claims import ForestSubject
from leaveout.verifier.checker.linear import LinearSubject
from leaveout.verifier.checker.question import Subject
from leaveout.verifier.checker.sampled import SampledSubject

__all__ = [
    "CertificateError",
    "Checked",
    "ForestSubject",
    "LinearSubject",
    "PointsSubject",
    "RejectedError",
    "SampledSubject",
    "Subject",
    "ValueSubject",
    "check",
]
