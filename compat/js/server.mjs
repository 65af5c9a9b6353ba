// Shared by the tests: the SDK that run.sh names, the server, a client and a
// database.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

// S91: run.sh names the newest SDK and the oldest one with hierarchical keys in
// turn.
export const packageName = process.env.DECAN_SDK ?? "@azure/cosmos";
export const sdk = await import(packageName);
export const oldest = process.env.DECAN_SDK !== undefined;
export const endpoint = process.env.DECAN_ENDPOINT;
assert.ok(endpoint, "DECAN_ENDPOINT is not set: run compat/run.sh");
export const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

export const connect = (options) => new sdk.CosmosClient({ endpoint, key, ...options });
export const client = connect();

// watching returns a client with the options, and a header of the responses to
// its requests for items.
export function watching(header, options) {
  const seen = [];
  const plugin = (context, _diagnostics, next) => {
    if (context.resourceType === "docs") seen.push(context.headers[header]);
    return next(context);
  };
  return { seen, client: connect({ ...options, plugins: [{ on: "request", plugin }] }) };
}

// databaseOf returns a database for the tests, which they create and delete.
export const databaseOf = (theme, owner = client) => owner.database(`compat-${theme}-${randomUUID()}`);

const rusOfPartition = 6000; // the server makes a partition for as many

// create returns a new container with a number of physical partitions.
export async function create(database, id, paths, partitions = 1, more = {}) {
  const partitionKey = paths.length > 1 ? { paths, kind: "MultiHash", version: 2 } : { paths };
  return (await database.containers.create({ id, partitionKey, ...more }, { offerThroughput: partitions * rusOfPartition })).container;
}

// refused fails unless the work is refused with the status.
export const refused = (work, code) => assert.rejects(work, (fault) => {
  assert.equal(fault.code, code, fault.message);
  return true;
});

// catchUp reads a change feed up to its current end: its items, and the position
// there.
export async function catchUp(feed) {
  const items = [];
  for (let pages = 0; pages < 1000; pages++) {
    const { result, statusCode, continuationToken } = await feed.readNext();
    if (statusCode === sdk.StatusCodes.NotModified) return { items, continuationToken };
    items.push(...result);
  }
  assert.fail("no end");
}

// own returns an item without the system properties.
export const own = (item) => Object.fromEntries(Object.entries(item).filter(([name]) => !name.startsWith("_")));
