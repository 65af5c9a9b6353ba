// Runs queries with the JavaScript SDK for figures.py: each line of the input is
// {"container", "query", "key", "times"}; each answer is the number of rows of one run.
import { createInterface } from "node:readline";

const [endpoint, key, database, packageName] = process.argv.slice(2);
const { CosmosClient } = await import(packageName);
const items = new CosmosClient({ endpoint, key }).database(database);
for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  let rows = 0;
  for (let i = 0; i < ask.times; i++) {
    const options = ask.key === null ? {} : { partitionKey: ask.key };
    rows = (await items.container(ask.container).items.query(ask.query, options).fetchAll()).resources.length;
  }
  console.log(rows);
}
