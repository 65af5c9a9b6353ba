package azcosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/decandb/decan/resolver"
)

// MoverConfig says how a move is carried out.
type MoverConfig struct {
	// Client works on the containers. Its view has to follow the state of the same
	// name in the same store.
	Client *Client

	// Store and Name are where the state is. The progress of a move is kept beside it,
	// under the name with "-move" behind it.
	Store resolver.Store
	Name  string

	// Ensure makes the containers of the next plan. Default: they have to exist.
	Ensure func(ctx context.Context, targets []resolver.Target) error

	// Settle returns when every client has seen the saved state and has finished what
	// it began before. Default: it waits for the lease and the timeout of Client
	// together, 15 s if those are the defaults, after Client itself has arrived. That is
	// enough when no client has a longer lease or timeout: one that loaded the old state
	// just before the new one was saved may begin operations under it for a lease, and
	// they last for a timeout at most. A move settles eight times, which is two minutes;
	// writes of keys that move wait for one of those. Where all clients are known,
	// SettleClients does not need to wait that long.
	Settle func(ctx context.Context) error

	// ItemsPerSecond and ChargePerSecond bound the work on items, in RU/s the latter.
	// 0 is no bound.
	ItemsPerSecond, ChargePerSecond float64

	// PageSize is how many items are looked at between two saves of the progress.
	// Default PageSizeDefault.
	PageSize int

	// Parallelism is how many items are worked on at once. Default that of the client.
	Parallelism int

	// OnProgress is told how far the move is after each save, nil for nobody.
	OnProgress func(Progress)

	// Takeover is how long the progress of another Mover has to lie still before this
	// one takes its move. Default: the lease and the timeout of Client, which all Movers
	// have to share; that is when a Mover that is only slow has stopped by itself. Below
	// 0 it does not wait, which is safe only if the other one is known to be dead.
	Takeover time.Duration

	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Mover carries out moves from one plan to another. A move survives the death of its
// Mover at any point: another one takes it up where the progress ends. One Mover at a
// time works on a move: another one that runs meanwhile fails with resolver.ErrChanged,
// and one that was paused for long fails with it when it wakes up, and does no harm.
//
// A Mover is used by one goroutine at a time.
type Mover struct {
	config MoverConfig
	tenure *tenure // nil before the first step
	keyed  bool    // all containers are known to have the client's partition key

	pulse time.Duration // how often a hold of the move is saved; 0: three times in a lease

	pace sync.Mutex
	from time.Time // of the figures of the throttle; guarded by pace
	done float64   // items since then; guarded by pace
	cost float64   // charge since then; guarded by pace
}

// NewMover returns a mover. The error is a resolver.ErrConfig.
func NewMover(c MoverConfig) (*Mover, error) {
	if c.Client == nil || c.Store == nil || c.Name == "" {
		return nil, fmt.Errorf("%w: a mover needs a client, a store and the name of the state", resolver.ErrConfig)
	}
	if !(c.ItemsPerSecond >= 0 && c.ChargePerSecond >= 0) {
		return nil, fmt.Errorf("%w: a negative throttle", resolver.ErrConfig)
	}
	if c.PageSize <= 0 {
		c.PageSize = PageSizeDefault
	}
	if c.Parallelism <= 0 {
		c.Parallelism = c.Client.config.Parallelism
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Takeover == 0 {
		c.Takeover = c.Client.config.View.Lease() + c.Client.config.Timeout
	}
	m := &Mover{config: c}
	if c.Ensure == nil {
		m.config.Ensure = m.checkExist
	}
	if c.Settle == nil {
		m.config.Settle = c.Client.settle
	}
	return m, nil
}

// SettleClients returns a Settle for a program that knows all clients of a state: it
// has each of them arrive.
func SettleClients(clients ...*Client) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for _, c := range clients {
			if err := c.config.View.Refresh(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkExist is the default of Ensure.
func (m *Mover) checkExist(ctx context.Context, targets []resolver.Target) error {
	missing, err := m.config.Client.Missing(ctx, targets)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: target %q has no container", resolver.ErrConfig, missing[0].Name)
	}
	return err
}

// Progress says how far a move is. It is saved after each page of items.
type Progress struct {
	Version  int   `json:"version"`
	Revision int64 `json:"revision"`

	// Owner is the Mover at work, "" when none is.
	Owner string `json:"owner,omitempty"`

	Move  string         `json:"move"` // id of the move
	Phase resolver.Phase `json:"phase"`

	// Since is when Verify began, in seconds since 1970.
	Since int64 `json:"since,omitempty"`

	// Scans are the passes of the phase over containers, in order.
	Scans []Scan `json:"scans,omitempty"`

	// Copied, Deleted and Repaired count items over the whole move: copied by Copy,
	// deleted by Clean or Undo, found different by Verify or at the fence. An item may
	// count twice when the Mover died between its copy and the next save.
	Copied   int64   `json:"copied,omitempty"`
	Deleted  int64   `json:"deleted,omitempty"`
	Repaired int64   `json:"repaired,omitempty"`
	Charge   float64 `json:"charge,omitempty"`

	// Pairs is what Verify has compared.
	Pairs []Pair `json:"pairs,omitempty"`
}

// Scan is one pass over a container.
type Scan struct {
	Target string `json:"target"`
	Copies bool   `json:"copies,omitempty"` // looks for copies, not for items that move
	Recent bool   `json:"recent,omitempty"` // looks at items changed since Verify began
	Token  string `json:"token,omitempty"`
	Done   bool   `json:"done,omitempty"`
	Seen   int64  `json:"seen,omitempty"` // items looked at
}

// Pair compares the items that move from one target to another with their copies. The
// hashes are sums over the items' contents; after a pass of Verify both are equal.
type Pair struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Items int64  `json:"items"`

	HashFrom uint64 `json:"hashFrom,string"`
	HashTo   uint64 `json:"hashTo,string"`

	// Missing, Different and Surplus are what Verify found and repaired: items without
	// a copy, with another copy, and copies without an item.
	Missing   int64 `json:"missing,omitempty"`
	Different int64 `json:"different,omitempty"`
	Surplus   int64 `json:"surplus,omitempty"`
}

const progressVersion = 1

// Begin saves the state in which a move to the next plan is prepared. targets are all
// that the next plan uses. Run does the rest.
func (m *Mover) Begin(ctx context.Context, id string, targets []resolver.Target, next resolver.Plan) error {
	state, version, err := resolver.LoadState(ctx, m.config.Store, m.config.Name)
	if err != nil {
		return err
	}
	if state, err = state.Begin(id, targets, next); err != nil {
		return err
	}
	if err := checkAddresses(state.Targets); err != nil {
		return err
	}
	if _, err := m.config.Client.config.View.Routing().With(state); err != nil {
		return err
	}
	if err := m.config.Client.checkPartitionKeys(ctx, state.Targets); err != nil {
		return err
	}
	_, err = resolver.SaveState(ctx, m.config.Store, m.config.Name, state, version)
	return err
}

// checkAddresses refuses two targets in one container: a copy would be the item.
func checkAddresses(targets []resolver.Target) error {
	for i, t := range targets {
		for _, o := range targets[:i] {
			if t.SameAddress(o) {
				return fmt.Errorf("%w: the targets %q and %q are one container", resolver.ErrConfig, o.Name, t.Name)
			}
		}
	}
	return nil
}

// Run carries a move on to its end, whichever way it goes, and returns its progress.
// It may be called again after any error, or by another Mover after the death of this
// one. Without a move it does nothing.
func (m *Mover) Run(ctx context.Context) (Progress, error) {
	defer func() {
		if m.tenure != nil {
			m.tenure.release(ctx)
			m.tenure = nil
		}
	}()
	for {
		progress, more, err := m.Step(ctx)
		if err != nil || !more {
			return progress, err
		}
	}
}

// Step carries out the present phase of a move and enters the next one. more is false
// when no move is under way any more. When somebody else changes the state meanwhile,
// as Undo does, it ends early, and the next Step goes on from there. The Mover holds
// the move until a call of Run ends.
func (m *Mover) Step(ctx context.Context) (progress Progress, more bool, err error) {
	state, version, err := resolver.LoadState(ctx, m.config.Store, m.config.Name)
	if err != nil || state.Move == nil {
		return progress, false, err
	}
	if err := m.take(ctx, state.Move.ID); err != nil {
		return progress, true, err
	}
	// Until it was taken, another Mover may have carried the move on.
	if _, present, err := m.config.Store.Load(ctx, m.config.Name); err != nil || present != version {
		return m.tenure.snapshot(), true, err
	}
	kept, stop := m.tenure.keep(ctx, m.config.Name, version)
	progress, err = m.carry(kept, state)
	cause := context.Cause(kept)
	stop()
	if err != nil {
		if errors.Is(cause, errMoved) {
			return progress, true, nil
		}
		if cause != nil && ctx.Err() == nil {
			err = cause
		}
		return progress, true, fmt.Errorf("phase %s: %w", state.Move.Phase, err)
	}
	return m.enter(ctx, progress, state, version)
}

// carry does what the phase of the state is for, after every client has arrived in it.
func (m *Mover) carry(ctx context.Context, state resolver.State) (Progress, error) {
	if err := m.config.Settle(ctx); err != nil {
		return m.tenure.snapshot(), fmt.Errorf("settle: %w", err)
	}
	routing, err := m.config.Client.config.View.Routing().With(state)
	if err != nil {
		return m.tenure.snapshot(), err
	}
	if !m.keyed {
		targets := routing.Targets()
		if state.Move.Phase == resolver.Undo {
			// Where another key holds there are no copies, and the way back stays open.
			targets = routing.Current().Targets()
		}
		if err := m.config.Client.checkPartitionKeys(ctx, targets); err != nil {
			return m.tenure.snapshot(), err
		}
		m.keyed = state.Move.Phase != resolver.Prepare && state.Move.Phase != resolver.Undo
	}
	w := &work{mover: m, tenure: m.tenure, routing: routing}
	if err := w.load(ctx, state); err != nil {
		return w.progress, err
	}
	return w.progress, w.phase(ctx, state.Move.Phase)
}

// enter saves the state of the next phase, or of the end.
func (m *Mover) enter(ctx context.Context, progress Progress, state resolver.State, version string) (Progress, bool, error) {
	var err error
	if state.Move.Phase.Final() {
		state, err = state.Finish()
	} else {
		state, err = state.Advance(state.Move.Phase.Following())
	}
	if err == nil {
		_, err = resolver.SaveState(ctx, m.config.Store, m.config.Name, state, version)
	}
	if errors.Is(err, resolver.ErrChanged) {
		return progress, true, nil // the next step sees what it is now
	}
	if err == nil && state.Move == nil {
		err = m.config.Settle(ctx)
	}
	return progress, state.Move != nil, err
}

// Undo turns a move back. It is a resolver.ErrConfig after the switch. Run does the
// rest; a Mover that is at work does so by itself.
func (m *Mover) Undo(ctx context.Context) error {
	state, version, err := resolver.LoadState(ctx, m.config.Store, m.config.Name)
	if err != nil {
		return err
	}
	if state, err = state.Advance(resolver.Undo); err != nil {
		return err
	}
	_, err = resolver.SaveState(ctx, m.config.Store, m.config.Name, state, version)
	return err
}

// Progress returns what was saved last, or resolver.ErrNotFound.
func (m *Mover) Progress(ctx context.Context) (Progress, error) {
	progress, _, err := m.loadProgress(ctx)
	return progress, err
}

func (m *Mover) loadProgress(ctx context.Context) (Progress, string, error) {
	return loadProgress(ctx, m.config.Store, m.config.Name)
}

// LoadProgress returns the progress that was saved last of a move of the state of a
// name, or resolver.ErrNotFound. It needs no connection to the containers.
func LoadProgress(ctx context.Context, store resolver.Store, name string) (Progress, error) {
	progress, _, err := loadProgress(ctx, store, name)
	return progress, err
}

func loadProgress(ctx context.Context, store resolver.Store, name string) (Progress, string, error) {
	var progress Progress
	document, version, err := store.Load(ctx, name+"-move")
	if err == nil {
		if json.Unmarshal(document, &progress) != nil || progress.Version != progressVersion {
			err = fmt.Errorf("%w: the progress of a move has version %d, this program knows %d", resolver.ErrConfig, progress.Version, progressVersion)
		}
	}
	return progress, version, err
}

// throttle waits until the figures are within their bounds again.
func (m *Mover) throttle(ctx context.Context, items, charge float64) error {
	m.pace.Lock()
	if m.from.IsZero() {
		m.from = m.config.Now()
	}
	m.done += items
	m.cost += charge
	due := 0.0
	if m.config.ItemsPerSecond > 0 {
		due = m.done / m.config.ItemsPerSecond
	}
	if m.config.ChargePerSecond > 0 {
		due = max(due, m.cost/m.config.ChargePerSecond)
	}
	wait := time.Duration(due*float64(time.Second)) - m.config.Now().Sub(m.from)
	m.pace.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	return m.config.Client.sleep(ctx, wait)
}
