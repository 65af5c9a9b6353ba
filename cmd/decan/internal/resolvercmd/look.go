package resolvercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/resolver"
)

// keyHelp explains the keys of where, spread and plan.
const keyHelp = `A key is a JSON array of its levels, such as ["Norway",7], or a JSON object,
a document with that key. Any other text is a key of one string.`

type whereCommand struct {
	stateSource  `embed:""`
	Keys         []string `arg:"" help:"The keys. A key with fewer levels than that of the state is a prefix, which can only be read."`
	JSON         bool     `env:"-" help:"Print one line of JSON per key."`
	accountFlags `embed:""`
}

// Help returns the text that --help adds.
func (*whereCommand) Help() string { return keyHelp }

// place is the location of one key.
type place struct {
	Key   resolver.Key `json:"key"`
	Write string       `json:"write,omitempty"` // the target that decides about writes
	Copy  string       `json:"copy,omitempty"`  // the target that gets a copy of each write during a move
	Waits bool         `json:"waits,omitempty"` // writes wait for a move
	Read  []string     `json:"read"`
}

// Run prints where each key is written and read, and fails if a key has no target.
func (c *whereCommand) Run(io console.Streams) error {
	_, routing, err := c.open(context.Background(), &c.accountFlags)
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
	if err := c.print(io.Out, routing, places); err != nil {
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

type planCommand struct {
	stateSource  `embed:""`
	Next         string `arg:"" optional:"" help:"A JSON file with the next state, of which only the targets and the plan are used (default: the move that is in progress)."`
	Sample       string `name:"keys" env:"-" placeholder:"FILE" help:"A file with a key on each line, to count what moves; - is standard input."`
	JSON         bool   `env:"-" help:"Print JSON."`
	accountFlags `embed:""`
}

// Help returns the text that --help adds.
func (*planCommand) Help() string { return keyHelp }

// planReport is the output of plan --json.
type planReport struct {
	Added   []resolver.Target `json:"added"`   // targets that only the next plan has
	Dropped []resolver.Target `json:"dropped"` // targets that no plan names any more

	sampleMovement

	Rings []resolver.RingMovement `json:"rings"`
}

// sampleMovement is the movement of a sample of keys.
type sampleMovement struct {
	Keys     int        `json:"keys"`
	Moved    int        `json:"moved"`
	Unrouted int        `json:"unrouted"` // keys without a target in one of the plans
	Pairs    []planPair `json:"pairs"`
}

type planPair struct {
	From string `json:"from"`
	To   string `json:"to"`
	Keys int    `json:"keys"`
}

// Run compares the plan in force with the next one.
func (c *planCommand) Run(io console.Streams) error {
	state, err := c.load(context.Background(), &c.accountFlags)
	if err != nil {
		return brief(err)
	}
	before, after, err := bothPlans(state, c.Next)
	if err != nil {
		return err
	}
	report := planReport{
		Added:   without(after.Targets(), before.Targets()),
		Dropped: without(before.Targets(), after.Targets()),
	}
	report.Pairs = []planPair{}
	if report.Rings, err = resolver.RingMovements(before, after); err != nil {
		return err
	}
	if c.Sample != "" {
		if err := report.count(c.Sample, io.In, before, after); err != nil {
			return err
		}
	}
	if c.JSON {
		return console.PrintJSON(io.Out, report)
	}
	return report.print(io.Out, c.Sample != "")
}

// bothPlans returns the routing of a state before and after the move to the state in a
// file, or after the move that is in progress if next is "".
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
		return nil, nil, errors.New("no move is in progress: give the file of the next state")
	}
	end.Current, end.Move = end.Move.Next, nil
	state.Move = nil
	if before, err = openState(state); err != nil {
		return nil, nil, err
	}
	after, err = openState(end)
	return before, after, err
}

// begin returns the state in which a move to another state is prepared. A move changes
// only the layout, so it refuses other differences.
func begin(state, next resolver.State, id string) (resolver.State, error) {
	if !reflect.DeepEqual(state.Key, next.Key) {
		return state, fmt.Errorf("a move cannot change the key from %v to %v: the items would not be found", describeKey(state.Key), describeKey(next.Key))
	}
	if state.Move != nil {
		return state, fmt.Errorf("the move %s is in progress, in phase %s", state.Move.ID, state.Move.Phase)
	}
	if next.Move != nil {
		return state, errors.New("the next state already has a move")
	}
	for _, t := range next.Targets {
		i := slices.IndexFunc(state.Targets, func(have resolver.Target) bool { return have.Name == t.Name })
		if i < 0 {
			continue
		}
		have := state.Targets[i]
		have.Labels, t.Labels = nil, nil
		if !reflect.DeepEqual(have, t) {
			return state, fmt.Errorf("the target %s has another address or weight in the next state: a move keeps both, so give another target another name", t.Name)
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

// without returns the targets of the first list that are not in the second.
func without(targets, others []resolver.Target) []resolver.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t resolver.Target) bool {
		return slices.ContainsFunc(others, func(o resolver.Target) bool { return o.Name == t.Name })
	})
}

// count routes the sample of a file by both plans.
func (r *planReport) count(name string, stdin io.Reader, before, after *resolver.Routing) error {
	keys, err := openSample(name, stdin, before)
	if err != nil {
		return err
	}
	defer keys.in.Close()
	r.sampleMovement = movementOf(before, after, keys.keys())
	return keys.err
}

// movementOf routes keys by both plans.
func movementOf(before, after *resolver.Routing, keys iter.Seq[resolver.Key]) sampleMovement {
	movement := resolver.MovementSeq(before.Current(), after.Current(), keys)
	m := sampleMovement{Keys: movement.Keys, Moved: movement.Moved, Unrouted: movement.Unrouted, Pairs: []planPair{}}
	for _, from := range before.Targets() {
		for _, to := range after.Targets() {
			if n := movement.Pairs[[2]string{from.Name, to.Name}]; n > 0 {
				m.Pairs = append(m.Pairs, planPair{from.Name, to.Name, n})
			}
		}
	}
	return m
}

func (m *sampleMovement) print(table io.Writer) {
	fmt.Fprintf(table, "keys\t%s of %s move, %s; %s have no target\n", console.Grouped(m.Moved), console.Grouped(m.Keys), percent(float64(m.Moved), float64(m.Keys)), console.Grouped(m.Unrouted))
	for _, p := range m.Pairs {
		fmt.Fprintf(table, "  %s to %s\t%s, %s\n", p.From, p.To, console.Grouped(p.Keys), percent(float64(p.Keys), float64(m.Keys)))
	}
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
		r.sampleMovement.print(table)
	}
	for _, ring := range r.Rings {
		name := "ring"
		if ring.Scheme != "" {
			name += " " + ring.Scheme
		}
		fmt.Fprintf(table, "%s\t%s of %s move, %s of the ring\n", name, console.Grouped(ring.Moved), console.Counted(ring.Segments, "segment"), percent(ring.Share, 1))
		for _, p := range ring.Pairs {
			fmt.Fprintf(table, "  %s to %s\t%s, %s\n", p.From, p.To, console.Grouped(p.Segments), percent(p.Share, 1))
		}
	}
	if !sampled && len(r.Rings) == 0 {
		fmt.Fprintln(table, "keys\tgive a sample with --keys to count what moves")
	}
	return table.Flush()
}
