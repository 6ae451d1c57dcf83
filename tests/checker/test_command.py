"""``verify --certificate`` and ``check`` as a user runs them."""

from __future__ import annotations

import pytest

from leaveout.verifier.cli.app import run

from support.certificates import Content
from support.files import write_question


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    spec = write_question(folder)
    arguments = ["verify", str(spec), "--certificate", str(folder / "proof.cert")]
    # Without --time, which counts from the start of the process.
    assert run(arguments) in {0, 3}
    return folder


def test_an_accepted_certificate_says_what_it_proves(folder, capsys):
    assert run(["check", str(folder / "proof.cert")]) == 0
    out, err = capsys.readouterr()
    assert out.count("accepted") == 2
    assert "in [0, 1]" in out
    assert err == ""


def test_a_rejected_one_names_what_fails_in_one_line(folder, capsys):
    content = Content.of(folder / "proof.cert")
    worst = max(content.manifest["results"], key=lambda r: r["upper"])
    worst["upper"] *= 0.5
    content.save(folder / "false.cert")
    assert run(["check", str(folder / "false.cert")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "rejected: bound, label" in err
    assert "node " in err


@pytest.mark.parametrize("name", ["nowhere.cert", "full.onnx", "family.npz", "test.spec", "."])
def test_what_is_no_certificate_is_refused_in_one_line(folder, capsys, name):
    assert run(["check", str(folder / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_a_missing_network_is_named(folder, capsys):
    assert run(["check", str(folder / "proof.cert"), "--network", "gone.onnx"]) == 2
    assert "gone.onnx" in capsys.readouterr().err


def test_a_certificate_elsewhere_says_how_to_check_it(folder, tmp_path, capsys):
    target = tmp_path / "proof.cert"
    assert run(["verify", str(folder / "test.spec"), "--certificate", str(target)]) in {0, 3}
    files = [
        "--network",
        str(folder / "full.onnx"),
        "--family",
        str(folder / "family.npz"),
    ]
    assert " ".join(files) in capsys.readouterr().out.replace("\n", " ")
    assert run(["check", str(target)]) == 2
    assert "outside its own folder" in capsys.readouterr().err
    assert run(["check", str(target), *files]) == 0


def test_the_milp_engine_has_no_certificate(folder, capsys):
    target = folder / "lucid.cert"
    arguments = ["verify", str(folder / "test.spec"), "--engine", "lucid"]
    assert run([*arguments, "--certificate", str(target)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "MILP" in err
    assert not target.exists()


def test_other_files_are_not_written_over(folder, capsys):
    arguments = ["verify", str(folder / "test.spec"), "--certificate"]
    before = (folder / "family.npz").read_bytes()
    assert run([*arguments, str(folder / "family.npz")]) == 2
    assert run([*arguments, str(folder / "missing" / "proof.cert")]) == 2
    assert (folder / "family.npz").read_bytes() == before
    assert capsys.readouterr().err.count("\n") == 2
