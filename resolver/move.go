package resolver

import (
	"fmt"
	"maps"
	"slices"
)

// Begin returns the state in which a move to the next plan is being prepared.
// targets are all that the next plan uses; those that the state has already keep
// their address. id tells the move from every other. The error is an ErrConfig, also
// when a move is under way.
func (s State) Begin(id string, targets []Target, next Plan) (State, error) {
	if s.Move != nil {
		return s, fmt.Errorf("%w: the move %s is in phase %s", ErrConfig, s.Move.ID, s.Move.Phase)
	}
	s.Targets = slices.Clone(s.Targets)
	for _, t := range targets {
		if !slices.ContainsFunc(s.Targets, func(have Target) bool { return have.Name == t.Name }) {
			s.Targets = append(s.Targets, t)
		}
	}
	s.Move = &Move{ID: id, Phase: Prepare, Next: next}
	return s.saved()
}

// Advance returns the state in another phase of its move. The error is an ErrConfig
// when the present phase may not become that one.
func (s State) Advance(to Phase) (State, error) {
	if s.Move == nil || !s.Move.Phase.MayBecome(to) {
		return s, fmt.Errorf("%w: no move that may go to phase %q", ErrConfig, to)
	}
	move := *s.Move
	move.Phase = to
	s.Move = &move
	return s.saved()
}

// Finish returns the state after its move: with the next plan after Clean, with the
// old one after Undo, and without the targets that nothing names any more.
func (s State) Finish() (State, error) {
	if s.Move == nil || !s.Move.Phase.Final() {
		return s, fmt.Errorf("%w: no move that may end", ErrConfig)
	}
	if s.Move.Phase == Clean {
		s.Current = s.Move.Next
		s.Moves++
	}
	s.Move = nil
	used := map[string]bool{}
	for _, name := range s.Current.names() {
		used[name] = true
	}
	s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(t Target) bool { return !used[t.Name] })
	return s.saved()
}

// saved counts the revision up and checks.
func (s State) saved() (State, error) {
	s.Revision++
	s = s.withDefaults()
	return s, s.check()
}

// names returns what the schemes of the plan name.
func (p Plan) names() []string {
	names := p.Scheme.names()
	for _, name := range slices.Sorted(maps.Keys(p.Behind)) {
		names = append(names, p.Behind[name].names()...)
	}
	return names
}

// WithTargets returns the plan whose scheme of the given name behind it, or whose
// first scheme for "", spreads over other targets. Only schemes that list their
// targets have such a plan; the error is an ErrConfig.
func (p Plan) WithTargets(scheme string, targets ...string) (Plan, error) {
	s := p.Scheme
	if scheme != "" {
		var found bool
		if s, found = p.Behind[scheme]; !found {
			return p, fmt.Errorf("%w: no scheme %q", ErrConfig, scheme)
		}
	}
	if len(s.Targets) == 0 {
		return p, fmt.Errorf("%w: a scheme of kind %s lists no targets", ErrConfig, s.Kind)
	}
	s.Targets = slices.Clone(targets)
	if scheme == "" {
		p.Scheme = s
		return p, nil
	}
	p.Behind = maps.Clone(p.Behind)
	p.Behind[scheme] = s
	return p, nil
}

// Spill returns the state with one more container in the spillover scheme of the
// given name behind the current plan, or in its first scheme for "", and that
// container. Clients that know the same state get the same answer. The error is an
// ErrConfig, also while a move is under way.
func (s State) Spill(scheme string) (State, Target, error) {
	spillover, err := s.Spillover(scheme)
	if err != nil {
		return s, Target{}, err
	}
	if s.Move != nil {
		return s, Target{}, fmt.Errorf("%w: no spillover while the move %s is under way", ErrConfig, s.Move.ID)
	}
	next := spillover.Next()
	var names []string
	for _, t := range append(spillover.Targets(), next) {
		names = append(names, t.Name)
	}
	if s.Current, err = s.Current.WithTargets(scheme, names...); err != nil {
		return s, Target{}, err
	}
	s.Targets = append(slices.Clone(s.Targets), next)
	s, err = s.saved()
	return s, next, err
}

// Spillover returns the spillover scheme of the given name behind the current plan,
// or its first scheme for "". The error is an ErrConfig.
func (s State) Spillover(scheme string) (*Spillover[Key], error) {
	spec := s.Current.Scheme
	if scheme != "" {
		spec = s.Current.Behind[scheme]
	}
	if spec.Kind != KindSpillover {
		return nil, fmt.Errorf("%w: no spillover scheme %q", ErrConfig, scheme)
	}
	c := SpilloverConfig{Prefix: spec.Prefix, MaxBytes: spec.MaxBytes, MaxDocuments: spec.MaxDocuments, Fill: spec.Fill}
	for _, t := range s.Targets {
		if slices.Contains(spec.Targets, t.Name) {
			c.Targets = append(c.Targets, t)
		}
	}
	return NewSpillover[Key](c)
}
