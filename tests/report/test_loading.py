"""Files of results: what is wrong with one is said in a line that names it."""

from __future__ import annotations

import pytest

from leaveout.verifier.page import PageError, load

from support.snapshots import passages

HEAD = b'{"leaveout": "9.9", "spec": "s", "results": '
RESULT = (
    b'{"name": "n", "kind": "find", "verdict": "proved", "lower": null, "upper": null, '
    b'"label": null, "witness": null, "seconds": 1, "engine": "e", "solver": null, '
    b'"reason": null, "box": {"lower": [], "upper": []}, "members": 0'
)


def curve(at: str, lower: str, upper: str) -> bytes:
    text = f'"at": {at}, "lower": {lower}, "upper": {upper}'
    head = b'%b[%b, "curves": [{"name": "c", "value": "v", "unit": "u", ' % (HEAD, RESULT)
    return head + text.encode() + b"}]}]}"


def result(more: bytes) -> bytes:
    return b"%b[%b, %b}]}" % (HEAD, RESULT, more)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"null",
        b'{"a": 1}',
        b'{"leaveout": "1", "results": 3}',
        HEAD + b"[3]}",
        HEAD + b"[{}]}",
        HEAD + b"[" + RESULT.replace(b"proved", b"perhaps") + b"}]}",
        HEAD + b"[" + RESULT.replace(b'"seconds": 1', b'"seconds": 1e999') + b"}]}",
        HEAD + b"[" + RESULT.replace(b'"upper": []', b'"upper": [1]') + b"}]}",
        result(b'"traces": [{"label": 0, "seconds": [1], "lower": [1], "upper": [1]}]'),
        result(b'"traces": [{"label": 0, "seconds": [2, 1], "lower": [1, 1], "upper": [1, 1]}]'),
        result(
            b'"groups": [{"label": 0, "groups": [{"parent": 0, "members": 1, "upper": 1, '
            b'"rows": []}]}]'
        ),
        result(b'"confidence": 1e999'),
        curve("[0, 1]", "[1]", "[1, 1]"),
        curve("[1, 0]", "[1, 1]", "[1, 1]"),
        curve("[0, 0]", "[1, 1]", "[1, 1]"),
        curve("[0]", "[1]", "[0.5]"),
        curve("[99999999999999999999]", "[1]", "[1]"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(tmp_path, data, snapshot):
    path = tmp_path / "r.json"
    path.write_bytes(data)
    with pytest.raises(PageError) as caught:
        load([str(path)])
    assert str(caught.value) == snapshot
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_file_says_how_to_make_one(tmp_path, snapshot):
    with pytest.raises(PageError) as told:
        load([str(tmp_path / "r.json")])
    assert str(told.value) == snapshot


def test_a_folder_is_no_file_of_results(tmp_path, snapshot):
    with pytest.raises(PageError) as told:
        load([str(tmp_path)])
    assert str(told.value) == snapshot


def test_an_older_file_without_curves_and_examples_is_read(tmp_path):
    path = tmp_path / "r.json"
    path.write_bytes(HEAD + b"[" + RESULT + b"}]}")
    (run,) = load([str(path)])
    assert run.report.results[0].curves == ()
    assert run.unread == ()


def test_a_file_named_twice_is_read_once(made):
    path = str(made.file(made.result()))
    assert len(load([path, path])) == 1


def test_files_of_one_name_are_called_by_their_paths(made):
    first = made.file(made.result())
    (made.folder / "other").mkdir()
    second = made.file(made.result(), name="other/r.json")
    assert [run.name for run in load([str(first), str(second)])] == [str(first), str(second)]


class TestTheSpecification:
    """What the statements say is shown where it can be read."""

    def test_it_is_read_beside_the_results(self, made):
        (run,) = load([str(made.file(made.result()))])
        written = run.statements[0].written
        assert str(written.statement) == (
            "guarantee half: certified_accuracy(dpa(V), edits = 8) >= 0.5"
        )
        assert [each.name for each in written.definitions] == ["V"]

    def test_its_name_is_enough_where_the_results_were_moved(self, made):
        path = made.file(made.result(), spec="guarantee half: abs(1) <= 2")
        path.write_text(path.read_text().replace("test.spec", "gone/away/test.spec"))
        (run,) = load([str(path)])
        assert run.statements[0].written is not None

    def test_without_it_the_page_says_so(self, made, snapshot):
        (run,) = load([str(made.file(made.result(), spec=None))])
        assert run.statements[0].written is None
        assert run.specification.missing == snapshot

    def test_a_file_that_is_no_specification_is_not_quoted(self, made, snapshot):
        text = made.page(made.result(), spec="root:x:0:secret\n")
        assert passages(text, "test.spec") == snapshot
        assert "secret" not in text

    def test_a_statement_of_another_kind_is_another_statement(self, made):
        (run,) = load([str(made.file(made.result(kind="find")))])
        assert run.statements[0].written is None

    def test_a_text_in_the_place_of_a_path_is_read_as_it_is(self, made):
        path = made.file(made.result(), spec=None)
        text = path.read_text().replace('"test.spec"', '"\\nguarantee half: abs(1) <= 2\\n"')
        path.write_text(text)
        (run,) = load([str(path)])
        assert str(run.statements[0].written.statement) == "guarantee half: abs(1) <= 2"

    def test_a_device_is_not_read(self, made):
        path = made.file(made.result(), spec=None)
        path.write_text(path.read_text().replace("test.spec", "/dev/zero"))
        (run,) = load([str(path)])
        assert run.specification.statements == {}
