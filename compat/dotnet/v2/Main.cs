// Runs the older client, DocumentClient of Microsoft.Azure.DocumentDB.Core 2.11.6, in
// gateway mode, or with DECAN_DIRECT=1 in direct mode over TCP: the programs of the pages on client-side partitioning, and what an
// application does with documents. The argument is the endpoint. Exits with 1 if a test
// fails.
using Compat;
using Microsoft.Azure.Documents.Client;

var tests = new Tests(args[0]);
using (tests.Client)
{
    await Resolvers.Run(tests);
    await Documents.Run(tests);
}
Console.WriteLine($"DocumentClient {Tests.SDK} at {args[0]}: {tests.Passed} tests passed, {tests.Failed} failed");
return tests.Failed == 0 && tests.Passed > 0 ? 0 : 1;
