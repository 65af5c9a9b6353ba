package resolver

import (
	"fmt"
	"slices"
	"time"
)

// ReadMode says which layout a transition reads.
type ReadMode string

// The read modes.
const (
	ReadCurrent ReadMode = "current" // the old layout
	ReadNext    ReadMode = "next"    // the new layout
	ReadBoth    ReadMode = "both"    // the union; of two versions of a document the newer one counts
	ReadNone    ReadMode = "none"    // refused with ErrMigrating
)

// WriteMode says which layout a transition writes.
type WriteMode string

// The write modes. In the two modes that name both layouts, a write is complete
// when both copies have it; the first one named decides conditions and errors.
const (
	WriteCurrent     WriteMode = "current"
	WriteCurrentNext WriteMode = "current-next"
	WriteNone        WriteMode = "none" // keys that move wait; other keys are written
	WriteNextCurrent WriteMode = "next-current"
	WriteNext        WriteMode = "next"
)

// RetryAfterDefault is the default delay before the retry of a refused
// operation.
const RetryAfterDefault = time.Second

// Transition is a Resolver between two layouts.
type Transition[K any] struct {
	Current, Next Resolver[K]
	Read          ReadMode
	Write         WriteMode

	// RetryAfter is the delay in the error of a refused operation. Default
	// RetryAfterDefault.
	RetryAfter time.Duration
}

// NewTransition returns a transition that reads both layouts and writes the next
// one, the default of the legacy sample.
func NewTransition[K any](current, next Resolver[K]) *Transition[K] {
	return &Transition[K]{Current: current, Next: next, Read: ReadBoth, Write: WriteNext}
}

func (t *Transition[K]) refuse() error {
	after := t.RetryAfter
	if after <= 0 {
		after = RetryAfterDefault
	}
	return &MigratingError{RetryAfter: after}
}

// ForWrite returns the target that decides the outcome of a write of the key, or
// ErrMigrating for a key that moves under WriteNone.
func (t *Transition[K]) ForWrite(key K) (Target, error) {
	route, err := t.Route(key)
	return route.First, err
}

// Route says where a write goes.
type Route struct {
	First  Target // decides conditions and errors
	Second Target // gets the same document afterwards if Moves is true
	Moves  bool   // the two layouts put the key in different targets
}

// Route returns where a write of the key goes. In modes with one layout, Second
// is empty and Moves is false.
func (t *Transition[K]) Route(key K) (Route, error) {
	switch t.Write {
	case WriteCurrent:
		target, err := t.Current.ForWrite(key)
		return Route{First: target}, err
	case WriteNext:
		target, err := t.Next.ForWrite(key)
		return Route{First: target}, err
	case WriteCurrentNext, WriteNone:
		route, err := route(t.Current, t.Next, key)
		if err == nil && route.Moves && t.Write == WriteNone {
			err = t.refuse()
		}
		return route, err
	case WriteNextCurrent:
		return route(t.Next, t.Current, key)
	}
	return Route{}, fmt.Errorf("%w: unknown write mode %q", ErrConfig, t.Write)
}

func route[K any](first, second Resolver[K], key K) (Route, error) {
	a, err := first.ForWrite(key)
	if err != nil {
		return Route{}, err
	}
	b, err := second.ForWrite(key)
	if err != nil {
		return Route{}, err
	}
	if a.Name == b.Name {
		return Route{First: a}, nil
	}
	return Route{First: a, Second: b, Moves: true}, nil
}

// ForRead returns the targets of the read mode. Under ReadBoth these are the
// targets of the current layout, then those of the next that are not among them.
func (t *Transition[K]) ForRead(selection Selection[K]) ([]Target, error) {
	switch t.Read {
	case ReadCurrent:
		return t.Current.ForRead(selection)
	case ReadNext:
		return t.Next.ForRead(selection)
	case ReadNone:
		return nil, t.refuse()
	case ReadBoth:
		current, err := t.Current.ForRead(selection)
		if err != nil {
			return nil, err
		}
		next, err := t.Next.ForRead(selection)
		if err != nil {
			return nil, err
		}
		var both union
		both.add(current...)
		both.add(next...)
		return both.targets, nil
	}
	return nil, fmt.Errorf("%w: unknown read mode %q", ErrConfig, t.Read)
}

// Owns reports whether the read mode expects documents of the key in the target.
// During a move a container also holds copies that are not yet, or no longer,
// the document; it does not own those. Under ReadNone nothing is owned.
func (t *Transition[K]) Owns(target string, key K) (bool, error) {
	for _, r := range t.readers() {
		owner, err := r.ForWrite(key)
		if err != nil {
			return false, err
		}
		if owner.Name == target {
			return true, nil
		}
	}
	return false, nil
}

// readers returns the layouts of the read mode, the preferred one first.
func (t *Transition[K]) readers() []Resolver[K] {
	switch t.Read {
	case ReadCurrent:
		return []Resolver[K]{t.Current}
	case ReadNext:
		return []Resolver[K]{t.Next}
	case ReadBoth:
		return []Resolver[K]{t.Next, t.Current}
	}
	return nil
}

// Targets returns the targets of both layouts, the current first.
func (t *Transition[K]) Targets() []Target {
	var both union
	both.add(t.Current.Targets()...)
	both.add(t.Next.Targets()...)
	return both.targets
}

// Phase is a step of a move from one layout to the next. Clients may be one
// phase apart at any time; each pair of adjacent phases works together.
type Phase string

// The phases, in order. Undo is reachable from every phase before Switch.
const (
	Prepare   Phase = "prepare"    // the new containers are created
	DualWrite Phase = "dual-write" // clients begin to write both copies
	Copy      Phase = "copy"       // documents that move are copied
	Verify    Phase = "verify"     // both copies are compared and made equal
	Fence     Phase = "fence"      // writes of keys that move wait until every client has this phase
	Switch    Phase = "switch"     // the new layout decides; the old copy is still written
	Clean     Phase = "clean"      // the old copies are deleted
	Undo      Phase = "undo"       // the old layout decides; the new copies are deleted
)

// modes lists what each phase does and which phases may follow it.
var modes = map[Phase]struct {
	read  ReadMode
	write WriteMode
	next  []Phase
}{
	Prepare:   {ReadCurrent, WriteCurrent, []Phase{DualWrite, Undo}},
	DualWrite: {ReadCurrent, WriteCurrentNext, []Phase{Copy, Undo}},
	Copy:      {ReadCurrent, WriteCurrentNext, []Phase{Verify, Undo}},
	Verify:    {ReadCurrent, WriteCurrentNext, []Phase{Fence, Undo}},
	Fence:     {ReadCurrent, WriteNone, []Phase{Switch, Undo}},
	Switch:    {ReadNext, WriteNextCurrent, []Phase{Clean}},
	Clean:     {ReadNext, WriteNext, nil},
	Undo:      {ReadCurrent, WriteCurrent, nil},
}

// Modes returns the read and write modes of the phase, and ReadNone and
// WriteNone for an unknown phase.
func (p Phase) Modes() (ReadMode, WriteMode) {
	m, known := modes[p]
	if !known {
		return ReadNone, WriteNone
	}
	return m.read, m.write
}

// Modes returns the read and write modes of the move: those of its phase, with
// the read mode replaced by Read where that applies.
func (m *Move) Modes() (ReadMode, WriteMode) {
	read, write := m.Phase.Modes()
	if m.Read == ReadNone || m.Read == ReadBoth && !m.Phase.Final() {
		read = m.Read
	}
	return read, write
}

// MayBecome reports whether a move may go from this phase to next.
func (p Phase) MayBecome(next Phase) bool { return slices.Contains(modes[p].next, next) }

// Final reports whether a move ends with this phase.
func (p Phase) Final() bool { return p == Clean || p == Undo }

// Following returns the next phase on the way forward, "" after the last one.
func (p Phase) Following() Phase {
	if m := modes[p]; len(m.next) > 0 {
		return m.next[0]
	}
	return ""
}
