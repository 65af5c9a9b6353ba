package admin_test

import (
	"testing"

	"github.com/decandb/decan/internal/auth"
)

// TestQueries lists no running query, refuses to cancel one that does not exist, and
// requires a key that may change the account: a read-only key may not see running
// queries.
func TestQueries(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	walk(t, door, []step{
		{"GET", "/", "", 200, []string{`"path":"GET /queries"`}},
		{"GET", "/queries", "", 200, []string{`{"queries":[]}`}},
		{"DELETE", "/queries/1", "", 404, []string{`No query \"1\" is running`}},
		{"DELETE", "/queries/x", "", 404, nil},
		{"DELETE", "/queries", "", 405, nil},
		{"POST", "/queries/1", "", 405, nil},
	})
	keys, err := e.AccountKeys(t.Context(), auth.Owner())
	if err != nil {
		t.Fatal(err)
	}
	for method, target := range map[string]string{"GET": "/queries", "DELETE": "/queries/1"} {
		if answer, content := call(t, door, method, target, ""); answer.StatusCode != 401 {
			t.Errorf("%s without a key: %d %s", method, answer.StatusCode, content)
		}
		if answer, content := call(t, door, method, target, "", "x-decan-key", keys.PrimaryReadonly); answer.StatusCode != 403 {
			t.Errorf("%s with a read-only key: %d %s", method, answer.StatusCode, content)
		}
	}
}
