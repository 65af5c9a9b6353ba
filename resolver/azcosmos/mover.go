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

// MoverConfig describes how a move is carried out.
type MoverConfig struct {
	// Client works on the containers. Its view must follow the state of the same
	// name in the same store.
	Client *Client

	// Store and Name locate the state. The progress of a move is stored in the
	// same store under Name with the suffix "-move".
	Store resolver.Store
	Name  string

	// Ensure creates the containers of the next plan. By default they must exist
	// already.
	Ensure func(ctx context.Context, targets []resolver.Target) error

	// Settle returns when every client has seen the saved state and has finished
	// what it began before. The default refreshes Client and then waits for its
	// lease plus its timeout, 15 s with the defaults. That is enough if no
	// client has a longer lease or timeout: a client that loaded the old state
	// just before the save may begin operations under it for one lease, and each
	// of them lasts for at most one timeout. A move settles eight times, which
	// takes two minutes with the defaults; writes of keys that move wait for one
	// of these. If all clients are known, SettleClients avoids the wait.
	Settle func(ctx context.Context) error

	// ItemsPerSecond and ChargePerSecond bound the work on items; the latter is
	// in RU/s. 0 means no bound.
	ItemsPerSecond, ChargePerSecond float64

	// PageSize is the number of items between two saves of the progress. Default
	// PageSizeDefault.
	PageSize int

	// Parallelism is the number of items processed concurrently. Default: that
	// of Client.
	Parallelism int

	// OnProgress is called after each save of the progress. Nil disables it.
	OnProgress func(Progress)

	// Takeover is how long the progress of another Mover must be unchanged
	// before this one takes over its move. Default: the lease plus the timeout
	// of Client, which must be the same for all Movers; a Mover that is only
	// slow has stopped by then. A negative value disables the wait, which is
	// safe only if the other Mover is known to be dead.
	Takeover time.Duration

	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Mover carries out moves from one plan to another. A move survives a crash of
// its Mover at any point: another Mover continues from the saved progress. Only
// one Mover at a time works on a move. A second one fails with
// resolver.ErrChanged; so does one that was paused for a long time, and it
// changes nothing after it wakes up.
//
// A Mover must be used by one goroutine at a time.
type Mover struct {
	config MoverConfig
	lease  *moveLease // nil before the first step
	keyed  bool       // all containers are known to have the client's partition key

	renewEvery time.Duration // interval at which the lease on the move is renewed; 0 means a third of its duration

	pace sync.Mutex
	from time.Time // start of the period that done and cost count; guarded by pace
	done float64   // items since then; guarded by pace
	cost float64   // charge since then; guarded by pace
}

// NewMover returns a mover. The error is a resolver.ErrConfig.
func NewMover(c MoverConfig) (*Mover, error) {
	if c.Client == nil || c.Store == nil || c.Name == "" {
		return nil, fmt.Errorf("%w: a mover needs a client, a store and the name of the state", resolver.ErrConfig)
	}
	if !(c.ItemsPerSecond >= 0 && c.ChargePerSecond >= 0) {
		return nil, fmt.Errorf("%w: a throttle must not be negative", resolver.ErrConfig)
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

// SettleClients returns a Settle function for a program that knows all clients
// of a state. It refreshes each of them.
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

// Progress describes how far a move has advanced. It is saved after each page of
// items.
type Progress struct {
	Version  int   `json:"version"`
	Revision int64 `json:"revision"`

	// Owner is the Mover that works on the move, "" if there is none.
	Owner string `json:"owner,omitempty"`

	Move  string         `json:"move"` // id of the move
	Phase resolver.Phase `json:"phase"`

	// Since is when Verify began, in seconds since 1970.
	Since int64 `json:"since,omitempty"`

	// Scans are the passes of the phase over containers, in order.
	Scans []Scan `json:"scans,omitempty"`

	// Copied, Deleted and Repaired count items over the whole move: copied by
	// Copy, deleted by Clean or Undo, and found different by Verify or Fence. An
	// item may count twice if the Mover crashed between the item and the next
	// save.
	Copied   int64   `json:"copied,omitempty"`
	Deleted  int64   `json:"deleted,omitempty"`
	Repaired int64   `json:"repaired,omitempty"`
	Charge   float64 `json:"charge,omitempty"`

	// Pairs is the result of Verify.
	Pairs []Pair `json:"pairs,omitempty"`
}

// Scan is one pass over a container.
type Scan struct {
	Target string `json:"target"`
	Copies bool   `json:"copies,omitempty"` // scans for copies instead of items that move
	Recent bool   `json:"recent,omitempty"` // scans items changed since Verify began
	Token  string `json:"token,omitempty"`
	Done   bool   `json:"done,omitempty"`
	Seen   int64  `json:"seen,omitempty"` // number of scanned items
}

// Pair compares the items that move from one target to another with their
// copies. The hashes are sums over the contents of the items; they are equal
// after a complete pass of Verify.
type Pair struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Items int64  `json:"items"`

	HashFrom uint64 `json:"hashFrom,string"`
	HashTo   uint64 `json:"hashTo,string"`

	// Missing, Different and Surplus count what Verify found and repaired: items
	// without a copy, items with a different copy, and copies without an item.
	Missing   int64 `json:"missing,omitempty"`
	Different int64 `json:"different,omitempty"`
	Surplus   int64 `json:"surplus,omitempty"`
}

const progressVersion = 1

// Begin saves the state in which a move to the next plan is prepared. targets
// are all targets of the next plan. Call Run to carry out the move.
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

// checkAddresses rejects two targets in one container: there a copy would be the
// item itself.
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

// Run carries a move to its end, forward or back, and returns its progress. It
// may be called again after any error, or by another Mover after a crash.
// Without a move it does nothing.
func (m *Mover) Run(ctx context.Context) (Progress, error) {
	defer func() {
		if m.lease != nil {
			m.lease.release(ctx)
			m.lease = nil
		}
	}()
	for {
		progress, more, err := m.Step(ctx)
		if err != nil || !more {
			return progress, err
		}
	}
}

// Step carries out the current phase of a move and enters the next one. more is
// false if no move is in progress any more. If the state is changed by another
// program, for instance by Undo, Step ends early and the next Step continues
// from the new state. The Mover keeps its lease on the move until a call of Run
// ends.
func (m *Mover) Step(ctx context.Context) (progress Progress, more bool, err error) {
	state, version, err := resolver.LoadState(ctx, m.config.Store, m.config.Name)
	if err != nil || state.Move == nil {
		return progress, false, err
	}
	if err := m.acquire(ctx, state.Move.ID); err != nil {
		return progress, true, err
	}
	// Another Mover may have advanced the move before this one got the lease.
	if _, present, err := m.config.Store.Load(ctx, m.config.Name); err != nil || present != version {
		return m.lease.snapshot(), true, err
	}
	kept, stop := m.lease.keepAlive(ctx, m.config.Name, version)
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

// carry settles and then does the work of the state's phase.
func (m *Mover) carry(ctx context.Context, state resolver.State) (Progress, error) {
	if err := m.config.Settle(ctx); err != nil {
		return m.lease.snapshot(), fmt.Errorf("settle: %w", err)
	}
	routing, err := m.config.Client.config.View.Routing().With(state)
	if err != nil {
		return m.lease.snapshot(), err
	}
	if !m.keyed {
		targets := routing.Targets()
		if state.Move.Phase == resolver.Undo {
			// Containers with another key hold no copies, and undoing must stay
			// possible.
			targets = routing.Current().Targets()
		}
		if err := m.config.Client.checkPartitionKeys(ctx, targets); err != nil {
			return m.lease.snapshot(), err
		}
		m.keyed = state.Move.Phase != resolver.Prepare && state.Move.Phase != resolver.Undo
	}
	w := &work{mover: m, lease: m.lease, routing: routing}
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
		return progress, true, nil // the next step reads the new state
	}
	if err == nil && state.Move == nil {
		err = m.config.Settle(ctx)
	}
	return progress, state.Move != nil, err
}

// Undo turns a move back. The error is a resolver.ErrConfig after Switch. Run
// does the work; a Mover that is running notices by itself.
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

// Progress returns the progress that was saved last, or resolver.ErrNotFound.
func (m *Mover) Progress(ctx context.Context) (Progress, error) {
	progress, _, err := m.loadProgress(ctx)
	return progress, err
}

func (m *Mover) loadProgress(ctx context.Context) (Progress, string, error) {
	return loadProgress(ctx, m.config.Store, m.config.Name)
}

// LoadProgress returns the progress that was saved last for a move of the state
// with that name, or resolver.ErrNotFound. It needs no connection to the
// containers.
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

// throttle adds to the counts and waits until both rates are within their
// bounds.
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
