package azcosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// Ref names an item.
type Ref struct {
	// Key is the routing key.
	Key resolver.Key

	// PartitionKey is the partition key in the container. Empty: the same as Key.
	PartitionKey resolver.Key

	ID string

	// Target is where the item was last seen, "" when that is not known. A call goes
	// there without asking the resolver, unless a move is under way; it asks when the
	// item is not there.
	Target string
}

// Item is the answer to an operation on an item.
type Item struct {
	// Value is the item's JSON, or nil when the service sent none: after a delete, and
	// after a write without EnableContentResponseOnWrite.
	Value []byte

	Ref    Ref
	ETag   azcore.ETag
	Charge float64 // of everything that was sent

	// Response is the SDK's answer of the target that decides.
	Response sdk.ItemResponse
}

// RefOf returns the Ref of a document. The error is a resolver.ErrKey.
func (c *Client) RefOf(document []byte) (Ref, error) {
	return c.refOf(c.config.View.Routing(), document)
}

func (c *Client) refOf(routing *resolver.Routing, document []byte) (Ref, error) {
	key, err := routing.Key(document)
	if err != nil {
		return Ref{}, err
	}
	partition, err := c.partition(document)
	if err != nil {
		return Ref{}, err
	}
	var identified struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(document, &identified); err != nil || identified.ID == "" {
		return Ref{}, fmt.Errorf("%w: the document has no id", resolver.ErrKey)
	}
	return Ref{Key: key, PartitionKey: partition, ID: identified.ID}, nil
}

// Create creates an item in the target of its key. options may be nil, here and
// everywhere.
func (c *Client) Create(ctx context.Context, document []byte, options *sdk.ItemOptions) (Item, error) {
	ref, err := c.RefOf(document)
	if err != nil {
		return Item{}, err
	}
	return c.change(ctx, ref, false, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.CreateItem(ctx, pk, document, options)
	})
}

// Upsert creates or replaces an item. Where its key may be in several targets, as
// with a spillover, it replaces the item it finds.
func (c *Client) Upsert(ctx context.Context, document []byte, options *sdk.ItemOptions) (Item, error) {
	ref, err := c.RefOf(document)
	if err != nil {
		return Item{}, err
	}
	return c.change(ctx, ref, false, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.UpsertItem(ctx, pk, document, options)
	})
}

// Replace replaces an item. Its routing key cannot change: with another one, the item
// is not found.
func (c *Client) Replace(ctx context.Context, document []byte, options *sdk.ItemOptions) (Item, error) {
	ref, err := c.RefOf(document)
	if err != nil {
		return Item{}, err
	}
	return c.ReplaceAt(ctx, ref, document, options)
}

// ReplaceAt is Replace of an item that was read or found before, at the target named
// there.
func (c *Client) ReplaceAt(ctx context.Context, ref Ref, document []byte, options *sdk.ItemOptions) (Item, error) {
	return c.change(ctx, ref, true, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.ReplaceItem(ctx, pk, ref.ID, document, options)
	})
}

// Patch changes parts of an item. They must not be parts of its keys.
func (c *Client) Patch(ctx context.Context, ref Ref, patch sdk.PatchOperations, options *sdk.ItemOptions) (Item, error) {
	return c.change(ctx, ref, true, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.PatchItem(ctx, pk, ref.ID, patch, options)
	})
}

// Delete deletes an item.
func (c *Client) Delete(ctx context.Context, ref Ref, options *sdk.ItemOptions) (Item, error) {
	return c.change(ctx, ref, true, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.DeleteItem(ctx, pk, ref.ID, options)
	})
}

// operation is one request about an item to one container.
type operation func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error)

// change runs a write. existing says that the item has to be there, so that several
// targets can be tried.
func (c *Client) change(ctx context.Context, ref Ref, existing bool, op operation) (Item, error) {
	if ref.PartitionKey.Len() == 0 {
		ref.PartitionKey = ref.Key
	}
	var item Item
	err := c.routed(ctx, ref.Key, func(ctx context.Context, routing *resolver.Routing, route resolver.Route) error {
		var err error
		item, err = c.changeBy(ctx, routing, route, ref, existing, op)
		return err
	})
	return item, err
}

// routed calls f with the route of a key, and waits while a move hands the key over.
// Between the call and the end of f, the move does not go on by more than one phase.
func (c *Client) routed(ctx context.Context, key resolver.Key, f func(context.Context, *resolver.Routing, resolver.Route) error) error {
	waited := time.Duration(0)
	for {
		routing, done, err := c.config.View.Begin(ctx)
		if err != nil {
			return err
		}
		route, err := routing.Route(key)
		if err == nil {
			bounded, cancel := c.bounded(ctx)
			err = f(bounded, routing, route)
			cancel()
		}
		done()
		held, migrating := errors.AsType[*resolver.MigratingError](err)
		if !migrating || waited >= c.config.FenceWait {
			return err
		}
		pause := min(held.RetryAfter, 100*time.Millisecond)
		waited += pause
		if err := c.sleep(ctx, pause); err != nil {
			return errors.Join(held, err)
		}
		// An error leaves the client at the state it has, until the lease is over.
		_ = c.config.View.Refresh(ctx)
	}
}

// bounded limits an operation to the timeout, if its routing may ever change.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.config.View.Lease() == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.config.Timeout)
}

// changeBy runs a write along a route, and brings the second copy up to date.
func (c *Client) changeBy(ctx context.Context, routing *resolver.Routing, route resolver.Route, ref Ref, existing bool, op operation) (Item, error) {
	candidates := []resolver.Target{route.First}
	if routing.State.Move == nil {
		var err error
		if candidates, err = c.candidates(routing, ref, route.First); err != nil {
			return Item{}, err
		}
	}
	if !existing && len(candidates) > 1 {
		// Whether the item is new decides where it goes.
		found, err := c.firstFound(ctx, candidates, ref, readOperation(ref.ID, nil))
		if err != nil && statusOf(err) != http.StatusNotFound {
			return found, err
		}
		candidates = []resolver.Target{route.First}
		if err == nil {
			candidates = slices.DeleteFunc(routing.Targets(), func(t resolver.Target) bool { return t.Name != found.Ref.Target })
		}
	}
	item, err := c.firstFound(ctx, candidates, ref, op)
	if err != nil || !route.Moves {
		return item, err
	}
	charge, err := c.sync(ctx, routing, route.First, route.Second, ref, item.Response.SessionToken, permitted)
	item.Charge += charge
	if err != nil {
		return item, fmt.Errorf("the item is changed in %s, but its copy in %s is not confirmed, so repeat the change: %w", route.First.Name, route.Second.Name, err)
	}
	return item, nil
}

// candidates returns where an item may be: first where it was last seen, then by its
// key, new containers before old ones.
func (c *Client) candidates(routing *resolver.Routing, ref Ref, owner resolver.Target) ([]resolver.Target, error) {
	var list []resolver.Target
	if ref.Target != "" && ref.Target != owner.Name {
		list = slices.DeleteFunc(routing.Targets(), func(t resolver.Target) bool { return t.Name != ref.Target })
	}
	list = append(list, owner)
	others, err := routing.ForRead(resolver.Keys(ref.Key))
	slices.Reverse(others)
	for _, t := range others {
		if !slices.ContainsFunc(list, func(have resolver.Target) bool { return have.Name == t.Name }) {
			list = append(list, t)
		}
	}
	return list, err
}

// firstFound runs an operation in one target after the other until one has the item.
func (c *Client) firstFound(ctx context.Context, candidates []resolver.Target, ref Ref, op operation) (Item, error) {
	charge := 0.0
	var item Item
	err := fmt.Errorf("%w: no target may have the item", resolver.ErrNoTarget)
	for _, target := range candidates {
		item, err = c.run(ctx, target, ref, op)
		charge += item.Charge
		if statusOf(err) != http.StatusNotFound {
			break
		}
	}
	item.Charge = charge
	return item, err
}

// run sends one operation to one target.
func (c *Client) run(ctx context.Context, target resolver.Target, ref Ref, op operation) (Item, error) {
	container, err := c.container(target)
	if err != nil {
		return Item{}, err
	}
	pk, err := partitionKey(ref.PartitionKey)
	if err != nil {
		return Item{}, err
	}
	response, err := op(ctx, container, pk)
	ref.Target = target.Name
	return Item{Value: response.Value, Ref: ref, ETag: response.ETag, Charge: charged(response, err), Response: response}, err
}

// charged returns what a request cost, also one that failed.
func charged(response sdk.ItemResponse, err error) float64 {
	if err == nil {
		return float64(response.RequestCharge)
	}
	return chargeOf(err)
}

func readOperation(id string, options *sdk.ItemOptions) operation {
	return func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.ReadItem(ctx, pk, id, options)
	}
}

// Read reads an item. A missing one is the SDK's error with status 404.
func (c *Client) Read(ctx context.Context, ref Ref, options *sdk.ItemOptions) (Item, error) {
	if ref.PartitionKey.Len() == 0 {
		ref.PartitionKey = ref.Key
	}
	routing, done, err := c.config.View.Begin(ctx)
	if err != nil {
		return Item{}, err
	}
	defer done()
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	op := readOperation(ref.ID, options)
	mode, _ := routing.Modes()
	if mode == resolver.ReadBoth {
		return c.readBoth(ctx, routing, ref, op)
	}
	owners, err := routing.ForRead(resolver.Keys(ref.Key))
	if err != nil {
		return Item{}, err
	}
	if routing.State.Move == nil && ref.Target != "" && len(owners) > 0 {
		if owners, err = c.candidates(routing, ref, owners[len(owners)-1]); err != nil {
			return Item{}, err
		}
	} else {
		slices.Reverse(owners)
	}
	return c.firstFound(ctx, owners, ref, op)
}

// readBoth reads both copies and returns the newer one, the next plan's when they are
// of the same second.
func (c *Client) readBoth(ctx context.Context, routing *resolver.Routing, ref Ref, op operation) (Item, error) {
	from, to, err := routing.Moves(ref.Key)
	if err != nil {
		return Item{}, err
	}
	next, err := c.firstFound(ctx, []resolver.Target{to}, ref, op)
	if from.Name == to.Name || err != nil && statusOf(err) != http.StatusNotFound {
		return next, err
	}
	current, currentErr := c.firstFound(ctx, []resolver.Target{from}, ref, op)
	chosen, chosenErr := next, err
	if currentErr == nil && (err != nil || timestampOf(current.Value) > timestampOf(next.Value)) || err != nil {
		chosen, chosenErr = current, currentErr
	}
	chosen.Charge = current.Charge + next.Charge
	return chosen, chosenErr
}

func timestampOf(document []byte) float64 {
	var stamped struct {
		TS float64 `json:"_ts"`
	}
	// A document without a time is the older one.
	_ = json.Unmarshal(document, &stamped)
	return stamped.TS
}
