package query

import (
	"bufio"
	"compress/gzip"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// valueVector is an expression of constants with its value as the service computes it.
type valueVector struct {
	expr string
	text string // of an array with the value, [] if it is undefined
	code string // of the error, if the service refuses the expression; text is empty then
}

// valueVectors reads the expressions in testdata/vectors/query-functions.jsonl.gz, and
// those in query-values.jsonl, of kinds that TestPlannerValues found. The evaluator of the
// service has computed them.
func valueVectors(t testing.TB) []valueVector {
	t.Helper()
	file, err := os.Open("testdata/vectors/query-functions.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	found, err := os.Open("testdata/vectors/query-values.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	var list []valueVector
	for lines := bufio.NewScanner(io.MultiReader(plain, found)); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			return list
		}
		v, err := value.ParseString(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, valueVector{expr: v.Index(0).Text(), text: v.Index(1).Text(), code: v.Index(2).Text()})
	}
}

// exceptionKinds are the kinds of exceptions with the greatest difference from the value
// of the service, relative to it.
var exceptionKinds = map[string]float64{
	"library": 1e-14, // the last digits of functions of the C library
	"spatial": 2e-8,  // another solution of the geodesic
}

// exceptionsMax is the number of exceptions. It must not grow.
const exceptionsMax = 96

// valueExceptions reads testdata/vectors/value-exceptions.txt: the kinds of the
// expressions whose value differs from that of the service.
func valueExceptions(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors/value-exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		kind, expr, _ := strings.Cut(line, " ")
		if _, ok := exceptionKinds[kind]; !ok || kinds[expr] != "" {
			t.Fatalf("value-exceptions.txt: unknown kind, or second line of the expression: %s", line)
		}
		kinds[expr] = kind
	}
	return kinds
}

// vectorTime is the current time of the expressions of vectors.
var vectorTime = time.Unix(1_700_000_000, 0)

// evaluated returns the value of an expression as a vector does.
func evaluated(t testing.TB, expr string) valueVector {
	t.Helper()
	got := valueVector{expr: expr}
	p, err := Compile("SELECT VALUE ToString(["+expr+"])", nil, nil, Options{Now: vectorTime})
	if err == nil {
		var page Page
		if page, err = p.Run(t.Context(), list{}, Budget{}); err == nil {
			row, err := value.Parse(page.Rows[0].JSON)
			if err != nil {
				t.Fatalf("%s: row %s: %v", expr, page.Rows[0].JSON, err)
			}
			got.text = row.Text()
			return got
		}
	}
	e := status.From(err)
	if e == nil {
		t.Fatalf("%s: %v", expr, err)
	}
	got.code = e.Message
	if body, err := value.ParseString(e.Message); err == nil {
		got.code = body.Get("errors").Index(0).Get("code").Text()
	}
	return got
}

// TestValueVectors compares the values of expressions with those of the service: as
// text, so that it shows how numbers are written, too.
func TestValueVectors(t *testing.T) {
	t.Parallel()
	exceptions := valueExceptions(t)
	if len(exceptions) > exceptionsMax {
		t.Errorf("%d exceptions, at most %d", len(exceptions), exceptionsMax)
	}
	same := 0
	for _, want := range valueVectors(t) {
		got, kind := evaluated(t, want.expr), exceptions[want.expr]
		delete(exceptions, want.expr)
		switch {
		case got == want && kind == "":
			same++
		case got == want:
			t.Errorf("%s is the same: remove it from the exceptions", want.expr)
		case kind == "":
			t.Errorf("%s is %s%s, want %s%s", want.expr, got.text, got.code, want.text, want.code)
		case !near(t, got.text, want.text, exceptionKinds[kind]):
			t.Errorf("%s is %s, want %s within %g", want.expr, got.text, want.text, exceptionKinds[kind])
		}
	}
	for expr := range exceptions {
		t.Errorf("an exception is in no vector: %s", expr)
	}
	t.Logf("%d values the same, %d exceptions", same, len(valueExceptions(t)))
}

// near reports whether two texts are arrays of one number each that differ by no more
// than a part of the second one.
func near(t *testing.T, got, want string, part float64) bool {
	t.Helper()
	var numbers [2]float64
	for i, text := range []string{got, want} {
		var err error
		if numbers[i], err = strconv.ParseFloat(strings.Trim(text, "[]"), 64); err != nil {
			return false
		}
	}
	return math.Abs(numbers[0]-numbers[1]) <= part*math.Abs(numbers[1])
}
