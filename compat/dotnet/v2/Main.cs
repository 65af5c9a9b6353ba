// Runs the older client, DocumentClient of Microsoft.Azure.DocumentDB.Core 2.11.6, in
// gateway mode, or with DECAN_DIRECT=1 in direct mode over TCP: the programs of the pages
// on client-side partitioning, what an application does with documents, and all of it by
// both kinds of links. The arguments are the endpoint and, to run only some themes, their
// names. Exits with 1 if a test fails.
using Compat;
using Microsoft.Azure.Documents.Client;

var themes = new Dictionary<string, Func<Tests, Task>>
{
    ["resolvers"] = Resolvers.Run,
    ["documents"] = Documents.Run,
    ["links"] = Links.Run,
    ["endure"] = Endure.Run,
    ["levels"] = Levels.Run,
};
string[] names = args.Length > 1 ? args[1..] : ["resolvers", "documents", "links"]; // the others: see ../../direct.sh
var tests = new Tests(args[0]);
using (tests.Client)
{
    foreach (string name in names) await themes[name](tests);
}
Console.WriteLine($"DocumentClient {Tests.SDK} at {args[0]}: {tests.Passed} tests passed, {tests.Failed} failed");
return tests.Failed == 0 && tests.Passed > 0 ? 0 : 1;
