"""Answers to the kernel's questions, recorded and given again; nobody else needs to be asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .files import bytes_of, read_archive
from .records import decode
from .refusal import Rejected, Unreadable
from .regular_files import open_regular
from .values import Arrays, Ask, Topic

FORMAT = 1
_RANK, _LONGEST = 8, 2**40
"""Most dimensions of an array of an answer, and its most numbers along one."""


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


def file_name(kind: str) -> str:
    """Return what the array of all numbers of a type is called."""
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
        name = file_name(part.dtype)
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
    if part.format != FORMAT:
        raise Unreadable(f"{path}: has format {part.format}; this program reads {FORMAT}")
    if part.certificate != certificate:
        raise Rejected(f"{path}: the answers are about another certificate")
    return Replay(part, arrays)
