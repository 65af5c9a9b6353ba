"""Users, permissions, resource tokens and bearer tokens with the Python SDK: what a
token allows and what it does not (S102). Run by ../run.sh."""

import json
import os
import time
import urllib.request
import uuid
from unittest import mock

from azure.core.credentials import AccessToken

from server import KEY, NEW, Case, connect


class Access(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.container = cls.create("c", "/tenant", "/user", partitions=2)
        for i in range(4):
            cls.container.create_item({"id": str(i), "tenant": f"t{i // 2}", "user": f"u{i % 2}"})
        cls.user = cls.database.create_user({"id": "ann"})

    def grant(self, name, mode, **more):
        body = {"id": name, "permissionMode": mode, "resource": self.container.container_link}
        permission = self.user.create_permission(dict(body, **more))
        self.addCleanup(lambda: name in [p["id"] for p in self.user.list_permissions()] and self.user.delete_permission(name))
        return permission

    def restricted(self, permission):
        """Returns the container for a client that has only the token."""
        tokens = {self.container.container_link: permission.properties["_token"]}
        return connect(key=tokens).get_database_client(self.database.id).get_container_client("c")

    def test_users(self):
        self.refused(409, lambda: self.database.create_user({"id": "ann"}))
        self.assertEqual(self.database.get_user_client("ann").read()["id"], "ann")
        self.database.upsert_user({"id": "bob"})
        self.assertEqual(sorted(u["id"] for u in self.database.list_users()), ["ann", "bob"])
        self.assertEqual(len(list(self.database.query_users("SELECT * FROM u WHERE u.id = 'bob'"))), 1)
        self.assertEqual(self.database.replace_user("bob", {"id": "rob"}).id, "rob")
        self.database.delete_user("rob")
        self.refused(404, lambda: self.database.get_user_client("rob").read())

    def test_permissions(self):
        granted = self.grant("p", "Read")
        self.refused(409, lambda: self.grant("p", "Read"))
        self.assertEqual(self.user.get_permission("p").permission_mode, "Read")
        body = {"id": "p", "permissionMode": "All", "resource": self.container.container_link}
        self.assertEqual(self.user.replace_permission("p", body).permission_mode, "All")
        self.assertEqual(self.user.upsert_permission(dict(body, permissionMode="Read")).permission_mode, "Read")
        self.assertEqual(len(list(self.user.query_permissions("SELECT * FROM p WHERE p.id = 'p'"))), 1)
        self.assertTrue(granted.properties["_token"])
        self.user.delete_permission("p")
        self.refused(404, lambda: self.user.get_permission("p"))

    def test_token_that_reads(self):
        mine = self.restricted(self.grant("read", "Read"))
        self.assertEqual(mine.read_item("1", ["t0", "u1"])["id"], "1")
        self.assertEqual(sorted(self.rows(mine, "SELECT VALUE c.id FROM c WHERE c.tenant = 't0'")), ["0", "1"])
        self.refused(403, lambda: mine.create_item({"id": "9", "tenant": "t0", "user": "u0"}))
        self.user.delete_permission("read")
        self.refused(403, lambda: mine.read_item("1", ["t0", "u1"]))

    def test_token_for_a_whole_partition_key(self):
        mine = self.restricted(self.grant("key", "All", resourcePartitionKey=["t0", "u0"]))
        mine.create_item({"id": "4", "tenant": "t0", "user": "u0"})
        self.refused(403, lambda: mine.create_item({"id": "5", "tenant": "t0", "user": "u1"}))
        self.refused(403, lambda: mine.read_item("1", ["t0", "u1"]))
        self.assertEqual(sorted(self.rows(mine, "SELECT VALUE c.id FROM c", partition_key=["t0", "u0"])), ["0", "4"])
        mine.delete_item("4", ["t0", "u0"])

    def test_tokens_for_all_a_key_and_an_item(self):
        mine = self.restricted(self.grant("all", "All"))
        mine.upsert_item({"id": "8", "tenant": "t0", "user": "u0"})
        self.assertEqual(len(list(mine.read_all_items())), 5)
        item = mine.read_item("8", ["t0", "u0"])["_self"]
        part = self.restricted(self.grant("part", "Read", resourcePartitionKey=["t0", "u0"]))
        self.assertEqual(part.read_item("8", ["t0", "u0"])["id"], "8")
        self.refused(403, lambda: list(part.read_all_items()))
        self.refused(403, lambda: part.upsert_item({"id": "8", "tenant": "t0", "user": "u0"}))
        only = self.restricted(self.grant("item", "All", resource=item))
        self.refused(403, lambda: list(only.read_all_items()))
        self.refused(403, lambda: only.read_item("0", ["t0", "u0"]))
        only.delete_item("8", ["t0", "u0"])
        self.refused(404, lambda: mine.read_item("8", ["t0", "u0"]))

    def test_s102_permission_for_a_prefix_of_the_key_is_refused(self):
        self.refused(400, lambda: self.grant("prefix", "Read", resourcePartitionKey=["t0"]))

    def test_bearer_tokens_and_roles(self):
        """A principal of the issuer that run.sh created; its roles are assigned here."""
        assignment = f"{os.environ['DECAN_ADMIN']}sqlRoleAssignments/{uuid.uuid4()}"

        def manage(method, role=None):
            body = {"properties": {
                "roleDefinitionId": f"/sqlRoleDefinitions/00000000-0000-0000-0000-00000000000{role}",
                "scope": f"/dbs/{self.database.id}", "principalId": "compat-app"}}
            data = json.dumps(body).encode() if role else None
            request = urllib.request.Request(assignment, data=data, method=method, headers={"x-decan-key": KEY})
            urllib.request.urlopen(request).close()

        reader, contributor = 1, 2
        bearer, scope = Bearer(), "https://cosmos.azure.com/.default"
        with mock.patch.dict(os.environ, AZURE_COSMOS_AAD_SCOPE_OVERRIDE=scope):
            client = connect(os.environ["DECAN_HTTPS"], key=bearer, ca=os.environ["DECAN_CA"])
        self.assertEqual(bearer.scopes, {scope if NEW else "https://localhost/.default"}, "the oldest SDK decides alone")
        mine = client.get_database_client(self.database.id).get_container_client("c")
        self.refused(403, lambda: mine.read_item("1", ["t0", "u1"]))
        manage("PUT", reader)
        self.assertEqual(mine.read_item("1", ["t0", "u1"])["id"], "1")
        self.assertEqual(len(self.rows(mine, "SELECT * FROM c")), 4)
        self.refused(403, lambda: mine.create_item({"id": "9", "tenant": "t0", "user": "u0"}))
        manage("DELETE")
        manage("PUT", contributor)
        mine.create_item({"id": "9", "tenant": "t0", "user": "u0"})
        mine.delete_item("9", ["t0", "u0"])
        self.assertEqual(mine.read()["id"], "c")
        self.refused(403, lambda: client.delete_database(self.database.id))
        manage("DELETE")
        self.refused(403, lambda: mine.read_item("1", ["t0", "u1"]))


class Bearer:
    """A credential with the token that run.sh signed, and the requested scopes."""

    def __init__(self):
        self.scopes = set()

    def get_token(self, *scopes, **_options):
        self.scopes.update(scopes)
        return AccessToken(os.environ["DECAN_BEARER"], int(time.time()) + 3600)
