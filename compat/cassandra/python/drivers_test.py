"""Runs the Python driver on the server at DECAN_CQL, with the user DECAN_CQL_USER and the
password DECAN_CQL_KEY, on each version of the protocol that it has, with and without
compression and TLS. ../run.sh runs it."""

import datetime
import json
import os
import pathlib
import ssl
import threading
import time
import unittest
import urllib.request

from cassandra import ConsistencyLevel, InvalidRequest, ProtocolVersion
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import ConstantReconnectionPolicy, RoundRobinPolicy, TokenAwarePolicy
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement

HOST, PORT = os.environ["DECAN_CQL"].rsplit(":", 1)
USER, KEY = os.environ["DECAN_CQL_USER"], os.environ["DECAN_CQL_KEY"]
ADMIN, TURNS = os.environ.get("DECAN_ADMIN"), os.environ.get("DECAN_TURNS")
TYPES = pathlib.Path(__file__).parent.parent / "types.cql"
NEWER = {"da", "ti", "si", "ty"}  # types that version 3 of the protocol does not know
MINUTE = 60


def cluster(version=None, compression=True, tls=False, key=KEY):
    options = {}
    if version:
        options["protocol_version"] = version
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        options["ssl_context"] = context
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()), request_timeout=MINUTE,
        consistency_level=ConsistencyLevel.LOCAL_QUORUM)
    return Cluster(
        [HOST], port=int(PORT), auth_provider=PlainTextAuthProvider(USER, key), compression=compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile}, reconnection_policy=ConstantReconnectionPolicy(0.5, None),
        connect_timeout=MINUTE, control_connection_timeout=MINUTE, **options)


class Drivers(unittest.TestCase):
    def test_versions(self):
        for version in (None, ProtocolVersion.V3, ProtocolVersion.V4, ProtocolVersion.V5):
            for compression in (False, "lz4" if version == ProtocolVersion.V5 else True):
                with self.subTest(version=version, compression=compression):
                    self.program(version, compression, tls=bool(compression))

    def program(self, version, compression, tls):
        c = cluster(version, compression, tls)
        self.addCleanup(c.shutdown)
        s = c.connect()
        self.assertEqual(c.protocol_version, version or ProtocolVersion.V5)
        keyspace = f"python_v{version or 0}_{'tls' if tls else 'plain'}"
        s.execute(
            f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        s.set_keyspace(keyspace)
        s.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
        insert = s.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
        for future in [s.execute_async(insert, (i, i, str(i))) for i in range(200)]:
            future.result()
        read = s.prepare("SELECT v FROM t WHERE k = ? AND c = ?")
        self.assertEqual(s.execute(read, (7, 7)).one().v, "7")
        large = "x" * 300_000
        s.execute(insert, (0, 0, large))
        self.assertEqual(s.execute(read, (0, 0)).one().v, large)
        for size in (10, 37, 5000):
            rows = [r.k for r in s.execute(SimpleStatement("SELECT k FROM t", fetch_size=size))]
            self.assertEqual(sorted(rows), list(range(200)))
        for kind in BatchType.LOGGED, BatchType.UNLOGGED:
            batch = BatchStatement(kind)
            batch.add(insert, (300, 0, "a"))
            batch.add(SimpleStatement("INSERT INTO t (k, c, v) VALUES (%s, %s, %s)"), (301, 0, "b"))
            s.execute(batch)
        self.assertEqual(s.execute(read, (301, 0)).one().v, "b")
        once = s.prepare("INSERT INTO t (k, c, v) VALUES (?, 0, 'x') IF NOT EXISTS")
        self.assertTrue(s.execute(once, (400,)).was_applied)
        self.assertFalse(s.execute(once, (400,)).was_applied)
        star = s.prepare("SELECT * FROM t WHERE k = ? AND c = 0")
        s.execute(star, (400,))
        s.execute("ALTER TABLE t ADD w int")
        s.execute("UPDATE t SET w = 5 WHERE k = 400 AND c = 0")
        self.assertEqual(s.execute(star, (400,)).one().w, 5)  # The driver prepares again.
        s.execute(insert, (0, 0, "again"))
        with self.assertRaises(SyntaxException):
            s.execute("nonsense")
        with self.assertRaises(InvalidRequest):
            s.execute("SELECT k FROM nosuch")
        known = c.metadata.keyspaces[keyspace].tables["t"]
        self.assertEqual([k.name for k in known.partition_key], ["k"])
        self.assertIn("w", known.columns)
        self.assertTrue(c.metadata.token_map.get_replicas(keyspace, c.metadata.token_map.token_class.from_key(b"\0\0\0\1")))
        self.feed(s)
        self.trace(s)
        self.types(c, s, keyspace, version)

    def feed(self, s):
        """Reads the change feed of a table page by page: the paging state of each page, an empty
        one too, is where the next one begins."""
        s.execute("CREATE TABLE feed (k int, c int, v text, PRIMARY KEY (k, c))")
        insert = s.prepare("INSERT INTO feed (k, c, v) VALUES (?, ?, ?)")
        for i in range(10):
            s.execute(insert, (1, i, "a"))
        s.execute(insert, (1, 0, "b"))
        bound = s.prepare("SELECT * FROM feed WHERE k = ? AND COSMOS_CHANGEFEED_START_TIME() = ?")
        bound.fetch_size = 4
        text = SimpleStatement("SELECT * FROM feed WHERE COSMOS_CHANGEFEED_START_TIME() = '2020-01-01 00:00:00'", fetch_size=4)
        for statement, values in ((text, None), (bound, (1, datetime.datetime(2020, 1, 1)))):
            state, rows = None, []

            def read():
                nonlocal state
                while True:
                    page = s.execute(statement, values, paging_state=state)
                    state = page.paging_state
                    self.assertTrue(state)
                    if not page.current_rows:
                        return
                    rows.extend((r.k, r.c, r.v) for r in page.current_rows)

            read()
            self.assertEqual(len(rows), 10)
            self.assertEqual(rows[-1], (1, 0, "b"))
            s.execute(insert, (1, 5, "c"))
            s.execute("DELETE FROM feed WHERE k = 1 AND c = 9")
            read()
            self.assertEqual(rows[10:], [(1, 5, "c")])
            s.execute(insert, (1, 9, "a"))
            s.execute(insert, (1, 0, "b"))

    def trace(self, s):
        """The driver finds the trace of a statement at once."""
        trace = s.execute("SELECT * FROM feed WHERE k = 1", trace=True).get_query_trace(MINUTE)
        self.assertEqual(trace.request_type, "Execute CQL3 query")
        self.assertEqual(trace.parameters["query"], "SELECT * FROM feed WHERE k = 1")
        self.assertGreater(trace.duration.total_seconds(), 0)
        self.assertTrue(trace.coordinator and trace.client)
        events = [e.description for e in trace.events]
        self.assertIn("Read a partition key of feed: 10 items", "".join(events))
        self.assertIn("Request charge: ", events[-1])

    def types(self, c, s, keyspace, version):
        """Reads a value of each type and writes it back: the server has the same value."""
        for line in TYPES.read_text().splitlines():
            s.execute(line.replace("ks.", f"{keyspace}."))
        left_out = NEWER if version == ProtocolVersion.V3 else set()
        columns = [n for n in c.metadata.keyspaces[keyspace].tables["types"].columns if n != "k" and n not in left_out]
        listed = ", ".join(columns)
        row = s.execute(f"SELECT {listed} FROM types WHERE k = 'literal'").one()
        write = s.prepare(f"INSERT INTO types (k, {listed}) VALUES (?{', ?' * len(columns)})")
        s.execute(write, ("driver", *row))
        s.execute(write, ("nulls", *[None] * len(columns)))
        texts = [s.execute(f"SELECT JSON {listed} FROM types WHERE k = %s", (k,)).one()[0] for k in ("literal", "driver")]
        self.assertEqual(json.loads(texts[0]), json.loads(texts[1]))
        self.assertIn("Zürich 漢字 😀", texts[0])
        self.assertEqual(set(s.execute(f"SELECT {listed} FROM types WHERE k = 'nulls'").one()), {None})

    def test_wrong_key(self):
        with self.assertRaises(NoHostAvailable) as raised:
            cluster(ProtocolVersion.V4, key="d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM=").connect()
        self.assertIn("Provided username", str(raised.exception))

    def session(self, keyspace):
        c = cluster()
        self.addCleanup(c.shutdown)
        s = c.connect()
        s.execute(
            f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        s.set_keyspace(keyspace)
        return s

    def admin(self, path, method="GET"):
        call = urllib.request.Request(ADMIN + path, method=method, headers={"x-decan-key": KEY})
        with urllib.request.urlopen(call) as answer:
            return json.load(answer)

    def test_splits(self):
        """Writes and reads while all physical partitions of a table split: no statement
        fails, and no row is lost or comes twice (S115, S142)."""
        if not ADMIN:
            self.skipTest("DECAN_ADMIN is not set")
        s = self.session("python_splits")
        s.execute("CREATE TABLE t (k int, c int, n int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 20000")
        insert = s.prepare("INSERT INTO t (k, c, n) VALUES (?, ?, 0)")
        change = s.prepare("UPDATE t SET n = 1 WHERE k = ? AND c = ? IF n = 0")
        for i in range(150):  # A partition with one key does not split.
            s.execute(insert, (i, 9))
        failed = []

        def write(writer):
            try:
                for i in range(150):
                    s.execute(insert, (i, writer))
                    if not s.execute(change, (i, writer)).was_applied:
                        failed.append(f"{i}, {writer} was not applied")
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)

        writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for w in writers:
            w.start()
        for _ in range(2):
            for p in self.admin("partitions?database=python_splits&container=t")["partitions"]:
                self.admin(f"partitions/split?database=python_splits&container=t&partition={p['id']}", "POST")
                self.rows(s)
        for w in writers:
            w.join()
        self.assertEqual(failed, [])
        self.assertEqual(len(self.rows(s)), 750)
        self.assertGreaterEqual(len(self.admin("partitions?database=python_splits&container=t")["partitions"]), 4)

    def rows(self, s):
        rows = [(r.k, r.c) for r in s.execute(SimpleStatement("SELECT k, c FROM t", fetch_size=20))]
        self.assertEqual(len(rows), len(set(rows)), "a row comes twice")
        return rows

    def test_zz_restart(self):
        """Writes until the server was killed and started again, which ../run.sh does when all
        drivers wait for it: the session goes on, and no acknowledged row is lost."""
        if not TURNS:
            self.skipTest("DECAN_TURNS is not set")
        s = self.session("python_restart")
        s.execute("CREATE TABLE t (k int PRIMARY KEY)")
        insert = s.prepare("INSERT INTO t (k) VALUES (?)")
        turns = pathlib.Path(TURNS)
        (turns / "python").touch()
        written, after, i, last = [], 0, 0, None
        while after < 20:
            if last is None and (turns / "restarted").exists():
                last = time.monotonic() + 2 * MINUTE  # to reconnect
            try:
                s.execute(insert, (i,))
                written.append(i)
                after += last is not None
            except Exception as error:  # pylint: disable=broad-except
                self.assertTrue(last is None or time.monotonic() < last, f"no write succeeds after the restart: {error}")
            i += 1
            time.sleep(0.3 if last is None and i > 20 else 0.02)  # The others take their time.
        self.assertEqual(set(written) - {r.k for r in s.execute("SELECT k FROM t")}, set())


if __name__ == "__main__":
    unittest.main()
