"""Keys: who may read them, passphrases, and what is missing said in a line."""

from __future__ import annotations

import stat
import sys

import pytest

from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence.signing import PASSPHRASE, make_keys, read_public, read_signer
from leaveout.verifier.evidence.statement import EvidenceError


def test_a_private_key_is_its_owners_alone_and_both_have_one_id(tmp_path):
    keyid = make_keys(tmp_path / "k")
    assert stat.S_IMODE((tmp_path / "k.key").stat().st_mode) == 0o600
    assert read_public(tmp_path / "k.pub").keyid == keyid
    assert read_signer(tmp_path / "k.key").public_key.keyid == keyid


def test_keys_are_never_written_over(tmp_path, snapshot):
    make_keys(tmp_path / "k")
    before = (tmp_path / "k.key").read_bytes()
    (tmp_path / "k.pub").unlink()
    with pytest.raises(EvidenceError) as told:
        make_keys(tmp_path / "k")
    assert str(told.value) == snapshot
    assert (tmp_path / "k.key").read_bytes() == before


def test_a_passphrase_locks_a_key(tmp_path, monkeypatch, snapshot):
    monkeypatch.setenv(PASSPHRASE, "open sesame")
    keyid = make_keys(tmp_path / "k")
    assert b"ENCRYPTED" in (tmp_path / "k.key").read_bytes()
    assert read_signer(tmp_path / "k.key").public_key.keyid == keyid
    monkeypatch.setenv(PASSPHRASE, "wrong")
    with pytest.raises(EvidenceError) as told:
        read_signer(tmp_path / "k.key")
    assert str(told.value) == snapshot
    monkeypatch.delenv(PASSPHRASE)
    with pytest.raises(EvidenceError) as told:
        read_signer(tmp_path / "k.key")
    assert str(told.value) == snapshot


def test_a_passphrase_for_a_key_that_has_none_is_said(tmp_path, monkeypatch, snapshot):
    make_keys(tmp_path / "k")
    monkeypatch.setenv(PASSPHRASE, "x")
    with pytest.raises(EvidenceError) as told:
        read_signer(tmp_path / "k.key")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("library", ["securesystemslib", "cryptography"])
def test_without_the_libraries_the_cure_is_said(tmp_path, monkeypatch, capsys, library, snapshot):
    for name in list(sys.modules):
        if name.partition(".")[0] == library:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    assert run(["attest", "--new-key", str(tmp_path / "k")]) == 2
    said = capsys.readouterr().err
    assert said == snapshot
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_other_kinds_of_keys_sign_and_verify_too(attested, capsys):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (attested.folder / "ec.key").write_bytes(private)
    (attested.folder / "ec.pub").write_bytes(public)
    command = ["attest", "proof/result.json", "--key", "ec.key"]
    assert run([*command, "--certificate", "proof/certificate.npz"]) == 0
    assert run(["check", "proof/attestation.json", "--key", "ec.pub"]) == 0
    assert run(["check", "proof/attestation.json", "--key", "me.pub"]) == 1
