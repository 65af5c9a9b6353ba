package resolver

import (
	"fmt"
	"maps"
	"slices"
)

// Begin returns the state in which a move to the next plan is being prepared.
// targets lists everything that the next plan uses; a target that the state
// already has keeps its address. id must be unique among moves. The error is an
// ErrConfig, also if a move is in progress.
func (s State) Begin(id string, targets []Target, next Plan) (State, error) {
	if s.Move != nil {
		return s, fmt.Errorf("%w: the move %s is still in phase %s", ErrConfig, s.Move.ID, s.Move.Phase)
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

// Advance returns the state in another phase of its move. The error is an
// ErrConfig if the move cannot go from its phase to that one.
func (s State) Advance(to Phase) (State, error) {
	if s.Move == nil || !s.Move.Phase.MayBecome(to) {
		return s, fmt.Errorf("%w: there is no move that can go to phase %q", ErrConfig, to)
	}
	move := *s.Move
	move.Phase = to
	s.Move = &move
	return s.saved()
}

// Finish returns the state after its move: with the next plan after Clean, with
// the old plan after Undo. It removes targets that the plan no longer names. The
// error is an ErrConfig if the move is in neither of these phases.
func (s State) Finish() (State, error) {
	if s.Move == nil || !s.Move.Phase.Final() {
		return s, fmt.Errorf("%w: there is no move that can end", ErrConfig)
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

// saved increments the revision and checks the state.
func (s State) saved() (State, error) {
	s.Revision++
	s = s.withDefaults()
	return s, s.check()
}

// names returns the names of targets and schemes that the schemes of the plan
// use.
func (p Plan) names() []string {
	names := p.Scheme.names()
	for _, name := range slices.Sorted(maps.Keys(p.Behind)) {
		names = append(names, p.Behind[name].names()...)
	}
	return names
}

// WithTargets returns the plan with other targets for the nested scheme of the
// given name, or for the first scheme if the name is "". The error is an
// ErrConfig if the scheme does not exist or does not list its targets.
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

// withScheme returns the plan with the scheme of an existing name replaced, ""
// for the first scheme.
func (p Plan) withScheme(name string, s Scheme) Plan {
	if name == "" {
		p.Scheme = s
		return p
	}
	p.Behind = maps.Clone(p.Behind)
	p.Behind[name] = s
	return p
}

// Spill returns the state with one more container in the spillover scheme of the
// given name, or in the first scheme if the name is "", and the target of that
// container. The container is opening: clients read it, but write it only after
// EndSpill. If clients wrote it earlier, a client with an older state would not
// find the document and could write it again elsewhere. Clients with the same
// state get the same result. The error is an ErrConfig, also while a container
// is opening or a move is in progress.
func (s State) Spill(scheme string) (State, Target, error) {
	spillover, err := s.Spillover(scheme)
	if err != nil {
		return s, Target{}, err
	}
	next := spillover.Next()
	if s.Move != nil {
		return s, Target{}, fmt.Errorf("%w: no new spillover container while the move %s is in progress", ErrConfig, s.Move.ID)
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

// EndSpill returns the state in which the container that Spill added accepts
// writes. Call it only when every client has the state that Spill returned. The
// error is an ErrConfig if no container of the scheme is opening.
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

// Spillover returns the nested spillover scheme of the given name in the current
// plan, or the first scheme if the name is "". The error is an ErrConfig.
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
