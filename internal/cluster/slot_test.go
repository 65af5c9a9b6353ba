package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/status"
)

func slotNode() *Node { return &Node{slots: map[replication.PartitionRef]*slot{}} }

// slotIn returns a slot that the node's own functions have brought to a state. It has
// one holder, or none in a state without holders.
func slotIn(t *testing.T, n *Node, state slotState) *slot {
	t.Helper()
	s := n.addLocked(replication.PartitionRef{Container: "c", Partition: 1})
	switch state {
	case slotOpening:
	case slotFailed:
		n.settleLocked(s, errors.New("broken"))
	default:
		n.settleLocked(s, nil)
	}
	switch state {
	case slotIdle:
		n.leaveLocked(s)
	case slotRetiring:
		n.retireLocked(s)
	case slotClosing, slotClosed:
		n.shutDownLocked(s)
	}
	if state == slotClosed {
		n.moveLocked(s, moveFinish)
	}
	if s.state != state {
		t.Fatalf("reached %s, want %s", s.state, state)
	}
	return s
}

// refused calls do and reports whether it panicked.
func refused(do func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	do()
	return false
}

// TestSlotArrows tries each move from each state, with the holders that the move needs.
// A move that the table does not have is refused.
func TestSlotArrows(t *testing.T) {
	t.Parallel()
	want := map[slotMove]map[slotState]slotState{
		moveOpened: {slotOpening: slotHeld},
		moveFailed: {slotOpening: slotFailed},
		moveTake:   {slotOpening: slotOpening, slotHeld: slotHeld, slotIdle: slotHeld, slotFailed: slotFailed},
		moveLeave: {
			slotOpening: slotOpening, slotHeld: slotHeld, slotFailed: slotFailed,
			slotRetiring: slotRetiring, slotClosing: slotClosing, slotClosed: slotClosed,
		},
		moveRest:     {slotHeld: slotIdle},
		moveRetire:   {slotHeld: slotRetiring},
		moveClose:    {slotHeld: slotClosing, slotIdle: slotClosing, slotFailed: slotClosing, slotRetiring: slotClosing},
		moveShutDown: {slotHeld: slotClosing, slotIdle: slotClosing, slotFailed: slotClosing, slotRetiring: slotClosing},
		moveFinish:   {slotClosing: slotClosed},
	}
	for move := range slotMoves {
		for state := slotOpening; state < slotStates; state++ {
			n := slotNode()
			s := slotIn(t, n, state)
			switch move {
			case moveLeave:
				s.holders++
			case moveRest:
				s.holders = 0
			case moveClose:
				s.holders, s.dropping = 0, state == slotHeld
			}
			var got slotState
			if !refused(func() { n.moveLocked(s, move) }) {
				got = s.state
			}
			if got != want[move][state] {
				t.Errorf("%s while %s: %s, want %s", move, state, got, want[move][state])
			}
			if listed := n.idle.Len() == 1; listed != (s.state == slotIdle) {
				t.Errorf("%s while %s: in the list of idle slots: %t", move, state, listed)
			}
		}
	}
}

// TestSlotWalks drives slots through the calls that the node makes, and compares their
// final states. A call whose precondition does not hold is refused.
func TestSlotWalks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ calls, want string }{
		{"add", "opening"},
		{"add take leave", "opening"},
		{"add opened", "held"},
		{"add take opened leave", "held"},
		{"add take opened leave leave", "idle"},
		{"add opened leave take", "held"},
		{"add opened leave take leave", "idle"},

		{"add failed", "failed"},
		{"add take failed leave", "failed"},
		{"add failed take leave", "failed"},
		{"add failed leave", "closing"},
		{"add failed retire", "failed"},

		{"add opened retire", "retiring"},
		{"add take opened retire leave", "retiring"},
		{"add opened retire retire leave", "closing"},
		{"add opened leave retire", "closing"},
		{"add opened leave retire retire", "closing"},
		{"add opened leave retire finish", "closed"},

		{"add drop", "opening"},
		{"add drop opened", "held"},
		{"add drop opened leave", "closing"},
		{"add drop failed leave", "closing"},
		{"add opened drop", "held"},
		{"add take opened drop leave", "held"},
		{"add opened drop leave finish", "closed"},
		{"add opened leave drop", "closing"},
		{"add opened leave drop drop", "closing"},
		{"add opened retire drop leave", "closing"},
		{"add opened leave retire drop finish", "closed"},

		{"add opened shutDown", "closing"},
		{"add opened leave shutDown", "closing"},
		{"add opened retire shutDown", "closing"},
		{"add failed shutDown", "closing"},
		{"add opened leave retire shutDown", "closing"},
		{"add take opened shutDown leave finish leave", "closed"},

		{"add leave", "leave refused"},
		{"add take leave leave", "leave refused"},
		{"add shutDown", "shutDown refused"},
		{"add finish", "finish refused"},
		{"add opened opened", "opened refused"},
		{"add opened failed", "failed refused"},
		{"add opened finish", "finish refused"},
		{"add opened leave leave", "leave refused"},
		{"add opened leave retire leave", "leave refused"},
		{"add opened drop take", "take refused"},
		{"add opened retire take", "take refused"},
		{"add opened leave retire take", "take refused"},
		{"add opened shutDown leave leave", "leave refused"},
		{"add opened leave retire finish take", "take refused"},
	} {
		n := slotNode()
		var s *slot
		calls := map[string]func(){
			"add":      func() { s = n.addLocked(replication.PartitionRef{Container: "c", Partition: 1}) },
			"opened":   func() { n.settleLocked(s, nil) },
			"failed":   func() { n.settleLocked(s, errors.New("broken")) },
			"take":     func() { n.takeLocked(s) },
			"leave":    func() { n.leaveLocked(s) },
			"retire":   func() { n.retireLocked(s) },
			"drop":     func() { n.dropLocked(s, status.SubRangeGone) },
			"shutDown": func() { n.shutDownLocked(s) },
			"finish":   func() { n.moveLocked(s, moveFinish) },
		}
		got := ""
		for call := range strings.FieldsSeq(c.calls) {
			if refused(calls[call]) {
				got = call + " refused"
				break
			}
			got = s.state.String()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.calls, got, c.want)
		}
	}
}

// TestSlotMoved shows which sub-status a dropping slot has: a dropped container takes
// precedence over a moved range.
func TestSlotMoved(t *testing.T) {
	t.Parallel()
	const rangeGone, containerGone = status.SubRangeGone, status.SubNameCacheStale
	for _, c := range []struct {
		drops []status.Sub
		want  status.Sub
	}{
		{[]status.Sub{rangeGone}, rangeGone},
		{[]status.Sub{containerGone}, containerGone},
		{[]status.Sub{rangeGone, containerGone}, containerGone},
		{[]status.Sub{containerGone, rangeGone}, containerGone},
	} {
		n := slotNode()
		s := slotIn(t, n, slotHeld)
		for _, moved := range c.drops {
			n.dropLocked(s, moved)
		}
		if !s.dropping || s.moved != c.want {
			t.Errorf("%v: dropping %t with sub-status %d, want %d", c.drops, s.dropping, s.moved, c.want)
		}
	}
}

// TestReopenLeavesClosing reopens a partition, as the maintenance does, while the node
// is being closed. The slot is left to the shutdown, which would wait forever for a
// closing slot that no goroutine finishes.
func TestReopenLeavesClosing(t *testing.T) {
	t.Parallel()
	for _, state := range []slotState{slotHeld, slotIdle} {
		n := slotNode()
		s := slotIn(t, n, state)
		n.closed = true
		n.reopen(s, nil)
		if s.state != state {
			t.Errorf("a slot that was %s is %s, and nothing finishes it", state, s.state)
		}
	}
}
