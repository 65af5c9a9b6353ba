"""Runs queries with the Python SDK for figures.py: each line of the input is
{"container", "query", "key", "times"}; each answer is the number of rows of one run."""

import json
import sys

from azure.cosmos import CosmosClient

endpoint, key, database = sys.argv[1:4]
items = CosmosClient(endpoint, key).get_database_client(database)
for line in sys.stdin:
    ask = json.loads(line)
    container = items.get_container_client(ask["container"])
    options = {"enable_cross_partition_query": True} if ask["key"] is None else {"partition_key": ask["key"]}
    rows = 0
    for _ in range(ask["times"]):
        rows = len(list(container.query_items(ask["query"], **options)))
    print(rows, flush=True)
