"""A bundle is proved again by itself, and nothing else passes for it."""

from __future__ import annotations

import hashlib
import shutil
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import leaveout
import leaveout.kernel
from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.__main__ import main
from leaveout.kernel.bundle import ANSWERS, CERTIFICATE, MODE
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli import run

from support import children, networks
from support.certificates import Content
from support.depth import rounds
from support.files import write_question
from support.guards import make_folder

_ALONE = "import sys; sys.modules['leaveout'] = None\nfrom leaveout_check.__main__ import main\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    leaveout.verify(write_question(folder), certificate=folder / "c.cert")
    check(folder / "c.cert", bundle=folder / "whole.zip")
    other = folder / "other"
    other.mkdir()
    leaveout.verify(write_question(other, seed=9), certificate=other / "c.cert")
    check(other / "c.cert", bundle=other / "whole.zip")
    return folder


def content(path):
    with zipfile.ZipFile(path) as archive:
        return {each: archive.read(each) for each in archive.namelist()}


def written(path, entries, mode=MODE, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, held in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode, compression
            archive.writestr(info, held)
    return path


def status(path, capsys, *more):
    found = main([str(path), *map(str, more)])
    told = capsys.readouterr()
    # Nothing is said of a bundle that is refused but why, and where.
    assert (found == 0) == (told.err == "") == (told.out != "")
    assert "leaveout-check-" not in told.out + told.err
    return found, told.out + told.err


def test_a_stranger_proves_a_bundle_with_the_kernel_and_nothing_else(folder, tmp_path):
    shutil.copytree(Path(leaveout.kernel.__file__).parent, tmp_path / "leaveout_check")
    shutil.copy(folder / "whole.zip", tmp_path / "claim.zip")
    program = f"{_ALONE}sys.exit(main(['claim.zip']))"
    done = children.run([sys.executable, "-c", program], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for each in check(folder / "c.cert"):
        assert f"label {each.label}: at most {each.upper!r}" in done.stdout
    digest = hashlib.sha256((folder / "full.onnx").read_bytes()).hexdigest()
    assert f"full.onnx (SHA-256 {digest}" in done.stdout


def test_equal_contents_are_equal_bytes(folder, tmp_path):
    check(folder / "c.cert", bundle=tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (folder / "whole.zip").read_bytes()
    held = content(folder / "whole.zip")
    own = written(tmp_path / "own.zip", held.items())
    assert own.read_bytes() == (folder / "whole.zip").read_bytes()


def forged(rng, held, other):
    """Return the entries of a forgery that keeps to the form of a bundle, and what it does."""
    entries, names = dict(held), sorted(held)
    name = names[rng.integers(len(names))]
    digest = hashlib.sha256(rng.bytes(4)).hexdigest()
    match rng.integers(7):
        case 0:
            del entries[name]
        case 1:
            entries[f"{digest}/more.bin"] = rng.bytes(9)
        case 2:
            place = f"{name.partition('/')[0]}/more.onnx" if "/" in name else f"{digest}/x"
            entries[place] = entries[name]
        case 3:
            entries[name] = other[sorted(other)[rng.integers(len(other))]]
        case 4:
            spoilt = bytearray(entries[name])
            spoilt[rng.integers(len(spoilt))] ^= 1 << int(rng.integers(8))
            entries[name] = bytes(spoilt)
        case 5:
            entries[f"{digest}/{name.rpartition('/')[2]}"] = entries.pop(name)
        case _:
            # Everything of one kind from another claim, under its own name.
            model = [each for each in other if each.endswith(".onnx")]
            entries = {k: v for k, v in held.items() if not k.endswith(".onnx")}
            entries |= {each: other[each] for each in model}
    return sorted(entries.items())


@pytest.mark.parametrize("seed", range(rounds(60)))
def test_no_forged_bundle_is_proved(folder, tmp_path, capsys, seed):
    rng = np.random.default_rng(seed)
    held, other = content(folder / "whole.zip"), content(folder / "other" / "whole.zip")
    entries = forged(rng, held, other)
    assert dict(entries) != held
    found, said = status(written(tmp_path / "f.zip", entries), capsys)
    assert found in (1, 2), said


def test_a_false_claim_is_refused_in_a_bundle_too(folder, tmp_path, capsys):
    held = content(folder / "whole.zip")
    (tmp_path / "c.cert").write_bytes(held[CERTIFICATE])
    claim = Content.of(tmp_path / "c.cert")
    worst = max(claim.manifest["results"], key=lambda each: each["upper"])
    worst["upper"] *= 0.5
    claim.save(tmp_path / "c.cert")
    held[CERTIFICATE] = (tmp_path / "c.cert").read_bytes()
    found, said = status(written(tmp_path / "f.zip", sorted(held.items())), capsys)
    assert found == 1
    assert "the answers are about another certificate" in said


ZEROS = "0" * 64
NAMES = [
    "../full.onnx", "/full.onnx", "a/../../full.onnx", "..", "C:\\full.onnx", "full.onnx",
    f"{ZEROS}/../full.onnx", f"{ZEROS}/..", f"{ZEROS}/a/b", f"{ZEROS}\\b", f"{ZEROS}/",
    f"{'A' * 64}/b", f"{ZEROS}/a\nb", f"{ZEROS}/a\n", f"{ZEROS}/.b", "",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_refused(folder, tmp_path, capsys, name):
    entries = sorted([*content(folder / "whole.zip").items(), (name, b"x")])
    path = written(tmp_path / "f.zip", entries)
    found, said = status(path, capsys)
    assert found == 2, said
    assert sorted(tmp_path.iterdir()) == [path]


def test_links_compressed_entries_and_hidden_bytes_are_refused(folder, tmp_path, capsys):
    whole, entries = (folder / "whole.zip").read_bytes(), [*content(folder / "whole.zip").items()]
    forms = [
        written(tmp_path / "link.zip", entries, mode=0o120777 << 16),
        written(tmp_path / "packed.zip", entries, compression=zipfile.ZIP_DEFLATED),
        written(tmp_path / "order.zip", entries[::-1]),
    ]
    twice = tmp_path / "twice.zip"
    with pytest.warns(UserWarning, match="Duplicate"):
        written(twice, sorted([*entries, entries[0]]))
    for name, held in (("before", b"x" + whole), ("after", whole + b"x"), ("cut", whole[:-30])):
        (tmp_path / name).write_bytes(held)
        forms.append(tmp_path / name)
    note = bytearray(whole + b"note")
    note[len(whole) - 2 : len(whole)] = struct.pack("<H", 4)
    (tmp_path / "note").write_bytes(note)
    (tmp_path / "pipe").symlink_to(folder / "missing")
    none = [folder / "c.cert", folder / "full.onnx", folder, tmp_path / "none", tmp_path / "pipe"]
    for each in (*forms, twice, tmp_path / "note", *none):
        found, said = status(each, capsys)
        assert found == 2, (each, said)


def test_every_header_says_what_the_list_at_the_end_says(folder, tmp_path, capsys):
    whole = (folder / "whole.zip").read_bytes()
    with zipfile.ZipFile(folder / "whole.zip") as archive:
        infos = archive.infolist()
    # Neither versions nor times say anything of an entry.
    told = [at for at in range(30) if at not in {4, 5, 10, 11, 12, 13}]
    for info in infos:
        for at in told:
            data = bytearray(whole)
            data[info.header_offset + at] ^= 1
            (tmp_path / "forged.zip").write_bytes(data)
            assert status(tmp_path / "forged.zip", capsys)[0] == 2


def test_another_archive_in_front_is_refused_though_sizes_are_made_to_fit(folder, tmp_path, capsys):
    hidden = (folder / "other" / "whole.zip").read_bytes()
    with zipfile.ZipFile(folder / "whole.zip") as archive:
        last = archive.infolist()[-1].file_size
    data = bytearray(hidden + (folder / "whole.zip").read_bytes())
    listed = data.rfind(b"PK\x01\x02")
    struct.pack_into("<I", data, listed + 24, last + len(hidden))
    (tmp_path / "forged.zip").write_bytes(data)
    assert status(tmp_path / "forged.zip", capsys)[0] == 2


def test_a_file_of_a_bundle_must_be_what_it_says_whatever_is_passed(folder, tmp_path, capsys):
    entries = content(folder / "whole.zip")
    name = next(each for each in entries if each.endswith("family.npz"))
    own = tmp_path / "family.npz"
    own.write_bytes(entries[name])
    forged = {**entries, name: b"something else"}
    written(tmp_path / "forged.zip", sorted(forged.items()))
    assert status(tmp_path / "forged.zip", capsys, "--family", str(own))[0] == 1


def test_who_lacks_the_family_asks_for_it(folder, tmp_path, capsys):
    path = tmp_path / "lean.zip"
    run(["check", str(folder / "c.cert"), "--bundle", str(path), "--without-family"])
    held = [each.rpartition("/")[2] for each in content(path)]
    assert held == ["full.onnx", ANSWERS, CERTIFICATE]
    told = capsys.readouterr().out.partition("whoever gets it")[2].splitlines()[1:]
    assert [each.partition(",")[0].rpartition("/")[2] for each in told] == held
    found, said = status(path, capsys)
    digest = hashlib.sha256((folder / "family.npz").read_bytes()).hexdigest()
    assert found == 2
    assert f"lean.zip: no family with SHA-256 {digest}, called 'family.npz'" in said
    assert status(path, capsys, "--family", folder / "family.npz")[0] == 0
    found, said = status(path, capsys, "--family", folder / "other" / "family.npz")
    assert found == 1
    assert "not the family that the certificate is about" in said


def test_the_product_says_which_program_reads_a_bundle(folder, capsys):
    assert run(["check", str(folder / "whole.zip")]) == 2
    assert "is a bundle; 'leaveout-check" in capsys.readouterr().err


def test_a_bundle_replaces_bundles_alone_and_is_written_of_what_is_proved(folder, tmp_path):
    path = tmp_path / "b.zip"
    path.write_bytes((folder / "other" / "whole.zip").read_bytes())
    check(folder / "c.cert", bundle=path)
    assert path.read_bytes() == (folder / "whole.zip").read_bytes()
    with pytest.raises(CertificateError, match="is no bundle"):
        check(folder / "c.cert", bundle=folder / "full.onnx")
    copy = shutil.copytree(folder, tmp_path / "copy")
    shutil.copy(folder / "other" / "full.onnx", copy / "full.onnx")
    with pytest.raises(RejectedError):
        check(copy / "c.cert", bundle=tmp_path / "new.zip")
    assert not (tmp_path / "new.zip").exists()


def test_a_folder_of_a_guard_travels_with_its_three_files(tmp_path, capsys):
    model = networks.dense(np.random.default_rng(5), (2, 6, 5, 3))
    make_folder(tmp_path / "served", model, seed=5, members=8, spread=0.05)
    (tmp_path / "g.spec").write_text('guarantee g: idp(access("served"), epsilon = 0.5)\n')
    leaveout.verify(tmp_path / "g.spec", certificate=tmp_path / "g.cert")
    (tmp_path / "served" / "notes.txt").write_text("stays")
    check(tmp_path / "g.cert", bundle=tmp_path / "g.zip")
    held = content(tmp_path / "g.zip")
    names = sorted(each.rpartition("/")[2] for each in held)
    assert names == sorted([CERTIFICATE, ANSWERS, "full.onnx", "family.npz", "bounds.npz"])
    assert status(tmp_path / "g.zip", capsys)[0] == 0
    inside = next(each for each in held if each.endswith("bounds.npz"))
    for name in ("more.onnx", "notes.txt"):
        more = held | {inside.replace("bounds.npz", name): b"x"}
        assert status(written(tmp_path / "f.zip", sorted(more.items())), capsys)[0] in (1, 2)


def test_what_is_no_bundle_is_told_how_to_become_one(folder, tmp_path, capsys):
    for path, said in (
        (tmp_path / "lost.zip", "cannot read: No such file or directory"),
        (folder, "cannot read: is a folder; expected a file"),
        (folder / "c.cert", "'leaveout check CERTIFICATE --bundle FILE' writes a bundle"),
    ):
        assert main([str(path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"leaveout-check: {path}: ")
        assert error.rstrip("\n").endswith(said)
