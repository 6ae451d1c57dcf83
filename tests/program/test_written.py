"""Cells that are no formulas, and JSON of any name; both say what they were made of."""

from __future__ import annotations

import csv
import io
import json
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leaveout.verifier.row_records import RowRecord
from leaveout.verifier.rows.known import to_csv
from leaveout.written import TableWriter, as_json, harmless

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
TEXT = st.text(st.sampled_from("'=+-@\t\r\n019.eE ,\"a;")) | st.text()


def told_apart(cell):
    """Take away what was put before a cell, as the documentation says it."""
    escaped = cell.startswith("'") and cell.lstrip("'").startswith(FORMULAS)
    return cell[1:] if escaped else cell


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and not set(cell) & set(" _\t\r\n")


@given(TEXT)
@example("=HYPERLINK(0)")
@example("'=1")
@example("-1e5")
@example("+1+1")
@example("'t Hooft")
def test_a_cell_is_no_formula_and_can_be_read_back(cell):
    written = harmless(cell)
    assert not written.startswith(FORMULAS) or is_number(written)
    assert told_apart(written) == cell
    if not cell.lstrip("'").startswith(FORMULAS):
        assert written == cell


@pytest.mark.parametrize(
    "number", [-0.5, 1e-300, float("-inf"), -3, "-0.5", "+2", "-1e-05", "-inf"]
)
def test_a_number_stays_one(number):
    stream = io.StringIO()
    TableWriter(stream).row([number])
    (line,) = csv.reader(io.StringIO(stream.getvalue()))
    assert float(line[0]) == float(number)


@given(st.lists(TEXT.filter(lambda cell: not set(cell) & set("\r\0")), min_size=2))
def test_a_table_is_read_back(cells):
    cells = [cell.encode("utf-8", "replace").decode() for cell in cells]
    stream = io.StringIO(newline="")
    TableWriter(stream).row(cells)
    (line,) = csv.reader(io.StringIO(stream.getvalue(), newline=""))
    assert [told_apart(cell) for cell in line] == cells


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "@SUM(1)", "-2+3", "\t=1", "+a"])
def test_a_name_in_rows_is_no_formula(name):
    record = RowRecord(
        row=3, name=name, model="network", network=name, statements=(name,), members=1,
        bound=None, leak=None, labels=(), words=name,
    )  # fmt: skip
    (_, line) = csv.reader(io.StringIO(to_csv([record])))
    assert not any(cell.startswith(FORMULAS) for cell in line)
    assert told_apart(line[1]) == name


def test_a_name_that_is_no_text_is_shown_in_json():
    odd = os.fsdecode(b"w\xe9rk")
    assert json.loads(as_json({odd: [odd, 1], "a": {"b": odd}})) == {
        "w\\xe9rk": ["w\\xe9rk", 1],
        "a": {"b": "w\\xe9rk"},
    }
    assert json.loads(as_json({"ü": "é"})) == {"ü": "é"}
