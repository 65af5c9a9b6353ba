package auth

import (
	"testing"

	"github.com/decandb/decan/internal/status"
)

// TestVerifyKey: each key of the account makes the caller of its kind; everything else
// is refused.
func TestVerifyKey(t *testing.T) {
	keys := Keys{Primary: NewKey(), Secondary: NewKey(), PrimaryReadonly: NewKey(), SecondaryReadonly: NewKey()}
	all, err := NewVerifier(keys, 0)
	if err != nil {
		t.Fatal(err)
	}
	one, err := NewVerifier(Keys{Primary: keys.Primary}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		of   *Verifier
		key  string
		want Kind
		sub  status.Sub
	}{
		{"primary", all, keys.Primary, Master, 0},
		{"secondary", all, keys.Secondary, Master, 0},
		{"read-only", all, keys.PrimaryReadonly, Reader, 0},
		{"second read-only", all, keys.SecondaryReadonly, Reader, 0},
		{"another", all, NewKey(), Anonymous, 0},
		{"not configured", one, keys.Secondary, Anonymous, 0},
		{"empty", one, "", Anonymous, 0},
		{"not base64", all, "?", Anonymous, 0},
		{"a part", all, keys.Primary[:80], Anonymous, 0},
		{"no verifier", nil, keys.Primary, Anonymous, 0},
		{"zero verifier", &Verifier{}, "", Anonymous, 0},
		{"bearer only", all.WithBearer(BearerRules{Only: true}), keys.Primary, Anonymous, status.SubLocalAuthDisabled},
	} {
		t.Run(c.name, func(t *testing.T) {
			caller, err := c.of.VerifyKey(c.key)
			if caller.Kind() != c.want || (err == nil) != (c.want != Anonymous) {
				t.Errorf("%s, %v; want %s", caller.Kind(), err, c.want)
			}
			if err != nil && (status.CodeOf(err) != status.CodeUnauthorized || status.SubOf(err) != c.sub) {
				t.Error(err)
			}
		})
	}
}
