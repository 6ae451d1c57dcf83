"""Recordings of the answers to the kernel's questions, for `leaveout.kernel.recording`."""

from __future__ import annotations

import zipfile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.kernel.recording import (
    FORMAT,
    AnswerPart,
    ArrayPart,
    RecordingPart,
    TopicPart,
    file_name,
)
from leaveout.kernel.records import encode
from leaveout.kernel.values import Answers, Arrays, Ask, Topic

_PLAIN = "biuf"
"""Kinds of numbers that are recorded; the kernel takes no others."""


class Recorder:
    """Passes questions on, and keeps the answers."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._topics: list[tuple[Topic, list[AnswerPart]]] = []
        self._numbers: dict[str, list[NDArray[Any]]] = {}

    def __call__(self, topic: Topic) -> Ask:
        """Return what answers on a topic."""
        ask, kept = self._answers(topic), list[AnswerPart]()
        self._topics.append((topic, kept))

        def record(what: str, known: Arrays) -> Arrays:
            answer = ask(what, known)
            fine = {
                name: array
                for name, array in answer.items()
                if isinstance(array, np.ndarray) and array.dtype.kind in _PLAIN
            }
            kept.append(AnswerPart(what, tuple(self._keep(*each) for each in fine.items())))
            return answer

        return record

    def _keep(self, name: str, array: NDArray[Any]) -> ArrayPart:
        kind = array.dtype.newbyteorder("<").str
        self._numbers.setdefault(kind, []).append(np.array(array, kind).ravel())
        return ArrayPart(name, kind, array.shape)

    def write(self, stream: IO[bytes], certificate: str) -> None:
        """Write the recording of the answers about the certificate with a SHA-256."""
        topics = tuple(
            TopicPart(topic.kind, topic.name, tuple(kept)) for topic, kept in self._topics
        )
        part = RecordingPart(FORMAT, certificate, topics)
        arrays = {kind: np.concatenate(each) for kind, each in sorted(self._numbers.items())}
        text = np.frombuffer(encode(part), np.uint8)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in {"recording": text, **arrays}.items():
                with archive.open(zipfile.ZipInfo(f"{file_name(name)}.npy"), "w") as out:
                    npy.write_array(out, array, allow_pickle=False)
