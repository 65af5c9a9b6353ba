"""The work of a first user with the Python SDK: a container with three levels of
partition key, items, point reads, and the routing table of the documentation
(S77: without a cloud; S91: the oldest SDK with hierarchical keys and the newest). Run by ../run.sh against a server over http and over https."""

import os
import unittest
import uuid

from azure.core import MatchConditions
from azure.cosmos import PartitionKey, exceptions

from server import KEY, connect

PARTITIONS = 8
THROUGHPUT = 48000  # at 6,000 RU/s each: eight physical partitions
LEVELS = ["/TenantId", "/UserId", "/SessionId"]

SESSIONS = [
    {"id": str(uuid.uuid4()), "TenantId": tenant, "UserId": user, "SessionId": session}
    for tenant in ["Microsoft", "Contoso", "Fabrikam"]
    for user in ["u0", "u1", "u2", "u3"]
    for session in ["s0", "s1"]
]
for number, item in enumerate(SESSIONS):
    item["n"] = number


def key_of(item):
    return [item["TenantId"], item["UserId"], item["SessionId"]]


class Scenario:
    """The tests; the classes below say over which protocol they run."""

    endpoint = ""
    ca = None # the certificate authority of the server

    @classmethod
    def setUpClass(cls):
        cls.visited = set()
        cls.account_reads = 0

        def watch(response):
            if response.http_request.method == "GET" and response.http_request.url.rstrip("/") == cls.endpoint.rstrip("/"):
                cls.account_reads += 1
            for partition in response.http_response.headers.get("x-decan-partitions", "").split(","):
                if partition:
                    cls.visited.add(partition)

        cls.client = cls.connect(KEY, raw_response_hook=watch)
        cls.database = cls.client.create_database(f"compat-py-{uuid.uuid4()}")
        cls.addClassCleanup(lambda: cls.client.delete_database(cls.database.id))
        cls.container = cls.create("sessions", LEVELS)
        for item in SESSIONS:
            cls.container.create_item(item)  # S81: the SDK takes the key from the item

    @classmethod
    def connect(cls, key, **options):
        return connect(cls.endpoint, key, cls.ca, **options)

    @classmethod
    def create(cls, name, paths):
        return cls.database.create_container(name, PartitionKey(path=paths, kind="MultiHash"), offer_throughput=THROUGHPUT)

    def rows(self, query, container=None, **options):
        """Returns the rows of a query, and from now on counts the partitions that it visits."""
        if "partition_key" not in options:
            options["enable_cross_partition_query"] = True
        self.visited.clear()
        return list((container or self.container).query_items(query, **options))

    def refused(self, status, call):
        with self.assertRaises(exceptions.CosmosHttpResponseError) as caught:
            call()
        self.assertEqual(caught.exception.status_code, status, caught.exception)

    def test_s1_ranges_tile_the_key_space(self):
        link = f"dbs/{self.database.id}/colls/sessions"
        ranges = sorted(self.client.client_connection._ReadPartitionKeyRanges(link), key=lambda r: r["minInclusive"])
        self.assertEqual(len(ranges), PARTITIONS)
        self.assertEqual(ranges[0]["minInclusive"], "")
        self.assertEqual(ranges[-1]["maxExclusive"], "FF")
        for before, after in zip(ranges, ranges[1:]):
            self.assertEqual(before["maxExclusive"], after["minInclusive"])

    def test_s69_s70_s71_definition_is_kept_and_second_create_finds_it(self):
        again = self.database.create_container_if_not_exists("sessions", PartitionKey(path=LEVELS, kind="MultiHash"))
        definition = again.read()["partitionKey"]
        self.assertEqual((definition["paths"], definition["kind"], definition["version"]), (LEVELS, "MultiHash", 2))
        self.assertEqual(again.get_throughput().offer_throughput, THROUGHPUT)

    def test_s2_s3_four_levels_are_refused(self):
        paths = ["/a", "/b", "/c", "/d"]
        self.refused(400, lambda: self.create("four", paths))
        for levels in range(1, 4):
            made = self.create(f"levels{levels}", paths[:levels])
            self.assertEqual(made.read()["partitionKey"]["paths"], paths[:levels])

    def test_s88_s89_s90_point_reads_need_the_whole_key(self):
        want = SESSIONS[5]
        found = self.container.read_item(want["id"], key_of(want))
        self.assertEqual(found["n"], want["n"])
        self.assertEqual(float(self.client.client_connection.last_response_headers["x-ms-request-charge"]), 1)
        self.refused(404, lambda: self.container.read_item(want["id"], key_of(want)[:2] + ["elsewhere"]))
        self.refused(400, lambda: self.container.read_item(want["id"], key_of(want)[:2]))
        other = dict(want, SessionId="another")
        self.container.create_item(other) # the same id under another key
        self.container.delete_item(other["id"], key_of(other))

    def test_s47_to_s58_routing(self):
        parameters = [
            {"name": "@tenant-id", "value": "Contoso"},
            {"name": "@user-id", "value": "u1"},
            {"name": "@session-id", "value": "s1"},
        ]
        whole = "SELECT * FROM c WHERE c.TenantId = @tenant-id AND c.UserId = @user-id AND c.SessionId = @session-id"
        for query, options, rows, visited in [
            (whole, {"parameters": parameters}, 1, 1),
            ("SELECT * FROM c WHERE c.TenantId = @tenant-id", {"parameters": parameters[:1], "max_item_count": 3}, 8, 1),
            ("SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.UserId = 'u1'", {}, 2, 1),
            ("SELECT * FROM c WHERE 'Contoso' = c.TenantId", {}, 8, 1),
            ("SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.SessionId = 's1'", {}, 4, 1),
            ("SELECT * FROM c WHERE c.UserId = 'u1'", {}, 6, PARTITIONS),
            ("SELECT * FROM c WHERE c.SessionId = 's1'", {}, 12, PARTITIONS),
            ("SELECT * FROM c WHERE c.UserId = 'u1' AND c.SessionId = 's1'", {}, 3, PARTITIONS),
        ]:
            with self.subTest(query):
                self.assertEqual(len(self.rows(query, **options)), rows)
                self.assertEqual(len(self.visited), visited)
        self.assertEqual(len(self.rows("SELECT * FROM c WHERE c.TenantId IN ('Contoso', 'Fabrikam')")), 16)
        self.assertLessEqual(len(self.visited), 2)

    def test_prefix_as_request_option_is_enforced_by_the_server(self):
        for key, rows in [(["Contoso"], 8), (["Contoso", "u1"], 2), (["Contoso", "u1", "s0"], 1)]:
            with self.subTest(key):
                self.assertEqual(len(self.rows("SELECT * FROM c", partition_key=key)), rows)
                self.assertEqual(len(self.visited), 1)

    def test_pages_of_every_size_give_the_same_rows(self):
        want = [item["n"] for item in SESSIONS]
        for size in [1, 7, 1000]:
            with self.subTest(size):
                self.assertEqual(self.rows("SELECT VALUE c.n FROM c ORDER BY c.n", max_item_count=size), want)
                descending = self.rows("SELECT * FROM c ORDER BY c.n DESC", max_item_count=size)
                self.assertEqual([item["n"] for item in descending], want[::-1])
                self.assertEqual(sorted(self.rows("SELECT VALUE c.n FROM c", max_item_count=size)), want)
                self.assertEqual(sorted(item["n"] for item in self.container.read_all_items(max_item_count=size)), want)
        self.assertEqual(self.rows("SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n"), want[:5])
        self.assertEqual(self.rows("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4"), want[3:7])

    def test_s53_s54_key_of_two_levels(self):
        two = self.create("two", LEVELS[:2])
        for item in SESSIONS:
            two.create_item(item)
        for query, rows, visited in [
            ("SELECT * FROM c WHERE c.UserId = 'u1'", 6, PARTITIONS),
            ("SELECT * FROM c WHERE c.TenantId = 'Contoso'", 8, 1),
            ("SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.UserId = 'u1'", 2, 1),
        ]:
            with self.subTest(query):
                self.assertEqual(len(self.rows(query, two)), rows)
                self.assertEqual(len(self.visited), visited)

    def test_s55_same_program_runs_on_a_container_with_one_level(self):
        def program(container):
            for item in SESSIONS:
                container.upsert_item(item)
            query = "SELECT VALUE c.n FROM c WHERE c.TenantId = @tenant ORDER BY c.n"
            return self.rows(query, container, parameters=[{"name": "@tenant", "value": "Fabrikam"}])

        one = self.database.create_container("one", PartitionKey(path="/TenantId"))
        self.assertEqual(program(one), program(self.container))

    def test_s60_item_id_as_the_last_level(self):
        by_id = self.create("by-id", ["/TenantId", "/UserId", "/id"])
        for item in SESSIONS:
            by_id.create_item(item)
        want = SESSIONS[9]
        self.assertEqual(by_id.read_item(want["id"], [want["TenantId"], want["UserId"], want["id"]])["n"], want["n"])
        self.assertEqual(len(self.rows("SELECT * FROM c WHERE c.TenantId = 'Contoso'", by_id)), 8)
        self.assertEqual(len(self.visited), 1)

    def test_etags_guard_writes(self):
        item = self.container.read_item(SESSIONS[0]["id"], key_of(SESSIONS[0]))
        guard = {"etag": item["_etag"], "match_condition": MatchConditions.IfNotModified}
        changed = self.container.replace_item(item["id"], dict(item, note="changed"), **guard)
        self.assertNotEqual(changed["_etag"], item["_etag"])
        self.refused(412, lambda: self.container.replace_item(item["id"], dict(item, note="late"), **guard))
        self.refused(409, lambda: self.container.create_item(SESSIONS[0]))

    def test_s85_s99_what_a_key_fixes_cannot_change(self):
        item = SESSIONS[1]
        with self.assertRaises(exceptions.CosmosHttpResponseError) as caught:
            self.container.replace_item(item["id"], dict(item, UserId="someone else"))
        self.assertIn(caught.exception.status_code, (400, 404))
        self.refused(400, lambda: self.database.replace_container("sessions", PartitionKey(path=LEVELS[::-1], kind="MultiHash")))

    def test_keys_of_every_type_are_told_apart(self):
        types = self.create("types", ["/a", "/b"])
        values = ["1", 1, True, False, None, "", "\U0001F600 å", 1.5, -1]
        for value in values:
            types.create_item({"id": "x", "a": value, "b": "k", "mark": repr(value)})
        for value in values:
            self.assertEqual(types.read_item("x", [value, "k"])["mark"], repr(value))

    def test_account_is_read_once_or_twice(self):
        # The newest SDK reads it again to check the health of the region.
        self.assertIn(self.account_reads, (1, 2))

    def test_wrong_key_is_refused(self):
        self.refused(401, lambda: list(self.connect("d3Jvbmc=").list_databases()))


class Http(Scenario, unittest.TestCase):
    """Over http."""

    endpoint = os.environ["DECAN_HTTP"]


class Https(Scenario, unittest.TestCase):
    """Over https, with the certificate authority of `decan cert`."""

    endpoint = os.environ["DECAN_HTTPS"]
    ca = os.environ["DECAN_CA"]
