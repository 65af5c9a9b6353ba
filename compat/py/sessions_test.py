"""Session tokens and consistency levels with the Python SDK. Run by ../run.sh."""

import json
import re
import unittest

from server import NEW, Case, connect, headers


class Sessions(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.container = cls.create("c", "/pk", partitions=4)

    def seen_by(self, level, **options):
        client = connect(consistency_level=level, **options)
        return client.get_database_client(self.database.id).get_container_client("c")

    def write(self, n):
        self.container.upsert_item({"id": "x", "pk": "p", "n": n})
        return headers(self.container)["x-ms-session-token"]

    def test_client_reads_what_another_wrote_by_its_token(self):
        last = 0
        for n in range(5):
            token = self.write(n)
            lsn = int(re.fullmatch(r"\d+:-1#(\d+)", token)[1])
            self.assertGreater(lsn, last, "tokens rise")
            last = lsn
            self.assertEqual(self.seen_by("Session").read_item("x", "p", session_token=token)["n"], n)

    def test_client_reads_its_own_writes(self):
        own = self.seen_by("Session")
        for n in range(5):
            own.upsert_item({"id": "own", "pk": f"p{n}", "n": n})
            self.assertEqual(own.read_item("own", f"p{n}")["n"], n)

    def test_client_reads_its_own_writes_after_pages_of_several_partitions(self):
        """F2: such a page has a list of tokens, which this SDK reads."""
        own = self.seen_by("Session")
        lists = 0
        for n in range(3):
            for key in range(12):
                own.upsert_item({"id": "mine", "pk": f"m{key}", "n": n})
                found = self.rows(own, "SELECT VALUE c.n FROM c WHERE c.id = 'mine'")
                self.assertEqual(found.count(n), key + 1)
                lists += "," in headers(own)["x-ms-session-token"]
                self.assertEqual(own.read_item("mine", f"m{key}")["n"], n)
        self.assertGreater(lists, 0)

    def test_token_from_the_future_is_not_served(self):
        token = self.write(0)
        partition, lsn = token.split("#")
        refusals = []

        def watch(response):
            refusals.append((response.http_response.status_code, response.http_response.headers.get("x-ms-substatus")))

        ahead = self.seen_by("Session", raw_response_hook=watch)
        refusals.clear()
        fault = self.refused(404, lambda: ahead.read_item("x", "p", session_token=f"{partition}#{int(lsn) + 1000}"))
        self.assertEqual(int(fault.sub_status), 1002)
        self.assertIn((404, "1002"), refusals)

    def test_levels(self):
        self.write(0)
        for level in ("Eventual", "ConsistentPrefix", "Session"):
            self.assertEqual(self.seen_by(level).read_item("x", "p")["id"], "x")
        for level in ("BoundedStaleness", "Strong"):
            self.refused(400, lambda l=level: self.seen_by(l).read_item("x", "p"))

    @unittest.skipUnless(NEW, "the oldest SDK has no such call")
    def test_newest_token_of_several(self):
        tokens = []
        for n in range(3):
            key = f"p{n}"
            self.container.upsert_item({"id": "x", "pk": key})
            tokens.append((self.container.feed_range_from_partition_key(key), headers(self.container)["x-ms-session-token"]))
        latest = self.container.get_latest_session_token(tokens, tokens[-1][0])
        self.assertEqual(self.container.read_item("x", "p2", session_token=latest)["id"], "x")

    @unittest.skipUnless(NEW, "the oldest SDK has no such call")
    def test_tokens_kept_by_the_ranges_of_the_container(self):
        ranges, kept, token = list(self.container.read_feed_ranges()), {}, ""
        for n in range(8):
            made = self.container.create_item({"id": "kept", "pk": f"p{n}"}, session_token=token)
            token = made.get_response_headers()["x-ms-session-token"]
            mine = self.container.feed_range_from_partition_key(f"p{n}")
            [around] = [one for one in ranges if self.container.is_feed_range_subset(one, mine)]
            known = [(json.loads(one), seen) for one, seen in kept.items()] + [(around, token)]
            latest = self.container.get_latest_session_token(known, around)
            self.assertEqual(latest, token)
            kept[json.dumps(around)] = latest
            self.assertEqual(self.container.read_item("kept", f"p{n}", session_token=latest)["id"], "kept")
        self.assertGreater(len(kept), 1)
