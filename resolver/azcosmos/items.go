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

// Ref identifies an item.
type Ref struct {
	// Key is the routing key.
	Key resolver.Key

	// PartitionKey is the partition key in the container. If it is empty, it
	// equals Key.
	PartitionKey resolver.Key

	ID string

	// Target is where the item was last seen, "" if unknown. Unless a move is in
	// progress, an operation goes to that target without asking the resolver,
	// and asks the resolver only if the item is not there. So an item is found
	// even if the plan no longer routes its key.
	Target string
}

// Item is the result of an operation on an item.
type Item struct {
	// Value is the item's JSON. It is nil if the service sent none: after a
	// delete, and after a write without EnableContentResponseOnWrite.
	Value []byte

	Ref    Ref
	ETag   azcore.ETag
	Charge float64 // of all requests that were sent

	// Response is the SDK's response of the target that decides.
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
// in the other methods.
func (c *Client) Create(ctx context.Context, document []byte, options *sdk.ItemOptions) (Item, error) {
	ref, err := c.RefOf(document)
	if err != nil {
		return Item{}, err
	}
	return c.change(ctx, ref, c.put, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.CreateItem(ctx, pk, document, options)
	})
}

// Upsert creates or replaces an item. If its key may be in several targets, as
// with a spillover, it replaces the item that it finds.
func (c *Client) Upsert(ctx context.Context, document []byte, options *sdk.ItemOptions) (Item, error) {
	ref, err := c.RefOf(document)
	if err != nil {
		return Item{}, err
	}
	return c.change(ctx, ref, c.put, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.UpsertItem(ctx, pk, document, options)
	})
}

// Replace replaces an item. The routing key cannot change: an item with another
// key is not found.
func (c *Client) Replace(ctx context.Context, document []byte, options *sdk.ItemOptions) (Item, error) {
	ref, err := c.RefOf(document)
	if err != nil {
		return Item{}, err
	}
	return c.change(ctx, ref, c.changeFound, replaceOperation(ref.ID, document, options))
}

func replaceOperation(id string, document []byte, options *sdk.ItemOptions) operation {
	return func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.ReplaceItem(ctx, pk, id, document, options)
	}
}

// ReplaceAt replaces an item that was read before, in the target of its Ref. The
// error is a resolver.ErrKey if the key of the document belongs to another
// target than the Ref's, now or after the move in progress: no read by that key
// would find it.
func (c *Client) ReplaceAt(ctx context.Context, ref Ref, document []byte, options *sdk.ItemOptions) (Item, error) {
	replace := func(ctx context.Context, routing *resolver.Routing, ref Ref, op operation) (Item, error) {
		if err := staysInPlace(routing, ref, document); err != nil {
			return Item{}, err
		}
		return c.changeFound(ctx, routing, ref, op)
	}
	return c.change(ctx, ref, replace, replaceOperation(ref.ID, document, options))
}

// staysInPlace returns an ErrKey if the document does not belong in the target
// of the item that it replaces.
func staysInPlace(routing *resolver.Routing, ref Ref, document []byte) error {
	key, err := routing.Key(document)
	if err != nil || key.Equal(ref.Key) {
		return err
	}
	from, to, err := routing.Moves(key)
	if err != nil {
		return fmt.Errorf("%w: the plan does not route the document: %w", resolver.ErrKey, err)
	}
	itemFrom, itemTo, err := routing.Moves(ref.Key)
	if seen, known := lastSeen(routing, ref); known && errors.Is(err, resolver.ErrNoTarget) {
		itemFrom, itemTo, err = seen, seen, nil
	}
	if err == nil && (from.Name != itemFrom.Name || to.Name != itemTo.Name) {
		err = fmt.Errorf("%w: the document with the key %v belongs to %s, but the item with the key %v belongs to %s", resolver.ErrKey, key, to.Name, ref.Key, itemTo.Name)
	}
	return err
}

// Patch changes parts of an item. It must not change the parts that form its
// keys.
func (c *Client) Patch(ctx context.Context, ref Ref, patch sdk.PatchOperations, options *sdk.ItemOptions) (Item, error) {
	return c.change(ctx, ref, c.changeFound, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.PatchItem(ctx, pk, ref.ID, patch, options)
	})
}

// Delete deletes an item.
func (c *Client) Delete(ctx context.Context, ref Ref, options *sdk.ItemOptions) (Item, error) {
	return c.change(ctx, ref, c.changeFound, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
		return in.DeleteItem(ctx, pk, ref.ID, options)
	})
}

// operation is one request for an item to one container.
type operation func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error)

// change runs a write of an item under the current routing, in the given way.
func (c *Client) change(ctx context.Context, ref Ref, way func(context.Context, *resolver.Routing, Ref, operation) (Item, error), op operation) (Item, error) {
	if ref.PartitionKey.Len() == 0 {
		ref.PartitionKey = ref.Key
	}
	var item Item
	err := c.routed(ctx, func(ctx context.Context, routing *resolver.Routing) error {
		var err error
		item, err = way(ctx, routing, ref, op)
		return err
	})
	return item, err
}

// routed calls f with the current routing. It calls f again while f fails
// because a move hands over the key. From the call to the end of f, the move
// advances by at most one phase.
func (c *Client) routed(ctx context.Context, f func(context.Context, *resolver.Routing) error) error {
	waited := time.Duration(0)
	for {
		routing, done, err := c.config.View.Begin(ctx)
		if err != nil {
			return err
		}
		bounded, cancel := c.bounded(ctx)
		err = f(bounded, routing)
		cancel()
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
		// After an error the client keeps its state until the lease expires.
		_ = c.config.View.Refresh(ctx)
	}
}

// bounded applies the timeout to an operation if its routing can change.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.config.View.Lease() == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.config.Timeout)
}

// put runs a write of an item that may be new.
func (c *Client) put(ctx context.Context, routing *resolver.Routing, ref Ref, op operation) (Item, error) {
	if routing.State.Move != nil {
		return c.changeMoving(ctx, routing, ref, op)
	}
	targets, err := candidates(routing, ref.Key)
	if err != nil {
		return Item{}, err
	}
	if len(targets) == 1 {
		return c.run(ctx, targets[0], ref, op)
	}
	// The target depends on whether the item exists.
	found, err := c.firstFound(ctx, targets, ref, readOperation(ref.ID, nil))
	if err != nil && !isMissing(err) {
		return found, err
	}
	target := targets[0]
	if err == nil {
		target = targets[slices.IndexFunc(targets, named(found.Ref.Target))]
	}
	item, err := c.run(ctx, target, ref, op)
	item.Charge += found.Charge
	return item, err
}

// changeFound runs a write of an item that must exist.
func (c *Client) changeFound(ctx context.Context, routing *resolver.Routing, ref Ref, op operation) (Item, error) {
	if routing.State.Move != nil {
		return c.changeMoving(ctx, routing, ref, op)
	}
	return c.find(ctx, routing, ref, op, func() ([]resolver.Target, error) { return candidates(routing, ref.Key) })
}

// changeMoving runs a write during a move, and updates the second copy.
func (c *Client) changeMoving(ctx context.Context, routing *resolver.Routing, ref Ref, op operation) (Item, error) {
	route, err := routing.Route(ref.Key)
	if err != nil {
		return Item{}, err
	}
	item, err := c.run(ctx, route.First, ref, op)
	if !route.Moves || err != nil && !isRefused(statusOf(err)) {
		return item, err
	}
	session := item.Response.SessionToken
	if err != nil {
		session = sessionOf(err)
	}
	charge, syncErr := c.sync(ctx, routing, route.First, route.Second, ref, session, permitted)
	item.Charge += charge
	if syncErr == nil {
		return item, err
	}
	done := "changed"
	if err != nil {
		done = fmt.Sprintf("not changed (status %d)", statusOf(err))
	}
	return item, fmt.Errorf("the item is %s in %s, but its copy in %s is not confirmed, so repeat the change: %w", done, route.First.Name, route.Second.Name, syncErr)
}

// isRefused reports whether a status means that a change does not fit the
// current item. The request may repeat a change that succeeded without updating
// the copy. So the copy must be updated before the caller may rely on the
// result.
func isRefused(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed:
		return true
	}
	return false
}

// lastSeen returns the target that a Ref names. It returns none during a move.
func lastSeen(routing *resolver.Routing, ref Ref) (resolver.Target, bool) {
	if routing.State.Move != nil || ref.Target == "" {
		return resolver.Target{}, false
	}
	targets := routing.Targets()
	i := slices.IndexFunc(targets, named(ref.Target))
	if i < 0 {
		return resolver.Target{}, false
	}
	return targets[i], true
}

// named returns a predicate for targets with the name.
func named(name string) func(resolver.Target) bool {
	return func(t resolver.Target) bool { return t.Name == name }
}

// candidates returns the targets that may hold an item of a key: first the one
// for writes, then the others from the newest container to the oldest.
func candidates(routing *resolver.Routing, key resolver.Key) ([]resolver.Target, error) {
	owner, err := routing.ForWrite(key)
	if err != nil {
		return nil, err
	}
	list := []resolver.Target{owner}
	others, err := routing.ForRead(resolver.Keys(key))
	for _, t := range slices.Backward(others) {
		if !slices.ContainsFunc(list, named(t.Name)) {
			list = append(list, t)
		}
	}
	return list, err
}

// find runs an operation on an item that must exist: first in the target where
// it was last seen, without asking the resolver, then in the targets that
// elsewhere returns.
func (c *Client) find(ctx context.Context, routing *resolver.Routing, ref Ref, op operation, elsewhere func() ([]resolver.Target, error)) (Item, error) {
	seen, known := lastSeen(routing, ref)
	var item Item
	var err error
	if known {
		if item, err = c.run(ctx, seen, ref, op); !isMissing(err) {
			return item, err
		}
	}
	others, errElsewhere := elsewhere()
	others = slices.DeleteFunc(others, named(seen.Name))
	if known && (errors.Is(errElsewhere, resolver.ErrNoTarget) || errElsewhere == nil && len(others) == 0) {
		return item, err
	}
	if errElsewhere != nil {
		return item, errElsewhere
	}
	charge := item.Charge
	item, err = c.firstFound(ctx, others, ref, op)
	item.Charge += charge
	return item, err
}

// firstFound tries an operation in one target after another until one of them
// has the item.
func (c *Client) firstFound(ctx context.Context, targets []resolver.Target, ref Ref, op operation) (Item, error) {
	charge := 0.0
	var item Item
	err := fmt.Errorf("%w: no target can hold the item", resolver.ErrNoTarget)
	for _, target := range targets {
		item, err = c.run(ctx, target, ref, op)
		charge += item.Charge
		if !isMissing(err) {
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

// charged returns the charge of a request, whether or not it succeeded.
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

// Read reads an item. If it does not exist, the error is the SDK's with status
// 404.
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
	return c.find(ctx, routing, ref, op, func() ([]resolver.Target, error) {
		owners, err := routing.ForRead(resolver.Keys(ref.Key))
		slices.Reverse(owners)
		return owners, err
	})
}

// readBoth reads both copies and returns the newer one, or the one of the next
// plan if their timestamps are equal. It ignores another item in the place of
// the copy.
func (c *Client) readBoth(ctx context.Context, routing *resolver.Routing, ref Ref, op operation) (Item, error) {
	from, to, err := routing.Moves(ref.Key)
	if err != nil {
		return Item{}, err
	}
	next, err := c.run(ctx, to, ref, op)
	if from.Name == to.Name || err != nil && !isMissing(err) {
		return next, err
	}
	current, errCurrent := c.run(ctx, from, ref, op)
	charge := current.Charge + next.Charge
	chosen := next
	if isCopy := err == nil && movesAlike(routing, next.Value, ref.Key); !isCopy || errCurrent == nil && timestampOf(current.Value) > timestampOf(next.Value) {
		chosen, err = current, errCurrent
	}
	chosen.Charge = charge
	return chosen, err
}

func timestampOf(document []byte) float64 {
	var stamped struct {
		TS float64 `json:"_ts"`
	}
	// A document without a timestamp counts as the older one.
	_ = json.Unmarshal(document, &stamped)
	return stamped.TS
}
