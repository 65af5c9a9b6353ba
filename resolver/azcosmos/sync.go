package azcosmos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// syncAttempts bounds how often a copy is tried under writes of others.
const syncAttempts = 50

// permit is asked before each request that changes a copy, and says by when it has to
// be over.
type permit func(ctx context.Context) (context.Context, context.CancelFunc, error)

// permitted is the permit of an operation that is bounded already.
func permitted(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return ctx, func() {}, nil
}

// sync makes the copy of an item in the second target equal to the item in the first:
// it creates, replaces or deletes it.
//
// Many may sync one item at once, while it is being changed in the first target, and
// the copy ends as the last state there. Each reads the copy, then the item, and
// changes the copy only if it is still the one read. So of two changes of the copy,
// the later one comes from a later read of the item, and copies never go back. Where
// the copy was missing there is no version to compare; so after a change the item is
// read again, and the sync starts over unless it is what was copied.
func (c *Client) sync(ctx context.Context, routing *resolver.Routing, first, second resolver.Target, ref Ref, session *string, permit permit) (float64, error) {
	charge := 0.0
	for range syncAttempts {
		copied, err := c.lookAt(ctx, second, ref, nil)
		charge += copied.Charge
		if err != nil {
			return charge, err
		}
		item, err := c.lookAt(ctx, first, ref, session)
		charge += item.Charge
		if err != nil {
			return charge, err
		}
		if equalDocuments(item.Value, copied.Value) {
			return charge, nil
		}
		changed, cost, err := c.adopt(ctx, routing, second, ref, item, copied, permit)
		charge += cost
		if err != nil {
			return charge, err
		}
		if !changed {
			continue // somebody else changed the copy: look at both again
		}
		again, err := c.lookAt(ctx, first, ref, session)
		charge += again.Charge
		if err != nil || again.ETag == item.ETag {
			return charge, err
		}
	}
	return charge, fmt.Errorf("the item %s changes too fast to be copied to %s", ref.ID, second.Name)
}

// lookAt reads an item; a missing one has no value and no etag.
func (c *Client) lookAt(ctx context.Context, target resolver.Target, ref Ref, session *string) (Item, error) {
	var item Item
	err := c.retryThrottled(ctx, func() error {
		charge := item.Charge
		var err error
		item, err = c.run(ctx, target, ref, readOperation(ref.ID, &sdk.ItemOptions{SessionToken: session}))
		item.Charge += charge
		return err
	})
	if statusOf(err) == http.StatusNotFound {
		return Item{Ref: item.Ref, Charge: item.Charge}, nil
	}
	return item, err
}

// adopt changes the copy to what the item is, if the copy is still what was read.
func (c *Client) adopt(ctx context.Context, routing *resolver.Routing, second resolver.Target, ref Ref, item, copied Item, permit permit) (changed bool, charge float64, err error) {
	if item.Value != nil && copied.Value != nil {
		a, errA := routing.Key(item.Value)
		b, errB := routing.Key(copied.Value)
		if errA != nil || errB != nil || !a.Equal(b) {
			return false, 0, errors.Join(fmt.Errorf("%w: item %s with the keys %v and %v in %s", ErrCollision, ref.ID, a, b, second.Name), errA, errB)
		}
	}
	body, err := withoutSystemProperties(item.Value)
	if err != nil {
		return false, 0, err
	}
	options := &sdk.ItemOptions{}
	if copied.ETag != "" {
		etag := copied.ETag
		options.IfMatchEtag = &etag
	}
	err = c.retryThrottled(ctx, func() error {
		ctx, done, err := permit(ctx)
		if err != nil {
			return err
		}
		defer done()
		answer, err := c.run(ctx, second, ref, func(ctx context.Context, in *sdk.ContainerClient, pk sdk.PartitionKey) (sdk.ItemResponse, error) {
			switch {
			case item.Value == nil:
				return in.DeleteItem(ctx, pk, ref.ID, options)
			case copied.Value == nil:
				return in.CreateItem(ctx, pk, body, options)
			}
			return in.ReplaceItem(ctx, pk, ref.ID, body, options)
		})
		charge += answer.Charge
		return err
	})
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed:
		return false, charge, nil
	}
	return err == nil, charge, err
}

// systemProperties are what the service adds to an item.
var systemProperties = map[string]bool{"_rid": true, "_self": true, "_etag": true, "_attachments": true, "_ts": true}

// withoutSystemProperties returns a document as its user wrote it: the same members
// in their order, the numbers as they are. A missing document stays missing.
func withoutSystemProperties(document []byte) ([]byte, error) {
	if document == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("an item that is no JSON object: %w", err)
	}
	out := []byte{'{'}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if systemProperties[name] {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, quoted...), ':'), value...)
	}
	return append(out, '}'), nil
}

// plainDocument decodes a document without system properties; a missing one is nil.
func plainDocument(document []byte) any {
	if document == nil {
		return nil
	}
	var members map[string]any
	if json.Unmarshal(document, &members) != nil {
		return string(document)
	}
	for name := range systemProperties {
		delete(members, name)
	}
	return members
}

func equalDocuments(a, b []byte) bool {
	return reflect.DeepEqual(plainDocument(a), plainDocument(b))
}

// documentHash returns a hash that equal documents have in common. Hashes are added
// up to compare sets.
func documentHash(document []byte) uint64 {
	// Members of a decoded object are marshaled in order of their names.
	text, err := json.Marshal(plainDocument(document))
	if err != nil {
		text = document
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:8])
}
