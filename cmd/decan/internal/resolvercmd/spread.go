package resolvercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/resolver"
)

type spreadCommand struct {
	stateSource  `embed:""`
	Sample       string `arg:"" default:"-" help:"A file with a key on each line (default: standard input)."`
	To           string `env:"-" placeholder:"FILE" help:"Also count what moves to the layout of this state. A move that is in progress is always counted."`
	JSON         bool   `env:"-" help:"Print JSON."`
	accountFlags `embed:""`
}

// Help is what --help adds.
func (*spreadCommand) Help() string { return keyHelp }

// spreadReport is the output of spread --json.
type spreadReport struct {
	Keys      int             `json:"keys"`
	Unrouted  int             `json:"unrouted"`
	MaxToMean float64         `json:"maxToMean"`
	Gini      float64         `json:"gini"`
	Targets   []spreadShare   `json:"targets"`
	Rings     []ringPicture   `json:"rings,omitempty"`
	Ranges    []rangePicture  `json:"ranges,omitempty"`
	Movement  *sampleMovement `json:"movement,omitempty"` // to another layout
}

type spreadShare struct {
	Target string  `json:"target"`
	Weight float64 `json:"weight"`
	Keys   int     `json:"keys"`
	Share  float64 `json:"share"` // of the keys that have a target
}

// Run routes the sample by the current plan, and by the next one if there is one.
func (c *spreadCommand) Run(io console.Streams) error {
	state, routing, err := c.open(context.Background(), &c.accountFlags)
	if err != nil {
		return err
	}
	report, err := c.measure(io.In, state, routing)
	if err != nil {
		return err
	}
	if c.JSON {
		return console.PrintJSON(io.Out, report)
	}
	return report.print(io.Out)
}

func (c *spreadCommand) measure(stdin io.Reader, state resolver.State, routing *resolver.Routing) (*spreadReport, error) {
	sample, err := openSample(c.Sample, stdin, routing)
	if err != nil {
		return nil, err
	}
	defer sample.in.Close()
	keys, report := sample.keys(), &spreadReport{Targets: []spreadShare{}}
	if c.To != "" || state.Move != nil {
		before, after, err := bothPlans(state, c.To)
		if err != nil {
			return nil, err
		}
		all := slices.Collect(keys) // They are read twice, and may come from a pipe.
		movement := movementOf(before, after, slices.Values(all))
		keys, report.Movement = slices.Values(all), &movement
	}
	if report.Rings, err = ringPictures(routing); err != nil {
		return nil, err
	}
	report.Ranges = rangePictures(routing)
	spread := resolver.SpreadSeq(routing.Current(), tallied(keys, report.Ranges))
	if sample.err != nil {
		return nil, sample.err
	}
	report.Keys, report.Unrouted = spread.KeysRouted+spread.Unrouted, spread.Unrouted
	report.MaxToMean, report.Gini = spread.MaxToMean, spread.Gini
	if report.Keys == 0 {
		return nil, fmt.Errorf("%s has no keys", sample.name)
	}
	for _, t := range routing.Current().Targets() {
		count := spread.Counts[t.Name]
		share := float64(count) / float64(max(spread.KeysRouted, 1))
		report.Targets = append(report.Targets, spreadShare{t.Name, cmp.Or(t.Weight, 1), count, share})
	}
	return report, nil
}

// spreadBar is the length of the longest bar.
const spreadBar = 40

func (r *spreadReport) print(out io.Writer) error {
	most, weighted := 0, false
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, console.Grouped(t.Keys), percent(t.Share, 1), bar(float64(t.Keys), float64(most), spreadBar))
	}
	errs := []error{table.Flush()}
	_, err := fmt.Fprintf(out, "%s, %s without a target; fullest %.2f of the mean, Gini %.3f\n", console.Counted(r.Keys, "key"), console.Grouped(r.Unrouted), r.MaxToMean, r.Gini)
	errs = append(errs, err)
	for _, ring := range r.Rings {
		errs = append(errs, ring.print(out))
	}
	for _, ranges := range r.Ranges {
		errs = append(errs, ranges.print(out))
	}
	if r.Movement != nil {
		r.Movement.print(table)
		errs = append(errs, table.Flush())
	}
	return errors.Join(errs...)
}

// ringPicture is a ring of the current plan.
type ringPicture struct {
	Scheme string      `json:"scheme,omitempty"` // "" for the first
	Shares []ringShare `json:"shares"`

	marks string // the owner of each part of the ring, by its mark
}

type ringShare struct {
	Target string  `json:"target"`
	Share  float64 `json:"share"` // of the ring
}

const (
	// ringRows rows of ringColumns marks show a ring.
	ringRows    = 4
	ringColumns = 64

	// ringMarks are the marks of the targets; targets beyond them have a dot.
	ringMarks = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
)

// markOf returns the mark of target i.
func markOf(i int) byte {
	if i < len(ringMarks) {
		return ringMarks[i]
	}
	return '.'
}

// schemesOf returns the names of the schemes of a kind in the current plan; "" is the
// first.
func schemesOf(routing *resolver.Routing, kind string) []string {
	plan := routing.State.Current
	var names []string
	if plan.Scheme.Kind == kind {
		names = append(names, "")
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Behind)) {
		if plan.Behind[name].Kind == kind {
			names = append(names, name)
		}
	}
	return names
}

// ringPictures draws the rings of the current plan.
func ringPictures(routing *resolver.Routing) ([]ringPicture, error) {
	var pictures []ringPicture
	for _, name := range schemesOf(routing, resolver.KindRing) {
		ring, err := routing.Ring(name)
		if err != nil {
			return nil, err
		}
		picture, marks := ringPicture{Scheme: name}, map[string]byte{}
		shares := ring.Shares()
		for i, t := range ring.Targets() {
			marks[t.Name] = markOf(i)
			picture.Shares = append(picture.Shares, ringShare{t.Name, shares[i]})
		}
		drawn := make([]byte, ringRows*ringColumns)
		for i := range drawn {
			drawn[i] = marks[ring.OwnerAt((float64(i)+0.5)/float64(len(drawn))).Name]
		}
		picture.marks = string(drawn)
		pictures = append(pictures, picture)
	}
	return pictures, nil
}

func (p *ringPicture) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s, a mark for each of %d parts\n", titled("ring", p.Scheme), len(p.marks))
	for row := range ringRows {
		fmt.Fprintf(table, "  %s\n", p.marks[row*ringColumns:(row+1)*ringColumns])
	}
	for i, s := range p.Shares {
		fmt.Fprintf(table, "  %c\t%s\t%s of the ring\n", markOf(i), s.Target, percent(s.Share, 1))
	}
	return table.Flush()
}

// titled returns a word and the name of its scheme, if it has one.
func titled(word, scheme string) string {
	if scheme == "" {
		return word
	}
	return word + " " + scheme
}

// rangePicture is a range scheme of the current plan, with the number of keys of the
// sample in each of its entries.
type rangePicture struct {
	Scheme string      `json:"scheme,omitempty"` // "" for the first
	Ranges []rangeKeys `json:"ranges"`

	counter *resolver.Routing // routes a key to the number of its entry
}

type rangeKeys struct {
	resolver.RangeSpec
	Keys int `json:"keys"`
}

// rangePictures returns the ranges of the current plan, without keys.
func rangePictures(routing *resolver.Routing) []rangePicture {
	var pictures []rangePicture
	for _, name := range schemesOf(routing, resolver.KindRange) {
		state := routing.State
		state.Move = nil
		state.Targets = slices.Clone(state.Targets)
		scheme := state.Current.Scheme
		if name != "" {
			scheme = state.Current.Behind[name]
		}
		picture := rangePicture{Scheme: name}
		scheme.Ranges = slices.Clone(scheme.Ranges)
		for i := range scheme.Ranges {
			picture.Ranges = append(picture.Ranges, rangeKeys{RangeSpec: scheme.Ranges[i]})
			// Each entry gets a target of its own.
			scheme.Ranges[i].Target = entryName(i)
			state.Targets = append(state.Targets, resolver.Target{Name: entryName(i)})
		}
		if name == "" {
			state.Current.Scheme = scheme
		} else {
			state.Current.Behind = maps.Clone(state.Current.Behind)
			state.Current.Behind[name] = scheme
		}
		var err error
		if picture.counter, err = openState(state); err == nil { // Otherwise there are too many to show.
			pictures = append(pictures, picture)
		}
	}
	return pictures
}

// entryName returns the name of an entry's own target. No target of a user has it.
func entryName(i int) string { return fmt.Sprintf("\x00%d", i) }

// tallied yields the keys, and counts them in their entries.
func tallied(keys iter.Seq[resolver.Key], pictures []rangePicture) iter.Seq[resolver.Key] {
	if len(pictures) == 0 {
		return keys
	}
	return func(yield func(resolver.Key) bool) {
		for key := range keys {
			for _, p := range pictures {
				p.count(key)
			}
			if !yield(key) {
				return
			}
		}
	}
}

func (p *rangePicture) count(key resolver.Key) {
	var entry int
	t, err := p.counter.ForWrite(key)
	if err != nil {
		return
	}
	if _, err := fmt.Sscanf(t.Name, "\x00%d", &entry); err == nil && entry >= 0 && entry < len(p.Ranges) {
		p.Ranges[entry].Keys++
	}
}

func (p *rangePicture) print(out io.Writer) error {
	most := 0
	for _, r := range p.Ranges {
		most = max(most, r.Keys)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, titled("ranges", p.Scheme))
	for _, r := range p.Ranges {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", interval(r.RangeSpec), r.Target, console.Grouped(r.Keys), bar(float64(r.Keys), float64(most), spreadBar))
	}
	return table.Flush()
}

// interval writes a range: brackets include a bound, parentheses exclude it.
func interval(r resolver.RangeSpec) string {
	end := func(v *resolver.Value, open string) string {
		if v == nil {
			return open
		}
		text, err := v.MarshalJSON()
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	low, high := "[", ")"
	if r.Low == nil {
		low = "("
	}
	if r.High != nil && r.Closed {
		high = "]"
	}
	return low + end(r.Low, "-inf") + ", " + end(r.High, "+inf") + high
}
