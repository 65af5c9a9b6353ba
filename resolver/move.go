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
	if _, found := p.Behind[scheme]; scheme != "" && !found {
		return p, fmt.Errorf("%w: no scheme %q", ErrConfig, scheme)
	}
	s := p.scheme(scheme)
	if len(s.Targets) == 0 {
		return p, fmt.Errorf("%w: a scheme of kind %s lists no targets", ErrConfig, s.Kind)
	}
	s.Targets = slices.Clone(targets)
	return p.withScheme(scheme, s), nil
}

// withScheme returns the plan with another scheme of a name that it has, "" for the first.
func (p Plan) withScheme(name string, s Scheme) Plan {
	if name == "" {
		p.Scheme = s
		return p
	}
	p.Behind = maps.Clone(p.Behind)
	p.Behind[name] = s
	return p
}

// Spill returns the state with one more container in the spillover scheme of the given
// name behind the current plan, or in its first scheme for "", and that container. It is
// opening: clients read it, and write it only after EndSpill. Until all of them read it, what
// one wrote there another one would not find, and write again where it knows to.
// Clients that know the same state get the same answer. The error is an ErrConfig, also
// while a container is opening or a move is under way.
func (s State) Spill(scheme string) (State, Target, error) {
	spillover, err := s.Spillover(scheme)
	if err != nil {
		return s, Target{}, err
	}
	next := spillover.Next()
	if s.Move != nil {
		return s, Target{}, fmt.Errorf("%w: no spillover while the move %s is under way", ErrConfig, s.Move.ID)
	}
	if spillover.Opening() {
		return s, Target{}, fmt.Errorf("%w: the container %s is still opening", ErrConfig, next.Name)
	}
	spec := s.Current.scheme(scheme)
	spec.Targets, spec.Opening = append(slices.Clone(spec.Targets), next.Name), true
	s.Current = s.Current.withScheme(scheme, spec)
	s.Targets = append(slices.Clone(s.Targets), next)
	s, err = s.saved()
	return s, next, err
}

// EndSpill returns the state in which the container that Spill has added takes writes. It is
// safe once every client knows the state that Spill returned. The error is an ErrConfig
// when no container of the scheme is opening.
func (s State) EndSpill(scheme string) (State, error) {
	spillover, err := s.Spillover(scheme)
	if err != nil {
		return s, err
	}
	if !spillover.Opening() {
		return s, fmt.Errorf("%w: no container of the spillover %q is opening", ErrConfig, scheme)
	}
	spec := s.Current.scheme(scheme)
	spec.Opening = false
	s.Current = s.Current.withScheme(scheme, spec)
	return s.saved()
}

// Spillover returns the spillover scheme of the given name behind the current plan,
// or its first scheme for "". The error is an ErrConfig.
func (s State) Spillover(scheme string) (*Spillover[Key], error) {
	spec := s.Current.scheme(scheme)
	if spec.Kind != KindSpillover {
		return nil, fmt.Errorf("%w: no spillover scheme %q", ErrConfig, scheme)
	}
	c := SpilloverConfig{Prefix: spec.Prefix, MaxBytes: spec.MaxBytes, MaxDocuments: spec.MaxDocuments, Fill: spec.Fill, Opening: spec.Opening}
	for _, t := range s.Targets {
		if slices.Contains(spec.Targets, t.Name) {
			c.Targets = append(c.Targets, t)
		}
	}
	return NewSpillover[Key](c)
}
