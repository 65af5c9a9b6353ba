"""Runs every query of ../queries.json with the Python SDK, in pages of three
sizes, and compares the rows with those that the server returns when it merges. The
list of exclusions names what this SDK cannot do, with the reason; an excluded query
that works fails here. Run by ../run.sh, after ../go/answers has filled the containers."""

import json
import os
import unittest

from azure.cosmos import __version__

from server import connect

with open(os.environ["DECAN_ANSWERS"], encoding="utf-8") as file:
    LIST = json.load(file)
ROWS = {query["name"]: query["rows"] for query in LIST["queries"]}
EXCLUDED = {
    name: exclusion
    for exclusion in LIST["exclusions"]
    if exclusion["sdk"] == "python" and __version__ in exclusion["versions"]
    for name in exclusion["queries"]
}
SIZES = [-1, 1, 7] # rows per page; -1 lets the SDK choose


def plain(value):
    """Returns the value with one form for each number: 2.0 is 2."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def texts(rows):
    """Returns the rows as JSON with the members of objects in order."""
    return [json.dumps(plain(row), sort_keys=True) for row in rows]


class Answers(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.database = connect(os.environ["DECAN_HTTPS"], ca=os.environ["DECAN_CA"]).get_database_client("answers")

    def rows(self, query, size):
        options = {"parameters": query.get("parameters"), "max_item_count": None if size < 0 else size}
        if "partitionKey" in query:
            options["partition_key"] = query["partitionKey"]
        else:
            options["enable_cross_partition_query"] = True
        return list(self.database.get_container_client(query["container"]).query_items(query["query"], **options))

    def compare(self, query, got):
        got, want = texts(got), texts(query["rows"])
        if query["compare"] == "ordered":
            self.assertEqual(got, want)
        elif query["compare"] == "rows":
            self.assertEqual(sorted(got), sorted(want))
        else:
            self.assertEqual(len(got), len(want))
            left = texts(ROWS[query["of"]])
            for row in got:
                self.assertIn(row, left)
                left.remove(row)

    def run_query(self, query, sizes):
        self.assertNotIn("refusal", query, "the server has no answer")
        for size in sizes:
            self.compare(query, self.rows(query, size))

    def test_exclusions_name_queries(self):
        self.assertLessEqual(set(EXCLUDED), set(ROWS))


def add(query):
    """Adds the test of a query."""

    name = query["name"]
    pages = EXCLUDED[name].get("pages", SIZES) if name in EXCLUDED else []

    def test(self):
        self.run_query(query, [size for size in SIZES if size not in pages])
        if pages:
            try:
                self.run_query(query, pages)
            except Exception:  # pylint: disable=broad-except
                return
            self.fail("it works now: remove it from the exclusions of queries.json")

    setattr(Answers, f"test {name}", test)


for each in LIST["queries"]:
    add(each)
