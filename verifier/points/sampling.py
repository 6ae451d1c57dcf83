"""Bounds on all rows from a sample, by exact hypergeometric tails.

Every row has a value, the confidence of the worst leak that its absence causes. Of ``rows`` such
values ``size`` were drawn, every set of them as likely as any other. If more than a share of all
values lie above a number, at least ``floor(share * rows) + 1`` do, and how many of these are in the
sample is hypergeometric. So an order statistic of the sample is a tolerance limit of all values, as
of Wilks, *Determination of sample sizes for setting tolerance limits* (1941), here of finitely many
values, with ties. ``docs/sampling.md`` has the proof.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np

from leaveout.bab import Instance
from leaveout.bab.native.files.manifest_parts import box_digest, family_digest, network_digest
from leaveout.errors import SpecError
from leaveout.files import SETTINGS, partial_file, read_whole, sync_folder, why_unread
from leaveout.kernel.tails import hypergeometric
from leaveout.models import Family
from leaveout.models.train.draws import draw_rows
from leaveout.user_key import state_folder
from leaveout.version import VERSION


@dataclass(frozen=True)
class Sampling:
    """A sample and the question about all rows."""

    rows: int  # how many there are, and were drawn
    size: int  # how many there are, and were drawn
    share: Fraction  # of all rows, so many may be exceptions
    error: Fraction  # what is said may be wrong with at most this probability
    draw: int = 1  # which one it is of those that were planned; the error is that of this one
    draws: int = 1  # which one it is of those that were planned; the error is that of this one

    @property
    def exceptions(self) -> int:
        """The number of rows that may be exceptions."""
        return math.floor(self.share * self.rows)

    def per_result(self, results: int) -> Sampling:
        """Return the sampling of one of some results that share the error."""
        return replace(self, error=self.error / results)


def tolerated_count(sampling: Sampling) -> int | None:
    """Return how many of the sample may exceed a bound on all but the share.

    With k this number, the (k + 1)-th largest of the sample is exceeded by more than the share of
    all rows with probability at most ``error``.
    """
    chances, whole = hypergeometric(sampling.rows, sampling.size, sampling.exceptions + 1)
    tail, most = 0, None
    for count, chance in enumerate(chances):
        tail += chance
        if tail > sampling.error * whole:
            break
        most = count
    return None if most is None else min(most, sampling.size - 1)


def worst_case(sampling: Sampling) -> int | None:
    """Return how many of a sample above a number show more than the share is.

    The fewest drawn with probability at most ``error`` if no more than the share lie above it.
    """
    chances, whole = hypergeometric(sampling.rows, sampling.size, sampling.exceptions)
    # More than there are exceptions cannot be drawn at all.
    tail, fewest = 0, len(chances)
    for chance in reversed(chances):
        tail += chance
        if tail > sampling.error * whole:
            break
        fewest -= 1
    return fewest if fewest <= sampling.size else None


def smallest_sample(sampling: Sampling) -> int:
    """Return the smallest useful sample size, at most all rows."""
    marked = sampling.exceptions + 1
    low, high = 1, sampling.rows
    while low < high:
        middle = (low + high) // 2
        chances, whole = hypergeometric(sampling.rows, middle, marked)
        enough = chances[0] <= sampling.error * whole
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def sampling_of(family: Family, share: float, error: Fraction, place: str) -> Sampling:
    """Return the sampling of a family."""
    sample = family.manifest.sample
    if sample is None:
        raise SpecError(
            f"{place}: its members do not lack randomly drawn rows, so they say nothing about "
            "other rows; train a family that does: leaveout train ... --sample 3000"
        )
    if not 1 <= sample.draw <= sample.draws:
        raise SpecError(
            f"{place}: its manifest states draw {sample.draw} of {sample.draws} planned; retrain it"
        )
    expected = draw_rows(sample.seed, sample.rows, sample.size, sample.draw)
    facts = family.manifest.data
    counted = facts is None or facts.rows == sample.rows
    if not counted or not np.array_equal(expected, family.removed):
        raise SpecError(
            f"{place}: its members are not the sample that its manifest states, {sample.size:,} "
            f"of {sample.rows:,} rows with seed {sample.seed}; retrain it"
        )
    return Sampling(
        sample.rows, sample.size, Fraction(repr(share)), error / sample.draws, sample.draw,
        sample.draws,
    )  # fmt: skip


_DIGITS = 16  # of a sample's digest, in the name of a file


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
                f"restore {self.own}, which records the claims"
                if own is not None
                else f"copy {self.own} from there as well"
            )
            raise SpecError(
                f"{self.path}: was not written by this user on this machine, or was changed, so "
                f"the claims made on its sample are unknown: {cure}, or draw a fresh sample"
            )
        found = own or beside
        assert found is not None
        if found.family != self.family or found.results < len(found.claims):
            raise SpecError(f"{self.path}: does not belong to the sample next to it")
        return found

    def look(self, claims: Sequence[AskedClaim], results: int) -> AskedSample:
        """Record the first use, or return the one recorded; concurrent ones are serialised."""
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
                    f"{path}: cannot write: {error.strerror or error}; claims on a sample are "
                    "counted there, so its folder must be writable"
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
            f"{path}: does not record the claims made on its sample: {error}; without them the "
            "sample cannot be used"
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
