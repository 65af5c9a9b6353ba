package partitionkey

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fresh returns the map of a new container with n partitions, numbered.
func fresh(t testing.TB, d Definition, n int) RangeMap[int] {
	t.Helper()
	var entries []Entry[int]
	for i, r := range d.Divide(n) {
		entries = append(entries, Entry[int]{r, i})
	}
	m, err := NewRangeMap(entries)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func tenant(name string) Key { return NewKey(String(name)) }

// TestTenantOnFiveOfThousand checks that a tenant on five of 1,000 physical
// partitions is looked up in exactly five (S40).
func TestTenantOnFiveOfThousand(t *testing.T) {
	t.Parallel()
	d := hierarchy(3)
	m := fresh(t, d, 996)
	reach, err := d.Prefix(tenant("Contoso"))
	if err != nil {
		t.Fatal(err)
	}
	home := m.Locate(reach.Min)
	// Cut the tenant's partition inside the tenant's range four times.
	next := home.Range
	var children []Entry[int]
	inside := reach
	for i := range 4 {
		cut := d.Middle(inside)
		children = append(children, Entry[int]{Range{next.Min, cut}, 1000 + i})
		next.Min, inside.Min = cut, cut
	}
	children = append(children, Entry[int]{next, 1004})
	m, err = m.Replace([]Range{home.Range}, children)
	if err != nil {
		t.Fatal(err)
	}
	if m.Len() != 1000 {
		t.Fatalf("%d partitions", m.Len())
	}
	var visited []int
	for _, entry := range m.Overlapping(reach) {
		visited = append(visited, entry.Value)
	}
	if want := []int{1000, 1001, 1002, 1003, 1004}; !slices.Equal(visited, want) {
		t.Errorf("visited %v, want %v", visited, want)
	}
	// Each user of the tenant is in one of the five.
	for i := range 1000 {
		user := tenant("Contoso").Append(String(fmt.Sprint("user", i)))
		users, err := d.Prefix(user)
		if err != nil {
			t.Fatal(err)
		}
		if at := m.Locate(d.Hash(user.Append(Number(1)))); at.Value < 1000 || !at.Range.Overlaps(users) {
			t.Fatalf("user %d is at %v", i, at)
		}
	}
	// Another tenant is not.
	other, err := d.Prefix(tenant("Fabrikam"))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Overlapping(other); len(got) != 1 || got[0].Value >= 1000 {
		t.Errorf("the other tenant is at %v", got)
	}
}

// TestRandomSplitsAndMerges checks that after any splits and merges the ranges
// cover the key space once, and every key is in exactly one (S1).
func TestRandomSplitsAndMerges(t *testing.T) {
	t.Parallel()
	for _, d := range []Definition{{Paths: []string{"/pk"}, Version: 1}, {Paths: []string{"/pk"}}, hierarchy(2), hierarchy(3)} {
		t.Run(fmt.Sprintf("%v-v%d-%d", d.Kind, d.version(), d.Levels()), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(d.Levels())))
			m, next := fresh(t, d, 1+r.IntN(5)), 100
			for range 300 {
				i := r.IntN(m.Len())
				parent := m.At(i)
				var err error
				if r.IntN(3) > 0 || i+1 == m.Len() {
					middle := d.Middle(parent.Range)
					if !parent.Range.Contains(middle) || middle.Compare(parent.Range.Min) == 0 {
						t.Fatalf("%v is not inside %v", middle, parent.Range)
					}
					m, err = m.Replace([]Range{parent.Range}, []Entry[int]{
						{Range{middle, parent.Range.Max}, next}, {Range{parent.Range.Min, middle}, next + 1},
					})
				} else {
					sibling := m.At(i + 1)
					m, err = m.Replace([]Range{sibling.Range, parent.Range}, []Entry[int]{
						{Range{parent.Range.Min, sibling.Range.Max}, next},
					})
				}
				if err != nil {
					t.Fatal(err)
				}
				next += 2
				checkOneHome(t, m, d.Hash(randomKey(r, d.Levels())))
			}
		})
	}
}

// checkOneHome compares Locate and Overlapping with a linear search.
func checkOneHome(t *testing.T, m RangeMap[int], e EPK) {
	t.Helper()
	var homes []int
	end := MinEPK
	for r, value := range m.All() {
		if r.Min.Compare(end) != 0 || r.Empty() {
			t.Fatalf("%v comes after %v", r, end)
		}
		end = r.Max
		if r.Contains(e) {
			homes = append(homes, value)
		}
	}
	if end.Compare(MaxEPK) != 0 {
		t.Fatalf("the last range ends at %v", end)
	}
	at := m.Locate(e)
	if len(homes) != 1 || homes[0] != at.Value || !at.Range.Contains(e) {
		t.Fatalf("%v lies in %v, Locate finds %d", e, homes, at.Value)
	}
	reach := Range{e, m.At(m.Len() - 1).Range.Min}
	var want []int
	for r, value := range m.All() {
		if r.Overlaps(reach) {
			want = append(want, value)
		}
	}
	var got []int
	for _, entry := range m.Overlapping(reach) {
		got = append(got, entry.Value)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%v overlaps %v, Overlapping finds %v", reach, want, got)
	}
}

func TestZeroRangeMap(t *testing.T) {
	t.Parallel()
	var m RangeMap[int]
	if m.Len() != 0 || m.Overlapping(Full()) != nil {
		t.Error("the zero map holds something")
	}
	for range m.All() {
		t.Error("the zero map holds something")
	}
}

// TestRangeMapSharesNothing checks that callers may append to the result of
// Overlapping without changing the map, and that the map copies the entries it
// is given.
func TestRangeMapSharesNothing(t *testing.T) {
	t.Parallel()
	entries := []Entry[int]{{Range{"", "\x10"}, 1}, {Range{"\x10", MaxEPK}, 2}}
	m, err := NewRangeMap(entries)
	if err != nil {
		t.Fatal(err)
	}
	entries[0].Value = 7
	_ = append(m.Overlapping(Range{"", "\x01"}), Entry[int]{Value: 8})
	if m.At(0).Value != 1 || m.At(1).Value != 2 {
		t.Errorf("the map is %v", m)
	}
}

// TestDivideTiles checks that clients accept the bounds of every layout, up to
// many partitions.
func TestDivideTiles(t *testing.T) {
	t.Parallel()
	for _, d := range []Definition{{Paths: []string{"/pk"}, Version: 1}, {Paths: []string{"/pk"}}, hierarchy(3)} {
		for _, n := range []int{1, 2, 3, 7, 64, 1000, 4097} {
			if got := fresh(t, d, n).Len(); got != n {
				t.Errorf("%d ranges, want %d", got, n)
			}
		}
	}
}

// TestMiddleIsInside checks that the middle lies inside every range that has an
// inside, however narrow it is and wherever its bounds were cut.
func TestMiddleIsInside(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 40))
	for _, d := range []Definition{{Paths: []string{"/pk"}}, hierarchy(1), hierarchy(2), hierarchy(3)} {
		width := 16 * d.Levels()
		for range 20_000 {
			low := make([]byte, width)
			for i := range low {
				// Runs of 00 and FF cause carries.
				low[i] = [...]byte{0x00, 0x00, 0x3F, 0xFF, 0xFF, byte(r.Uint32())}[r.IntN(6)]
			}
			low[0] &= 0x3F
			high := slices.Clone(low)
			i := r.IntN(width)
			if i == width-1 || r.IntN(4) == 0 {
				high = append(high, 0xFF)
			}
			high[i]++
			reach := Range{EPK(low), EPK(high)}
			if reach.Empty() || d.Successor(reach.Min).Compare(reach.Max) >= 0 {
				continue
			}
			if middle := d.Middle(reach); middle.Compare(reach.Min) <= 0 || middle.Compare(reach.Max) >= 0 {
				t.Fatalf("%v is not inside of %v", middle, reach)
			}
		}
	}
}

func TestHashDoesNotAllocate(t *testing.T) {
	d := hierarchy(3)
	m := fresh(t, d, 1000)
	short := NewKey(String("Contoso"), String("user-4711"), Number(17))
	long := NewKey(String(strings.Repeat("x", ComponentBytesMax)), String(strings.Repeat("y", 200)), Null())
	buf := make([]byte, 0, 48)
	e := d.Hash(short)
	for name, f := range map[string]func(){
		"AppendHash":            func() { buf = d.AppendHash(buf[:0], short) },
		"AppendHash of a limit": func() { buf = d.AppendHash(buf[:0], long) },
		"Locate":                func() { m.Locate(e) },
		"Overlapping":           func() { m.Overlapping(Range{e, MaxEPK}) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
