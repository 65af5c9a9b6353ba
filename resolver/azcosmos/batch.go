package azcosmos

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// Batch is a list of operations on one partition key of one container, which are
// executed as one transaction. It must be used by one goroutine at a time.
type Batch struct {
	client  *Client
	refs    []Ref
	changes []bool
	add     []func(*sdk.TransactionalBatch)
	err     error // of the first invalid operation
}

// BatchResult is the result of a batch.
type BatchResult struct {
	Target   string
	Charge   float64
	Response sdk.TransactionalBatchResponse
}

// NewBatch returns an empty batch.
func (c *Client) NewBatch() *Batch { return &Batch{client: c} }

func (b *Batch) document(document []byte, add func(id string, batch *sdk.TransactionalBatch)) {
	ref, err := b.client.RefOf(document)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("operation %d of the batch: %w", len(b.refs)+1, err)
	}
	b.item(ref, true, func(batch *sdk.TransactionalBatch) { add(ref.ID, batch) })
}

func (b *Batch) item(ref Ref, changes bool, add func(batch *sdk.TransactionalBatch)) {
	if ref.PartitionKey.Len() == 0 {
		ref.PartitionKey = ref.Key
	}
	b.refs, b.changes, b.add = append(b.refs, ref), append(b.changes, changes), append(b.add, add)
}

// Create adds the creation of an item. options may be nil, here and in the other
// methods.
func (b *Batch) Create(document []byte, options *sdk.TransactionalBatchItemOptions) {
	b.document(document, func(_ string, batch *sdk.TransactionalBatch) { batch.CreateItem(document, options) })
}

// Upsert adds the creation or replacement of an item.
func (b *Batch) Upsert(document []byte, options *sdk.TransactionalBatchItemOptions) {
	b.document(document, func(_ string, batch *sdk.TransactionalBatch) { batch.UpsertItem(document, options) })
}

// Replace adds the replacement of an item.
func (b *Batch) Replace(document []byte, options *sdk.TransactionalBatchItemOptions) {
	b.document(document, func(id string, batch *sdk.TransactionalBatch) { batch.ReplaceItem(id, document, options) })
}

// Patch adds a patch of an item.
func (b *Batch) Patch(ref Ref, patch sdk.PatchOperations, options *sdk.TransactionalBatchItemOptions) {
	b.item(ref, true, func(batch *sdk.TransactionalBatch) { batch.PatchItem(ref.ID, patch, options) })
}

// Delete adds the deletion of an item.
func (b *Batch) Delete(ref Ref, options *sdk.TransactionalBatchItemOptions) {
	b.item(ref, true, func(batch *sdk.TransactionalBatch) { batch.DeleteItem(ref.ID, options) })
}

// Read adds a read of an item.
func (b *Batch) Read(ref Ref, options *sdk.TransactionalBatchItemOptions) {
	b.item(ref, false, func(batch *sdk.TransactionalBatch) { batch.ReadItem(ref.ID, options) })
}

// Execute sends the batch. It returns ErrApart without sending anything if the
// operations have different partition keys or route to different targets. It
// also returns ErrApart if their key may be in several targets, as with a
// spillover, unless a Ref with the same target gives all operations. A batch
// that the service refuses is not an error: see Response.Success.
func (b *Batch) Execute(ctx context.Context, options *sdk.TransactionalBatchOptions) (BatchResult, error) {
	if b.err != nil {
		return BatchResult{}, b.err
	}
	if len(b.refs) == 0 {
		return BatchResult{}, fmt.Errorf("%w: the batch is empty", ErrApart)
	}
	for i, ref := range b.refs {
		if !ref.PartitionKey.Equal(b.refs[0].PartitionKey) {
			return BatchResult{}, fmt.Errorf("%w: operation 1 has the key %v, but operation %d has %v", ErrApart, b.refs[0].PartitionKey, i+1, ref.PartitionKey)
		}
	}
	var result BatchResult
	err := b.client.routed(ctx, func(ctx context.Context, routing *resolver.Routing) error {
		var err error
		if routing.State.Move != nil {
			result, err = b.sendMoving(ctx, routing, options)
		} else {
			result, err = b.find(ctx, routing, options)
		}
		return err
	})
	return result, err
}

// find sends the batch to the target where its items were last seen, without
// asking the resolver. If they are not there, it tries the targets of their key.
func (b *Batch) find(ctx context.Context, routing *resolver.Routing, options *sdk.TransactionalBatchOptions) (BatchResult, error) {
	seen, known := lastSeen(routing, b.common())
	var first BatchResult
	if known {
		var err error
		if first, err = b.send(ctx, seen, options); err != nil || first.refusal() != http.StatusNotFound {
			return first, err
		}
	}
	others, err := b.candidates(routing, known)
	if err != nil && !known {
		return first, err
	}
	charge := first.Charge
	for _, target := range others {
		if target.Name == seen.Name {
			continue
		}
		result, err := b.send(ctx, target, options)
		charge += result.Charge
		if err != nil || !known || result.refusal() != http.StatusNotFound {
			result.Charge = charge
			return result, err
		}
	}
	first.Charge = charge
	return first, nil
}

// common returns a Ref for all operations: the keys of the first one, and the
// target if all operations name the same one.
func (b *Batch) common() Ref {
	all := b.refs[0]
	for _, ref := range b.refs {
		if ref.Target != all.Target {
			all.Target = ""
		}
	}
	return all
}

// candidates returns the targets that may hold the items of all operations. If
// some items may be new, or their target is unknown, there must be only one.
func (b *Batch) candidates(routing *resolver.Routing, seen bool) ([]resolver.Target, error) {
	all, err := candidates(routing, b.refs[0].Key)
	if err != nil {
		return nil, err
	}
	for i, ref := range b.refs {
		others, err := candidates(routing, ref.Key)
		if err != nil {
			return nil, err
		}
		if !slices.EqualFunc(all, others, func(a, b resolver.Target) bool { return a.Name == b.Name }) {
			return nil, fmt.Errorf("%w: operation 1 belongs to %s and operation %d to %s", ErrApart, all[0].Name, i+1, others[0].Name)
		}
	}
	if len(all) > 1 && !seen {
		return nil, fmt.Errorf("%w: the items may be in each of %d targets, and the operations do not all name the same one", ErrApart, len(all))
	}
	return all, nil
}

// send sends the batch to one target.
func (b *Batch) send(ctx context.Context, target resolver.Target, options *sdk.TransactionalBatchOptions) (BatchResult, error) {
	result := BatchResult{Target: target.Name}
	container, err := b.client.container(target)
	if err != nil {
		return result, err
	}
	pk, err := partitionKey(b.refs[0].PartitionKey)
	if err != nil {
		return result, err
	}
	batch := container.NewTransactionalBatch(pk)
	for _, add := range b.add {
		add(&batch)
	}
	result.Response, err = container.ExecuteTransactionalBatch(ctx, batch, options)
	if err != nil {
		result.Charge = chargeOf(err)
		return result, err
	}
	result.Charge = float64(result.Response.RequestCharge)
	return result, nil
}

// refusal returns the status of the operation that made the service refuse the
// batch, 0 if the service accepted it.
func (r BatchResult) refusal() int {
	if r.Response.Success {
		return 0
	}
	for _, operation := range r.Response.OperationResults {
		if operation.StatusCode != http.StatusFailedDependency {
			return int(operation.StatusCode)
		}
	}
	return 0
}

// sendMoving sends the batch during a move, and updates the second copies.
func (b *Batch) sendMoving(ctx context.Context, routing *resolver.Routing, options *sdk.TransactionalBatchOptions) (BatchResult, error) {
	route, err := b.route(routing)
	if err != nil {
		return BatchResult{}, err
	}
	result, err := b.send(ctx, route.First, options)
	if err != nil || !route.Moves || !result.Response.Success && !isRefused(result.refusal()) {
		return result, err
	}
	err = b.copy(ctx, routing, route, &result)
	return result, err
}

// copy updates the second copies of the items that the batch changes.
func (b *Batch) copy(ctx context.Context, routing *resolver.Routing, route resolver.Route, result *BatchResult) error {
	session := &result.Response.SessionToken
	if *session == "" {
		session = nil
	}
	for i, ref := range b.refs {
		if !b.changes[i] {
			continue
		}
		charge, err := b.client.sync(ctx, routing, route.First, route.Second, ref, session, permitted)
		result.Charge += charge
		if err != nil {
			done := "done"
			if !result.Response.Success {
				done = fmt.Sprintf("not done (status %d)", result.refusal())
			}
			return fmt.Errorf("the batch is %s in %s, but the copy of %s in %s is not confirmed, so repeat it: %w", done, route.First.Name, ref.ID, route.Second.Name, err)
		}
	}
	return nil
}

// route returns the route that all operations share during a move.
func (b *Batch) route(routing *resolver.Routing) (resolver.Route, error) {
	route, err := routing.Route(b.refs[0].Key)
	if err != nil {
		return route, err
	}
	for i, ref := range b.refs[1:] {
		other, err := routing.Route(ref.Key)
		if err != nil {
			return route, err
		}
		if other.First.Name != route.First.Name || other.Second.Name != route.Second.Name {
			return route, fmt.Errorf("%w: operation 1 belongs to %s and then %s, operation %d to %s and then %s", ErrApart,
				route.First.Name, cmp.Or(route.Second.Name, route.First.Name), i+2, other.First.Name, cmp.Or(other.Second.Name, other.First.Name))
		}
	}
	return route, nil
}
