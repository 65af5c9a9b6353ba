package azcosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

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
		m.config.Settle = m.wait
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

// wait is the default of Settle.
func (m *Mover) wait(ctx context.Context) error {
	if err := m.config.Client.config.View.Refresh(ctx); err != nil {
		return err
	}
	return m.config.Client.sleep(ctx, m.config.Client.config.View.Lease()+m.config.Client.config.Timeout)
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

// work is one phase of a move being carried out.
type work struct {
	mover   *Mover
	tenure  *tenure
	routing *resolver.Routing

	mu       sync.Mutex
	progress Progress // guarded by mu while items are worked on
}

// load takes up the progress of the phase, or begins it.
func (w *work) load(ctx context.Context, state resolver.State) error {
	w.progress = w.tenure.snapshot()
	if w.progress.Phase == state.Move.Phase {
		return nil
	}
	w.progress.Phase = state.Move.Phase
	w.progress.Scans = w.scans(state.Move.Phase)
	if state.Move.Phase == resolver.Verify {
		w.progress.Since = w.mover.config.Now().Unix()
		w.progress.Pairs = nil
	}
	return w.save(ctx)
}

// scans returns the passes of a phase.
func (w *work) scans(phase resolver.Phase) []Scan {
	var scans []Scan
	add := func(targets []resolver.Target, like Scan) {
		for _, t := range targets {
			like.Target = t.Name
			scans = append(scans, like)
		}
	}
	current, next := w.routing.Current().Targets(), w.routing.Next().Targets()
	switch phase {
	case resolver.Copy, resolver.Clean:
		add(current, Scan{})
	case resolver.Verify:
		add(current, Scan{})
		add(next, Scan{Copies: true})
	case resolver.Fence:
		add(current, Scan{Recent: true})
		add(next, Scan{Copies: true, Recent: true})
	case resolver.Undo:
		add(next, Scan{Copies: true})
	}
	return scans
}

// save keeps the progress and tells of it.
func (w *work) save(ctx context.Context) error {
	if err := w.tenure.save(ctx, &w.progress); err != nil {
		return err
	}
	if w.mover.config.OnProgress != nil {
		w.mover.config.OnProgress(w.progress)
	}
	return nil
}

// phase does what the phase is for. DualWrite and Switch need nothing but that every
// client has arrived.
func (w *work) phase(ctx context.Context, phase resolver.Phase) error {
	if phase == resolver.Prepare {
		return w.mover.config.Ensure(ctx, w.routing.Next().Targets())
	}
	for i := range w.progress.Scans {
		for !w.progress.Scans[i].Done {
			if err := w.page(ctx, &w.progress.Scans[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// recentMargin is added to what counts as changed since Verify began, because the
// service's clock is not this one.
const recentMargin = 300

// page works on one page of a scan and saves the progress.
func (w *work) page(ctx context.Context, scan *Scan) error {
	targets := w.routing.Targets()
	i := slices.IndexFunc(targets, func(t resolver.Target) bool { return t.Name == scan.Target })
	if i < 0 {
		return fmt.Errorf("%w: the progress names the target %q", resolver.ErrConfig, scan.Target)
	}
	container, err := w.mover.config.Client.container(targets[i])
	if err != nil {
		return err
	}
	text := "SELECT * FROM c"
	options := &sdk.QueryOptions{PageSizeHint: int32(min(w.mover.config.PageSize, 1<<30))} // #nosec G115 -- bounded
	if scan.Recent {
		text += " WHERE c._ts >= @since"
		options.QueryParameters = []sdk.QueryParameter{{Name: "@since", Value: w.progress.Since - recentMargin}}
	}
	if scan.Token != "" {
		options.ContinuationToken = &scan.Token
	}
	var page sdk.QueryItemsResponse
	err = w.mover.config.Client.retryThrottled(ctx, func() error {
		page, err = container.NewQueryItemsPager(text, sdk.NewPartitionKey(), options).NextPage(ctx)
		return err
	})
	if w.progress.Phase == resolver.Undo && statusOf(err) == http.StatusNotFound {
		scan.Done = true // the container was never made, so it has no copies
		return w.save(ctx)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", scan.Target, err)
	}
	w.progress.Charge += float64(page.RequestCharge)
	if err := w.mover.throttle(ctx, 0, float64(page.RequestCharge)); err != nil {
		return err
	}
	if err := w.items(ctx, scan, page.Items); err != nil {
		return err
	}
	scan.Seen += int64(len(page.Items))
	scan.Token, scan.Done = "", page.ContinuationToken == nil
	if !scan.Done {
		scan.Token = *page.ContinuationToken
	}
	return w.save(ctx)
}

// items works on the items of a page, some at once.
func (w *work) items(ctx context.Context, scan *Scan, items [][]byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	slots := make(chan struct{}, w.mover.config.Parallelism)
	for _, document := range items {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			if err := w.item(ctx, scan, document); err != nil {
				cancel(err)
			}
			<-slots
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// item does to one item what the phase does.
func (w *work) item(ctx context.Context, scan *Scan, document []byte) error {
	ref, err := w.mover.config.Client.refOf(w.routing, document)
	if err != nil {
		return fmt.Errorf("an item of %s: %w", scan.Target, err)
	}
	if _, err := w.routing.Current().ForWrite(ref.Key); err != nil {
		return nil // nothing routes it, so it was put here by other means and stays
	}
	from, to, err := w.routing.Moves(ref.Key)
	if err != nil {
		return fmt.Errorf("item %s of %s in the next plan: %w", ref.ID, scan.Target, err)
	}
	here := from
	if scan.Copies {
		here = to
	}
	if from.Name == to.Name || here.Name != scan.Target {
		return nil // it stays, or is a copy of another target's
	}
	charge := 0.0
	switch w.progress.Phase {
	case resolver.Copy:
		charge, err = w.copy(ctx, from, to, ref)
	case resolver.Verify, resolver.Fence:
		charge, err = w.compare(ctx, scan, from, to, ref)
	default:
		charge, err = w.remove(ctx, here, ref)
	}
	w.mu.Lock()
	w.progress.Charge += charge
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("item %s from %s to %s: %w", ref.ID, from.Name, to.Name, err)
	}
	return w.mover.throttle(ctx, 1, charge)
}

func (w *work) copy(ctx context.Context, from, to resolver.Target, ref Ref) (float64, error) {
	charge, err := w.mover.config.Client.sync(ctx, w.routing, from, to, ref, nil, w.tenure.permit)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.progress.Copied++
	}
	return charge, err
}

// compare looks at an item and its copy, makes them equal when they are not, and keeps
// the figures of the pair.
func (w *work) compare(ctx context.Context, scan *Scan, from, to resolver.Target, ref Ref) (float64, error) {
	item, copied, charge, err := w.lookAtBoth(ctx, from, to, ref)
	if err != nil {
		return charge, err
	}
	foundItem, foundCopy := item.Value != nil, copied.Value != nil
	equal := equalDocuments(item.Value, copied.Value)
	for attempt := 0; !equalDocuments(item.Value, copied.Value); attempt++ {
		if attempt == syncAttempts {
			return charge, errors.New("it changes too fast to be compared")
		}
		cost, err := w.mover.config.Client.sync(ctx, w.routing, from, to, ref, nil, w.tenure.permit)
		charge += cost
		if err == nil {
			item, copied, cost, err = w.lookAtBoth(ctx, from, to, ref)
			charge += cost
		}
		if err != nil {
			return charge, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pair := w.pair(from.Name, to.Name)
	if !scan.Copies && !scan.Recent && item.Value != nil {
		pair.Items++
		pair.HashFrom += documentHash(item.Value)
		pair.HashTo += documentHash(copied.Value)
	}
	if equal {
		return charge, nil
	}
	w.progress.Repaired++
	switch {
	case !foundItem:
		pair.Surplus++
	case !foundCopy:
		pair.Missing++
	default:
		pair.Different++
	}
	return charge, nil
}

func (w *work) lookAtBoth(ctx context.Context, from, to resolver.Target, ref Ref) (item, copied Item, charge float64, err error) {
	client := w.mover.config.Client
	if item, err = client.lookAt(ctx, from, ref, nil); err == nil {
		copied, err = client.lookAt(ctx, to, ref, nil)
	}
	return item, copied, item.Charge + copied.Charge, err
}

func (w *work) pair(from, to string) *Pair {
	i := slices.IndexFunc(w.progress.Pairs, func(p Pair) bool { return p.From == from && p.To == to })
	if i < 0 {
		w.progress.Pairs = append(w.progress.Pairs, Pair{From: from, To: to})
		i = len(w.progress.Pairs) - 1
	}
	return &w.progress.Pairs[i]
}

// remove deletes what is no longer, or never will be, the item.
func (w *work) remove(ctx context.Context, here resolver.Target, ref Ref) (float64, error) {
	client := w.mover.config.Client
	charge := 0.0
	err := client.retryThrottled(ctx, func() error {
		ctx, done, err := w.tenure.permit(ctx)
		if err != nil {
			return err
		}
		defer done()
		answer, err := client.run(ctx, here, ref, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
			return in.DeleteItem(ctx, pk, ref.ID, nil)
		})
		charge += answer.Charge
		return err
	})
	if statusOf(err) == http.StatusNotFound {
		return charge, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.progress.Deleted++
	}
	return charge, err
}
