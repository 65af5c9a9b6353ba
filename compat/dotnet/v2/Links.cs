using System.Net;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Linq;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// The same operations by both kinds of links: names ("dbs/shop/colls/items/docs/7") and the
// RIDs of self links ("dbs/abcdAA==/colls/..."), which programs of this generation use most.
// In direct mode, operations on documents and reads of definitions name a replica.
static class Links
{
    public static async Task Run(Tests tests)
    {
        DocumentClient client = tests.Client;
        Database database = await client.CreateDatabaseAsync(new Database { Id = $"links-{Guid.NewGuid()}" });
        try
        {
            var definition = new DocumentCollection { Id = "items" };
            definition.PartitionKey.Paths.Add("/pk");
            DocumentCollection items = await client.CreateDocumentCollectionAsync(database.SelfLink, definition, new RequestOptions { OfferThroughput = 2 * PartitionRUs });
            foreach (bool rids in new[] { false, true })
            {
                string kind = rids ? "RIDs" : "names";
                string Link(Resource of) => rids ? of.SelfLink : of.AltLink;
                await tests.Run($"documents by {kind}", () => Operate(tests, Link(items), Link));
                await tests.Run($"scripts by {kind}", () => Scripts(client, Link(items), Link));
                await tests.Run($"users and permissions by {kind}", () => Users(tests, Link(database), items, Link));
                await tests.Run($"definitions by {kind}", () => Definitions(client, database, items, Link));
                await tests.Run($"conflicts by {kind}", () => Conflicts(client, Link(items)));
            }
        }
        finally
        {
            await client.DeleteDatabaseAsync(database.SelfLink);
        }
    }

    static RequestOptions Of(string pk) => new() { PartitionKey = new PartitionKey(pk) };

    // Named checks that an operation in direct mode was answered by a replica.
    static void Named(string diagnostics)
    {
        if (Direct) Check(diagnostics.Contains("rntbd://"), "no replica in " + diagnostics);
    }

    static async Task Operate(Tests tests, string items, Func<Resource, string> link)
    {
        DocumentClient client = tests.Client;
        ResourceResponse<Document> made = await client.CreateDocumentAsync(items, new { id = "a", pk = "a", n = 1 });
        Equal(made.StatusCode, HttpStatusCode.Created);
        Named(made.RequestDiagnosticsString);
        Document one = made.Resource;
        ResourceResponse<Document> read = await client.ReadDocumentAsync(link(one), Of("a"));
        Equal(read.Resource.GetPropertyValue<int>("n"), 1);
        Named(read.RequestDiagnosticsString);
        ResourceResponse<Document> replaced = await client.ReplaceDocumentAsync(link(one), new { id = "a", pk = "a", n = 2 }, Of("a"));
        Named(replaced.RequestDiagnosticsString);
        ResourceResponse<Document> upserted = await client.UpsertDocumentAsync(items, new { id = "b", pk = "b", n = 3 });
        Named(upserted.RequestDiagnosticsString);
        Equal((await Rows(client.CreateDocumentQuery<int>(items, "SELECT VALUE c.n FROM c", new FeedOptions { EnableCrossPartitionQuery = true }))).Order(), [2, 3]);
        Equal((await Rows(client.CreateDocumentQuery<int>(items, "SELECT VALUE c.n FROM c", new FeedOptions { PartitionKey = new PartitionKey("b") }))), [3]);
        Equal((await client.ReadDocumentFeedAsync(items)).Count, 2);
        int changes = 0;
        foreach (PartitionKeyRange range in await client.ReadPartitionKeyRangeFeedAsync(items))
        {
            using IDocumentQuery<Document> feed = client.CreateDocumentChangeFeedQuery(items, new ChangeFeedOptions { PartitionKeyRangeId = range.Id, StartFromBeginning = true });
            while (feed.HasMoreResults) changes += (await feed.ExecuteNextAsync<Document>()).Count;
        }
        Equal(changes, 2);
        await Refused(HttpStatusCode.Conflict, () => client.CreateDocumentAsync(items, new { id = "a", pk = "a" }));
        foreach (Document gone in new[] { one, upserted.Resource })
        {
            string pk = gone.GetPropertyValue<string>("pk");
            ResourceResponse<Document> deleted = await client.DeleteDocumentAsync(link(gone), Of(pk));
            Equal(deleted.StatusCode, HttpStatusCode.NoContent);
            Named(deleted.RequestDiagnosticsString);
            await Refused(HttpStatusCode.NotFound, () => client.ReadDocumentAsync(link(gone), Of(pk)));
        }
    }

    static async Task Scripts(DocumentClient client, string items, Func<Resource, string> link)
    {
        StoredProcedure twice = await client.CreateStoredProcedureAsync(items, new StoredProcedure { Id = "twice", Body = "function (n) { getContext().getResponse().setBody(2 * n); }" });
        StoredProcedureResponse<int> answer = await client.ExecuteStoredProcedureAsync<int>(link(twice), Of("a"), 21);
        Equal(answer.Response, 42);
        Named(answer.RequestDiagnosticsString);
        Equal((await client.ReadStoredProcedureAsync(link(twice))).Resource.Id, "twice");
        Equal((await client.ReadStoredProcedureFeedAsync(items)).Count, 1);
        await client.DeleteStoredProcedureAsync(link(twice));
    }

    static async Task Users(Tests tests, string database, DocumentCollection items, Func<Resource, string> link)
    {
        DocumentClient client = tests.Client;
        User ann = await client.CreateUserAsync(database, new User { Id = "ann" });
        Equal((await client.ReadUserAsync(link(ann))).Resource.Id, "ann");
        Equal((await client.ReadUserFeedAsync(database)).Select(user => user.Id), ["ann"]);
        Equal(client.CreateUserQuery(database).Where(user => user.Id == "ann").AsEnumerable().Count(), 1);
        Permission made = await client.CreatePermissionAsync(link(ann), new Permission { Id = "all", PermissionMode = PermissionMode.All, ResourceLink = link(items) });
        Equal((await client.ReadPermissionAsync(link(made))).Resource.PermissionMode, PermissionMode.All);
        Equal((await client.ReadPermissionFeedAsync(link(ann))).Count, 1);
        made.PermissionMode = PermissionMode.Read;
        Permission read = await client.ReplacePermissionAsync(made);
        Equal(read.PermissionMode, PermissionMode.Read);
        using (DocumentClient limited = tests.Connect(read.Token))
        {
            Equal((await limited.ReadDocumentFeedAsync(link(items))).Count, 0);
            await Refused(HttpStatusCode.Forbidden, () => limited.CreateDocumentAsync(link(items), new { id = "x", pk = "x" }));
        }
        await client.DeletePermissionAsync(link(made));
        ann.Id = "anne";
        User anne = await client.ReplaceUserAsync(ann);
        Equal((await client.ReadUserAsync(link(anne))).Resource.Id, "anne");
        await client.DeleteUserAsync(link(anne));
    }

    static async Task Definitions(DocumentClient client, Database database, DocumentCollection items, Func<Resource, string> link)
    {
        ResourceResponse<Database> read = await client.ReadDatabaseAsync(link(database));
        Equal(read.Resource.Id, database.Id);
        Named(read.RequestDiagnosticsString);
        Check((await client.ReadDatabaseFeedAsync()).Any(one => one.Id == database.Id), "the database is not in the list");
        Equal((await client.ReadDocumentCollectionAsync(link(items))).Resource.Id, "items");
        Equal((await client.ReadDocumentCollectionFeedAsync(link(database))).Select(one => one.Id), ["items"]);
        Equal(client.CreateDocumentCollectionQuery(link(database), "SELECT * FROM c").AsEnumerable().Count(), 1);
    }

    static async Task Conflicts(DocumentClient client, string items)
    {
        Equal((await client.ReadConflictFeedAsync(items)).Count, 0);
        Equal(client.CreateConflictQuery(items, "SELECT * FROM c").AsEnumerable().Count(), 0);
    }
}
