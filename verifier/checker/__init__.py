"""The independent checker: re-proves a certificate with its own arithmetic.

It imports neither the engine, the encoders, the solvers nor the specification language. Besides
this package, only numpy and `leaveout.models`, which reads networks and families, are trusted.
"""

from __future__ import annotations

from leaveout.verifier.checker.check import Checked, check
from leaveout.verifier.checker.claim_words import PointsSubject
from leaveout.verifier.checker.errors import CertificateError, RejectedError
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
