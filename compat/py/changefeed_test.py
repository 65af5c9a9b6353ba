"""The change feed with the Python SDK: from the beginning, a time
and now, of the container, its ranges, a full key and a prefix, with pages of one,
seven and any size, compared with what the program wrote (S111). The oldest SDK
supports neither times nor ranges, only the ids of partitions. Run by ../run.sh against a
server over http and over https."""

import os
import time
import unittest
import uuid
from datetime import datetime, timezone

from azure.cosmos import PartitionKey, exceptions

from server import NEW, connect

LEVELS = ["/TenantId", "/UserId"]
PARTITIONS = 4
THROUGHPUT = 24000  # at 6,000 RU/s each: four physical partitions
SIZES = [1, 7, None] # None: the server chooses

SCOPES = {
    "the container": (None, lambda item: True),
    "a whole key": (["t1", "u2"], lambda item: (item["TenantId"], item["UserId"]) == ("t1", "u2")),
    "a prefix": (["t2"], lambda item: item["TenantId"] == "t2"),
}


def name_of(item):
    return item["TenantId"], item["UserId"], item["id"]


class ChangeFeed:
    """The tests; the classes below say over which protocol they run."""

    endpoint = ""
    ca = None # the certificate authority of the server

    @classmethod
    def setUpClass(cls):
        cls.client = connect(cls.endpoint, ca=cls.ca)
        cls.database = cls.client.create_database(f"compat-feed-{uuid.uuid4()}")
        cls.addClassCleanup(lambda: cls.client.delete_database(cls.database.id))
        cls.container = cls.database.create_container(
            "items", PartitionKey(path=LEVELS, kind="MultiHash"), offer_throughput=THROUGHPUT)
        cls.items, cls.written = {}, 0
        for _ in range(80):
            cls.last = cls.change(1)
        cls.ended = {}  # readers that began before the second half
        for name, (key, _) in SCOPES.items():
            # The oldest SDK always starts at the beginning.
            found, cls.ended[name] = cls.drain(key=key, start="Now")
            assert not NEW or not found, "now is after every item"
        cls.first_half = cls.last
        while time.time() < cls.last + 1: # a time is in whole seconds and exclusive (F9)
            time.sleep(0.05)
        for _ in range(60):
            cls.change(2)

    @classmethod
    def change(cls, half):
        n = cls.written
        cls.written += 1
        item = {"id": f"id{n * 7 % 5}", "TenantId": f"t{n * 11 % 4}", "UserId": f"u{n * 5 % 3}", "n": n}
        if n % 4 == 3 and name_of(item) in cls.items:
            cls.container.delete_item(item["id"], [item["TenantId"], item["UserId"]])
            del cls.items[name_of(item)]
            return cls.last
        cls.items[name_of(item)] = dict(item, half=half)
        return cls.container.upsert_item(item)["_ts"]

    @classmethod
    def drain(cls, key=None, size=None, **options):
        """Reads until there is nothing left for now, and returns the numbers by name, each
        of which is returned once, and the continuation of the feed."""
        options["max_item_count"] = size
        if key is not None:
            options["partition_key"] = key
        start = options.pop("start", None)
        if NEW and start is not None:
            options["start_time"] = start
        elif start == "Beginning":
            options["is_start_from_beginning"] = True
        found = {}
        for item in cls.container.query_items_change_feed(**options):
            assert item["_lsn"] > 0, item
            assert name_of(item) not in found, f"{name_of(item)} is returned twice"
            found[name_of(item)] = item["n"]
        return found, cls.container.client_connection.last_response_headers["etag"]

    def want(self, holds):
        return {name: item["n"] for name, item in self.items.items() if holds(item)}

    def test_from_the_beginning(self):
        for name, (key, holds) in SCOPES.items():
            for size in SIZES:
                with self.subTest(name, size=size):
                    found, _ = self.drain(key=key, size=size, start="Beginning")
                    self.assertEqual(found, self.want(holds))

    def test_from_now(self):
        for name, (key, holds) in SCOPES.items():
            for size in SIZES:
                with self.subTest(name, size=size):
                    # The token of the newest SDK contains the key.
                    again = {} if NEW else {"key": key}
                    found, end = self.drain(size=size, continuation=self.ended[name], **again)
                    self.assertEqual(found, self.want(lambda item: holds(item) and item["half"] == 2))
                    self.assertEqual(self.drain(size=size, continuation=end, **again)[0], {})

    @unittest.skipUnless(NEW, "the oldest SDK does not support times")
    def test_from_a_time(self):
        for name, (key, holds) in SCOPES.items():
            for size in SIZES:
                with self.subTest(name, size=size):
                    found, _ = self.drain(key=key, size=size, start=datetime.fromtimestamp(self.first_half, timezone.utc))
                    self.assertEqual(found, self.want(lambda item: holds(item) and item["half"] == 2))

    def test_ranges_together_are_the_container(self):
        if NEW:
            parts = [{"feed_range": r} for r in self.container.read_feed_ranges()]
        else:
            link = f"dbs/{self.database.id}/colls/items"
            parts = [{"partition_key_range_id": r["id"]} for r in self.client.client_connection._ReadPartitionKeyRanges(link)]
        self.assertEqual(len(parts), PARTITIONS)
        together = {}
        for part in parts:
            found, _ = self.drain(size=7, start="Beginning", **part)
            self.assertFalse(found.keys() & together.keys(), "an item is in two ranges")
            together.update(found)
        self.assertEqual(together, self.want(lambda item: True))

    @unittest.skipUnless(NEW, "the oldest SDK has no such range")
    def test_range_of_a_key(self):
        mine = self.container.feed_range_from_partition_key(["t1", "u2"])
        found, _ = self.drain(size=1, start="Beginning", feed_range=mine)
        self.assertEqual(found, self.want(SCOPES["a whole key"][1]))

    def test_key_of_one_level_further_down(self):
        flat = self.database.create_container(f"flat-{uuid.uuid4()}", PartitionKey(path="/address/state"))
        for number, state in enumerate(["CA", "WA", "CA"]):
            flat.create_item({"id": str(number), "address": {"state": state}})
        feed = flat.query_items_change_feed(partition_key="CA", is_start_from_beginning=True)
        self.assertEqual([item["id"] for item in feed], ["0", "2"])

    @unittest.skipUnless(NEW, "the oldest SDK knows no modes")
    def test_all_versions_and_deletes_are_refused_where_they_are_not_kept(self):
        with self.assertRaises(exceptions.CosmosHttpResponseError) as caught:
            list(self.container.query_items_change_feed(mode="AllVersionsAndDeletes"))
        self.assertEqual(caught.exception.status_code, 400)
        self.assertIn("does not keep all versions", str(caught.exception))

    @unittest.skipUnless(NEW, "the oldest SDK knows no modes")
    def test_all_versions_and_deletes(self):
        everything = self.database.create_container(
            f"all-{uuid.uuid4()}", PartitionKey(path=LEVELS, kind="MultiHash"), offer_throughput=THROUGHPUT,
            change_feed_policy={"retentionDuration": 10})
        mode = {"mode": "AllVersionsAndDeletes"} # starts now, and may be repeated with a token
        scopes = {
            "the container": ({}, mode, lambda event: True),
            "a whole key": ({"partition_key": ["t1", "u1"], "start_time": "Now"}, {}, lambda event: event[0] == ("t1", "u1")),
        }

        def drain(options):
            events = []
            for change in everything.query_items_change_feed(max_item_count=3, **options):
                facts, current = change["metadata"], change["current"] # {} of a deletion (F8)
                owner = current or facts["partitionKey"]
                events.append(((owner["TenantId"], owner["UserId"]), facts["operationType"], (current or facts)["id"],
                               current.get("n"), change.get("previous", {}).get("n")))
            return events, everything.client_connection.last_response_headers["etag"]

        ends = {}
        for name, (options, _, _) in scopes.items():
            found, ends[name] = drain({**mode, **options})
            self.assertEqual(found, [])
        happened, live = [], {}
        for n in range(60):
            item = {"id": f"id{n * 7 % 3}", "TenantId": f"t{n % 4}", "UserId": f"u{n % 2}", "n": n}
            key, name = (item["TenantId"], item["UserId"]), name_of(item)
            if n % 5 == 4 and name in live:
                everything.delete_item(item["id"], list(key))
                happened.append((key, "delete", item["id"], None, live.pop(name)))
            else:
                everything.upsert_item(item)
                happened.append((key, "replace" if name in live else "create", item["id"], n, None)) # F8: a replace has no previous image
                live[name] = n
        self.assertEqual({event[1] for event in happened}, {"create", "replace", "delete"})
        for name, (_, again, holds) in scopes.items():
            with self.subTest(name):
                found, _ = drain({"continuation": ends[name], **again})
                # In order per key.
                self.assertEqual(sorted(found, key=lambda e: e[0]), sorted(filter(holds, happened), key=lambda e: e[0]))


class Http(ChangeFeed, unittest.TestCase):
    """Over http."""

    endpoint = os.environ["DECAN_HTTP"]


class Https(ChangeFeed, unittest.TestCase):
    """Over https, with the certificate authority of `decan cert`."""

    endpoint = os.environ["DECAN_HTTPS"]
    ca = os.environ["DECAN_CA"]
