package row

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func mustType(t testing.TB, text string) *Type {
	t.Helper()
	typ, err := ParseType(text, resolveTest)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func mustHex(t testing.TB, text string) []byte {
	t.Helper()
	if text == "-" {
		return nil
	}
	v, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestValidateTexts checks the sentence for each kind of invalid bytes, and that null
// and empty values are valid where they are documented to be.
func TestValidateTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, value, want string }{
		{"int", "010203", "Expected 4 or 0 byte int (3)"},
		{"bigint", "01", "Expected 8 or 0 byte long (1)"},
		{"counter", "01", "Expected 8 or 0 byte long (1)"},
		{"timestamp", "0102", "Expected 8 or 0 byte long for date (2)"},
		{"date", "010203", "Expected 4 byte long for date (3)"},
		{"time", "01", "Expected 8 byte long for time (1)"},
		{"float", "0102", "Expected 4 or 0 byte value for a float (2)"},
		{"double", "01020304", "Expected 8 or 0 byte value for a double (4)"},
		{"boolean", "0101", "Expected 1 or 0 byte value (2)"},
		{"decimal", "010203", "Expected 0 or at least 4 bytes (3)"},
		{"inet", "0a0b", "Expected 4 or 16 byte inetaddress; got 0a0b"},
		{"smallint", "010203", "Expected 2 bytes for a smallint (3)"},
		{"tinyint", "0102", "Expected 1 byte for a tinyint (2)"},
		{"uuid", "01", "UUID should be 16 or 0 bytes (1)"},
		{"timeuuid", "00000000000000000000000000000000", "Invalid version for TimeUUID type: 0x0"},
		{"text", "ff", "String didn't validate."},
		{"ascii", "c3", "Invalid byte for ascii: -61"},
		{"list<int>", "0000", "Not enough bytes to read a list"},
		{"list<int>", "", "Not enough bytes to read a list"},
		{"map<int, int>", "0000000100000004", "Not enough bytes to read a map"},
		{"list<int>", "ffffffff", "The data cannot be deserialized as a list"},
		{"list<int>", "0000000000", "Unexpected extraneous bytes after list value"},
		{"list<int>", "00000001ffffffff", "null is not supported inside collections"},
		{"list<int>", "000000010000000101", "Expected 4 or 0 byte int (1)"},
		{"tuple<int>", "0000000401", "Not enough bytes to read 0th component"},
		{"tuple<int>", "00", "Not enough bytes to read size of 0th component"},
		{"tuple<int>", "000000040000000100", "Invalid remaining data after end of tuple value"},
		{"frozen<pair>", "0000000401", "Not enough bytes to read 0th field a"},
		{"frozen<pair>", "0000000101", "Failure validating the 0th field a; Expected 4 or 0 byte int (1)"},
		{"duration", "01", "Expected at least 3 bytes for a duration (1)"},
		{"duration", "020100", "The duration months, days and nanoseconds must be all of the same sign (1, -1, 0)"},
		{"vector<float, 2>", "00000000", "Not enough bytes to read a vector<float, 2>"},
		{"vector<float, 1>", "0000000000", "Unexpected 1 extraneous bytes after vector<float, 1> value"},
		{"duration", "", "Expected at least 3 bytes for a duration (0)"},
		{"date", "", "Expected 4 byte long for date (0)"},
		{"smallint", "", "Expected 2 bytes for a smallint (0)"},
		{"tinyint", "", "Expected 1 byte for a tinyint (0)"},
		{"time", "", "Expected 8 byte long for time (0)"},
		{"time", "-", ""},
		{"int", "-", ""},
		{"list<int>", "-", ""},
		{"ascii", "", ""},
		{"text", "", ""},
		{"blob", "", ""},
		{"bigint", "", ""},
		{"boolean", "", ""},
		{"counter", "", ""},
		{"decimal", "", ""},
		{"double", "", ""},
		{"float", "", ""},
		{"inet", "", ""},
		{"int", "", ""},
		{"timestamp", "", ""},
		{"timeuuid", "", ""},
		{"uuid", "", ""},
		{"varint", "", ""},
		{"time", "ffffffffffffffff", ""},
		{"text", "eda080", ""},
		{"varint", "000001", ""},
		{"decimal", "00000001", ""},
		{"tuple<int, int>", "ffffffff", ""},
		{"tuple<int, int>", "", ""},
		{"vector<text, 2>", "0161026262", ""},
	} {
		err := mustType(t, c.typ).Validate(mustHex(t, c.value))
		if refused := (*Error)(nil); c.want != "" && (!errors.As(err, &refused) || refused.Text != c.want || refused.Reason != BadValue) || c.want == "" && err != nil {
			t.Errorf("%s %s: %v, want %s", c.typ, c.value, err, c.want)
		}
	}
}

// TestNormalize checks the form in which values are stored.
func TestNormalize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, value, want string }{
		{"set<int>", "00000003000000040000000200000004ffffffff0000000400000002", "0000000200000004ffffffff0000000400000002"},
		{"map<text, text>", "00000003000000016200000001310000000161000000013200000001620000000133", "00000002000000016100000001320000000162000000" + "0133"},
		{"list<int>", "0000000200000004000000020000000400000001", "0000000200000004000000020000000400000001"},
		{"tuple<int, int>", "0000000400000002", "0000000400000002"},
		{"frozen<pair>", "0000000400000002", "0000000400000002"},
		{"tuple<set<int>, int>", "0000001400000002" + "0000000400000002" + "0000000400000001", "0000001400000002" + "0000000400000001" + "0000000400000002"},
		{"tuple<int, int>", "", ""},
		{"list<frozen<set<int>>>", "0000000100000014000000020000000400000002" + "0000000400000001", "0000000100000014000000020000000400000001" + "0000000400000002"},
		{"set<int>", "00000000", "00000000"},
		{"int", "00000001", "00000001"},
		{"set<int>", "-", "-"},
	} {
		typ := mustType(t, c.typ)
		got := typ.Normalize(mustHex(t, c.value))
		if shown := hexOrNull(got); shown != c.want {
			t.Errorf("%s %s: %s, want %s", c.typ, c.value, shown, c.want)
		}
		if again := typ.Normalize(got); hexOrNull(again) != c.want {
			t.Errorf("%s %s: twice %x", c.typ, c.value, again)
		}
	}
}

func hexOrNull(v []byte) string {
	if v == nil {
		return "-"
	}
	return hex.EncodeToString(v)
}

// TestLiteralTexts checks constants and the sentences about wrong ones.
func TestLiteralTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ  string
		kind LiteralKind
		text string
		want string // value, or sentence
	}{
		{"int", IntegerLiteral, "2147483648", "Unable to make int from '2147483648'"},
		{"tinyint", IntegerLiteral, "128", "Unable to make byte from '128'"},
		{"smallint", IntegerLiteral, "-32769", "Unable to make short from '-32769'"},
		{"bigint", IntegerLiteral, "9223372036854775808", "Unable to make long from '9223372036854775808'"},
		{"counter", IntegerLiteral, "-1", "ffffffffffffffff"},
		{"int", StringLiteral, "5", `Invalid STRING constant (5) for "c" of type int`},
		{"text", IntegerLiteral, "5", `Invalid INTEGER constant (5) for "c" of type text`},
		{"list<int>", IntegerLiteral, "5", `Invalid INTEGER constant (5) for "c" of type list<int>`},
		{"uuid", StringLiteral, "e6216794-498d-11f1-9035-415b0af9ce8c", `Invalid STRING constant (e6216794-498d-11f1-9035-415b0af9ce8c) for "c" of type uuid`},
		{"boolean", IntegerLiteral, "1", `Invalid INTEGER constant (1) for "c" of type boolean`},
		{"blob", HexLiteral, "0xCafe", "cafe"},
		{"blob", HexLiteral, "0xabc", "cannot parse 'abc' as hex bytes"},
		{"boolean", BooleanLiteral, "TRUE", "01"},
		{"date", StringLiteral, "x", "Unable to coerce 'x' to a formatted date (long)"},
		{"date", IntegerLiteral, "-1", "Unable to make unsigned int (for date) from: '-1'"},
		{"date", IntegerLiteral, "2147483648", "80000000"},
		{"date", StringLiteral, "-5877641-06-23", "00000000"},
		{"date", StringLiteral, "2023-02-29", "Unable to coerce '2023-02-29' to a formatted date (long)"},
		{"time", StringLiteral, "x", "(TimeType) Unable to coerce 'x' to a formatted time (long)"},
		{"time", IntegerLiteral, "-1", "Unable to make long (for time) from: '-1'"},
		{"time", IntegerLiteral, "86400000000000", "Unable to make long (for time) from: '86400000000000'"},
		{"time", StringLiteral, "8:5:1.5", "00001a77b891e700"},
		{"timestamp", StringLiteral, "x", "Unable to parse a date/time from 'x'"},
		{"timestamp", StringLiteral, "2011-02-03 04:05:00.123+0200", "0000012de943f15b"},
		{"timestamp", StringLiteral, "1970-01-01", "0000000000000000"},
		{"timestamp", StringLiteral, "", ""},
		{"inet", StringLiteral, "", ""},
		{"inet", StringLiteral, "x", "Unable to make inet address from 'x'"},
		{"timeuuid", UUIDLiteral, "aa2df047-15d8-4927-9a96-879a4f3690ac", "TimeUUID supports only version 1 UUIDs"},
		{"ascii", StringLiteral, "é", "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1"},
		{"decimal", FloatLiteral, "NaN", "unable to make BigDecimal from 'NaN'"},
		{"decimal", FloatLiteral, "-1.50", "00000002ff6a"},
		{"double", FloatLiteral, "-0.0", "8000000000000000"},
		{"double", FloatLiteral, "Infinity", "7ff0000000000000"},
		{"float", FloatLiteral, "1e400", "7f800000"},
		{"varint", IntegerLiteral, "-129", "ff7f"},
		{"duration", DurationLiteral, "1y2mo3d4h", "1c06fc1a3185c50000"},
		{"duration", DurationLiteral, "x", "Unable to convert 'x' to a duration"},
		{"duration", DurationLiteral, "1d1y", "Invalid duration. The days should be after years"},
		{"duration", DurationLiteral, "1y1y", "Invalid duration. The years are specified multiple times"},
		{"duration", DurationLiteral, "178956971y", "Invalid duration. The total number of months must be less or equal to 2147483647"},
	} {
		v, err := mustType(t, c.typ).ParseLiteral(c.kind, c.text, "c")
		got := hexOrNull(v)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.typ, c.kind, c.text, got, c.want)
		}
	}
}

// TestParseJSONRow checks the names of INSERT JSON and the sentences about texts that
// are not an object.
func TestParseJSONRow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"A": 1, "a": 2}`:              "a=1",
		`{"a": 2, "A": 1}`:              "a=1",
		`{"a": 1, "a": 2}`:              "a=2",
		`{"\"A\"": 1, "b": [1.50, {}]}`: "b=[1.5, {}] A=1",
		`{} trailing`:                   "",
		`null`:                          "Got null for INSERT JSON values",
		`[1]`:                           "Could not decode JSON string as a map: it is ArrayList. (String was: [1])",
		`{"a": `:                        `Could not decode JSON string as a map: unexpected EOF. (String was: {"a": )`,
		strings.Repeat("[", 100000):     "Could not decode JSON string as a map: nesting is deeper than 1000",
	} {
		members, err := ParseJSONRow(text)
		got := ""
		for i, m := range members {
			if i > 0 {
				got += " "
			}
			got += m.Name + "=" + m.Value.String()
		}
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.Reason == BadJSON {
			got = refused.Text
			if len(text) > 1000 {
				got, _, _ = strings.Cut(got, ". (")
			}
		}
		if got != want {
			t.Errorf("%.50s: %s, want %s", text, got, want)
		}
	}
}

// TestAddDuration checks sums of times and durations.
func TestAddDuration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, value, duration, plus, minus string }{
		{"date", "2020-01-31", "1mo", "2020-02-29", "2019-12-31"},
		{"date", "2020-02-29", "1y", "2021-02-28", "2019-02-28"},
		{"date", "2020-02-29", "2d", "2020-03-02", "2020-02-27"},
		{"date", "2020-02-29", "1y2mo3d", "2021-05-02", "2018-12-26"},
		{"date", "1969-12-31", "1d", "1970-01-01", "1969-12-30"},
		{"date", "2020-02-29", "1h", "The duration must have a day precision. Was: 1h", "The duration must have a day precision. Was: 1h"},
		{"timestamp", "2020-02-29T01:02:03.004Z", "1mo2h5ms", "2020-03-29T03:02:03.009Z", "2020-01-28T23:02:02.999Z"},
		{"timestamp", "1969-12-31T23:59:59.999Z", "1d1ms", "1970-01-02T00:00:00.000Z", "1969-12-30T23:59:59.998Z"},
		// Beyond 32 bits of milliseconds, after months only.
		{"timestamp", "1970-01-01T00:00:00.000Z", "1mo1000h", "1970-01-23T22:57:12.704Z", "1969-12-09T01:02:47.296Z"},
		{"timestamp", "1970-01-01T00:00:00.000Z", "1d1000h", "1970-02-12T16:00:00.000Z", "1969-11-19T08:00:00.000Z"},
		{"timestamp", "1970-01-01T00:00:00.000Z", "1us", "The duration must have a millisecond precision. Was: 1us", "The duration must have a millisecond precision. Was: 1us"},
	} {
		typ := mustType(t, c.typ)
		v, err := typ.ParseText(c.value)
		if err != nil {
			t.Fatal(err)
		}
		duration, err := Native(KindDuration).ParseText(c.duration)
		if err != nil {
			t.Fatal(err)
		}
		for minus, want := range map[bool]string{false: c.plus, true: c.minus} {
			sum, err := typ.AddDuration(v, duration, minus)
			got := typ.Format(sum)
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s and %s, minus %v: %s, want %s", c.value, c.duration, minus, got, want)
			}
		}
	}
	for millis, want := range map[int64]string{0: "1970-01-01", 86400000: "1970-01-02", -1: "1970-01-01", -86400000: "1969-12-31", -86400001: "1969-12-31"} {
		if got := Native(KindDate).Format(DateOfTimestamp(millis)); got != want {
			t.Errorf("date of %d: %s, want %s", millis, got, want)
		}
	}
}

// FuzzValue checks that any bytes and texts are handled without a panic, and that
// valid values survive text and JSON.
func FuzzValue(f *testing.F) {
	for seed := range uint64(30) {
		r := newRand(seed)
		typ := randomType(r, 3)
		f.Add(seed, randomValue(r, typ))
	}
	f.Fuzz(func(t *testing.T, seed uint64, v []byte) {
		typ := randomType(newRand(seed), 3)
		_, _ = typ.ParseText(string(v))
		if j, err := ParseJSON(string(v)); err == nil {
			if back, err := typ.FromJSON(j); err == nil && back != nil && typ.Validate(back) != nil {
				t.Fatalf("%s: JSON %q gave the invalid value %x", typ, v, back)
			}
		}
		_ = typ.Compare(v, v)
		if typ.Validate(v) != nil {
			return
		}
		v = typ.Normalize(v)
		if c := typ.Compare(v, typ.Normalize(v)); c != 0 {
			t.Fatalf("%s: %x compares %d with itself", typ, v, c)
		}
		typ.Literal(v)
		if _, err := ParseJSON(string(typ.AppendJSON(nil, v))); err != nil {
			t.Fatalf("%s: %x: %v", typ, v, err)
		}
	})
}
