"""``leaveout-check``: the kernel alone, under its own name, from recorded answers."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import leaveout
import leaveout.kernel
from leaveout.kernel.__main__ import main
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


@pytest.mark.parametrize("how", [drop, reorder, cut, spoil, retype])
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
