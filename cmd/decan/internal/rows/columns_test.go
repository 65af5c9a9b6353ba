package rows

import (
	"slices"
	"strings"
	"testing"
)

// FuzzColumn escapes and reads names.
func FuzzColumn(f *testing.F) {
	f.Add("a", "b.c")
	f.Add(`\`, "")
	f.Add("\r\n", `\r`)
	f.Fuzz(func(t *testing.T, a, b string) {
		names, err := ParseColumn(EscapeColumn(a) + "." + EscapeColumn(b))
		if err != nil || !slices.Equal(names, []string{a, b}) {
			t.Fatalf("%q and %q come back as %q, %v", a, b, names, err)
		}
		if names, err := ParseColumn(a); err == nil {
			for i := range names {
				names[i] = EscapeColumn(names[i])
			}
			if again := strings.Join(names, "."); again != a && !strings.Contains(a, "\r") {
				t.Fatalf("%q is written again as %q", a, again)
			}
		}
	})
}
