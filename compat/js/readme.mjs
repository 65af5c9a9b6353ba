import { CosmosClient } from "@azure/cosmos";

const client = new CosmosClient({
  endpoint: "http://127.0.0.1:8081/",
  key: "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
});
const { database } = await client.databases.createIfNotExists({ id: "shop" });
const { container } = await database.containers.createIfNotExists({
  id: "sessions",
  partitionKey: { paths: ["/TenantId", "/UserId", "/SessionId"], kind: "MultiHash", version: 2 },
});

await container.items.upsert({ id: "1", TenantId: "Contoso", UserId: "Alice", SessionId: "0001", minutes: 12 });
const { resource, requestCharge } = await container.item("1", ["Contoso", "Alice", "0001"]).read();
console.log(`read for ${requestCharge} RU:`, resource.minutes, "minutes");

const query = { query: "SELECT c.UserId, c.minutes FROM c WHERE c.TenantId = @tenant", parameters: [{ name: "@tenant", value: "Contoso" }] };
for await (const page of container.items.query(query).getAsyncIterator()) {
  for (const row of page.resources) console.log("tenant Contoso:", row);
}
