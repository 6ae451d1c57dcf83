"""What programs are asked in the comparison of forests, and the table that is made of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from forest import _line, _table
from forest_data import Split, write_split
from forest_driver import measure
from forest_programs import Program, programs_of, run_program, score

USUAL = {
    "trees": 10, "depth": 5, "k": 3, "least": 2, "seconds": 60.0, "deletions": 20,
    "random_depth": 0, "worst": 0, "check": True,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((500, 4)), rng.integers(0, 2, 500)
    write_split(Split(X, y, X[:50], y[:50]), tmp_path, deletions=20)
    return tmp_path


class Fake:
    """A program that remembers what it was asked; a row costs its number."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def warm(self) -> None:
        pass

    def fit(self, X, y) -> None:
        self.calls.append(("fit", list(X.shape)))

    def delete(self, rows) -> None:
        self.calls.append(("delete", np.atleast_1d(rows).tolist()))

    def cost(self, row) -> int:
        return row

    def shares(self, X):
        self.calls.append(("predict", [len(X)]))
        return np.full(len(X), 0.25)

    def own(self) -> None:
        return None

    def check(self) -> str:
        return "yes"


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_deletion_has_its_prediction_and_no_row_goes_twice(folder, capsys):
    program = Fake()
    measure(program, folder, USUAL)
    deleted = [rows for what, rows in program.calls if what == "delete"]
    assert [len(rows) for rows in deleted] == [1] * 20 + [5]
    every = [row for rows in deleted for row in rows]
    assert len(set(every)) == 25
    assert set(every) < set(range(500))
    followed = [
        b for a, b in zip(program.calls, program.calls[1:], strict=False) if a[0] == "delete"
    ]
    assert followed == [("predict", [1])] * 20 + [("predict", [50])]
    # What was put off is paid before the batch.
    assert program.calls[-3] == ("predict", [50])
    told = lines(capsys)
    assert [sorted(each.keys() & {"fit", "times", "batch", "check"}) for each in told] == [
        ["fit"], ["fit", "times"], ["batch", "check", "fit", "times"],
    ]  # fmt: skip
    assert np.fromfile(folder / "shares.f8").tolist() == [0.25] * 50


def test_the_adversary_deletes_the_costliest_of_those_drawn(folder, capsys):
    program = Fake()
    measure(program, folder, USUAL | {"worst": 1000})
    deleted = [rows[0] for what, rows in program.calls if what == "delete"]
    assert deleted == sorted(np.load(folder / "single.npy").tolist(), reverse=True)
    assert "batch" not in lines(capsys)[-1]


def test_programs_are_those_wanted_and_there(tmp_path):
    every = programs_of(USUAL, ["ours", "dare", "dynfrs"], [0], [1.0, 0.1], None, None, tmp_path)
    titles = [each.title for each in every]
    assert titles == ["ours q=1 lazy", "ours q=1 eager", "ours q=0.1 lazy", "ours q=0.1 eager"]
    (dare,) = programs_of(USUAL, ["dare"], [0], [1.0], "python-of-dare", None, tmp_path)
    assert dare.words(tmp_path)[0] == "python-of-dare"


def test_a_program_that_fails_or_is_late_says_so(tmp_path):
    def shell(text: str, minutes: float = 1.0):
        return run_program(Program("a", ("sh", "-c", text), {}), tmp_path, minutes)

    assert shell("echo oh >&2; exit 3") == {"missing": "it ended with 3: oh"}
    np.zeros(2).tofile(tmp_path / "shares.f8")
    late = shell("""echo '{"fit": 1.5}'; exec sleep 60""", 0.01)
    assert late == {"fit": 1.5, "missing": "not done within 0.01 minutes", "shares": [0.0, 0.0]}
    assert (
        "not there" in run_program(Program("a", ("no-such-program",), {}), tmp_path, 1)["missing"]
    )


def test_the_table_compares_with_dare():
    base = {"times": [0.02, 0.04], "batch": 3.0}
    found = {
        "fit": 2.0, "times": [0.003, 0.003], "batch": 0.1, "peak": 5e6, "own": None, "auc": 0.9,
        "accuracy": 0.875,
    }  # fmt: skip
    line = _line("ours", found, base)
    assert line == [
        "ours", "2 s", "3 ms", "3 ms", "10", "100 ms", "30", "5 MB", "", "0.9000", "87.50 %", "2",
    ]  # fmt: skip
    assert _line("fit alone", {**found, "times": None, "batch": None}, base)[2:7] == [""] * 5
    assert len({len(each) for each in _table([line, line])}) == 1


def test_a_share_that_is_no_number_counts_as_one_half():
    y = np.array([0, 1, 1, 0])
    assert score(np.array([0.1, 0.9, np.nan, 0.2]), y) == (1.0, 0.75)
