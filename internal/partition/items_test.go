package partition

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// changeFunc is a Change of a test.
type changeFunc func(Items) error

func (f changeFunc) Evaluate(i Items) error { return f(i) }

// newTable returns the container of a table with one column in its partition key.
func newTable(tb testing.TB) *resource.Container {
	tb.Helper()
	c, err := resource.NewTable("t", []string{"k"}, []byte(`{}`))
	if err != nil {
		tb.Fatal(err)
	}
	c.RID = resource.ContainerRID(resource.DatabaseRID(1), 1)
	return &c
}

func routing(key string) partitionkey.Key { return partitionkey.NewKey(partitionkey.Bytes(key)) }

// change evaluates a change of a routing key.
func (w *world) change(key string, meter *throughput.Meter, f changeFunc) (resource.LSN, error) {
	k := routing(key)
	return w.partition.Load().WriteItems(context.Background(), WriteItems{
		Generation: w.own.Generation, Key: k, EPK: w.container.Load().PartitionKey.Hash(k), Change: f, Meter: meter,
	})
}

// rowName returns the name of a row, so that rows order as the texts do.
func rowName(text string) string { return "\x02" + text }

// rowBody returns the body of a row with a text.
func rowBody(text string) []byte {
	r := row.Row{Cells: []row.Cell{{Timestamp: 1, Value: []byte(text)}}}
	return r.Append(nil)
}

// rowText is the inverse of rowBody; empty for no body.
func rowText(body []byte) string {
	if body == nil {
		return ""
	}
	r, err := row.DecodeRow(body)
	if err != nil || len(r.Cells) != 1 {
		panic(fmt.Sprintf("row %x: %v", body, err))
	}
	return string(r.Cells[0].Value)
}

// rowOverhead is the length of rowBody without the text, if that is longer than 16 KB.
var rowOverhead = len(rowBody(strings.Repeat("x", 1<<15))) - 1<<15

// putItem replaces one row.
func (w *world) putItem(key, item, text string, expires int64) error {
	_, err := w.change(key, nil, func(i Items) error { return i.Put(rowName(item), rowBody(text), expires) })
	return err
}

// visit returns the items of a visit as texts, at most most of them.
func (w *world) visit(ask ReadItems, most int) (list []string, last []byte, err error) {
	ask.Generation = w.own.Generation
	if ask.Key.Len() > 0 {
		ask.EPK = w.container.Load().PartitionKey.Hash(ask.Key)
	}
	ask.Visit = func(i *Item) (bool, error) {
		list = append(list, fmt.Sprintf("%s/%s=%s", i.Key, i.Item[1:], rowText(i.Body)))
		last = slices.Clone(i.Position)
		return len(list) < most, nil
	}
	_, err = w.partition.Load().ReadItems(context.Background(), &ask)
	return list, last, err
}

// whole is a slice of all items.
func whole() []Slice { return []Slice{{}} }

const allItems = 1 << 20

// itemModel is what a table must hold: items by routing key and name.
type itemModel map[string]map[string]string

// slice returns the items that a slice must visit.
func (m itemModel) slice(key string, s Slice) (list []string) {
	for _, item := range slices.Sorted(maps.Keys(m[key])) {
		if item >= s.From && (s.To == "" || item < s.To) {
			list = append(list, fmt.Sprintf("%s/%s=%s", key, item[1:], m[key][item]))
		}
	}
	if s.Reverse {
		slices.Reverse(list)
	}
	return list
}

// TestItemsModel draws changes of several items, refused ones among them, and crashes,
// and compares slices, points, reversed slices and ranges of tokens, in pages, with maps.
func TestItemsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newTable(t))
			random := rand.New(rand.NewPCG(seed, 7))
			model := itemModel{}
			keys := []string{"theo", "a", "\x00\x04theo\x00\x00\x00\x00", "\xFF\xFE", strings.Repeat("k", 300)}
			name := func() string { return "\x02" + string([]byte{byte(random.IntN(4)), byte(random.IntN(256))}) }
			for step := range 300 {
				key := keys[random.IntN(len(keys))]
				next := maps.Clone(model[key])
				if next == nil {
					next = map[string]string{}
				}
				refused := random.IntN(5) == 0
				_, err := w.change(key, nil, func(i Items) error {
					for range 1 + random.IntN(6) {
						item, text := name(), fmt.Sprint(random.IntN(1000))
						old, err := i.Get(item)
						if err != nil || rowText(old) != next[item] {
							return fmt.Errorf("get %q: %q, %w, want %q", item, old, err, next[item])
						}
						if random.IntN(3) == 0 {
							delete(next, item)
							err = i.Put(item, nil, 0)
						} else {
							next[item] = text
							err = i.Put(item, rowBody(text), 0)
						}
						if err != nil {
							return err
						}
					}
					if refused {
						return status.PreconditionFailed()
					}
					return nil
				})
				switch {
				case refused && status.CodeOf(err) == status.CodePreconditionFailed:
				case !refused && err == nil:
					model[key] = next
				default:
					t.Fatalf("step %d: %v", step, err)
				}
				if step%100 == 50 {
					if err := w.crash(0.5, seed); err != nil {
						t.Fatal(err)
					}
				}
				compareItems(t, w, model, keys[random.IntN(len(keys))], random)
			}
			var all, want []string
			position := []byte(nil)
			for {
				page, last, err := w.visit(ReadItems{Range: partitionkey.Full(), After: position}, 1+random.IntN(7))
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				all, position = append(all, page...), last
			}
			slices.SortFunc(keys, func(a, b string) int {
				d := w.container.Load().PartitionKey
				return d.Hash(routing(a)).Compare(d.Hash(routing(b)))
			})
			for _, key := range keys {
				want = append(want, model.slice(key, Slice{})...)
			}
			if !slices.Equal(all, want) {
				t.Errorf("pages of all items: %q, want %q", all, want)
			}
			w.partition.Load().waitIdle()
			w.verify(t)
		})
	}
}

// compareItems compares random slices of one key with the model.
func compareItems(t *testing.T, w *world, model itemModel, key string, random *rand.Rand) {
	t.Helper()
	bound := func() string {
		return "\x02" + string([]byte{byte(random.IntN(5)), byte(random.IntN(256))})[:random.IntN(3)]
	}
	ask := []Slice{{}, {From: bound(), To: bound(), Reverse: random.IntN(2) == 0}, Point("\x02\x01\x01"), {From: bound(), Reverse: true}}
	var want []string
	for _, s := range ask {
		want = append(want, model.slice(key, s)...)
	}
	got, _, err := w.visit(ReadItems{Key: routing(key), Slices: ask}, allItems)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("slices %+v of %q: %q, %v, want %q", ask, key, got, err, want)
	}
}

// TestItemsAreEvaluatedInOrder counts with many concurrent changes that read before they
// write: no count is lost, the times that they get rise, and each sees the item of the
// one before it although that is not durable yet.
func TestItemsAreEvaluatedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newTable(t))
	const clients, each = 8, 50
	var group sync.WaitGroup
	var late atomic.Int64
	for range clients {
		group.Go(func() {
			for range each {
				_, err := w.change("k", nil, func(i Items) error {
					body, err := i.Get(rowName("n"))
					if err != nil {
						return err
					}
					count, before := uint64(0), int64(0)
					if body != nil {
						old := []byte(rowText(body))
						count, before = binary.BigEndian.Uint64(old), int64(binary.BigEndian.Uint64(old[8:]))
					}
					now := i.Micros()
					if now <= before {
						late.Add(1)
					}
					next := binary.BigEndian.AppendUint64(nil, count+1)
					return i.Put(rowName("n"), rowBody(string(binary.BigEndian.AppendUint64(next, uint64(now)))), 0)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	var count uint64
	_, err := w.change("k", nil, func(i Items) error {
		body, err := i.Get(rowName("n"))
		count = binary.BigEndian.Uint64([]byte(rowText(body)))
		return err
	})
	if err != nil || count != clients*each || late.Load() > 0 {
		t.Errorf("count %d, %d times did not rise, %v", count, late.Load(), err)
	}
	w.verify(t)
}

// TestItemsDue checks that an item is visible until Expire removes it at the time at which
// it is due, and not before; and that one which was written again is not due any more.
func TestItemsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newTable(t))
	now := w.clock.Load()
	for item, due := range map[string]int64{"never": 0, "later": now + 100, "again": now + 100, "past": now - 5} {
		if err := w.putItem("k", item, item, due); err != nil {
			t.Fatal(err)
		}
	}
	expire := func(want string, due bool) {
		t.Helper()
		if got := w.partition.Load().Due(); got != due {
			t.Errorf("due: %t", got)
		}
		if _, err := w.partition.Load().Expire(t.Context(), nil, 1000); err != nil {
			t.Fatal(err)
		}
		list, _, err := w.visit(ReadItems{Key: routing("k"), Slices: whole()}, allItems)
		if got := strings.Join(list, " "); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	expire("k/again=again k/later=later k/never=never k/past=past", false)
	if err := w.putItem("k", "whole", "whole", -(now + 1)); err != nil {
		t.Fatal(err)
	}
	w.clock.Store(now + 1)
	list, _, err := w.visit(ReadItems{Key: routing("k"), Slices: []Slice{Point(rowName("whole")), Point(rowName("past"))}}, allItems)
	if got := strings.Join(list, " "); err != nil || got != "k/past=past" {
		t.Errorf("an item that expires as a whole is seen: %q, %v", got, err)
	}
	expire("k/again=again k/later=later k/never=never", true)
	if err := w.putItem("k", "again", "other", 0); err != nil {
		t.Fatal(err)
	}
	w.clock.Store(now + 100)
	expire("k/again=other k/never=never", true)
	expire("k/again=other k/never=never", false)
	w.verify(t)
}

// TestItemsAreCollected checks the change that Config.Collect returns: it gets the names of
// due items and all items of the key, rewrites and removes items, and those that it
// rewrites keep their versions.
func TestItemsAreCollected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newTable(t))
	now := w.clock.Load()
	for _, item := range []string{"a", "b", "c", "d"} {
		due := now + 10
		if item == "d" {
			due = 0
		}
		if err := w.putItem("k", item, item, due); err != nil {
			t.Fatal(err)
		}
	}
	lsns := func() (list []resource.LSN) {
		ask := ReadItems{Generation: w.own.Generation, Key: routing("k"), Slices: whole()}
		ask.EPK = w.container.Load().PartitionKey.Hash(ask.Key)
		ask.Visit = func(i *Item) (bool, error) { list = append(list, i.LSN); return true, nil }
		if _, err := w.partition.Load().ReadItems(t.Context(), &ask); err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got := fmt.Sprint(lsns()); got != "[1 2 3 4]" {
		t.Fatal(got)
	}
	var asked, read string
	w.partition.Load().config.Collect = func(_ context.Context, ask Collection) (Collected, error) {
		slices.Sort(ask.Items)
		asked = fmt.Sprintf("%s %q %d", ask.Key, ask.Items, ask.Now-now)
		err := ask.Read(rowName("b"), func(item, body []byte) (bool, error) {
			read += string(item[1:]) + "=" + rowText(body) + " "
			return string(item) != rowName("c"), nil
		})
		return Collected{Items: 2, Change: changeFunc(func(i Items) error {
			return errors.Join(i.Put(rowName("a"), nil, 0), i.Put(rowName("b"), rowBody("less"), now+1000))
		})}, err
	}
	w.clock.Store(now + 20)
	if n, err := w.partition.Load().Expire(t.Context(), nil, 1000); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if want := fmt.Sprintf("k %q 20", []string{rowName("a"), rowName("b"), rowName("c")}); asked != want || read != "b=b c=c " {
		t.Errorf("asked %s and read %q", asked, read)
	}
	if got := fmt.Sprint(lsns()); got != "[2 3 4]" {
		t.Errorf("the versions are %s", got)
	}
	if got := w.partition.Load().LSN(); got != 5 {
		t.Errorf("LSN %d", got)
	}
	w.partition.Load().waitIdle()
	w.verify(t)
	if err := w.crash(0.5, 1); err != nil {
		t.Fatal(err)
	}
	w.clock.Store(now + 1000)
	list, _, err := w.visit(ReadItems{Key: routing("k"), Slices: whole()}, allItems)
	if got := strings.Join(list, " "); err != nil || got != "k/b=less k/c=c k/d=d" || !w.partition.Load().Due() {
		t.Errorf("%q, %v", got, err)
	}
	w.verify(t)
}

// TestItemsRefused checks limits on both sides, errors of changes, and keys of others.
func TestItemsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newTable(t))
	most := w.limits.DocumentBytes - rowOverhead
	if err := w.putItem("k", "a", strings.Repeat("x", most), 0); err != nil {
		t.Errorf("the longest row: %v", err)
	}
	if err := w.putItem("k", "b", strings.Repeat("x", most+1), 0); status.CodeOf(err) != status.CodeTooLarge {
		t.Errorf("a longer row: %v", err)
	}
	cause := errors.New("cause")
	if _, err := w.change("k", nil, func(i Items) error { return errors.Join(i.Put(rowName("c"), rowBody("c"), 0), cause) }); !errors.Is(err, cause) {
		t.Errorf("got %v, want the error of the change", err)
	}
	var meter throughput.Meter
	if lsn, err := w.change("k", &meter, func(i Items) error { return i.Put(rowName("none"), nil, 0) }); err != nil || lsn != 1 || meter.Charge() == 0 {
		t.Errorf("a removal of nothing: LSN %d, charge %v, %v", lsn, meter.Charge(), err)
	}
	list, _, err := w.visit(ReadItems{Key: routing("k"), Slices: []Slice{{From: rowName("b")}}}, allItems)
	if err != nil || len(list) > 0 {
		t.Errorf("refused changes left %q, %v", list, err)
	}
	wrong := WriteItems{Generation: w.own.Generation + 1, Key: routing("k"), EPK: w.container.Load().PartitionKey.Hash(routing("k"))}
	if _, err := w.partition.Load().WriteItems(t.Context(), wrong); status.CodeOf(err) != status.CodeGone {
		t.Errorf("another generation: %v", err)
	}
	if _, err := w.partition.Load().ReadItems(t.Context(), &ReadItems{Generation: w.own.Generation + 1, Range: partitionkey.Full()}); status.CodeOf(err) != status.CodeGone {
		t.Errorf("another generation: %v", err)
	}
	if _, err := w.partition.Load().ReadItems(t.Context(), &ReadItems{Session: 99, Range: partitionkey.Full()}); status.SubOf(err) != status.SubReadSessionNotAvailable {
		t.Errorf("a session ahead: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.partition.Load().WriteItems(ended, WriteItems{Generation: w.own.Generation, Key: routing("k"), EPK: wrong.EPK, Change: changeFunc(func(Items) error { return nil })}); err == nil {
		t.Log("an ended context did not stop the change")
	}
	w.verify(t)
}

// TestItemCharges checks that a change costs what the same write of a document costs,
// and a point what a point read costs.
func TestItemCharges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newTable(t))
	text := strings.Repeat("x", 1000)
	bytes := len(rowBody(text))
	var insert, replace, remove throughput.Meter
	for _, step := range []struct {
		meter *throughput.Meter
		body  []byte
		want  float64
	}{
		{&insert, rowBody(text), throughput.Insert(bytes, 0)},
		{&replace, rowBody(text + "y"), throughput.Replace(bytes, bytes+1, 0)},
		{&remove, nil, throughput.Delete(bytes+1, 0)},
	} {
		if _, err := w.change("k", step.meter, func(i Items) error { return i.Put(rowName("a"), step.body, 0) }); err != nil {
			t.Fatal(err)
		}
		var want throughput.Meter
		want.Add(step.want)
		if got := step.meter.Charge(); got != want.Charge() {
			t.Errorf("charge %v, want %v", got, want.Charge())
		}
	}
	for i := range 20 {
		if err := w.putItem("k", fmt.Sprintf("%02d", i), text, 0); err != nil {
			t.Fatal(err)
		}
	}
	read := func(s Slice) float64 {
		var meter throughput.Meter
		if _, _, err := w.visit(ReadItems{Key: routing("k"), Slices: []Slice{s}, Meter: &meter}, allItems); err != nil {
			t.Fatal(err)
		}
		return meter.Charge()
	}
	var point throughput.Meter
	point.Add(throughput.Read(bytes))
	if got := read(Point(rowName("03"))); got != point.Charge() {
		t.Errorf("a point costs %v, want %v", got, point.Charge())
	}
	if ten, all := read(Slice{From: rowName("00"), To: rowName("10")}), read(Slice{}); ten >= all || ten <= point.Charge() {
		t.Errorf("ten items cost %v, twenty %v, one %v", ten, all, point.Charge())
	}
}
