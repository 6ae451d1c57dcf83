"""``check``: from a certificate to what it proves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.verifier.checker.container import ResultPart, read_certificate
from leaveout.verifier.checker.envelope import whole_errors
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.intervals import Start, start
from leaveout.verifier.checker.layout import Net, SetStore, make_net
from leaveout.verifier.checker.question import Question, read_question
from leaveout.verifier.checker.subject import Subject
from leaveout.verifier.checker.tree import make_tree
from leaveout.verifier.checker.walk import Walk

__all__ = ["Checked", "check"]

Progress = Callable[[str, int, int, int], None]


@dataclass(frozen=True)
class Checked:
    """One claim that was proved again.

    Attributes
    ----------
    name : str
    label : int
    upper : float
        No leak with the label has a higher float32 confidence.
    leaves : int
    seconds : float
    subject : Subject
    """

    name: str
    label: int
    upper: float
    leaves: int
    seconds: float
    subject: Subject


@dataclass(frozen=True, eq=False)
class _Ready:
    question: Question
    net: Net
    begin: Start
    whole: tuple[float, float]


def check(
    path: Path,
    *,
    network: Path | None = None,
    family: Path | None = None,
    progress: Progress | None = None,
) -> list[Checked]:
    """Prove every claim of a certificate again.

    Parameters
    ----------
    path : Path
    network, family : Path, optional
        Where the files are, if not where the certificate says; they must be the same files.
    progress : callable, optional
        Called with a claim's name and label, the nodes checked, and how many there are.

    Returns
    -------
    list of Checked
        In the order of the certificate.

    Raises
    ------
    RejectedError
        If a claim is not proved: the first node that fails is named.
    LeaveoutError
        If a file is missing or cannot be read.
    """
    certificate = read_certificate(path)
    ready: dict[int, _Ready] = {}
    found = []
    for result in certificate.manifest.results:
        begun = time.perf_counter()
        try:
            if not math.isfinite(result.upper):
                raise RejectedError("it claims no finite bound")
            part = certificate.tree(result.tree)
            if result.question not in ready:
                question = read_question(
                    certificate.manifest.questions[result.question], path.parent, network, family
                )
                with np.errstate(over="ignore", invalid="ignore"):
                    ready[result.question] = _prepare(question)
            each = ready[result.question]
            tree = make_tree(part, result, each.net, len(each.question.members))
            # Sets are numbered anew in every tree.
            store = SetStore(each.question, each.net)
            walk = Walk(each.question, each.net, store, each.begin, tree, result.upper, each.whole)
            total = len(part)

            def report(done: int, result: ResultPart = result, total: int = total) -> None:
                if progress is not None:
                    progress(result.name, result.label, done, total)

            # Numbers that leave float64's range are looked for where they would matter.
            with np.errstate(over="ignore", invalid="ignore"):
                walk.run(report)
        except RejectedError as error:
            raise RejectedError(
                f"{path}: rejected: {result.name}, label {result.label}: {error}"
            ) from None
        found.append(
            Checked(
                result.name,
                result.label,
                result.upper,
                tree.leaves,
                time.perf_counter() - begun,
                each.question.subject,
            )
        )
    return found


def _prepare(question: Question) -> _Ready:
    net = make_net(question)
    everyone = SetStore(question, net).sets([0], [np.arange(len(question.members), dtype=np.int64)])
    begin = start(net, everyone)
    whole = whole_errors(question, net, everyone, begin)
    if not all(math.isfinite(v) for v in whole):
        raise RejectedError("scores may overflow float32 over the box")
    return _Ready(question, net, begin, whole)
