"""A folder of evidence is written whole or not at all, and names no place of this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leaveout.files import RESULTS, read_whole
from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence import folder as writing
from leaveout.verifier.evidence.parts import NAMES, PARTS

from support import children
from support.crashes import contents, ends
from support.files import BOUND, write_question

VERIFY = ["verify", "test.spec", "--workers", "1", "--evidence", "proof"]


@pytest.fixture
def asked(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "asked"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_question(folder)
    return folder


def left(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_one_command_writes_everything(asked, capsys, snapshot):
    assert run(VERIFY) == 0
    assert set(left(asked / "proof")) == NAMES
    said = capsys.readouterr().out
    assert said == snapshot
    assert run(["check", "proof"]) == 0
    assert capsys.readouterr().out == snapshot
    assert left(asked) == ["family.npz", "full.onnx", "proof", "test.spec"]


def test_no_file_names_a_place_of_this_machine(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["verify", str(asked / "test.spec"), "--workers", "1"]
    assert run([*command, "--evidence", "proof"]) == 0
    for each in (tmp_path / "proof").iterdir():
        assert str(tmp_path).encode() not in each.read_bytes(), each
    assert run([*command, "--json", "r.json"]) == 0
    assert str(tmp_path) not in (tmp_path / "r.json").read_text()
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["spec"], result["folder"]) == ("asked/test.spec", "asked")


@pytest.mark.parametrize("family", ["family.npz", "../others/family.npz"])
def test_no_file_names_a_place_where_the_specification_is_given_relatively(
    asked, tmp_path, monkeypatch, family
):
    monkeypatch.chdir(tmp_path)
    where = asked / family
    where.parent.mkdir(exist_ok=True)
    (asked / "family.npz").rename(where)
    spec = asked / "test.spec"
    spec.write_text(spec.read_text().replace("family.npz", family))
    command = ["verify", "asked/test.spec", "--workers", "1", "--evidence", "proof"]
    assert run(command) == 0
    for each in (tmp_path / "proof").iterdir():
        assert str(tmp_path).encode() not in each.read_bytes(), each
    assert run(["check", "proof"]) == 0
    assert run(["rows", "proof/result.json"]) == 0


def test_evidence_is_replaced_by_later_evidence(asked):
    assert run(VERIFY) == 0
    before = json.loads((asked / "proof" / "result.json").read_text())
    (asked / "test.spec").write_text(BOUND.replace("find bound", "find other"))
    assert run(VERIFY) == 0
    after = json.loads((asked / "proof" / "result.json").read_text())
    assert {each["name"] for each in before["results"]} == {"bound"}
    assert {each["name"] for each in after["results"]} == {"other"}
    assert run(["check", "proof"]) == 0
    assert left(asked) == ["family.npz", "full.onnx", "proof", "test.spec"]


@pytest.mark.parametrize("name", [*PARTS, "attestation.json", "put_folder"])
def test_where_anything_fails_what_was_there_stays(asked, monkeypatch, capsys, name, snapshot):
    assert run(VERIFY) == 0
    before = {each.name: each.read_bytes() for each in (asked / "proof").iterdir()}

    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    whole = writing.write_whole
    if name == "put_folder":
        monkeypatch.setattr(writing, "put_folder", full)
    else:
        monkeypatch.setattr(
            writing, "write_whole", lambda p, c: full() if p.name == name else whole(p, c)
        )
    assert run(VERIFY) == 2
    assert capsys.readouterr().err == snapshot
    assert {each.name: each.read_bytes() for each in (asked / "proof").iterdir()} == before
    assert left(asked) == ["family.npz", "full.onnx", "proof", "test.spec"]


@pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")
@pytest.mark.parametrize("engine", ["native", "lucid"])
def test_wherever_it_is_ended_one_whole_folder_is_there(asked, tmp_path, monkeypatch, engine):
    assert run(VERIFY) == 0
    (asked / "test.spec").write_text(BOUND.replace("find bound", "find other"))
    old, put, found = contents(asked / "proof"), writing.put_folder, []

    def put_and_ended(staged, target, gone):
        before, new, own = contents(asked), contents(staged), staged.relative_to(asked)
        place = tmp_path / "place"
        for _ in ends(before, place, lambda: put(place / own, place / "proof", gone)):
            read_whole(place / "proof" / "result.json", RESULTS)
            there = contents(place / "proof")
            assert there in (old, new)
            found.append(there == new)
        put(staged, target, gone)

    monkeypatch.setattr(writing, "put_folder", put_and_ended)
    assert run([*VERIFY, "--engine", engine]) == 0
    assert found == sorted(found)
    assert set(found) == {False, True}
    assert left(asked) == ["family.npz", "full.onnx", "proof", "test.spec"]
    # Of lucid nothing is proved again.
    assert run(["check", "proof"]) == (0 if engine == "native" else 3)


def test_a_folder_with_anything_else_is_left_alone(asked, capsys, snapshot):
    (asked / "proof").mkdir()
    (asked / "proof" / "thesis.txt").write_text("mine")
    assert run(VERIFY) == 2
    assert capsys.readouterr().err == snapshot
    assert left(asked / "proof") == ["thesis.txt"]


@pytest.mark.parametrize(
    "more",
    [
        ["--evidence", "test.spec"],
        ["--evidence", "none/proof"],
        ["--evidence", "."],
        ["--evidence", "proof", "--key", "none.key"],
        ["--evidence", "proof", "--certificate", "c.npz"],
        ["--key", "me.key"],
        ["--evidence", "proof", "--dry-run"],
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(asked, capsys, more, snapshot):
    assert run(["verify", "test.spec", *more]) == 2
    said = capsys.readouterr().err
    assert said == snapshot
    assert said.count("\n") == 1
    assert left(asked) == ["family.npz", "full.onnx", "test.spec"]


def test_an_engine_without_proofs_writes_the_rest_and_says_so(asked, capsys, snapshot):
    assert run([*VERIFY, "--engine", "lucid"]) == 0
    assert capsys.readouterr().out == snapshot
    assert set(left(asked / "proof")) == NAMES - {"certificate.npz"}
    assert run(["check", "proof"]) == 3
    assert capsys.readouterr().out == snapshot


def test_a_bad_specification_writes_nothing(asked, capsys):
    (asked / "test.spec").write_text("find x\n")
    assert run(VERIFY) == 2
    assert left(asked) == ["family.npz", "full.onnx", "test.spec"]


def test_ctrl_c_leaves_evidence_of_what_is_known_so_far(asked):
    write_question(asked, seed=3, text=BOUND.replace("box(0, 1)", "box(-30, 30)"))
    program = [sys.executable, "-m", "leaveout", *VERIFY]
    child = children.start(program, cwd=asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(asked.glob(".leaveout-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    # In the moment in which the folder is made, it stays for the next command to clear.
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=120)
    if (asked / "proof").exists():
        assert run(["check", "proof"]) in (0, 3)
    assert not list(asked.glob(".leaveout-*"))


def test_what_changes_during_the_run_is_not_attested(asked, monkeypatch, capsys, snapshot):
    from leaveout.verifier import provenance

    own = provenance.Origin.files

    def changed(self):
        with (asked / "full.onnx").open("ab") as file:
            file.write(b" ")
        return own(self)

    monkeypatch.setattr(provenance.Origin, "files", changed)
    assert run(VERIFY) == 2
    assert capsys.readouterr().err == snapshot
    assert not (asked / "proof").exists()
