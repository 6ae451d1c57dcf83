"""Who may ask a served guard, how much, and what is told of it."""

from __future__ import annotations

import hashlib
import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.errors import GuardError
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.server_app import PATHS
from leaveout.verifier.guard.server_gate import (
    FREE,
    Counts,
    Hosts,
    Rates,
    counter_count,
    neighbourhood,
)
from leaveout.verifier.guard.server_keys import Keys, add_key
from leaveout.verifier.guard.server_processes import SLOTS, Shared
from leaveout.verifier.guard.server_settings import ServeSettings

from support.served import JSON, Asker, in_thread, process

QUESTION = {"x": [0.25, 0.5]}


def bearing(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {key}".encode())]


@pytest.fixture(scope="module")
def guard(leaky, tmp_path_factory):
    with Guard.load(leaky.folder, 0.5, memory=tmp_path_factory.mktemp("m") / "m") as opened:
        yield opened


@pytest.fixture
def asked(guard, tmp_path):
    """A server with two keys and a rate, and the keys."""
    path = tmp_path / "keys"
    keys = {name: add_key(path, name) for name in ("alice", "bob")}
    settings = ServeSettings(pad=0.0, keys=path, rate=0.01, burst=5.0)
    with in_thread(guard, settings=settings) as port:
        asker = Asker(port)
        yield asker, keys
        asker.close()


def authorised(key: str | bytes) -> dict:
    value = key if isinstance(key, bytes) else key.encode()
    return {**JSON, "Authorization": b"Bearer " + value}


def test_only_who_has_a_key_is_answered(asked):
    asker, keys = asked
    assert asker.ask(QUESTION, headers=authorised(keys["alice"])).status == 200
    for headers in [
        JSON,
        authorised("wrong"),
        authorised(keys["alice"][:-1]),
        authorised(keys["alice"] + "x"),
        authorised(b"\xff\xfe\x00"[:2]),
        authorised("ü".encode("latin-1")),
        {**JSON, "Authorization": f"Basic {keys['alice']}"},
        {**JSON, "Authorization": keys["alice"]},
        {**JSON, "Authorization": ""},
        {**JSON, "Authorization": "Bearer"},
    ]:
        reply = asker.ask(QUESTION, headers=headers)
        assert (reply.status, set(reply.said)) == (401, {"error"})
        assert reply.headers["www-authenticate"] == "Bearer"
    for path in ("/about", "/", "/metrics", "/nothing"):
        assert asker.get(path).status == 401
    for path in ("/health", "/openapi.json"):
        assert asker.get(path).status == 200


def test_no_key_is_refused_before_the_body_has_come(asked):
    asker, _ = asked
    connection = asker._connection
    connection.putrequest("POST", "/label")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "1000")
    connection.endheaders()
    assert connection.getresponse().status == 401


def test_each_key_has_its_own_allowance_of_rows(asked):
    asker, keys = asked
    alice, bob = (authorised(keys[name]) for name in ("alice", "bob"))
    several = {"X": [QUESTION["x"]] * 6}
    # More rows than the allowance are answered while something is left of it.
    assert asker.ask(several, headers=alice).status == 200
    reply = asker.ask(QUESTION, headers=alice)
    assert (reply.status, set(reply.said)) == (429, {"error"})
    # One row is owed, which takes 100 seconds since.
    assert 1 <= int(reply.headers["retry-after"]) <= 101
    assert asker.ask(QUESTION, headers=bob).status == 200


def test_two_headers_are_none(tmp_path):
    key = add_key(tmp_path / "keys", "alice")
    keys = Keys(tmp_path / "keys")
    assert keys.holder(bearing(key)) == "alice"
    assert keys.holder(bearing(key) * 2) is None
    assert keys.holder([]) is None
    assert keys.holder([(b"authorization", f"bEARER   {key}".encode())]) == "alice"


def test_keys_are_kept_as_digests_that_their_owner_alone_may_change(tmp_path, snapshot):
    path = tmp_path / "keys"
    key = add_key(path, "alice")
    assert path.stat().st_mode & 0o777 == 0o600
    assert key not in path.read_text() and len(key) >= 43
    assert path.read_text() == f"alice:{hashlib.sha256(key.encode()).hexdigest()}\n"
    path.write_text("# those who may ask\n\n" + path.read_text().rstrip("\n"))
    add_key(path, "bob")
    assert len(Keys(path)) == 2
    with pytest.raises(GuardError) as told:
        add_key(path, "alice")
    assert str(told.value) == snapshot
    path.chmod(0o644)
    Keys(path)
    path.chmod(0o660)
    with pytest.raises(GuardError) as told:
        Keys(path)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# none\n",
        "secretkey\n",
        f"a:{'0' * 63}\n",
        f"a:{'0' * 64}\na:{'1' * 64}\n",
    ],
)
def test_files_that_hold_no_keys_are_refused_and_not_shown(tmp_path, text, snapshot):
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(GuardError) as caught:
        Keys(path)
    assert str(caught.value) == snapshot
    assert "secretkey" not in str(caught.value)


def test_a_changed_file_is_read_again_and_a_damaged_one_changes_nothing(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    path = tmp_path / "keys"
    alice = add_key(path, "alice")
    keys = Keys(path)
    bob = add_key(path, "bob")
    now[0] += 2
    assert keys.holder(bearing(bob)) == "bob"
    path.write_text("damaged\n")
    now[0] += 2
    assert keys.holder(bearing(alice)) == "alice"
    path.write_text("")
    add_key(tmp_path / "new", "carol")
    (tmp_path / "new").replace(path)
    now[0] += 2
    assert keys.holder(bearing(alice)) is None


def test_the_command_makes_a_key_and_prints_it_once(tmp_path, capsys, snapshot):
    path = tmp_path / "keys"
    assert run(["guard", "family", "--keys", str(path), "--new-key", "alice"]) == 0
    key = capsys.readouterr().out.strip()
    assert Keys(path).holder(bearing(key)) == "alice"
    assert run(["guard", "family", "--new-key", "alice"]) == 2
    assert "--keys" in capsys.readouterr().err
    assert run(["guard", "family", "--keys", str(path), "--new-key", "a b"]) == 2
    assert capsys.readouterr().err == snapshot


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 30)), max_size=40))
def test_in_the_long_run_nobody_gets_more_than_the_rate(asks):
    shared, now, taken, last = Shared(1, 1), 0.0, 0, 0
    rates = Rates(2.0, 6.0, shared)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: now)
        for wait, rows in asks:
            now += wait
            seconds = rates.spend("alice", rows)
            if seconds == 0:
                # It was above nothing before it, and so at most its own rows too much.
                assert taken < 6.0 + 2.0 * now + 1e-9
                taken, last = taken + rows, rows
            else:
                now += seconds + 1e-9
                assert rates.spend("alice", 1) == 0
                taken, last = taken + 1, 1
        assert taken <= 6.0 + 2.0 * now + last + 1e-6


def test_more_askers_than_there_is_room_for_are_still_held_to_the_rate(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    rates = Rates(1.0, 1.0, Shared(1, 1))
    allowed = sum(rates.spend(f"asker {at}", 1) == 0 for at in range(SLOTS + 2000))
    assert SLOTS // 2 < allowed <= SLOTS
    assert sum(rates.spend(f"asker {at}", 1) == 0 for at in range(100)) == 0


def test_addresses_of_one_network_count_as_one():
    assert neighbourhood("10.0.0.1") != neighbourhood("10.0.0.2")
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::2:1")
    assert neighbourhood("2001:db8:0:1::1") != neighbourhood("2001:db8:0:2::1")
    assert neighbourhood("::ffff:10.0.0.1") == "10.0.0.1"
    assert neighbourhood("") == ""


def test_processes_count_apart_and_are_told_together():
    shared = Shared(2, counter_count())
    first, second = (Counts(shared, at, None) for at in range(2))
    for counts, status in ((first, 200), (second, 200), (second, 422), (second, 599)):
        counts.begin()
        counts.rows(3)
        counts.end("/label", status)
    second.begin()
    text = first.text()
    assert 'requests_total{path="/label",status="200"} 2\n' in text
    assert 'requests_total{path="/label",status="none"} 1\n' in text
    assert "rows_answered_total 12\n" in text and "requests_in_flight 1\n" in text
    # What a process had under way dies with it; what it had answered does not.
    assert "requests_in_flight 0\n" in Counts(shared, 1, None).text()
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+(\{.*\})? \S+", line), line


def test_what_the_guard_hides_is_not_counted(guard):
    """Whatever the label is and whether or not it was drawn, the same is counted."""
    points = _grid(guard)
    with in_thread(guard, settings=ServeSettings(pad=0.0)) as port:
        asker = Asker(port)
        tiers = guard.inspect(points).tiers
        seen = set()
        for tier in (1, 3):
            x = next(x for x, found in zip(points, tiers) if found == tier)
            before = _counted(asker)
            body = f'{{"x": [{x[0]:.6f}, {x[1]:.6f}]}}'.encode()
            assert asker.ask(body).status == 200
            after = _counted(asker)
            seen.add(tuple(after[name] - before[name] for name in sorted(before)))
        assert len(seen) == 1
        asker.close()


def _grid(guard):
    return guard.box.sample(np.random.default_rng(3), 2000).astype("float32")


def _counted(asker: Asker) -> dict[str, float]:
    lines = asker.get("/metrics").body.decode().splitlines()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in lines
        if not line.startswith("#")
    }


@pytest.mark.parametrize(
    ("bound", "names", "known", "unknown"),
    [
        (
            "127.0.0.1", (),
            ["127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "localhost.", "[::1]:80",
             "127.0.0.2"],
            ["evil.example", "localhost.evil.example", "192.0.2.7", "", "[::2]", "a localhost",
             "127.0.0.1.evil.example", "evil.example:127.0.0.1"],
        ),
        ("0.0.0.0", (), ["192.0.2.7:80", "[2001:db8::1]", "localhost"], ["evil.example", "guard"]),
        ("::", (), ["192.0.2.7", "[2001:db8::1]:80"], ["evil.example"]),
        ("192.0.2.7", ("labels.example.org",),
         ["192.0.2.7:80", "labels.example.org", "Labels.Example.ORG.:443"],
         ["192.0.2.8", "example.org", "x.labels.example.org"]),
        ("127.0.0.1", ("*",), ["evil.example", ""], []),
    ],
)  # fmt: skip
def test_a_server_is_asked_under_its_own_names_alone(bound, names, known, unknown):
    hosts = Hosts(bound, names)
    for host in known:
        assert hosts.knows([(b"host", host.encode())]), host
    for host in unknown:
        assert not hosts.knows([(b"host", host.encode())]), host
    if "*" not in names:
        assert not hosts.knows([])
        assert not hosts.knows([(b"host", b"localhost"), (b"host", b"evil.example")])


def test_another_name_is_refused_on_every_path(leaky, tmp_path):
    with process(leaky.folder, "--memory", str(tmp_path / "m"), "--pad", "0",
                 "--allow-host", "labels.example.org") as served:  # fmt: skip
        asker = Asker(served.port)
        for path in PATHS:
            body, method = (QUESTION, "POST") if path == "/label" else (None, "GET")
            for name, status in (
                ("evil.example", 421), ("localhost", 200), ("labels.example.org:443", 200),
            ):  # fmt: skip
                reply = asker.ask(body, path, method, {**JSON, "Host": name})
                assert reply.status == status, (path, name)
        asker.close()


@pytest.mark.parametrize("wrong", ["a b", "http://a", "a:80", "a/b", "", "ü"])
def test_a_name_that_is_none_is_one_line(wrong, snapshot):
    with pytest.raises(GuardError) as told:
        ServeSettings(hosts=(wrong,))
    assert str(told.value) == snapshot


def test_a_key_in_an_address_is_in_no_log(leaky, tmp_path):
    key = add_key(tmp_path / "keys", "alice")
    with process(leaky.folder, "--memory", str(tmp_path / "m"), "--pad", "0",
                 "--keys", str(tmp_path / "keys")) as served:  # fmt: skip
        asker = Asker(served.port)
        for path in (f"/health?key={key}", f"/{key}", f"/label/{key}", f"/openapi.json?{key}"):
            asker.get(path)
        asker.close()
        served.process.terminate()
        log = served.line + served.log()
    assert key not in log
    assert log.count("GET /health ") == log.count("GET /openapi.json ") == 1
    assert log.count("GET (another path)") == 2


def test_every_path_has_a_limit_and_health_is_still_told(asked):
    """Ten a second, and ten seconds' worth at once, where the rate is low."""
    asker, keys = asked
    for path in PATHS[1:]:
        headers = {} if path in FREE else authorised(keys["bob"])
        statuses = [asker.ask(None, path, "GET", headers).status for _ in range(20)]
        assert set(statuses) == {200}, path
    rates = Rates(0.01, 5.0, Shared(1, counter_count()))
    taken = sum(rates.call("somebody") == 0.0 for _ in range(6000))
    assert 5000 <= taken < 6000
    assert rates.call("another") == 0.0
    assert rates.spend("somebody", 1) == 0.0


def test_calls_beyond_the_limit_are_refused(guard):
    settings = ServeSettings(pad=0.0, rate=1e-9, burst=1e-9)
    with in_thread(guard, settings=settings) as port:
        asker = Asker(port)
        statuses = {asker.get("/openapi.json").status for _ in range(100)}
        asker.close()
    assert 429 in statuses
