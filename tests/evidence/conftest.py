"""A signed folder of evidence, made once, of which tests change copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.attested import Attested, make_evidence


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """Return a folder with a specification, its files, keys, and evidence in ``proof``."""
    return make_evidence(tmp_path_factory.mktemp("made"))


@pytest.fixture
def attested(made, tmp_path, monkeypatch) -> Attested:
    """Return a copy that may be changed; it is the working directory."""
    folder = tmp_path / "copy"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return Attested(folder)
