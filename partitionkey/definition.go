package partitionkey

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Kind says how the components of a key are hashed.
type Kind uint8

// The kinds.
const (
	KindHash      Kind = iota // one path; the default
	KindMultiHash             // one to three paths, each hashed separately
	KindRange                 // not hashed; only old libraries use it, and Validate rejects it
	KindToken                 // of tables: one routing key, hashed by [Token]; the paths name its columns
)

// String returns the name used on the wire.
func (k Kind) String() string {
	switch k {
	case KindHash:
		return "Hash"
	case KindMultiHash:
		return "MultiHash"
	case KindRange:
		return "Range"
	case KindToken:
		return "Token"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText returns the name used on the wire, and an *Error for an unknown
// kind.
func (k Kind) MarshalText() ([]byte, error) {
	if k > KindToken {
		return nil, &Error{Message: fmt.Sprintf("%v is not a kind of partition key.", k)}
	}
	return []byte(k.String()), nil
}

// UnmarshalText accepts the name of a kind in any letter case. For other text
// the *Error names the allowed kinds.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind := KindHash; kind <= KindToken; kind++ {
		if strings.EqualFold(string(text), kind.String()) {
			*k = kind
			return nil
		}
	}
	return &Error{Message: fmt.Sprintf("The partition key kind %q is not known. Use 'Hash' or 'MultiHash'.", clip(string(text)))}
}

// Definition says where a container's documents hold the key and how the key is
// hashed. It never changes during the life of a container. Its JSON form is the
// one used on the wire.
type Definition struct {
	// Paths names the property of each level, first level first, as in
	// "/tenantId". See [ParsePath] for the syntax.
	Paths []string `json:"paths"`

	Kind Kind `json:"kind"`

	// Version is the version of the hash: 1 or 2. 0 means that it is absent,
	// which counts as 2.
	Version int `json:"version,omitempty"`

	// SystemKey marks a container that was created without a key by an old API
	// version.
	SystemKey bool `json:"systemKey,omitempty"`
}

// MarshalJSON writes missing paths as an empty list instead of null.
func (d Definition) MarshalJSON() ([]byte, error) {
	type wire Definition
	if d.Paths == nil {
		d.Paths = []string{}
	}
	return json.Marshal(wire(d))
}

// Validate returns nil if a container can have the definition. Otherwise the
// *Error says what is allowed.
func (d Definition) Validate() error {
	if d.Kind == KindToken {
		return d.validateToken()
	}
	if d.Kind != KindHash && d.Kind != KindMultiHash {
		return errorf("The partition key kind %v is not allowed. Use 'Hash' or 'MultiHash'.", d.Kind)
	}
	if len(d.Paths) == 0 {
		return errorf("The partition key definition has no path. Give one path for kind 'Hash', or one to %d for kind 'MultiHash'.", LevelsMax)
	}
	if len(d.Paths) > LevelsMax {
		return errorf("Too many partition key paths (%d) specified. A maximum of %d is allowed.", len(d.Paths), LevelsMax)
	}
	if d.Kind == KindHash && len(d.Paths) != 1 {
		return errorf("Too many partition key paths (%d) specified. A maximum of 1 is allowed for the kind 'Hash'. Use kind 'MultiHash' with version 2 for a hierarchical partition key.", len(d.Paths))
	}
	if d.Version < 0 || d.Version > 2 {
		return errorf("The partition key version %d is not known. Use 1 or 2 for kind 'Hash', and 2 for kind 'MultiHash'.", d.Version)
	}
	if d.Kind == KindMultiHash && d.version() != 2 {
		return errorf("The partition key kind 'MultiHash' needs version 2, not %d.", d.Version)
	}
	return validatePaths(d.Paths)
}

// validateToken checks the definition of a table, which may have any number of
// columns in its key.
func (d Definition) validateToken() error {
	if len(d.Paths) == 0 {
		return errorf("The partition key definition has no path. Kind 'Token' needs one for each column of the key.")
	}
	if d.version() != 2 {
		return errorf("The partition key kind 'Token' needs version 2, not %d.", d.Version)
	}
	return validatePaths(d.Paths)
}

// validatePaths rejects invalid syntax and two paths to the same property.
func validatePaths(paths []string) error {
	parsed := make([][]string, len(paths))
	for i, path := range paths {
		segments, err := ParsePath(path)
		if err != nil {
			return err
		}
		for j, earlier := range parsed[:i] {
			if slices.Equal(segments, earlier) {
				return errorf("The partition key paths %q and %q name the same property. Each level needs a path of its own.", clip(paths[j]), clip(path))
			}
		}
		parsed[i] = segments
	}
	return nil
}

// Normalize returns the definition with defaults filled in: an absent version
// becomes 2. It shares Paths with d.
func (d Definition) Normalize() Definition {
	d.Version = d.version()
	return d
}

// version returns the version, 2 if it is absent.
func (d Definition) version() int {
	if d.Version == 0 {
		return 2
	}
	return d.Version
}

// Equal reports whether both definitions find and hash keys in the same way: the
// same paths as text and in order, the same kind, version and SystemKey.
func (d Definition) Equal(o Definition) bool {
	return d.Kind == o.Kind && d.version() == o.version() && d.SystemKey == o.SystemKey &&
		slices.Equal(d.Paths, o.Paths)
}

// Levels returns the number of components of a full key.
func (d Definition) Levels() int {
	if d.Kind == KindToken {
		return 1 // the routing key, however many columns it has
	}
	return len(d.Paths)
}

// None returns the key of a document that lacks all of the properties: one
// undefined component per level.
func (d Definition) None() Key {
	return Key{make([]Component, d.Levels())}
}

// Check returns nil if the key fits the definition: it has no more components
// than there are levels, no fewer if full is true, and each component is within
// its limits. The key of a table is one [Bytes] component; other keys have none. Otherwise it returns an *Error; if the number of components is wrong, its
// Mismatch is true and Given and Levels are set. Point operations need a full key,
// queries and feeds accept a prefix.
func (d Definition) Check(key Key, full bool) error {
	if n := key.Len(); n > d.Levels() || full && n < d.Levels() {
		return levelsError(n, d.Levels())
	}
	for i, c := range key.components {
		if (c.typ == TypeBytes) != (d.Kind == KindToken) {
			return errorf("Component %d of the partition key has a type that a partition key of kind %v cannot have.", i+1, d.Kind)
		}
		if c.typ == TypeBytes && (c.text == "" || len(c.text) > RoutingKeyBytesMax) {
			return errorf("The routing key is %d bytes long. It must have 1 to %d.", len(c.text), RoutingKeyBytesMax)
		}
		if !c.finite() {
			return errorf("Component %d of the partition key is not a finite number.", i+1)
		}
		if len(c.text) > ComponentBytesMax && d.version() == 2 && c.typ != TypeBytes {
			return errorf("Component %d of the partition key is %d bytes long. At most %d are allowed.", i+1, len(c.text), ComponentBytesMax)
		}
	}
	return nil
}

func errorf(format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

// levelsError returns the error for a key with another number of components than
// the definition has levels.
func levelsError(given, levels int) *Error {
	e := mismatchf("The partition key has %d of %d components.", given, levels)
	if given > levels {
		e = mismatchf("The partition key has %d components, and no more than %d are defined.", given, levels)
	}
	e.Given, e.Levels = given, levels
	return e
}

func mismatchf(format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...), Mismatch: true}
}

// clip shortens text from a caller for use in a message.
func clip(s string) string {
	const charactersMax = 64
	n := 0
	for i := range s {
		if n++; n > charactersMax {
			return s[:i] + "..."
		}
	}
	return s
}
