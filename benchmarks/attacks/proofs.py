"""Certificates of claims over points: honest ones are accepted, false ones are not."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import onnx

import leaveout
from leaveout.errors import LeaveoutError, RejectedError
from leaveout.verifier.certify.check import check

from attacks.certificate_content import Content
from attacks.claims import Claims, spec_of
from attacks.kind import Case, Outcome
from attacks.nets import model_of
from attacks.point_forging import POINT_FORGERIES
from attacks.questions import write_files
from attacks.stated import worst_stated
from attacks.warm import memory_folder

__all__ = ["Proofs"]


class Proofs(Claims):
    """A certificate of a claim over points, as written or forged."""

    name = "proofs"

    def make(self, rng: np.random.Generator) -> Case:
        """Draw a claim, and what is done to its certificate."""
        case = super().make(rng)
        names = ["honest", *POINT_FORGERIES]
        weights = np.array([3.0, *(1.0 for _ in POINT_FORGERIES)])
        return {
            **case,
            "forgery": str(rng.choice(names, p=weights / weights.sum())),
            "below": float(rng.choice([1e-6, 1e-3, 0.3, 10.0])),
        }

    def check(self, case: Case) -> Outcome:
        """Have a claim decided, change what proves it, and have that checked."""
        with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
            return self._checked(case, Path(name))

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield smaller claims under the same forgery."""
        yield from super().shrink(case)

    def _checked(self, case: Case, folder: Path) -> Outcome:
        write_files(case, folder)
        onnx.save(model_of(case["other"]), folder / "other.onnx")
        (folder / "claim.spec").write_text(spec_of(case))
        path = folder / "proof.cert"
        # What is falsified is whole; what is honest, as it is written.
        whole = mock.patch("leaveout.verifier.points.proofs.shorten", lambda *given: None)
        with contextlib.nullcontext() if case["forgery"] == "honest" else whole:
            asked = folder / "claim.spec"
            leaveout.verify(asked, time=case["seconds"], workers=1, certificate=path)
        if not path.exists():
            return Outcome("nothing to prove", "unknown")
        content = Content.of(path)
        forgery = case["forgery"]
        if forgery == "honest":
            try:
                check(path)
            except RejectedError as error:
                wrong = f"an honest certificate is rejected: {error}"
                return Outcome("honest", "refused", wrong)
            return Outcome("honest", "proved", _false_claim(case, content, folder))
        before = copy.deepcopy(content.manifest)
        rng = np.random.default_rng(case["seed"])
        worst = worst_stated(content.manifest["claims"][0], folder, rng)
        upper = float(content.manifest["claims"][0]["upper"])
        least = (worst if np.isfinite(worst) else upper) - case["below"]
        POINT_FORGERIES[forgery](rng, content, least)
        content.save(path)
        try:
            check(path)
        except LeaveoutError as error:
            several = "\n" in str(error)
            return Outcome(
                forgery, "refused", f"several lines: {str(error)[:80]!r}" if several else None
            )
        if content.manifest == before:
            return Outcome(forgery, "proved", None)
        return Outcome(forgery, "proved", _false_claim(case, content, folder))


def _false_claim(case: Case, content: Content, folder: Path) -> str | None:
    """Return what is wrong with accepting a certificate, if anything."""
    for claim in content.manifest["claims"]:
        worst = worst_stated(claim, folder, np.random.default_rng(case["seed"]))
        if not np.isfinite(claim["upper"]):
            return f"a bound that is no number is accepted: {claim['upper']}"
        # Of exact arithmetic the samples know a few digits.
        room = 1e-3 * (1.0 + abs(claim["upper"])) if claim["reals"] else 0.0
        if worst > claim["upper"] + room:
            return f"a false bound is accepted: {claim['upper']!r}, a point has {worst!r}"
        if claim["decides"] and worst > -np.inf and not claim["reals"]:
            return f"said to have no counter-example: one has {worst!r}"
    return None
