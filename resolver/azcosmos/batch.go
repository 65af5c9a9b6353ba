package azcosmos

import (
	"context"
	"fmt"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// Batch is a list of operations on one partition key of one container, which happen
// all or not at all. It is for one goroutine.
type Batch struct {
	client  *Client
	refs    []Ref
	changes []bool
	add     []func(*sdk.TransactionalBatch)
	err     error // the first operation that could not be understood
}

// BatchResult is the answer to a batch.
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

// Create adds the creation of an item. options may be nil, here and everywhere.
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

// Patch adds a change of parts of an item.
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

// Execute sends the batch. It is ErrApart, and nothing is sent, when the operations
// route to different targets, or have different partition keys, which no container
// changes together. A batch that the service refuses is no error: see
// Response.Success.
func (b *Batch) Execute(ctx context.Context, options *sdk.TransactionalBatchOptions) (BatchResult, error) {
	if b.err != nil {
		return BatchResult{}, b.err
	}
	if len(b.refs) == 0 {
		return BatchResult{}, fmt.Errorf("%w: it is empty", ErrApart)
	}
	var result BatchResult
	err := b.client.routed(ctx, b.refs[0].Key, func(ctx context.Context, routing *resolver.Routing, route resolver.Route) error {
		var err error
		result, err = b.send(ctx, routing, route, options)
		return err
	})
	return result, err
}

func (b *Batch) send(ctx context.Context, routing *resolver.Routing, route resolver.Route, options *sdk.TransactionalBatchOptions) (BatchResult, error) {
	result := BatchResult{Target: route.First.Name}
	if err := b.check(routing, route); err != nil {
		return result, err
	}
	container, err := b.client.container(route.First)
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
	if !result.Response.Success || !route.Moves {
		return result, nil
	}
	return result, b.copy(ctx, routing, route, &result)
}

// copy brings the second copies of changed items up to date.
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
			return fmt.Errorf("the batch is done in %s, but the copy of %s in %s is not confirmed, so repeat it: %w", route.First.Name, ref.ID, route.Second.Name, err)
		}
	}
	return nil
}

// check compares where the operations belong.
func (b *Batch) check(routing *resolver.Routing, route resolver.Route) error {
	for i, ref := range b.refs[1:] {
		other, err := routing.Route(ref.Key)
		if err != nil {
			return err
		}
		if other.First.Name != route.First.Name || other.Moves != route.Moves || other.Second.Name != route.Second.Name {
			return fmt.Errorf("%w: operation 1 belongs to %s and operation %d to %s", ErrApart, route.First.Name, i+2, other.First.Name)
		}
		if !ref.PartitionKey.Equal(b.refs[0].PartitionKey) {
			return fmt.Errorf("%w: operation 1 has the key %v and operation %d %v", ErrApart, b.refs[0].PartitionKey, i+2, ref.PartitionKey)
		}
	}
	return nil
}
