package table

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// typed is an argument of a test: CQL text of a value of a type.
type typed struct {
	t    *row.Type
	text string
}

func (a typed) match(t *row.Type) match { return typeMatch(t, a.t) }
func (a typed) exactType() *row.Type    { return a.t }
func (a typed) String() string          { return a.text }
func (a typed) marks() bool             { return false }

// marker is the argument of a bind marker.
type anyMarker struct{}

func (anyMarker) match(*row.Type) match { return weak }
func (anyMarker) exactType() *row.Type  { return nil }
func (anyMarker) String() string        { return "?" }
func (anyMarker) marks() bool           { return true }

// value parses "type literal", such as "int 5" or "text 'a'".
func value(t *testing.T, text string) (*row.Type, []byte) {
	t.Helper()
	name, literal, _ := strings.Cut(text, " ")
	typ, err := row.ParseType(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if literal == "null" {
		return typ, nil
	}
	kind := row.IntegerLiteral
	switch {
	case strings.HasPrefix(literal, "'"):
		kind, literal = row.StringLiteral, strings.Trim(literal, "'")
	case strings.HasPrefix(literal, "0x"):
		kind = row.HexLiteral
	case literal == "true" || literal == "false":
		kind = row.BooleanLiteral
	case strings.Count(literal, "-") == 4:
		kind = row.UUIDLiteral
	case strings.ContainsAny(literal, ".eNI"):
		kind = row.FloatLiteral
	case strings.Trim(literal, "-0123456789") != "":
		kind = row.DurationLiteral
	}
	v, err := typ.ParseLiteral(kind, literal, "v")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return typ, v
}

var testMoment = &Moment{
	Now: time.Date(2020, 2, 29, 1, 2, 3, 4e6, time.UTC),
	TimeUUID: func() [16]byte {
		return TimeUUID(TimeUUIDTicks(time.Date(2020, 2, 29, 1, 2, 3, 4e6, time.UTC)), [8]byte{0x80, 1, 2, 3, 4, 5, 6, 7})
	},
	UUID: func() [16]byte { return [16]byte{6: 0x40, 8: 0x80} },
}

// TestFunctions compares results of operations, casts and functions with those that
// were recorded from Apache Cassandra, or that Java's arithmetic gives.
func TestFunctions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ call, want string }{
		{"int 5 + int 3", "int 8"},
		{"int 2147483647 + int 1", "int -2147483648"},
		{"tinyint 127 + tinyint 1", "tinyint -128"},
		{"int 7 / int -2", "int -3"},
		{"int -7 % int 4", "int -3"},
		{"int -2147483648 / int -1", "int -2147483648"},
		{"bigint -9223372036854775808 / bigint -1", "bigint -9223372036854775808"},
		{"int 1 / int 0", "function failure _divide(int, int): the operation 'int / int' failed: / by zero"},
		{"varint 1 / varint 0", "function failure _divide(varint, varint): the operation 'varint / varint' failed: BigInteger divide by zero"},
		{"decimal 1.0 / decimal 0.0", "function failure _divide(decimal, decimal): the operation 'decimal / decimal' failed: BigInteger divide by zero"},
		{"double 1.0 / double 0.0", "double Infinity"},
		{"double -1.0 / int 0", "double -Infinity"},
		{"int 1 + float 0.5", "float 1.5"},
		{"bigint 1 + float 0.5", "double 1.5"},
		{"smallint 1 + tinyint 1", "smallint 2"},
		{"varint 10 + int 1", "varint 11"},
		{"varint 10 * double 0.5", "decimal 5.0"},
		{"counter 1 + int 1", "bigint 2"},
		{"decimal 1.25 * int 2", "decimal 2.500"},
		{"decimal 1 / decimal 3", "decimal 0.33333333333333333333333333333333"},
		{"decimal 10 / decimal 4", "decimal 2.5"},
		{"decimal 100 / decimal 4", "decimal 25"},
		{"decimal 1.5 + decimal 0.25", "decimal 1.75"},
		{"decimal 7.5 % decimal 2", "decimal 1.5"},
		{"decimal 1 + double NaN", "function failure _add(decimal, double): the operation 'decimal + double' failed: A NaN cannot be converted into a decimal"},
		{"text 'a' + text 'b'", "text 'ab'"},
		{"ascii 'a' + text 'ö'", "text 'aö'"},
		{"timestamp '2020-01-31' + duration 1mo", "timestamp '2020-02-29T00:00:00.000Z'"},
		{"timestamp '2020-01-01' - duration 1h", "timestamp '2019-12-31T23:00:00.000Z'"},
		{"date '2020-03-31' - duration 1mo", "date '2020-02-29'"},
		{"date '2020-03-31' + duration 1h", "function failure _add(date, duration): the operation 'date + duration' failed: The duration must have a day precision. Was: 1h"},
		{"int 1 + text 'a'", "the '+' operation is not supported between int 1 and text 'a'"},
		{"int null + int 1", "int null"},
		{"- int 5", "int -5"},
		{"- double 0.5", "double -0.5"},
		{"- decimal 1.50", "decimal -1.50"},
		{"- text 'a'", `Invalid call to function system._negate, none of its type signatures match (known type signatures: system."_negate" : (tinyint) -> tinyint, system."_negate" : (smallint) -> smallint, system."_negate" : (int) -> int, system."_negate" : (bigint) -> bigint, system."_negate" : (counter) -> counter, system."_negate" : (float) -> float, system."_negate" : (double) -> double, system."_negate" : (varint) -> varint, system."_negate" : (decimal) -> decimal)`},

		{"cast int 300 tinyint", "tinyint 44"},
		{"cast double 3e9 int", "int 2147483647"},
		{"cast double -3e9 smallint", "smallint 0"},
		{"cast double NaN bigint", "bigint 0"},
		{"cast float 1.9 int", "int 1"},
		{"cast varint 4294967297 int", "int 1"},
		{"cast decimal -2.7 varint", "varint -2"},
		{"cast double 2.0 decimal", "decimal 2.0"},
		{"cast int 2 decimal", "decimal 2"},
		{"cast int 2 text", "text '2'"},
		{"cast double 1e300 text", "text '1.0E300'"},
		{"cast boolean true text", "text 'true'"},
		{"cast timestamp '2020-02-29 01:02:03.004Z' text", "text '2020-02-29T01:02:03.004Z'"},
		{"cast timestamp '1969-12-31 23:59:59Z' date", "date '1970-01-01'"},
		{"cast date '2020-02-29' timestamp", "timestamp '2020-02-29T00:00:00.000Z'"},
		{"cast uuid 123e4567-e89b-12d3-a456-426614174000 text", "text '123e4567-e89b-12d3-a456-426614174000'"},
		{"cast int null text", "text null"},
		{"cast int 1 boolean", "int 1 cannot be cast to boolean"},
		{"cast int 1 timeuuid", "int 1 cannot be cast to timeuuid"},
		{"cast double NaN decimal", "function failure castAsDecimal(double): execution of 'system.castAsDecimal[double]' failed: the number has no value of type decimal"},

		{"now()", "timeuuid 18bc53c0-5a8f-11ea-8001-020304050607"},
		{"uuid()", "uuid 00000000-0000-4000-8000-000000000000"},
		{"currenttimestamp()", "timestamp '2020-02-29T01:02:03.004Z'"},
		{"currentdate()", "date '2020-02-29'"},
		{"currenttime()", "time '01:02:03.004000000'"},
		{"totimestamp(timeuuid 18bc53c0-5a8f-11ea-8001-020304050607)", "timestamp '2020-02-29T01:02:03.004Z'"},
		{"mintimeuuid(timestamp '2013-01-01 00:05Z')", "timeuuid e23f1e00-53a6-11e2-8080-808080808080"},
		{"maxtimeuuid(timestamp '2013-01-01 00:05Z')", "timeuuid e23f450f-53a6-11e2-7f7f-7f7f7f7f7f7f"},
		{"todate(timestamp '1969-12-31 23:00Z')", "date '1970-01-01'"},
		{"tounixtimestamp(date '1970-01-02')", "bigint 86400000"},
		{"intasblob(int 5)", "blob 0x00000005"},
		{"blobasint(blob 0x00000005)", "int 5"},
		{"varcharasblob(text 'a')", "blob 0x61"},
		{"blobasint(blob 0x01)", "In call to function system.blobasint, value 0x01 is not a valid binary representation for type int"},
		{"blobasint(blob null)", "int null"},
		{"tojson(text 'a')", `text '"a"'`},
		{"tojson(int null)", "text 'null'"},
		{"token(int 1, text 'x')", "bigint 746584927563629270"},
		{"token(int 1)", "Invalid number of arguments in call to function system.token: 2 required but 1 provided"},
		{"token(uuid 123e4567-e89b-12d3-a456-426614174000, text 'x')", "Type error: uuid 123e4567-e89b-12d3-a456-426614174000 cannot be passed as argument 0 of function system.token of type int"},
		{"nosuchfn(int 1)", "Unknown function 'nosuchfn'"},
		{"dateof(int 1)", "Type error: int 1 cannot be passed as argument 0 of function system.dateof of type timeuuid"},
		{"todate(int 1)", "Invalid call to function todate, none of its type signatures match (known type signatures: system.todate : (timeuuid) -> date, system.todate : (timestamp) -> date)"},
		{"fromjson(text '1')", "fromJson() cannot be used in the selection clause of a SELECT statement"},
	} {
		if got := evaluateCall(t, c.call); got != c.want {
			t.Errorf("%s = %s, want %s", c.call, got, c.want)
		}
	}
}

// evaluateCall evaluates "a + b", "- a", "cast a type" or "f(a, b)" and returns the type
// and the literal of the result, or the error.
func evaluateCall(t *testing.T, call string) string {
	t.Helper()
	var args []argument
	var values [][]byte
	arg := func(text string) {
		typ, v := value(t, text)
		args, values = append(args, typed{typ, text}), append(values, v)
	}
	var f *function
	var err error
	switch {
	case strings.HasPrefix(call, "- "):
		arg(call[2:])
		f, err = resolveNegation(args[0], nil)
	case strings.HasPrefix(call, "cast "):
		rest := call[len("cast "):]
		i := strings.LastIndexByte(rest, ' ')
		arg(rest[:i])
		to, _ := row.ParseType(rest[i+1:], nil)
		f, err = resolveCast(args[0], to)
	case strings.HasSuffix(call, ")"):
		name, rest, _ := strings.Cut(strings.TrimSuffix(call, ")"), "(")
		if rest != "" {
			for text := range strings.SplitSeq(rest, ", ") {
				arg(text)
			}
		}
		f, err = resolveFunction(cql.Name{Name: name}, args, nil, []*row.Type{native(row.KindInt), native(row.KindText)})
	default:
		for _, op := range []string{" + ", " - ", " * ", " / ", " % "} {
			if left, right, ok := strings.Cut(call, op); ok {
				arg(left)
				arg(right)
				f, err = resolveOperation(op[1], args[0], args[1], nil)
				break
			}
		}
	}
	var v []byte
	if err == nil {
		v, err = f.call(testMoment, values)
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Class == FunctionFailed {
		return "function failure " + e.Function + "(" + strings.Join(e.Arguments, ", ") + "): " + e.Text
	}
	if err != nil {
		return err.Error()
	}
	if v == nil {
		return f.result.String() + " null"
	}
	return f.result.String() + " " + f.result.Literal(v)
}

// TestAmbiguousOperations checks operations with markers.
func TestAmbiguousOperations(t *testing.T) {
	t.Parallel()
	one := typed{native(row.KindInt), "1"}
	if _, err := resolveOperation('+', anyMarker{}, one, nil); err == nil || err.Error() != "Ambiguous '+' operation with args ? and 1: use type hint to disambiguate, example '(int) ?'" {
		t.Errorf("? + 1: %v", err)
	}
	if _, err := resolveNegation(anyMarker{}, nil); err == nil || err.Error() != "Ambiguous negation: use type casts to disambiguate" {
		t.Errorf("-?: %v", err)
	}
}

// TestAggregates compares aggregates with results that were recorded, or that Java gives.
func TestAggregates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []string
		want   string
	}{
		{"count", []string{"int 1", "int null", "int 2"}, "bigint 2"},
		{"sum", []string{"int 2147483647", "int 1"}, "int -2147483648"},
		{"sum", []string{"bigint 9223372036854775807", "bigint 1"}, "bigint -9223372036854775808"},
		{"avg", []string{"int 1", "int 2"}, "int 1"},
		{"avg", []string{"bigint 9223372036854775807", "bigint 9223372036854775807"}, "bigint 9223372036854775807"},
		{"avg", []string{"tinyint 127", "tinyint 127", "tinyint null"}, "tinyint 127"},
		{"sum", []string{"tinyint 127", "tinyint 2"}, "tinyint -127"},
		{"avg", []string{"decimal 1.0", "decimal 2.0"}, "decimal 1.5"},
		{"avg", []string{"decimal 1", "decimal 2"}, "decimal 1"},
		{"avg", []string{"decimal 1", "decimal 2", "decimal 2"}, "decimal 1"},
		{"sum", []string{"decimal 1.10", "decimal 2"}, "decimal 3.10"},
		{"sum", []string{"varint 100000000000000000000", "varint 1"}, "varint 100000000000000000001"},
		{"sum", []string{"double 0.1", "double 0.2", "double 0.3"}, "double 0.6"},
		{"avg", []string{"float 1.0", "float 2.0"}, "float 1.5"},
		{"sum", []string{"double Infinity", "double 1.0"}, "double Infinity"},
		{"min", []string{"text 'b'", "text null", "text 'a'"}, "text 'a'"},
		{"max", []string{"boolean false", "boolean true"}, "boolean true"},
		{"min", []string{"int null"}, "int null"},
		{"sum", []string{"int null"}, "int 0"},
		{"avg", []string{"decimal null"}, "decimal 0"},
	} {
		var typ *row.Type
		var sum aggregator
		for _, text := range c.values {
			var v []byte
			if typ, v = value(t, text); sum == nil {
				sum = aggregateFunction(c.name, typ).aggregate()
			}
			if err := sum.add(v); err != nil {
				t.Error(err)
			}
		}
		result := aggregateFunction(c.name, typ).result
		got := result.String() + " null"
		if v := sum.result(); v != nil {
			got = result.String() + " " + result.Literal(v)
		}
		if got != c.want {
			t.Errorf("%s of %q = %s, want %s", c.name, c.values, got, c.want)
		}
	}
	if aggregateFunction("sum", native(row.KindText)) != nil {
		t.Error("texts have a sum")
	}
	// Decimals whose scales are too far apart are refused before they take memory.
	far := aggregateFunction("sum", native(row.KindDecimal)).aggregate()
	_, huge := value(t, "decimal 1e2000000")
	_, one := value(t, "decimal 1")
	if err := far.add(one); err != nil {
		t.Error(err)
	}
	if err := far.add(huge); err == nil {
		t.Error("no error for 1 + 1e2000000")
	}
}
