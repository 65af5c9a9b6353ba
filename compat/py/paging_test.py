"""Pages through ORDER BY over 1, 8 and 64 partitions with continuation tokens that are
given to a new client after every page, with keys of every type, while all partitions split
and merge between the pages: every row once and in order. Run by ../run.sh.

The SDK has tokens only for queries that it does not merge: of one partition key, and,
where the server merges (x-decan-cross-partition: full), of any."""

import json
import os
import re
import urllib.request

from server import KEY, Case, connect

TOTAL = 96

# The values of the key, in order; None is a missing property. Arrays are in the order of
# the hashes by which clients compare them, and so are objects, so each is one here.
VALUES = [None] + [json.loads(text) for text in (
    "null", "false", "true", "-1e300", "-1", "0", "1", "2.5", "9007199254740992", "9007199254740993", "1e300",
    '""', '"B"', '"a"', '"aa"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ue000"', '"\\uffff"', "[1,[null]]", '{"a":{"b":true}}')]


def item(n):
    made = {"id": str(n), "pk": f"p{n}", "one": "all", "m": n % 4, "rank": n % len(VALUES)}
    if n % len(VALUES):
        made["k"] = VALUES[n % len(VALUES)]
    return made


class Paging(Case):
    """Over http."""

    def call(self, path, body=None):
        request = urllib.request.Request(
            f"{os.environ['DECAN_ADMIN']}{path}", data=body, method="POST" if body is not None else "GET", headers={"x-decan-key": KEY})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def reshape(self, container, partitions):
        """Splits all partitions in the middle of their ranges, or merges them in pairs
        if there are more than at first."""
        where = f"database={self.database.id}&container={container.id}"
        ranges = sorted(self.call(f"partitions?{where}")["partitions"], key=lambda p: p["min"])
        if len(ranges) > partitions:
            for one, other in zip(ranges[::2], ranges[1::2]):
                self.call(f"partitions/merge?{where}&partition={one['id']}&with={other['id']}", b"")
            return
        for one in ranges:
            low, high = (int(("40" if bound == "FF" else bound).ljust(16, "0")[:16], 16) for bound in (one["min"], one["max"]))
            at = re.sub("(00)+$", "", f"{(low + high) // 2:016X}")
            self.call(f"partitions/split?{where}&partition={one['id']}&at={at}", b"")

    def paged(self, container, query, size, partitions=0, changes=4, **options):
        """Reads a query with a new client for every page, and changes the partitions
        after the first pages if their number is given."""
        rows, token, pages = [], None, 0
        while True:
            client = connect()
            if "partition_key" not in options:
                client.client_connection.default_headers["x-decan-cross-partition"] = "full"
            fresh = client.get_database_client(self.database.id).get_container_client(container.id)
            pager = fresh.query_items(query, max_item_count=size, **options).by_page(token)
            rows += list(next(pager, []))
            token, pages = pager.continuation_token, pages + 1
            if not token:
                self.assertGreater(pages, changes if partitions else 0, query)
                return rows
            self.assertLess(pages, 200, f"{query}: no end")
            if partitions and pages <= changes:
                self.reshape(container, partitions)

    def check(self, rows, want, query):
        self.assertEqual(sorted(row["id"] for row in rows), sorted(str(n) for n in want), f"{query}: every row once")
        ranks = [row["rank"] for row in rows]
        self.assertEqual(ranks, sorted(ranks, reverse="DESC" in query), query)

    def pages(self, partitions):
        container = self.create(f"c{partitions}", "/pk", partitions=partitions)
        for n in range(TOTAL):
            container.create_item(item(n))
        changes = 4 if partitions < 64 else 2  # with 64 each takes a second or two
        everywhere = {"enable_cross_partition_query": True}
        query = "SELECT c.id, c.rank FROM c"
        for text, want in (
            (f"{query} ORDER BY c.k", range(TOTAL)),
            (f"{query} ORDER BY c.k DESC", range(TOTAL)),
            (f"{query} WHERE c.m > 0 ORDER BY c.k", [n for n in range(TOTAL) if n % 4]),
        ):
            self.check(self.paged(container, text, 13, **everywhere), want, text)
            self.check(self.paged(container, text, 13, partitions, changes, **everywhere), want, f"{text} while all partitions split and merge")

    def test_one_partition(self):
        self.pages(1)

    def test_eight_partitions(self):
        self.pages(8)

    def test_many_partitions(self):
        self.pages(64)

    def test_one_key(self):
        container = self.create("key", "/one")
        for n in range(TOTAL):
            container.create_item(item(n))
        for text in ("SELECT c.id, c.rank FROM c ORDER BY c.k", "SELECT c.id, c.rank FROM c ORDER BY c.k DESC"):
            self.check(self.paged(container, text, 13, partition_key="all"), range(TOTAL), text)
