// Users, permissions and resource tokens through the SDK: what a token opens and
// what it does not, by name and by a whole partition key.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

const { CosmosClient, PermissionMode } = await import(process.env.DECAN_SDK ?? "@azure/cosmos");
const endpoint = process.env.DECAN_ENDPOINT;
const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

const admin = new CosmosClient({ endpoint, key });
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

// restricted is the container as somebody sees it who has the token alone.
const restricted = (token) =>
  new CosmosClient({ endpoint, resourceTokens: { [`dbs/${name}/colls/c`]: token, c: token } }).database(name).container("c");
const refused = (work, code = 403) => assert.rejects(work, (fault) => fault.code === code);

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
  assert.equal((await user.permission("read").read()).resource.permissionMode, "Read");
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
