"""Errors of a certificate: it is unreadable, or does not prove its claim."""

from leaveout.errors import CertificateError as CertificateError
from leaveout.errors import RejectedError as RejectedError
