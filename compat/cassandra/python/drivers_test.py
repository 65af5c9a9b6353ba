"""Runs the Python driver on the server at DECAN_CQL, with the user DECAN_CQL_USER and the
password DECAN_CQL_KEY, on each version of the protocol that it has, with and without
compression and TLS."""

import os
import ssl
import time
import unittest

from cassandra import InvalidRequest, ProtocolVersion
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, SimpleStatement

HOST, PORT = os.environ["DECAN_CQL"].rsplit(":", 1)
USER, KEY = os.environ["DECAN_CQL_USER"], os.environ["DECAN_CQL_KEY"]


def cluster(version=None, compression=True, tls=False, key=KEY):
    options = {}
    if version:
        options["protocol_version"] = version
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        options["ssl_context"] = context
    return Cluster(
        [HOST], port=int(PORT), auth_provider=PlainTextAuthProvider(USER, key), compression=compression, **options
    )


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
        s.execute(
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        s.execute("CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v text)")
        s.set_keyspace("ks")
        base = int(time.time() * 1e6) & 0x3FFFFFFF
        insert = s.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
        for future in [s.execute_async(insert, (base + i, str(i))) for i in range(200)]:
            future.result()
        read = s.prepare("SELECT v FROM t WHERE k = ?")
        self.assertEqual(s.execute(read, (base + 7,)).one().v, "7")
        large = "x" * 300_000
        s.execute(insert, (base, large))
        self.assertEqual(s.execute(read, (base,)).one().v, large)
        rows = {r.k for r in s.execute(SimpleStatement("SELECT k FROM t", fetch_size=10))}
        self.assertEqual({base + i for i in range(200)} - rows, set())
        batch = BatchStatement()
        batch.add(insert, (base + 300, "a"))
        batch.add(SimpleStatement("INSERT INTO t (k, v) VALUES (%s, %s)"), (base + 301, "b"))
        s.execute(batch)
        self.assertEqual(s.execute(read, (base + 301,)).one().v, "b")
        once = s.prepare("INSERT INTO t (k, v) VALUES (?, 'x') IF NOT EXISTS")
        self.assertTrue(s.execute(once, (base + 400,)).was_applied)
        self.assertFalse(s.execute(once, (base + 400,)).was_applied)
        s.execute("ALTER TABLE ks.t WITH comment = 'changed'")
        s.execute(insert, (base, "again"))  # The driver prepares again.
        with self.assertRaises(SyntaxException):
            s.execute("nonsense")
        with self.assertRaises(InvalidRequest):
            s.execute("SELECT k FROM nosuch")
        self.assertIn("t", c.metadata.keyspaces["ks"].tables)
        self.assertEqual([k.name for k in c.metadata.keyspaces["ks"].tables["t"].partition_key], ["k"])
        self.assertTrue(c.metadata.token_map)

    def test_wrong_key(self):
        with self.assertRaises(NoHostAvailable) as raised:
            cluster(ProtocolVersion.V4, key="d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM=").connect()
        self.assertIn("Provided username", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
