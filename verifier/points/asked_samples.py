"""The claims asked of a sample, fixed at its first use and stored with the family.

Whoever has seen results of a sample can choose the next claim so that this very sample supports it.
So the claims of the first look are all that there are: they may be asked again, at what may be
wrong when shared by all of them; any other takes a fresh sample. What counts is the copy among this
user's own files, so that one that is removed or changed is noticed; the one beside the family tells
others that it was looked at.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leaveout.bab import Instance
from leaveout.bab.native.files.digests import box_digest, family_digest, network_digest
from leaveout.errors import SpecError
from leaveout.files import SETTINGS, partial_file, read_whole, sync_folder, why_unread
from leaveout.user_key import state_folder
from leaveout.version import VERSION

_DIGITS = 16
"""Of a sample's digest, in the name of a file."""


class AskedClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One result that rests on a sample."""

    name: str  # of the statement
    share: str  # a fraction
    labels: tuple[int, ...]  # that it is about together
    above: str  # the number of a guarantee, in full; empty where it is to be found
    about: str  # digest of the network and the set of inputs

    @property
    def claim(self) -> tuple[object, ...]:
        """The content of the claim, without its name."""
        return self.share, self.labels, self.above, self.about

    @staticmethod
    def digest(instance: Instance) -> str:
        """Return the digest of an instance without its members."""
        both = network_digest(instance.network) + box_digest(instance.box)
        return hashlib.sha256(both.encode()).hexdigest()


class AskedSample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first use of a sample."""

    leaveout: str  # version
    family: str  # digest of the sample's members
    results: int  # so many share what may be wrong
    claims: tuple[AskedClaim, ...]

    def has(self, claim: AskedClaim) -> bool:
        """Return whether a claim was fixed at the first use."""
        return claim.claim in {each.claim for each in self.claims}


@dataclass(frozen=True)
class Looks:
    """The file beside a family that stores what was asked of it."""

    path: Path
    family: str  # digest of its members
    own: Path  # this user's copy

    @classmethod
    def of(cls, instance: Instance, source: Path) -> Looks:
        """Return the file of a family read from ``source``; links are followed."""
        digest = family_digest(instance.family)
        path = source.resolve().parent / f"asked-{digest[:_DIGITS]}.json"
        return cls(path, digest, state_folder() / "asked" / f"{digest}.json")

    def first(self) -> AskedSample | None:
        """Return the first use; None if there was none."""
        own, beside = _read_first_look(self.own), _read_first_look(self.path)
        if own is None and beside is None:
            return None
        if beside is not None and own != beside:
            cure = (
                f"put back {self.own}, which is what was asked"
                if own is not None
                else f"bring {self.own} along from there"
            )
            raise SpecError(
                f"{self.path}: was not written by this user here, or was changed since, so what "
                f"was asked of the sample beside it is not known: {cure}, or draw a fresh sample"
            )
        found = own or beside
        assert found is not None
        if found.family != self.family or found.results < len(found.claims):
            raise SpecError(f"{self.path}: is not of the sample beside it")
        return found

    def look(self, claims: Sequence[AskedClaim], results: int) -> AskedSample:
        """Record the first use, or return the one already recorded.

        Concurrent first uses are serialised, and a killed process leaves no partial file.
        """
        mine = AskedSample(
            leaveout=VERSION, family=self.family, results=results, claims=tuple(claims)
        )
        content = msgspec.json.format(msgspec.json.encode(mine), indent=2) + b"\n"
        for path in (self.own, self.path):
            try:
                if path is self.own:
                    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not _write_new(path, content):
                    return self.first() or mine
            except OSError as error:
                raise SpecError(
                    f"{path}: cannot be written: {error.strerror or error}; what a sample is asked "
                    "is counted there, so its folder must be writable"
                ) from None
        return mine


def _read_first_look(path: Path) -> AskedSample | None:
    """Return the first use stored in a file; None if there is no file."""
    try:
        return msgspec.json.decode(read_whole(path, SETTINGS), type=AskedSample)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpecError(f"{path}: {why_unread(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpecError(
            f"{path}: does not say what was asked of the sample beside it: {error}; "
            "without it the sample cannot be used"
        ) from None


def _write_new(path: Path, content: bytes) -> bool:
    """Write a whole file unless it exists; return whether it was written."""
    handle, partial = partial_file(path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # A link is made only where there is none.
        os.link(partial, path)
        sync_folder(path.parent)
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    return True
