"""Databases, containers, throughput, indexing policies, items and queries, as the
public samples of the Python SDK. Run by ../run.sh."""

import time
import unittest
import uuid

from azure.cosmos import PartitionKey, ThroughputProperties, documents, exceptions
from azure.cosmos.partition_key import NonePartitionKeyValue

import aio
from server import AIO, KEY, NEW, Case, connect, connect_by, headers


class Management(Case):
    def no_throughput(self, call):
        """The newest SDK fails on a 404 that it creates itself."""
        with self.assertRaises(AttributeError if NEW else exceptions.CosmosResourceNotFoundError):
            call()

    def account(self):
        return self.client._get_database_account() if AIO else self.client.get_database_account()

    def test_account(self):
        account = self.account()
        self.assertEqual(account.ConsistencyPolicy["defaultConsistencyLevel"], "Session")
        self.assertTrue(account.WritableLocations)
        again = connect_by(f"AccountEndpoint={self.client.client_connection.url_connection};AccountKey={KEY};")
        self.assertIn(self.database.id, [d["id"] for d in again.list_databases()])

    def test_locations(self):
        """There is one region, regardless of the regions that a client prefers or excludes."""
        here = self.account().WritableLocations[0]["name"]
        without = {"excluded_locations": [here]} if NEW else {}
        others = ["elsewhere"] if NEW else [] # the oldest SDK fails with it
        self.create("places", "/id")
        for name, options in [("preferred", {"preferred_locations": [*others, here]}), ("excluded", {"preferred_locations": [here], **without})]:
            places = connect(**options).get_database_client(self.database.id).get_container_client("places")
            places.create_item({"id": name})
            self.assertEqual(places.read_item(name, name, **without)["id"], name)

    def test_databases(self):
        name = f"management-{uuid.uuid4()}"
        made = self.client.create_database_if_not_exists(name)
        self.assertEqual(self.client.create_database_if_not_exists(name).id, name)
        self.refused(409, lambda: self.client.create_database(name))
        self.assertEqual(made.read()["id"], name)
        self.assertIn(name, [d["id"] for d in self.client.list_databases()])
        query = {"query": "SELECT * FROM r WHERE r.id = @id", "parameters": [{"name": "@id", "value": name}]}
        self.assertEqual([d["id"] for d in self.client.query_databases(**query)], [name])
        self.no_throughput(made.get_throughput)
        self.client.delete_database(name)
        self.refused(404, made.read)

    def test_containers(self):
        key = PartitionKey(path="/pk")
        container = self.database.create_container_if_not_exists("c", key)
        self.assertEqual(self.database.create_container_if_not_exists("c", key).id, "c")
        self.refused(409, lambda: self.database.create_container("c", key))
        self.assertEqual(container.read()["partitionKey"], {"paths": ["/pk"], "kind": "Hash", "version": 2})
        self.assertEqual(self.database.replace_container("c", key, default_ttl=1000).read()["defaultTtl"], 1000)
        container.read(populate_quota_info=True)
        self.assertIn("documentsCount=0", headers(container)["x-ms-resource-usage"])
        container.read(populate_partition_key_range_statistics=True)
        self.assertIn("c", [one["id"] for one in self.database.list_containers()])
        named = {"query": "SELECT * FROM c WHERE c.id = @id", "parameters": [{"name": "@id", "value": "c"}]}
        self.assertEqual([one["id"] for one in self.database.query_containers(**named)], ["c"])
        self.assertEqual(list(container.list_conflicts()), [])
        self.database.delete_container("c")
        self.refused(404, container.read)
        self.refused(404, lambda: connect().get_database_client(self.database.id).get_container_client("nowhere").create_item({"id": "1"}))

    def test_containers_as_they_are_asked_for(self):
        key = PartitionKey(path="/pk")
        policy = self.database.create_container("by-hand", key, indexing_policy={"automatic": False}).read()["indexingPolicy"]
        self.assertEqual((policy["indexingMode"], policy["automatic"]), ("consistent", True))
        wins = {"mode": "LastWriterWins", "conflictResolutionPath": "/stamp"}
        kept = self.database.create_container("wins", key, conflict_resolution_policy=wins).read()["conflictResolutionPolicy"]
        self.assertLessEqual(wins.items(), kept.items())
        self.refused(400, lambda: self.database.create_container("analysed", key, analytical_storage_ttl=-1))

    @unittest.skipUnless(NEW, "the oldest SDK cannot replace them")
    def test_computed_properties(self):
        key, lower = PartitionKey(path="/pk"), {"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}
        computed = self.database.create_container("computed", key, computed_properties=[lower])
        computed.create_item({"id": "1", "pk": "p", "name": "Ann"})
        self.assertEqual(computed.read()["computedProperties"], [lower])
        self.assertEqual(self.rows(computed, "SELECT VALUE c.id FROM c WHERE c.lower = 'ann'"), ["1"])
        self.database.replace_container(computed, key, computed_properties=[{"name": "upper", "query": "SELECT VALUE UPPER(c.name) FROM c"}])
        self.assertEqual(self.rows(computed, "SELECT VALUE c.upper FROM c WHERE c.upper = 'ANN' AND NOT IS_DEFINED(c.lower)"), ["ANN"])

    @unittest.skipUnless(AIO, "a synchronous client makes one call at a time")
    def test_containers_at_once(self):
        inner, names, key = self.database.inner, ["first", "second", "third"], PartitionKey(path="/pk")
        figures = ThroughputProperties(auto_scale_max_throughput=4000)
        made = aio.together(inner.create_container(f"at-once-{name}", key, offer_throughput=figures) for name in names)
        offers = aio.together(container.get_throughput() for container in made)
        self.assertEqual([offer.auto_scale_max_throughput for offer in offers], [4000] * 3)
        aio.together(inner.delete_container(container) for container in made)
        self.assertFalse([one["id"] for one in self.database.list_containers() if one["id"].startswith("at-once")])

    def test_containers_with_a_key_of_the_first_version(self):
        first = self.database.create_container("first", PartitionKey(path="/id", kind="Hash", version=1))
        self.assertEqual(first.read()["partitionKey"], {"paths": ["/id"], "kind": "Hash", "version": 1})
        item = first.create_item({"id": "a"})
        self.assertEqual(first.read_item("a", "a")["id"], "a")
        self.assertEqual(first.replace_item(item, dict(item, n=1), if_match=item["_etag"])["n"], 1)
        self.refused(412, lambda: first.replace_item(item, dict(item, n=2), if_match=item["_etag"]))
        self.assertEqual(first.replace_item(item, dict(item, n=3), if_none_match="some-etag")["n"], 3)

    def test_throughput(self):
        manual = self.database.create_container("manual", PartitionKey(path="/pk"), offer_throughput=500)
        self.assertEqual(manual.get_throughput().offer_throughput, 500)
        self.assertEqual(manual.replace_throughput(900).offer_throughput, 900)
        self.refused(400, lambda: manual.replace_throughput(100))
        self.refused(400, lambda: self.database.create_container("little", PartitionKey(path="/pk"), offer_throughput=300))
        figures = ThroughputProperties(auto_scale_max_throughput=4000, auto_scale_increment_percent=0)
        scaled = self.database.create_container("scaled", PartitionKey(path="/pk"), offer_throughput=figures)
        self.assertEqual(scaled.get_throughput().auto_scale_max_throughput, 4000)
        scaled.replace_throughput(ThroughputProperties(auto_scale_max_throughput=5000))
        self.assertEqual(scaled.get_throughput().auto_scale_max_throughput, 5000)
        with self.assertRaises(KeyError): # the SDK looks for settings that a manual offer does not have
            manual.replace_throughput(ThroughputProperties(auto_scale_max_throughput=4000))
        scaled = self.client.create_database(f"scaled-{uuid.uuid4()}", offer_throughput=figures)
        self.addCleanup(lambda: self.client.delete_database(scaled.id))
        self.assertEqual(scaled.get_throughput().properties["content"]["offerAutopilotSettings"]["maxThroughput"], 4000)
        shared = self.client.create_database(f"shared-{uuid.uuid4()}", offer_throughput=500)
        self.addCleanup(lambda: self.client.delete_database(shared.id))
        self.assertEqual(shared.get_throughput().offer_throughput, 500)
        self.no_throughput(shared.create_container("inside", PartitionKey(path="/pk")).get_throughput)
        self.assertEqual(shared.replace_throughput(600).offer_throughput, 600)

    def test_indexing_policies(self):
        policy = {
            "indexingMode": "consistent", "automatic": True,
            "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/secret/*"}],
            "compositeIndexes": [[{"path": "/name", "order": "ascending"}, {"path": "/age", "order": "descending"}]],
            "spatialIndexes": [{"path": "/place/*", "types": ["Point"]}],
        }
        indexed = self.create("indexed", "/pk", indexing_policy=policy)
        kept = indexed.read()["indexingPolicy"]
        self.assertIn({"path": "/secret/*"}, kept["excludedPaths"])
        self.assertEqual(kept["compositeIndexes"], policy["compositeIndexes"])
        for i in range(6):
            indexed.create_item({"id": str(i), "pk": "p", "name": f"n{i % 2}", "age": i, "secret": i, "place": {"type": "Point", "coordinates": [i, i]}})
        self.assertEqual(self.rows(indexed, "SELECT VALUE c.id FROM c ORDER BY c.name, c.age DESC"), ["4", "2", "0", "5", "3", "1"])
        self.assertEqual(self.rows(indexed, "SELECT VALUE c.id FROM c WHERE c.secret = 3", enable_scan_in_query=True), ["3"])
        near = "SELECT VALUE c.id FROM c WHERE ST_DISTANCE(c.place, {'type': 'Point', 'coordinates': [0, 0]}) < 300000"
        self.assertEqual(self.rows(indexed, near), ["0", "1"])
        key = PartitionKey(path="/pk")
        self.database.replace_container(indexed, key, indexing_policy={"indexingMode": "none", "automatic": False})
        self.assertEqual(indexed.read()["indexingPolicy"]["indexingMode"], "none")
        self.assertEqual(indexed.read_item("3", "p")["age"], 3)
        self.database.replace_container(indexed, key, indexing_policy={"includedPaths": [{"path": "/age/?"}], "excludedPaths": [{"path": "/*"}]})
        self.assertEqual(self.rows(indexed, "SELECT VALUE c.id FROM c WHERE c.age > 3 ORDER BY c.age"), ["4", "5"])
        self.refused(400, lambda: self.database.replace_container(indexed, key, indexing_policy={"includedPaths": [{"path": "/age"}]}))

    def test_paths_left_out_of_the_index(self):
        """A query finds values that are not indexed."""
        left_out = ["/meta/*", "/sub/hidden/*", '/"third"/*']
        policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": path} for path in left_out]}
        some = self.create("left-out", "/id", indexing_policy=policy)
        some.create_item({"id": "x", "meta": "m", "sub": {"seen": 1, "hidden": 2}, "third": 3})
        self.assertLessEqual(set(left_out), {path["path"] for path in some.read()["indexingPolicy"]["excludedPaths"]})
        for condition in ("c.meta = 'm'", "c.sub.seen = 1", "c.sub.hidden = 2", "c.third > 2"):
            self.assertEqual(self.rows(some, f"SELECT VALUE c.id FROM c WHERE {condition}"), ["x"], condition)

    def test_order_by_four_paths(self):
        """With an index, read backwards."""
        index = [{"path": f"/{name}", "order": order} for name, order in zip("abcd", ["descending", "ascending"] * 2)]
        ordered = self.create("ordered", "/pk", indexing_policy={"compositeIndexes": [index]})
        bits = [(i >> 3, i >> 2 & 1, i >> 1 & 1, i & 1) for i in range(16)]
        for a, b, c, d in bits:
            ordered.create_item({"id": f"{a}{b}{c}{d}", "pk": "p", "a": a, "b": f"{b}", "c": c, "d": f"{d}"})
        want = sorted(bits, key=lambda bit: (bit[0], -bit[1], bit[2], -bit[3]))
        found = self.rows(ordered, "SELECT VALUE r.id FROM r ORDER BY r.a ASC, r.b DESC, r.c ASC, r.d DESC", partition_key="p")
        self.assertEqual(found, ["".join(map(str, bit)) for bit in want])

    @unittest.skipUnless(NEW, "the oldest SDK does not support vectors")
    def test_vectors(self):
        embeddings = [{"path": "/v", "dataType": "float32", "dimensions": 3, "distanceFunction": "cosine"}]
        near = self.create(
            "near", "/id", indexing_policy={"vectorIndexes": [{"path": "/v", "type": "quantizedFlat"}]},
            vector_embedding_policy={"vectorEmbeddings": embeddings})
        self.assertEqual(near.read()["vectorEmbeddingPolicy"]["vectorEmbeddings"], embeddings)
        for name, vector in {"far": [0, 1, 0], "near": [1, 1, 0], "same": [2, 0, 0]}.items():
            near.create_item({"id": name, "v": vector})
        distance = "VectorDistance(c.v, [1, 0, 0])"
        found = self.rows(near, f"SELECT TOP 2 c.id, {distance} AS score FROM c ORDER BY {distance}")
        self.assertEqual([item["id"] for item in found], ["same", "near"])
        self.assertAlmostEqual(found[1]["score"], 0.5 ** 0.5, places=5)

    def test_indexing_by_hand_and_in_the_words_of_old(self):
        words, key = self.create("words", "/id"), PartitionKey(path="/id")

        def finds(*want):
            """A change of the policy takes some time."""
            end, query = time.monotonic() + 60, "SELECT VALUE w.id FROM w WHERE w.mark = 'm'"
            while (found := sorted(self.rows(words, query))) != list(want):
                self.assertLess(time.monotonic(), end, f"the query finds {found}")
                time.sleep(0.05)

        words.create_item({"id": "excluded", "mark": "m"}, indexing_directive=documents.IndexingDirective.Exclude)
        finds("excluded")  # F7: a directive has no effect
        self.assertEqual(words.read_item("excluded", "excluded")["mark"], "m")
        self.database.replace_container(words, key, indexing_policy={"automatic": False})
        words.create_item({"id": "left out", "mark": "m"})
        words.create_item({"id": "included", "mark": "m"}, indexing_directive=documents.IndexingDirective.Include)
        finds("excluded", "included", "left out")
        old = {"kind": documents.IndexKind.Range, "dataType": documents.DataType.String, "precision": -1}
        self.database.replace_container(words, key, indexing_policy={"includedPaths": [{"path": "/mark/?", "indexes": [old]}, {"path": "/*"}]})
        finds("excluded", "included", "left out")
        words.create_item({"id": "behind", "mark": "n"})
        marks = [word["mark"] for word in self.rows(words, "SELECT * FROM w WHERE w.mark >= 'm' ORDER BY w.mark")]
        self.assertEqual(marks, ["m", "m", "m", "n"])
        self.database.replace_container(words, key, indexing_policy={
            "includedPaths": [{"path": "/", "indexes": [old]}], "excludedPaths": [{"path": "/other/*"}, {"path": '/"third"/*'}]})
        policy = words.read()["indexingPolicy"]
        self.assertEqual([path["path"] for path in policy["includedPaths"]], ["/*"])
        policy["includedPaths"][0]["indexes"] = [old]  # read, changed and sent back
        policy["excludedPaths"] = [{"path": "/length/*"}]
        self.database.replace_container(words, key, indexing_policy=policy)
        self.assertIn({"path": "/length/*"}, words.read()["indexingPolicy"]["excludedPaths"])
        self.assertEqual(len(self.rows(words, "SELECT * FROM w", partition_key="included", continuation_token_limit=8)), 1)

    def test_items(self):
        items = self.create("items", "/pk", partitions=2)
        made = items.create_item({"id": "1", "pk": "a", "n": 1})
        self.assertLessEqual({"_rid", "_self", "_etag", "_ts", "_attachments"}, made.keys())
        names = {name.lower() for name in headers(items)}  # the oldest asynchronous client has an Etag
        self.assertLessEqual({"x-ms-request-charge", "x-ms-session-token", "x-ms-activity-id", "etag"}, names)
        self.assertEqual(items.replace_item(made, dict(made, n=3))["n"], 3)
        self.assertEqual(items.read_item(made, "a")["n"], 3)
        self.refused(404, lambda: items.replace_item("2", {"id": "2", "pk": "a"}))
        with self.assertRaises(exceptions.CosmosResourceNotFoundError):
            items.read_item("1", "b")
        with self.assertRaises(exceptions.CosmosResourceExistsError):
            items.create_item({"id": "1", "pk": "a"})
        self.refused(413, lambda: items.create_item({"id": "large", "pk": "a", "text": "x" * 2_200_000}))
        self.assertEqual(len(items.create_item({"pk": "generated"}, enable_automatic_id_generation=True)["id"]), 36)
        items.create_item({"id": "none"})
        self.assertEqual(items.read_item("none", NonePartitionKeyValue)["id"], "none")
        self.assertEqual(len(list(items.read_all_items(max_item_count=1))), 3)
        items.upsert_item({"id": "none", "n": 1})
        self.assertEqual(items.replace_item("none", {"id": "none", "n": 2})["n"], 2)
        items.delete_item("none", NonePartitionKeyValue)
        self.refused(404, lambda: items.read_item("none", NonePartitionKeyValue))
        if NEW:
            self.assertEqual(dict(items.upsert_item({"id": "1", "pk": "a"}, no_response=True)), {})
            self.assertEqual(items.read_item("1", "a", priority="Low")["id"], "1")
        items.delete_item(made, "a")
        self.refused(404, lambda: items.read_item(made, "a"))

    def test_ids_of_every_kind(self):
        odd = self.create("odd", "/pk")
        for name in ["with blank", "ü€😀", "a+b&c=d", "100%", '"quoted"', "a:b;c,d", "x" * 255]:
            odd.create_item({"id": name, "pk": name})
            self.assertEqual(odd.read_item(name, name)["id"], name)
            odd.delete_item(name, name)

    def test_queries(self):
        families = self.create("families", "/name", partitions=2)
        families.create_item({"id": "A", "name": "Andersen", "children": [{"given": "Ann", "grade": 5, "pets": [{"p": "Fluffy"}]}], "city": "Seattle", "ok": True})
        families.create_item({"id": "W", "name": "Wakefield", "city": "NY", "ok": False, "children": [
            {"given": "Jesse", "grade": 1, "pets": [{"p": "Goofy"}, {"p": "Shadow"}]}, {"given": "Lisa", "grade": 8}]})
        for query, want in [
            ("SELECT VALUE c.given FROM c IN f.children", ["Ann", "Jesse", "Lisa"]),
            ("SELECT VALUE p.p FROM f JOIN c IN f.children JOIN p IN c.pets WHERE p.p != 'Goofy'", ["Fluffy", "Shadow"]),
            ("SELECT VALUE f.id FROM f WHERE f.children[0].grade > 3", ["A"]),
            ("SELECT VALUE f.id FROM f WHERE f.city IN ('NY', 'LA')", ["W"]),
            ("SELECT VALUE f.id FROM f WHERE f.id BETWEEN 'B' AND 'Z' OR f.ok", ["A", "W"]),
            ("SELECT VALUE f.id FROM f WHERE CONTAINS(UPPER(f.name), 'FIELD')", ["W"]),
            ("SELECT VALUE COUNT(1) FROM f JOIN c IN f.children", [3]),
            ("SELECT VALUE SUM(c.grade) FROM f JOIN c IN f.children", [14]),
            ("SELECT VALUE f.id FROM f WHERE EXISTS(SELECT VALUE c FROM c IN f.children WHERE c.grade > 7)", ["W"]),
        ]:
            with self.subTest(query):
                self.assertEqual(sorted(self.rows(families, query)), want)
        self.assertEqual(self.rows(families, "SELECT VALUE f.id FROM f ORDER BY f.name DESC"), ["W", "A"])
        pinned = families.query_items("SELECT * FROM f WHERE f.name = 'Andersen'") # restricted to one partition by the filter alone
        self.assertEqual([family["id"] for family in pinned], ["A"])
        parameters = [{"name": "@id", "value": "A"}, {"name": "@cities", "value": ["Seattle", "LA"]}]
        query = "SELECT * FROM f WHERE f.id = @id AND ARRAY_CONTAINS(@cities, f.city)"
        self.assertEqual([f["id"] for f in self.rows(families, query, parameters=parameters)], ["A"])
        self.refused(400, lambda: self.rows(families, "SELECT * FRM f"))
        self.rows(families, "SELECT * FROM f", partition_key="Andersen", populate_query_metrics=True)
        self.assertIn("retrievedDocumentCount", headers(families)["x-ms-documentdb-query-metrics"])

    def test_pages_and_where_they_go_on(self):
        paged = self.create("paged", "/pk", partitions=3)
        for i in range(30):
            paged.create_item({"id": str(i), "pk": "a" if i < 20 else f"p{i}", "n": i})

        def pages(query, **options):
            """Returns the pages, with a new query for each."""
            found, token = [], None
            while not found or token:
                self.assertLess(len(found), 40, "no end")
                page = paged.query_items(query, **options).by_page(token)
                found.append([item["n"] for item in next(page)])
                token = page.continuation_token
            return found

        everywhere = {"enable_cross_partition_query": True}
        descending = pages("SELECT * FROM c ORDER BY c.n DESC", partition_key="a", max_item_count=7)
        self.assertEqual((sum(descending, []), len(descending)), (list(range(19, -1, -1)), 3))
        single = pages("SELECT * FROM c", max_item_count=1, **everywhere)
        self.assertEqual(sorted(single), [[n] for n in range(30)])
        by_time = paged.query_items("SELECT * FROM c ORDER BY c._ts", max_item_count=3, **everywhere).by_page()
        found = [[(item["_ts"], item["n"]) for item in page] for page in by_time]
        self.assertEqual({len(page) for page in found}, {3})
        times, numbers = zip(*sum(found, []))
        self.assertEqual((list(times), sorted(numbers)), (sorted(times), list(range(30))))

    @unittest.skipUnless(NEW, "the oldest SDK does not send them")
    def test_priorities_and_throughput_buckets(self):
        name = f"management-{uuid.uuid4()}"
        self.client.create_database_if_not_exists(name, throughput_bucket=2)
        self.client.delete_database(name, throughput_bucket=2)
        made = self.database.create_container("buckets", PartitionKey(path="/pk"), throughput_bucket=3)
        self.assertEqual(len(list(self.database.query_containers("SELECT * FROM c WHERE c.id = 'buckets'", throughput_bucket=3))), 1)
        made.create_item({"id": "1", "pk": "p"}, throughput_bucket=5, priority="Low")
        self.assertEqual(made.read_item("1", "p", throughput_bucket=4, priority="High")["id"], "1")
        self.refused(400, lambda: made.read_item("1", "p", throughput_bucket=6))
        whole = connect(throughput_bucket=1).get_database_client(self.database.id).get_container_client("buckets")
        self.assertEqual(whole.upsert_item({"id": "1", "pk": "p", "n": 1})["n"], 1)

    @unittest.skipUnless(NEW, "the oldest SDK has no such call")
    def test_reading_many(self):
        many = self.create("many", "/t", "/u", partitions=3)
        for i in range(40):
            many.create_item({"id": f"id{i}", "t": f"t{i % 5}", "u": f"u{i}"})
        wanted = [(f"id{i}", [f"t{i % 5}", f"u{i}"]) for i in range(0, 40, 2)] + [("missing", ["t9", "u9"])]
        found = many.read_items(wanted)
        self.assertEqual(sorted(item["id"] for item in found), sorted(f"id{i}" for i in range(0, 40, 2)))
        by_id = self.create("by-id", "/id", partitions=2)
        there, heard = [f"id{i}" for i in range(0, 2500, 63)], []
        for name in there:
            by_id.create_item({"id": name})
        asked = [(f"id{i}", f"id{i}") for i in range(2500)] # more of each partition than fit into one query
        found = by_id.read_items(asked, response_hook=lambda head, items: heard.append((head["x-ms-request-charge"], len(items))))
        self.assertEqual([item["id"] for item in found], there)
        charge = found.get_response_headers()["x-ms-request-charge"]
        self.assertGreater(float(charge), 0)
        self.assertEqual(heard, [(charge, 40)])

    @unittest.skipUnless(NEW, "the oldest SDK has no such calls")
    def test_ranges(self):
        ranged = self.create("ranged", "/t", "/u", partitions=3)
        for i in range(12):
            ranged.create_item({"id": str(i), "t": f"t{i}", "u": "u"})
        ranges = list(ranged.read_feed_ranges())
        self.assertEqual(len(ranges), 3)
        mine = ranged.feed_range_from_partition_key(["t1", "u"])
        self.assertEqual(sum(ranged.is_feed_range_subset(one, mine) for one in ranges), 1)
        self.assertEqual(list(ranged.read_feed_ranges(force_refresh=True)), ranges)
        self.assertEqual(list(ranged.query_items("SELECT VALUE c.id FROM c", feed_range=mine)), ["1"])
        pages = [len(list(page)) for one in ranges for page in ranged.query_items("SELECT * FROM c", feed_range=one, max_item_count=3).by_page()]
        self.assertEqual((sum(pages), max(pages)), (12, 3))
        found = [name for one in ranges for name in ranged.query_items("SELECT VALUE c.id FROM c", feed_range=one)]
        self.assertEqual(sorted(found, key=int), [str(i) for i in range(12)])
        with self.assertRaises(ValueError):
            ranged.query_items("SELECT * FROM c", feed_range=mine, partition_key=["t1", "u"])
        flat = self.create("flat", "/pk", partitions=2)
        flat.create_item({"id": "null", "pk": None})
        flat.create_item({"id": "other", "pk": "p"})
        one = flat.feed_range_from_partition_key(None)
        self.assertTrue(flat.is_feed_range_subset(one, one))
        self.assertEqual(list(flat.query_items("SELECT VALUE c.id FROM c", feed_range=one)), ["null"])

    @unittest.skipUnless(NEW, "the oldest SDK has no such calls")
    def test_headers_of_answers(self):
        database, made = self.client.create_database(f"answers-{uuid.uuid4()}", offer_throughput=ThroughputProperties(500), return_properties=True)
        self.addCleanup(lambda: self.client.delete_database(database.id))
        self.assertEqual(made["id"], database.id)
        _, there = self.client.create_database_if_not_exists(database.id, return_properties=True)
        container, kept = database.create_container("c", PartitionKey(path="/pk"), return_properties=True)
        self.assertEqual(kept["partitionKey"]["paths"], ["/pk"])
        _, again = database.create_container_if_not_exists("c", PartitionKey(path="/pk"), return_properties=True)
        for answer in (made, there, kept, again, database.replace_throughput(600), container.create_item({"id": "1", "pk": "a"})):
            self.assertGreater(float(answer.get_response_headers()["x-ms-request-charge"]), 0)
