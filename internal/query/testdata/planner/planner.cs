// Asks the service's query planner, which Microsoft.Azure.Cosmos carries as a native
// library. Standard input has a request a line, standard output an answer a line:
//
//	{"query": "SELECT ...", "parameters": [{"name": "@p", "value": 1}], "key": ["/pk"], "single": false}
//	{"plan": {"queryInfo": ..., "hybridSearchQueryInfo": ...}, "ranges": [...], "epk": [...]}
//	{"error": ...}
//
// "single" says that the request names a whole partition key. "ranges" have values of the
// key and "epk" effective partition keys. "error" is the list of the service, or a string
// if the planner says nothing but a number. The library ends the process on some queries:
// the caller starts it again.
//
// The planner is not public, so the program finds it by reflection.
using System.Collections.ObjectModel;
using System.Reflection;
using System.Text;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json;
using Newtonsoft.Json.Linq;

Environment.SetEnvironmentVariable("AZURE_COSMOS_USE_QUERY_PLAN_INTEROP_LINUX", "true");
var planner = new Planner();
using var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
using var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false));
while (input.ReadLine() is { } line)
{
    output.Write(planner.Answer(line).ToString(Formatting.None) + "\n");
    output.Flush();
}

sealed class Planner
{
    const BindingFlags All = BindingFlags.Instance | BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic;

    // What an account says about its query engine, as the service sends it to clients.
    static readonly Dictionary<string, object> configuration = new()
    {
        ["allowNewKeywords"] = true,
        ["clientDisableOptimisticDirectExecution"] = false,
        ["enableSpatialIndexing"] = true,
        ["maxInExpressionItemsCount"] = int.MaxValue,
        ["maxJoinsPerSqlQuery"] = 10,
        ["maxLogicalAndPerSqlQuery"] = int.MaxValue,
        ["maxLogicalOrPerSqlQuery"] = int.MaxValue,
        ["maxQueryRequestTimeoutFraction"] = 0.9,
        ["maxSqlQueryInputLength"] = 512 << 10,
        ["maxUdfRefPerSqlQuery"] = 10,
        ["queryEnableFullText"] = true,
        ["queryEnableFullTextPreviewFeatures"] = false,
        ["queryMaxFullTextScoreSearchTerms"] = 5,
        ["queryMaxGroupByTableCellCount"] = 500000,
        ["queryMaxInMemorySortDocumentCount"] = -1000,
        ["queryMaxRrfArgumentCount"] = 100,
        ["sqlAllowAggregateFunctions"] = true,
        ["sqlAllowGroupByClause"] = true,
        ["sqlAllowLike"] = true,
        ["sqlAllowNonFiniteNumbers"] = false,
        ["sqlAllowScalarSubQuery"] = true,
        ["sqlAllowSubQuery"] = true,
        ["sqlAllowTop"] = true,
        ["sqlQueryILDisableOptimizationFlags"] = 0,
    };

    // What the client is able to do. Other switches of the planner are off.
    static readonly HashSet<string> able =
        ["requireFormattableOrderByQuery", "isContinuationExpected", "allowNonValueAggregateQuery", "allowDCount"];

    readonly object provider;
    readonly MethodInfo plan, convert;
    readonly Type keyType;
    readonly Dictionary<string, object> keys = [];

    public Planner()
    {
        var type = typeof(CosmosClient).Assembly.GetType("Microsoft.Azure.Cosmos.Query.Core.QueryPlan.QueryPartitionProvider", true)!;
        provider = Activator.CreateInstance(type, All, null, [configuration], null)!;
        plan = type.GetMethod("TryGetPartitionedQueryExecutionInfoInternal", All)!;
        convert = type.GetMethod("ConvertPartitionedQueryExecutionInfo", All)!;
        keyType = plan.GetParameters()[1].ParameterType;
    }

    public JObject Answer(string line)
    {
        var request = JObject.Parse(line);
        var key = Key(request["key"] as JArray ?? ["/pk"]);
        // The text of the parameters goes to the planner as it came: a parser would change numbers.
        var arguments = plan.GetParameters().Select(p =>
            p.Name == "querySpecJsonString" ? line
            : p.ParameterType == keyType ? key
            : p.Name == "hasLogicalPartitionKey" ? request.Value<bool?>("single") ?? false
            : p.ParameterType == typeof(bool) ? able.Contains(p.Name!)
            : p.ParameterType.IsEnum ? Enum.ToObject(p.ParameterType, 0)
            : (object?)null).ToArray();
        var answer = plan.Invoke(provider, BindingFlags.DoNotWrapExceptions, null, arguments, null)!;
        if (!(bool)Get(answer, "Succeeded")) return new JObject { ["error"] = Error((Exception)Get(answer, "Exception")) };
        var result = Get(answer, "Result");
        var whole = JObject.Parse(JsonConvert.SerializeObject(result));
        var converted = convert.Invoke(provider, BindingFlags.DoNotWrapExceptions, null, [result, key], null)!;
        return new JObject
        {
            ["plan"] = new JObject { ["queryInfo"] = whole["queryInfo"], ["hybridSearchQueryInfo"] = whole["hybridSearchQueryInfo"] },
            ["ranges"] = whole["queryRanges"],
            ["epk"] = JArray.Parse(JsonConvert.SerializeObject(Get(converted, "QueryRanges"))),
        };
    }

    // Key returns the definition of a partition key of these paths.
    object Key(JArray paths)
    {
        string name = paths.ToString(Formatting.None);
        if (keys.TryGetValue(name, out var known)) return known;
        var key = Activator.CreateInstance(keyType, true)!;
        void Set(string property, object to) => keyType.GetProperty(property, All)!.SetValue(key, to);
        object Constant(string property, string constant)
        {
            var type = keyType.GetProperty(property, All)!.PropertyType;
            return Enum.Parse(Nullable.GetUnderlyingType(type) ?? type, constant);
        }
        Set("Paths", new Collection<string>(paths.Values<string>().ToList()!));
        Set("Kind", Constant("Kind", paths.Count > 1 ? "MultiHash" : "Hash"));
        Set("Version", Constant("Version", "V2"));
        return keys[name] = key;
    }

    static object Get(object of, string property) => of.GetType().GetProperty(property, All)!.GetValue(of)!;

    // Error finds the list of errors in the message of an exception.
    static JToken Error(Exception e)
    {
        while (!e.Message.Contains("{\"errors\"") && e.InnerException != null) e = e.InnerException;
        int start = e.Message.IndexOf("{\"errors\"", StringComparison.Ordinal);
        if (start < 0) return e.Message;
        try { return JObject.Load(new JsonTextReader(new StringReader(e.Message[start..])))["errors"]!; }
        catch (JsonException) { return e.Message; }
    }
}
