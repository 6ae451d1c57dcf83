"""No command gives a file more readers than it had; what a run remembers is its owner's alone."""

from __future__ import annotations

import os
import stat

import pytest

from leaveout.verifier.cli.app import run
from leaveout.verifier.guard import Guard

from support.files import write_question

TABLE = "patient,age,ill\n" + "".join(f"P-{i},{20 + 7 * i % 50},{'ny'[i % 2]}\n" for i in range(14))


@pytest.fixture(autouse=True)
def nothing_is_masked():
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder):
    return {
        str(each.relative_to(folder)): stat.S_IMODE(each.stat().st_mode)
        for each in folder.rglob("*")
        if each.is_file()
    }


def hidden(folder):
    for name in modes(folder):
        (folder / name).chmod(0o600)


def test_what_verify_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_question(tmp_path)
    command = ["verify", "test.spec", "--workers", "1"]
    writing = [
        ["--json", "r.json", "--bounds", "bounds.npz", "--resume", "c.checkpoint"],
        ["--certificate", "c.npz"],
        ["--evidence", "proof"],
    ]
    for more in writing:
        assert run([*command, *more]) == 0
    assert run(["report", "r.json", "-o", "r.html"]) == 0
    made = modes(tmp_path)
    assert made["c.checkpoint"] == 0o600
    assert {made[name] for name in ("r.json", "bounds.npz", "c.npz", "r.html")} == {0o666}
    hidden(tmp_path)
    (tmp_path / "proof").chmod(0o700)
    for more in writing:
        assert run([*command, *more]) == 0
    assert run(["report", "r.json", "-o", "r.html"]) == 0
    assert run(["fmt", "test.spec"]) == 0
    assert set(modes(tmp_path).values()) == {0o600}
    assert set(modes(tmp_path)) == set(made)
    assert stat.S_IMODE((tmp_path / "proof").stat().st_mode) == 0o700


def test_what_forests_and_their_guards_write(tmp_path, capsys):
    table, folder, new = tmp_path / "t.csv", tmp_path / "clinic", tmp_path / "new.csv"
    table.write_text(TABLE)
    new.write_text(TABLE.splitlines(True)[0] + "P-77,33,y\n")
    small = ["--label", "ill", "--id", "patient", "--trees", "2", "--depth", "3"]
    assert run(["forest", "train", str(table), *small, "-o", str(folder)]) == 0
    hidden(folder)
    with Guard.load(folder, epsilon=1.0) as guard:
        guard.labels(guard.encode([{"age": age} for age in range(20, 60)]))
        guard.delete([2])
        guarded = modes(folder)
    assert {"family.npz", "answers.sqlite", "answers.sqlite-wal", "answers.sqlite-shm"} < set(
        guarded
    )
    assert set(guarded.values()) == {0o600}
    assert run(["forget", str(folder), "P-3"]) == 0
    assert run(["forest", "add", str(folder), str(new)]) == 0
    assert run(["guard", str(folder), "--epsilon", "1", str(table)]) == 0
    assert set(modes(folder).values()) == {0o600}


def test_no_digest_of_a_forest_that_was_is_left(tmp_path):
    table, folder = tmp_path / "t.csv", tmp_path / "clinic"
    table.write_text(TABLE)
    small = ["--label", "ill", "--id", "patient", "--trees", "2", "--depth", "3"]
    assert run(["forest", "train", str(table), *small, "-o", str(folder)]) == 0
    with Guard.load(folder, epsilon=1.0) as guard:
        before = guard.subject.identity.inputs.encode()
        assert any(before in each.read_bytes() for each in folder.glob("answers*"))
        guard.delete([2])
        assert not any(before in each.read_bytes() for each in folder.glob("answers*"))
