"""What a guard of a forest takes, keeps, and does when rows are deleted or added."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import leaveout
from leaveout.errors import GuardError, LeaveoutError
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.family import load_forest_family, save_forest_family
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard

from support.guarded_forests import ServedForest, cells, random_forest
from support.served import Asker, in_thread


@pytest.fixture
def folder(wooded, tmp_path):
    made = tmp_path / "copied"
    shutil.copytree(wooded.folder, made, ignore=lambda *_: ["answers.sqlite"])
    return made


@pytest.fixture
def guard(folder):
    with Guard.load(folder, 0.2, seed=1) as opened:
        yield opened


def served(folder) -> ServedForest:
    return ServedForest(folder, DareForestClassifier.load(folder / "forest.npz"))


class TestInputs:
    """What is an input."""

    def test_every_finite_number_is_one(self, guard):
        far = [[1e300, -1e300], [-0.0, 5e-324], [1e39, 0.5]]
        assert (guard.answers(far) >= 0).all()
        assert guard.box is None

    @pytest.mark.parametrize(
        "x",
        [
            [0.1, np.nan],
            [np.inf, 0.1],
            [0.1],
            ["0.1", "0.2"],
        ],
    )
    def test_others_are_refused_in_one_line(self, guard, x, snapshot):
        with pytest.raises(GuardError) as caught:
            guard.label(x)
        assert str(caught.value) == snapshot
        assert "\n" not in str(caught.value) and guard.account().answers == 0

    def test_numbers_that_float32_cannot_tell_apart_are_two(self, guard, wooded, grid):
        x = grid[wooded.truth(grid)[1]][0].astype(np.float64)
        near = np.nextafter(x, 9)
        assert (near.astype(np.float32) == x.astype(np.float32)).all()
        guard.labels([x, near, x.tolist()])
        assert guard.account().answers == guard.inspect([x, near]).leaks.sum() == 2

    def test_minus_zero_is_zero(self, guard):
        points = np.array([[0.0, y] for y in np.linspace(0, 1, 40)])
        guard.labels(points)
        before = guard.account().answers
        guard.labels(np.where(points == 0, -0.0, points))
        assert guard.account().answers == before > 0

    def test_arrays_may_be_of_any_layout(self, guard, grid):
        given = np.asfortranarray(grid.astype(np.float64))
        given.flags.writeable = False
        assert (guard.labels(given) == guard.labels(grid)).all()
        assert [guard.label(x) for x in given[:5]] == guard.labels(grid[:5]).tolist()

    def test_nothing_is_outside(self, folder, snapshot):
        with pytest.raises(GuardError) as told:
            Guard.load(folder, 0.2, outside="noise")
        assert str(told.value) == snapshot


class TestMemory:
    """Noised answers outlive the guard; it is one guard whatever is served."""

    def test_plain_inputs_are_answered_as_the_forest_does(self, guard, wooded, grid):
        labels, leaks = wooded.truth(grid)
        together = guard.labels(grid)
        assert (together[~leaks] == labels[~leaks]).all()
        assert guard.account().answers == leaks.sum() and guard.account().epsilon > 0
        assert [guard.label(point) for point in grid] == together.tolist()

    def test_answers_are_given_again_after_a_restart(self, folder, grid):
        with Guard.load(folder, 0.0) as first:
            given, account = first.labels(grid), first.account()
        with Guard.load(folder, 0.0) as again:
            assert (again.labels(grid) == given).all() and again.account() == account

    def test_once_the_budget_is_spent_everything_is_refused(self, folder, wooded, grid, snapshot):
        leaks = wooded.truth(grid)[1]
        with Guard.load(folder, 0.5, cap=1.0) as guard:
            guard.labels(grid[leaks][:2])
            with pytest.raises(GuardError) as told:
                guard.label(grid[leaks][2])
            assert str(told.value) == snapshot
            with pytest.raises(GuardError) as told:
                guard.label(grid[~leaks][0])
            assert str(told.value) == snapshot

    def test_threads_share_a_guard(self, guard, grid):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: guard.labels(grid).tolist(), range(8)))
        assert all(each == found[0] for each in found)


class TestFiles:
    """The forest, and the deletions that are kept beside it."""

    def test_deletions_are_kept_and_read_again(self, folder, wooded, grid, monkeypatch):
        with Guard.load(folder, 0.2) as guard:
            first = guard.inspect(grid)
        assert (folder / "family.npz").exists()
        monkeypatch.delattr("leaveout.verifier.guard.forests.subject.leave_one_out")
        with Guard.load(folder, 0.2) as guard:
            second = guard.inspect(grid)
            assert guard.notes == ()
        for found in (first, second):
            assert (found.leaks == wooded.truth(grid)[1]).all()

    def test_those_of_another_forest_are_made_again(self, folder, grid, snapshot):
        Guard.load(folder, 0.2).close()
        forest = DareForestClassifier.load(folder / "forest.npz")
        forest.delete([1, 2]).save(folder / "forest.npz")
        with Guard.load(folder, 0.2) as guard:
            assert guard.notes[0] == snapshot
            assert guard.members == len(forest.rows_)
            assert (guard.inspect(grid).leaks == served(folder).truth(grid)[1]).all()
        with Guard.load(folder, 0.2) as guard:
            assert guard.notes == ()

    def test_another_file_of_that_name_is_left_alone(self, folder, leaky, snapshot):
        shutil.copy(leaky.folder / "family.npz", folder)
        before = (folder / "family.npz").read_bytes()
        with pytest.raises(LeaveoutError) as told:
            Guard.load(folder, 0.2)
        assert str(told.value) == snapshot
        assert (folder / "family.npz").read_bytes() == before

    def test_a_forest_beside_a_network_is_refused(self, folder, leaky, snapshot):
        shutil.copy(leaky.folder / "full.onnx", folder)
        with pytest.raises(GuardError) as told:
            Guard.load(folder, 0.2)
        assert str(told.value) == snapshot

    def test_there_is_nothing_to_prove_of_a_forest(self, folder, snapshot):
        spec = folder / "a.spec"
        spec.write_text('let A = access(".")\nguarantee g: idp(A, epsilon = 0.2)\n')
        with pytest.raises(LeaveoutError) as told:
            leaveout.verify(spec)
        assert str(told.value) == snapshot

    def test_a_damaged_forest_is_refused(self, folder, snapshot):
        (folder / "forest.npz").write_bytes(b"PK\x03\x04 cut")
        with pytest.raises(LeaveoutError) as told:
            Guard.load(folder, 0.2)
        assert str(told.value) == snapshot

    def test_what_is_read_is_what_was_written(self, folder, wooded):
        ensemble = wooded.forest.ensemble()
        family, path = leave_one_out(ensemble), folder / "family.npz"
        save_forest_family(path, family, ensemble)
        read = load_forest_family(path, ensemble)
        assert (read.removed == family.removed).all()
        for name in vars(family.changes):
            assert np.array_equal(getattr(read.changes, name), getattr(family.changes, name))

    @pytest.mark.parametrize(
        ("part", "tampered"),
        [
            ("removed", lambda a: a[::-1]),
            ("start", lambda a: a[::-1]),
            ("start", lambda a: a[:-1]),
            ("tree", lambda a: a + 1000),
            ("tree", lambda a: a * 0),
            ("node", lambda a: a + 10**6),
            ("node", lambda a: a - 10**6),
            ("root", lambda a: a + 10**6),
            ("root", lambda a: a * 0),
            ("feature", lambda a: a + 2),
            ("feature", lambda a: a - 1),
            ("threshold", lambda a: a * np.nan),
            ("threshold", lambda a: a[1:]),
            ("left", lambda a: a + 10**6),
            ("left", lambda a: a * 0),
            ("right", lambda a: a - 10**6),
            ("shares", lambda a: a[:, 1:]),
            ("shares", lambda a: a[:1]),
            ("shares", lambda a: a + np.inf),
            ("left", lambda a: a.astype(float)),
        ],
    )
    def test_deletions_that_lead_nowhere_are_refused(
        self, folder, wooded, part, tampered, snapshot
    ):
        path = folder / "family.npz"
        ensemble = wooded.forest.ensemble()
        save_forest_family(path, leave_one_out(ensemble), ensemble)
        arrays = dict(np.load(path))
        arrays[part] = np.ascontiguousarray(tampered(arrays[part]))
        np.savez(path, **arrays)
        with pytest.raises(LeaveoutError) as caught:
            Guard.load(folder, 0.2)
        assert str(caught.value) == snapshot
        assert "\n" not in str(caught.value)


class TestChanges:
    """Rows are deleted and added under one memory."""

    def test_each_forest_is_guarded_exactly_and_noised_answers_stay(
        self, guard, folder, grid, snapshot
    ):
        given, noised = {}, np.zeros(len(grid), bool)
        changes = [
            lambda: None,
            lambda: guard.delete([3]),
            lambda: guard.delete([10, 11, 40]),
            lambda: guard.add([[0.2, 0.9], [0.6, 0.5]], [0, 1]),
            lambda: guard.delete(5),
        ]
        for change in changes:
            change()
            labels, leaks = served(folder).truth(grid)
            found = guard.inspect(grid)
            assert (found.labels == labels).all() and (found.leaks == leaks).all()
            answers = guard.labels(grid)
            assert all(answers[at] == label for at, label in given.items())
            plain = ~leaks & ~noised
            assert (answers[plain] == labels[plain]).all()
            noised |= leaks
            given |= {at: answers[at] for at in np.flatnonzero(noised).tolist()}
            assert guard.account().answers == noised.sum()
            assert guard.members == len(served(folder).forest.rows_)
        with Guard.load(folder, 0.2) as again:
            assert (again.labels(grid) == answers).all()
            assert again.notes[0] == snapshot

    def test_no_plain_answer_changes_where_one_row_comes_or_goes(self):
        """What the promise to everyone rests on, at every step of a forest that changes."""
        checked = 0
        for seed in range(400, 430):
            forest, rng = random_forest(seed)
            row = int(rng.choice(forest.rows_))
            after = forest.unlearn([row])
            if len(after.rows_) < 2 or len(after.classes_) < len(forest.classes_):
                continue
            families = [leave_one_out(each.ensemble()) for each in (forest, after)]
            points = cells([each.whole for each in families], forest.n_features_in_)[:300]
            own = [each.predict(points) for each in (forest, after)]
            for family, labels in zip(families, own):
                index = np.searchsorted(forest.classes_, labels)
                members = [family.member(m).probabilities(points) for m in range(len(family))]
                leaks = (np.array(members).argmax(axis=2) != index).any(axis=0)
                if family is families[0]:
                    # Deleted: plain before. Added: plain afterwards.
                    assert (own[0][~leaks] == own[1][~leaks]).all()
                    checked += int((~leaks).sum())
        assert checked > 500

    def test_a_forest_changed_by_others_is_followed_when_told(self, guard, folder, grid):
        before = guard.labels(grid)
        forest = DareForestClassifier.load(folder / "forest.npz")
        forest.delete([7, 8, 9]).save(folder / "forest.npz")
        assert (guard.labels(grid) == before).all()
        guard.reload()
        assert (guard.inspect(grid).leaks == served(folder).truth(grid)[1]).all()
        assert guard.members == len(forest.rows_)

    def test_changes_that_cannot_be_made_change_nothing(self, guard, folder, grid, snapshot):
        answers = guard.labels(grid)
        files = {path: path.read_bytes() for path in folder.glob("*.npz")}
        last = guard.members
        for change in (
            lambda: guard.delete([10**6]),
            lambda: guard.add([[0.1, 0.2]], [7]),
            lambda: guard.add([[0.1]], [1]),
            lambda: guard.delete(np.flatnonzero(_labels(folder) == 2)),
        ):
            with pytest.raises((LeaveoutError, ValueError)) as told:
                change()
            assert str(told.value) == snapshot
        assert {path: path.read_bytes() for path in folder.glob("*.npz")} == files
        assert (guard.labels(grid) == answers).all() and guard.members == last

    def test_a_forest_of_other_settings_has_another_memory(self, guard, folder, grid, snapshot):
        X, y = np.random.default_rng(0).random((30, 2)), np.arange(30) % 3
        DareForestClassifier(10, random_state=1).fit(X, y).save(folder / "forest.npz")
        with pytest.raises(GuardError) as told:
            guard.reload()
        assert str(told.value) == snapshot
        guard.labels(grid)
        with pytest.raises(GuardError) as told:
            Guard.load(folder, 0.2)
        assert str(told.value) == snapshot

    def test_a_network_follows_nothing(self, leaky, tmp_path, snapshot):
        with Guard.load(leaky.folder, 0.2, memory=tmp_path / "m") as guard:
            for change in (lambda: guard.delete(1), lambda: guard.add([[0, 0]], [1]), guard.reload):
                with pytest.raises(GuardError) as told:
                    change()
                assert str(told.value) == snapshot

    def test_questions_are_answered_meanwhile(self, guard, folder, grid):
        """Each answer is of the forest before a change or after it, or was noised before."""
        guard.labels(grid)
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(guard.labels, grid) for _ in range(20)]
            guard.delete([20, 21])
            asked += [pool.submit(guard.labels, grid) for _ in range(20)]
            found = [each.result() for each in asked]
        last = guard.labels(grid)
        assert all((each == found[0]).mean() > 0.8 for each in found)
        assert (found[-1] == last).all()


def _labels(folder):
    ensemble = DareForestClassifier.load(folder / "forest.npz").ensemble()
    return ensemble.classes[ensemble.y]


class TestCommand:
    """``leaveout guard`` of a forest's folder, and over HTTP."""

    def test_rows_of_a_table_and_of_arrays_are_answered(
        self, folder, grid, tmp_path, capsys, snapshot
    ):
        rows = grid[::9].astype(np.float64)
        text = "\n".join(["a,b", *(f"{a!r},{b!r}" for a, b in rows.tolist())])
        (tmp_path / "rows.csv").write_text(text + "\n")
        np.savez(tmp_path / "rows.npz", X=rows)
        shown = []
        for name in ("rows.csv", "rows.npz"):
            assert run(["guard", str(folder), str(tmp_path / name), "--epsilon", "0.2"]) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1] and set(shown[0].split()[1:]) == {"0", "1", "2"}
        assert run(["guard", str(folder), "--account"]) == 0
        assert capsys.readouterr().out == snapshot

    @pytest.mark.parametrize(
        ("arrays", "said"),
        [
            ({"Z": np.zeros((2, 2))}, "neither an array 'X_test' nor 'X'"),
            ({"X": np.zeros((2, 3))}, "expected (n, 2)"),
            ({"X": np.full((2, 2), np.nan)}, "row 0 contains a value that is not a finite number"),
        ],
    )
    def test_arrays_that_do_not_fit_are_refused_in_a_line(
        self, folder, tmp_path, capsys, arrays, said
    ):
        np.savez(tmp_path / "rows.npz", **arrays)
        assert run(["guard", str(folder), str(tmp_path / "rows.npz"), "--epsilon", "0.2"]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1

    def test_labels_are_not_written_over_the_forest(self, folder, tmp_path, capsys, snapshot):
        rows = tmp_path / "rows.csv"
        rows.write_text("a,b\n0,0\n")
        for name in ("forest.npz", "family.npz"):
            command = ["guard", str(folder), str(rows), "--epsilon", "0.2", "-o"]
            assert run([*command, str(folder / name)]) == 2
            assert capsys.readouterr().err == snapshot

    def test_over_http(self, guard, grid, snapshot):
        with in_thread(guard, pad=0.01) as port:
            asker = Asker(port)
            about = asker.get("/about").said
            assert about["box"] is None and about["members"] == 90
            assert about["promise"] == snapshot
            X = grid[::40].astype(np.float64)
            assert asker.ask({"X": X.tolist()}).said["labels"] == guard.labels(X).tolist()
            first = asker.ask({"x": X[0].tolist()}).said
            assert first["name"] == str(first["label"])
            row = {"0": X[0, 0], "1": X[0, 1]}
            assert asker.ask({"row": row}).said == first
            guard.delete([4])
            assert asker.get("/about").said["members"] == 89
            reply = asker.ask(b'{"x": [1e400, 0]}')
            assert reply.status == 422
            asker.close()
