package layout

import (
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// TestTTLOf checks both sides of the limits of a time to live.
func TestTTLOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{
		`{}`: 0, `{"ttl":1}`: 1, `{"ttl":-1}`: -1, `{"ttl":2147483647}`: resource.TTLMax, `{"ttl":5.0}`: 5,
	} {
		doc, err := value.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := TTLOf(doc); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{`0`, `-2`, `2147483648`, `1.5`, `"1"`, `null`, `[1]`, `{}`, `true`, `1e300`} {
		doc, err := value.Parse([]byte(`{"ttl":` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := TTLOf(doc); ok || got != 0 {
			t.Errorf("%s is taken for %d", text, got)
		}
	}
}
