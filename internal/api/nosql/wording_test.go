package nosql

import (
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// TestReasonsAreWorded checks that each reason has a text for this protocol that
// differs from the neutral one.
func TestReasonsAreWorded(t *testing.T) {
	for _, reason := range status.Reasons() {
		e := status.Because(status.CodeBadRequest, 0, reason)
		if text := wording(e); text == "" || text == e.Message {
			t.Errorf("%T has no words of its own: %q", reason, text)
		}
	}
	if got := wording(status.BadRequest("As it is.")); got != "As it is." {
		t.Errorf("an error without a reason: %q", got)
	}
}

func TestLinks(t *testing.T) {
	for want, p := range map[string]status.Path{
		"":                            {},
		"dbs/d":                       {Database: "d"},
		"dbs/d/colls/c":               {Database: "d", Container: "c"},
		"dbs/d/colls/c/docs/x":        {Database: "d", Container: "c", Kind: "docs", ID: "x"},
		"dbs/d/colls/c/sprocs":        {Database: "d", Container: "c", Kind: "sprocs"},
		"dbs/d/users/u":               {Database: "d", User: "u"},
		"dbs/d/users/u/permissions/p": {Database: "d", User: "u", Kind: "permissions", ID: "p"},
	} {
		if got := linkOf(p); got != want {
			t.Errorf("linkOf(%+v) = %q, want %q", p, got, want)
		}
	}
	for want, o := range map[string]engine.Owner{
		"":              {},
		"dbs/d":         {Database: "d"},
		"dbs/d/colls/c": {Database: "d", Container: "c"},
		"dbs/d/users/u": {Database: "d", User: "u"},
	} {
		if got := string(appendOwnerLink(nil, o)); got != want {
			t.Errorf("appendOwnerLink(%+v) = %q, want %q", o, got, want)
		}
	}
}
