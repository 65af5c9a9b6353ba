package resolvercmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

type migrateCommand struct {
	stateSource     `embed:""`
	To              string  `env:"-" placeholder:"FILE" help:"A JSON file with the next state, of which only the targets and the plan are used. Not needed to continue a move."`
	Undo            bool    `env:"-" help:"Undo the move; possible until it switches."`
	Make            bool    `env:"-" help:"Create containers that only the next plan has, with the properties, throughput and scripts of the first container of the current plan."`
	Alone           bool    `env:"-" help:"Do not wait between phases for other programs to read the state, because none uses it now."`
	ItemsPerSecond  float64 `env:"-" placeholder:"N" help:"The maximum number of items per second (default: no limit)."`
	ChargePerSecond float64 `env:"-" placeholder:"RU" help:"The maximum number of request units per second (default: no limit)."`
	Page            int     `default:"100" env:"-" placeholder:"N" help:"How many items to process between two saves of the progress (${default})."`
	Progress        bool    `env:"-" help:"Show the progress also if the output is not a terminal, as a line for each tenth of a phase."`
	Parallelism     int     `default:"8" env:"-" placeholder:"N" help:"How many items to process at the same time (${default})."`
	clientFlags     `embed:""`
	accountFlags    `embed:""`
}

// Validate refuses invalid numbers and contradictory flags.
func (c *migrateCommand) Validate() error {
	switch {
	case c.Undo && c.To != "":
		return errors.New("--undo undoes a move and --to begins one: give only one")
	case c.ItemsPerSecond < 0 || c.ChargePerSecond < 0:
		return errors.New("--items-per-second and --charge-per-second must not be negative")
	case c.Page < 1 || c.Parallelism < 1:
		return errors.New("--page and --parallelism must be at least 1")
	}
	return c.clientFlags.Validate()
}

// Run begins or continues a move, and completes it.
func (c *migrateCommand) Run(io console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	var next resolver.State
	if c.To != "" {
		var err error
		if next, err = readState(c.To); err != nil {
			return err
		}
	}
	connected, err := c.connect(ctx, &c.accountFlags, &c.clientFlags, c.Parallelism)
	if err != nil {
		return brief(err)
	}
	defer connected.live.Close()
	meter := &moveMeter{out: io.Out, terminal: console.IsTerminal(io.Out), tenths: c.Progress, items: connected.items(ctx)}
	mover, err := c.mover(connected, meter)
	if err != nil {
		return err
	}
	if more, err := c.prepare(ctx, connected, mover, next, io.Out); err != nil || !more {
		return brief(err)
	}
	progress, err := mover.Run(ctx)
	meter.endLine()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; run decan resolver migrate again to continue")
	case errors.Is(err, resolver.ErrChanged):
		return fmt.Errorf("%w; nothing is lost: let the other one continue, or run decan resolver migrate again after it has ended", brief(err))
	case err != nil:
		return brief(err)
	}
	return summarize(io.Out, progress)
}

func (c *migrateCommand) mover(connected *connection, meter *moveMeter) (*azcosmos.Mover, error) {
	config := azcosmos.MoverConfig{
		Client: connected.client, Store: connected.store, Name: connected.name,
		ItemsPerSecond: c.ItemsPerSecond, ChargePerSecond: c.ChargePerSecond,
		PageSize: c.Page, Parallelism: c.Parallelism,
		OnProgress: meter.show,
	}
	if c.Alone {
		config.Settle = azcosmos.SettleClients(connected.client)
	}
	if c.Make {
		config.Ensure = func(ctx context.Context, targets []resolver.Target) error {
			return c.make(ctx, connected, targets, meter)
		}
	}
	return azcosmos.NewMover(config)
}

// make creates the containers that only the next plan has, with their scripts, like the
// first container of the current plan.
func (c *migrateCommand) make(ctx context.Context, connected *connection, targets []resolver.Target, meter *moveMeter) error {
	present := connected.live.Routing().Current().Targets()
	template, err := connected.client.TemplateOf(ctx, present[0])
	if err != nil {
		return err
	}
	managed := azcosmos.Managed{Client: connected.client, Template: template}
	changes, err := managed.Plan(ctx, resolver.Missing(targets, present))
	if err != nil {
		return err
	}
	for _, change := range changes {
		meter.note(change.String())
	}
	return managed.Apply(ctx, changes)
}

// prepare begins the move to the next state, or its undoing, unless it is in progress.
// more is false if there is nothing to do.
func (c *migrateCommand) prepare(ctx context.Context, connected *connection, mover *azcosmos.Mover, next resolver.State, out io.Writer) (more bool, err error) {
	state, _, err := resolver.LoadState(ctx, connected.store, connected.name)
	if err != nil {
		return false, err
	}
	switch {
	case c.Undo && state.Move == nil:
		return false, errors.New("no move is in progress")
	case c.Undo && state.Move.Phase != resolver.Undo:
		if err := mover.Undo(ctx); err != nil {
			return false, fmt.Errorf("the move is in phase %s and cannot be undone: %w", state.Move.Phase, err)
		}
		return true, nil
	case c.To == "" && state.Move == nil:
		return false, errors.New("no move is in progress: give the file of the next state with --to")
	case c.To == "":
		return true, c.warn(ctx, connected, out)
	}
	if state.Move != nil {
		if !samePlan(state.Move.Next, next.Current) {
			return false, fmt.Errorf("the move %s to another plan is in progress: continue it without --to, or undo it with --undo", state.Move.ID)
		}
		return true, c.warn(ctx, connected, out)
	}
	if samePlan(state.Current, next.Current) {
		_, err := fmt.Fprintf(out, "nothing to move: the plan of %s is already in force\n", c.To)
		return false, err
	}
	id := fmt.Sprintf("move-%d", state.Revision+1)
	begun, err := begin(state, next, id)
	if err != nil {
		return false, err
	}
	if err := c.checkContainers(ctx, connected, begun); err != nil {
		return false, err
	}
	return true, mover.Begin(ctx, id, next.Targets, next.Current)
}

// checkContainers checks that the containers of both plans exist before anything is
// changed.
func (c *migrateCommand) checkContainers(ctx context.Context, connected *connection, begun resolver.State) error {
	missing, err := connected.client.Missing(ctx, begun.Targets)
	if err != nil {
		return err
	}
	for _, t := range missing {
		if !c.Make || slices.ContainsFunc(connected.live.Routing().Current().Targets(), t.SameAddress) {
			return fmt.Errorf("the container of %s does not exist; --make creates containers that only the next plan has", address(t))
		}
	}
	return nil
}

// warn explains the wait at the beginning if another mover still owns the move.
func (c *migrateCommand) warn(ctx context.Context, connected *connection, out io.Writer) error {
	progress, err := azcosmos.LoadProgress(ctx, connected.store, connected.name)
	if err != nil || progress.Owner == "" {
		return nil // The mover reports the error.
	}
	_, err = fmt.Fprintf(out, "another mover has not ended: waiting %v to see whether it still works\n", c.Lease+c.Timeout)
	return err
}

// samePlan reports whether two valid plans are the same.
func samePlan(a, b resolver.Plan) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

// summarize prints the result of a move.
func summarize(out io.Writer, p azcosmos.Progress) error {
	what := "moved"
	if p.Phase == resolver.Undo {
		what = "undone"
	}
	var text strings.Builder
	for _, pair := range p.Pairs {
		fmt.Fprintf(&text, "%s to %s: %s, both sides equal\n", pair.From, pair.To, console.Counted(pair.Items, "item"))
	}
	fmt.Fprintf(&text, "%s: %s\n", what, figures(p))
	_, err := io.WriteString(out, text.String())
	return err
}

// figures returns the counts of a move in one line.
func figures(p azcosmos.Progress) string {
	return fmt.Sprintf("%s copied, %s repaired, %s deleted, %s", console.Grouped(p.Copied), console.Grouped(p.Repaired), console.Grouped(p.Deleted), console.Units(p.Charge))
}

// moveMeter shows the progress of a move: on a terminal as a bar that is redrawn,
// elsewhere as a line for each phase when it has ended, or if tenths is set for each tenth.
type moveMeter struct {
	out      io.Writer
	terminal bool
	items    func(target string) int64 // the number of items of a container; 0 if unknown

	phase  resolver.Phase
	counts map[string]int64 // items by target, as the phase began
	named  bool             // the line of a phase without scans is written
	open   bool             // the line of the bar has no end yet
	last   string           // the line of the phase, elsewhere
	tenths bool
	shown  int // tenths of the phase, counted from one
}

// show shows the progress. The mover calls it after each save.
func (m *moveMeter) show(p azcosmos.Progress) {
	if p.Phase != m.phase {
		m.endLine()
		m.phase, m.named, m.shown, m.counts = p.Phase, false, 0, m.count(p)
	}
	if len(p.Scans) == 0 {
		if !m.named {
			m.named = true
			fmt.Fprintf(m.out, "%s\n", p.Phase)
		}
		return
	}
	done := m.done(p)
	if m.terminal {
		fmt.Fprint(m.out, "\r\x1b[K", console.Fit(m.out, fmt.Sprintf("%-10s %s  %s", p.Phase, console.Gauge(100*done), figures(p))))
		m.open = true
		return
	}
	m.last = fmt.Sprintf("%-10s %3.0f %%  %s\n", p.Phase, 100*done, figures(p))
	if tenth := 1 + int(done*10); m.tenths && tenth > m.shown {
		m.shown = tenth
		m.endLine()
	}
}

// count requests the number of items that the scans of a phase will read.
func (m *moveMeter) count(p azcosmos.Progress) map[string]int64 {
	counts := map[string]int64{}
	for _, scan := range p.Scans {
		if _, known := counts[scan.Target]; !known {
			counts[scan.Target] = m.items(scan.Target)
		}
	}
	return counts
}

// done returns which part of a phase with scans is done, from 0 to 1.
func (m *moveMeter) done(p azcosmos.Progress) float64 {
	seen, all := 0.0, 0.0
	for _, scan := range p.Scans {
		expected := float64(max(m.counts[scan.Target], scan.Seen, 1))
		all += expected
		if scan.Done {
			seen += expected
		} else {
			seen += min(float64(scan.Seen), expected)
		}
	}
	return seen / all
}

// note prints a line.
func (m *moveMeter) note(text string) {
	m.endLine()
	fmt.Fprintln(m.out, text)
}

func (m *moveMeter) endLine() {
	if m.open {
		fmt.Fprintln(m.out)
		m.open = false
	}
	fmt.Fprint(m.out, m.last)
	m.last = ""
}

type verifyCommand struct {
	stateSource  `embed:""`
	JSON         bool `env:"-" help:"Print JSON."`
	clientFlags  `embed:""`
	accountFlags `embed:""`
}

// Run audits the containers. It fails if an item is in a container where no client looks
// for it, or if the two sides of a move differ after they were made equal.
func (c *verifyCommand) Run(io console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	connected, err := c.connect(ctx, &c.accountFlags, &c.clientFlags, 1)
	if err != nil {
		return brief(err)
	}
	defer connected.live.Close()
	var onPage func(string, int64)
	if console.IsTerminal(io.Err) {
		onPage = func(target string, read int64) {
			fmt.Fprintf(io.Err, "\r\x1b[K%s: %s", target, console.Counted(read, "item"))
		}
	}
	audit, err := connected.client.Audit(ctx, onPage)
	if onPage != nil {
		fmt.Fprint(io.Err, "\r\x1b[K")
	}
	if err != nil {
		return brief(err)
	}
	if c.JSON {
		err = console.PrintJSON(io.Out, audit)
	} else {
		err = printAudit(io.Out, audit)
	}
	if err != nil {
		return err
	}
	return auditProblem(audit)
}

// auditProblem says what is wrong, nil when all is well.
func auditProblem(audit azcosmos.Audit) error {
	for _, found := range audit.Containers {
		if lost := found.Strays + found.Unrouted; lost > 0 {
			return fmt.Errorf("%s has %s where no read by key finds them, such as %q", found.Target, console.Counted(lost, "item"), found.Example)
		}
	}
	if audit.Phase != resolver.Fence && audit.Phase != resolver.Switch {
		return nil
	}
	for _, pair := range audit.Pairs {
		if !pair.Equal() {
			return fmt.Errorf("the items that move from %s to %s differ: %d and %d, or their contents", pair.From, pair.To, pair.Items.Items, pair.Copies.Items)
		}
	}
	return nil
}

func printAudit(out io.Writer, audit azcosmos.Audit) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "container\titems\thash")
	for _, found := range audit.Containers {
		fmt.Fprintf(table, "%s\t%s\t%016x", found.Target, console.Grouped(found.All.Items), found.All.Hash)
		if found.Unrouted > 0 {
			fmt.Fprintf(table, "\t%s of them without a target, such as %q", console.Grouped(found.Unrouted), found.Example)
		}
		fmt.Fprintln(table)
	}
	fmt.Fprintf(table, "all, each once\t%s\t%016x\n", console.Grouped(audit.Total.Items), audit.Total.Hash)
	for _, pair := range audit.Pairs {
		verdict := "equal"
		if !pair.Equal() {
			verdict = fmt.Sprintf("not equal in phase %s", audit.Phase)
		}
		fmt.Fprintf(table, "%s to %s\t%s and %s\t%s\n", pair.From, pair.To, console.Grouped(pair.Items.Items), console.Grouped(pair.Copies.Items), verdict)
	}
	return table.Flush()
}

type stateCommand struct {
	stateSource  `embed:""`
	Init         string `env:"-" placeholder:"FILE" help:"Store the state of this JSON file as the first state. It never replaces a stored state; use migrate to change one."`
	JSON         bool   `env:"-" help:"Print the state, and the progress of its last move, as JSON."`
	accountFlags `embed:""`
}

// stateReport is the output of state --json.
type stateReport struct {
	Fingerprint string             `json:"fingerprint"`
	State       resolver.State     `json:"state"`
	Progress    *azcosmos.Progress `json:"progress,omitempty"` // of the last move
}

// Run shows the state, after it has stored one if requested.
func (c *stateCommand) Run(io console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	if c.Init != "" {
		if err := c.init(ctx); err != nil {
			return brief(err)
		}
	}
	state, err := c.load(ctx, &c.accountFlags)
	if err != nil {
		return brief(err)
	}
	report := stateReport{State: state}
	if report.Fingerprint, err = state.Fingerprint(); err != nil {
		return err
	}
	if report.Progress, err = c.progress(ctx); err != nil {
		return brief(err)
	}
	if c.JSON {
		return console.PrintJSON(io.Out, report)
	}
	return report.print(io.Out)
}

// init stores the first state.
func (c *stateCommand) init(ctx context.Context) error {
	state, err := readState(c.Init)
	if err != nil {
		return err
	}
	if state.Move != nil {
		return fmt.Errorf("%s: a first state must not have a move", c.Init)
	}
	store, name, err := c.store(&c.accountFlags)
	if err != nil {
		return err
	}
	_, err = resolver.SaveState(ctx, store, name, state, "")
	if errors.Is(err, resolver.ErrChanged) {
		return fmt.Errorf("%s: a state is already stored; change it with decan resolver migrate", c.State)
	}
	return err
}

// progress returns the progress of the last move, or nil if there was none.
func (c *stateCommand) progress(ctx context.Context) (*azcosmos.Progress, error) {
	store, name, err := c.store(&c.accountFlags)
	if err != nil {
		return nil, nil // A single file has no progress.
	}
	progress, err := azcosmos.LoadProgress(ctx, store, name)
	if errors.Is(err, resolver.ErrNotFound) {
		return nil, nil
	}
	return &progress, err
}

func (r *stateReport) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "revision\t%d\n", r.State.Revision)
	fmt.Fprintf(table, "fingerprint\t%s\n", r.Fingerprint)
	fmt.Fprintf(table, "key\t%s\n", describeKey(r.State.Key))
	for _, t := range r.State.Targets {
		fmt.Fprintf(table, "target\t%s\n", address(t))
	}
	if err := printPlan(table, "plan", r.State.Current); err != nil {
		return err
	}
	move := r.State.Move
	if move == nil {
		fmt.Fprintln(table, "move\tnone")
	} else {
		read, write := move.Modes()
		fmt.Fprintf(table, "move\t%s, phase %s: reads %s, writes %s\n", move.ID, move.Phase, read, write)
		if err := printPlan(table, "next plan", move.Next); err != nil {
			return err
		}
	}
	if p := r.Progress; p != nil {
		printProgress(table, p, move)
	}
	return table.Flush()
}

func printPlan(out io.Writer, name string, plan resolver.Plan) error {
	text, err := marshalLine(plan)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\t%s\n", name, text)
	}
	return err
}

// printProgress shows the progress of the move, or of the last one if none is in
// progress.
func printProgress(out io.Writer, p *azcosmos.Progress, move *resolver.Move) {
	name := "progress"
	if move == nil || move.ID != p.Move {
		name = "last move"
	}
	fmt.Fprintf(out, "%s\t%s\n", name, figures(*p))
	for _, pair := range p.Pairs {
		fmt.Fprintf(out, "  %s to %s\t%s compared, %s missing, %s different, %s surplus\n", pair.From, pair.To, console.Counted(pair.Items, "item"), console.Grouped(pair.Missing), console.Grouped(pair.Different), console.Grouped(pair.Surplus))
	}
	if move == nil || move.ID != p.Move {
		return
	}
	for _, scan := range p.Scans {
		state := console.Grouped(scan.Seen) + " seen"
		if scan.Done {
			state += ", done"
		}
		fmt.Fprintf(out, "  %s\t%s\n", scan.Target, state)
	}
	if p.Owner != "" {
		fmt.Fprintln(out, "mover\trunning, or it died and another one can continue")
	} else {
		fmt.Fprintln(out, "mover\tnone running: decan resolver migrate continues")
	}
}

// marshalLine writes a value as JSON on one line.
func marshalLine(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}
