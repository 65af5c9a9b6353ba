package value

import (
	"math"
	"testing"
)

// TestArithmetic shows which results stay integers, by their texts.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	const big = 1<<53 + 1
	for name, c := range map[string]struct {
		got  Value
		want string
	}{
		"sum":                     {Add(Int(big), Int(1)), "9007199254740994"},
		"sum overflows":           {Add(Int(math.MaxInt64), Int(1)), "9.2233720368547758e+18"},
		"sum underflows":          {Add(Int(math.MinInt64), Int(-1)), "-9.2233720368547758e+18"},
		"sum with a double":       {Add(Double(1), Int(big)), "9007199254740992"},
		"sum with no number":      {Add(Int(1), String("a")), ""},
		"difference":              {Subtract(Int(big), Int(-1)), "9007199254740994"},
		"difference overflows":    {Subtract(Int(0), Int(math.MinInt64)), "9.2233720368547758e+18"},
		"least difference":        {Subtract(Int(-1), Int(math.MinInt64)), "9223372036854775807"},
		"product":                 {Multiply(Int(3037000500), Int(3037000499)), "9223372033963249500"},
		"product overflows":       {Multiply(Int(3037000500), Int(3037000500)), "9.2233720370002493e+18"},
		"negative product":        {Multiply(Int(math.MinInt64), Int(1)), "-9223372036854775808"},
		"product of the least":    {Multiply(Int(math.MinInt64), Int(-1)), "9.2233720368547758e+18"},
		"quotient":                {Divide(Int(18014398509481986), Int(2)), "9007199254740993"},
		"quotient with remainder": {Divide(Int(7), Int(2)), "3.5"},
		"quotient of the least":   {Divide(Int(math.MinInt64), Int(-1)), "9.2233720368547758e+18"},
		"division by zero":        {Divide(Int(-1), Int(0)), "-Infinity"},
		"remainder":               {Modulo(Int(-big), Int(10)), "-3"},
		"remainder by zero":       {Modulo(Int(1), Int(0)), "NaN"},
		"negation":                {Negate(Int(big)), "-9007199254740993"},
		"negation of the least":   {Negate(Int(math.MinInt64)), "-9223372036854775808"},
		"negated string":          {Negate(String("a")), ""},
		"integral double":         {Double(1e16), "10000000000000000"},
		"large integral double":   {Double(1e17), "1e+17"},
		"large integer":           {Int(1e17), "100000000000000000"},
		"17 digits":               {Array([]Value{Add(Double(0.1), Double(0.2))}), "[0.30000000000000004]"},
		"15 digits":               {Double(1e-7), "1e-07"},
	} {
		if got := string(c.got.AppendText(nil)); got != c.want {
			t.Errorf("%s is %s, want %s", name, got, c.want)
		}
	}
}

// TestMinusZero shows where -0 is kept and where it is 0.
func TestMinusZero(t *testing.T) {
	t.Parallel()
	minus := Double(math.Copysign(0, -1))
	for name, c := range map[string]struct {
		got   Value
		minus bool
	}{
		"itself":               {minus, true},
		"negated 0.0":          {Negate(Double(0)), true},
		"negated 0":            {Negate(Int(0)), false},
		"negated":              {Negate(minus), false},
		"product":              {Multiply(Double(0), Int(-1)), true},
		"product of integers":  {Multiply(Int(0), Int(-1)), false},
		"sum":                  {Add(minus, minus), true},
		"sum with 0":           {Add(minus, Int(0)), false},
		"quotient":             {Divide(minus, Int(5)), true},
		"quotient of integers": {Divide(Int(0), Int(-5)), false},
		"remainder":            {Modulo(minus, Int(5)), false},
		"number":               {Number(math.Copysign(0, -1)), false},
	} {
		if got := math.Signbit(c.got.Signed()); got != c.minus {
			t.Errorf("%s has the sign %t", name, got)
		}
		if math.Signbit(c.got.Float()) || !Equal(c.got, Int(0)) || c.got.JSON() != "0" || string(AppendKey(nil, c.got)) != string(AppendKey(nil, Int(0))) {
			t.Errorf("%s is %s and not 0", name, c.got)
		}
	}
	if v := Divide(Int(1), minus); v.Float() != math.Inf(-1) {
		t.Errorf("1/-0 is %s", v)
	}
	if v := String("-0"); math.Signbit(v.Signed()) {
		t.Error("a string has a sign")
	}
}

// TestParseLenient shows the two differences from ParseString.
func TestParseLenient(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"01": "1", "-007.50": "-7.5", "[00,{\"a\":01}]": `[0,{"a":1}]`, "0000000000000000000000001": "1",
		"1e18": "1e+18", "1000000000000000000.0": "1000000000000000000", "1e5": "100000",
		"+1": "", "1.": "", ".5": "", "0x1": "", "01x": "", "1e400": "", "[1,]": "",
	} {
		v, err := ParseLenient(text)
		if got := string(v.AppendText(nil)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"01", "-00", "[01]"} {
		if v, err := ParseString(text); err == nil {
			t.Errorf("ParseString accepts %s as %s", text, v)
		}
	}
}

// TestDouble shows that the mark of a floating-point result does not change the value.
func TestDouble(t *testing.T) {
	t.Parallel()
	marked, plain := Double(1<<53), Int(1<<53)
	if !Equal(marked, plain) || Compare(marked, plain) != 0 || marked.JSON() != plain.JSON() || string(AppendKey(nil, marked)) != string(AppendKey(nil, plain)) {
		t.Error("the values differ")
	}
	if _, ok := marked.Int64(); !ok {
		t.Error("the marked value is not an integer of 64 bits")
	}
	for v, want := range map[float64]bool{1<<53 - 1: true, 1 << 53: false, -(1<<53 - 1): true, 1.5: false} {
		if _, ok := Double(v).Integer(); ok != want {
			t.Errorf("Integer of %g is %t", v, ok)
		}
	}
	if _, ok := plain.Integer(); !ok {
		t.Error("2^53 is not an integer")
	}
}
