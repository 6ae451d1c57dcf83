"""Requests on one connection: where each ends is beyond doubt, or the connection ends."""

from __future__ import annotations

import re
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.server import ambiguity

from support.depth import rounds
from support.served import in_thread


@pytest.fixture(scope="module")
def port(leaky, tmp_path_factory):
    memory = tmp_path_factory.mktemp("memory") / "answers.sqlite"
    with Guard.load(leaky.folder, 0.5, memory=memory) as guard, in_thread(guard) as found:
        yield found


def exchanged(port: int, sent: bytes) -> list[bytes]:
    """Return the status of each response to bytes on one connection, until the server ends it."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(sent)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    return re.findall(rb"HTTP/1\.1 (\d+)", received)


BODY = b'{"x": [0, 1]}'
HIDDEN = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = HIDDEN[:-2] + b"Connection: close\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


def posted(fields: bytes, body: bytes) -> bytes:
    kind = b"Content-Type: application/json\r\n"
    return b"POST /label HTTP/1.1\r\nHost: a\r\n" + kind + fields + b"\r\n" + body


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (LENGTH + b"Transfer-Encoding: chunked\r\n", CHUNKED),
        (b"transfer-encoding:chunked\r\ncontent-length:4\r\n", CHUNKED),
        (b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + HIDDEN),
        (LENGTH + LENGTH, BODY),
        (LENGTH + b"Content-Length: 2\r\n", BODY),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
        (b"Transfer-Encoding:\r\n chunked\r\n", CHUNKED),
        (LENGTH + b"X-Folded: a\r\n\tContent-Length: 2\r\n", BODY),
        (b"Transfer-Encoding : chunked\r\n" + LENGTH, BODY),
        (b"Transfer-Encoding: identity\r\n", BODY),
        (LENGTH + b"Host: b\r\n", BODY),
    ],
)
@pytest.mark.parametrize("first", [b"", HIDDEN, posted(LENGTH, BODY)], ids=["first", "get", "post"])
def test_requests_whose_end_is_ambiguous_end_the_connection(port, fields, body, first):
    statuses = exchanged(port, first + posted(fields, body) + HIDDEN)
    assert statuses == [b"200"] * bool(first) + [b"400"]


def test_requests_with_one_end_are_answered_one_after_another(port):
    chunked = posted(b"Transfer-Encoding: chunked\r\n", CHUNKED)
    assert exchanged(port, posted(LENGTH, BODY) + HIDDEN + chunked + LAST) == [b"200"] * 4
    listed = posted(LENGTH + b"X-Said: Content-Length: 2, Transfer-Encoding: chunked\r\n", BODY)
    assert exchanged(port, listed + LAST) == [b"200"] * 2


@settings(max_examples=rounds(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from([LENGTH, b"Transfer-Encoding: chunked\r\n", b"X: 1\r\n"])))
def test_a_request_with_two_lengths_is_told_however_it_arrives(fields):
    head = posted(b"".join(fields), b"")
    count = len([field for field in fields if b"X" not in field])
    assert (ambiguity(head + BODY) is not None) == (count > 1)
    assert all(ambiguity(head[:end]) is None for end in range(len(head)))


@pytest.mark.parametrize(
    "body",
    [
        b"d\r\n" + BODY + b"XX0\r\n\r\n",
        b"d\r\n" + BODY + b"\n\n0\r\n\r\n",
        b"d\r\n" + BODY + b"0\r\n\r\n",
        b"0xd\r\n" + BODY + b"\r\n0\r\n\r\n",
        b"+d\r\n" + BODY + b"\r\n0\r\n\r\n",
        b"d \x0b\r\n" + BODY + b"\r\n0\r\n\r\n",
    ],
)
def test_a_chunk_that_ends_in_two_ways_ends_the_connection(port, body):
    """Releases of h11 before 0.16 took any two bytes for the end of a chunk."""
    statuses = exchanged(port, posted(b"Transfer-Encoding: chunked\r\n", body) + HIDDEN)
    assert statuses in ([b"400"], [])
