"""Conditional and grouped writes with the Python SDK: etags, transactional
batches, partial updates, unique keys and the time to live. Run by ../run.sh."""

import time
import unittest

from azure.core import MatchConditions
from azure.cosmos import exceptions

import aio
from server import AIO, NEW, Case, connect, headers, own

IDS = "SELECT VALUE c.id FROM c ORDER BY c.id"


def if_match(etag):
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


class Writes(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.container = cls.create("writes", "/pk", partitions=4)

    def ids(self, key, container=None):
        return self.rows(container or self.container, IDS, partition_key=key)

    def test_conditions_of_reads_and_writes(self):
        etag = self.container.create_item({"id": "x", "pk": "conditions"})["_etag"]
        changed = self.container.upsert_item({"id": "x", "pk": "conditions", "n": 1}, **if_match(etag))
        self.refused(412, lambda: self.container.upsert_item({"id": "x", "pk": "conditions"}, **if_match(etag)))
        self.refused(412, lambda: self.container.delete_item("x", "conditions", **if_match(etag)))
        self.container.upsert_item({"id": "new", "pk": "conditions"}, **if_match(etag)) # missing: it is created
        self.container.delete_item("x", "conditions", **if_match(changed["_etag"]))
        self.refused(404, lambda: self.container.delete_item("x", "conditions"))
        self.assertEqual(self.ids("conditions"), ["new"])
        etag = self.container.read_item("new", "conditions")["_etag"]
        with self.assertRaises(exceptions.CosmosBatchOperationError) as caught:
            unless = ("replace", ("new", {"id": "new", "pk": "conditions"}), {"if_none_match_etag": etag})
            self.container.execute_item_batch([unless], partition_key="conditions")
        self.assertEqual(caught.exception.status_code, 412)

    @unittest.skipUnless(AIO, "a synchronous client makes one call at a time")
    def test_many_at_once(self):
        make = self.container.inner.create_item
        made = aio.together(make({"id": str(i), "pk": f"many {i % 5}"}) for i in range(200))
        self.assertEqual(len({item["_rid"] for item in made}), 200)
        self.assertEqual([len(self.ids(f"many {key}")) for key in range(5)], [40] * 5)

    @unittest.skipUnless(NEW, "the oldest SDK escapes always")
    def test_text_that_is_not_escaped(self):
        compact = connect(enable_compact_utf8_item_writes=True).get_database_client(self.database.id).get_container_client("writes")
        text = "日本語 🎉"
        compact.create_item({"id": "x", "pk": "compact", "text": text})
        compact.patch_item("x", "compact", [{"op": "set", "path": "/more", "value": text}])
        compact.execute_item_batch([("create", ({"id": "y", "pk": "compact", "text": text},))], partition_key="compact")
        found = [own(self.container.read_item(name, "compact")) for name in "xy"]
        self.assertEqual(found, [{"id": "x", "pk": "compact", "text": text, "more": text}, {"id": "y", "pk": "compact", "text": text}])

    def test_batch_of_each_operation(self):
        self.container.create_item({"id": "old", "pk": "batch"})
        etag = self.container.create_item({"id": "guarded", "pk": "batch"})["_etag"]
        results = self.container.execute_item_batch([
            ("create", ({"id": "new", "pk": "batch", "n": 2},)),
            ("read", ("new",)),
            ("upsert", ({"id": "either", "pk": "batch"},)),
            ("replace", ("guarded", {"id": "guarded", "pk": "batch", "n": 3}), {"if_match_etag": etag}),
            ("patch", ("new", [{"op": "incr", "path": "/n", "value": 5}])),
            ("delete", ("old",)),
        ], partition_key="batch")
        self.assertGreater(float(headers(self.container)["x-ms-request-charge"]), 0)
        self.assertEqual([result["statusCode"] for result in results], [201, 200, 201, 200, 200, 204])
        self.assertEqual(results[1]["resourceBody"]["n"], 2, "a read sees what came before it")
        self.assertEqual(results[4]["resourceBody"]["n"], 7)
        self.assertEqual(self.ids("batch"), ["either", "guarded", "new"])
        self.assertEqual(self.container.read_item("guarded", "batch")["_etag"], results[3]["eTag"])

    def test_batch_that_is_refused_leaves_nothing(self):
        there = self.container.create_item({"id": "there", "pk": "refused", "n": 1})
        for status, fault in [
            (409, ("create", ({"id": "there", "pk": "refused"},))),
            (404, ("delete", ("nowhere",))),
            (412, ("replace", ("there", {"id": "there", "pk": "refused"}), {"if_match_etag": '"other"'})),
            (412, ("patch", ("there", [{"op": "set", "path": "/n", "value": 9}]), {"filter_predicate": "from c where c.n = 7"})),
            (400, ("patch", ("there", [{"op": "remove", "path": "/missing"}]))),
        ]:
            with self.subTest(fault):
                with self.assertRaises(exceptions.CosmosBatchOperationError) as caught:
                    self.container.execute_item_batch([
                        ("create", ({"id": "first", "pk": "refused"},)),
                        ("patch", ("there", [{"op": "incr", "path": "/n", "value": 1}])),
                        fault,
                        ("upsert", ({"id": "last", "pk": "refused"},)),
                    ], partition_key="refused")
                self.assertEqual((caught.exception.error_index, caught.exception.status_code), (2, status))
                statuses = [result["statusCode"] for result in caught.exception.operation_responses]
                self.assertEqual(statuses, [424, 424, status, 424])
                self.assertEqual(self.container.read_item("there", "refused")["_etag"], there["_etag"])
                self.assertEqual(self.ids("refused"), ["there"])

    def test_batch_sees_the_versions_that_it_makes(self):
        before = self.container.create_item({"id": "x", "pk": "versions"})["_etag"]

        def replace_twice(**guard):
            operation = ("replace", ("x", {"id": "x", "pk": "versions"}))
            return self.container.execute_item_batch([operation, (*operation, guard)], partition_key="versions")

        with self.assertRaises(exceptions.CosmosBatchOperationError) as caught:
            replace_twice(if_match_etag=before)
        self.assertEqual((caught.exception.error_index, caught.exception.status_code), (1, 412))
        self.assertEqual([result["statusCode"] for result in replace_twice(if_none_match_etag=before)], [200, 200])

    def test_batches_have_a_size(self):
        def creates(n):
            return [("create", ({"id": f"of {n} {i}", "pk": "size"},)) for i in range(n)]

        self.container.execute_item_batch(creates(100), partition_key="size")
        self.refused(400, lambda: self.container.execute_item_batch(creates(101), partition_key="size"))
        self.assertEqual(len(self.ids("size")), 100)

    def test_batch_and_patch_under_a_hierarchical_key(self):
        nested = self.create("nested", "/t", "/u", partitions=4)
        nested.execute_item_batch([("create", ({"id": name, "t": "t", "u": "u"},)) for name in "12"], partition_key=["t", "u"])
        self.assertEqual(self.ids(["t", "u"], nested), ["1", "2"])
        patched = nested.patch_item("1", ["t", "u"], [
            {"op": "add", "path": "/items", "value": [{"price": 5}]}, {"op": "set", "path": "/items/0/discount", "value": 2}])
        self.assertEqual(own(patched), {"id": "1", "t": "t", "u": "u", "items": [{"price": 5, "discount": 2}]})
        with self.assertRaises(exceptions.CosmosBatchOperationError) as caught:
            nested.execute_item_batch([("create", ({"id": "3", "t": "t", "u": "of another"},))], partition_key=["t", "u"])
        self.assertEqual(caught.exception.status_code, 400)

    def test_partial_updates_each_operation(self):
        self.container.create_item({
            "id": "x", "pk": "patch", "n": 1, "f": 0.5, "list": ["a", "b"], "deep": {"one": 1, "two": 2}, "gone": True, "a/b~c": 0})
        patched = self.container.patch_item("x", "patch", [
            {"op": "add", "path": "/added", "value": {"by": "patch"}},
            {"op": "add", "path": "/list/1", "value": "between"},
            {"op": "add", "path": "/list/-", "value": "last"},
            {"op": "set", "path": "/list/0", "value": "first"},
            {"op": "replace", "path": "/deep/one", "value": 11},
            {"op": "remove", "path": "/gone"},
            {"op": "incr", "path": "/n", "value": 41},
            {"op": "incr", "path": "/f", "value": -0.25},
            {"op": "move", "from": "/deep/two", "path": "/moved"},
            {"op": "set", "path": "/a~1b~0c", "value": 1},
        ])
        self.assertEqual(own(patched), {
            "id": "x", "pk": "patch", "n": 42, "f": 0.25, "list": ["first", "between", "b", "last"],
            "deep": {"one": 11}, "added": {"by": "patch"}, "moved": 2, "a/b~c": 1})
        zero, condition = [{"op": "set", "path": "/n", "value": 0}], "from c where c.n > 41 and ARRAY_CONTAINS(c.list, 'b')"
        self.assertEqual(self.container.patch_item("x", "patch", zero, filter_predicate=condition)["n"], 0)
        self.refused(412, lambda: self.container.patch_item("x", "patch", zero, filter_predicate=condition))
        self.refused(412, lambda: self.container.patch_item("x", "patch", zero, **if_match(patched["_etag"])))

    def test_partial_updates_that_are_refused(self):
        etag = self.container.create_item({"id": "x", "pk": "no patch", "text": "t", "list": [1]})["_etag"]
        for operations in [
            [{"op": "set", "path": "/n", "value": 1}, {"op": "replace", "path": "/missing", "value": 1}],
            [{"op": "remove", "path": "/missing"}],
            [{"op": "move", "from": "/missing", "path": "/there"}],
            [{"op": "add", "path": "/list/7", "value": 1}],
            [{"op": "add", "path": "/a/b", "value": 1}],
            [{"op": "incr", "path": "/text", "value": 1}],
            [{"op": "set", "path": "/id", "value": "y"}],
            [{"op": "set", "path": "/pk", "value": "y"}],
            [{"op": "set", "path": "/_ts", "value": 1}],
            [{"op": "set", "path": f"/n{i}", "value": i} for i in range(11)],
        ]:
            with self.subTest(operations):
                self.refused(400, lambda o=operations: self.container.patch_item("x", "no patch", o))
        self.refused(404, lambda: self.container.patch_item("y", "no patch", [{"op": "set", "path": "/n", "value": 1}]))
        self.assertEqual(self.container.read_item("x", "no patch")["_etag"], etag, "nothing was written")

    def test_delete_by_partition_key(self):
        for key in ("Gadget", "Widget"):
            self.container.create_item({"id": key, "pk": key})
        self.container.delete_all_items_by_partition_key("Gadget")
        self.assertEqual((self.ids("Gadget"), self.ids("Widget")), ([], ["Widget"]))
        cleared = self.create("cleared", "/t", "/u", partitions=4)
        for i in range(12):
            cleared.create_item({"id": str(i), "t": f"t{i % 2}", "u": f"u{i % 3}"})
        cleared.delete_all_items_by_partition_key(["t0", "u0"])
        self.assertEqual(self.ids(["t0", "u0"], cleared), [])
        self.refused(404, lambda: cleared.read_item("0", ["t0", "u0"]))
        cleared.create_item({"id": "0", "t": "t0", "u": "u0"}) # with the current time
        self.refused(400, lambda: cleared.delete_all_items_by_partition_key(["t1"])) # F21: a prefix
        self.assertEqual(sorted(self.rows(cleared, "SELECT VALUE c.id FROM c"), key=int), ["0", "1", "2", "3", "4", "5", "7", "8", "9", "10", "11"])

    def test_unique_keys(self):
        policy = {"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/first", "/last/name"]}]}
        unique = self.create("unique", "/pk", partitions=4, unique_key_policy=policy)
        self.assertEqual([key["paths"] for key in unique.read()["uniqueKeyPolicy"]["uniqueKeys"]], [["/email"], ["/first", "/last/name"]])
        unique.create_item({"id": "1", "pk": "a", "email": "ann@x", "first": "Ann", "last": {"name": "B"}})
        self.refused(409, lambda: unique.create_item({"id": "2", "pk": "a", "email": "ann@x"}))
        self.refused(409, lambda: unique.create_item({"id": "2", "pk": "a", "email": "other", "first": "Ann", "last": {"name": "B"}}))
        unique.create_item({"id": "2", "pk": "b", "email": "ann@x"})  # another key
        unique.create_item({"id": "2", "pk": "a", "email": "other", "first": "Ann"})
        unique.create_item({"id": "3", "pk": "a", "first": "Bob"})  # no email, once
        self.refused(409, lambda: unique.create_item({"id": "4", "pk": "a", "first": "Eve"}))
        self.refused(409, lambda: unique.patch_item("2", "a", [{"op": "set", "path": "/email", "value": "ann@x"}]))
        unique.execute_item_batch([("delete", ("1",)), ("create", ({"id": "4", "pk": "a", "email": "ann@x"},))], partition_key="a")

    def test_time_to_live(self):
        mortal = self.create("mortal", "/pk", default_ttl=-1)
        mortal.create_item({"id": "stays", "pk": "a"})
        mortal.create_item({"id": "goes", "pk": "a", "ttl": 1})

        def gone(name):
            end = time.monotonic() + 60
            while name in self.ids("a", mortal): # takes a second or two
                self.assertLess(time.monotonic(), end, f"{name} stays")
                time.sleep(0.05)

        gone("goes")
        self.refused(404, lambda: mortal.read_item("goes", "a"))
        mortal.create_item({"id": "goes", "pk": "a", "ttl": 1000})
        self.refused(400, lambda: mortal.create_item({"id": "wrong", "pk": "a", "ttl": 0}))
        self.database.replace_container(mortal, mortal.read()["partitionKey"], default_ttl=1)
        gone("stays")
        self.assertEqual(self.ids("a", mortal), ["goes"], "an item's own time counts")
