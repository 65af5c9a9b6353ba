package azcosmos_test

import (
	"encoding/json"
	"fmt"
	"testing"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// TestTransactions sends batches and patches for keys of all containers to a
// real server: each is applied completely in the container of its key, or not at
// all.
func TestTransactions(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	client := static(t, ringState("/userId", targetsOn(t, server, 3, "/userId", 2)), map[string]*sdk.Client{"": connect(t, server)})
	content := &sdk.TransactionalBatchOptions{EnableContentResponseOnWrite: true}
	seen := map[string]bool{}
	for i := range 20 {
		user := fmt.Sprint("J", i)
		ref := azcosmos.Ref{Key: resolver.TextKey(user), ID: "balance"}
		owner, err := client.View().Routing().ForWrite(ref.Key)
		if err != nil {
			t.Fatal(err)
		}
		seen[owner.Name] = true

		var patch sdk.PatchOperations
		patch.AppendIncrement("/n", int64(i))
		patch.SetCondition("from c where c.n = 1")
		batch := client.NewBatch()
		batch.Create([]byte(fmt.Sprintf(`{"id":"balance","userId":%q,"n":1}`, user)), nil)
		batch.Upsert([]byte(fmt.Sprintf(`{"id":"log","userId":%q}`, user)), nil)
		batch.Patch(ref, patch, nil)
		batch.Read(ref, nil)
		result, err := batch.Execute(t.Context(), content)
		if err != nil || !result.Response.Success || result.Target != owner.Name || result.Charge <= 0 {
			t.Fatalf("%s: %+v, %v", user, result, err)
		}
		var document struct{ N int }
		if err := json.Unmarshal(result.Response.OperationResults[3].ResourceBody, &document); err != nil || document.N != 1+i {
			t.Errorf("%s: the last operation read %+v (%v), want %d", user, document, err, 1+i)
		}

		// The second operation is refused, so the first is not applied.
		batch = client.NewBatch()
		batch.Delete(ref, nil)
		batch.Create([]byte(fmt.Sprintf(`{"id":"log","userId":%q}`, user)), nil)
		result, err = batch.Execute(t.Context(), nil)
		if err != nil || result.Response.Success {
			t.Fatalf("%s: %+v, %v", user, result, err)
		}
		if got := result.Response.OperationResults; got[0].StatusCode != 424 || got[1].StatusCode != 409 {
			t.Errorf("%s: %+v, want 424 and 409", user, got)
		}

		// A patch alone, and a patch whose condition is false.
		patch = sdk.PatchOperations{}
		patch.AppendSet("/note", "x")
		patch.AppendReplace("/n", 0)
		item, err := client.Patch(t.Context(), ref, patch, nil)
		if err != nil || item.Ref.Target != owner.Name || item.ETag == "" {
			t.Fatalf("%s: %+v, %v", user, item, err)
		}
		patch.SetCondition("from c where c.n > 0")
		if _, err := client.Patch(t.Context(), ref, patch, nil); !isStatus(err, 412) {
			t.Errorf("%s: %v, want 412", user, err)
		}
		item, err = client.Read(t.Context(), ref, nil)
		if err != nil {
			t.Fatal(err)
		}
		var after struct {
			N    int
			Note string
		}
		if err := json.Unmarshal(item.Value, &after); err != nil || after.N != 0 || after.Note != "x" {
			t.Errorf("%s: %s (%v)", user, item.Value, err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("20 keys are in %v, want all three containers", seen)
	}
}
