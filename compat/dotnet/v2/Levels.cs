using System.Net;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using static Compat.Tests;

namespace Compat;

// An account of one consistency level, which DECAN_LEVEL names: own writes are read at
// the account's level and at every weaker one, by another client too, and after partitions
// have split; definitions are read; a document that does not exist is 404 at once.
static class Levels
{
    public static async Task Run(Tests tests)
    {
        var level = Enum.Parse<ConsistencyLevel>(Environment.GetEnvironmentVariable("DECAN_LEVEL"));
        ConsistencyLevel[] strongest = [ConsistencyLevel.Strong, ConsistencyLevel.BoundedStaleness, ConsistencyLevel.Session, ConsistencyLevel.ConsistentPrefix, ConsistencyLevel.Eventual];
        Database database = await tests.Client.CreateDatabaseAsync(new Database { Id = $"levels-{Guid.NewGuid()}" });
        try
        {
            var definition = new DocumentCollection { Id = "items" };
            definition.PartitionKey.Paths.Add("/pk");
            definition.PartitionKey.Version = PartitionKeyDefinitionVersion.V2;
            await tests.Client.CreateDocumentCollectionAsync(database.SelfLink, definition, new RequestOptions { OfferThroughput = 2 * PartitionRUs });
            await tests.Run("the account has the level", async () => Equal((await tests.Client.GetDatabaseAccountAsync()).ConsistencyPolicy.DefaultConsistencyLevel, level));
            for (int i = Array.IndexOf(strongest, level); i < strongest.Length; i++)
            {
                ConsistencyLevel asked = strongest[i];
                await tests.Run($"own writes at {asked}", () => OwnWrites(tests, database.Id, asked, asked == level));
            }
        }
        finally
        {
            await tests.Client.DeleteDatabaseAsync(database.SelfLink);
        }
    }

    static async Task OwnWrites(Tests tests, string database, ConsistencyLevel asked, bool account)
    {
        using DocumentClient mine = account ? tests.Connect(Key) : tests.Connect(Key, asked), theirs = tests.Connect(Key);
        Uri link = UriFactory.CreateDocumentCollectionUri(database, "items");
        for (int n = 0; n < 20; n++)
        {
            string id = $"{n % 5}";
            Uri document = UriFactory.CreateDocumentUri(database, "items", id);
            var key = new RequestOptions { PartitionKey = new PartitionKey(id) };
            await mine.UpsertDocumentAsync(link, new { id, pk = id, n });
            foreach (DocumentClient client in new[] { mine, theirs }) // There is one replica.
            {
                ResourceResponse<Document> read = await client.ReadDocumentAsync(document, key);
                Equal(read.Resource.GetPropertyValue<int>("n"), n);
                if (Direct) Check(read.RequestDiagnosticsString.Contains("rntbd://"), "a read did not use direct mode: " + read.RequestDiagnosticsString);
            }
            Equal(await Rows(mine.CreateDocumentQuery<int>(link, $"SELECT VALUE c.n FROM c WHERE c.n = {n}", new FeedOptions { EnableCrossPartitionQuery = true })), [n]);
            if (n == 10 && account) await Partitions.Change(database, "items", 2);
        }
        await Refused(HttpStatusCode.NotFound, () => mine.ReadDocumentAsync(UriFactory.CreateDocumentUri(database, "items", "none"), new RequestOptions { PartitionKey = new PartitionKey("0") }));
        Equal((await mine.ReadDatabaseAsync(UriFactory.CreateDatabaseUri(database))).Resource.Id, database);
    }
}
