using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// An account of one consistency level, which DECAN_LEVEL names: own writes are read at
// the account's level and at every weaker one, by another client too, and after partitions
// have split; definitions are read; an item that does not exist is 404 at once (S91, S95).
static class Levels
{
    public static async Task Run(Tests tests)
    {
        var level = Enum.Parse<ConsistencyLevel>(Environment.GetEnvironmentVariable("DECAN_LEVEL"));
        ConsistencyLevel[] strongest = [ConsistencyLevel.Strong, ConsistencyLevel.BoundedStaleness, ConsistencyLevel.Session, ConsistencyLevel.ConsistentPrefix, ConsistencyLevel.Eventual];
        Container container = await tests.Database.CreateContainerAsync(new ContainerProperties("items", "/pk"), 2 * PartitionRUs);

        await tests.Run("the account has the level", async () => Equal((await tests.Client.ReadAccountAsync()).Consistency.DefaultConsistencyLevel, level));

        for (int i = Array.IndexOf(strongest, level); i < strongest.Length; i++)
        {
            ConsistencyLevel asked = strongest[i];
            await tests.Run($"own writes at {asked}", async () =>
            {
                using CosmosClient client = tests.Connect(change: options =>
                {
                    if (asked != level) options.ConsistencyLevel = asked;
                });
                using CosmosClient other = tests.Connect();
                Container mine = client.GetContainer(tests.Database.Id, "items"), theirs = other.GetContainer(tests.Database.Id, "items");
                for (int n = 0; n < 20; n++)
                {
                    string id = $"{n % 5}";
                    var made = await mine.UpsertItemAsync(Item(new { id, pk = id, n, asked = $"{asked}" }));
                    Equal((int)(await mine.ReadItemAsync<JObject>(id, new PartitionKey(id))).Resource["n"], n);
                    Equal((int)(await theirs.ReadItemAsync<JObject>(id, new PartitionKey(id))).Resource["n"], n); // There is one replica.
                    Equal(await Rows<int>(mine, $"SELECT VALUE c.n FROM c WHERE c.n = {n}"), [n]);
                    if (Direct) Check(made.Diagnostics.ToString().Contains("rntbd://"), "a write did not use direct mode");
                    if (n == 10 && asked == level) await Partitions.Change(tests.Database.Id, "items", 2);
                }
                await Refused(System.Net.HttpStatusCode.NotFound, () => mine.ReadItemAsync<JObject>("none", new PartitionKey("0")), 0);
                Equal((await client.GetDatabase(tests.Database.Id).ReadAsync()).Resource.Id, tests.Database.Id);
            });
        }
    }
}
