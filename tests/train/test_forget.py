"""A network forgets a row: its member takes its place, at once or not at all, with a receipt."""

import json
import sys

import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.files import COMMIT, settle
from leaveout.kernel.receipts import check_claim
from leaveout.models import load_family, load_network
from leaveout.models.reading import Reading
from leaveout.models.train import Recipe, run
from leaveout.models.train.forget import forget_member, receipts_of
from leaveout.verifier.cli import run as run_leaveout

from support.crashes import contents, ends, restored
from support.inline import trained_here

FILES = {"full.onnx", "receipts.jsonl", "receipts.salt"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A trained folder's files, and the scores of the member without row b."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    cells = [f"{n},{x:.3f},{z:.3f},{'yn'[i % 2]}" for i, (n, x, z) in enumerate(
        zip("abcdefghij", rng.random(10), rng.random(10), strict=True)
    )]  # fmt: skip
    (folder / "t.csv").write_text("name,x,z,ok\n" + "\n".join(cells) + "\n")
    recipe = Recipe(layers=(4,), epochs=2, batch=4, activation="silu")
    with trained_here():
        run(folder / "t.csv", folder / "out", label="ok", identity="name", recipe=recipe, workers=1)
    network = load_network(folder / "out" / "full.onnx")
    family = load_family(folder / "out" / "family.npz", network)
    own = {name: value[0] for name, value in family.take([1]).items()}
    points = rng.random((50, 2)).astype(np.float32)
    return contents(folder / "out"), points, network.runner(own).scores(points)


@pytest.fixture
def folder(made, tmp_path):
    target = tmp_path / "net"
    target.mkdir()
    restored(made[0], target)
    return target


def test_the_member_takes_the_networks_place(folder, made, capsys):
    (folder / "bounds.npz").write_bytes(b"of the members")
    own = folder.parent / "b.json"
    assert run_leaveout(["forget", str(folder), "b", "--receipt", str(own)]) == 0
    assert "bit for bit to training without them" in capsys.readouterr().out
    _, points, scores = made
    assert np.array_equal(load_network(folder / "full.onnx").runner().scores(points), scores)
    assert set(contents(folder)) == FILES
    assert b'"b"' not in b"".join(contents(folder).values())
    assert run_leaveout(["receipts", str(folder), "--of", str(own)]) == 0
    assert "about b" in capsys.readouterr().out
    held = json.loads(own.read_text())
    assert check_claim(
        receipts_of(folder).lines, held["receipt"].encode(), held["openings"]
    ).left == 9  # fmt: skip
    own.write_text(json.dumps({**held, "openings": {}}))
    assert run_leaveout(["receipts", str(folder), "--of", str(own)]) == 2
    assert "about nobody" in capsys.readouterr().err
    assert run_leaveout(["guard", str(folder), "--epsilon", "1", "t.csv"]) == 2
    assert "no family.npz, as after forgetting a row" in capsys.readouterr().err
    # The receipt is of this network alone.
    (folder / "full.onnx").write_bytes(made[0]["full.onnx"])
    assert run_leaveout(["receipts", str(folder)]) == 2
    assert "another model" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [["k"], ["1"], ["a", "b"], []])
def test_what_no_member_lacks_leaves_the_folder_as_it_was(folder, made, rows, snapshot):
    with pytest.raises(TrainingError) as told:
        forget_member(folder, rows)
    assert str(told.value).replace(str(folder), "net") == snapshot
    assert contents(folder) == made[0]


@pytest.mark.usefixtures("here")
def test_a_network_whose_rows_leave_in_groups_counts_groups(tmp_path, capsys):
    pytest.importorskip("torch")
    rows = [f"{'abc'[i % 3]},{i / 10},{'yn'[i % 2]}" for i in range(10)]
    (tmp_path / "t.csv").write_text("name,x,ok\n" + "\n".join(rows) + "\n")
    folder, recipe = tmp_path / "out", Recipe(layers=(3,), epochs=1, batch=4)
    run(tmp_path / "t.csv", folder, label="ok", reading=Reading(group="name"), recipe=recipe)
    assert run_leaveout(["forget", str(folder), "b"]) == 0
    assert "groups left     2\n" in capsys.readouterr().out
    assert run_leaveout(["receipts", str(folder)]) == 0
    assert "forget 1 group, 2 left" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["ballots.npz", "state.npz", "service.toml", "trees.npz"])
def test_what_holds_no_rows_says_where_they_are_forgotten(tmp_path, name, capsys, snapshot):
    (tmp_path / name).write_bytes(b"")
    assert run_leaveout(["forget", str(tmp_path), "3"]) == 2
    told = capsys.readouterr().err
    assert told.replace(str(tmp_path), "folder") == snapshot
    assert told.count("\n") == 1


def test_a_network_forgets_once(folder, snapshot):
    forget_member(folder, ["b"])
    with pytest.raises(TrainingError) as told:
        forget_member(folder, ["c"])
    assert str(told.value).replace(str(folder), "net") == snapshot


@pytest.mark.skipif(sys.platform != "linux", reason="calls are told apart by /proc")
def test_a_killed_change_is_finished_or_undone(folder, made):
    before, told = made[0], set()
    for _ in ends(before, folder, lambda: forget_member(folder, ["b"])):
        was_decided = (folder / COMMIT).exists()
        settle(folder)
        is_after = not (folder / "family.npz").exists()
        told.add(is_after)
        assert is_after or not was_decided
        if not is_after:
            assert contents(folder)["full.onnx"] == before["full.onnx"]
        done = forget_member(folder, ["b"])
        lines = receipts_of(folder).lines
        assert check_claim(lines, done.line, done.openings) == done.receipt
        assert len(lines) == 1
        assert set(contents(folder)) == FILES
    assert told == {False, True}


@pytest.mark.parametrize(
    ("given", "status"), [("signed", 0), ("unsigned", 2), ("inside", 2), ("there", 2)]
)
def test_receipts_are_signed_and_kept_elsewhere(folder, tmp_path, capsys, given, status):
    pytest.importorskip("securesystemslib")
    key, own = tmp_path / "me", tmp_path / "own.json"
    assert run_leaveout(["attest", "--new-key", str(key)]) == 0
    if given == "there":
        own.write_text("{}")
    target = folder / "own.json" if given == "inside" else own
    words = ["forget", str(folder), "b", "--receipt", str(target)]
    words += [] if given == "unsigned" else ["--key", f"{key}.key"]
    before = contents(folder)
    done = run_leaveout(words)
    if given in {"inside", "there"}:
        assert done == status and contents(folder) == before
        return
    assert done == 0
    assert run_leaveout(["receipts", str(folder), "--key", f"{key}.pub"]) == status
    assert ("not signed" in capsys.readouterr().err) == (status == 2)
