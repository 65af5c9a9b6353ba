package nosql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// kinds are the operations that SDKs send to a partition: by the key "a", or by the
// partition's number. Each call makes the request for the primary of a partition, which
// succeeds if the partition has the key; n makes names of items new.
func (d *direct) kinds(t *testing.T, a engine.Address) map[string]func(partition string, n int) *rntbdtest.Frame {
	t.Helper()
	base := func(resource rntbd.Resource, operation rntbd.Operation, partition, body string) *rntbdtest.Frame {
		f := rntbdtest.Request(resource, operation, rntbd.GUID{15: 1})
		f.Text(rntbd.RequestDatabaseName, "d").Text(rntbd.RequestCollectionName, "c")
		f.Text(rntbd.RequestCollectionRID, a.RID().String()).Text(rntbd.RequestReplicaPath, where(a, partition, 1))
		f.Payload = []byte(body)
		return f
	}
	byKey := func(operation rntbd.Operation, id, body string) func(string, int) *rntbdtest.Frame {
		return func(partition string, n int) *rntbdtest.Frame {
			text := body
			if body != "" && operation == rntbd.Create {
				text = fmt.Sprintf(body, n)
			}
			f := base(rntbd.Document, operation, partition, text).Text(rntbd.RequestPartitionKey, `["a"]`)
			if id != "" {
				f.Text(rntbd.RequestDocumentName, id)
			}
			return d.signed(f)
		}
	}
	byRange := func(operation rntbd.Operation, body string, add func(f *rntbdtest.Frame)) func(string, int) *rntbdtest.Frame {
		return func(partition string, _ int) *rntbdtest.Frame {
			f := base(rntbd.Document, operation, partition, body).Text(rntbd.RequestPartitionKeyRangeID, partition)
			if add != nil {
				add(f)
			}
			return d.signed(f)
		}
	}
	feed := func(f *rntbdtest.Frame) { f.Text(rntbd.RequestAIM, "Incremental Feed") }
	atomic := func(f *rntbdtest.Frame) *rntbdtest.Frame { return f.Int(rntbd.RequestIsBatchAtomic, rntbd.TypeByte, 1) }
	bulk := func(f *rntbdtest.Frame) {
		f.Int(rntbd.RequestIsBatchAtomic, rntbd.TypeByte, 0).Int(rntbd.RequestShouldBatchContinueOnError, rntbd.TypeByte, 1)
	}
	return map[string]func(string, int) *rntbdtest.Frame{
		"create":             byKey(rntbd.Create, "", `{"id":"new %d","pk":"a"}`),
		"upsert":             byKey(rntbd.Upsert, "", `{"id":"1","pk":"a"}`),
		"read":               byKey(rntbd.Read, "1", ""),
		"replace":            byKey(rntbd.Replace, "1", `{"id":"1","pk":"a"}`),
		"patch":              byKey(rntbd.Patch, "1", `{"operations":[{"op":"set","path":"/n","value":1}]}`),
		"query of one key":   byKey(rntbd.Query, "", `{"query":"SELECT * FROM c"}`),
		"read feed of a key": byKey(rntbd.ReadFeed, "", ""),
		"query":              byRange(rntbd.Query, `{"query":"SELECT * FROM c"}`, nil),
		"query with order":   byRange(rntbd.Query, `{"query":"SELECT c._rid, [{\"item\": c.n}] AS orderByItems, c AS payload FROM c ORDER BY c.n"}`, nil),
		"read many":          byRange(rntbd.Query, `{"query":"SELECT * FROM c WHERE (c.id = \"1\" AND c.pk = \"a\") OR (c.id = \"1\" AND c.pk = \"b\")"}`, nil),
		"read feed":          byRange(rntbd.ReadFeed, "", nil),
		"change feed":        byRange(rntbd.ReadFeed, "", feed),
		"bulk":               byRange(rntbd.Batch, `[{"operationType":"Upsert","partitionKey":"[\"a\"]","resourceBody":{"id":"1","pk":"a"}}]`, bulk),
		"batch": func(partition string, n int) *rntbdtest.Frame {
			return atomic(byKey(rntbd.Batch, "", `[{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"}}]`)(partition, n))
		},
		"procedure": func(partition string, _ int) *rntbdtest.Frame {
			f := base(rntbd.StoredProcedure, rntbd.ExecuteJavaScript, partition, `[]`)
			return d.signed(f.Text(rntbd.RequestStoredProcedureName, "p").Text(rntbd.RequestPartitionKey, `["a"]`))
		},
	}
}

// TestDirectReshaped: every kind of operation that reaches a partition which a split or
// a merge has replaced gets 410/1007, and succeeds at the partition that has its key now
// (S8, S111). A delete comes last.
func TestDirectReshaped(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	d := openDirect(t, w)
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		w.must(t, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"`+key+`"}`)
	}
	w.must(t, "POST", "/dbs/d/colls/c/sprocs", `{"id":"p","body":"function () { getContext().getResponse().setBody('done') }"}`)
	link := engine.Link{Database: "d", Container: "c"}
	n := 0
	check := func(what string, stale []string, a engine.Address) {
		t.Helper()
		kinds := d.kinds(t, a)
		key, err := partitionkey.Parse(`["a"]`)
		if err != nil {
			t.Fatal(err)
		}
		now, one := partitionOf(a, key)
		if !one {
			t.Fatalf("%s: not one partition has the key", what)
		}
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			for _, partition := range stale {
				n++
				answer := d.do(t, kinds[name](partition, n))
				if answer.Status() != 410 || answer.Answered(rntbd.ResponseSubStatus) != 1007 {
					t.Errorf("%s %s, to the old partition %s: %d/%d %s", name, what, partition, answer.Status(), answer.Answered(rntbd.ResponseSubStatus), answer.Payload)
				}
			}
			n++
			if answer := d.do(t, kinds[name](now, n)); answer.Status() >= 300 || answer.Answered(rntbd.ResponseSubStatus) > 0 {
				t.Errorf("%s %s, to partition %s: %d %s", name, what, now, answer.Status(), answer.Payload)
			}
		}
	}
	address := func() engine.Address {
		a, ok := w.engine.Address(link)
		if !ok {
			t.Fatal("there is no container")
		}
		return a
	}
	check("at first", nil, address())
	if _, err := w.engine.SplitPartition(context.Background(), auth.Owner(), engine.SplitRequest{Link: link}); err != nil {
		t.Fatal(err)
	}
	check("after a split", []string{"0"}, address())
	if _, err := w.engine.MergePartitions(context.Background(), auth.Owner(), engine.MergeRequest{Link: link, Partitions: [2]resource.PartitionID{1, 2}}); err != nil {
		t.Fatal(err)
	}
	check("after a merge", []string{"0", "1", "2"}, address())

	remove := func(partition string) *rntbdtest.Frame {
		f := d.item(t, address(), rntbd.Delete, "1", `["a"]`)
		return f.Text(rntbd.RequestReplicaPath, where(address(), partition, 1))
	}
	for _, partition := range []string{"0", "1", "2"} {
		if answer := d.do(t, remove(partition)); answer.Status() != 410 || answer.Answered(rntbd.ResponseSubStatus) != 1007 {
			t.Errorf("delete from %s: %d", partition, answer.Status())
		}
	}
	if answer := d.do(t, remove("3")); answer.Status() != 204 {
		t.Errorf("delete: %d %s", answer.Status(), answer.Payload)
	}
}

// TestDirectBarriers: a client with a resource token may ask whether a replica of its
// container has reached an LSN, as it does between Strong reads. The answer has the LSN
// and no content. A token that is not valid is refused.
func TestDirectBarriers(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	d := openDirect(t, w)
	w.must(t, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`)
	var permission struct {
		Token string `json:"_token"`
	}
	for _, mode := range []string{"Read", "All"} {
		w.must(t, "POST", "/dbs/d/users", fmt.Sprintf(`{"id":%q}`, mode))
		made := w.must(t, "POST", "/dbs/d/users/"+mode+"/permissions", fmt.Sprintf(`{"id":"p","permissionMode":%q,"resource":"dbs/d/colls/c"}`, mode))
		if err := json.Unmarshal([]byte(made), &permission); err != nil {
			t.Fatal(err)
		}
		a, _ := w.engine.Address(engine.Link{Database: "d", Container: "c"})
		barrier := func(token string, replica int) *rntbdtest.Frame {
			f := rntbdtest.Request(rntbd.Collection, rntbd.Head, rntbd.GUID{15: 1})
			f.Text(rntbd.RequestDatabaseName, "d").Text(rntbd.RequestCollectionName, "c").Text(rntbd.RequestPartitionKey, `["a"]`)
			f.Text(rntbd.RequestCollectionRID, a.RID().String()).Text(rntbd.RequestReplicaPath, where(a, "0", replica))
			return f.Text(rntbd.RequestAuthorizationToken, token).Add(rntbd.RequestTargetLSN, rntbd.TypeLongLong, "\x09\x00\x00\x00\x00\x00\x00\x00")
		}
		read := d.item(t, a, rntbd.Read, "1", `["a"]`).Text(rntbd.RequestAuthorizationToken, permission.Token)
		before := d.do(t, read)
		if before.Status() != 200 {
			t.Fatalf("%s: read: %d %s", mode, before.Status(), before.Payload)
		}
		for replica := 1; replica <= 4; replica++ {
			answer := d.do(t, barrier(permission.Token, replica))
			if answer.Status() != 200 || len(answer.Payload) > 0 || answer.Answered(rntbd.ResponseLSN) != before.Answered(rntbd.ResponseLSN) {
				t.Errorf("%s: barrier at replica %d: %d %q, LSN %d", mode, replica, answer.Status(), answer.Payload, answer.Answered(rntbd.ResponseLSN))
			}
		}
		if answer := d.do(t, barrier(permission.Token[:len(permission.Token)-4]+"AAAA", 2)); answer.Status() != 401 {
			t.Errorf("%s: a barrier with a token that is not valid: %d", mode, answer.Status())
		}
	}
}
