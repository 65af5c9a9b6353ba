package azcosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// work carries out one phase of a move.
type work struct {
	mover   *Mover
	lease   *moveLease
	routing *resolver.Routing

	mu       sync.Mutex
	progress Progress // guarded by mu while items are processed
}

// load continues the saved progress of the phase, or begins the phase.
func (w *work) load(ctx context.Context, state resolver.State) error {
	w.progress = w.lease.snapshot()
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

// save stores the progress and reports it.
func (w *work) save(ctx context.Context) error {
	if err := w.lease.save(ctx, &w.progress); err != nil {
		return err
	}
	if w.mover.config.OnProgress != nil {
		w.mover.config.OnProgress(w.progress)
	}
	return nil
}

// phase does the work of the phase. DualWrite and Switch only wait until every
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

// recentMargin is how many seconds before the start of Verify a change counts as
// recent, because the service's clock may differ from ours.
const recentMargin = 300

// page processes one page of a scan and saves the progress.
func (w *work) page(ctx context.Context, scan *Scan) error {
	targets := w.routing.Targets()
	i := slices.IndexFunc(targets, func(t resolver.Target) bool { return t.Name == scan.Target })
	if i < 0 {
		return fmt.Errorf("%w: the progress names the unknown target %q", resolver.ErrConfig, scan.Target)
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
		scan.Done = true // the container was never created, so it has no copies
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

// items processes the items of a page, several at once.
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

// item does the work of the phase on one item.
func (w *work) item(ctx context.Context, scan *Scan, document []byte) error {
	ref, err := w.mover.config.Client.refOf(w.routing, document)
	if err != nil {
		return fmt.Errorf("an item of %s: %w", scan.Target, err)
	}
	if _, err := w.routing.Current().ForWrite(ref.Key); err != nil {
		return nil // the plan does not route it: another program put it here, and it stays
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
		return nil // it stays, or is a copy that belongs to another target
	}
	charge := 0.0
	switch w.progress.Phase {
	case resolver.Copy:
		charge, err = w.copy(ctx, from, to, ref)
	case resolver.Verify, resolver.Fence:
		charge, err = w.compare(ctx, scan, from, to, ref)
	default:
		charge, err = w.remove(ctx, here, ref, document)
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
	charge, err := w.mover.config.Client.sync(ctx, w.routing, from, to, ref, nil, w.lease.permit)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.progress.Copied++
	}
	return charge, err
}

// compare reads an item and its copy, makes them equal if they differ, and
// updates the counts of the pair.
func (w *work) compare(ctx context.Context, scan *Scan, from, to resolver.Target, ref Ref) (float64, error) {
	item, copied, charge, err := w.lookAtBoth(ctx, from, to, ref)
	if err != nil {
		return charge, err
	}
	foundItem, foundCopy := item.Value != nil, copied.Value != nil
	equal := equalDocuments(item.Value, copied.Value)
	for attempt := 0; !equalDocuments(item.Value, copied.Value); attempt++ {
		if attempt == syncAttempts {
			return charge, errors.New("it changes too often to be compared")
		}
		cost, err := w.mover.config.Client.sync(ctx, w.routing, from, to, ref, nil, w.lease.permit)
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

// remove deletes a copy that is no longer, or never becomes, the item. It keeps
// another item that has taken its place since the document was read.
func (w *work) remove(ctx context.Context, here resolver.Target, ref Ref, document []byte) (charge float64, err error) {
	client := w.mover.config.Client
	var read struct {
		ETag azcore.ETag `json:"_etag"`
	}
	if err := json.Unmarshal(document, &read); err != nil {
		return 0, fmt.Errorf("read its etag: %w", err)
	}
	for range syncAttempts {
		cost, err := w.removeVersion(ctx, here, ref, read.ETag)
		charge += cost
		if isMissing(err) {
			return charge, nil
		}
		if statusOf(err) != http.StatusPreconditionFailed {
			return charge, err
		}
		item, err := client.lookAt(ctx, here, ref, nil)
		charge += item.Charge
		if err != nil || item.Value == nil {
			return charge, err
		}
		read.ETag = item.ETag
	}
	return charge, errors.New("it changes too often to be removed")
}

func (w *work) removeVersion(ctx context.Context, here resolver.Target, ref Ref, etag azcore.ETag) (float64, error) {
	client := w.mover.config.Client
	charge := 0.0
	err := client.retryThrottled(ctx, func() error {
		ctx, done, err := w.lease.permit(ctx)
		if err != nil {
			return err
		}
		defer done()
		answer, err := client.run(ctx, here, ref, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
			return in.DeleteItem(ctx, pk, ref.ID, &sdk.ItemOptions{IfMatchEtag: &etag})
		})
		charge += answer.Charge
		return err
	})
	if err == nil {
		w.mu.Lock()
		w.progress.Deleted++
		w.mu.Unlock()
	}
	return charge, err
}
