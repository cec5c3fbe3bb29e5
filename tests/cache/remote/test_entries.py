"""Whose entries count: none that is damaged, forged, another's, too old or too large; and none at all without the secret."""

import os
import pickle
import time

import pytest
import torch
from bascule.runtime.packages.container import pack, unpack
from hypothesis import given
from hypothesis import strategies as st

import bascule
from bascule.cache.disk.files import Refused
from bascule.cache.disk.signing import signed
from bascule.cache.remote.envelope import HEAD, VERSION, sealed, unsealed
from bascule.cache.remote.remote_cache import remote_cache
from bascule.cache.remote.settings import settings
from bascule.errors import CacheWarning
from tests.cache.cached_calls import counted, gated, inputs, run
from tests.cache.remote.redis_server import needed

KEY, NAME, NOW, LIFE = bytes(range(32)), "graphs/ab", 1_800_000_000.0, 1000


# The envelope


@given(content=st.binary(max_size=200), place=st.integers(0, 1 << 16), change=st.integers(1, 255))
def test_an_entry_that_is_damaged_at_any_byte_is_refused(content, place, change):
    entry = bytearray(sealed(KEY, NAME, content, NOW))
    assert unsealed(KEY, NAME, bytes(entry), NOW, LIFE) == content
    entry[place % len(entry)] ^= change
    with pytest.raises(Refused):
        unsealed(KEY, NAME, bytes(entry), NOW, LIFE)


@given(content=st.binary(max_size=200), cut=st.integers(1, 300), more=st.binary(min_size=1, max_size=20))
def test_an_entry_that_is_cut_or_lengthened_is_refused(content, cut, more):
    entry = sealed(KEY, NAME, content, NOW)
    for other in (entry[: max(0, len(entry) - cut)], entry + more, more + entry):
        with pytest.raises(Refused):
            unsealed(KEY, NAME, other, NOW, LIFE)


def test_an_entry_counts_for_its_name_and_secret_alone_and_for_its_time():
    entry = sealed(KEY, NAME, b"content", NOW)
    assert len(entry) == HEAD + len(b"content")
    for key, name in ((bytes(32), NAME), (KEY, "graphs/ac"), (KEY, "traces/ab"), (b"", NAME)):
        with pytest.raises(Refused, match="signature"):
            unsealed(key, name, entry, NOW, LIFE)
    assert unsealed(KEY, NAME, entry, NOW + LIFE, LIFE) == b"content"
    assert unsealed(KEY, NAME, entry, NOW - LIFE, LIFE) == b"content", "another host's clock may be ahead"
    with pytest.raises(Refused, match="too old"):
        unsealed(KEY, NAME, entry, NOW + LIFE + 1, LIFE)
    with pytest.raises(Refused, match="when it was written"):
        unsealed(KEY, NAME, signed(KEY, f"{VERSION}/{NAME}", b"short"), NOW, LIFE)


# Entries on a server


class Runs:
    """Pickled, it makes a folder where it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def armed(kind, content, place):
    """The content of an entry, that of a trace such that it makes `place` when it is read."""
    if kind != "traces":
        return content
    bundle, graphs = unpack(content)
    description, blobs = unpack(graphs["trace"])
    trace = pack(description, {**blobs, "result": pickle.dumps(Runs(place))})
    return pack(bundle, {**graphs, "trace": trace})


def changed(entry, place):
    return entry[:place] + bytes([entry[place] ^ 1]) + entry[place + 1 :]


# name -> what becomes of an entry: of `content`, which would run code, `name`, the key and the entries that are there
DAMAGES = {
    "as it is, unsigned": lambda content, name, key, entries: content,
    "signed with another secret": lambda content, name, key, entries: sealed(
        os.urandom(32), name, content, time.time()
    ),
    "signed with nothing": lambda content, name, key, entries: sealed(b"", name, content, time.time()),
    "signed for another name": lambda content, name, key, entries: sealed(key, f"{name[:-1]}x", content, time.time()),
    "signed as on a disk": lambda content, name, key, entries: signed(key, name, content),
    "another entry": lambda content, name, key, entries: next(e for n, e in entries.items() if n != f"bascule/{name}"),
    "its signature changed": lambda content, name, key, entries: changed(entries[f"bascule/{name}"], 30),
    "its time changed": lambda content, name, key, entries: changed(entries[f"bascule/{name}"], HEAD - 3),
    "its last byte changed": lambda content, name, key, entries: changed(
        entries[f"bascule/{name}"], -1 + len(entries[f"bascule/{name}"])
    ),
    "cut short": lambda content, name, key, entries: entries[f"bascule/{name}"][:-1],
    "only its begin": lambda content, name, key, entries: entries[f"bascule/{name}"][:20],
    "too old": lambda content, name, key, entries: sealed(key, name, content, time.time() - 40 * 24 * 3600),
    "huge": lambda content, name, key, entries: bytes(300_000),
    "garbage": lambda content, name, key, entries: os.urandom(1000),
}


@needed
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_forged_entries_are_refused(server, host, tmp_path, monkeypatch, damage):
    """Each counts, runs nothing, and the graph is compiled anew; what is written then takes its place."""
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_LIMIT", "200000")
    host("first")
    x, w = inputs()
    run(gated, x, w)
    assert remote_cache().flush()
    key, entries, ran = settings().key, server.entries(), tmp_path / "ran"
    assert {name.split("/")[1] for name in entries} == {"traces", "graphs"}
    for name, entry in entries.items():
        name = name.removeprefix("bascule/")
        content = armed(name.split("/")[0], unsealed(key, name, entry, time.time(), 1000), ran)
        server.put(f"bascule/{name}", DAMAGES[damage](content, name, key, entries))
    host("second")
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert not ran.exists()
    refused = {name: number for name, number in counted().items() if name.startswith("remote refused")}
    assert sum(refused.values()) == 2 and counted()["miss"] == 1 and "remote hit" not in counted(), counted()
    host("third")
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted() == {"remote hit": 1, "hit": 1}


@needed
def test_an_entry_signed_by_the_fleet_is_trusted(server, host, tmp_path):
    """The other side of these tests: what is refused there would run."""
    x, w = inputs()
    run(gated, x, w)
    assert remote_cache().flush()
    (name,) = server.entries("traces")
    name = name.removeprefix("bascule/")
    content = unsealed(settings().key, name, server.entries()[f"bascule/{name}"], time.time(), 1000)
    server.put(f"bascule/{name}", sealed(settings().key, name, armed("traces", content, tmp_path / "ran"), time.time()))
    host("second")
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert (tmp_path / "ran").exists()


@needed
def test_what_is_no_string_is_refused(server, host):
    x, w = inputs()
    run(gated, x, w)
    assert remote_cache().flush()
    for name in server.entries():
        server.own.delete(name)
        server.own.rpush(name, "a", "b")
    host("second")
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted()["remote refused: not an entry, or one of another version"] == 2


@needed
def test_a_large_entry_is_not_written_and_of_one_that_is_there_no_more_is_read(server, host, monkeypatch):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_LIMIT", "100")
    host("small")
    run(gated, *inputs())
    assert remote_cache().flush()
    assert counted()["remote not stored: larger than 100 bytes"] == 2 and not server.entries()
    server.put(f"bascule/graphs/{'a' * 64}", bytes(50_000_000))
    before = server.own.info("stats")["total_net_output_bytes"]
    assert remote_cache().get("graphs", ["a" * 64]) == {}
    assert counted()["remote refused: it is larger than 100 bytes"] == 1
    assert server.own.info("stats")["total_net_output_bytes"] - before < 20_000


# The secret


@needed
@pytest.mark.parametrize("secret", [None, "a guess"])
def test_without_the_secret_nothing_is_read_or_written(server, host, tmp_path, monkeypatch, secret):
    run(gated, *inputs())
    assert remote_cache().flush()
    connections = server.own.info("stats")["total_connections_received"]
    if secret is None:
        monkeypatch.delenv("BASCULE_REMOTE_CACHE_KEY")
    else:
        monkeypatch.setenv("BASCULE_REMOTE_CACHE_KEY", secret)
    with pytest.warns(CacheWarning, match="BASCULE_REMOTE_CACHE_KEY .*signed with the same secret of 32") as told:
        host("second")
        for size in (3, 4):
            run(gated, torch.randn(size, 8), torch.randn(8, 8))
    assert len([one for one in told if one.category is CacheWarning]) == 1
    assert counted() == {"miss": 2, "stored": 2}
    assert server.own.info("stats")["total_connections_received"] == connections


@needed
def test_a_host_with_another_secret_shares_nothing(server, host, monkeypatch):
    run(gated, *inputs())
    host("second")
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_KEY", "another fleet's secret, as long too")
    host("second")
    run(gated, *inputs())
    assert "remote hit" not in bascule.counters()["cache"]
    assert (
        counted()["remote refused: the signature differs: cut short, changed, of another entry or of another key"] == 2
    )
