"""Certificates: honest ones are accepted, and no forgery is that claims what is false."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from leaveout.bab import Instance, NativeOptions, search_native
from leaveout.bab.native.files.certificate import CertificateBook, FileFacts
from leaveout.bab.native.files.records import Record
from leaveout.errors import LeaveoutError, RejectedError, SpecError
from leaveout.kernel.claims.check import Checked
from leaveout.verifier.certify.check import check

from attacks.certificate_content import Content
from attacks.forging import FORGERIES
from attacks.inputs import Inputs, box_of
from attacks.kind import Case, Outcome
from attacks.leaks import leaks_of, warm_up
from attacks.listed import planted_question
from attacks.questions import instance_of, random_question, runtimes, smaller, write_files
from attacks.warm import memory_folder

__all__ = ["Certificates"]

_SECONDS = 0.05


class Certificates:
    """A certificate of one label of a small question, as written or forged."""

    name = "certificates"

    def __init__(self) -> None:
        warm_up()

    def make(self, rng: np.random.Generator) -> Case:
        """Draw a question, and what is done to its certificate."""
        case = planted_question(rng) if rng.random() < 0.5 else random_question(rng)
        names = ["honest", *FORGERIES]
        weights = np.array([2.0, *(1.0 for _ in FORGERIES)])
        forgery = str(rng.choice(names, p=weights / weights.sum()))
        planted = bool(case["planted"])
        return {
            **case,
            "label": 0 if planted else int(rng.integers(case["net"]["labels"])),
            "forgery": forgery,
            "below": float(rng.choice([1e-6, 1e-3, 0.3, 10.0])),
            "also": str(rng.choice(["", "", "", "other network", "other family"])),
        }

    def check(self, case: Case) -> Outcome:
        """Write the certificate, change it, and have it checked."""
        with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
            return self._checked(case, Path(name))

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield smaller questions under the same forgery."""
        if case["also"]:
            yield {**case, "also": ""}
        yield from smaller(case)

    def _checked(self, case: Case, folder: Path) -> Outcome:
        write_files(case, folder)
        instance = instance_of(case)
        path = folder / "proof.cert"
        if not _write(instance, case, folder, path):
            return Outcome("nothing to prove", "unknown")
        forgery = case["forgery"]
        if forgery == "honest":
            try:
                checked = check(path)
            except RejectedError as error:
                wrong = f"an honest certificate is rejected: {error}"
                return Outcome("honest", "refused", wrong)
            content = Content.of(path)
            return Outcome("honest", "proved", _false_claim(case, content, checked))
        content = Content.of(path)
        case = _changed_files(case, content, folder)
        least = _least(case, content)
        FORGERIES[forgery](np.random.default_rng(case["seed"]), content, least)
        content.save(path)
        try:
            checked = check(path)
        except LeaveoutError as error:
            several = "\n" in str(error)
            return Outcome(
                forgery, "refused", f"several lines: {str(error)[:80]!r}" if several else None
            )
        return Outcome(forgery, "proved", _false_claim(case, content, checked))


def _write(instance: Instance, case: Case, folder: Path, path: Path) -> bool:
    """Write a certificate of one label; whether there was anything to write."""
    book = CertificateBook("campaign", "campaign.spec", "")
    records: list[Record] = []
    with mock.patch("leaveout.bab.native.leaks.find_leak", lambda *a, **k: None):
        result = search_native(
            instance,
            case["label"],
            NativeOptions(seconds=_SECONDS, certificate=True),
            proofs=records.extend,
        )
    if not records:
        return False
    files = FileFacts(folder / "full.onnx", folder / "family.npz")
    book.add("bound", case["label"], result.upper, records, instance, files)
    if not book:
        return False
    book.write(path)
    return True


def _changed_files(case: Case, content: Content, folder: Path) -> Case:
    """Put other weights into the files, with digests of their own; returns what is asked then."""
    if not case["also"]:
        return case
    rng = np.random.default_rng(case["seed"] + 1)

    def shaken(value: dict[str, Any]) -> dict[str, Any]:
        data = [float(np.float32(v * rng.choice([1.0, 1.0, 0.0, -1.0]))) for v in value["data"]]
        return {**value, "data": data}

    if case["also"] == "other network":
        floats = {name: shaken(value) for name, value in case["net"]["floats"].items()}
        case = {**case, "net": {**case["net"], "floats": floats}}
    else:
        members = [{name: shaken(v) for name, v in own.items()} for own in case["members"]]
        case = {**case, "members": members}
    write_files(case, folder)
    for key, name in (("network", "full.onnx"), ("family", "family.npz")):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        content.manifest["questions"][0][key]["sha256"] = digest
    return case


def _least(case: Case, content: Content) -> float:
    """Return a bound below the worst leak that is known; where none is, below what was proved."""
    best = _worst(case, case["box"], case["label"])
    upper = float(content.manifest["results"][0]["upper"])
    return (best if best > 0 else upper) - case["below"]


def _worst(case: Case, box: dict[str, Any], label: int) -> float:
    network, members = runtimes(case)
    _, leaks = leaks_of(case, Inputs.of(box), network, members, label)
    return float(leaks.max(initial=-math.inf))


def _false_claim(case: Case, content: Content, checked: list[Checked]) -> str | None:
    """Return what is wrong with accepting a certificate, if anything."""
    for claim, result in zip(checked, content.manifest["results"], strict=True):
        stated = content.manifest["questions"][result["question"]]["box"]
        box = {
            "lower": stated["lower"],
            "upper": stated["upper"],
            "tables": [
                {"columns": each["columns"], "rows": each["values"]} for each in stated["choices"]
            ],
        }
        try:
            found = box_of(box)
        except SpecError as error:
            return f"an impossible set of inputs is accepted: {error}"
        rows = sum(len(each["rows"]) for each in box["tables"])
        if sum(len(each.values) for each in found.choices) < rows and _outside(box):
            return f"a listed row outside of the box is accepted: {box['tables']}"
        if not math.isfinite(claim.upper):
            return f"a bound that is no number is accepted: {claim.upper}"
        worst = _worst(case, box, claim.label)
        if worst > claim.upper:
            return f"a false bound is accepted: {claim.upper!r}, a leak has {worst!r}"
    return None


def _outside(box: dict[str, Any]) -> bool:
    """Whether a listed row lies outside of the box, however its bounds are rounded."""
    inputs = Inputs.of(box)
    return any(
        len(each["rows"]) > len(rows)
        for each, (_, rows) in zip(box["tables"], inputs.tables, strict=True)
    )
