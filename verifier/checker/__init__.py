"""The independent checker: re-proves a certificate with its own arithmetic.

Nothing here imports the engine, the encoders, the solvers or the specification language. What is
trusted beside this package is `leaveout.models`, which reads networks and families, and numpy.
"""

from __future__ import annotations

from leaveout.verifier.checker.check import Checked, check
from leaveout.verifier.checker.claim_words import PointsSubject
from leaveout.verifier.checker.ensembles.claims import ForestSubject
from leaveout.verifier.checker.errors import CertificateError, RejectedError
from leaveout.verifier.checker.expressions.statements import ValueSubject
from leaveout.verifier.checker.question import Subject
from leaveout.verifier.checker.sampled import SampledSubject

__all__ = [
    "CertificateError",
    "Checked",
    "ForestSubject",
    "PointsSubject",
    "RejectedError",
    "SampledSubject",
    "Subject",
    "ValueSubject",
    "check",
]
