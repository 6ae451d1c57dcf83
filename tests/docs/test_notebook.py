"""The notebook among the examples runs from top to bottom, as it is stored."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "bring_your_own.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Run all cells, in a folder of their own; return those of code."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell, kind="text/plain"):
    """What the last line of a cell shows."""
    (result,) = (each for each in cell.outputs if each.output_type == "execute_result")
    return result.data[kind]


def test_it_is_stored_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_every_label_is_proved_and_most_answers_owe_nothing(cells):
    report = shown(cells[2])
    assert report.count("proved") == 3
    last = report.rpartition("\n")[2]
    said = re.match(r"(\d+) of the 178 answers to data are independent of any one of the 20 ", last)
    assert 150 <= int(said[1]) <= 178
    assert "<table" in shown(cells[2], "text/html")


def test_the_table_has_a_row_a_label_and_the_guard_knows_the_wine(cells):
    assert all(name in shown(cells[3]) for name in ("Barbera", "Barolo", "Grignolino"))
    assert shown(cells[4]) == "'Barolo'"
