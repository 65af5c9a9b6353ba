// Runs the tests of this folder with one version of the SDK, each theme in a database of
// its own and nearly all themes at the same time. Exits with 1 if a test fails.
//
// Arguments: the endpoint and, to run only some themes, their names. DECAN_ADMIN is the
// admin port. DECAN_ANSWERS names the answers to queries.json; without it the theme
// "answers" is left out, with a line.
//
// DECAN_DIRECT=1 leaves the SDK its default, direct mode; otherwise clients use gateway mode.
//
// HIERARCHICAL is defined for versions with hierarchical partition keys (3.33.0 and
// later), NEWEST for the newest version: feeds of all versions, deletes by partition key,
// groups in LINQ, and a continuation of ORDER BY for values of all types.
using Compat;
using Microsoft.Azure.Cosmos;

const string alone = "sessions"; // runs before the others
const string endurance = "endure", levels = "levels"; // run only by name: see Endure.cs, Levels.cs
var themes = new Dictionary<string, Func<Tests, Task>>
{
#if HIERARCHICAL
    ["hierarchy"] = Hierarchy.Run,
#else
    ["unaware"] = Unaware.Run,
#endif
    [alone] = Sessions.Run,
    ["paging"] = Paging.Run,
    ["writes"] = Writes.Run,
    ["changefeed"] = ChangeFeed.Run,
    ["processor"] = Processor.Run,
    ["linq"] = Linq.Run,
    ["scripts"] = Scripts.Run,
    ["access"] = Access.Run,
    ["management"] = Management.Run,
    ["answers"] = Answers.Run,
    [endurance] = Endure.Run,
    [levels] = Levels.Run,
};
string endpoint = args[0];
string[] names = args.Length > 1 ? args[1..] : [.. themes.Keys.Where(name => name is not (endurance or levels))];
var all = names.Select(name => new Tests(name, endpoint)).ToArray();
foreach (Tests tests in all.Where(tests => tests.Name == alone)) await tests.Theme(themes[alone]);
await Task.WhenAll(all.Where(tests => tests.Name != alone).Select(tests => Task.Run(() => tests.Theme(themes[tests.Name]))));
int failed = all.Sum(tests => tests.Failed);
Console.WriteLine($".NET {Tests.SDK} at {endpoint}: {all.Sum(tests => tests.Passed)} tests passed, {failed} failed");
return failed == 0 && all.Sum(tests => tests.Passed) > 0 ? 0 : 1;
