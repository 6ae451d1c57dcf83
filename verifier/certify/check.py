"""Answers to the kernel's questions about a certificate, and a network that it cannot read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from leaveout.errors import CertificateError, RejectedError
from leaveout.files import refuse_unwritten, settle, write_whole
from leaveout.kernel.claims.certificate import read_certificate
from leaveout.kernel.claims.check import Checked, Checker, Progress
from leaveout.kernel.files import digest_of
from leaveout.kernel.float32 import Program
from leaveout.kernel.onnx_file import Dense, DenseReader, Members, Network, TreeMembers
from leaveout.kernel.recording import (
    FORMAT,
    AnswerPart,
    ArrayPart,
    RecordingPart,
    TopicPart,
    file_name,
)
from leaveout.kernel.records import encode
from leaveout.kernel.refusal import Rejected, Unreadable
from leaveout.kernel.trees import Ensemble
from leaveout.kernel.values import Answers, Arrays, Ask, Topic, nothing
from leaveout.models import Family, load_family, load_network
from leaveout.models import Network as LoadedNetwork
from leaveout.models.archive import holds_arrays
from leaveout.models.lowering import program_of
from leaveout.models.onnx.values import files_of
from leaveout.verifier.certify.bundle import NotedPlaces, refuse_other, write_bundle
from leaveout.verifier.certify.forests import rules_of_boxes
from leaveout.verifier.certify.networks import lines_only
from leaveout.verifier.certify.tree_arrays import TreeArrays
from leaveout.verifier.certify.trees import TreeAnswers, Used, leak_tree


def check(
    path: Path,
    *,
    network: Path | Sequence[Path] | None = None,
    family: Path | Sequence[Path] | None = None,
    files: Path | Sequence[Path] | None = None,
    exact: bool = False,
    record: Path | None = None,
    bundle: Path | None = None,
    with_family: bool = True,
    progress: Progress | None = None,
) -> list[Checked]:
    """Prove every claim of a certificate again.

    Parameters
    ----------
    path : Path
        The certificate.
    network, family, files : Path or sequence of Path, optional
        Where files are that moved; folders among ``files`` may be referred to.
    exact : bool
        Prove leaks of linear models also in whole numbers.
    record : Path, optional
        Where to write the answers to the kernel's questions, for ``leaveout-check``.
    bundle : Path, optional
        Where to write them with the certificate and the files that it names, all in one.
    with_family : bool
        Whether a bundle holds families; without them, whoever checks it passes his own copy.
    progress : callable, optional
        Receives a claim's name, its label, the nodes checked and their number.

    Raises
    ------
    CertificateError
        If the certificate, or a file it names, is missing, damaged or in another format.
    RejectedError
        If a claim is not proved; the message names the first part that fails.
    """
    places = _places(path, network, family, files)
    if record is not None and record.exists() and not holds_arrays(record, ("recording",)):
        raise CertificateError(f"{record}: exists, and is no recording; name another file")
    if bundle is not None:
        refuse_other(bundle)
    with errors_of_the_kernel():
        told = _Answers(path)
        recorder = Recorder(told)
        alone = record is not None or bundle is not None
        answers, reader = (recorder, DenseReader()) if alone else (told, _Reader())
        checker = Checker(read_certificate(path), places, answers, reader, exact, progress)
        found = [*checker.trees(), *checker.others()]
    recorded = io.BytesIO()
    if alone:
        recorder.write(recorded, digest_of(path))
    if record is not None:
        with refuse_unwritten(CertificateError, record):
            write_whole(record, recorded.getvalue())
    if bundle is not None:
        write_bundle(bundle, path, recorded, places.found, with_family)
    return found


def refuse_unreadable(path: Path) -> None:
    """Raise CertificateError at a file that is no certificate of this format."""
    with errors_of_the_kernel():
        read_certificate(path)


def used_parts(
    path: Path,
    *,
    network: Sequence[Path],
    family: Sequence[Path],
    progress: Progress | None = None,
) -> dict[str, Used]:
    """Prove every claim that has a tree; return the parts used by each walk, by tree name.

    Parameters and errors are those of `check`.
    """
    places = _places(path, network, family, None)
    used: dict[str, Used] = {}
    with errors_of_the_kernel():
        answers = _Answers(path, used)
        checker = Checker(read_certificate(path), places, answers, _Reader(), progress=progress)
        for _ in checker.trees():
            pass
    return used


@contextmanager
def errors_of_the_kernel() -> Iterator[None]:
    """Raise what the kernel says as this program's errors."""
    try:
        # Products are too small for threads.
        with threadpool_limits(1, "blas"):
            yield
    except Rejected as error:
        raise RejectedError(str(error)) from None
    except Unreadable as error:
        raise CertificateError(str(error)) from None


def _places(
    path: Path,
    network: Path | Sequence[Path] | None,
    family: Path | Sequence[Path] | None,
    files: Path | Sequence[Path] | None,
) -> NotedPlaces:
    networks, families, others = (
        () if paths is None else (paths,) if isinstance(paths, Path) else tuple(paths)
        for paths in (network, family, files)
    )
    for each in others:
        if not each.exists():
            raise CertificateError(f"{each}: no such file; name another with --files")
    for each in (path, *networks, *families, *others):
        folder = each if each.is_dir() else each.parent
        if folder.is_dir():
            settle(folder)
    return NotedPlaces(path.parent, networks, families, others, files_of)


@dataclass(frozen=True, eq=False)
class _Loaded:
    """A network that the kernel cannot read."""

    whole: LoadedNetwork

    @property
    def program(self) -> Program:
        stacked = {name: value[None] for name, value in self.whole.parameters.items()}
        return program_of(self.whole.graph, stacked)

    @property
    def inputs(self) -> int:
        return self.whole.inputs

    @property
    def labels(self) -> int:
        return self.whole.labels

    @property
    def notes(self) -> tuple[str, ...]:
        return self.whole.graph.notes


@dataclass(frozen=True, eq=False)
class _LoadedFamily:
    network: LoadedNetwork
    whole: Family

    def __len__(self) -> int:
        return len(self.whole)

    def take(self, members: NDArray[np.int64], /) -> Program:
        return program_of(self.network.graph, self.whole.take(members))

    @property
    def removed(self) -> NDArray[np.int64]:
        return self.whole.removed

    @property
    def sample(self) -> Mapping[str, int] | None:
        drawn = self.whole.manifest.sample
        names = ("size", "rows", "seed", "draw", "draws")
        return None if drawn is None else {name: getattr(drawn, name) for name in names}

    @property
    def rows(self) -> int | None:
        facts = self.whole.manifest.data
        return None if facts is None else facts.rows


class _Reader:
    """The kernel's own reader, and that of `leaveout.models` for what it refuses."""

    _dense = DenseReader()

    def network(self, path: Path, /) -> Network:
        """See `leaveout.kernel.claims.networks.Reader`."""
        try:
            return self._dense.network(path)
        except Unreadable:
            return _Loaded(load_network(path))

    def family(self, path: Path, network: Network, /) -> Members:
        """See `leaveout.kernel.claims.networks.Reader`."""
        if isinstance(network, Dense):
            try:
                return self._dense.family(path, network)
            except Unreadable:
                pass
        whole = _load(network)
        return _LoadedFamily(whole, load_family(path, whole))

    def alone(self, path: Path, network: Network, /) -> Members:
        """See `leaveout.kernel.claims.networks.Reader`."""
        if isinstance(network, Dense):
            try:
                return self._dense.alone(path, network)
            except Unreadable:
                pass
        whole, other = _load(network), load_network(path)
        if other.architecture != whole.architecture:
            raise Rejected(f"{path}: its architecture differs from that of {whole.source}")
        stacked = {k: np.asarray(v, np.float32)[None] for k, v in other.parameters.items()}
        return _LoadedFamily(whole, Family(stacked, np.zeros(1, np.int64)))

    def trees(self, path: Path, /) -> Ensemble:
        """See `leaveout.kernel.claims.networks.Reader`."""
        # Readers of trees are loaded once there are trees.
        from leaveout.models.trees.reading import read_trees

        return read_trees(path)

    def tree_members(self, path: Path, whole: Path, /) -> TreeMembers:
        """See `leaveout.kernel.claims.networks.Reader`."""
        from leaveout.models.trees.family import read_tree_family

        return read_tree_family(path, self.trees(whole), digest_of(whole))


def _load(network: Network) -> LoadedNetwork:
    if isinstance(network, Dense):
        return load_network(network.path)
    assert isinstance(network, _Loaded)
    return network.whole


class _Answers:
    """Answers on every topic; what is used of a tree is noted if asked."""

    def __init__(self, path: Path, used: dict[str, Used] | None = None) -> None:
        self._path, self._used = path, used

    def __call__(self, topic: Topic) -> Ask:
        if topic.kind == "bounds":
            return lines_only
        if topic.kind == "leaf boxes":
            return rules_of_boxes
        if topic.kind in ("leak tree", "point tree"):
            return self._tree(topic)
        return _of_function(topic.kind)

    def _tree(self, topic: Topic) -> Ask:
        facts, leaks = topic.facts, topic.kind == "leak tree"
        arrays = {f"{topic.name}.{key}": array for key, array in topic.proof.items()}
        read = TreeArrays(arrays, self._path, bool(facts["short"]))
        part = read.tree(topic.name, leaks=leaks)
        if leaks:
            part = leak_tree(part, facts["label"], facts["labels"])
        own = None
        if self._used is not None:
            own = self._used.setdefault(topic.name, Used.of(len(part), facts["hidden"]))
        return TreeAnswers(part, facts["members"], facts["hidden"], own)


_MODULES: Mapping[str, Sequence[str]] = {
    "audits": ("membership_advantage", "unlearns"),
    "votes": (
        "answered_right",
        "certified_accuracy",
        "collective_accuracy",
        "median_radius",
        "radius",
        "targeted_robustness",
    ),
}


def _of_function(name: str) -> Ask:
    """Return what answers the questions of a function, imported when the first one comes."""
    if name == "same_function":
        return rules_of_boxes
    for module, names in _MODULES.items():
        if name in names:
            return _Late(f"leaveout.verifier.certify.{module}")
    return nothing


@dataclass(frozen=True)
class _Late:
    module: str

    def __call__(
        self, what: str, known: Mapping[str, NDArray[np.generic]]
    ) -> Mapping[str, NDArray[np.generic]]:
        answer = cast(
            "Callable[..., Mapping[str, NDArray[np.generic]]]", import_module(self.module).answer
        )
        return answer(what, known)


_PLAIN = "biuf"  # kinds of numbers that are recorded; the kernel takes no others


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
