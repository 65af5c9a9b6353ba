package azcosmos

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/decandb/decan/resolver"
)

// moveLease is a Mover's lease on a move. Only its holder changes items for the
// move.
//
// The saved progress names the holder, which saves it again regularly while it
// runs. A holder that could not save for the duration of the lease changes
// nothing more, and the requests it has sent by then end after their timeout. So
// a Mover that sees no change of the progress for duration plus timeout may take
// over by saving it under its own name: the previous holder has no request in
// flight, even if it was only paused and resumes.
type moveLease struct {
	store      resolver.Store
	name       string // of the progress in the store
	owner      string
	duration   time.Duration
	timeout    time.Duration
	renewEvery time.Duration // between two renewals
	now        func() time.Time

	mu      sync.Mutex // serializes saves
	saved   Progress   // its slices are not shared; guarded by mu
	version string     // of saved in the store; guarded by mu
	at      time.Time  // start of the last save that succeeded; guarded by mu
}

// errMoved ends a step whose state was changed by another program, for instance
// by Undo.
var errMoved = errors.New("the state has changed during the step")

// newOwner returns a unique name for a Mover.
func newOwner() string { return rand.Text() }

// save stores the progress under the holder's name. ErrChanged means that
// another Mover holds the lease now.
func (t *moveLease) save(ctx context.Context, progress *Progress) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	progress.Owner = t.owner
	progress.Revision = t.saved.Revision + 1
	return t.putLocked(ctx, *progress)
}

func (t *moveLease) putLocked(ctx context.Context, progress Progress) error {
	document, err := json.Marshal(progress)
	if err != nil {
		return err
	}
	began := t.now()
	version, err := t.store.Save(ctx, t.name, document, t.version)
	if errors.Is(err, resolver.ErrChanged) && t.holdsLocked(ctx) {
		version, err = t.store.Save(ctx, t.name, document, t.version)
	}
	if err != nil {
		return fmt.Errorf("save the progress: %w", err)
	}
	progress.Scans, progress.Pairs = slices.Clone(progress.Scans), slices.Clone(progress.Pairs)
	t.saved, t.version, t.at = progress, version, began
	return nil
}

// holdsLocked reports whether the holder itself changed the stored progress, by
// a save whose answer was lost, and records that version. The end of a step may
// cancel a renewal, and a connection may break.
func (t *moveLease) holdsLocked(ctx context.Context) bool {
	document, version, err := t.store.Load(ctx, t.name)
	var stored Progress
	if err != nil || json.Unmarshal(document, &stored) != nil || stored.Owner != t.owner {
		return false
	}
	t.version = version
	return true
}

// adopt continues from the progress that is stored under the holder's name.
func (t *moveLease) adopt(progress Progress, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved, t.version = progress, version
}

// renew renews the lease: it saves the last progress again.
func (t *moveLease) renew(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	progress := t.saved
	progress.Revision++
	return t.putLocked(ctx, progress)
}

// snapshot returns the progress that was saved last. The caller owns its slices.
func (t *moveLease) snapshot() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	progress := t.saved
	progress.Scans, progress.Pairs = slices.Clone(progress.Scans), slices.Clone(progress.Pairs)
	return progress
}

// lapsed reports whether the last save is too old to act on.
func (t *moveLease) lapsed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return resolver.Elapsed(t.at, t.now()) >= t.duration
}

// permit allows one request that changes an item, and bounds its time. It renews
// the lease first if it has expired.
func (t *moveLease) permit(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if t.lapsed() {
		if err := t.renew(ctx); err != nil {
			return nil, nil, err
		}
		if t.lapsed() {
			return nil, nil, fmt.Errorf("%w: saving the progress took longer than the lease of %v", resolver.ErrStale, t.duration)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	return ctx, cancel, nil
}

// keepAlive renews the lease until stop is called; stop waits for the last renewal.
// The returned context ends, with the reason as its cause, when the lease is
// lost or the state no longer has the given version.
func (t *moveLease) keepAlive(ctx context.Context, state, version string) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(t.renewEvery)
		defer ticker.Stop()
		for {
			select {
			case <-kept.Done():
				return
			case <-ticker.C:
			}
			// permit handles other errors of the store when the lease expires.
			err := t.renew(kept)
			if errors.Is(err, resolver.ErrChanged) {
				cancel(err)
			}
			if _, present, err := t.store.Load(kept, state); err == nil && present != version {
				cancel(errMoved)
			}
		}
	})
	return kept, func() {
		cancel(nil)
		done.Wait()
	}
}

// release lets another Mover take the move without waiting. If release fails,
// that Mover waits.
func (t *moveLease) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	progress := t.saved
	progress.Owner = ""
	progress.Revision++
	_ = t.putLocked(ctx, progress)
}

// acquire gives the Mover the lease on the move.
func (m *Mover) acquire(ctx context.Context, move string) error {
	progress, version, err := m.loadProgress(ctx)
	if err != nil && !errors.Is(err, resolver.ErrNotFound) {
		return err
	}
	if m.lease != nil && progress.Owner == m.lease.owner {
		m.lease.adopt(progress, version)
		return nil
	}
	if progress.Owner != "" && progress.Move == move {
		if progress, version, err = m.waitForOwner(ctx, progress, version); err != nil {
			return err
		}
	}
	lease := m.config.Client.config.View.Lease()
	if lease <= 0 {
		lease = resolver.LeaseDefault
	}
	if progress.Move != move {
		progress = Progress{Version: progressVersion, Revision: progress.Revision, Move: move}
	}
	t := &moveLease{
		store: m.config.Store, name: m.config.Name + "-move", owner: newOwner(),
		duration: lease, timeout: m.config.Client.config.Timeout, now: m.config.Now,
		renewEvery: max(cmp.Or(m.renewEvery, lease/3), time.Millisecond),
		saved:      progress, version: version,
	}
	m.lease = t // even if the answer is lost, so that Run releases it
	return t.save(ctx, &progress)
}

// waitForOwner returns the progress of another Mover once it has been unchanged for
// Takeover or its Mover has released the move. The error is ErrChanged if the
// other Mover is working.
func (m *Mover) waitForOwner(ctx context.Context, progress Progress, version string) (Progress, string, error) {
	pause := max(min(m.config.Client.config.View.Lease(), m.config.Takeover)/4, time.Millisecond)
	for waited := time.Duration(0); waited < m.config.Takeover; waited += pause {
		if err := m.config.Client.sleep(ctx, pause); err != nil {
			return progress, version, err
		}
		now, present, err := m.loadProgress(ctx)
		if err != nil {
			return now, present, err
		}
		if now.Owner == "" || now.Move != progress.Move {
			return now, present, nil
		}
		if present != version {
			return now, present, fmt.Errorf("%w: another Mover is at work on the move %s", resolver.ErrChanged, progress.Move)
		}
	}
	return progress, version, nil
}
