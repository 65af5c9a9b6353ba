using Microsoft.Azure.Cosmos;
using Newtonsoft.Json;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// The queries of queries.json, in pages of three sizes, compared with the rows that the
// server returns when it merges. The list of exclusions names what this SDK cannot do, with
// the reason; an excluded query that works fails here.
static class Answers
{
    static readonly int[] sizes = [-1, 1, 7]; // rows per page; -1 lets the SDK choose

    public static async Task Run(Tests tests)
    {
        if (Environment.GetEnvironmentVariable("DECAN_ANSWERS") is not string file)
        {
            Console.WriteLine("answers: not run, because DECAN_ANSWERS does not name a file");
            return;
        }
        using var reader = new JsonTextReader(new StreamReader(file)) { DateParseHandling = DateParseHandling.None };
        JObject list = JObject.Load(reader);
        Database database = tests.Client.GetDatabase((string)list["database"]);
        var answers = list["queries"].ToDictionary(query => (string)query["name"], query => query["rows"]);
        var excluded = new Dictionary<string, JToken>();
        foreach (JToken exclusion in list["exclusions"].Where(e => (string)e["sdk"] == "dotnet" && e["versions"].Values<string>().Contains(SDK)))
            foreach (string query in exclusion["queries"].Values<string>()) excluded.Add(query, exclusion);
        await tests.Run("exclusions name queries", () =>
        {
            Equal(excluded.Keys.Except(answers.Keys), []);
            return Task.CompletedTask;
        });

        foreach (JToken query in list["queries"])
        {
            string name = (string)query["name"];
            await tests.Run(name, async () =>
            {
                int[] bad = excluded.TryGetValue(name, out JToken exclusion) ? (exclusion["pages"]?.Values<int>().ToArray() ?? sizes) : [];
                Check(query["refusal"] == null, $"the server has no answer: {query["refusal"]}");
                foreach (int size in sizes.Except(bad)) await Compare(database, query, size, answers);
                if (bad.Length == 0) return;
                try
                {
                    foreach (int size in bad) await Compare(database, query, size, answers);
                }
                catch (Exception)
                {
                    return;
                }
                Check(false, "it works now: remove it from the exclusions of queries.json");
            });
        }
    }

    static async Task Compare(Database database, JToken query, int size, Dictionary<string, JToken> answers)
    {
        var definition = new QueryDefinition((string)query["query"]);
        foreach (JToken parameter in query["parameters"] ?? new JArray()) definition.WithParameter((string)parameter["name"], parameter["value"]);
        var options = new QueryRequestOptions { MaxItemCount = size };
        if (query["partitionKey"] is JArray values)
        {
#if HIERARCHICAL
            var key = new PartitionKeyBuilder();
            foreach (string value in values.Values<string>()) key.Add(value);
            options.PartitionKey = key.Build();
#else
            return; // this version has no hierarchical keys
#endif
        }
        List<JToken> rows = await Rows<JToken>(database.GetContainer((string)query["container"]), definition, options);
        var got = rows.Select(Text).ToList();
        var want = query["rows"].Select(Text).ToList();
        string compare = (string)query["compare"];
        if (compare == "some")
        {
            Equal(got.Count, want.Count);
            var left = answers[(string)query["of"]].Select(Text).ToList();
            foreach (string row in got) Check(left.Remove(row), $"pages of {size}: {row} is not a row of {query["of"]}, or comes too often");
            return;
        }
        if (compare == "rows")
        {
            got.Sort(StringComparer.Ordinal);
            want.Sort(StringComparer.Ordinal);
        }
        Equal(got, want, $"the rows in pages of {size}");
    }

    // Text writes a value with one form for each number and the members of objects in order.
    static string Text(JToken value) => value switch
    {
        JObject item => "{" + string.Join(",", item.Properties().OrderBy(p => p.Name, StringComparer.Ordinal).Select(p => $"{p.Name}:{Text(p.Value)}")) + "}",
        JArray items => "[" + string.Join(",", items.Select(Text)) + "]",
        JValue { Type: JTokenType.Integer or JTokenType.Float } number => ((double)number).ToString("R"),
        JValue { Type: JTokenType.Date } date => JsonConvert.ToString(((DateTime)date).ToString("o")),
        _ => value.ToString(Formatting.None),
    };
}
