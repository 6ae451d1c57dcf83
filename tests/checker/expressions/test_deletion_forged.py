"""Certificates of services and audits, changed from the inside to claim more than is true."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest

from leaveout.errors import CertificateError, RejectedError
from leaveout.verifier.audits.membership import advantage, read_audit
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run

from support.audits import arrays_of, views_arrays
from support.certificates import Content

PRIVATE = """shards = 100
mechanism = "exponential"
epsilon = 0.001
predictions = 100
labels = 2
rows = 5000
"""
SERVICES = """
let S = sharded("service.toml")
let P = sharded("plain.toml")
guarantee kept: unlearns(S, updates = adaptive, alpha = 0.8806, beta = 1e-3, gamma = 1e-3)
guarantee few: unlearns(S, updates = adaptive, alpha = 7, beta = 1e-3, gamma = 0)
guarantee told: unlearns(P, updates = adaptive, alpha = 3, beta = 1e-3, gamma = 1e-3)
guarantee calm: unlearns(P, updates = oblivious, alpha = 0, beta = 0, gamma = 0)
"""
AUDITS = """
let A = audit("same.npz")
let L = audit("leak.npz")
let E = audit("events.npz")
guarantee hidden: membership_advantage(A) <= {most} with confidence 0.95
guarantee shown: membership_advantage(L) >= {least} with confidence 0.95
guarantee record: membership_advantage(L, unit = records) >= {one} with confidence 0.95
guarantee counted: membership_advantage(E) >= {event} with confidence 0.95
find apart: least x such that membership_advantage(L) <= x with confidence 0.95
"""
HAIR = 1e-6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write both kinds of files, and a certificate of each, with numbers at the edge of truth."""
    folder = tmp_path_factory.mktemp("forged deletions")
    (folder / "service.toml").write_text(PRIVATE)
    (folder / "plain.toml").write_text('shards = 3\nmechanism = "majority"\nrows = 1000\n')
    rng = np.random.default_rng(3)
    np.savez(folder / "same.npz", **views_arrays(rng, 150, 2, 0.0, original=False))
    np.savez(folder / "leak.npz", **views_arrays(rng, 30, 3, 5.0, original=False))
    np.savez(folder / "events.npz", **arrays_of((90, 100, 40, 100), (3, 50, 9, 60)))
    same, leak, events = (read_audit(folder / f"{n}.npz") for n in ("same", "leak", "events"))
    numbers = {
        "most": math.ceil(advantage(same, 0.95).upper / HAIR) * HAIR + HAIR,
        "least": math.floor(advantage(leak, 0.95).lower / HAIR) * HAIR - HAIR,
        "one": math.floor(advantage(leak, 0.95, "records").lower / HAIR) * HAIR - HAIR,
        "event": math.floor(advantage(events, 0.95).lower / HAIR) * HAIR - HAIR,
    }
    assert all(0.1 < value < 0.99 for value in numbers.values())
    texts = {key: f"{value:.7f}" for key, value in numbers.items()}
    for name, text in (("services", SERVICES), ("audits", AUDITS.format(**texts))):
        (folder / f"{name}.spec").write_text(text)
        run(["verify", str(folder / f"{name}.spec"), "--certificate", str(folder / name)])
    return folder


def forged(folder, name, change):
    """Return why a certificate is not accepted once it was changed."""
    content = Content.of(folder / name)
    change(content)
    content.save(folder / f"{name}.forged")
    with pytest.raises((RejectedError, CertificateError)) as caught:
        check(folder / f"{name}.forged")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def statement(content, name):
    return next(each for each in content.manifest["values"]["statements"] if each["name"] == name)


def call_of(claim):
    """Return the call of a claim, and the number it is compared with."""
    return (claim, None) if claim["type"] == "call" else (claim["left"], claim["right"])


def numbered(name, **numbers):
    """Change numbers of a call, or with ``against`` what it is compared with."""

    def change(content):
        call, other = call_of(statement(content, name)["claim"])
        for key, value in numbers.items():
            place = other if key == "against" else call["given"][key]
            place["value"] = str(Fraction(value))

    return change


def moved(name, step):
    """Change what a call is compared with by so much."""

    def change(content):
        _, other = call_of(statement(content, name)["claim"])
        other["value"] = str(Fraction(other["value"]) + Fraction(step))

    return change


def stated(name, **fields):
    return lambda content: statement(content, name).update(fields)


def proof(name, **arrays):
    """Change arrays of the proof of a statement's call; None drops one."""

    def change(content):
        call, _ = call_of(statement(content, name)["claim"])
        prefix = content.manifest["values"]["proofs"][str(call["number"])]
        for key, array in arrays.items():
            content.arrays.pop(f"{prefix}.{key}", None)
            if array is not None:
                content.arrays[f"{prefix}.{key}"] = np.asarray(array)

    return change


def ended(end, step):
    """Change an end of what is sought."""

    def change(content):
        asked = statement(content, "apart")["find"]
        asked[end] = str(Fraction(asked[end]) + Fraction(step))

    return change


def both(*changes):
    def change(content):
        for each in changes:
            each(content)

    return change


def worded(name, key, word):
    def change(content):
        call, _ = call_of(statement(content, name)["claim"])
        call["given"][key] = {"type": "word", "value": word}

    return change


def renamed(name, key, other):
    """Let a call be of what another name stands for."""

    def change(content):
        call, _ = call_of(statement(content, name)["claim"])
        call["given"][key]["name"] = other

    return change


def sited(name, other):
    """Give a call the proof of another."""

    def change(content):
        call_of(statement(content, name)["claim"])[0]["number"] = call_of(
            statement(content, other)["claim"]
        )[0]["number"]

    return change


def test_what_was_written_is_accepted(folder):
    for name, count in (("services", 4), ("audits", 5)):
        assert len(Content.of(folder / name).manifest["values"]["statements"]) == count
        check(folder / name)


SERVICE_FORGERIES = {
    "alpha a hair below": numbered("kept", alpha="0.8804"),
    "alpha 0": numbered("kept", alpha=0),
    "alpha less than 0": numbered("kept", alpha=-1),
    "alpha much smaller": numbered("kept", alpha="1/100"),
    "beta smaller": numbered("kept", beta="9/10000"),
    "gamma smaller": numbered("kept", gamma="9/10000"),
    "beta 0": numbered("kept", beta=0),
    "gamma 0": numbered("kept", gamma=0),
    "beta less than 0": numbered("kept", beta=-1),
    "refuted": stated("kept", verdict="refuted"),
    "route added": proof("kept", route=[0]),
    "route moments without order": proof("kept", route=[1]),
    "route moments": proof("kept", route=[1], order=[5.0]),
    "route together": proof("kept", route=[2]),
    "route unknown": proof("kept", route=[4]),
    "route negative": proof("kept", route=[-1]),
    "route huge": proof("kept", route=[2**62]),
    "route a float": proof("kept", route=[3.0]),
    "route twice": proof("kept", route=[3, 3]),
    "no route": proof("kept", route=None),
    "bound below": proof("kept", bound=[0.88]),
    "bound above": proof("kept", bound=[0.9]),
    "bound negative": proof("kept", bound=[-1.0]),
    "bound not a number": proof("kept", bound=[np.nan]),
    "bound infinite": proof("kept", bound=[np.inf]),
    "bound in a table": proof("kept", bound=[[0.88]]),
    "no bound": proof("kept", bound=None),
    "alpha and bound": both(numbered("kept", alpha="0.88"), proof("kept", bound=[0.88])),
    "share 0": proof("kept", share=[0.0]),
    "share 1": proof("kept", share=[1.0]),
    "share above": proof("kept", share=[1.5]),
    "share negative": proof("kept", share=[-0.5]),
    "share tiny": proof("kept", share=[5e-324]),
    "the proof of another": sited("kept", "told"),
    "no proof": lambda content: content.manifest["values"]["proofs"].clear(),
    "another service": renamed("kept", "service", "P"),
    "no service": renamed("kept", "service", "Q"),
    "updates of no kind": worded("kept", "updates", "random"),
    "gamma of moments is not 0": numbered("few", gamma=-1),
    "order 0": proof("few", order=[0.0]),
    "order negative": proof("few", order=[-1.0]),
    "order huge": proof("few", order=[1e308]),
    "order tiny": proof("few", order=[1e-300]),
    "order not a number": proof("few", order=[np.nan]),
    "few alpha": numbered("few", alpha="1/2"),
    "few beta": numbered("few", beta=0),
    "told proved": stated("told", verdict="proved"),
    "told of a larger alpha": numbered("told", alpha=100),
    "told of an alpha beyond all": numbered("told", alpha=10**9),
    "told with beta 1": numbered("told", beta=1),
    "told with gamma near 1": numbered("told", gamma=1 - Fraction(1, 10**60)),
    "one point": proof("told", points=[1]),
    "no point": proof("told", points=[0]),
    "more points than rows": proof("told", points=[501]),
    "very many points": proof("told", points=[2**62]),
    "no copy": proof("told", copies=[0]),
    "negative copies": proof("told", copies=[-2], points=[-2]),
    "so many copies that all are right": proof("told", copies=[100], points=[10]),
    "copies a float": proof("told", copies=[2.0]),
    "told of the private one": renamed("told", "service", "S"),
    "told without a proof": proof("told", copies=None),
    "calm refuted": stated("calm", verdict="refuted"),
    "calm but adaptive": worded("calm", "updates", "adaptive"),
    "another digest": lambda content: content.manifest["values"]["files"][0].update(
        sha256="0" * 64
    ),
}


@pytest.mark.parametrize("name", SERVICE_FORGERIES)
def test_a_forged_certificate_of_services_is_rejected(folder, name):
    assert forged(folder, "services", SERVICE_FORGERIES[name])


AUDIT_FORGERIES = {
    "less than the upper end": moved("hidden", -3 * HAIR),
    "much less": moved("hidden", "-1/10"),
    "surer": stated("hidden", confidence="951/1000"),
    "hidden refuted": stated("hidden", verdict="refuted"),
    "hidden for certain": stated("hidden", confidence=None),
    "hidden at confidence 1": stated("hidden", confidence="1"),
    "hidden beyond 1": stated("hidden", confidence="3/2"),
    "hidden below 0": stated("hidden", confidence="-1/2"),
    "hidden of the leak": renamed("hidden", "audit", "L"),
    "more than the lower end": moved("shown", 3 * HAIR),
    "shown with certainty": stated("shown", confidence=None),
    "shown a little surer": stated("shown", confidence="96/100"),
    "shown refuted": stated("shown", verdict="refuted"),
    "shown of what hides": renamed("shown", "audit", "A"),
    "shown of one record": worded("shown", "unit", "records"),
    "shown of no unit": worded("shown", "unit", "events"),
    "one record, more": moved("record", 3 * HAIR),
    "one record, surer": stated("record", confidence="96/100"),
    "one record of events": renamed("record", "audit", "E"),
    "events, more": moved("counted", 3 * HAIR),
    "events, surer": stated("counted", confidence="951/1000"),
    "events, refuted": stated("counted", verdict="refuted"),
    "events of records": worded("counted", "unit", "records"),
    "sought, lower end up": ended("lower", HAIR),
    "sought, upper end down": ended("upper", -HAIR),
    "sought, upper end below the lower": ended("upper", -2),
    "sought, surer": stated("apart", confidence="99/100"),
    "sought, for certain": stated("apart", confidence=None),
    "sought, greatest": lambda content: statement(content, "apart")["find"].update(
        direction="greatest"
    ),
    "sought, none": stated("apart", verdict="refuted"),
    "another digest": lambda content: content.manifest["values"]["files"][1].update(
        sha256="f" * 64
    ),
}


@pytest.mark.parametrize("name", AUDIT_FORGERIES)
def test_a_forged_certificate_of_audits_is_rejected(folder, name):
    assert forged(folder, "audits", AUDIT_FORGERIES[name])


def test_there_are_enough_forgeries():
    assert len(SERVICE_FORGERIES) + len(AUDIT_FORGERIES) >= 60


def with_file(folder, name, certificate, write):
    """Return why a certificate is rejected whose file was changed, and its digest with it."""
    path = folder / name
    before = path.read_bytes()
    try:
        write(path)
        message = forged(folder, certificate, lambda content: None)
        assert "SHA-256" in message

        def digest(content):
            for each in content.manifest["values"]["files"]:
                if each["path"].endswith(name):
                    each["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

        return forged(folder, certificate, digest)
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.001", "0.0011"),
        ("0.001", "1e300"),
        ("0.001", "0.0"),
        ("= 100\nlabels", "= 101\nlabels"),
        ("= 100\nlabels", "= 1000000\nlabels"),
        ("shards = 100", "shards = 101"),
        ("exponential", "noisy_max"),
        ("exponential", "majority"),
        ("labels = 2\n", ""),
        ("labels = 2\n", "labels = 50\n"),
        ("rows = 5000", ""),
    ],
)
def test_other_settings_do_not_keep_what_was_claimed(folder, old, new):
    text = PRIVATE.replace(old, new)
    assert text != PRIVATE
    assert with_file(folder, "service.toml", "services", lambda path: path.write_text(text))


def arms_equal(arrays):
    return {**arrays, "unlearned": arrays["retrained"]}


def one_trial(arrays):
    """All rows are of one model."""
    return {**arrays, "trial": np.zeros_like(arrays["trial"])}


def half_as_many(arrays):
    return {name: array[: len(array) // 2] for name, array in arrays.items()}


def forgotten_swapped(arrays):
    return {**arrays, "forgotten": ~arrays["forgotten"]}


def those_that_count_equal(arrays):
    late = arrays["trial"] >= 10
    return {
        **arrays,
        "unlearned": np.where(late[:, None], arrays["retrained"], arrays["unlearned"]),
    }


@pytest.mark.parametrize(
    "change", [arms_equal, one_trial, half_as_many, forgotten_swapped, those_that_count_equal]
)
def test_other_trials_do_not_show_what_was_claimed(folder, change):
    def write(path):
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
        np.savez(path, **change(arrays))

    assert with_file(folder, "leak.npz", "audits", write)


@pytest.mark.parametrize(
    "events", [(89, 100, 40, 100), (90, 100, 41, 100), (90, 101, 40, 100), (45, 50, 20, 50)]
)
def test_other_counts_do_not_show_what_was_claimed(folder, events):
    changed = arrays_of(events, (3, 50, 9, 60))
    assert with_file(folder, "events.npz", "audits", lambda path: np.savez(path, **changed))
