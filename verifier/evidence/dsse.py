"""DSSE envelopes (Dead Simple Signing Envelope) around in-toto statements."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from leaveout.verifier.checker.json_names import refuse_repeated
from leaveout.verifier.evidence.errors import TamperedError

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey


PAYLOAD_TYPE = "application/vnd.in-toto+json"


class _Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: tuple[_Signature, ...]


@dataclass(frozen=True)
class Envelope:
    """A statement and its signatures."""

    name: str  # what messages call it
    payload: bytes  # the statement, in JSON
    keyids: tuple[str, ...]
    _file: _File | None = None

    def verify(self, key: SSlibKey, path: Path) -> None:
        """Verify the signature with a public key.

        Parameters
        ----------
        key : SSlibKey
        path : Path
            Where it was read.

        Raises
        ------
        TamperedError
            If there is no signature by this key, or it is of something else.
        """
        from securesystemslib.dsse import Envelope as Sealed
        from securesystemslib.exceptions import VerificationError

        if self._file is None or not self.keyids:
            raise TamperedError(
                f"{self.name}: is not signed, expected a signature by key {key.keyid} ({path})"
            )
        if key.keyid not in self.keyids:
            raise TamperedError(
                f"{self.name}: is signed by key {', '.join(self.keyids)}, not by {key.keyid} "
                f"({path})"
            )
        try:
            sealed_one = Sealed.from_dict(msgspec.to_builtins(self._file))
            sealed_one.verify([key], threshold=1)
        except (VerificationError, ValueError, KeyError) as error:
            raise TamperedError(
                f"{self.name}: the signature by key {key.keyid} is not of what stands in it: "
                f"payload, payloadType or signature were changed ({error})"
            ) from None
        # What is read below is what was verified.
        assert sealed_one.payload == self.payload


def seal_payload(payload: bytes, signer: CryptoSigner) -> bytes:
    """Return the signed envelope of a statement as JSON."""
    from securesystemslib.dsse import Envelope as Sealed

    envelope = Sealed(payload, PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return msgspec.json.format(msgspec.json.encode(envelope.to_dict()), indent=2) + b"\n"


def decode_json(content: bytes, name: str) -> Any:
    """Return the content of a JSON text."""
    try:
        refuse_repeated(content)
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TamperedError(f"{name} is no JSON: {error}") from None


def open_envelope(content: bytes, name: str) -> Envelope:
    """Read an envelope or a bare statement; its content is untrusted."""
    raw = decode_json(content, f"{name}:")
    if isinstance(raw, dict) and "_type" in raw:
        return Envelope(name, content, ())
    try:
        file = msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        raise TamperedError(f"{name}: is no DSSE envelope: {error}") from None
    if file.payload_type != PAYLOAD_TYPE:
        raise TamperedError(
            f"{name}: payloadType is {file.payload_type!r}, expected {PAYLOAD_TYPE!r}"
        )
    try:
        payload = base64.b64decode(file.payload, validate=True)
    except (binascii.Error, ValueError):
        raise TamperedError(f"{name}: payload is not base64") from None
    keyids = tuple(each.keyid for each in file.signatures)
    if len(set(keyids)) < len(keyids):
        raise TamperedError(f"{name}: is signed more than once by one key")
    return Envelope(name, payload, keyids, file)
