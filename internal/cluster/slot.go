package cluster

import (
	"container/list"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// slot is a partition that is open, being opened or being closed. The node's map has
// at most one slot for each partition. A slot counts its holders: the calls that use the
// partition now, and the split or merge that works on it.
//
// Its life is a state machine. Each change of state is a call of [Node.moveLocked], which
// panics unless slotArrows has the arrow and the slot meets its precondition.
//
//	           add
//	            v
//	         opening ---- failed ----> failed ------ close ----+
//	            |                                              |
//	         opened                                            |
//	            v                                              v
//	+-- take -> held ---- retire ----> retiring ---- close -> closing -- finish -> closed
//	|           | |                                            ^
//	|           | +---------------- close, if dropping --------+
//	|           |                                              |
//	+-- idle <- rest                                           |
//	      |                                                    |
//	      +------------------------ close ---------------------+
//
// The last holder that leaves causes rest, and close from held, retiring and failed. Two
// more moves keep the state: take adds a holder to a slot that is opening, held or failed,
// and leave removes a holder that is not the last one. When the node is closed, shutDown
// leads from each state between opening and closing to closing, with holders or without.
//
// A slot may also be marked as dropping: the catalog no longer names the partition. New
// calls get 410 then, the slot does not become idle, and finish removes the directory.
// Any state but closed may have the mark, and nothing takes it back.
type slot struct {
	ref       replication.PartitionRef
	partition *partition.Partition
	store     *storage.Store
	release   func() // removes a holder; made once, because every call needs it

	ready chan struct{} // closed when the slot is no longer opening
	err   error         // why the partition could not be opened; set before ready is closed
	gone  chan struct{} // closed when the slot is closed and a dropped directory is removed

	reads, writes, queries atomic.Int64
	weighed                weighed
	budget                 budget

	synced atomic.Uint64 // the LSN up to which everything is on the disk
	noted  atomic.Bool   // its mark is due

	opened time.Time // when opening began

	// Guarded by Node.mu.
	state    slotState
	holders  int
	dropping bool
	moved    status.Sub    // the sub-status of the 410 for a dropping slot
	place    *list.Element // in Node.idle; nil unless the slot is idle
	inDoubt  bool          // its split or merge has an unknown outcome; Mend leaves it open
}

// slotState is a state of a slot. The zero value is no state.
type slotState uint8

const (
	_            slotState = iota
	slotOpening            // a holder opens the partition; other holders wait for ready
	slotHeld               // open, with one or more holders
	slotIdle               // open, without a holder: in Node.idle, and may be closed at any time
	slotFailed             // could not be opened; its holders are about to leave
	slotRetiring           // open and held; new calls wait for gone and then open it again
	slotClosing            // one goroutine closes it; new calls wait for gone
	slotClosed             // no longer in the map

	slotStates // their number
)

// String returns the name of the state, for messages.
func (s slotState) String() string {
	return [slotStates]string{
		"none", slotOpening: "opening", slotHeld: "held", slotIdle: "idle", slotFailed: "failed",
		slotRetiring: "retiring", slotClosing: "closing", slotClosed: "closed",
	}[s]
}

// slotMove is a transition between two states of a slot.
type slotMove uint8

const (
	moveOpened   slotMove = iota // the partition is open
	moveFailed                   // the partition could not be opened
	moveTake                     // one holder more
	moveLeave                    // one holder fewer, and others remain
	moveRest                     // the last holder has left
	moveRetire                   // the slot is to be closed when its last holder leaves
	moveClose                    // the caller closes the slot
	moveShutDown                 // the caller closes the slot because the node is closed
	moveFinish                   // the slot is closed and leaves the map

	slotMoves // their number
)

// String returns the name of the move, for messages.
func (m slotMove) String() string {
	return [slotMoves]string{
		moveOpened: "opened", moveFailed: "failed", moveTake: "take", moveLeave: "leave", moveRest: "rest",
		moveRetire: "retire", moveClose: "close", moveShutDown: "shutDown", moveFinish: "finish",
	}[m]
}

// slotArrows has the state after each move from each state. A move without an entry for
// the state is refused.
var slotArrows = [slotMoves][slotStates]slotState{
	moveOpened:   {slotOpening: slotHeld},
	moveFailed:   {slotOpening: slotFailed},
	moveTake:     {slotOpening: slotOpening, slotHeld: slotHeld, slotIdle: slotHeld, slotFailed: slotFailed},
	moveLeave:    {slotOpening: slotOpening, slotHeld: slotHeld, slotFailed: slotFailed, slotRetiring: slotRetiring, slotClosing: slotClosing, slotClosed: slotClosed},
	moveRest:     {slotHeld: slotIdle},
	moveRetire:   {slotHeld: slotRetiring},
	moveClose:    {slotHeld: slotClosing, slotIdle: slotClosing, slotFailed: slotClosing, slotRetiring: slotClosing},
	moveShutDown: {slotHeld: slotClosing, slotIdle: slotClosing, slotFailed: slotClosing, slotRetiring: slotClosing},
	moveFinish:   {slotClosing: slotClosed},
}

// allows reports whether the holders and the mark of the slot allow a move that its state
// allows. The move has not changed them yet, except that the last holder of a slot that
// rests or closes has left.
func (s *slot) allows(m slotMove) bool {
	switch m {
	case moveTake:
		return !s.dropping
	case moveLeave: // The holder that opens the slot is the last one to leave it.
		return s.holders > 1 || s.holders == 1 && (s.state == slotClosing || s.state == slotClosed)
	case moveRest:
		return s.holders == 0 && !s.dropping
	case moveClose:
		return s.holders == 0 && (s.state != slotHeld || s.dropping)
	case moveRetire:
		return s.holders > 0
	}
	return true
}

// moveLocked changes the state of a slot. It panics if the slot does not allow the move:
// that is a mistake of this package. The caller has mu.
func (n *Node) moveLocked(s *slot, m slotMove) {
	from, to := s.state, slotArrows[m][s.state]
	if to == 0 || !s.allows(m) {
		panic(fmt.Sprintf("cluster: slot of partition %v does not allow %q: it is %s, has %d holders, dropping %t", s.ref, m, from, s.holders, s.dropping))
	}
	s.state = to
	switch {
	case to == slotIdle:
		s.place = n.idle.PushBack(s)
	case from == slotIdle:
		n.idle.Remove(s.place)
		s.place = nil
	}
}

// addLocked puts a new slot into the map. It is opening and its only holder is the
// caller, which opens the partition without mu and then calls settleLocked. The caller
// has mu, and has verified that the map has no slot for the partition.
func (n *Node) addLocked(ref replication.PartitionRef) *slot {
	s := &slot{ref: ref, ready: make(chan struct{}), gone: make(chan struct{}), state: slotOpening, holders: 1}
	s.release = func() { n.release(s) }
	s.budget.node, s.budget.slot = n, s
	n.slots[ref] = s
	return s
}

// settleLocked ends the opening of a slot, with the error of the attempt, and wakes the
// holders that wait for it. The caller has mu.
func (n *Node) settleLocked(s *slot, err error) {
	if s.err = err; err == nil {
		n.moveLocked(s, moveOpened)
	} else {
		n.moveLocked(s, moveFailed)
	}
	close(s.ready)
}

// takeLocked adds a holder. The caller has mu.
func (n *Node) takeLocked(s *slot) {
	n.moveLocked(s, moveTake)
	s.holders++
}

// leaveLocked removes a holder and reports whether the caller has to finish the slot. The
// caller has mu.
func (n *Node) leaveLocked(s *slot) (closes bool) {
	if s.holders != 1 || s.state == slotClosing || s.state == slotClosed {
		n.moveLocked(s, moveLeave)
		s.holders--
		return false
	}
	s.holders = 0
	if s.state == slotHeld && !s.dropping {
		n.moveLocked(s, moveRest)
		return false
	}
	n.moveLocked(s, moveClose)
	return true
}

// retireLocked has an open slot closed as soon as it has no holder, and reports whether
// the caller has to finish it. The caller has mu.
func (n *Node) retireLocked(s *slot) (closes bool) {
	switch s.state {
	case slotHeld:
		n.moveLocked(s, moveRetire)
	case slotIdle:
		n.moveLocked(s, moveClose)
		return true
	}
	return false
}

// dropLocked marks a slot as dropping and reports whether the caller has to finish it.
// moved is the sub-status for new calls; a dropped container takes precedence over a
// moved range. The caller has mu.
func (n *Node) dropLocked(s *slot, moved status.Sub) (closes bool) {
	if !s.dropping || moved == status.SubNameCacheStale {
		s.moved = moved
	}
	s.dropping = true
	if s.state != slotIdle {
		return false // The goroutine that closes it, now or later, sees the mark.
	}
	n.moveLocked(s, moveClose)
	return true
}

// shutDownLocked closes a slot of a closed node, and reports whether the caller has to
// finish it; otherwise another goroutine does. The caller has mu.
func (n *Node) shutDownLocked(s *slot) (closes bool) {
	if s.state == slotClosing || s.state == slotClosed {
		return false
	}
	n.moveLocked(s, moveShutDown)
	return true
}

// openSlot opens the partition of a new slot, and closes idle partitions if too many
// are open.
func (n *Node) openSlot(s *slot) (*slot, error) {
	n.makeRoom()
	s.opened = n.cfg.Now()
	var err error
	s.partition, s.store, err = n.openPartition(s.ref)
	n.noteOpened(s.ref, err)
	if err == nil {
		s.beginCounting()
	}
	n.mu.Lock()
	n.settleLocked(s, err)
	n.mu.Unlock()
	if err != nil {
		n.release(s)
		return nil, err
	}
	n.noteLatest(s)
	n.notePurging(s)
	s.partition.Reindex() // The slot is ready for its effects, so a policy change may continue.
	return s, nil
}

// beginCounting sets the counters of a slot whose partition was just opened.
func (s *slot) beginCounting() {
	s.weighed.begin(s.partition)
	s.synced.Store(uint64(s.partition.LSN()))
}

// release removes a holder. If that closes the slot, a goroutine of the node does so:
// closing a partition and deleting its files can take long.
func (n *Node) release(s *slot) {
	if n.leave(s, true) {
		n.finish(s)
	}
}

// releaseAndWait is release for a split or merge, which closes the slot itself.
func (n *Node) releaseAndWait(s *slot) {
	if n.leave(s, false) {
		n.finish(s)
	}
}

// leave removes a holder and reports whether the caller has to finish the slot. With
// background, it does so only if the node is being closed.
func (n *Node) leave(s *slot, background bool) (closes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	closes = n.leaveLocked(s)
	if closes && background && !n.closed {
		n.background.Go(func() { n.finish(s) })
		return false
	}
	return closes
}

// dropHeld marks a slot that the caller holds as dropping: its range belongs to other
// partitions now.
func (n *Node) dropHeld(s *slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropLocked(s, status.SubRangeGone)
}

// retireHeld closes a slot that the caller holds, and keeps its directory. If there are
// other holders, the last of them closes it.
func (n *Node) retireHeld(s *slot) {
	n.mu.Lock()
	n.retireLocked(s)
	closes := n.leaveLocked(s)
	n.mu.Unlock()
	if closes {
		n.finish(s)
	}
}

// shutDown closes a slot of a closed node, or waits for the goroutine that does.
func (n *Node) shutDown(s *slot) {
	<-s.ready
	n.mu.Lock()
	closes := n.shutDownLocked(s)
	n.mu.Unlock()
	if closes {
		n.finish(s)
	} else {
		<-s.gone
	}
}

// finish closes the partition of a closing slot, takes the slot out of the map, and
// removes the directory of a dropping one. The slot stays in the map until the effects of
// the partition are applied, because Apply looks for it there.
func (n *Node) finish(s *slot) {
	if s.err == nil {
		n.growth.add(s)
		n.closePartition(s)
	}
	n.mu.Lock()
	delete(n.slots, s.ref)
	n.moveLocked(s, moveFinish)
	dropping := s.dropping
	n.mu.Unlock()
	if dropping {
		n.removeDir(s.ref)
	}
	close(s.gone)
}

// closePartition closes the partition of a closing slot, and marks it as closed.
func (n *Node) closePartition(s *slot) {
	n.mu.Lock()
	dropping := s.dropping
	n.mu.Unlock()
	closeStore := s.store.Close
	if dropping {
		closeStore = s.store.Abandon
	}
	if err := errors.Join(s.partition.Close(), closeStore()); err != nil {
		n.cfg.Logger.Warn("partition not closed cleanly", "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
		return
	}
	if !dropping {
		n.marks.noteClosed(s.ref, mark{value: s.synced.Load(), position: s.store.Position()})
	}
}

// giveUp closes the partition of a store if its slot is idle, and reports whether it did.
// The pool calls it for stores whose write buffers have grown.
func (n *Node) giveUp(store *storage.Store) (closed bool) {
	s := n.closeIdle(store)
	if s == nil {
		return false
	}
	n.finish(s)
	return true
}

// closeIdle returns the slot of a store, for the caller to finish; nil if it is not idle.
func (n *Node) closeIdle(store *storage.Store) *slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	for e := n.idle.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*slot); s.store == store {
			n.moveLocked(s, moveClose)
			return s
		}
	}
	return nil
}

// makeRoom closes the idle partitions that were used longest ago while more than
// MaxOpen are open. When none is idle the bound is exceeded: refusing would fail
// requests that descriptors may still allow.
func (n *Node) makeRoom() {
	for oldest := n.closeOldest(); oldest != nil; oldest = n.closeOldest() {
		n.finish(oldest)
	}
}

// closeOldest returns the idle slot that was used longest ago, for the caller to finish;
// nil if none is idle or no more than MaxOpen are open.
func (n *Node) closeOldest() *slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.slots) <= n.cfg.MaxOpen || n.idle.Len() == 0 {
		return nil
	}
	oldest := n.idle.Front().Value.(*slot)
	n.moveLocked(oldest, moveClose)
	return oldest
}
