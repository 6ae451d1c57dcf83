"""Files given to the wrong command: the message says what they are and what to do."""

from __future__ import annotations

import pytest

from leaveout.verifier.cli import run

RESULTS = '{"leaveout": "1", "spec": "a.spec", "results": []}'


@pytest.mark.parametrize(
    ("command", "name", "content", "cure"),
    [
        ("verify", "r.json", RESULTS, "'leaveout report FILE' shows results; name the .spec file"),
        ("verify", "t.csv", "age,ill\n1,no\n", "'leaveout train FILE --label COLUMN -o DIR'"),
        ("verify", "t.XLSX", "PK", "'leaveout train FILE --label COLUMN -o DIR'"),
        ("verify", "f.npz", "PK", "name the .spec file that uses it"),
        ("verify", "n.onnx", "x", "name the .spec file that uses it"),
        (
            "check",
            "r.json",
            RESULTS,
            "is a results file; 'leaveout verify SPEC --certificate FILE'",
        ),
        ("check", "a.spec", "let N = 1", "'leaveout verify SPEC --certificate FILE' writes one"),
        ("check", "folder", None, "'leaveout verify SPEC --evidence DIR' writes one"),
        ("report", "a.spec", "let N = 1", "'leaveout verify FILE --json result.json'"),
        ("rows", "a.spec", "let N = 1", "'leaveout verify FILE --json result.json'"),
    ],
)
def test_each_command_says_what_a_file_is_and_the_cure(
    tmp_path, capsys, command, name, content, cure
):
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    assert run([command, str(path)]) == 2
    stderr = capsys.readouterr().err
    assert (
        cure.replace("FILE' shows", f"{path}' shows")
        .replace("train FILE", f"train {path}")
        .replace("verify FILE", f"verify {path}")
        in stderr
    )
    assert stderr.count("\n") == 1


def test_a_folder_of_parts_is_not_guarded(tmp_path, capsys):
    (tmp_path / "ballots.npz").write_bytes(b"PK")
    assert run(["guard", str(tmp_path), "--epsilon", "1"]) == 2
    assert "contains no full.onnx; name a folder of leaveout train" in capsys.readouterr().err
