"""``leaveout attest``: signed digests of all that a result rests on, and its verdicts."""

from __future__ import annotations

from pathlib import Path

from leaveout.verifier.cli.output import write_out
from leaveout.verifier.cli.parameters import argument, option


def attest(
    result: Path | None = argument(
        "Results, as verify --json writes them.", default=None, metavar="RESULT.json"
    ),
    key: Path | None = option(
        "Private key to sign with, in PEM. Without one, the statement is unsigned.", metavar="FILE"
    ),
    certificate: Path | None = option(
        "The certificate of the same run, as verify --certificate writes it.", metavar="FILE"
    ),
    files: list[Path] | None = option(
        "The specification's folder, if it has moved. May be repeated.", metavar="DIR"
    ),
    output: Path | None = option(
        "The attestation to write. An existing file is replaced only if it is an attestation.",
        "-o",
        "--output",
        metavar="FILE",
        shown="attestation.json next to the results",
    ),
    new_key: Path | None = option(
        "Create a key pair instead: NAME.key, the private key for signing, and NAME.pub, the "
        "public key to share.",
        metavar="NAME",
    ),
) -> None:
    """Write an attestation: digests of all files that the results rest on, and every verdict.

    The attestation is an in-toto statement in a DSSE envelope. Every file that the specification
    names must still be the file that was verified. leaveout check verifies the attestation.

    If the private key is encrypted, its passphrase is read from LEAVEOUT_KEY_PASSPHRASE, also when
    the key is created.

    For example: leaveout attest --new-key me, then leaveout attest result.json --key me.key

    Exit status: 0 the attestation is written, 2 bad input.
    """
    from leaveout.errors import SpecError
    from leaveout.verifier.evidence.attest import attest as run
    from leaveout.verifier.evidence.exports import ATTESTED, open_output
    from leaveout.verifier.evidence.parts import ATTESTATION
    from leaveout.verifier.evidence.signing import make_keys, read_signer

    if new_key is not None:
        if any(each is not None for each in (result, key, certificate, files, output)):
            raise SpecError("--new-key only creates keys; remove the other arguments")
        keyid = make_keys(new_key)
        write_out(f"{new_key}.key and {new_key}.pub: key {keyid}\n")
        return
    if result is None:
        raise SpecError("attest: name the results file that verify --json wrote")
    where = output or result.parent / ATTESTATION
    target = open_output(where, ATTESTED)
    signer = None if key is None else read_signer(key)
    found = run(result, where, signer=signer, certificate=certificate, files=files or ())
    target.write(found.content)
    signed = (
        f"signed by key {found.keyid}"
        if found.keyid
        else ("not signed; pass a private key with --key to sign")
    )
    notes = "".join(f"note: {note}\n" for note in found.notes)
    write_out(f"{notes}{where}: {found.digests} digests, {signed}\n")
