package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
)

type checkCommand struct {
	AcceptLoss  bool `help:"Accept that data is lost: cut off the damaged parts, of which the quarantine keeps a copy, move directories that the catalog does not name to the quarantine, and print the loss."`
	StartEmpty  bool `help:"With --accept-loss: replace partitions that cannot be read at all by empty ones. Without this flag the check names them, and a server does not start."`
	RepairClock bool `help:"Set every stored time that is later than the machine's clock to the current time. A clock that was ahead leaves such times. Set the clock first."`

	Parallel int  `default:"0" placeholder:"N" help:"How many partitions are verified at the same time (default: one per processor, at most one per 256 MB of memory)."`
	Progress bool `help:"Show the progress even if standard error is not a terminal, with a line for each tenth."`

	Dir string `arg:"" type:"path" help:"The data directory. No server may have it open."`
}

// Validate refuses a flag that has no effect alone.
func (c *checkCommand) Validate() error {
	if c.StartEmpty && !c.AcceptLoss {
		return errors.New("--start-empty needs --accept-loss: give both")
	}
	return nil
}

// Run verifies the directory and fails if it finds a problem. After SIGINT or SIGTERM
// it ends soon and prints what it has not verified; a second signal ends it at once.
func (c *checkCommand) Run(io console.Streams) error {
	if c.AcceptLoss {
		if err := c.accept(io); err != nil {
			return err
		}
	}
	if c.RepairClock {
		if err := c.repairClock(io); err != nil {
			return err
		}
	}
	ctx, stop := console.Interruptible()
	defer stop()
	context.AfterFunc(ctx, stop)
	return c.verify(ctx, io)
}

// exitInterrupted is the exit code of an interrupted check: that of shells for a
// program ended by SIGINT.
const exitInterrupted = 130

// verify verifies the directory until ctx ends.
func (c *checkCommand) verify(ctx context.Context, io console.Streams) error {
	meter := checkMeter{Meter: console.NewMeter(io.Err), began: time.Now()}
	options := server.CheckOptions{Parallel: c.Parallel}
	if options.Parallel <= 0 {
		options.Parallel = checkParallel(memory())
	}
	if c.Progress || meter.Terminal {
		options.Progress = meter.progress
	}
	report, err := server.CheckWith(ctx, c.Dir, options)
	meter.End()
	if err != nil {
		return err
	}
	fmt.Fprintf(io.Out, "%s, %s, %s, %s, %s of documents\n",
		console.Counted(int64(report.Databases), "database"), console.Counted(int64(report.Containers), "container"), console.Counted(int64(report.Partitions), "partition"),
		console.Counted(report.Documents, "document"), console.Counted(report.Bytes, "byte"))
	for _, leftover := range report.Leftovers {
		fmt.Fprintln(io.Out, "left over:", leftover, "(the next start removes it)")
	}
	for _, dir := range report.Unnamed {
		fmt.Fprintln(io.Out, "not named:", dir, "(the catalog does not name it; the next start moves it to the quarantine)")
	}
	for _, ahead := range report.Ahead {
		fmt.Fprintln(io.Out, "ahead of the clock:", ahead, "(if the clock is right, --repair-clock repairs it)")
	}
	for _, entry := range report.Quarantine {
		fmt.Fprintln(io.Out, "in quarantine:", entry)
	}
	for _, loss := range report.Losses {
		fmt.Fprintln(io.Out, "accepted loss:", loss)
	}
	for _, problem := range report.Problems {
		fmt.Fprintln(io.Out, "problem:", problem)
	}
	for _, line := range report.UncheckedIn {
		fmt.Fprintln(io.Out, "not checked:", line)
	}
	if report.Interrupted {
		return console.Exit{Code: exitInterrupted, Err: fmt.Errorf("%s: interrupted: checked %s, with %s; %s not checked; nothing was changed",
			c.Dir, console.Counted(int64(report.Partitions), "partition"), console.Counted(int64(len(report.Problems)), "problem"), console.Grouped(int64(report.Unchecked)))}
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%s: %s", c.Dir, console.Counted(int64(n), "problem"))
	}
	fmt.Fprintln(io.Out, "every invariant holds")
	return nil
}

// checkMemory is the memory that should be available per verified partition.
const checkMemory = 256 << 20

// checkParallel returns how many partitions are verified at the same time if the
// check may use a percentage of the available memory, which is 0 if it is unknown.
func checkParallel(available int64, percent int) int {
	n := runtime.GOMAXPROCS(0)
	if available > 0 {
		n = min(n, int(available/100*int64(percent)/checkMemory))
	}
	return max(1, n)
}

// checkMeter shows the progress of a check.
type checkMeter struct {
	*console.Meter
	began, shown time.Time
}

// progress shows the progress, a few times per second.
func (m *checkMeter) progress(p server.CheckProgress) {
	now := time.Now()
	if p.Partitions < p.Total && now.Sub(m.shown) < console.MeterEvery {
		return
	}
	m.shown = now
	seconds := max(now.Sub(m.began).Seconds(), 1e-3)
	m.Show(p.Part, fmt.Sprintf("%s of %s, %s, %s, %s a second",
		console.Grouped(int64(p.Partitions)), console.Counted(int64(p.Total), "partition"), console.Counted(p.Documents, "document"), console.Size(p.Bytes), console.Counted(int64(float64(p.Documents)/seconds), "document")))
}

// accept accepts the loss of data, and prints what is lost.
func (c *checkCommand) accept(io console.Streams) error {
	accepted, err := server.AcceptLoss(c.Dir, c.StartEmpty)
	for _, lost := range accepted.Lost {
		fmt.Fprintln(io.Out, "lost:", lost)
	}
	for _, name := range accepted.Kept {
		fmt.Fprintln(io.Out, "kept in the quarantine:", name)
	}
	for _, remaining := range accepted.Remaining {
		fmt.Fprintln(io.Out, "remains:", remaining)
	}
	if err == nil && len(accepted.Lost) == 0 {
		fmt.Fprintln(io.Out, "nothing is lost")
	}
	return err
}

// repairClock repairs the times that a clock that was ahead has left, and prints them.
func (c *checkCommand) repairClock(io console.Streams) error {
	repaired, err := server.RepairClock(c.Dir, time.Now())
	fmt.Fprintln(io.Out, "the time is", repaired.Now.Format("2006-01-02 15:04:05Z"))
	for _, done := range repaired.Done {
		fmt.Fprintln(io.Out, "repaired:", done)
	}
	if err == nil && len(repaired.Done) == 0 {
		fmt.Fprintln(io.Out, "no stored time is later")
	}
	return err
}
