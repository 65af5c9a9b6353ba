// Shared by the applications: the server, and a database for each.
import { randomUUID } from "node:crypto";
import { CosmosClient } from "@azure/cosmos";

export const endpoint = process.env.DECAN_ENDPOINT;
export const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
export const client = new CosmosClient({ endpoint, key });

// fresh returns the name of a database that exists until the tests of t have ended.
export async function fresh(t) {
  const id = `apps-${randomUUID()}`;
  await client.databases.create({ id });
  t.after(() => client.database(id).delete());
  return id;
}
