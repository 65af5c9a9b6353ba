// A bot that keeps its state with botbuilder-azure.
import assert from "node:assert/strict";
import { describe, test, before, after } from "node:test";
import { ActivityHandler, ConversationState, TestAdapter, UserState } from "botbuilder";
import { CosmosDbPartitionedStorage } from "botbuilder-azure";
import { endpoint, fresh, key } from "./server.mjs";

describe("Bot Framework", async () => {
  let storage, databaseId;
  const ends = [];
  before(async () => {
    databaseId = await fresh({ after: (end) => ends.push(end) });
    storage = open({});
    await storage.initialize();
  });
  after(() => Promise.all(ends.map((end) => end())));
  const open = (options) => new CosmosDbPartitionedStorage({
    cosmosDbEndpoint: endpoint, authKey: key, databaseId, containerId: "state", containerThroughput: 400, compatibilityMode: false, ...options,
  });

  test("items are written, read, changed and deleted", async () => {
    await storage.write({ a: { n: 1 }, b: { list: ["x"], eTag: "*" } });
    const read = await storage.read(["a", "b", "none"]);
    assert.deepEqual(Object.keys(read).sort(), ["a", "b"]);
    assert.equal(read.a.n, 1);
    assert.deepEqual(read.b.list, ["x"]);
    read.a.n = 2;
    await storage.write({ a: read.a });
    assert.equal((await storage.read(["a"])).a.n, 2);
    await storage.delete(["a", "none"]);
    assert.deepEqual(await storage.read(["a"]), {});
  });

  test("an old etag is refused, and * is not", async () => {
    await storage.write({ guarded: { n: 1 } });
    const first = (await storage.read(["guarded"])).guarded;
    await storage.write({ guarded: { ...first, n: 2 } });
    await assert.rejects(storage.write({ guarded: { ...first, n: 3 } }));
    assert.equal((await storage.read(["guarded"])).guarded.n, 2);
    await storage.write({ guarded: { n: 4, eTag: "*" } });
    assert.equal((await storage.read(["guarded"])).guarded.n, 4);
  });

  test("keys with any characters, and long keys", async () => {
    const keys = ["a/b\\c?d#e*f", "blank at the end ", "ключ", "x".repeat(400)];
    await storage.write(Object.fromEntries(keys.map((k, i) => [k, { i }])));
    const read = await storage.read(keys);
    keys.forEach((k, i) => assert.equal(read[k].i, i, k));
    const other = open({ keySuffix: "suffix" });
    await other.write({ a: { n: 7 } });
    assert.deepEqual(await storage.read(["a"]), {});
    assert.equal((await other.read(["a"])).a.n, 7);
  });

  test("a bot counts turns of conversations and users", async () => {
    const conversations = new ConversationState(storage), users = new UserState(storage);
    const turns = conversations.createProperty("turns"), total = users.createProperty("total");
    const bot = new ActivityHandler();
    bot.onMessage(async (context, next) => {
      const n = (await turns.get(context, 0)) + 1, all = (await total.get(context, 0)) + 1;
      await turns.set(context, n);
      await total.set(context, all);
      await context.sendActivity(`turn ${n}, ${all} of the user`);
      await conversations.saveChanges(context);
      await users.saveChanges(context);
      await next();
    });
    const adapter = new TestAdapter((context) => bot.run(context));
    await adapter.send("hi").assertReply("turn 1, 1 of the user").send("hi").assertReply("turn 2, 2 of the user").startTest();
    const later = new TestAdapter((context) => bot.run(context), TestAdapter.createConversation("another"));
    await later.send("hi").assertReply(/^turn 1, \d of the user$/).startTest();
  });
});
