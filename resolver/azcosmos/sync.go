package azcosmos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// syncAttempts is how many times a copy is attempted while other clients write.
const syncAttempts = 50

// permit is called before each request that changes a copy. It returns the
// context of the request, which bounds its time.
type permit func(ctx context.Context) (context.Context, context.CancelFunc, error)

// permitted is the permit of an operation that already has a deadline.
func permitted(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return ctx, func() {}, nil
}

// sync makes the copy of an item in the second target equal to the item in the
// first: it creates, replaces or deletes the copy.
//
// Several clients may sync one item at once while it is being changed in the
// first target; the copy ends as the last state of the item. Each client reads
// the copy, then the item, and changes the copy only if it is still the version
// that was read. So of two changes of the copy, the later one comes from a later
// read of the item, and a copy never goes back. A missing copy has no version to
// compare; so after the change the client reads the item again, and starts over
// if the item is not what was copied.
//
// Another item may be where the copy belongs. sync never changes it. If the item
// exists, it cannot be copied and the error is ErrCollision; if the item does
// not exist, there is no copy to delete.
func (c *Client) sync(ctx context.Context, routing *resolver.Routing, first, second resolver.Target, ref Ref, session *string, permit permit) (float64, error) {
	charge := 0.0
	for range syncAttempts {
		copied, err := c.lookFor(ctx, routing, second, ref, nil)
		charge += copied.Charge
		if err != nil {
			return charge, err
		}
		item, err := c.lookFor(ctx, routing, first, ref, session)
		charge += item.Charge
		if err != nil {
			return charge, err
		}
		if equalDocuments(item.Value, copied.Value) {
			return charge, nil
		}
		if copied.foreign() {
			other, err := routing.Key(copied.Response.Value)
			return charge, errors.Join(fmt.Errorf("%w: item %s with the keys %v and %v in %s", ErrCollision, ref.ID, ref.Key, other, second.Name), err)
		}
		changed, cost, err := c.updateCopy(ctx, second, ref, item, copied, permit)
		charge += cost
		if err != nil {
			return charge, err
		}
		if !changed {
			continue // another client changed the copy: read both again
		}
		again, err := c.lookFor(ctx, routing, first, ref, session)
		charge += again.Charge
		if err != nil || again.ETag == item.ETag {
			return charge, err
		}
	}
	return charge, fmt.Errorf("the item %s changes too often to be copied to %s", ref.ID, second.Name)
}

// lookFor reads an item that moves, or its copy. A missing item has no value and
// no etag. The same holds if another item is in its place, one that moves
// elsewhere or not at all: it is foreign. The key in ref may be only the part of
// the item's key that routes it.
func (c *Client) lookFor(ctx context.Context, routing *resolver.Routing, target resolver.Target, ref Ref, session *string) (Item, error) {
	item, err := c.look(ctx, target, ref, session)
	if item.Value != nil && !movesAlike(routing, item.Value, ref.Key) {
		item.Value, item.ETag = nil, ""
	}
	return item, err
}

// foreign reports whether lookFor found another item in the place of the one it
// was to read. The service's response still contains it.
func (i Item) foreign() bool { return i.Value == nil && i.Response.Value != nil }

// movesAlike reports whether a move takes a document from and to the same
// targets as a key. Of all documents with one id and partition key, only one can
// be there.
func movesAlike(routing *resolver.Routing, document []byte, key resolver.Key) bool {
	found, err := routing.Key(document)
	if err != nil || found.Equal(key) {
		return err == nil
	}
	from, to, err := routing.Moves(key)
	if err != nil {
		return false
	}
	foundFrom, foundTo, err := routing.Moves(found)
	return err == nil && foundFrom.Name == from.Name && foundTo.Name == to.Name
}

// lookAt reads the item of a document. A missing item has no value and no etag;
// the same holds if an item with another routing key is in its place.
func (c *Client) lookAt(ctx context.Context, target resolver.Target, ref Ref, session *string) (Item, error) {
	item, err := c.look(ctx, target, ref, session)
	if item.Value == nil {
		return item, err
	}
	// The definition of the key does not change during a move, so any routing
	// will do.
	if key, errKey := c.config.View.Routing().Key(item.Value); errKey != nil || !key.Equal(ref.Key) {
		item.Value, item.ETag = nil, ""
	}
	return item, err
}

// look reads the item with an id and a partition key. If there is none, the
// result has no value and no etag.
func (c *Client) look(ctx context.Context, target resolver.Target, ref Ref, session *string) (Item, error) {
	var item Item
	err := c.retryThrottled(ctx, func() error {
		charge := item.Charge
		var err error
		item, err = c.run(ctx, target, ref, readOperation(ref.ID, &sdk.ItemOptions{SessionToken: session}))
		item.Charge += charge
		return err
	})
	switch {
	case isMissing(err):
		return Item{Ref: item.Ref, Charge: item.Charge}, nil
	case statusOf(err) == http.StatusNotFound:
		// Without the status, which callers would take for a missing item.
		err = fmt.Errorf("read %s in %s: %s", ref.ID, target.Name, Reason(err))
	}
	return item, err
}

// The sub-statuses of a 404 that do not mean that the item is missing.
const (
	subStatusSession   = "1002" // the replica has not reached the session of the request yet
	subStatusContainer = "1003" // the container or its database is missing
)

// isMissing reports whether the service says that an item does not exist.
func isMissing(err error) bool {
	if statusOf(err) != http.StatusNotFound {
		return false
	}
	sub := subStatusOf(err)
	return sub != subStatusSession && sub != subStatusContainer
}

// sessionOf returns the session token that the service sent with an error, nil
// for none.
func sessionOf(err error) *string {
	response, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || response.RawResponse == nil {
		return nil
	}
	token := response.RawResponse.Header.Get("x-ms-session-token")
	if token == "" {
		return nil
	}
	return &token
}

// updateCopy makes the copy equal to the item if the copy is still what was read.
func (c *Client) updateCopy(ctx context.Context, second resolver.Target, ref Ref, item, copied Item, permit permit) (changed bool, charge float64, err error) {
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
	if code := statusOf(err); isMissing(err) || code == http.StatusConflict || code == http.StatusPreconditionFailed {
		return false, charge, nil
	}
	return err == nil, charge, err
}

// systemProperties are the properties that the service adds to an item.
var systemProperties = map[string]bool{"_rid": true, "_self": true, "_etag": true, "_attachments": true, "_ts": true}

// withoutSystemProperties returns a document as its user wrote it: the same
// members in the same order, with numbers unchanged. It returns nil for nil.
func withoutSystemProperties(document []byte) ([]byte, error) {
	if document == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("an item that is not a JSON object: %w", err)
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

// plainDocument decodes a document and drops its system properties. It returns
// nil for a missing document, and the text if the document is not a JSON object.
// Equal numbers have equal texts.
func plainDocument(document []byte) any {
	if document == nil {
		return nil
	}
	value, err := decode(document)
	members, isObject := value.(map[string]any)
	if err != nil || !isObject {
		return string(document)
	}
	for name := range systemProperties {
		delete(members, name)
	}
	return plainNumbers(members)
}

// plainNumbers gives equal numbers in a decoded value the same text. The decoder
// bounds the nesting depth.
func plainNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			value[name] = plainNumbers(member)
		}
	case []any:
		for i, element := range value {
			value[i] = plainNumbers(element)
		}
	case json.Number:
		return plainNumber(value)
	}
	return value
}

// plainNumber returns the canonical text of a number: an integer of 64 bits
// exactly, any other number as the nearest double. A number beyond the range of
// doubles keeps its text.
func plainNumber(number json.Number) json.Number {
	if n, err := number.Int64(); err == nil {
		return json.Number(strconv.FormatInt(n, 10))
	}
	f, err := number.Float64()
	if err != nil {
		return number
	}
	if f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 { // as a double, the latter is 1<<63
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

func equalDocuments(a, b []byte) bool {
	return reflect.DeepEqual(plainDocument(a), plainDocument(b))
}

// documentHash returns a hash that is equal for equal documents. Sums of hashes
// compare sets.
func documentHash(document []byte) uint64 {
	// Members of a decoded object are marshaled in the order of their names.
	text, err := json.Marshal(plainDocument(document))
	if err != nil {
		text = document
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:8])
}
