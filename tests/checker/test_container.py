"""A certificate from anybody: nothing is read that it does not declare, and little is unpacked."""

from __future__ import annotations

import io
import shutil
import sys
import zipfile

import numpy as np
import pytest

import leaveout
from leaveout.kernel import files as npz
from leaveout.kernel.claims.certificate import read_certificate
from leaveout.kernel.refusal import Unreadable
from leaveout.verifier.certify.check import check

from support import children
from support.files import write_question

MANY = 2**29


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    spec = write_question(folder)
    leaveout.verify(spec, certificate=folder / "c.cert")
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def header(shape, dtype):
    stream = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue()


def put_zeros(path, name, count):
    """Add, or put in place of what it was, an array of ones' size in few bytes."""
    with zipfile.ZipFile(path) as old:
        members = {each: old.read(each) for each in old.namelist()}
    members.pop(f"{name}.npy", None)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for each, content in members.items():
            new.writestr(each, content)
        with new.open(f"{name}.npy", "w") as stream:
            stream.write(header((count,), "|i1"))
            for _ in range(count // 2**22):
                stream.write(bytes(2**22))


def test_an_array_that_is_not_declared_is_not_read(folder, monkeypatch):
    cert = folder / "c.cert"
    put_zeros(cert, "tree9.parent", 2**22)
    put_zeros(cert, "another", 2**22)
    read, real = [], npz._read
    monkeypatch.setattr(npz, "_read", lambda archive, info: read.append(info.filename) or real(
        archive, info))  # fmt: skip
    found = read_certificate(cert)
    assert check(cert)
    assert not {"tree9.parent.npy", "another.npy"} & set(read)
    assert "manifest.npy" in read
    assert {name.partition(".")[0] for name in found.arrays} == {
        each.tree for each in found.manifest.results
    }


def test_what_is_not_declared_may_be_no_array_at_all(folder):
    cert = folder / "c.cert"
    with zipfile.ZipFile(cert, "a") as archive:
        archive.writestr("notes.txt", "not an array")
        archive.writestr("tree7.parent.npy", b"neither")
    assert check(cert)


@pytest.mark.parametrize("name", ["manifest", "tree0.kind"])
def test_few_bytes_do_not_unpack_to_many(folder, name, snapshot):
    cert = folder / "c.cert"
    put_zeros(cert, name, MANY)
    assert cert.stat().st_size < 2**20
    with pytest.raises(Unreadable) as told:
        read_certificate(cert)
    assert str(told.value) == snapshot


def test_no_more_memory_is_taken_than_what_is_read(folder):
    """The process has room for a fifth of what the file would unpack to."""
    cert = folder / "c.cert"
    put_zeros(cert, "tree9.parent", MANY)
    code = (
        "import resource, sys\n"
        "from leaveout.kernel.claims.certificate import read_certificate\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**27,) * 2)\n"
        "print(len(read_certificate(__import__('pathlib').Path(sys.argv[1])).arrays) > 0)\n"
    )
    done = children.run([sys.executable, "-c", code, cert])
    assert done.stdout == "True\n", done.stderr


def test_a_real_certificate_is_far_from_the_limit(folder):
    """What a search wrote unpacks to a few times its size."""
    cert = folder / "c.cert"
    with zipfile.ZipFile(cert) as archive:
        unpacked = sum(each.file_size for each in archive.infolist())
    assert unpacked < npz.TIMES / 4 * cert.stat().st_size
