using System.Net;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Scripts;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// Stored procedures, triggers and user-defined functions.
static class Scripts
{
    public static async Task Run(Tests tests)
    {
        Container container = await tests.Database.CreateContainerAsync(new ContainerProperties("scripts", "/pk"), 2 * PartitionRUs);
        Microsoft.Azure.Cosmos.Scripts.Scripts scripts = container.Scripts;
        var key = new PartitionKey("a");

        await tests.Run("a stored procedure writes items in one transaction", async () =>
        {
            await scripts.CreateStoredProcedureAsync(new StoredProcedureProperties("import", """
                function (items, fail) {
                    const all = getContext().getCollection();
                    let done = 0;
                    items.forEach(item => {
                        if (!all.createDocument(all.getSelfLink(), item, error => {
                            if (error) throw error;
                            if (++done === items.length) {
                                if (fail) throw new Error("undo");
                                console.log("done " + done);
                                getContext().getResponse().setBody({ done });
                            }
                        })) throw new Error("not accepted");
                    });
                }
                """));
            object[] items = [.. Enumerable.Range(0, 10).Select(i => new { id = $"{i}", pk = "a", n = i })];
            await Refused(HttpStatusCode.BadRequest, () => scripts.ExecuteStoredProcedureAsync<JObject>("import", key, [items, true]));
            Equal((await Rows<int>(container, "SELECT VALUE COUNT(1) FROM c")).Single(), 0);
            StoredProcedureExecuteResponse<JObject> done = await scripts.ExecuteStoredProcedureAsync<JObject>("import", key, [items, false], new StoredProcedureRequestOptions { EnableScriptLogging = true });
            Equal((int)done.Resource["done"], 10);
            Equal(done.ScriptLog, "done 10");
            Equal((await Rows<int>(container, "SELECT VALUE COUNT(1) FROM c")).Single(), 10);
        });

        await tests.Run("stored procedures are replaced, listed and deleted", async () =>
        {
            await scripts.CreateStoredProcedureAsync(new StoredProcedureProperties("hello", "function (name) { getContext().getResponse().setBody('hello ' + name); }"));
            Equal((await scripts.ExecuteStoredProcedureAsync<string>("hello", key, ["you"])).Resource, "hello you");
            await scripts.ReplaceStoredProcedureAsync(new StoredProcedureProperties("hello", "function (name) { getContext().getResponse().setBody('goodbye ' + name); }"));
            Equal((await scripts.ExecuteStoredProcedureAsync<string>("hello", key, ["you"])).Resource, "goodbye you");
            Equal((await Rows(scripts.GetStoredProcedureQueryIterator<StoredProcedureProperties>())).Select(s => s.Id).Order(), ["hello", "import"]);
            await scripts.DeleteStoredProcedureAsync("hello");
            await Refused(HttpStatusCode.NotFound, () => scripts.ExecuteStoredProcedureAsync<string>("hello", key, ["you"]));
        });

        await tests.Run("triggers run where a request names them", async () =>
        {
            await scripts.CreateTriggerAsync(new TriggerProperties
            {
                Id = "stamp", TriggerType = TriggerType.Pre, TriggerOperation = TriggerOperation.Create,
                Body = "function () { const r = getContext().getRequest(); const item = r.getBody(); item.stamp = 'by trigger'; r.setBody(item); }",
            });
            await scripts.CreateTriggerAsync(new TriggerProperties
            {
                Id = "refuse", TriggerType = TriggerType.Post, TriggerOperation = TriggerOperation.All,
                Body = "function () { if (getContext().getResponse().getBody().n < 0) throw new Error('negative'); }",
            });
            ItemResponse<JObject> made = await container.CreateItemAsync(Item(new { id = "t1", pk = "a" }), key, new ItemRequestOptions { PreTriggers = ["stamp"] });
            Equal((string)made.Resource["stamp"], "by trigger");
            await Refused(HttpStatusCode.BadRequest, () => container.CreateItemAsync(Item(new { id = "t2", pk = "a", n = -1 }), key, new ItemRequestOptions { PostTriggers = ["refuse"] }));
            await Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<JObject>("t2", key));
            TriggerProperties read = await scripts.ReadTriggerAsync("stamp");
            Equal((read.TriggerType, read.TriggerOperation), (TriggerType.Pre, TriggerOperation.Create));
        });

        await tests.Run("user-defined functions in queries", async () =>
        {
            await scripts.CreateUserDefinedFunctionAsync(new UserDefinedFunctionProperties { Id = "twice", Body = "function (n) { return 2 * n; }" });
            Equal(await Rows<int>(container, "SELECT VALUE udf.twice(c.n) FROM c WHERE c.n = 4"), [8]);
            await scripts.ReplaceUserDefinedFunctionAsync(new UserDefinedFunctionProperties { Id = "twice", Body = "function (n) { return 3 * n; }" });
            Equal(await Rows<int>(container, "SELECT VALUE udf.twice(c.n) FROM c WHERE udf.twice(c.n) = 12"), [12]);
        });
    }
}
