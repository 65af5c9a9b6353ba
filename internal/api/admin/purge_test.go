package admin_test

import (
	"encoding/json"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/partitionkey"
)

// TestPurgeProgress shows the pending documents of a deletion by key, or those already
// deleted: the node deletes them in the background.
func TestPurgeProgress(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	container := engine.ContainerRequest{
		Link: engine.Link{Database: "d"}, Partitions: 1,
		Body: parse(t, `{"id":"c","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}`),
	}
	if _, err := e.CreateContainer(t.Context(), auth.Owner(), container); err != nil {
		t.Fatal(err)
	}
	link := engine.Link{Database: "d", Container: "c"}
	for _, doc := range []string{`{"id":"1","t":"a","u":1}`, `{"id":"2","t":"a","u":2}`, `{"id":"3","t":"b","u":1}`} {
		if _, err := e.Create(t.Context(), auth.Owner(), engine.DocumentRequest{Link: link, Document: parse(t, doc)}); err != nil {
			t.Fatal(err)
		}
	}
	tenant := partitionkey.NewKey(partitionkey.String("a"))
	if _, err := e.DeleteByKey(t.Context(), auth.Owner(), engine.KeyRequest{Link: link, Key: &tenant}); err != nil {
		t.Fatal(err)
	}
	answer, content := call(t, door, "GET", "/partitions?database=d&container=c", "", "x-decan-key", auth.WellKnownKey)
	var list struct {
		Partitions []struct {
			Documents, ClearedDocuments int64
			PurgingKeys                 int
		}
	}
	if err := json.Unmarshal([]byte(content), &list); answer.StatusCode != 200 || err != nil || len(list.Partitions) != 1 {
		t.Fatalf("%d %s (%v)", answer.StatusCode, content, err)
	}
	p := list.Partitions[0]
	if p.PurgingKeys == 0 && (p.ClearedDocuments != 2 || p.Documents != 1) {
		t.Errorf("the partition says %+v", p)
	}
}
