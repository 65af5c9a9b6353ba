package resolver

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/decandb/decan/partitionkey"
)

// Key is the routing key of a document: a list of values, one per level. It need
// not be the partition key of the containers.
type Key = partitionkey.Key

// TextKey returns a key with one string per level.
func TextKey(levels ...string) Key {
	b := partitionkey.NewBuilder()
	for _, level := range levels {
		b.AddString(level)
	}
	return b.Build()
}

// NumberKey returns a key of one number.
func NumberKey(f float64) Key { return partitionkey.NewKey(partitionkey.Number(f)) }

// TimeKey returns a key of one time, as RFC 3339 text in UTC.
func TimeKey(t time.Time) Key { return TextKey(t.UTC().Format(time.RFC3339Nano)) }

// Extractor returns the routing key of a document, given as JSON. The error is
// an ErrKey.
type Extractor func(document []byte) (Key, error)

// PathsMax is the maximum number of paths of an extractor.
const PathsMax = 8

// Paths returns an extractor that reads one level from each path, such as
// "/tenantId" or "/address/city". A missing value, an object or an array gives
// an undefined level, which writes reject. The error is an ErrConfig.
func Paths(paths ...string) (Extractor, error) {
	if len(paths) == 0 || len(paths) > PathsMax {
		return nil, fmt.Errorf("%w: %d key paths, want 1 to %d", ErrConfig, len(paths), PathsMax)
	}
	segments := make([][]string, len(paths))
	for i, path := range paths {
		parsed, err := partitionkey.ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		segments[i] = parsed
	}
	return func(document []byte) (Key, error) { return keyAt(document, segments) }, nil
}

// KeyOf returns an extractor that decodes a document into a T and calls key with
// it. key may depend on the type of the document, or combine several values. Its
// errors are wrapped as ErrKey.
func KeyOf[T any](key func(T) (Key, error)) Extractor {
	return func(document []byte) (Key, error) {
		var decoded T
		if err := json.Unmarshal(document, &decoded); err != nil {
			return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
		}
		k, err := key(decoded)
		if err != nil && !errors.Is(err, ErrKey) {
			err = fmt.Errorf("%w: %w", ErrKey, err)
		}
		return k, err
	}
}

func keyAt(document []byte, paths [][]string) (Key, error) {
	var root map[string]json.RawMessage
	if err := json.Unmarshal(document, &root); err != nil {
		return Key{}, fmt.Errorf("%w: the document is not a JSON object: %w", ErrKey, err)
	}
	components := make([]partitionkey.Component, len(paths))
	for i, path := range paths {
		components[i] = componentAt(root, path)
	}
	return partitionkey.NewKey(components...), nil
}

// componentAt follows a path. The caller has checked that the document is valid
// JSON.
func componentAt(object map[string]json.RawMessage, path []string) partitionkey.Component {
	for ; len(path) > 1; path = path[1:] {
		var inner map[string]json.RawMessage
		if json.Unmarshal(object[path[0]], &inner) != nil {
			return partitionkey.Undefined()
		}
		object = inner
	}
	return component(object[path[0]])
}

// component parses one JSON value. A value that cannot be a level is undefined.
func component(text json.RawMessage) partitionkey.Component {
	var value any
	if len(text) == 0 || text[0] == '{' || text[0] == '[' || json.Unmarshal(text, &value) != nil {
		return partitionkey.Undefined()
	}
	switch v := value.(type) {
	case nil:
		return partitionkey.Null()
	case bool:
		return partitionkey.Bool(v)
	case float64:
		return partitionkey.Number(v)
	case string:
		return partitionkey.String(v)
	}
	return partitionkey.Undefined()
}

// errPartial means that a key ends before the level that a resolver uses. A read
// must then ask all targets.
var errPartial = fmt.Errorf("%w: a level is missing", ErrKey)

// WholeKey is the level of a resolver that uses all levels together.
const WholeKey = -1

// ForKeys adapts a resolver of another key type so that it routes by one level
// of a Key, counted from 0, or by the whole key ([WholeKey]). levels is the
// number of levels of a full key, 0 if unknown. convert turns the level, as a
// key with one level, or the whole key into the key type of inner; [Text],
// [Number] and [Time] do so.
//
// A key with more levels than that is an ErrKey. A key that ends before the
// level cannot be written; a read of it asks all targets. So does a read of an
// interval whose ends differ in a level before that level.
func ForKeys[T any](inner Resolver[T], level, levels int, convert func(Key) (T, error)) Resolver[Key] {
	return &byLevel[T]{inner, level, levels, convert}
}

type byLevel[T any] struct {
	inner   Resolver[T]
	level   int
	levels  int
	convert func(Key) (T, error)
}

func (b *byLevel[T]) pick(key Key) (T, error) {
	var none T
	part := key
	if b.levels > 0 && key.Len() > b.levels {
		return none, fmt.Errorf("%w: %v has %d levels, want %d", ErrKey, key, key.Len(), b.levels)
	}
	if b.level != WholeKey {
		if key.Len() <= b.level {
			return none, errPartial
		}
		part = partitionkey.NewKey(key.At(b.level))
	} else if key.Len() == 0 || key.Len() < b.levels {
		return none, errPartial
	}
	for _, c := range part.Components() {
		if c.Type() == partitionkey.TypeUndefined {
			return none, fmt.Errorf("%w: a property of the routing key is missing in the document", ErrKey)
		}
	}
	return b.convert(part)
}

func (b *byLevel[T]) ForWrite(key Key) (Target, error) {
	part, err := b.pick(key)
	if err != nil {
		return Target{}, err
	}
	return b.inner.ForWrite(part)
}

func (b *byLevel[T]) ForRead(selection Selection[Key]) ([]Target, error) {
	wanted := Selection[T]{all: selection.all}
	for _, key := range selection.keys {
		part, err := b.pick(key)
		if errors.Is(err, errPartial) {
			return b.inner.ForRead(All[T]())
		}
		if err != nil {
			return nil, err
		}
		wanted.keys = append(wanted.keys, part)
	}
	for _, i := range selection.intervals {
		part, err := b.pickInterval(i)
		if errors.Is(err, errPartial) {
			return b.inner.ForRead(All[T]())
		}
		if err != nil {
			return nil, err
		}
		wanted.intervals = append(wanted.intervals, part)
	}
	return b.inner.ForRead(wanted)
}

// pickInterval converts both ends. If keys have more levels after the one that
// the resolver uses, both ends of that level are included.
func (b *byLevel[T]) pickInterval(i Interval[Key]) (Interval[T], error) {
	level := max(b.level, 0)
	if level > 0 && !sameStart(i, level) {
		return Interval[T]{}, errPartial
	}
	low, err := b.pickBound(i.Low)
	if err != nil {
		return Interval[T]{}, err
	}
	high, err := b.pickBound(i.High)
	return Interval[T]{low, high}, err
}

func (b *byLevel[T]) pickBound(bound Bound[Key]) (Bound[T], error) {
	if bound.Kind == Unbounded {
		return Bound[T]{}, nil
	}
	value, err := b.pick(bound.Value)
	kind := bound.Kind
	if bound.Value.Len() > max(b.level, 0)+1 {
		kind = Included
	}
	return Bound[T]{value, kind}, err
}

// sameStart reports whether both ends have the same first levels.
func sameStart(i Interval[Key], levels int) bool {
	if i.Low.Kind == Unbounded || i.High.Kind == Unbounded || i.Low.Value.Len() < levels || i.High.Value.Len() < levels {
		return false
	}
	for n := range levels {
		if i.Low.Value.At(n) != i.High.Value.At(n) {
			return false
		}
	}
	return true
}

func (b *byLevel[T]) Targets() []Target { return b.inner.Targets() }

// Text converts a key for resolvers of text. A single string stays as it is, so
// that legacy data is found. Every other key becomes its JSON text, an array if
// it has several levels. null alone is an ErrKey, as in the legacy SDKs.
func Text(key Key) (string, error) {
	if key.Len() != 1 {
		return key.String(), nil
	}
	switch key.At(0).Type() {
	case partitionkey.TypeString:
		return key.At(0).Text(), nil
	case partitionkey.TypeNull, partitionkey.TypeUndefined:
		return "", fmt.Errorf("%w: the key is %v", ErrKey, key)
	}
	return strings.Trim(key.String(), "[]"), nil
}

// String converts a key of one string.
func String(key Key) (string, error) {
	if key.Len() != 1 || key.At(0).Type() != partitionkey.TypeString {
		return "", fmt.Errorf("%w: %v is not a string", ErrKey, key)
	}
	return key.At(0).Text(), nil
}

// Number converts a key of one number.
func Number(key Key) (float64, error) {
	if key.Len() != 1 || key.At(0).Type() != partitionkey.TypeNumber {
		return 0, fmt.Errorf("%w: %v is not a number", ErrKey, key)
	}
	return key.At(0).Float(), nil
}

// Time converts a key of one time: RFC 3339 text, a date alone, or a number of
// seconds since 1970 as in the property _ts.
func Time(key Key) (time.Time, error) {
	if key.Len() == 1 {
		switch c := key.At(0); c.Type() {
		case partitionkey.TypeNumber:
			if f := c.Float(); f >= -62135596800 && f < 253402300800 { // the years 1 to 9999
				whole, part := math.Modf(f)
				return time.Unix(int64(whole), int64(part*1e9)).UTC(), nil
			}
		case partitionkey.TypeString:
			for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
				if t, err := time.Parse(layout, c.Text()); err == nil {
					return t.UTC(), nil
				}
			}
		}
	}
	return time.Time{}, fmt.Errorf("%w: %v is not a time: want RFC 3339 text or seconds since 1970", ErrKey, key)
}
