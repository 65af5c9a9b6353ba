"""Runs cqlsh on the server at DECAN_CQL, with the user DECAN_CQL_USER and the password
DECAN_CQL_KEY: DESCRIBE, COPY in both directions, pages, formats. ../run.sh runs it."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request

HOST, PORT = os.environ["DECAN_CQL"].rsplit(":", 1)
# NOTE is what cqlsh 6.2 says of every server that is not 5.0.
NOTE = "All features may not work!\n\n"
TYPES = pathlib.Path(__file__).parent.parent / "types.cql"


def cqlsh(text, *arguments):
    """Returns what cqlsh prints for statements, which must succeed."""
    run = subprocess.run(
        ["cqlsh", HOST, PORT, "-u", os.environ["DECAN_CQL_USER"], "-p", os.environ["DECAN_CQL_KEY"],
         "--connect-timeout", "60", "--request-timeout", "60", "--encoding", "utf-8", *arguments],
        input=text, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.partition(NOTE)[2] if NOTE in run.stdout else run.stdout


class Cqlsh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cqlsh("CREATE KEYSPACE cqlsh WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};"
              "USE cqlsh; CREATE TABLE t (k int, c int, v text, m map<text, int>, PRIMARY KEY (k, c));")
        cqlsh(TYPES.read_text().replace("ks.", "cqlsh."))

    def test_version(self):
        shown = cqlsh("SHOW VERSION; SHOW HOST; CONSISTENCY; SERIAL CONSISTENCY; DESCRIBE CLUSTER;")
        self.assertIn("Cassandra 4.1", shown)
        self.assertIn("CQL spec 3.4.6", shown)
        self.assertIn("Murmur3Partitioner", shown)

    def test_versions(self):
        for version in 3, 4, 5:
            with self.subTest(version=version):
                shown = cqlsh("SHOW VERSION; SELECT t, du, li, ud FROM cqlsh.types;", "--protocol-version", str(version))
                for part in f"Native protocol v{version}", "Zürich 漢字 😀", "[3, 1, 2, 1]", "street: 'Main'":
                    self.assertIn(part, shown)

    def test_describe(self):
        for what in "KEYSPACES", "TABLES", "TYPES", "FUNCTIONS", "SCHEMA", "FULL SCHEMA", "KEYSPACE cqlsh", "TABLE cqlsh.types", "TYPE cqlsh.address":
            with self.subTest(what):
                cqlsh(f"DESCRIBE {what};")
        made = cqlsh("DESCRIBE KEYSPACE cqlsh;")
        for part in "CREATE KEYSPACE cqlsh", "CREATE TYPE cqlsh.address", "CREATE TABLE cqlsh.types", "PRIMARY KEY (k, c)":
            self.assertIn(part, made)
        # What DESCRIBE prints makes the same keyspace again.
        other = made.replace("cqlsh.", "cqlsh_again.").replace("KEYSPACE cqlsh", "KEYSPACE cqlsh_again")
        cqlsh(other)
        self.assertEqual(cqlsh("DESCRIBE KEYSPACE cqlsh_again;").replace("cqlsh_again", "cqlsh"), made)

    def test_copy(self):
        with tempfile.TemporaryDirectory() as folder:
            given = pathlib.Path(folder, "in.csv")
            given.write_text("".join(f"{i % 7},{i},\"text {i}, é\",{{'a': {i}}}\n" for i in range(1000)))
            self.assertIn("1000 rows imported", cqlsh(f"COPY cqlsh.t (k, c, v, m) FROM '{given}' WITH NUMPROCESSES = 2;"))
            written = pathlib.Path(folder, "out.csv")
            self.assertIn("1000 rows exported", cqlsh(f"COPY cqlsh.t (k, c, v, m) TO '{written}' WITH NUMPROCESSES = 2;"))
            self.assertEqual(set(given.read_text().splitlines()) ^ set(written.read_text().splitlines()), set())
            types = pathlib.Path(folder, "types.csv")
            # cqlsh does not import durations and values of user-defined types, from any server.
            columns = "k, a, bi, bl, bo, de, db, fl, ip, i, t, ts, tu, u, vi, li, se, ma, fm, tp, da, ti, si, ty"
            cqlsh(f"COPY cqlsh.types ({columns}) TO '{types}' WITH HEADER = true;")
            copied = types.read_text().replace("literal", "copied", 1)
            types.write_text(copied)
            cqlsh(f"COPY cqlsh.types ({columns}) FROM '{types}' WITH HEADER = true;")
            again = pathlib.Path(folder, "again.csv")
            cqlsh(f"COPY cqlsh.types ({columns}) TO '{again}' WITH HEADER = true;")
            self.assertLess(set(copied.splitlines()), set(again.read_text().splitlines()))

    def test_copy_of_partitions(self):
        """Rows of several physical partitions, which split between the two directions."""
        admin = os.environ.get("DECAN_ADMIN")
        if not admin:
            self.skipTest("DECAN_ADMIN is not set")

        def call(path, method="GET"):
            request = urllib.request.Request(admin + path, method=method, headers={"x-decan-key": os.environ["DECAN_CQL_KEY"]})
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        cqlsh("CREATE TABLE cqlsh.split (k int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 20000;")
        with tempfile.TemporaryDirectory() as folder:
            given, written = pathlib.Path(folder, "in.csv"), pathlib.Path(folder, "out.csv")
            given.write_text("".join(f"{i},{i}\n" for i in range(1000)))
            self.assertIn("1000 rows imported", cqlsh(f"COPY cqlsh.split FROM '{given}';"))
            for partition in call("partitions?database=cqlsh&container=split")["partitions"]:
                call(f"partitions/split?database=cqlsh&container=split&partition={partition['id']}", "POST")
            self.assertGreaterEqual(len(call("partitions?database=cqlsh&container=split")["partitions"]), 4)
            self.assertIn("1000 rows exported", cqlsh(f"COPY cqlsh.split TO '{written}';"))
            self.assertEqual(sorted(given.read_text().splitlines()), sorted(written.read_text().splitlines()))

    def test_formats(self):
        shown = cqlsh("SELECT t, du, ts, bl, fl, li FROM cqlsh.types; EXPAND ON; SELECT k, i FROM cqlsh.types;")
        for part in "Zürich 漢字 😀", "1y2mo21d4h5m6s789ms", "2026-11-28 12:34:56.789000+0000", "0x00ff10", "-1.5", "[3, 1, 2, 1]", "@ Row 1":
            self.assertIn(part, shown)

    def test_tracing(self):
        cqlsh("CREATE TABLE cqlsh.traced (k int PRIMARY KEY, v int); INSERT INTO cqlsh.traced (k, v) VALUES (1, 2);")
        shown = cqlsh("TRACING ON; SELECT * FROM cqlsh.traced WHERE k = 1;")
        for part in "Tracing session: ", "Execute CQL3 query", "Read a partition key of traced: 1 items", "Request charge: ", "Request complete":
            self.assertIn(part, shown)
        self.assertNotIn("was not found", shown)

    def test_pages(self):
        cqlsh("CREATE TABLE cqlsh.pages (k int PRIMARY KEY);"
              + "".join(f"INSERT INTO cqlsh.pages (k) VALUES ({i});" for i in range(250)))
        self.assertIn("(250 rows)", cqlsh("PAGING OFF; SELECT * FROM cqlsh.pages;"))
        self.assertIn("(250 rows)", cqlsh("PAGING 30; SELECT * FROM cqlsh.pages;"))


if __name__ == "__main__":
    unittest.main()
