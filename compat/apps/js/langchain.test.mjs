// LangChain's vector store, semantic cache and chat history.
import assert from "node:assert/strict";
import { describe, test, before, after } from "node:test";
import { AzureCosmosDBNoSQLSemanticCache, AzureCosmosDBNoSQLVectorStore, AzureCosmsosDBNoSQLChatMessageHistory } from "@langchain/azure-cosmosdb";
import { Document } from "@langchain/core/documents";
import { Embeddings } from "@langchain/core/embeddings";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { client, fresh } from "./server.mjs";

// Letters embeds a text as the number of occurrences of each of eight letters.
class Letters extends Embeddings {
  constructor() {
    super({});
  }
  async embedQuery(text) {
    return [..."abcdehlo"].map((letter) => 0.01 + text.split(letter).length - 1);
  }
  embedDocuments(texts) {
    return Promise.all(texts.map((text) => this.embedQuery(text)));
  }
}

describe("LangChain", async () => {
  let databaseName;
  const ends = [];
  before(async () => {
    databaseName = await fresh({ after: (end) => ends.push(end) });
  });
  after(() => Promise.all(ends.map((end) => end())));

  test("documents are found by similarity, with scores and filters", async () => {
    const documents = ["aaab", "bbbc", "cccd", "ddde", "eeeh", "aabb", "hello hello"]
      .map((pageContent, n) => new Document({ pageContent, metadata: { n, kind: n % 2 ? "odd" : "even" } }));
    const store = await AzureCosmosDBNoSQLVectorStore.fromDocuments(documents, new Letters(), { client, databaseName, containerName: "vectors" });
    assert.deepEqual((await store.similaritySearch("aaa", 2)).map((d) => d.pageContent), ["aaab", "aabb"]);
    const scored = await store.similaritySearchWithScore("ccc", 3);
    assert.equal(scored[0][0].pageContent, "cccd");
    assert.ok(scored[0][1] > scored[1][1] && scored[1][1] >= scored[2][1], "the scores are descending");
    const filterClause = { query: "WHERE c.metadata.kind = @kind", parameters: [{ name: "@kind", value: "odd" }] };
    assert.deepEqual((await store.similaritySearch("aaa", 1, { filterClause })).map((d) => d.metadata.n), [5]);
    const diverse = await store.maxMarginalRelevanceSearch("aab", { k: 3, fetchK: 7, lambda: 0.1 });
    assert.equal(new Set(diverse.map((d) => d.pageContent)).size, 3);
    await store.delete({ filter: "SELECT * FROM c WHERE c.metadata.n < 6" });
    assert.deepEqual((await store.similaritySearch("aaa", 5)).map((d) => d.pageContent), ["hello hello"]);
    await store.delete();
    assert.deepEqual(await store.similaritySearch("aaa", 5), []);
  });

  test("a retriever", async () => {
    const store = await AzureCosmosDBNoSQLVectorStore.fromTexts(["aaa", "bbb", "ccc"], [{ n: 0 }, { n: 1 }, { n: 2 }], new Letters(), { client, databaseName, containerName: "retriever" });
    assert.deepEqual((await store.asRetriever(1).invoke("bb")).map((d) => d.pageContent), ["bbb"]);
  });

  test("answers of a model are cached by similarity", async () => {
    const cache = new AzureCosmosDBNoSQLSemanticCache(new Letters(), { client, databaseName, containerName: "cache" }, 0.99);
    assert.equal(await cache.lookup("hello", "model"), null);
    await cache.update("hello", "model", [{ text: "hi" }]);
    assert.deepEqual((await cache.lookup("hello", "model")).map((g) => g.text), ["hi"]);
    assert.equal(await cache.lookup("bbbbb", "model"), null);
    await cache.clear("model");
    assert.equal(await cache.lookup("hello", "model"), null);
  });

  test("a chat is continued by another client", async () => {
    const open = (sessionId) => new AzureCosmsosDBNoSQLChatMessageHistory({ client, databaseName, containerName: "chats", userId: "ann", sessionId });
    const chat = open("1");
    await chat.addMessage(new HumanMessage("hello"));
    await chat.addMessage(new AIMessage("hi"));
    await chat.setContext({ title: "greeting" });
    assert.deepEqual((await open("1").getMessages()).map((m) => `${m.getType()}: ${m.content}`), ["human: hello", "ai: hi"]);
    await open("2").addMessage(new HumanMessage("again"));
    assert.deepEqual((await chat.getAllSessions()).map((s) => s.id).sort(), ["1", "2"]);
    await chat.clear();
    assert.deepEqual(await open("1").getMessages(), []);
    await chat.clearAllSessions();
    assert.deepEqual(await chat.getAllSessions(), []);
  });
});
