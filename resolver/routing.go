package resolver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/partitionkey"
)

// Registry holds what a state refers to by name: code, which a state cannot
// contain.
type Registry struct {
	// Functions are the key extractors by the name in KeySpec.Function.
	Functions map[string]Extractor

	// Hashes are hashes in addition to the built-in ones.
	Hashes []Hash
}

// Routing is a state that is ready to route. It has the three methods of the
// classic partition resolver (Key, ForWrite, ForRead). It is immutable and safe
// for concurrent use.
type Routing struct {
	State       State
	Fingerprint string

	transition Transition[Key] // Next is nil without a move
	extract    Extractor
	registry   Registry

	inFlight atomic.Int64
	closing  atomic.Bool
	finished sync.Once
	retired  chan struct{} // closed when the routing is closing and no operation is in flight
}

// Open builds the routing of a state. The error is an ErrConfig.
func Open(state State, registry Registry) (*Routing, error) {
	fingerprint, err := state.Fingerprint()
	if err != nil {
		return nil, err
	}
	r := &Routing{State: state.withDefaults(), Fingerprint: fingerprint, registry: registry, retired: make(chan struct{})}
	if r.extract, err = openKey(state.Key, registry); err != nil {
		return nil, err
	}
	b := r.builder()
	if r.transition.Current, err = b.plan(r.State.Current); err != nil {
		return nil, fmt.Errorf("current plan: %w", err)
	}
	r.transition.Read, r.transition.Write = ReadCurrent, WriteCurrent
	if move := r.State.Move; move != nil {
		if r.transition.Next, err = b.plan(move.Next); err != nil {
			return nil, fmt.Errorf("next plan: %w", err)
		}
		r.transition.Read, r.transition.Write = move.Modes()
	}
	return r, nil
}

// With builds the routing of another state with the same registry.
func (r *Routing) With(state State) (*Routing, error) { return Open(state, r.registry) }

// NewRouting binds a resolver built in code to a key extractor. It has no state
// to share, so it cannot be watched or migrated.
func NewRouting(extract Extractor, resolver Resolver[Key]) *Routing {
	return &Routing{
		transition: Transition[Key]{Current: resolver, Read: ReadCurrent, Write: WriteCurrent},
		extract:    extract,
		retired:    make(chan struct{}),
	}
}

func openKey(spec KeySpec, registry Registry) (Extractor, error) {
	if spec.Function == "" {
		return Paths(spec.Paths...)
	}
	extract := registry.Functions[spec.Function]
	if extract == nil {
		return nil, fmt.Errorf("%w: the key function %q is not registered in this program", ErrConfig, spec.Function)
	}
	return extract, nil
}

// Key returns the routing key of a document. The error is an ErrKey.
func (r *Routing) Key(document []byte) (Key, error) { return r.extract(document) }

// ForWrite returns the target that decides the outcome of writes of the key.
func (r *Routing) ForWrite(key Key) (Target, error) { return r.transition.ForWrite(key) }

// Route returns where a write of the key goes, including the second copy during
// a move.
func (r *Routing) Route(key Key) (Route, error) { return r.transition.Route(key) }

// ForRead returns the targets that may hold documents of the selection.
func (r *Routing) ForRead(selection Selection[Key]) ([]Target, error) {
	return r.transition.ForRead(selection)
}

// Targets returns every target, during a move those of both plans.
func (r *Routing) Targets() []Target {
	if r.transition.Next == nil {
		return r.transition.Current.Targets()
	}
	return r.transition.Targets()
}

// Current returns the resolver of the current plan.
func (r *Routing) Current() Resolver[Key] { return r.transition.Current }

// Next returns the resolver of the plan to which a move leads, nil without a
// move.
func (r *Routing) Next() Resolver[Key] { return r.transition.Next }

// Modes returns the current read and write modes.
func (r *Routing) Modes() (ReadMode, WriteMode) { return r.transition.Read, r.transition.Write }

// Copies reports whether targets may hold copies of documents that they do not
// own. A read of several targets must then call Owns for every document. In
// Prepare this client makes no copies, but clients that are already in DualWrite
// do.
func (r *Routing) Copies() bool {
	return r.State.Move != nil || r.transition.Read == ReadBoth
}

// Owns reports whether documents of the key are read from the target.
func (r *Routing) Owns(target string, key Key) (bool, error) { return r.transition.Owns(target, key) }

// Moves returns where documents of the key are and where the move puts them. The
// names are equal for a key that does not move.
func (r *Routing) Moves(key Key) (from, to Target, err error) {
	if from, err = r.transition.Current.ForWrite(key); err != nil || r.transition.Next == nil {
		return from, from, err
	}
	to, err = r.transition.Next.ForWrite(key)
	return from, to, err
}

// acquire registers an operation. It returns false once the routing is retired.
func (r *Routing) acquire() bool {
	r.inFlight.Add(1)
	if r.closing.Load() {
		r.release()
		return false
	}
	return true
}

// release ends an operation.
func (r *Routing) release() {
	if r.inFlight.Add(-1) == 0 && r.closing.Load() {
		r.finish()
	}
}

// retire refuses new operations.
func (r *Routing) retire() {
	r.closing.Store(true)
	if r.inFlight.Load() == 0 {
		r.finish()
	}
}

// finish may be called more than once: an operation that is refused after
// closing can bring the count to 0 a second time.
func (r *Routing) finish() { r.finished.Do(func() { close(r.retired) }) }

// builder turns schemes into resolvers.
type builder struct {
	state    State
	registry Registry
	targets  map[string]Target
}

func (r *Routing) builder() *builder {
	b := &builder{state: r.State, registry: r.registry, targets: map[string]Target{}}
	for _, t := range r.State.Targets {
		b.targets[t.Name] = t
	}
	return b
}

// Ring builds the ring of a scheme in the current plan, "" for the first scheme,
// for instance to call Shares. The error is an ErrConfig if there is no such
// ring.
func (r *Routing) Ring(scheme string) (*Ring, error) {
	s := r.State.Current.scheme(scheme)
	if s.Kind != KindRing {
		return nil, fmt.Errorf("%w: no ring %q", ErrConfig, scheme)
	}
	b := r.builder()
	targets, err := b.named(r.State.Current, s.Targets...)
	if err != nil {
		return nil, err
	}
	hash, err := b.hash(s)
	if err != nil {
		return nil, err
	}
	return NewRing(RingConfig{targets, s.VirtualNodes, hash, s.Layout})
}

// scheme returns the scheme of a name, "" for the first scheme.
func (p Plan) scheme(name string) Scheme {
	if name == "" {
		return p.Scheme
	}
	return p.Behind[name]
}

// plan builds the resolvers of a plan. It also builds schemes that are not used,
// so that mistakes in them are found now.
func (b *builder) plan(p Plan) (Resolver[Key], error) {
	if len(p.Behind) > TargetsMax {
		return nil, fmt.Errorf("%w: %d schemes, at most %d are allowed", ErrConfig, len(p.Behind), TargetsMax)
	}
	built := map[string]Resolver[Key]{}
	first, err := b.chain(p, p.Scheme, built, 0)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Behind)) {
		if built[name] != nil {
			continue
		}
		built[name] = nil
		if built[name], err = b.chain(p, p.Behind[name], built, 1); err != nil {
			return nil, fmt.Errorf("scheme %s: %w", name, err)
		}
	}
	return first, nil
}

// chain builds a scheme and the schemes nested in it. built holds the finished
// schemes; nil marks those that are being built. depth bounds the recursion.
func (b *builder) chain(p Plan, s Scheme, built map[string]Resolver[Key], depth int) (Resolver[Key], error) {
	inner := map[string]Resolver[Key]{}
	for _, name := range s.names() {
		behind, found := p.Behind[name]
		if !found || inner[name] != nil {
			continue
		}
		next, known := built[name]
		if known && next == nil || depth == PathsMax {
			return nil, fmt.Errorf("%w: the scheme %q refers back to itself, or is nested deeper than %d levels", ErrConfig, name, PathsMax)
		}
		if !known {
			built[name] = nil
			var err error
			if next, err = b.chain(p, behind, built, depth+1); err != nil {
				return nil, fmt.Errorf("scheme %s: %w", name, err)
			}
			built[name] = next
		}
		inner[name] = next
	}
	outer, err := b.scheme(p, s)
	if err != nil || len(inner) == 0 {
		return outer, err
	}
	return NewChain(outer, inner)
}

// names returns the names of targets and schemes that the scheme uses.
func (s Scheme) names() []string {
	names := slices.Clone(s.Targets)
	for _, e := range s.Ranges {
		names = append(names, e.Target)
	}
	for _, e := range s.Table {
		names = append(names, e.Target)
	}
	if s.Default != "" {
		names = append(names, s.Default)
	}
	return names
}

// named returns the targets of the names. A nested scheme is represented by a
// target of its name until the chain replaces it.
func (b *builder) named(p Plan, names ...string) ([]Target, error) {
	targets := make([]Target, 0, len(names))
	for _, name := range names {
		t, found := b.targets[name]
		if _, behind := p.Behind[name]; !found && behind {
			t, found = Target{Name: name}, true
		}
		if !found {
			return nil, fmt.Errorf("%w: %q is neither a target nor a scheme", ErrConfig, name)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func (b *builder) scheme(p Plan, s Scheme) (Resolver[Key], error) {
	if err := b.checkLevel(s); err != nil {
		return nil, err
	}
	switch s.Kind {
	case KindRange:
		return b.ranges(p, s)
	case KindLookup:
		return b.lookup(p, s)
	}
	targets, err := b.named(p, s.Targets...)
	if err != nil {
		return nil, err
	}
	switch s.Kind {
	case KindSingle:
		if len(targets) != 1 {
			return nil, fmt.Errorf("%w: a single scheme has %d targets, want 1", ErrConfig, len(targets))
		}
		return Single[Key]{targets[0]}, nil
	case KindSpillover:
		return NewSpillover[Key](SpilloverConfig{s.Prefix, targets, s.MaxBytes, s.MaxDocuments, s.Fill, s.Opening})
	}
	hashed, err := b.hashed(s, targets)
	if err != nil {
		return nil, err
	}
	return ForKeys(hashed, s.level(), len(b.state.Key.Paths), Text), nil
}

// checkLevel rejects a scheme that no key of the state can satisfy. The number
// of levels is unknown if a function makes the keys.
func (b *builder) checkLevel(s Scheme) error {
	levels := len(b.state.Key.Paths)
	switch {
	case levels == 0 || s.Level == nil && levels == 1:
	case s.Level != nil && *s.Level >= levels:
		return fmt.Errorf("%w: level %d of a key whose last level is %d", ErrConfig, *s.Level, levels-1)
	case s.Level == nil && (s.Kind == KindRange || s.Kind == KindLookup):
		return fmt.Errorf("%w: a %s of a key with %d levels needs a level", ErrConfig, s.Kind, levels)
	}
	return nil
}

func (s Scheme) level() int {
	if s.Level == nil {
		return WholeKey
	}
	return *s.Level
}

func (b *builder) hash(s Scheme) (Hash, error) {
	hash := builtInHash(s.Hash)
	for _, h := range b.registry.Hashes {
		if hash == nil && h.Name() == s.Hash {
			hash = h
		}
	}
	if hash == nil {
		return nil, fmt.Errorf("%w: the hash %q is not registered in this program", ErrConfig, s.Hash)
	}
	return hash, nil
}

func (b *builder) hashed(s Scheme, targets []Target) (Resolver[string], error) {
	hash, err := b.hash(s)
	if err != nil {
		return nil, err
	}
	switch s.Kind {
	case KindRing:
		return NewRing(RingConfig{targets, s.VirtualNodes, hash, s.Layout})
	case KindRendezvous:
		return NewRendezvous(targets, hash)
	}
	return NewJump(targets, hash)
}

// The key types of a range.
const (
	TypeString = "string"
	TypeNumber = "number"
	TypeTime   = "time"
)

func (b *builder) ranges(p Plan, s Scheme) (Resolver[Key], error) {
	switch s.Type {
	case TypeString:
		return buildRange(b, p, s, String, cmp.Compare[string])
	case TypeNumber:
		return buildRange(b, p, s, Number, cmp.Compare[float64])
	case TypeTime:
		return buildRange(b, p, s, Time, time.Time.Compare)
	}
	return nil, fmt.Errorf("%w: the type of range keys %q, want string, number or time", ErrConfig, s.Type)
}

func buildRange[T any](b *builder, p Plan, s Scheme, convert func(Key) (T, error), compare func(a, b T) int) (Resolver[Key], error) {
	var entries []RangeEntry[T]
	for i, spec := range s.Ranges {
		targets, err := b.named(p, spec.Target)
		if err != nil {
			return nil, err
		}
		entry := RangeEntry[T]{Target: targets[0]}
		if entry.Interval.Low, err = bound(spec.Low, Included, convert); err != nil {
			return nil, fmt.Errorf("ranges[%d].low: %w", i, err)
		}
		kind := Excluded
		if spec.Closed {
			kind = Included
		}
		if entry.Interval.High, err = bound(spec.High, kind, convert); err != nil {
			return nil, fmt.Errorf("ranges[%d].high: %w", i, err)
		}
		entries = append(entries, entry)
	}
	r, err := NewRangeFunc(entries, compare, RangeOptions{AllowGaps: s.Gaps})
	if err != nil {
		return nil, err
	}
	return ForKeys(r, s.level(), len(b.state.Key.Paths), convert), nil
}

func bound[T any](value *Value, kind BoundKind, convert func(Key) (T, error)) (Bound[T], error) {
	if value == nil {
		return Bound[T]{}, nil
	}
	v, err := convert(partitionkey.NewKey(value.Component))
	if err != nil {
		return Bound[T]{}, fmt.Errorf("%w: the end of a range: %w", ErrConfig, err)
	}
	return Bound[T]{v, kind}, nil
}

func (b *builder) lookup(p Plan, s Scheme) (Resolver[Key], error) {
	table := map[partitionkey.Component]Target{}
	for i, row := range s.Table {
		targets, err := b.named(p, row.Target)
		if err != nil {
			return nil, err
		}
		for _, value := range row.Values {
			if _, twice := table[value.Component]; twice {
				return nil, fmt.Errorf("%w: table[%d]: %v is in the table twice", ErrConfig, i, partitionkey.NewKey(value.Component))
			}
			table[value.Component] = targets[0]
		}
	}
	var fallback *Target
	if s.Default != "" {
		targets, err := b.named(p, s.Default)
		if err != nil {
			return nil, err
		}
		fallback = &targets[0]
	}
	l, err := NewLookup(table, fallback)
	if err != nil {
		return nil, err
	}
	return ForKeys(l, s.level(), len(b.state.Key.Paths), onlyLevel), nil
}

// onlyLevel converts a key with one level to that level.
func onlyLevel(key Key) (partitionkey.Component, error) {
	if key.Len() != 1 {
		return partitionkey.Component{}, fmt.Errorf("%w: a look-up of a key with %d levels needs a level", ErrKey, key.Len())
	}
	return key.At(0), nil
}
