"""The recipe for a voting scheme, followed in a copy of the program."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from docs.pages import ROOT

from leaveout.models.votes import Ballots, Origin, write_ballots

from support.recipes import copied, insert, python, steps
from support.snapshots import passages
from support.votes import random_ballots

ENTRY, RULE, TEST, CLAIMS = steps("## Adding a voting scheme")
HELP = ROOT / "tests", ROOT / "benchmarks"

POINTS, PARTS, LABELS = 8, 6, 3

FORGE = """
import copy
import sys
from pathlib import Path

import leaveout
from attacks.certificate_content import Content
from leaveout.errors import LeaveoutError
from leaveout.verifier.certify.check import check

assert Path(leaveout.__file__).is_relative_to(Path.cwd())
content = Content.of(Path("c.cert"))


def forge(say, change):
    forged = copy.deepcopy(content)
    change({each["name"]: each for each in forged.manifest["values"]["statements"]}, forged.arrays)
    forged.save(Path("false.cert"))
    try:
        accepted = bool(check(Path("false.cert")))
    except LeaveoutError as error:
        accepted = False
        say = f"{say}: {error}"
    print(accepted, say)


def claim_more(statements, arrays):
    statements["each"]["claim"]["right"]["value"] = sys.argv[1]


def claim_more_together(statements, arrays):
    statements["together"]["claim"]["right"]["value"] = sys.argv[2]
    for name in arrays:
        if name.endswith("upper"):
            arrays[name] = arrays[name] * 0


def allow_more(statements, arrays):
    statements["each"]["claim"]["left"]["given"]["edits"]["value"] = "4"


def give_options(statements, arrays):
    vote = statements["each"]["claim"]["left"]["given"]["votes"]
    vote["given"]["certificate"] = {"type": "word", "value": "published"}


def do_nothing(statements, arrays):
    pass


for change in (do_nothing, claim_more, claim_more_together, allow_more, give_options):
    forge(change.__name__, change)
"""


def answered(ballot):
    counts = np.bincount(ballot, minlength=LABELS)
    return int(counts.argmax()) if 3 * counts.max() >= 2 * PARTS else 0


def kept(votes, truth, edits):
    """Return how many points stay right whatever becomes of any members, each and together."""
    safe, fewest = [True] * POINTS, POINTS
    for members in combinations(range(PARTS), edits):
        stays = [
            all(answered(with_votes(row, members, cast)) == label for cast in every(edits))
            for row, label in zip(votes, truth, strict=True)
        ]
        safe = [one and other for one, other in zip(safe, stays, strict=True)]
        fewest = min(fewest, sum(stays))
    return sum(safe), fewest


def every(edits):
    return product(range(LABELS), repeat=edits)


def with_votes(row, members, cast):
    changed = row.copy()
    changed[list(members)] = cast
    return changed


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the program with what the recipe adds, and ballots."""
    folder = tmp_path_factory.mktemp("copy")
    copied(folder)
    insert(folder / "kernel" / "voting.py", "SCHEMES: dict[str, Scheme] = {\n", ENTRY)
    rules = folder / "kernel" / "schemes.py"
    rules.write_text(f"{rules.read_text()}\n\n{RULE}")
    (folder / "test_two_thirds.py").write_text(TEST)
    origin = Origin(method="dpa", hash_reads_label=False)
    write_ballots(Ballots(*ballots(), LABELS, origin=origin), folder / "ballots.npz")
    (folder / "a.spec").write_text(CLAIMS)
    for more in (("--certificate", "c.cert", "--json", "r.json"), ("--evidence", "proof")):
        verified = python(folder, "-m", "leaveout", "verify", "a.spec", *more)
        assert verified.returncode == 0, verified.stdout + verified.stderr
    return folder


def ballots():
    votes, truth = random_ballots(np.random.default_rng(124), POINTS, PARTS, LABELS)
    votes[:5] = truth[:5, None]
    votes[range(1, 5), range(1, 5)] = 0  # one member each is against the others
    return votes, truth


def test_its_own_test_holds(copy):
    done = python(
        copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_two_thirds.py", more=HELP
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_its_claims_are_decided_as_every_attack_decides_them(copy):
    votes, truth = ballots()
    results = {each["name"]: each for each in json.loads((copy / "r.json").read_text())["results"]}
    assert {each["verdict"] for each in results.values()} == {"proved"}
    for name, right in (("each", kept(votes, truth, 1)[0]), ("together", kept(votes, truth, 2)[1])):
        assert results[name]["lower"] == results[name]["upper"] == right / POINTS
    assert kept(votes, truth, 0) == (6, 6)
    assert kept(votes, truth, 1)[0] == 5
    assert kept(votes, truth, 2) == (1, 2)


def test_everything_that_is_written_of_votes_is_written_of_it(copy, snapshot):
    def run(*command):
        done = python(copy, "-m", "leaveout", *command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("functions", "two_thirds") == snapshot
    assert run("check", "c.cert").count(" accepted ") == 4
    assert "accepted; 4 of 4 results proved again" in run("check", "proof")
    run("report", "r.json")
    assert passages((copy / "report.html").read_text(), "two_thirds") == snapshot
    assert "defend against undetected poisoning" in (copy / "proof" / "standards.md").read_text()
    assert "two_thirds" in run("warm", "two_thirds")


def test_what_is_false_of_it_is_refused(copy):
    votes, truth = ballots()
    more = (
        Fraction(kept(votes, truth, 1)[0] + 1, POINTS),
        Fraction(kept(votes, truth, 2)[1] + 1, POINTS),
    )
    done = python(copy, "-c", FORGE, *map(str, more), more=HELP)
    assert done.returncode == 0, done.stderr
    accepted = [line.split()[:2] for line in done.stdout.splitlines()]
    assert accepted[0] == ["True", "do_nothing"], done.stdout
    assert [each for each, _ in accepted[1:]] == ["False"] * 4, done.stdout


def test_a_rule_that_promises_too_much_is_seen_by_its_test(copy, tmp_path):
    copied(tmp_path)
    for name in ("voting.py", "schemes.py"):
        text = (copy / "kernel" / name).read_text()
        (tmp_path / "kernel" / name).write_text(
            text.replace("- _quorum(counts) + 1", "- _quorum(counts) + 2")
        )
    done = python(
        tmp_path,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        copy / "test_two_thirds.py",
        more=HELP,
    )
    assert done.returncode == 1, done.stdout
