// The reader and the writer of binary JSON inside the .NET client, for the test
// TestDotNet. Each line of standard input has an answer on standard output:
//
//     write JSON    the binary forms in hexadecimal, separated by blanks: plain, with
//                   arrays of numbers, with unsigned numbers, with base64; or ! and the error
//     read HEX      = and the JSON text of a binary document, in hexadecimal; or ! and the error
using System.Reflection;
using System.Text;
using Microsoft.Azure.Cosmos;

var reader = new Codec();
using var output = new StreamWriter(Console.OpenStandardOutput()) { NewLine = "\n" };
while (Console.ReadLine() is string line)
{
    string answer;
    try
    {
        answer = line.StartsWith("write ") ? reader.Write(line[6..]) : "=" + reader.Read(line[5..]);
    }
    catch (Exception e)
    {
        answer = "!" + e.GetType().Name + " " + e.Message.ReplaceLineEndings(" ");
    }
    output.WriteLine(answer);
    output.Flush();
}

sealed class Codec
{
    const BindingFlags Any = BindingFlags.Static | BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic;
    static readonly Assembly client = typeof(CosmosClient).Assembly;
    readonly Type format = Find("JsonSerializationFormat"), options = Find("JsonWriteOptions");
    readonly MethodInfo makeReader = Find("JsonReader").GetMethods(Any).Single(m => m.Name == "Create" && m.GetParameters().Length == 3);
    readonly MethodInfo makeWriter = Find("JsonWriter").GetMethods(Any).Single(m => m.Name == "Create" && m.GetParameters().Length == 4);
    readonly MethodInfo copy = Find("IJsonReader").GetMethod("WriteAll")!, finish = Find("IJsonWriter").GetMethod("GetResult")!;

    static Type Find(string name) => client.GetType("Microsoft.Azure.Cosmos.Json." + name, true)!;

    static object Call(MethodInfo method, object? on, params object?[] arguments) =>
        method.Invoke(on, BindingFlags.DoNotWrapExceptions, null, arguments, null)!;

    byte[] Convert(byte[] from, string given, string wanted, string option)
    {
        var source = Call(makeReader, null, Enum.Parse(format, given), new ReadOnlyMemory<byte>(from), null);
        var target = Call(makeWriter, null, Enum.Parse(format, wanted), Enum.Parse(options, option), 256, null);
        copy.Invoke(source, BindingFlags.DoNotWrapExceptions, null, [target], null);
        return ((ReadOnlyMemory<byte>)Call(finish, target)).ToArray();
    }

    public string Write(string json) => string.Join(' ', new[] { "None", "EnableNumberArrays", "EnableUInt64Values", "EnableBase64Strings" }
        .Select(option => System.Convert.ToHexString(Convert(Encoding.UTF8.GetBytes(json), "Text", "Binary", option))));

    public string Read(string hex) => System.Convert.ToHexString(Convert(System.Convert.FromHexString(hex), "Binary", "Text", "None"));
}
