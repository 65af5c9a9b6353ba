// Package shellcmd is decan shell: a prompt for queries and commands, in a terminal and
// in a pipe.
//
// shellcmd.go reads and runs statements, commands.go has the commands that begin with a
// backslash, complete.go the completion, pager.go the output, cql.go runs statements of the
// Cassandra API.
//
// # Invariants
//
// The shell keeps nothing between statements except its settings and, for completion,
// names that it has read. Ctrl-C ends a statement and never the shell; in a pipe it ends
// the shell, and so does the first error.
//
// Page: docs/command-line.md
package shellcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/querycmd"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/ergochat/readline"
)

// Command is decan shell.
type Command struct {
	Database  string `arg:"" optional:"" help:"The database to begin with."`
	Container string `arg:"" optional:"" help:"The container to begin with."`

	Statements []string `name:"command" short:"c" sep:"none" env:"-" placeholder:"TEXT" help:"Run this statement or command and end; give it once for each."`
	Format     string   `enum:",table,json,jsonl,csv" default:"" env:"-" placeholder:"FORMAT" help:"table, json, jsonl or csv (default: table on a terminal, otherwise jsonl)."`
	Page       int      `default:"100" env:"-" placeholder:"N" help:"How many rows to request at a time (${default})."`
	NoPager    bool     `name:"no-pager" env:"-" help:"Never show long output in a pager."`
	History    string   `env:"DECAN_HISTORY" placeholder:"FILE" help:"Where the lines are kept that were typed; none for nowhere (default: decan/history in the directory of XDG_STATE_HOME)."`

	remote.Account
	remote.Cassandra
}

// RunCommand runs another command line of decan, such as container show, and returns
// its exit status.
type RunCommand func(args []string, streams console.Streams) int

// shell is a running shell.
type shell struct {
	*Command
	streams  console.Streams
	client   *remote.Documents
	run      RunCommand
	terminal bool // people type and read

	database, container string
	format              string
	key                 remote.Key // of the next statements
	params              map[string]string
	timing, system      bool
	pages               bool // a pager shows long output
	to                  *os.File
	cql                 *cqlClient // nil outside of \cql

	names *names
	ended bool
	depth int // of \i

	mu     sync.Mutex
	cancel context.CancelFunc // of the running statement; guarded by mu
}

// Run reads statements until \q or the end of the input.
func (c *Command) Run(streams console.Streams, run RunCommand) error {
	if c.Page < 1 {
		return errors.New("--page must be at least 1")
	}
	client, err := c.Documents(2)
	if err != nil {
		return err
	}
	defer client.Close()
	s := &shell{
		Command: c, streams: streams, client: client, run: run,
		database: c.Database, container: c.Container, format: c.Format,
		params:   map[string]string{},
		terminal: console.IsInput(streams.In) && console.IsTerminal(streams.Out) && len(c.Statements) == 0,
		names:    newNames(client),
	}
	s.timing, s.pages = s.terminal, s.terminal && !c.NoPager
	if s.format == "" {
		s.format = rows.Lines
		if console.IsTerminal(streams.Out) {
			s.format = rows.Table
		}
	}
	defer s.close()
	switch {
	case len(c.Statements) > 0:
		for _, text := range c.Statements {
			if err := s.script("-c", strings.NewReader(text)); err != nil {
				return err
			}
		}
		return nil
	case !s.terminal:
		return s.script("", streams.In)
	}
	return s.interact()
}

func (s *shell) close() {
	if s.to != nil {
		s.to.Close()
	}
	if s.cql != nil {
		s.cql.Close()
	}
}

// script runs the statements of a reader until the first error.
func (s *shell) script(name string, in io.Reader) error {
	ctx, stop := console.Interruptible()
	defer stop()
	lines := bufio.NewReader(in)
	var b buffer
	for number := 1; ; number++ {
		line, readErr := lines.ReadString('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return readErr
		}
		for _, text := range b.add(line, s.cql != nil) {
			if err := s.one(ctx, text); err != nil {
				if ctx.Err() != nil {
					err = errors.New("interrupted")
				}
				return place(name, number, err)
			}
			if s.ended {
				return nil
			}
		}
		if errors.Is(readErr, io.EOF) {
			if rest := b.rest(); rest != "" {
				if err := s.one(ctx, rest); err != nil {
					return place(name, number, err)
				}
			}
			return nil
		}
	}
}

// place adds the file and the line at whose end a statement failed.
func place(name string, line int, err error) error {
	switch name {
	case "-c":
		return err
	case "":
		return fmt.Errorf("line %d: %w", line, err)
	}
	return fmt.Errorf("%s: line %d: %w", name, line, err)
}

// interact reads lines from a terminal.
func (s *shell) interact() error {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-interrupts:
				s.mu.Lock()
				if s.cancel != nil {
					s.cancel()
				}
				s.mu.Unlock()
			case <-done:
				return
			}
		}
	}()
	var b buffer
	editor, err := readline.NewFromConfig(&readline.Config{
		HistoryFile: s.historyFile(), HistoryLimit: 5000, DisableAutoSaveHistory: true, HistorySearchFold: true, Undo: true,
		AutoComplete: completer{s, &b}, InterruptPrompt: "\n", EOFPrompt: "\n",
		Stdin: s.streams.In, Stdout: s.streams.Out, Stderr: s.streams.Err,
	})
	if err != nil {
		return err
	}
	defer editor.Close()
	fmt.Fprintf(s.streams.Out, "%s. End a statement with ';'; \\? lists the commands, \\q ends.\n", s.Endpoint)
	for !s.ended {
		editor.SetPrompt(s.prompt(!b.empty()))
		line, err := editor.ReadLine()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			if b.empty() && line == "" {
				fmt.Fprintln(s.streams.Out, `\q or Ctrl-D ends the shell.`)
			}
			b = buffer{}
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		began := b.text.String()
		statements := b.add(line+"\n", s.cql != nil)
		if len(statements) > 0 {
			_ = editor.SaveToHistory(strings.Join(strings.Fields(began+" "+line), " ")) // The shell works without a history.
		}
		for _, text := range statements {
			s.interruptible(text)
		}
	}
	return nil
}

// interruptible runs a statement until it ends or Ctrl-C ends it, and prints its error.
func (s *shell) interruptible(text string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	err := s.one(ctx, text)
	s.mu.Lock()
	s.cancel = nil
	s.mu.Unlock()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(s.streams.Err, "The statement is cancelled.")
	default:
		s.complain(text, err)
	}
}

// complain prints an error, and below the query the place that it is about.
func (s *shell) complain(text string, err error) {
	if answered := (remote.Refused{}); errors.As(err, &answered) && answered.End > answered.Start && answered.End <= len(text) {
		begin := strings.LastIndexByte(text[:answered.Start], '\n') + 1
		line, _, _ := strings.Cut(text[begin:], "\n")
		if width := min(answered.End, begin+len(line)) - answered.Start; width > 0 {
			fmt.Fprintf(s.streams.Err, "  %s\n  %s%s\n", line, strings.Repeat(" ", rows.Wide(text[begin:answered.Start])), strings.Repeat("^", width))
		}
	}
	fmt.Fprintln(s.streams.Err, "error:", err)
}

// prompt says where statements go. Further lines of a statement have another one of the
// same width.
func (s *shell) prompt(further bool) string {
	where := "decan"
	switch {
	case s.cql != nil:
		where = "cql"
		if s.cql.keyspace != "" {
			where += ":" + s.cql.keyspace
		}
	case s.container != "":
		where = s.database + "/" + s.container
	case s.database != "":
		where = s.database
	}
	where = rows.Shown(where)
	if further {
		return strings.Repeat(" ", max(rows.Wide(where)-1, 0)) + "-> "
	}
	return where + "> "
}

// historyFile returns the path of the history, whose directory it creates; "" for none.
func (s *shell) historyFile() string {
	path := s.History
	switch path {
	case "none":
		return ""
	case "":
		dir := os.Getenv("XDG_STATE_HOME")
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return ""
			}
			dir = filepath.Join(home, ".local", "state")
		}
		path = filepath.Join(dir, "decan", "history")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return ""
	}
	// The library would let others read it.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return ""
	}
	file.Close()
	return path
}

// one runs a statement or a command.
func (s *shell) one(ctx context.Context, text string) error {
	if strings.HasPrefix(text, `\`) {
		return s.command(ctx, text)
	}
	if s.cql != nil {
		return s.runCQL(ctx, text)
	}
	return s.query(ctx, text)
}

// query runs a query of the current container.
func (s *shell) query(ctx context.Context, text string) error {
	if s.container == "" {
		return errors.New(`choose a container first: \c DATABASE/CONTAINER`)
	}
	return s.show(func(out io.Writer, width int) (string, error) {
		r := querycmd.Reading{
			Statement: remote.Statement{Database: s.database, Container: s.container, Text: text, Parameters: s.used(text), Key: string(s.key), Rows: s.Page},
			System:    s.system, Format: s.format, Options: rows.Options{Width: width, Rows: s.Page},
		}
		cost, err := r.Write(ctx, s.client, out)
		if errors.Is(err, errPagerClosed) {
			err = nil
		}
		return cost.String(), err
	})
}

// used returns the parameters that a query names.
func (s *shell) used(text string) map[string]string {
	used := map[string]string{}
	for name, content := range s.params {
		if strings.Contains(text, "@"+name) {
			used[name] = content
		}
	}
	return used
}

// show calls write with the output of a statement, and prints what it returns: the
// statistics.
func (s *shell) show(write func(out io.Writer, width int) (string, error)) error {
	var stats string
	var err error
	if s.to != nil {
		stats, err = write(s.to, 0)
	} else {
		width, height := console.Window(s.streams.Out)
		if s.pages && height > 0 {
			p := &pager{out: s.streams.Out, lines: height - 2}
			stats, err = write(p, width)
			err = errors.Join(err, p.close())
		} else {
			stats, err = write(s.streams.Out, width)
		}
	}
	if err == nil && s.timing {
		out := s.streams.Err
		if s.terminal {
			out = s.streams.Out
		}
		fmt.Fprintln(out, stats)
	}
	return err
}
