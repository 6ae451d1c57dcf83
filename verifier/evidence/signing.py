"""DSSE envelopes (Dead Simple Signing Envelope) around in-toto statements."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from leaveout.errors import cause
from leaveout.files import SETTINGS, read_whole, refuse_unwritten, why_unread
from leaveout.kernel.receipts import PAYLOAD_TYPE as OF_RECEIPTS
from leaveout.kernel.records import parse
from leaveout.verifier.evidence.statement import EvidenceError, TamperedError

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

    name: str  # name in messages
    payload: bytes  # statement as JSON
    keyids: tuple[str, ...]
    _file: _File | None = None

    def verify(self, key: SSlibKey, path: Path) -> None:
        """Verify the signature with a public key."""
        from securesystemslib.dsse import Envelope as Sealed
        from securesystemslib.exceptions import VerificationError

        if self._file is None or not self.keyids:
            raise TamperedError(
                f"{self.name}: not signed; expected a signature by key {key.keyid} ({path})"
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
                f"{self.name}: the signature by key {key.keyid} does not match the contents: "
                f"payload, payloadType or signature was changed ({error})"
            ) from None
        # Only the verified payload is read below.
        assert sealed_one.payload == self.payload


def seal_payload(payload: bytes, signer: CryptoSigner) -> bytes:
    """Return the signed envelope of a statement as JSON."""
    return msgspec.json.format(_seal(payload, PAYLOAD_TYPE, signer), indent=2) + b"\n"


def seal_line(payload: bytes, signer: CryptoSigner) -> bytes:
    """Return the signed envelope of a receipt, in one line."""
    return _seal(payload, OF_RECEIPTS, signer)


def _seal(payload: bytes, kind: str, signer: CryptoSigner) -> bytes:
    from securesystemslib.dsse import Envelope as Sealed

    envelope = Sealed(payload, kind, {})
    envelope.sign(signer)
    return msgspec.json.encode(envelope.to_dict())


def verify_line(content: bytes, name: str, key: SSlibKey, path: Path) -> None:
    """Verify the signature of a receipt with a public key."""
    raw = decode_json(content, name)
    if not isinstance(raw, dict) or "payload" not in raw:
        raise TamperedError(f"{name}: not signed; expected a signature by key {key.keyid} ({path})")
    _open(raw, name, OF_RECEIPTS).verify(key, path)


def decode_json(content: bytes, name: str) -> Any:
    """Return the content of a JSON text."""
    try:
        parse(content)
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TamperedError(f"{name}: not valid JSON: {error}") from None


def open_envelope(content: bytes, name: str) -> Envelope:
    """Read an envelope or a bare statement; its content is untrusted."""
    raw = decode_json(content, name)
    if isinstance(raw, dict) and {"leaveout", "results"} <= set(raw):
        raise EvidenceError(
            f"{name}: is a results file; 'leaveout verify SPEC --certificate FILE' (or --evidence "
            "DIR) writes what can be checked"
        )
    if isinstance(raw, dict) and "_type" in raw:
        return Envelope(name, content, ())
    return _open(raw, name, PAYLOAD_TYPE)


def _open(raw: object, name: str, kind: str) -> Envelope:
    try:
        file = msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        raise TamperedError(f"{name}: not a DSSE envelope: {error}") from None
    if file.payload_type != kind:
        raise TamperedError(f"{name}: payloadType is {file.payload_type!r}, expected {kind!r}")
    try:
        payload = base64.b64decode(file.payload, validate=True)
    except (binascii.Error, ValueError):
        raise TamperedError(f"{name}: payload is not base64") from None
    keyids = tuple(each.keyid for each in file.signatures)
    if len(set(keyids)) < len(keyids):
        raise TamperedError(f"{name}: is signed more than once by one key")
    return Envelope(name, payload, keyids, file)


PASSPHRASE = "LEAVEOUT_KEY_PASSPHRASE"
"""Environment variable with the passphrase of private keys; without it there is none."""
PRIVATE, PUBLIC = ".key", ".pub"
"""Suffixes of a pair of key files."""

_CURE = "install them with pip install 'leaveout[attest]'"
_OWNER_ONLY = 0o600


def make_keys(name: Path) -> str:
    """Make an Ed25519 key pair; return the key's id."""
    _require()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.signer import SSlibKey

    key = Ed25519PrivateKey.generate()
    secret = _passphrase()
    locked = (
        serialization.NoEncryption()
        if secret is None
        else serialization.BestAvailableEncryption(secret)
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, locked)
    public = key.public_key()
    shown = public.public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    kept, given = Path(f"{name}{PRIVATE}"), Path(f"{name}{PUBLIC}")
    for path in (kept, given):
        if path.exists() or path.is_symlink():
            raise EvidenceError(
                f"--new-key {name}: {path} exists; existing keys are never overwritten"
            )
    with refuse_unwritten(EvidenceError, f"--new-key {name}"):
        _write_new(kept, private, _OWNER_ONLY)
        try:
            _write_new(given, shown, 0o644)
        except OSError:
            kept.unlink()
            raise
    return str(SSlibKey.from_crypto(public).keyid)


def read_signer(path: Path) -> CryptoSigner:
    """Read a private key."""
    _require()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    content = _pem(path)
    if b"PUBLIC KEY-----" in content:
        raise EvidenceError(
            f"--key {path}: is a public key; sign with the private key, whose name ends in "
            f"{PRIVATE}"
        )
    secret = _passphrase()
    try:
        return CryptoSigner(load_pem_private_key(content, secret))
    except TypeError:
        said = "is encrypted: set its passphrase" if secret is None else "is not encrypted: unset"
        raise EvidenceError(f"--key {path}: {said} in {PASSPHRASE}") from None
    except Exception as error:
        # The library raises various errors: of a wrong passphrase now one, now another.
        other = f", or is encrypted with a passphrase other than {PASSPHRASE}"
        why = other if secret else f" ({cause(error)})"
        raise EvidenceError(
            f"--key {path}: not a private key in PEM{why}; create one with leaveout attest "
            "--new-key NAME"
        ) from None


def read_public(path: Path) -> SSlibKey:
    """Read a public key."""
    _require()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    content = _pem(path)
    if b"PRIVATE KEY-----" in content:
        raise EvidenceError(
            f"--key {path}: is a private key; verify with the public key, whose name ends in "
            f"{PUBLIC}, and never share the private key"
        )
    try:
        return SSlibKey.from_crypto(load_pem_public_key(content))
    except Exception as error:
        raise EvidenceError(
            f"--key {path}: not a usable public key in PEM ({cause(error)})"
        ) from None


def _require() -> None:
    try:
        import cryptography  # noqa: F401
        import securesystemslib.signer  # noqa: F401
    except ImportError as error:
        missing = error.name or "securesystemslib"
        raise EvidenceError(f"signatures need {missing} and its dependencies; {_CURE}") from None


def _passphrase() -> bytes | None:
    return os.environ[PASSPHRASE].encode() if os.environ.get(PASSPHRASE) else None


def _pem(path: Path) -> bytes:
    try:
        return read_whole(path, SETTINGS)
    except OSError as error:
        raise EvidenceError(f"--key {path}: {why_unread(error)}") from None


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a new file, never readable to more users than intended."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
