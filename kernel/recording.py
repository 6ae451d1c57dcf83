"""Answers to the kernel's questions, recorded and given again; nobody else needs to be asked."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .files import bytes_of, read_archive
from .records import decode, encode
from .refusal import Rejected, Unreadable
from .regular_files import open_regular
from .values import Answers, Arrays, Ask, Topic

_FORMAT = 1
_RANK, _LONGEST = 8, 2**40
"""Most dimensions of an array of an answer, and its most numbers along one."""

_PLAIN = "biuf"
"""Kinds of numbers that are recorded; the kernel takes no others."""


@dataclass(frozen=True)
class ArrayPart:
    """An array of an answer: the next numbers of its kind, in a shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class AnswerPart:
    """What was asked, and the arrays that came back."""

    what: str
    arrays: tuple[ArrayPart, ...]


@dataclass(frozen=True)
class TopicPart:
    """The answers on one topic, in order."""

    kind: str
    name: str
    answers: tuple[AnswerPart, ...]


@dataclass(frozen=True)
class RecordingPart:
    """A recording; the numbers of all answers stand in one array for each type."""

    format: int
    certificate: str  # SHA-256
    topics: tuple[TopicPart, ...]


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
        part = RecordingPart(_FORMAT, certificate, topics)
        arrays = {kind: np.concatenate(each) for kind, each in sorted(self._numbers.items())}
        text = np.frombuffer(encode(part), np.uint8)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in {"recording": text, **arrays}.items():
                with archive.open(zipfile.ZipInfo(f"{_file_name(name)}.npy"), "w") as out:
                    npy.write_array(out, array, allow_pickle=False)


def _file_name(kind: str) -> str:
    return kind.removeprefix("<").removeprefix("|")


class Replay:
    """Gives recorded answers again, in their order."""

    def __init__(self, part: RecordingPart, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._part, self._arrays = part, arrays
        self._next, self._used = 0, dict.fromkeys(arrays, 0)

    def __call__(self, topic: Topic) -> Ask:
        """Return what answers on a topic."""
        topics = self._part.topics
        if self._next >= len(topics):
            raise Rejected("the recording ends before the certificate does")
        part = topics[self._next]
        self._next += 1
        if (part.kind, part.name) != (topic.kind, topic.name):
            raise Rejected("the recording is about other claims, or in another order")
        answers = iter(part.answers)

        def answer(what: str, known: Arrays) -> Arrays:
            given = next(answers, None)
            if given is None or given.what != what:
                raise Rejected(
                    f"the recording has no answer to {what!r} here; another numpy may round "
                    "otherwise: record the answers with it"
                )
            return {each.name: self._take(each) for each in given.arrays}

        return answer

    def _take(self, part: ArrayPart) -> NDArray[Any]:
        name = _file_name(part.dtype)
        array, shape = self._arrays.get(name), part.shape
        fine = array is not None and array.ndim == 1 and array.dtype.str == part.dtype
        fine = fine and len(shape) <= _RANK and all(0 <= each <= _LONGEST for each in shape)
        begin, size = self._used.get(name, 0), math.prod(shape) if fine else 0
        if array is None or not fine or begin + size > len(array):
            raise Rejected("the recording lacks the numbers of an answer")
        self._used[name] = begin + size
        return array[begin : begin + size].reshape(part.shape)


def read_recording(path: Path, certificate: str) -> Replay:
    """Read the answers about the certificate with a SHA-256."""
    try:
        with open_regular(path) as stream:
            arrays = read_archive(stream, strangers=True)
        part = decode(bytes_of(arrays.pop("recording", None)), RecordingPart)
    except FileNotFoundError:
        raise Unreadable(f"{path}: no such file") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        raise Unreadable(f"{path}: no recording of answers, or damaged: {error}") from None
    if part.format != _FORMAT:
        raise Unreadable(f"{path}: has format {part.format}; this program reads {_FORMAT}")
    if part.certificate != certificate:
        raise Rejected(f"{path}: the answers are about another certificate")
    return Replay(part, arrays)
