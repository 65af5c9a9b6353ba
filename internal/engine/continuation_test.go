package engine

import (
	"strings"
	"testing"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
	"github.com/google/go-cmp/cmp"
)

func tokens() []continuation {
	long := partitionkey.EPK(strings.Repeat("\x3f", 48))
	return []continuation{
		{Range: partitionkey.Full()},
		{Query: 1, Range: partitionkey.Full(), Started: true, Position: query.Position{Number: 7}},
		{Query: 1 << 63, Range: partitionkey.Range{Min: "\x10", Max: long}, Started: true, Position: query.Position{Number: 1<<60 - 1, Key: []byte{}}, Skipped: 12, Taken: 1 << 40},
		{Query: 5, Range: partitionkey.Full(), Started: true, Position: query.Position{Number: 9, Key: []byte("k"), Row: 300}},
		{Query: 42, Range: partitionkey.Range{Min: long[:47], Max: long}, Started: true, Position: query.Position{Number: 3, Key: []byte(strings.Repeat("k", 150))}},
		{Query: 42, Range: partitionkey.Range{Min: partitionkey.EPK(strings.Repeat("\x05", 250)), Max: partitionkey.MaxEPK}, Started: true, Position: query.Position{Number: 3, Key: []byte(strings.Repeat("k", 150))}},
	}
}

// A continuation survives encoding as printable ASCII of less than 1 KB.
func TestContinuationRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range tokens() {
		token := want.String()
		got, err := parseContinuation(token, want.Query)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("token changed (-want +got):\n%s", diff)
		}
		if len(token) >= 1024 {
			t.Errorf("token of %d bytes", len(token))
		}
		for _, c := range []byte(token) {
			if c <= ' ' || c > '~' || c == ',' || c == '"' {
				t.Errorf("byte %q in token %s", c, token)
			}
		}
	}
}

// A changed token, and the token of another query, is 400.
func TestContinuationRefuses(t *testing.T) {
	t.Parallel()
	c := tokens()[2]
	token := c.String()
	refuse := func(name, token string, fingerprint uint64) {
		t.Helper()
		_, err := parseContinuation(token, fingerprint)
		if status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "Invalid Continuation Token") {
			t.Errorf("%s: got %v, want 400 Invalid Continuation Token", name, err)
		}
	}
	refuse("another query", token, c.Query+1)
	refuse("empty", "", c.Query)
	refuse("one too long", token+"A", c.Query)
	refuse("too long by far", strings.Repeat(token, 100), c.Query)
	refuse("JSON", `{"token":"x"}`, c.Query)
	for i := range token {
		refuse("cut", token[:i], c.Query)
		for _, with := range "A-z\n\x00" {
			if changed := token[:i] + string(with) + token[i+1:]; changed != token {
				refuse("changed", changed, c.Query)
			}
		}
	}
}

// A fingerprint depends on the container, the text, the parameters and their
// values.
func TestHashQuery(t *testing.T) {
	t.Parallel()
	param := func(name string, v value.Value) []query.Param { return []query.Param{{Name: name, Value: v}} }
	seen := map[uint64]string{}
	for name, f := range map[string]uint64{
		"base":       hashQuery("c", "text", nil),
		"container":  hashQuery("d", "text", nil),
		"text":       hashQuery("c", "texT", nil),
		"parameter":  hashQuery("c", "text", param("@a", value.Int(1))),
		"its name":   hashQuery("c", "text", param("@b", value.Int(1))),
		"its value":  hashQuery("c", "text", param("@a", value.String("1"))),
		"two values": hashQuery("c", "text", append(param("@a", value.Int(1)), param("@b", value.Int(1))...)),
	} {
		if other, taken := seen[f]; taken {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[f] = name
	}
}

// FuzzContinuation decodes arbitrary tokens: decoding never panics, and an
// accepted token equals the one that String returns.
func FuzzContinuation(f *testing.F) {
	for _, c := range tokens() {
		f.Add(c.String())
	}
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, token string) {
		c, ok := decodeContinuation(token)
		if ok && c.String() != token {
			t.Errorf("%q is accepted as %+v, which is %q", token, c, c.String())
		}
	})
}
