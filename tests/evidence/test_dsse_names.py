"""JSON in which a name stands twice is read by nobody in two ways."""

import json

import pytest

from leaveout.verifier.evidence.signing import decode_json, open_envelope
from leaveout.verifier.evidence.statement import TamperedError


@pytest.mark.parametrize(
    "text",
    [
        '{"payload": "a", "payload": "b", "payloadType": "t", "signatures": []}',
        '{"a": {"b": 1, "b": 1}}',
        '[{"b": 1}, {"c": 2, "c": 3}]',
    ],
)
def test_a_name_stands_once_in_an_object(text, snapshot):
    assert json.loads(text)
    with pytest.raises(TamperedError) as told:
        decode_json(text.encode(), "a.json")
    assert str(told.value) == snapshot
    with pytest.raises(TamperedError) as told:
        open_envelope(text.encode(), "a.json")
    assert str(told.value) == snapshot


def test_what_stands_once_is_read():
    assert decode_json(b'{"a": {"b": 1}, "b": [1, {"b": 2}]}', "x") == {
        "a": {"b": 1},
        "b": [1, {"b": 2}],
    }
