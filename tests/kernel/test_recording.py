"""``leaveout-check``: the kernel alone, under its own name, from recorded answers."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import leaveout
import leaveout.kernel
from leaveout.errors import CertificateError
from leaveout.kernel.__main__ import main
from leaveout.kernel.files import read_archive
from leaveout.kernel.recording import RecordingPart
from leaveout.kernel.records import decode, encode
from leaveout.verifier.certify.check import check

from support import children
from support.certificates import Content
from support.files import write_question

_KERNEL = Path(leaveout.kernel.__file__).parent
_ALONE = (
    "import sys; sys.modules['leaveout'] = None\n"
    "from leaveout_check.__main__ import main\n"
    "status = main(sys.argv[1:])\n"
    "own = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
    "foreign = {n for n in own if n in ('numba', 'scipy', 'onnx', 'msgspec', 'google')}\n"
    "assert not foreign, foreign\n"
    "sys.exit(status)\n"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    leaveout.verify(write_question(folder), certificate=folder / "c.cert")
    check(folder / "c.cert", record=folder / "answers.npz")
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def test_the_kernel_alone_proves_what_the_product_proves(folder, tmp_path):
    shutil.copytree(_KERNEL, tmp_path / "leaveout_check")
    arguments = [folder / "c.cert", folder / "answers.npz"]
    done = children.run([sys.executable, "-c", _ALONE, *arguments], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    proved = check(folder / "c.cert")
    assert done.stdout.count("proved: ") == len(proved) > 1
    for each in proved:
        assert f"label {each.label}: at most {each.upper!r}" in done.stdout
    assert "claims all" in done.stdout


def test_a_false_claim_is_rejected_whatever_was_recorded(folder, capsys):
    content = Content.of(folder / "c.cert")
    worst = max(content.manifest["results"], key=lambda each: each["upper"])
    worst["upper"] *= 0.5
    content.save(folder / "c.cert")
    arguments = [str(folder / "c.cert"), str(folder / "answers.npz")]
    assert main(arguments) == 1
    assert "another certificate" in capsys.readouterr().err
    # Even if the recording says that it is about this one.
    change(folder, lambda part, arrays: part)
    assert main(arguments) == 1
    assert "rejected" in capsys.readouterr().err


def change(folder, how):
    """Change a recording, and put the digest of the certificate there."""
    import hashlib

    path = folder / "answers.npz"
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    part = decode(arrays.pop("recording").tobytes(), RecordingPart)
    digest = hashlib.sha256((folder / "c.cert").read_bytes()).hexdigest()
    part = how(part, arrays)
    part = RecordingPart(part.format, digest, part.topics)
    np.savez(path, recording=np.frombuffer(encode(part), np.uint8), **arrays)


def drop(part, arrays):
    return RecordingPart(part.format, "", part.topics[:-1])


def reorder(part, arrays):
    return RecordingPart(part.format, "", part.topics[::-1])


def cut(part, arrays):
    arrays["f8"] = arrays["f8"][: len(arrays["f8"]) // 2]
    return part


def spoil(part, arrays):
    arrays["f8"] = np.full_like(arrays["f8"], np.nan)
    return part


def retype(part, arrays):
    arrays["f8"] = arrays["f8"].astype(np.float32)
    return part


def reshape(*shape):
    """Return a change that gives all arrays of answers another shape."""

    def change(part, arrays):
        topics = []
        for topic in part.topics:
            answers = []
            for answer in topic.answers:
                own = tuple(replace(each, shape=shape) for each in answer.arrays)
                answers.append(replace(answer, arrays=own))
            topics.append(replace(topic, answers=tuple(answers)))
        return replace(part, topics=tuple(topics))

    return change


SHAPES = [reshape(-1), reshape(2**62, 0), reshape(0, 2**70), reshape(*[1] * 65), reshape(2**40, 0)]


@pytest.mark.parametrize("how", [drop, reorder, cut, spoil, retype, *SHAPES])
def test_another_recording_proves_nothing(folder, capsys, how):
    change(folder, how)
    assert main([str(folder / "c.cert"), str(folder / "answers.npz")]) == 1
    assert capsys.readouterr().out == ""


def test_what_is_missing_or_damaged_is_said_in_one_line(folder, tmp_path, capsys):
    certificate, answers = folder / "c.cert", folder / "answers.npz"
    (tmp_path / "text").write_text("no recording")
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    for arguments in (
        (certificate, tmp_path / "gone"),
        (certificate, tmp_path / "text"),
        (certificate, tmp_path / "empty.npz"),
        (certificate, certificate),
        (certificate, tmp_path),
        (tmp_path / "gone", answers),
        (answers, answers),
        (certificate, answers, "--network", tmp_path / "gone.onnx"),
    ):
        assert main(list(map(str, arguments))) == 2 or arguments[0] == answers
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)


def test_a_recording_is_written_over_nothing_else(folder):
    before = (folder / "c.cert").read_bytes()
    for name in ("c.cert", "family.npz", "full.onnx", "test.spec"):
        with pytest.raises(CertificateError, match="no recording"):
            check(folder / "c.cert", record=folder / name)
    assert (folder / "c.cert").read_bytes() == before
    check(folder / "c.cert", record=folder / "answers.npz")
    assert main([str(folder / "c.cert"), str(folder / "answers.npz")]) == 0


def rename(folder, name):
    content = Content.of(folder / "c.cert")
    for each in content.manifest["results"]:
        each["name"] = name
    content.save(folder / "c.cert")


@pytest.mark.parametrize(
    "name", ["", "bound, label 0: at most 0, for all labels", "x = 1", "b\u3164", "a\n", "one two"]
)
def test_a_name_that_reads_as_a_claim_is_refused(folder, name):
    rename(folder, name)
    with pytest.raises(CertificateError, match="name"):
        check(folder / "c.cert")


@pytest.mark.parametrize("name", ["bound", "bound, other_2", "g, member 3"])
def test_names_of_statements_are_taken(folder, name):
    rename(folder, name)
    assert check(folder / "c.cert")[0].name == name


def test_an_archive_that_two_readers_read_differently_is_refused(folder):
    path = folder / "family.npz"
    with zipfile.ZipFile(path, "a") as archive:
        name = next(each for each in archive.namelist() if "weight" in each)
        archive.writestr(name.removesuffix(".npy"), archive.read(name))
    with path.open("rb") as stream, pytest.raises(ValueError, match="twice"):
        read_archive(stream)


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_links_lead_nowhere(folder, tmp_path, capsys):
    content = Content.of(folder / "c.cert")
    content.manifest["questions"][0]["network"]["path"] = "loop.onnx"
    content.save(folder / "c.cert")
    (folder / "loop.onnx").symlink_to("loop.onnx")
    assert main([str(folder / "c.cert"), str(folder / "answers.npz")]) in (1, 2)
    change(folder, lambda part, arrays: part)
    capsys.readouterr()
    assert main([str(folder / "c.cert"), str(folder / "answers.npz")]) == 2
    assert "cannot be resolved" in capsys.readouterr().err
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "full.onnx").rename(outside / "full.onnx")
    (folder / "loop.onnx").unlink()
    (folder / "loop.onnx").symlink_to(outside / "full.onnx")
    assert main([str(folder / "c.cert"), str(folder / "answers.npz")]) == 2
    assert "outside its own folder" in capsys.readouterr().err


def test_a_reader_that_leaves_does_not_change_the_verdict(folder, tmp_path):
    shutil.copytree(_KERNEL, tmp_path / "leaveout_check")
    code = f"{sys.executable} -m leaveout_check {folder}/c.cert {folder}/answers.npz | true"
    done = children.run(["bash", "-c", f"set -o pipefail; {code}"], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
