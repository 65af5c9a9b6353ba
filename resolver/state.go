package resolver

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/decandb/decan/partitionkey"
)

// StateVersion is the version of the JSON form that this package writes and
// reads.
const StateVersion = 1

// The limits of a state in JSON.
const (
	StateBytesMax = 2 << 20 // the size limit of an item in a container
	stateDepthMax = 16
)

// State is the complete description of how keys route. Clients share it. Its
// JSON form is canonical, so equal states have equal bytes and equal
// fingerprints. It contains every default explicitly, so that a saved state
// never changes its meaning.
type State struct {
	Version int `json:"version"`

	// Revision increases with every save, so that no two saves are equal. It is
	// not part of the fingerprint.
	Revision int64 `json:"revision"`

	// Moves is the number of completed moves. By it a query detects that items
	// have been moved away and back since it began. It is not part of the
	// fingerprint.
	Moves int64 `json:"moves,omitempty"`

	Key     KeySpec  `json:"key"`
	Targets []Target `json:"targets"`
	Current Plan     `json:"current"`
	Move    *Move    `json:"move,omitempty"`
}

// KeySpec says where the routing key comes from: paths, or a function that every
// client registers under that name. Exactly one of the two is set.
type KeySpec struct {
	Paths    []string `json:"paths,omitempty"`
	Function string   `json:"function,omitempty"`
}

// Plan is a layout of keys over targets: a first scheme, and schemes nested in
// it.
type Plan struct {
	Scheme Scheme `json:"scheme"`

	// Behind holds nested schemes by name. A scheme may name one of them instead
	// of a target; the nested scheme then decides. Cycles are an ErrConfig.
	Behind map[string]Scheme `json:"behind,omitempty"`
}

// Move is a transition to another plan.
type Move struct {
	// ID is unique among moves.
	ID    string `json:"id"`
	Phase Phase  `json:"phase"`

	// Read overrides the read mode of the phase if it is ReadBoth or ReadNone.
	// ReadBoth is ignored in the last phases, Clean and Undo: writes no longer
	// reach the other side, so reading it would return deleted documents.
	Read ReadMode `json:"read,omitempty"`

	Next Plan `json:"next"`
}

// The kinds of schemes.
const (
	KindSingle     = "single"     // one target for everything
	KindRing       = "ring"       // Ring
	KindRendezvous = "rendezvous" // Rendezvous
	KindJump       = "jump"       // Jump
	KindRange      = "range"      // Range
	KindLookup     = "lookup"     // Lookup
	KindSpillover  = "spillover"  // Spillover
)

// Scheme describes one resolver as data. Only the fields of its kind may be set.
type Scheme struct {
	Kind string `json:"kind"`

	// Level is the level of the key that the scheme uses, counted from 0. If it
	// is absent, the scheme uses the whole key, which must have one level for
	// ranges and look-ups.
	Level *int `json:"level,omitempty"`

	// Targets are the names of the targets of a single, ring, rendezvous, jump
	// or spillover scheme.
	Targets []string `json:"targets,omitempty"`

	// Hash is the name of the hash of a ring, rendezvous or jump scheme. Default
	// xxhash64.
	Hash string `json:"hash,omitempty"`

	// Layout and VirtualNodes belong to a ring. The defaults are LayoutSpread
	// and VirtualNodesDefault.
	Layout       Layout `json:"layout,omitempty"`
	VirtualNodes int    `json:"virtualNodes,omitempty"`

	// Type is the type of the keys of a range: string, number or time.
	Type   string      `json:"type,omitempty"`
	Ranges []RangeSpec `json:"ranges,omitempty"`
	Gaps   bool        `json:"gaps,omitempty"`

	// Table and Default belong to a lookup.
	Table   []LookupSpec `json:"table,omitempty"`
	Default string       `json:"default,omitempty"`

	// Prefix, MaxBytes, MaxDocuments, Fill and Opening belong to a spillover.
	Prefix       string  `json:"prefix,omitempty"`
	MaxBytes     int64   `json:"maxBytes,omitempty"`
	MaxDocuments int64   `json:"maxDocuments,omitempty"`
	Fill         float64 `json:"fill,omitempty"`
	Opening      bool    `json:"opening,omitempty"`
}

// RangeSpec is an entry of a range. An absent end is unbounded.
type RangeSpec struct {
	Low  *Value `json:"low,omitempty"`
	High *Value `json:"high,omitempty"`

	// Closed includes the high end in the range. The low end is always included.
	Closed bool   `json:"closed,omitempty"`
	Target string `json:"target"`
}

// LookupSpec sends values to a target.
type LookupSpec struct {
	Values []Value `json:"values"`
	Target string  `json:"target"`
}

// Value is a string, number, boolean or null in a state.
type Value struct{ partitionkey.Component }

// MarshalJSON writes the plain JSON value.
func (v Value) MarshalJSON() ([]byte, error) {
	text, err := partitionkey.NewKey(v.Component).MarshalJSON()
	if err != nil {
		return nil, err
	}
	return text[1 : len(text)-1], nil
}

// UnmarshalJSON reads a plain JSON value. The error for an object or array is an
// ErrConfig.
func (v *Value) UnmarshalJSON(text []byte) error {
	c := component(text)
	if c.Type() == partitionkey.TypeUndefined {
		return fmt.Errorf("%w: %s is not a string, number, boolean or null", ErrConfig, clip(text))
	}
	v.Component = c
	return nil
}

func clip(text []byte) string {
	if len(text) > 60 {
		return string(text[:60]) + "..."
	}
	return string(text)
}

// ParseState parses and checks a state. It rejects everything unknown: a
// version, a kind, a layout, a property, or a property given twice. Only [Open]
// knows which functions and hashes exist. The error is an ErrConfig.
func ParseState(text []byte) (State, error) {
	var s State
	if len(text) > StateBytesMax {
		return s, fmt.Errorf("%w: a state of %d bytes, at most %d are allowed", ErrConfig, len(text), StateBytesMax)
	}
	if err := checkNames(text); err != nil {
		return s, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = fmt.Errorf("%w: %s: want %s, not %s", ErrConfig, cmp.Or(wrong.Field, "the state"), plainType(wrong.Type), withArticle(wrong.Value))
		}
		if !errors.Is(err, ErrConfig) {
			err = fmt.Errorf("%w: %w", ErrConfig, err)
		}
		return State{}, err
	}
	s = s.withDefaults()
	return s, s.check()
}

// withArticle puts "a" or "an" before the name of a JSON type.
func withArticle(kind string) string {
	if kind == "array" || kind == "object" {
		return "an " + kind
	}
	return "a " + kind
}

// plainType names a Go type in words that people who write JSON know.
func plainType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return plainType(t.Elem())
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	default:
		return "a number"
	}
}

// Append appends the canonical JSON form to dst. The error is an ErrConfig.
func (s State) Append(dst []byte) ([]byte, error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if len(text) > StateBytesMax {
		return nil, fmt.Errorf("%w: a state of %d bytes, at most %d are allowed", ErrConfig, len(text), StateBytesMax)
	}
	return append(dst, text...), nil
}

// Fingerprint returns 32 hexadecimal digits that differ between states that
// route differently. Every client should log it. The error is an ErrConfig.
func (s State) Fingerprint() (string, error) {
	s.Revision, s.Moves = 0, 0
	text, err := s.Append(nil)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), err
}

// withDefaults returns the state with every default filled in. It copies what it
// changes.
func (s State) withDefaults() State {
	s.Version = cmp.Or(s.Version, StateVersion)
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		s.Targets[i].Weight = s.Targets[i].weight()
	}
	s.Current = s.Current.withDefaults()
	if s.Move != nil {
		move := *s.Move
		move.Next = move.Next.withDefaults()
		s.Move = &move
	}
	return s
}

func (p Plan) withDefaults() Plan {
	p.Scheme = p.Scheme.withDefaults()
	p.Behind = maps.Clone(p.Behind)
	for name, scheme := range p.Behind {
		p.Behind[name] = scheme.withDefaults()
	}
	return p
}

func (s Scheme) withDefaults() Scheme {
	switch s.Kind {
	case KindRing:
		s.Layout = cmp.Or(s.Layout, LayoutSpread)
		s.VirtualNodes = cmp.Or(s.VirtualNodes, VirtualNodesDefault)
		s.Hash = cmp.Or(s.Hash, XXHash64.Name())
	case KindRendezvous, KindJump:
		s.Hash = cmp.Or(s.Hash, XXHash64.Name())
	case KindSpillover:
		s.Fill = cmp.Or(s.Fill, SpilloverFillDefault)
	}
	return s
}

// check returns an ErrConfig for a state that is inconsistent by itself.
// Building the resolvers checks the rest.
func (s State) check() error {
	if s.Version != StateVersion {
		return fmt.Errorf("%w: state version %d, this program knows %d", ErrConfig, s.Version, StateVersion)
	}
	if s.Revision < 0 || s.Moves < 0 {
		return fmt.Errorf("%w: revision %d after %d moves", ErrConfig, s.Revision, s.Moves)
	}
	if (len(s.Key.Paths) == 0) == (s.Key.Function == "") {
		return fmt.Errorf("%w: a state needs either paths or a function for its key", ErrConfig)
	}
	if err := checkTargets(s.Targets); err != nil {
		return err
	}
	if err := s.checkPlan("current", s.Current); err != nil {
		return err
	}
	if s.Move == nil {
		return nil
	}
	if _, known := modes[s.Move.Phase]; !known {
		return fmt.Errorf("%w: move.phase: there is no phase %q", ErrConfig, s.Move.Phase)
	}
	if s.Move.ID == "" || s.Move.Read != "" && s.Move.Read != ReadBoth && s.Move.Read != ReadNone {
		return fmt.Errorf("%w: a move needs an id, and may change the read mode to both or none only", ErrConfig)
	}
	if s.Current.Spills() || s.Move.Next.Spills() {
		return fmt.Errorf("%w: a plan with a spillover cannot be moved, because its keys do not determine where documents are", ErrConfig)
	}
	return s.checkPlan("move.next", s.Move.Next)
}

// Spills reports whether a scheme of the plan is a spillover. The location of a
// document then does not follow from its key.
func (p Plan) Spills() bool {
	spills := p.Scheme.Kind == KindSpillover
	for _, scheme := range p.Behind {
		spills = spills || scheme.Kind == KindSpillover
	}
	return spills
}

// checkPlan checks the fields of the schemes and that names are unambiguous.
// place is the plan's path in the state.
func (s State) checkPlan(place string, p Plan) error {
	if err := p.Scheme.checkFields(place + ".scheme"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Behind)) {
		if name == "" || slices.ContainsFunc(s.Targets, func(t Target) bool { return t.Name == name }) {
			return fmt.Errorf("%w: %s.behind: the scheme %q has no name or the name of a target", ErrConfig, place, name) // words: the property
		}
		if err := p.Behind[name].checkFields(place + ".behind." + name); err != nil {
			return err
		}
	}
	return nil
}

// schemeFields lists the fields that each kind may set, in addition to its
// level.
var schemeFields = map[string][]string{
	KindSingle:     {"Targets"},
	KindRing:       {"Targets", "Hash", "Layout", "VirtualNodes"},
	KindRendezvous: {"Targets", "Hash"},
	KindJump:       {"Targets", "Hash"},
	KindRange:      {"Type", "Ranges", "Gaps"},
	KindLookup:     {"Table", "Default"},
	KindSpillover:  {"Targets", "Prefix", "MaxBytes", "MaxDocuments", "Fill", "Opening"},
}

// checkFields rejects fields of another kind, because ignoring them would hide a
// mistake.
func (s Scheme) checkFields(place string) error {
	allowed, known := schemeFields[s.Kind]
	if !known {
		return fmt.Errorf("%w: %s.kind: there is no kind %q", ErrConfig, place, s.Kind)
	}
	if s.Level != nil && (*s.Level < 0 || *s.Level >= PathsMax) {
		return fmt.Errorf("%w: %s.level: %d, want 0 to %d", ErrConfig, place, *s.Level, PathsMax-1)
	}
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name != "Kind" && name != "Level" && !v.Field(i).IsZero() && !slices.Contains(allowed, name) {
			return fmt.Errorf("%w: %s: a scheme of kind %s has no %s", ErrConfig, place, s.Kind, v.Type().Field(i).Tag.Get("json"))
		}
	}
	return nil
}

// stateNames are the names of all properties of a state.
var stateNames = fieldNames(map[string]bool{}, reflect.TypeFor[State]())

func fieldNames(names map[string]bool, t reflect.Type) map[string]bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return fieldNames(names, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
				names[name] = true
				fieldNames(names, t.Field(i).Type)
			}
		}
	}
	return names
}

// nameChecker scans the tokens of a JSON text for what the decoder accepts
// silently: duplicate names, names in another letter case, and unbounded
// nesting.
type nameChecker struct{ open []container }

// container is an object or array that is being read.
type container struct {
	names map[string]bool // names seen so far; nil in an array
	free  bool            // the user chooses the names
	last  string          // the name whose value comes next, or came last
	value bool            // the next token begins a value
	count int             // values begun in an array
}

// checkNames returns an ErrConfig if the text is not a single JSON value or
// nameChecker rejects it.
func checkNames(text []byte) error {
	if err := checkSyntax(text); err != nil {
		return err
	}
	var checker nameChecker
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = checker.take(token)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
}

// checkSyntax reports the line and column of the first syntax error.
func checkSyntax(text []byte) error {
	var any json.RawMessage
	err := json.Unmarshal(text, &any)
	if err == nil {
		return nil
	}
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	before := text[:min(max(syntax.Offset-1, 0), int64(len(text)))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%w: line %d, column %d: %w", ErrConfig, line, column, err)
}

func (n *nameChecker) take(token json.Token) error {
	top := &container{}
	if len(n.open) > 0 {
		top = &n.open[len(n.open)-1]
	}
	name, isText := token.(string)
	if isText && top.names != nil && !top.value {
		if top.names[name] {
			return fmt.Errorf("%s: the property %q is given twice", n.place(), name)
		}
		if !top.free && !stateNames[name] {
			return fmt.Errorf("%s: there is no property %q", n.place(), name)
		}
		top.names[name], top.last, top.value = true, name, true
		return nil
	}
	if token != json.Delim(']') {
		top.count++
	}
	top.value = false
	switch token {
	case json.Delim('{'):
		free := (top.last == "labels" || top.last == "behind") && !top.free
		n.open = append(n.open, container{names: map[string]bool{}, free: free})
	case json.Delim('['):
		n.open = append(n.open, container{})
	case json.Delim('}'), json.Delim(']'):
		n.open = n.open[:len(n.open)-1]
	}
	if len(n.open) > stateDepthMax {
		return fmt.Errorf("nested deeper than %d levels", stateDepthMax)
	}
	return nil
}

// place returns the path to the object that is being read.
func (n *nameChecker) place() string {
	var path strings.Builder
	for _, c := range n.open[:max(len(n.open)-1, 0)] {
		switch {
		case c.names == nil:
			fmt.Fprintf(&path, "[%d]", c.count-1)
		case path.Len() > 0:
			path.WriteString("." + c.last)
		default:
			path.WriteString(c.last)
		}
	}
	return cmp.Or(path.String(), "the state")
}
