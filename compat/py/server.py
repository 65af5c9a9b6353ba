"""Shared by the tests: the server's key, clients, and test cases with a database."""

import os
import unittest
import uuid

from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey, documents, exceptions

import aio

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
NEW = hasattr(ContainerProxy, "read_feed_ranges")  # not the oldest SDK
AIO = "DECAN_AIO" in os.environ  # the asynchronous clients
RUS_OF_PARTITION = 6000 # the server makes one partition per 6,000 RU/s


def connect(endpoint=None, key=KEY, ca=None, **options):
    """Returns a client; with AIO it wraps the asynchronous one. A host
    named localhost is verified only with an explicit certificate authority."""
    if ca:
        options["ssl_config"] = documents.SSLConfiguration()
        options["ssl_config"].SSLCaCerts = ca
    make = aio.connect if AIO else CosmosClient
    return make(endpoint or os.environ["DECAN_HTTP"], key, **options)


def connect_by(text):
    """Returns a client for a connection string."""
    return aio.connect_by(text) if AIO else CosmosClient.from_connection_string(text)


class Case(unittest.TestCase):
    """Tests over http with a new database."""

    @classmethod
    def setUpClass(cls):
        cls.client = connect()
        cls.database = cls.client.create_database(f"compat-{cls.__name__.lower()}-{uuid.uuid4()}")
        cls.addClassCleanup(lambda: cls.client.delete_database(cls.database.id))

    @classmethod
    def create(cls, name, *paths, partitions=1, **options):
        key = PartitionKey(path=list(paths), kind="MultiHash") if len(paths) > 1 else PartitionKey(path=paths[0])
        return cls.database.create_container(name, key, offer_throughput=partitions * RUS_OF_PARTITION, **options)

    def refused(self, status, call):
        """Fails unless the call is refused with the status."""
        with self.assertRaises(exceptions.CosmosHttpResponseError) as caught:
            call()
        self.assertEqual(caught.exception.status_code, status, caught.exception)
        return caught.exception

    @staticmethod
    def rows(container, query, **options):
        if "partition_key" not in options:
            options["enable_cross_partition_query"] = True
        return list(container.query_items(query, **options))


def own(item):
    """Returns the item without the system properties."""
    return {name: value for name, value in item.items() if not name.startswith("_")}


def headers(container):
    """Returns the headers of the last response."""
    return container.client_connection.last_response_headers
