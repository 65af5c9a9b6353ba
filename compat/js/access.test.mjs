// Users, permissions, resource tokens and bearer tokens with the SDK: what a
// token allows and what it does not, by name, by a full partition key and by
// roles.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { client as admin, endpoint, key, oldest, refused as refusedWith, sdk } from "./server.mjs";

const { CosmosClient, PermissionMode } = sdk;

const name = `access-${process.pid}`;
let database, container, user;

before(async () => {
  ({ database } = await admin.databases.create({ id: name }));
  ({ container } = await database.containers.create({
    id: "c",
    partitionKey: { paths: ["/tenant", "/user"], kind: "MultiHash", version: 2 },
  }));
  for (const item of [
    { id: "1", tenant: "t1", user: "u1" },
    { id: "2", tenant: "t1", user: "u2" },
    { id: "3", tenant: "t2", user: "u1" },
  ]) {
    await container.items.create(item);
  }
  ({ user } = await database.users.create({ id: "ann" }));
});
after(() => database?.delete());

// restricted is the container of a client that has only the token.
const restricted = (token) =>
  new CosmosClient({ endpoint, resourceTokens: { [`dbs/${name}/colls/c`]: token, c: token } }).database(name).container("c");
const refused = (work, code = 403) => refusedWith(work, code);

test("users", async () => {
  await refused(database.users.create({ id: "ann" }), 409);
  assert.equal((await database.user("ann").read()).resource.id, "ann");
  await database.users.upsert({ id: "bob" });
  const { resources } = await database.users.readAll().fetchAll();
  assert.deepEqual(resources.map((u) => u.id).sort(), ["ann", "bob"]);
  assert.equal((await database.user("bob").replace({ id: "rob" })).resource.id, "rob");
  await database.user("rob").delete();
  await refused(database.user("rob").read(), 404);
});

test("a token that reads", async () => {
  const { resource: permission } = await user.permissions.create(
    { id: "read", permissionMode: PermissionMode.Read, resource: container.url },
    { resourceTokenExpirySeconds: 60 },
  );
  const own = restricted(permission._token);
  assert.equal((await own.item("1", ["t1", "u1"]).read()).resource.id, "1");
  const { resources } = await own.items.query("SELECT VALUE c.id FROM c WHERE c.tenant = 't1'").fetchAll();
  assert.deepEqual(resources.sort(), ["1", "2"]);
  await refused(own.items.create({ id: "9", tenant: "t1", user: "u1" }));
  await refused(own.delete());
  assert.equal((await user.permission("read").read()).resource.permissionMode, PermissionMode.Read); // as sent, in lower case
  await user.permission("read").delete();
  await refused(own.item("1", ["t1", "u1"]).read());
});

test("a token for a whole partition key", async () => {
  const { resource: permission } = await user.permissions.create({
    id: "key",
    permissionMode: PermissionMode.All,
    resource: container.url,
    resourcePartitionKey: ["t1", "u1"],
  });
  const own = restricted(permission._token);
  assert.equal((await own.items.create({ id: "4", tenant: "t1", user: "u1" })).resource.id, "4");
  await refused(own.items.create({ id: "5", tenant: "t1", user: "u2" }));
  await refused(own.item("3", ["t2", "u1"]).read());
  const { resources } = await own.items.query("SELECT VALUE c.id FROM c", { partitionKey: ["t1", "u1"] }).fetchAll();
  assert.deepEqual(resources.sort(), ["1", "4"]);
  await own.item("4", ["t1", "u1"]).delete();
});

// S103
test("a token for one item", async () => {
  const { resource: permission } = await user.permissions.create({
    id: "item", permissionMode: PermissionMode.All, resource: `${container.url}/docs/2`, resourcePartitionKey: ["t1", "u2"],
  });
  const own = restricted(permission._token);
  const item = own.item("2", ["t1", "u2"]);
  assert.equal((await item.replace({ id: "2", tenant: "t1", user: "u2", n: 1 })).resource.n, 1);
  await refused(item.replace({ id: "5", tenant: "t1", user: "u2" }));
  assert.equal((await item.read()).resource.n, 1);
  await refused(own.items.create({ id: "5", tenant: "t1", user: "u2" }));
  await refused(own.item("1", ["t1", "u1"]).read());
});

test("a token for one stored procedure", async () => {
  const { storedProcedures } = container.scripts;
  for (const id of ["mine", "other"]) await storedProcedures.create({ id, body: "function (a) { getContext().getResponse().setBody(a); }" });
  const grant = async (id, permissionMode) => {
    const { resource } = await user.permissions.create({ id, permissionMode, resource: `${container.url}/sprocs/${id}` });
    return restricted(resource._token).scripts;
  };
  const own = await grant("mine", PermissionMode.All);
  assert.equal((await own.storedProcedure("mine").execute(["t1", "u1"], ["ran"])).resource, "ran");
  await refused(own.storedProcedure("other").execute(["t1", "u1"]));
  await refused(own.storedProcedure("mine").replace({ id: "renamed", body: "function () {}" }));
  const read = await grant("other", PermissionMode.Read);
  assert.equal((await read.storedProcedure("other").read()).resource.id, "other");
  await refused(read.storedProcedure("other").execute(["t1", "u1"]));
});

// S102
test("a permission for a prefix of the key is refused", async () => {
  await refused(
    user.permissions.create({
      id: "prefix",
      permissionMode: PermissionMode.Read,
      resource: container.url,
      resourcePartitionKey: ["t1"],
    }),
    400,
  );
});

// A principal of the issuer that run.sh created; its roles are assigned here.
test("bearer tokens and roles", async () => {
  const token = process.env.DECAN_BEARER;
  assert.ok(token, "DECAN_BEARER is not set: run compat/run.sh");
  const assignment = `${process.env.DECAN_ADMIN}sqlRoleAssignments/${randomUUID()}`;
  const manage = async (method, role) => {
    const answer = await fetch(assignment, {
      method,
      headers: { "x-decan-key": key },
      body: role && JSON.stringify({ properties: { roleDefinitionId: `/sqlRoleDefinitions/00000000-0000-0000-0000-00000000000${role}`, scope: `/dbs/${name}`, principalId: "compat-app" } }),
    });
    assert.ok(answer.ok, await answer.text());
  };
  const reader = 1, contributor = 2;
  const aadScope = "https://cosmos.azure.com/.default", scopes = new Set();
  const getToken = async (of) => {
    scopes.add([of].flat().join(" "));
    return { token, expiresOnTimestamp: Date.now() + 3_600_000 };
  };
  const own = new CosmosClient({ endpoint, aadCredentials: { getToken }, aadScope }).database(name).container("c");
  await refused(own.item("1", ["t1", "u1"]).read());
  await manage("PUT", reader);
  assert.equal((await own.item("1", ["t1", "u1"]).read()).resource.id, "1");
  assert.equal((await own.items.query("SELECT * FROM c").fetchAll()).resources.length, 3);
  assert.equal((await own.items.readAll().fetchAll()).resources.length, 3);
  assert.deepEqual([...scopes], [oldest ? `${endpoint}.default` : aadScope], "what the SDK asks for, which 4.0.0 decides alone");
  await refused(own.items.create({ id: "9", tenant: "t1", user: "u1" }));
  await manage("DELETE");
  await manage("PUT", contributor);
  await own.items.create({ id: "9", tenant: "t1", user: "u1" });
  await own.item("9", ["t1", "u1"]).delete();
  await refused(own.delete());
  await manage("DELETE");
  await refused(own.item("1", ["t1", "u1"]).read());
});

// A private feature of the service: tokens that a client signs for itself with a
// key.
test("signed tokens are refused", async () => {
  const sas = await sdk.createAuthorizationSasToken(key, {
    user: "u", userTag: "t", databaseName: name, containerName: "c", resourcePath: "", partitionKeyValueRanges: [],
    startTime: new Date(), expiryTime: new Date(Date.now() + 3_600_000), keyType: 0,
    controlPlaneReaderScope: 1, controlPlaneWriterScope: 0, dataPlaneReaderScope: 1, dataPlaneWriterScope: 0,
  });
  assert.match(sas, /^type=sas&ver=1\.0&sig=/);
  await refused(new CosmosClient({ endpoint, key: sas }).database(name).container("c").items.readAll().fetchAll(), 401);
});
