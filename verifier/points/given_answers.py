"""Given rows of a run: evaluated before the search, compared with bounds after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from leaveout.bab import Instance
from leaveout.models import Manifest
from leaveout.models.train.encoding import encoding_of
from leaveout.verifier.points.answer_words import head_words, label_words
from leaveout.verifier.points.answers import Answers, Known, State, answers_of, as_box, states
from leaveout.verifier.points.given import DataError, GivenPoints
from leaveout.verifier.points.names import is_plain, label_name
from leaveout.verifier.points.network_job import Job
from leaveout.verifier.points.outside import why_outside
from leaveout.verifier.records import AnswersRecord, AnswerState, LabelAnswersRecord
from leaveout.verifier.report import Result

_NAMES: dict[int, AnswerState] = {
    State.OWES_NOTHING: "owes nothing",
    State.NOT_ABOVE: "not above",
    State.UNKNOWN: "unknown",
    State.OUTSIDE: "outside",
}


@dataclass(frozen=True, eq=False)
class _Asked:
    """A network and family with bounded leaks, and the encoded rows."""

    instance: Instance
    jobs: tuple[Job, ...]
    x: NDArray[np.float32]
    answers: Answers


class GivenAnswers:
    """The given rows, evaluated by each network whose leaks a run bounds."""

    def __init__(self, jobs: Sequence[Job], given: GivenPoints) -> None:
        self._given = given
        # Of another network leaks say nothing of any record.
        gathered: dict[tuple[int, int], list[Job]] = {}
        for job in jobs:
            if not job.pair:
                key = id(job.instance.network), id(job.instance.family)
                gathered.setdefault(key, []).append(job)
        if not gathered:
            raise DataError(
                f"{given.place}: no statement bounds the confidence of leaks of a family, so there "
                "is nothing to hold rows against; add 'find bound: least b per label such that "
                "forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)' (a "
                "sample of the rows, with 'but', says it of no answer), or leave the rows out"
            )
        self._asked = [_ask(own, given) for own in gathered.values()]

    def records(self, results: Sequence[Result]) -> tuple[AnswersRecord, ...]:
        """Return what the bounds say of the rows, per network and family."""
        return tuple(self._record(asked, results) for asked in self._asked)

    def _in_other_units(self, found: NDArray[np.int64], manifest: Manifest) -> tuple[str, ...]:
        """Return a hint on units where all rows lie outside."""
        encoding = encoding_of(manifest)
        other = encoding is not None and not is_plain(encoding)
        if self._given.table is not None or not other or (found != State.OUTSIDE).any():
            return ()
        return (
            "arrays are taken as the network reads them, columns scaled and words one-hot encoded; "
            "for rows in the units of the table give a CSV or a data frame",
        )

    def _record(self, asked: _Asked, results: Sequence[Result]) -> AnswersRecord:
        statements = tuple(dict.fromkeys(job.statement.statement.name for job in asked.jobs))
        own = [each for each in results if each.name in statements]
        # One object a set of inputs.
        boxes = {each.box: as_box(each.box) for each in own}
        # What rests on samples is no proof.
        known = [
            Known(each.label, each.upper if each.confidence is None else None, boxes[each.box])
            for each in own
        ]
        found = states(asked.answers, asked.x, known)
        network, family = asked.instance.network, asked.instance.family
        facts = family.manifest.data
        left_out = len(np.unique(family.removed))
        rows = None if facts is None else max(facts.rows, left_out)
        several = f"{Path(network.source).name}: " if len(self._asked) > 1 else ""
        return AnswersRecord(
            data=self._given.name,
            network=network.source,
            family=family.source,
            statements=statements,
            members=left_out,
            rows=rows,
            words=several
            + head_words(
                int((found == State.OWES_NOTHING).sum()),
                len(found),
                data=self._given.name,
                members=left_out,
                rows=rows,
            ),
            outside=(
                *why_outside(asked.x, found, known, family.manifest, self._given.row_name),
                *self._in_other_units(found, family.manifest),
            ),
            labels=tuple(
                _of_label(label, asked, found, known) for label in range(asked.instance.labels)
            ),
            answers=tuple(asked.answers.labels.tolist()),
            confidences=tuple(
                float(each) if np.isfinite(each) else None for each in asked.answers.confidences
            ),
            states=tuple(_NAMES[each] for each in found.tolist()),
        )


def _ask(jobs: list[Job], given: GivenPoints) -> _Asked:
    instance = jobs[0].instance
    network = instance.network
    x = given.points(instance.family.manifest, network.inputs, network.source)
    return _Asked(instance, tuple(jobs), x, answers_of(network, x))


def _of_label(
    label: int, asked: _Asked, found: NDArray[np.int64], known: Sequence[Known]
) -> LabelAnswersRecord:
    own = found[asked.answers.labels == label]
    about = [each for each in known if each.label in (None, label)]
    uppers = [each.upper for each in about if each.upper is not None]
    record = LabelAnswersRecord(
        label=label,
        name=label_name(asked.instance.family.manifest.data, label),
        answers=len(own),
        owe_nothing=int((own == State.OWES_NOTHING).sum()),
        not_above=int((own == State.NOT_ABOVE).sum()),
        unknown=int((own == State.UNKNOWN).sum()),
        outside=int((own == State.OUTSIDE).sum()),
        upper=min(uppers, default=None),
        words="",
    )
    words = label_words(record, boxes=len({each.box for each in about}))
    return structs.replace(record, words=words)
