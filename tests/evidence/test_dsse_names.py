"""JSON in which a name stands twice is read by nobody in two ways."""

import json

import pytest

from leaveout.verifier.evidence.dsse import decoded, opened
from leaveout.verifier.evidence.errors import TamperedError


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
        decoded(text.encode(), "a.json:")
    assert str(told.value) == snapshot
    with pytest.raises(TamperedError) as told:
        opened(text.encode(), "a.json")
    assert str(told.value) == snapshot


def test_what_stands_once_is_read():
    assert decoded(b'{"a": {"b": 1}, "b": [1, {"b": 2}]}', "x") == {
        "a": {"b": 1},
        "b": [1, {"b": 2}],
    }
