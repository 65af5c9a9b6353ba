package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/decandb/decan/resolver"
)

// keyHelp says how keys are given to where, spread and plan.
const keyHelp = `A key is given as a JSON array of its levels, such as ["Norway",7],
or as a JSON object, a document that has it. Anything else is a key of one string.`

type whereCommand struct {
	stateSource  `embed:""`
	Keys         []string `arg:"" help:"The keys. A key with fewer levels than the state's is a prefix, which can be read only."`
	JSON         bool     `env:"-" help:"Print one line of JSON per key."`
	accountFlags `embed:""`
}

// Help is what --help adds.
func (*whereCommand) Help() string { return keyHelp }

// place is where one key is.
type place struct {
	Key   resolver.Key `json:"key"`
	Write string       `json:"write,omitempty"` // the target that decides
	Copy  string       `json:"copy,omitempty"`  // the target that gets a copy during a move
	Waits bool         `json:"waits,omitempty"` // writes wait for a move
	Read  []string     `json:"read"`
}

// Run prints where each key is written and read, and fails when one is nowhere.
func (c *whereCommand) Run(io streams) error {
	state, err := c.load(context.Background(), &c.accountFlags)
	if err != nil {
		return say(err)
	}
	routing, err := openState(state)
	if err != nil {
		return err
	}
	var places []place
	var problems []error
	for _, text := range c.Keys {
		found, err := locate(routing, text)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		places = append(places, found)
	}
	if err := c.print(io.out, routing, places); err != nil {
		return err
	}
	if len(problems) > 1 {
		return fmt.Errorf("%w (and %d more)", problems[0], len(problems)-1)
	}
	return errors.Join(problems...)
}

// locate resolves one key.
func locate(routing *resolver.Routing, text string) (place, error) {
	key, err := parseKey(routing, text)
	if err != nil {
		return place{}, err
	}
	found := place{Key: key, Read: []string{}}
	targets, err := routing.ForRead(resolver.Keys(key))
	if err != nil && !errors.Is(err, resolver.ErrMigrating) {
		return found, fmt.Errorf("%v: %w", key, err)
	}
	for _, t := range targets {
		found.Read = append(found.Read, t.Name)
	}
	route, err := routing.Route(key)
	found.Waits = errors.Is(err, resolver.ErrMigrating)
	if err == nil || found.Waits {
		found.Write = route.First.Name
		if route.Moves {
			found.Copy = route.Second.Name
		}
		return found, nil
	}
	prefix := errors.Is(err, resolver.ErrKey) && key.Len() < len(routing.State.Key.Paths)
	if prefix && len(found.Read) > 0 {
		return found, nil
	}
	return found, fmt.Errorf("%v: %w", key, err)
}

func (c *whereCommand) print(out io.Writer, routing *resolver.Routing, places []place) error {
	if c.JSON {
		for _, found := range places {
			text, err := marshalLine(found)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(out, text); err != nil {
				return err
			}
		}
		return nil
	}
	if len(places) == 0 {
		return nil
	}
	addresses := map[string]string{}
	for _, t := range routing.Targets() {
		addresses[t.Name] = address(t)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "key\twrite\tread")
	for _, found := range places {
		write := addresses[found.Write]
		switch {
		case found.Write == "":
			write = "a prefix"
		case found.Waits && found.Copy != "":
			write = "waits for the move to " + addresses[found.Copy]
		case found.Copy != "":
			write += ", copy in " + addresses[found.Copy]
		}
		read := strings.Join(found.Read, ", ")
		if read == "" {
			read = "-"
		}
		fmt.Fprintf(table, "%v\t%s\t%s\n", found.Key, write, read)
	}
	return table.Flush()
}

type spreadCommand struct {
	stateSource  `embed:""`
	Sample       string `arg:"" default:"-" help:"A file with a key on each line. Default: standard input."`
	JSON         bool   `env:"-" help:"Print JSON."`
	accountFlags `embed:""`
}

// Help is what --help adds.
func (*spreadCommand) Help() string { return keyHelp }

// spreadReport is what spread --json prints.
type spreadReport struct {
	Keys      int           `json:"keys"`
	Unrouted  int           `json:"unrouted"`
	MaxToMean float64       `json:"maxToMean"`
	Gini      float64       `json:"gini"`
	Targets   []spreadShare `json:"targets"`
}

type spreadShare struct {
	Target string  `json:"target"`
	Weight float64 `json:"weight"`
	Keys   int     `json:"keys"`
	Share  float64 `json:"share"` // of the keys that have a target
}

// Run routes the sample by the plan in force.
func (c *spreadCommand) Run(io streams) error {
	state, err := c.load(context.Background(), &c.accountFlags)
	if err != nil {
		return say(err)
	}
	routing, err := openState(state)
	if err != nil {
		return err
	}
	keys, err := openSample(c.Sample, routing)
	if err != nil {
		return err
	}
	defer keys.in.Close()
	spread := resolver.SpreadSeq(routing.Current(), keys.keys())
	if keys.err != nil {
		return keys.err
	}
	report := spreadReport{Keys: spread.KeysRouted + spread.Unrouted, Unrouted: spread.Unrouted, MaxToMean: spread.MaxToMean, Gini: spread.Gini, Targets: []spreadShare{}}
	if report.Keys == 0 {
		return fmt.Errorf("%s has no keys", keys.name)
	}
	for _, t := range routing.Current().Targets() {
		count := spread.Counts[t.Name]
		weight := t.Weight
		if weight == 0 {
			weight = 1
		}
		report.Targets = append(report.Targets, spreadShare{t.Name, weight, count, float64(count) / float64(max(spread.KeysRouted, 1))})
	}
	if c.JSON {
		return printJSON(io.out, report)
	}
	return report.print(io.out)
}

// spreadBar is the length of the longest bar.
const spreadBar = 40

func (r *spreadReport) print(out io.Writer) error {
	most := 0
	weighted := false
	for _, t := range r.Targets {
		most = max(most, t.Keys)
		weighted = weighted || t.Weight != 1
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range r.Targets {
		name := t.Target
		if weighted {
			name += fmt.Sprintf("\tweight %v", t.Weight)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", name, t.Keys, percent(t.Share, 1), bar(float64(t.Keys), float64(most), spreadBar))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d keys, %d without a target; fullest %.2f of the mean, Gini %.3f\n", r.Keys, r.Unrouted, r.MaxToMean, r.Gini)
	return err
}

type planCommand struct {
	stateSource  `embed:""`
	Next         string `arg:"" optional:"" help:"A JSON file with the state to come; only its targets and its plan count. Default: the move that is under way."`
	Sample       string `name:"keys" env:"-" placeholder:"FILE" help:"A file with a key on each line, - for standard input, to count what moves."`
	JSON         bool   `env:"-" help:"Print JSON."`
	accountFlags `embed:""`
}

// Help is what --help adds.
func (*planCommand) Help() string { return keyHelp }

// planReport is what plan --json prints.
type planReport struct {
	Added   []resolver.Target `json:"added"`   // targets that only the next plan has
	Dropped []resolver.Target `json:"dropped"` // targets that nothing names any more

	Keys     int        `json:"keys"` // in the sample
	Moved    int        `json:"moved"`
	Unrouted int        `json:"unrouted"` // keys that one of the plans does not take
	Pairs    []planPair `json:"pairs"`

	Rings []resolver.RingMovement `json:"rings"`
}

type planPair struct {
	From string `json:"from"`
	To   string `json:"to"`
	Keys int    `json:"keys"`
}

// Run compares the plan in force with the next one.
func (c *planCommand) Run(io streams) error {
	state, err := c.load(context.Background(), &c.accountFlags)
	if err != nil {
		return say(err)
	}
	before, after, err := bothPlans(state, c.Next)
	if err != nil {
		return err
	}
	report := planReport{
		Added:   without(after.Targets(), before.Targets()),
		Dropped: without(before.Targets(), after.Targets()),
		Pairs:   []planPair{},
	}
	if report.Rings, err = resolver.RingMovements(before, after); err != nil {
		return err
	}
	if c.Sample != "" {
		if err := report.count(c.Sample, before, after); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(io.out, report)
	}
	return report.print(io.out, c.Sample != "")
}

// bothPlans returns the routing of a state before and after the move to the state in a
// file, or after the move that is under way when there is no file.
func bothPlans(state resolver.State, next string) (before, after *resolver.Routing, err error) {
	end := state
	switch {
	case next != "":
		wanted, err := readState(next)
		if err != nil {
			return nil, nil, err
		}
		if end, err = begin(state, wanted, "plan"); err != nil {
			return nil, nil, err
		}
	case state.Move == nil:
		return nil, nil, errors.New("no move is under way: name the file of the state to come")
	}
	end.Current, end.Move = end.Move.Next, nil
	state.Move = nil
	if before, err = openState(state); err != nil {
		return nil, nil, err
	}
	after, err = openState(end)
	return before, after, err
}

// begin returns the state in which a move to another state is prepared. Only the layout
// moves, so what else differs is refused rather than forgotten.
func begin(state, next resolver.State, id string) (resolver.State, error) {
	if !reflect.DeepEqual(state.Key, next.Key) {
		return state, fmt.Errorf("a move cannot change the key from %v to %v: it would not find the items", describeKey(state.Key), describeKey(next.Key))
	}
	if state.Move != nil {
		return state, fmt.Errorf("the move %s is under way, in phase %s", state.Move.ID, state.Move.Phase)
	}
	if next.Move != nil {
		return state, errors.New("the state to move to has a move of its own")
	}
	for _, t := range next.Targets {
		i := slices.IndexFunc(state.Targets, func(have resolver.Target) bool { return have.Name == t.Name })
		if i < 0 {
			continue
		}
		have := state.Targets[i]
		have.Labels, t.Labels = nil, nil
		if !reflect.DeepEqual(have, t) {
			return state, fmt.Errorf("the target %s has another address or weight in the state to move to: a move keeps both, so give a target that differs another name", t.Name)
		}
	}
	return state.Begin(id, next.Targets, next.Current)
}

func describeKey(key resolver.KeySpec) string {
	if key.Function != "" {
		return "function " + key.Function
	}
	return strings.Join(key.Paths, ", ")
}

// without returns the targets of the first list that the second lacks.
func without(targets, others []resolver.Target) []resolver.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t resolver.Target) bool {
		return slices.ContainsFunc(others, func(o resolver.Target) bool { return o.Name == t.Name })
	})
}

// count routes the sample by both plans.
func (r *planReport) count(name string, before, after *resolver.Routing) error {
	keys, err := openSample(name, before)
	if err != nil {
		return err
	}
	defer keys.in.Close()
	movement := resolver.MovementSeq(before.Current(), after.Current(), keys.keys())
	if keys.err != nil {
		return keys.err
	}
	r.Keys, r.Moved, r.Unrouted = movement.Keys, movement.Moved, movement.Unrouted
	for _, from := range before.Targets() {
		for _, to := range after.Targets() {
			if n := movement.Pairs[[2]string{from.Name, to.Name}]; n > 0 {
				r.Pairs = append(r.Pairs, planPair{from.Name, to.Name, n})
			}
		}
	}
	return nil
}

func (r *planReport) print(out io.Writer, sampled bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range r.Added {
		fmt.Fprintf(table, "new\t%s\n", address(t))
	}
	for _, t := range r.Dropped {
		fmt.Fprintf(table, "no longer used\t%s\n", address(t))
	}
	if sampled {
		fmt.Fprintf(table, "keys\t%d of %d move, %s; %d have no target\n", r.Moved, r.Keys, percent(float64(r.Moved), float64(r.Keys)), r.Unrouted)
		for _, p := range r.Pairs {
			fmt.Fprintf(table, "  %s to %s\t%d, %s\n", p.From, p.To, p.Keys, percent(float64(p.Keys), float64(r.Keys)))
		}
	}
	for _, ring := range r.Rings {
		name := "ring"
		if ring.Scheme != "" {
			name += " " + ring.Scheme
		}
		fmt.Fprintf(table, "%s\t%d of %d segments move, %s of the ring\n", name, ring.Moved, ring.Segments, percent(ring.Share, 1))
		for _, p := range ring.Pairs {
			fmt.Fprintf(table, "  %s to %s\t%d, %s\n", p.From, p.To, p.Segments, percent(p.Share, 1))
		}
	}
	if !sampled && len(r.Rings) == 0 {
		fmt.Fprintln(table, "keys\tgive a sample with --keys to count what moves")
	}
	return table.Flush()
}
