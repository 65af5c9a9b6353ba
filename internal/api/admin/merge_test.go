package admin_test

import (
	"net/http"
	"testing"

	"github.com/decandb/decan/internal/auth"
)

// TestMergePaths sends merge requests that are invalid or not permitted.
func TestMergePaths(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	with := func(method, target, body string) (*http.Response, string) {
		return call(t, door, method, target, body, "x-decan-key", auth.WellKnownKey)
	}
	if answer, content := with("POST", "/containers?database=d&partitions=3", `{"id":"c","partitionKey":{"paths":["/pk"]}}`); answer.StatusCode != 201 {
		t.Fatalf("create: %d %s", answer.StatusCode, content)
	}
	arm := "/subscriptions/s/resourceGroups/g/providers/Microsoft.DocumentDB/databaseAccounts/"
	for _, c := range []struct {
		target, body string
		want         int
	}{
		{"/partitions/merge?database=d&container=c&partition=0&with=2", "", 400},
		{"/partitions/merge?database=d&container=c&partition=0", "", 400},
		{"/partitions/merge?database=d&container=nowhere&partition=0&with=1", "", 404},
		{"/partitions/merge?database=d&container=c&partition=0&with=9", "", 404},
		{"/partitions/merge?database=d&container=c&partition=1&with=0", "", 200},
		{"/sqlDatabases/nowhere/partitionMerge", "{}", 404},
		{"/sqlDatabases/d/containers/nowhere/partitionMerge", "{}", 404},
		{"/sqlDatabases/d/partitionMerge", "{}", 400},              // it shares no throughput
		{"/sqlDatabases/d/containers/c/partitionMerge", "{}", 400}, // this door does not merge whole containers
		{"/sqlDatabases/d/containers/c/partitionMerge", `{"isDryRun":1}`, 400},
		{"/sqlDatabases/d/containers/c/partitionMerge", `[]`, 400},
		{arm + "nobody/sqlDatabases/d/containers/c/partitionMerge", "{}", 404},
		{arm + e.Account().ID + "/sqlDatabases/d/containers/nowhere/partitionMerge", "{}", 404},
	} {
		if answer, content := with("POST", c.target, c.body); answer.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d: %s", c.target, c.body, answer.StatusCode, c.want, content)
		}
		if answer, _ := call(t, door, "POST", c.target, c.body); answer.StatusCode != 401 {
			t.Errorf("%s without the key: %d", c.target, answer.StatusCode)
		}
	}
}
