"""Chains of receipts: what follows is read, and nothing that was changed, dropped or moved."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.kernel.receipts import PAYLOAD_TYPE, check_chain, check_claim, read_chain
from leaveout.kernel.refusal import Rejected
from leaveout.models.train.receipts import Receipts, openings


def envelope(content):
    payload = base64.b64encode(content).decode()
    signed = [{"keyid": "k", "sig": "c2ln"}]
    return json.dumps(
        {"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": signed}
    ).encode()


def chain(count=6, sign=None, rows=100, unit="row"):
    """Return receipts of a model that loses rows, and the openings of their names."""
    found, held = Receipts(), {}
    left, model = rows, "model 0"
    found = found.then("train", rows, rows, model, (1e-9, 1e-9), {}, sign, unit)
    for at in range(1, count):
        own = openings(b"seed%d" % at, [f"P-{at}"])
        held |= own
        left, model = left - 1, f"model {at}"
        found = found.then("forget", 1, left, model, (1e-9, 1e-9), own, sign, unit)
    return found, held, model


def text(receipts):
    return b"".join(each.content + b"\n" for each in receipts.lines)


@pytest.mark.parametrize("sign", [None, envelope])
def test_a_chain_is_read_and_is_of_its_model(sign):
    receipts, held, model = chain(sign=sign)
    lines = check_chain(text(receipts), receipts.salt, model)
    assert lines == receipts.lines
    assert {each.keys for each in lines} == ({()} if sign is None else {("k",)})
    for other in ((receipts.salt, "model 4"), ("0" * 64, model)):
        with pytest.raises(Rejected, match="another model"):
            check_chain(text(receipts), *other)
    for at, (name, opening) in enumerate(held.items(), start=1):
        assert check_claim(lines, lines[at].content, {name: opening}).number == at + 1


@given(seed=st.integers(0, 10**6))
def test_no_forged_chain_is_read_with_the_receipt_that_somebody_keeps(seed):
    rng = np.random.default_rng(seed)
    receipts, _, model = chain(rng.integers(2, 8), rng.choice([None, envelope]))
    content = [each.content for each in receipts.lines]
    other, _, _ = chain(len(content))
    kept, at = content[-1], int(rng.integers(len(content)))
    forged = list(content)
    match rng.integers(8):
        case 0:
            forged.pop(at)
        case 1:
            to = int(rng.integers(len(content)))
            forged[at], forged[to] = forged[to], forged[at]
        case 2:
            forged.insert(at, forged[at])
        case 3:
            forged[at] = other.lines[at].content
        case 4:
            raw = bytearray(forged[at])
            raw[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
            forged[at] = bytes(raw)
        case 5:
            forged[at] = forged[at].replace(b'"left":', b'"left":1', 1) + b" "
        case 6:
            forged = [each.content for each in other.lines]
        case _:
            forged = forged[: max(at, 1)]
    if forged == content:
        return
    with pytest.raises(Rejected):
        found = check_chain(b"".join(each + b"\n" for each in forged), receipts.salt, model)
        check_claim(found, kept, {})


CHANGES = {
    "number": 3, "action": "add", "time": "2020-01-01T00:00:00+00:00", "rows": 2, "left": 97,
    "removed": [], "model": "0" * 64, "before": "0" * 64, "previous": "0" * 64, "coefficients": -1,
    "format": "leaveout receipt 1", "more": 1, "unit": "group", "scores": "small",
}  # fmt: skip


@pytest.mark.parametrize("field", sorted(set(CHANGES) - {"model"}))
def test_a_receipt_that_does_not_follow_is_named(field, snapshot):
    receipts, _, _ = chain(2)
    raw = {**json.loads(receipts.lines[1].content), field: CHANGES[field]}
    content = receipts.lines[0].content + b"\n" + json.dumps(raw).encode() + b"\n"
    with pytest.raises(Rejected) as told:
        read_chain(content)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"[1]\n", b'{"payload": 1}\n', b"\xff\n"])
def test_what_is_no_chain_is_refused(content):
    with pytest.raises(Rejected):
        read_chain(content)


def test_another_row_is_not_what_a_receipt_is_about():
    receipts, held, _ = chain(3)
    own = receipts.lines[1].content
    for wrong in ({"P-2": held["P-2"]}, {"P-1": held["P-2"]}, {"P-1": ""}):
        with pytest.raises(Rejected, match="is not about"):
            check_claim(receipts.lines, own, wrong)
    with pytest.raises(Rejected, match="another one"):
        check_claim(receipts.lines[:1], own, {})


def test_a_long_chain_is_read():
    receipts, _, model = chain(1000, envelope, 2000)
    assert len(check_chain(text(receipts), receipts.salt, model)) == 1000
