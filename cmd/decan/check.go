package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/decandb/decan/internal/server"
)

type checkCommand struct {
	AcceptLoss  bool `help:"Take what is there for all that there must be: cut off what is damaged, of which the quarantine keeps a copy, move what the catalog does not name to the quarantine, and say what is lost."`
	StartEmpty  bool `help:"With --accept-loss: partitions of which nothing can be read begin empty. Without it they are named, and a server does not start."`
	RepairClock bool `help:"Set every time that is later than the machine's clock says, as a clock that was ahead leaves them, to what it says now. Set the clock right first."`

	Parallel int  `default:"0" placeholder:"N" help:"How many partitions are verified at the same time (default: one for each processor, and for each 256 MB of memory at most)."`
	Progress bool `help:"Show how far it is where the output is no terminal too, with a line for each tenth."`

	Dir string `arg:"" type:"path" help:"The data directory. No server may have it open."`
}

// Validate refuses a flag that does nothing alone.
func (c *checkCommand) Validate() error {
	if c.StartEmpty && !c.AcceptLoss {
		return errors.New("--start-empty is a part of --accept-loss: give both")
	}
	return nil
}

// Run verifies the directory and fails when it finds a problem. SIGINT and SIGTERM end
// it soon, and it says then what it has not verified; a second one ends it at once.
func (c *checkCommand) Run(io streams) error {
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
	ctx, stop := interruptible()
	defer stop()
	context.AfterFunc(ctx, stop)
	return c.verify(ctx, io)
}

// exitInterrupted is the exit code of a check that was interrupted: the shell's for a
// program that SIGINT has ended.
const exitInterrupted = 130

// verify verifies the directory until ctx ends.
func (c *checkCommand) verify(ctx context.Context, io streams) error {
	meter := checkMeter{meter: meter{out: io.err, terminal: isTerminal(io.err)}, began: time.Now()}
	options := server.CheckOptions{Parallel: c.Parallel}
	if options.Parallel <= 0 {
		options.Parallel = checkParallel(memory())
	}
	if c.Progress || meter.meter.terminal {
		options.Progress = meter.show
	}
	report, err := server.CheckWith(ctx, c.Dir, options)
	meter.meter.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "%s, %s, %s, %s, %s of documents\n",
		counted(int64(report.Databases), "database"), counted(int64(report.Containers), "container"), counted(int64(report.Partitions), "partition"),
		counted(report.Documents, "document"), counted(report.Bytes, "byte"))
	for _, leftover := range report.Leftovers {
		fmt.Fprintln(io.out, "left over:", leftover, "(the next start removes it)")
	}
	for _, dir := range report.Unnamed {
		fmt.Fprintln(io.out, "not named:", dir, "(the catalog knows nothing of it; the next start moves it to the quarantine)")
	}
	for _, ahead := range report.Ahead {
		fmt.Fprintln(io.out, "ahead of the clock:", ahead, "(if the clock is right, --repair-clock repairs it)")
	}
	for _, entry := range report.Quarantine {
		fmt.Fprintln(io.out, "in quarantine:", entry)
	}
	for _, loss := range report.Losses {
		fmt.Fprintln(io.out, "accepted loss:", loss)
	}
	for _, problem := range report.Problems {
		fmt.Fprintln(io.out, "problem:", problem)
	}
	for _, line := range report.UncheckedIn {
		fmt.Fprintln(io.out, "not checked:", line)
	}
	if report.Interrupted {
		return exitError{exitInterrupted, fmt.Errorf("%s: interrupted: checked %s, with %s; %s not checked; nothing was changed",
			c.Dir, counted(int64(report.Partitions), "partition"), counted(int64(len(report.Problems)), "problem"), grouped(int64(report.Unchecked)))}
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%s: %s", c.Dir, counted(int64(n), "problem"))
	}
	fmt.Fprintln(io.out, "every invariant holds")
	return nil
}

// checkMemory is how much memory there should be for each partition that is verified.
const checkMemory = 256 << 20

// checkParallel returns how many partitions are verified at the same time where a
// percentage of the available memory may be taken, zero for an unknown amount.
func checkParallel(available int64, percent int) int {
	n := runtime.GOMAXPROCS(0)
	if available > 0 {
		n = min(n, int(available/100*int64(percent)/checkMemory))
	}
	return max(1, n)
}

// checkMeter shows how far a check is.
type checkMeter struct {
	meter        meter
	began, shown time.Time
}

func (m *checkMeter) show(p server.CheckProgress) {
	now := time.Now()
	if p.Partitions < p.Total && now.Sub(m.shown) < meterEvery {
		return
	}
	m.shown = now
	seconds := max(now.Sub(m.began).Seconds(), 1e-3)
	m.meter.show(p.Part, fmt.Sprintf("%d of %d partitions, %s documents, %s, %s documents a second",
		p.Partitions, p.Total, grouped(p.Documents), size(p.Bytes), grouped(int64(float64(p.Documents)/seconds))))
}

// accept accepts what is lost, and says what that is.
func (c *checkCommand) accept(io streams) error {
	accepted, err := server.AcceptLoss(c.Dir, c.StartEmpty)
	for _, lost := range accepted.Lost {
		fmt.Fprintln(io.out, "lost:", lost)
	}
	for _, name := range accepted.Kept {
		fmt.Fprintln(io.out, "kept in the quarantine:", name)
	}
	for _, remaining := range accepted.Remaining {
		fmt.Fprintln(io.out, "remains:", remaining)
	}
	if err == nil && len(accepted.Lost) == 0 {
		fmt.Fprintln(io.out, "nothing is lost")
	}
	return err
}

// repairClock repairs what a clock that was ahead has left, and says what that is.
func (c *checkCommand) repairClock(io streams) error {
	repaired, err := server.RepairClock(c.Dir, time.Now())
	fmt.Fprintln(io.out, "the time is", repaired.Now.Format("2006-01-02 15:04:05Z"))
	for _, done := range repaired.Done {
		fmt.Fprintln(io.out, "repaired:", done)
	}
	if err == nil && len(repaired.Done) == 0 {
		fmt.Fprintln(io.out, "no time is later")
	}
	return err
}
