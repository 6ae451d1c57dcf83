"""The text of a specification beside its results."""

from __future__ import annotations

import hashlib

from leaveout.verifier.page.spec_text import read_specification


def test_a_file_that_was_changed_since_is_left_out(tmp_path, snapshot):
    (tmp_path / "a.spec").write_text("guarantee g: 1 < 2\n")
    digest = hashlib.sha256((tmp_path / "a.spec").read_bytes()).hexdigest()
    assert read_specification("a.spec", tmp_path, digest).statement("g", "guarantee")
    (tmp_path / "a.spec").write_text("guarantee g: 1 < 3\n")
    found = read_specification("a.spec", tmp_path, digest)
    assert not found.statements
    assert found.missing == snapshot
