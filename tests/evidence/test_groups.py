"""Evidence about rows does not pass as evidence about groups, nor the other way round."""

import json

import pytest

from leaveout.verifier.cli import run

ROWS = [(f"P{i * 7 % 5}", 20 + i * 13 % 60, i * 37 % 20) for i in range(24)]
TABLE = "patient,age,ill\n" + "".join(
    f"{who},{age},{'yes' if age + luck > 60 else 'no'}\n" for who, age, luck in ROWS
)
NOTE = "'row' and 'record' mean all rows with the same 'patient'; they are left out together"


@pytest.fixture(scope="module", params=["--drop", "--group"])
def evidence(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "t.csv").write_text(TABLE)
    train = ["forest", "train", folder / "t.csv", "--label", "ill", request.param, "patient"]
    options = ["--trees", 5, "--depth", 3, "--share", 0.5, "-o", folder / "f"]
    assert run([str(each) for each in (*train, *options)]) == 0
    spec = folder / "f" / "forest.spec"
    assert run(["verify", str(spec), "--evidence", str(folder / "e"), "--time", "36000"]) == 0
    return folder


def check(folder, change):
    """Return the exit status of a check of results that were changed and attested."""
    results = json.loads((folder / "e" / "result.json").read_text())
    changed = change(results)
    made = folder / "changed"
    made.mkdir(exist_ok=True)
    (made / "certificate.npz").write_bytes((folder / "e" / "certificate.npz").read_bytes())
    (made / "result.json").write_text(json.dumps(changed))
    attest = ["attest", made / "result.json", "--certificate", made / "certificate.npz"]
    where = ["-o", made / "attestation.json"]
    (made / "attestation.json").unlink(missing_ok=True)
    if run([str(each) for each in (*attest, *where)]):
        return 1
    return run(["check", str(made), "--files", str(folder)])


def noted(notes):
    return lambda results: {**results, "notes": notes}


def trained(group, **more):
    def change(results):
        training = [{**each, "group": group} for each in results["training"]]
        notes = [NOTE] if group else []
        return {**results, "training": training, "notes": notes, **more}

    return change


def test_true_results_are_accepted(evidence):
    assert check(evidence, lambda results: results) == 0


def what_a_row_is(results):
    groups = [each.get("group", "") for each in results["training"]]
    return groups, [note for note in results["notes"] if note.startswith(NOTE[:30])]


@pytest.mark.parametrize(
    "change",
    [
        trained("patient"),
        trained("patient", files=[]),
        trained("", files=[]),
        trained(""),
        trained("family", files=[]),
        noted([NOTE]),
        noted([NOTE.replace("patient", "family")]),
        noted([]),
        noted([NOTE, NOTE]),
    ],
)
def test_what_a_row_is_cannot_be_changed(evidence, change):
    true = json.loads((evidence / "e" / "result.json").read_text())
    if what_a_row_is(change(true)) == what_a_row_is(true):
        pytest.skip("nothing is changed")
    assert check(evidence, change) == 1


def leak(**fields):
    def change(results):
        first, *others = results["results"]
        return {
            **results,
            "results": [{**first, "witness": {**first["witness"], **fields}}, *others],
        }

    return change


def rows(**fields):
    def change(results):
        (own,) = results["by_row"]
        return {**results, "by_row": [{**own, **fields}]}

    return change


@pytest.mark.parametrize(
    "change",
    [
        leak(removed=23),
        leak(removed_id="P-99"),
        leak(group="family"),
        leak(member_label=7),
        leak(other=True),
        rows(ids=["P-99"] * 5),
        rows(group="family"),
        rows(network_sha256="00"),
    ],
)
def test_a_leak_or_a_bound_of_one_is_not_of_another(evidence, change):
    assert check(evidence, change) == 1


def test_a_leak_told_in_other_words_proves_nothing(evidence):
    assert check(evidence, leak(words="nobody's record changes any answer")) == 3
