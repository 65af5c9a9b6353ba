package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// The token of a partition, or of any of its ancestors, is a lower bound for
// it. Tokens of other partitions do not matter.
func TestSessionOfParents(t *testing.T) {
	t.Parallel()
	e := &Engine{account: resource.Account{Consistency: resource.Session}}
	child := resource.Partition{ID: 5, Parents: []resource.PartitionID{0, 2}}
	for _, c := range []struct {
		token, level string
		want         resource.LSN
	}{
		{"", "", 0},
		{"5:-1#7", "", 7},
		{"2:-1#9", "", 9},
		{"0:-1#3,2:-1#9,5:-1#4", "", 9},
		{"1:-1#100", "", 0},
		{"2:11", "", 11},
		{"5:-1#1", "", 0}, // every partition has reached the first LSN, also one whose store has 0
		{"5:-1#7", "Eventual", 0},
		{"5:-1#7", "ConsistentPrefix", 0},
		{"5:-1#7", "Session", 7},
	} {
		r, err := e.reading(Options{Session: c.token, Consistency: c.level})
		if err != nil {
			t.Fatalf("%s: %v", c.token, err)
		}
		if got := r.requiredLSN(child); got != c.want {
			t.Errorf("token %q at level %q: got %d, want %d", c.token, c.level, got, c.want)
		}
	}
}

// A request does not wait for an LSN of another account, nor when the time is
// over, nor for any other error.
func TestSessionAgain(t *testing.T) {
	t.Parallel()
	e := &Engine{account: resource.Account{Consistency: resource.Session}, limits: resource.DefaultLimits()}
	e.limits.SessionWait = time.Minute
	r, err := e.reading(Options{Session: "0:0#5"})
	if err != nil {
		t.Fatal(err)
	}
	foreign := r.requiredLSN(resource.Partition{ID: 0})
	ended, end := context.WithCancel(t.Context())
	end()
	over := r
	over.until = time.Now()
	behind := status.SessionNotAvailable()
	for _, c := range []struct {
		name string
		r    reading
		ctx  context.Context
		err  error
		lsn  resource.LSN
		want bool
	}{
		{"behind", r, t.Context(), behind, 5, true},
		{"answered", r, t.Context(), nil, 5, false},
		{"another topology", r, t.Context(), behind, foreign, false},
		{"over", over, t.Context(), behind, 5, false},
		{"anonymous waits", r, ended, behind, 5, false},
		{"no document", r, t.Context(), status.NotFound(), 5, false},
		{"moved", r, t.Context(), status.PartitionMoved(status.SubRangeGone), 5, false},
	} {
		var pause time.Duration
		if got := c.r.again(c.ctx, c.err, c.lsn, &pause); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The token of a page has each of its partitions once, with the highest LSN. A
// request may carry it, and it never exceeds the size of a header.
func TestSessionOfPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reached [][2]uint64
		one     string
		list    string
	}{
		{nil, "", ""},
		{[][2]uint64{{7, 12}}, "7:-1#12", "7:-1#12"},
		{[][2]uint64{{7, 12}, {7, 11}}, "7:-1#12", "7:-1#12"},
		{[][2]uint64{{9, 1}, {7, 12}, {9, 3}, {0, 0}, {9, 2}}, "9:-1#3", "0:-1#1,7:-1#12,9:-1#3"},
	} {
		var s seen
		for _, r := range c.reached {
			s.reached(resource.PartitionID(r[0]), resource.LSN(r[1]))
		}
		if one, list := s.token(false), s.token(true); one != c.one || list != c.list {
			t.Errorf("%v: token %q and list %q, want %q and %q", c.reached, one, list, c.one, c.list)
		}
	}
	var many seen
	for id := range 1000 {
		many.reached(resource.PartitionID(999-id), resource.LSN(1_000_000+999-id))
	}
	token := many.token(true)
	parsed, err := resource.ParseSession(token)
	if err != nil {
		t.Fatal(err)
	}
	kept := strings.Count(token, ",") + 1
	if len(token) > sessionBytesMax || len(token) < sessionBytesMax-40 || kept < 500 {
		t.Errorf("%d bytes of %d partitions", len(token), kept)
	}
	for id := range kept {
		if lsn, ok := parsed.For(resource.PartitionID(id)); !ok || lsn != resource.LSN(1_000_000+id) {
			t.Errorf("partition %d: %d, %v", id, lsn, ok)
		}
	}
}
