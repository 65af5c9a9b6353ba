package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// changeFunc is a change of a test.
type changeFunc func(partition.Items) error

func (f changeFunc) Evaluate(i partition.Items) error { return f(i) }

// putting returns a change that replaces one item.
func putting(item, body string) changeFunc {
	return func(i partition.Items) error { return i.Put(item, []byte(body), 0) }
}

// newTable makes a table with a number of partitions, and returns its RID.
func newTable(t testing.TB, w *world, partitions int) resource.RID {
	t.Helper()
	ctx := context.Background()
	if _, err := w.CreateKeyspace(ctx, caller, engine.KeyspaceRequest{Name: "ks", Definition: []byte(`{"k":1}`)}); err != nil {
		t.Fatal(err)
	}
	throughput := 6000 * partitions // RU/s of one physical partition
	res, err := w.CreateTable(ctx, caller, engine.TableRequest{
		Keyspace: "ks", Name: "user", Columns: []string{"user"}, Definition: []byte(`{"t":1}`),
		Throughput: engine.ThroughputRequest{Manual: &throughput},
	})
	if err != nil {
		t.Fatal(err)
	}
	return res.RID
}

func visitAll(t testing.TB, w *world, table resource.RID, page int) (items []string, visited []resource.PartitionID) {
	t.Helper()
	var after []byte
	for {
		n := 0
		res, err := w.ReadItems(context.Background(), caller, engine.ReadItemsRequest{
			Table: table, Range: partitionkey.Full(), After: after,
			Visit: func(i *partition.Item) (bool, error) {
				items = append(items, fmt.Sprintf("%s/%s=%s", i.Key, i.Item, i.Body))
				after = slices.Clone(i.Position)
				n++
				return n < page, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range res.Partitions {
			if !slices.Contains(visited, id) {
				visited = append(visited, id)
			}
		}
		if n < page {
			return items, visited
		}
	}
}

// TestTables writes rows to a table of several partitions, and checks where they are
// visited: in the order of tokens, each key in one partition (S114, S142), and that
// definitions, truncation and removal do what they say.
func TestTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	table := newTable(t, w, 3)
	model := map[int64][]string{}
	for n := range 100 {
		key := "user" + strconv.Itoa(n)
		for id := range 3 {
			res, err := w.WriteItems(t.Context(), caller, engine.WriteItemsRequest{Table: table, Key: key, Change: putting(strconv.Itoa(id), "\x01"+key)})
			if err != nil || len(res.Partitions) != 1 || res.Charge <= 0 {
				t.Fatalf("write: %+v, %v", res, err)
			}
			token := partitionkey.Token([]byte(key))
			model[token] = append(model[token], fmt.Sprintf("%s/%d=\x01%s", key, id, key))
		}
	}
	var want []string
	for _, token := range slices.Sorted(maps.Keys(model)) {
		want = append(want, model[token]...)
	}
	for _, page := range []int{1000, 7} {
		got, visited := visitAll(t, w, table, page)
		if !slices.Equal(got, want) || len(visited) != 3 {
			t.Errorf("pages of %d: %d items of %d, partitions %v", page, len(got), len(want), visited)
		}
	}
	var own []string
	res, err := w.ReadItems(t.Context(), caller, engine.ReadItemsRequest{
		Table: table, Key: "user7", Slices: []partition.Slice{{From: "1", Reverse: true}}, Restart: func() { own = nil },
		Visit: func(i *partition.Item) (bool, error) { own = append(own, string(i.Item)); return true, nil },
	})
	if err != nil || !slices.Equal(own, []string{"2", "1"}) || len(res.Partitions) != 1 {
		t.Errorf("one key: %q in %v, %v", own, res.Partitions, err)
	}

	var rest []string
	_, err = w.ReadItems(t.Context(), caller, engine.ReadItemsRequest{
		Table: table, Range: partitionkey.Full(), AfterKey: "user7",
		Visit: func(i *partition.Item) (bool, error) {
			rest = append(rest, fmt.Sprintf("%s/%s=%s", i.Key, i.Item, i.Body))
			return true, nil
		},
	})
	at := slices.Index(want, "user7/2=\x01user7")
	if err != nil || !slices.Equal(rest, want[at+1:]) {
		t.Errorf("after a key: %d items, want %d, %v", len(rest), len(want)-at-1, err)
	}

	version, all := w.Keyspaces()
	if len(all) != 1 || all[0].Name != "ks" || string(all[0].Definition) != `{"k":1}` || len(all[0].Tables) != 1 || string(all[0].Tables[0].Definition) != `{"t":1}` {
		t.Fatalf("definitions: %+v", all)
	}
	change := engine.TableRequest{Keyspace: "ks", Name: "user", Definition: []byte(`{"t":2}`), Version: all[0].Tables[0].Version}
	if _, err := w.ReplaceTable(t.Context(), caller, change); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ReplaceTable(t.Context(), caller, change); status.CodeOf(err) != status.CodePreconditionFailed {
		t.Errorf("a change of an old version: %v", err)
	}
	if _, err := w.ReplaceKeyspace(t.Context(), caller, engine.KeyspaceRequest{Name: "ks", Definition: []byte(`{"k":2}`), Version: all[0].Version}); err != nil {
		t.Fatal(err)
	}
	w.reopen(t)
	later, all := w.Keyspaces()
	if later <= version || string(all[0].Definition) != `{"k":2}` || string(all[0].Tables[0].Definition) != `{"t":2}` {
		t.Errorf("definitions after a restart: version %d after %d, %s, %s", later, version, all[0].Definition, all[0].Tables[0].Definition)
	}
	if got, _ := visitAll(t, w, table, 1000); !slices.Equal(got, want) {
		t.Errorf("%d items after a restart, want %d", len(got), len(want))
	}

	truncated, err := w.TruncateTable(t.Context(), caller, engine.TableRequest{Keyspace: "ks", Name: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if got, visited := visitAll(t, w, truncated.RID, 10); len(got) > 0 || len(visited) != 3 {
		t.Errorf("after the truncation: %q, %v", got, visited)
	}
	if _, err := w.WriteItems(t.Context(), caller, engine.WriteItemsRequest{Table: table, Key: "k", Change: putting("a", "\x01")}); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("the table before the truncation: %v", err)
	}
	for _, drop := range []func() error{
		func() error { _, err := w.DropTable(t.Context(), caller, change); return err },
		func() error {
			_, err := w.DropKeyspace(t.Context(), caller, engine.KeyspaceRequest{Name: "ks"})
			return err
		},
	} {
		if err := drop(); err != nil {
			t.Error(err)
		}
		if err := drop(); status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("a second time: %v", err)
		}
	}
}

// TestTablesWhileTheySplit counts and scans while partitions split: no change is lost,
// none is carried out twice, and no scan loses or repeats an item (S115).
func TestTablesWhileTheySplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	table := newTable(t, w, 1)
	var group sync.WaitGroup
	var stop atomic.Bool
	var written [4]int
	for n := range written {
		group.Go(func() {
			for ; !stop.Load(); written[n]++ {
				key := fmt.Sprint(n, "-", written[n]%50)
				_, err := w.WriteItems(t.Context(), caller, engine.WriteItemsRequest{Table: table, Key: key, Change: changeFunc(func(i partition.Items) error {
					body, err := i.Get("n")
					if err != nil {
						return err
					}
					count, _ := strconv.Atoi(string(body[min(len(body), 1):]))
					return i.Put("n", []byte("\x01"+strconv.Itoa(count+1)), 0)
				})})
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	group.Go(func() {
		for !stop.Load() {
			items, _ := visitAll(t, w, table, 13)
			keys := map[string]bool{}
			for _, item := range items {
				key, _, _ := cutItem(item)
				if keys[key] {
					t.Errorf("%s twice", key)
				}
				keys[key] = true
			}
		}
	})
	for range 5 {
		c, _ := w.catalog.View().ContainerByRID(table)
		for _, p := range c.Partitions() {
			if _, err := w.node.Split(context.Background(), table, p.ID, ""); err != nil {
				t.Logf("split: %v", err)
			}
		}
		if c, _ := w.catalog.View().ContainerByRID(table); c.Ranges.Len() >= 8 {
			break
		}
	}
	stop.Store(true)
	group.Wait()
	items, visited := visitAll(t, w, table, 1000)
	sum, want := 0, written[0]+written[1]+written[2]+written[3]
	for _, item := range items {
		_, _, count := cutItem(item)
		sum += count
	}
	if sum != want || len(visited) < 4 {
		t.Errorf("counted %d, want %d, in the partitions %v", sum, want, visited)
	}
}

// cutItem parses an item of visitAll whose body is a number.
func cutItem(text string) (key, item string, count int) {
	key, rest, _ := strings.Cut(text, "/")
	item, rest, _ = strings.Cut(rest, "=\x01")
	count, _ = strconv.Atoi(rest)
	return key, item, count
}

// TestTablesAreNoContainers checks that requests for documents do not reach tables, nor
// requests for tables containers.
func TestTablesAreNoContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	table := newTable(t, w, 1)
	link := engine.Link{Database: "ks", Container: "user"}
	for name, do := range map[string]func() error{
		"create": func() error {
			_, err := w.Create(t.Context(), caller, engine.DocumentRequest{Link: link, Document: parse(t, `{"id":"1","user":"a"}`)})
			return err
		},
		"read": func() error {
			_, err := w.Read(t.Context(), caller, engine.DocumentRequest{Link: engine.Link{Database: "ks", Container: "user", Document: "1"}, Key: key(t, `["a"]`)})
			return err
		},
		"query": func() error {
			_, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Text: "SELECT * FROM c", Cross: true})
			return err
		},
		"replace the container": func() error {
			_, err := w.ReplaceContainer(t.Context(), caller, engine.ContainerRequest{Link: link, Body: parse(t, `{"id":"user"}`)})
			return err
		},
		"delete the container": func() error {
			_, err := w.DeleteContainer(t.Context(), caller, engine.ContainerRequest{Link: link})
			return err
		},
		"delete the database": func() error {
			_, err := w.DeleteDatabase(t.Context(), caller, engine.DatabaseRequest{Link: engine.Link{Database: "ks"}})
			return err
		},
		"create a container in the keyspace": func() error {
			_, err := w.CreateContainer(t.Context(), caller, engine.ContainerRequest{Link: engine.Link{Database: "ks"}, Body: parse(t, `{"id":"c","partitionKey":{"paths":["/k"]}}`)})
			return err
		},
	} {
		if err := do(); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if res, err := w.ReadContainer(t.Context(), caller, engine.ContainerRequest{Link: link}); err != nil || res.RID != table {
		t.Errorf("the definition of the container: %v", err)
	}
	documents := w.container(t, 1, "/k")
	c, _ := w.catalog.View().Container(documents.Database, documents.Container)
	if _, err := w.WriteItems(t.Context(), caller, engine.WriteItemsRequest{Table: c.RID, Key: "k", Change: putting("a", "\x01")}); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("items of a container: %v", err)
	}
	if _, err := w.DropTable(t.Context(), caller, engine.TableRequest{Keyspace: "d", Name: "c"}); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("drop of a container: %v", err)
	}
	if _, all := w.Keyspaces(); len(all) != 1 {
		t.Errorf("keyspaces: %+v", all)
	}
	for _, wrong := range []string{"", string(make([]byte, partitionkey.RoutingKeyBytesMax+1))} {
		if _, err := w.WriteItems(t.Context(), caller, engine.WriteItemsRequest{Table: table, Key: wrong, Change: putting("a", "\x01")}); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("a key of %d bytes: %v", len(wrong), err)
		}
	}
}
