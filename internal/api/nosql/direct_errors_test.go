package nosql_test

import (
	"context"
	"testing"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
)

// TestDirectMoved: requests to a partition that a split has replaced get 410/1007, of
// every kind; those that another container has the name of get 410/1000; and those to a
// replica that does not exist, or that may not answer, 410/0.
func TestDirectMoved(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	d := openDirect(t, w)
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		w.must(t, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"`+key+`"}`)
	}
	link := engine.Link{Database: "d", Container: "c"}
	before, _ := w.engine.Address(link)
	request := func(operation rntbd.Operation, body string) *rntbdtest.Frame {
		id := ""
		switch operation {
		case rntbd.Read, rntbd.Replace, rntbd.Patch, rntbd.Delete:
			id = "1"
		}
		f := d.item(t, before, operation, id, `["a"]`)
		f.Payload = []byte(body)
		return f
	}
	operations := map[rntbd.Operation]string{
		rntbd.Create: `{"id":"2","pk":"a"}`, rntbd.Upsert: `{"id":"1","pk":"a"}`, rntbd.Read: "", rntbd.ReadFeed: "",
		rntbd.Replace: `{"id":"1","pk":"a"}`, rntbd.Patch: `{"operations":[]}`, rntbd.Delete: "",
		rntbd.Query: `{"query":"SELECT * FROM c"}`, rntbd.Batch: `[]`,
	}
	expect := func(what string, f *rntbdtest.Frame, status int, sub int64) {
		t.Helper()
		answer := d.do(t, f)
		if got := max(answer.Answered(rntbd.ResponseSubStatus), 0); answer.Status() != status || got != sub {
			t.Errorf("%s: %d/%d, want %d/%d: %s", what, answer.Status(), got, status, sub, answer.Payload)
		}
	}
	expect("read", request(rntbd.Read, ""), 200, 0)
	secondary := request(rntbd.Upsert, operations[rntbd.Upsert]).Text(rntbd.RequestReplicaPath, where(before, "0", 3))
	expect("write to a secondary", secondary, 410, 0)
	expect("read from a secondary", request(rntbd.Read, "").Text(rntbd.RequestReplicaPath, where(before, "0", 4)), 200, 0)
	for _, path := range []string{"", "/", "/apps/other/1p", where(before, "0", 1) + "x", nosql.Place("", "M", 1)} {
		expect("path "+path, request(rntbd.Read, "").Text(rntbd.RequestReplicaPath, path), 410, 0)
	}
	expect("no such partition", request(rntbd.Read, "").Text(rntbd.RequestReplicaPath, where(before, "77", 1)), 410, 1007)
	wrong := request(rntbd.Read, "").Text(rntbd.RequestAuthorizationToken, "type%3dmaster%26ver%3d1.0%26sig%3dAAAA")
	expect("wrong signature", wrong, 401, 0)
	expect("an operation of nobody", d.signed(rntbdtest.Request(rntbd.Document, 0x77, rntbd.GUID{})), 400, 0)

	if _, err := w.engine.SplitPartition(context.Background(), auth.Owner(), engine.SplitRequest{Link: link}); err != nil {
		t.Fatal(err)
	}
	for operation, body := range operations {
		expect(operation.String()+" after a split", request(operation, body).Text(rntbd.RequestReplicaPath, where(before, "0", 1)), 410, 1007)
	}
	head := func() *rntbdtest.Frame {
		f := rntbdtest.Request(rntbd.Collection, rntbd.Head, rntbd.GUID{15: 1})
		f.Text(rntbd.RequestDatabaseName, "d").Text(rntbd.RequestCollectionName, "c").Text(rntbd.RequestPartitionKey, `["a"]`)
		return d.signed(f)
	}
	expect("barrier after a split", head().Text(rntbd.RequestReplicaPath, where(before, "0", 2)), 410, 1007)
	after, _ := w.engine.Address(link)
	found := ""
	for _, id := range []string{"1", "2"} {
		answer := d.do(t, head().Text(rntbd.RequestReplicaPath, where(after, id, 2)))
		if answer.Status() == 200 {
			found = id
		} else if answer.Status() != 410 || answer.Answered(rntbd.ResponseSubStatus) != 1007 {
			t.Errorf("barrier: %d", answer.Status())
		}
	}
	if found == "" {
		t.Error("no child answers a barrier for the key")
	}

	w.must(t, "DELETE", "/dbs/d/colls/c", "")
	if got := d.do(t, request(rntbd.Read, "").Text(rntbd.RequestReplicaPath, where(after, found, 1))); got.Status() != 404 || got.Answered(rntbd.ResponseSubStatus) != 1003 {
		t.Errorf("a container that was deleted: %d/%d", got.Status(), got.Answered(rntbd.ResponseSubStatus))
	}
	w.must(t, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	expect("read by an old name", request(rntbd.Read, "").Text(rntbd.RequestReplicaPath, where(after, found, 1)), 410, 1000)
}
