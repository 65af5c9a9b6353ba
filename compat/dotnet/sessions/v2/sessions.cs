// Reads its own writes with DocumentClient 2.11 after pages of several partitions (F2):
// the client takes a list of session tokens for one token with a wrong LSN, and every
// read of that partition was 404/1002 from then on. The argument is the endpoint.
using System.Collections.ObjectModel;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Linq;

const string key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const int partitions = 5;
const int rusOfPartition = 6000; // the server makes a partition for as many
using var client = new DocumentClient(new Uri(args[0]), key, new ConnectionPolicy { ConnectionMode = ConnectionMode.Gateway }, ConsistencyLevel.Session);

int failures = 0;
void Check(bool holds, string what)
{
    if (holds) return;
    failures++;
    Console.Error.WriteLine("failed: " + what);
}

Database database = await client.CreateDatabaseAsync(new Database { Id = "compat-dotnet-" + Guid.NewGuid() });
try
{
    var definition = new PartitionKeyDefinition { Paths = new Collection<string> { "/pk" }, Version = PartitionKeyDefinitionVersion.V2 };
    DocumentCollection collection = await client.CreateDocumentCollectionAsync(database.SelfLink,
        new DocumentCollection { Id = "c", PartitionKey = definition }, new RequestOptions { OfferThroughput = partitions * rusOfPartition });
    Uri link = UriFactory.CreateDocumentCollectionUri(database.Id, collection.Id);
    for (int round = 0; round < 3; round++)
    {
        for (int n = 0; n < 30; n++)
        {
            await client.UpsertDocumentAsync(link, new { id = $"{n}", pk = $"p{n}", n, round });
            // A page of all partitions, then the write is read again.
            Check(await Rows("SELECT VALUE c.round FROM c WHERE c.n = " + n) == $"{round}", $"query of {n} in round {round}");
            Document read = await client.ReadDocumentAsync(UriFactory.CreateDocumentUri(database.Id, "c", $"{n}"), new RequestOptions { PartitionKey = new PartitionKey($"p{n}") });
            Check(read.GetPropertyValue<int>("round") == round, $"read of {n} in round {round}");
        }
        Check((await Rows("SELECT * FROM c WHERE c.n > 4")).Split(" ").Length == 25, "a filter over partitions");
        Check(await Rows("SELECT VALUE COUNT(1) FROM c") == "30", "COUNT");
        Check((await Rows("SELECT DISTINCT VALUE c.round FROM c")) == $"{round}", "DISTINCT");
        FeedResponse<dynamic> feed = await client.ReadDocumentFeedAsync(link);
        Check(feed.Count > 0 && !feed.SessionToken.Contains(','), "a feed has one token: " + feed.SessionToken);
    }
}
finally
{
    await client.DeleteDatabaseAsync(database.SelfLink);
}
Console.WriteLine(failures == 0 ? "DocumentClient reads its own writes" : $"{failures} checks failed");
return failures == 0 ? 0 : 1;

async Task<string> Rows(string text)
{
    var rows = new List<string>();
    var query = client.CreateDocumentQuery<dynamic>(UriFactory.CreateDocumentCollectionUri(database.Id, "c"), text,
        new FeedOptions { EnableCrossPartitionQuery = true, MaxDegreeOfParallelism = -1 }).AsDocumentQuery();
    while (query.HasMoreResults)
        foreach (var row in await query.ExecuteNextAsync()) rows.Add(row.ToString().Replace(" ", "").Replace("\n", ""));
    return string.Join(" ", rows);
}
