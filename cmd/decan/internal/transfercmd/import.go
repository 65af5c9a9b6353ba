package transfercmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// Import is decan import.
type Import struct {
	Database  string   `arg:"" help:"The database."`
	Container string   `arg:"" help:"The container. It must exist."`
	Files     []string `arg:"" optional:"" help:"The files; - is standard input, which is also the default."`

	Format   string `enum:",jsonl,json,csv" default:"" env:"-" placeholder:"FORMAT" help:"jsonl (a document on each line), json (an array of documents, or documents one after another) or csv (default: by the name of the file; jsonl for standard input)."`
	CSVTypes string `name:"csv-types" enum:"infer,strings" default:"infer" env:"-" placeholder:"HOW" help:"infer: a cell that is JSON, such as 5, true or [1], is that value, any other cell is text. strings: every cell is text. An empty cell is no property (${default})."`
	Parallel int    `default:"16" env:"-" placeholder:"N" help:"How many documents to write at the same time (${default})."`
	Skip     int64  `default:"0" env:"-" placeholder:"N" help:"Skip the first N documents, which an earlier import has written."`
	State    string `env:"-" placeholder:"FILE" help:"Record the number of written documents in this file, and continue from there."`
	Continue bool   `name:"continue-on-error" env:"-" help:"Skip documents that cannot be read or written."`
	Report   string `env:"-" placeholder:"FILE" help:"Write the skipped documents to this file, as JSON lines (default: to standard error)."`

	remote.Account
}

// Validate refuses invalid numbers and contradictory flags.
func (c *Import) Validate() error {
	switch {
	case c.Parallel < 1 || c.Parallel > parallelMax:
		return fmt.Errorf("--parallel must be 1 to %d, not %d", parallelMax, c.Parallel)
	case c.Skip < 0:
		return errors.New("--skip must not be negative")
	case c.Skip > 0 && c.State != "":
		return errors.New("--skip and --state both say where to begin: give only one")
	case c.Report != "" && !c.Continue:
		return errors.New("--report needs --continue-on-error: give both")
	}
	return nil
}

// parallelMax is the maximum number of running requests, each with a document in
// memory.
const parallelMax = 256

// Run reads the files one after another and upserts their documents. Documents with
// the same id and key are written in the order of the files.
func (c *Import) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	if len(c.Files) == 0 {
		c.Files = []string{"-"}
	}
	client, err := c.Documents(c.Parallel)
	if err != nil {
		return err
	}
	defer client.Close()
	im := &importer{Import: c, client: client, streams: streams, began: time.Now()}
	if err := im.open(ctx); err != nil {
		return err
	}
	err = im.run(ctx)
	im.meter.End()
	return errors.Join(im.finish(ctx, err), im.close())
}

// importer is a running import.
type importer struct {
	*Import
	client  *remote.Documents
	streams console.Streams
	began   time.Time
	paths   [][]string // of the partition key

	skip   int64 // the number of skipped records
	report io.WriteCloser

	sizes, read atomic.Int64 // bytes of all files; 0 if unknown; and bytes read
	meter       *console.Meter

	mu      sync.Mutex
	done    low   // records that are written or skipped
	written int64 // documents
	failed  int64
	charge  float64
	stored  time.Time // when the state was stored
}

// low tracks the number of the first record that is not done.
type low struct {
	next  int64
	ahead map[int64]bool
}

func (l *low) add(n int64) {
	if l.ahead == nil {
		l.ahead = map[int64]bool{}
	}
	l.ahead[n] = true
	for l.ahead[l.next] {
		delete(l.ahead, l.next)
		l.next++
	}
}

// importState is the content of the file of --state.
type importState struct {
	Database  string   `json:"database"`
	Container string   `json:"container"`
	Files     []string `json:"files"`
	Written   int64    `json:"records"` // done, from the beginning
	Ended     bool     `json:"ended"`
}

// open requests the container, and finds where to begin.
func (im *importer) open(ctx context.Context) error {
	im.meter = console.NewHint(im.streams.Err)
	paths, err := im.client.KeyPaths(ctx, im.Database, im.Container)
	if err != nil {
		return err
	}
	im.paths = paths
	im.skip = im.Skip
	if im.State != "" {
		if im.skip, err = im.loadState(); err != nil {
			return err
		}
	}
	im.done.next = im.skip
	for _, name := range im.Files {
		if name == "-" {
			im.sizes.Store(0)
			break
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			im.sizes.Store(0)
			break
		}
		im.sizes.Add(info.Size())
	}
	if im.Report != "" {
		im.report, err = os.Create(im.Report)
	}
	return err
}

// loadState returns the number of done records by the state file.
func (im *importer) loadState() (int64, error) {
	text, err := os.ReadFile(im.State)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var state importState
	if err := json.Unmarshal(text, &state); err != nil || state.Written < 0 {
		return 0, fmt.Errorf("--state %s: the file is not the state of an import", im.State)
	}
	if state.Database != im.Database || state.Container != im.Container || !slices.Equal(state.Files, im.Files) {
		return 0, fmt.Errorf("--state %s: the file is the state of an import of %q into %s/%s: remove it to begin again", im.State, state.Files, state.Database, state.Container)
	}
	return state.Written, nil
}

// store replaces the state file by renaming a new one, so that it is always complete.
func (im *importer) store(ended bool) error {
	if im.State == "" {
		return nil
	}
	im.mu.Lock()
	state := importState{Database: im.Database, Container: im.Container, Files: im.Files, Written: im.done.next, Ended: ended}
	im.mu.Unlock()
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	partial := im.State + ".new"
	if err := os.WriteFile(partial, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, im.State)
}

func (im *importer) close() error {
	if im.report == nil {
		return nil
	}
	return im.report.Close()
}

// job is a record to be written.
type job struct {
	record
	number int64 // among the records of all files, from 0
	file   string
	key    string // as the header has it
}

// run reads on this goroutine and writes on others. Documents with the same id and key
// go to the same goroutine, so that the last one wins.
func (im *importer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queues := make([]chan job, im.Parallel)
	var writers sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan job, 2)
		writers.Go(func() {
			for j := range queues[i] {
				if err := im.write(ctx, j); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := im.readAll(ctx, queues)
	for _, queue := range queues {
		close(queue)
	}
	writers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// readAll reads the files and passes their documents to the queues.
func (im *importer) readAll(ctx context.Context, queues []chan job) error {
	number := int64(0)
	for _, name := range im.Files {
		if err := im.readFile(ctx, name, &number, queues); err != nil {
			return err
		}
	}
	if number < im.skip {
		return fmt.Errorf("the files have %s, fewer than the %d to skip", console.Counted(number, "document"), im.skip)
	}
	return nil
}

func (im *importer) readFile(ctx context.Context, name string, number *int64, queues []chan job) error {
	format, err := formatOf(im.Format, name)
	if err != nil {
		return err
	}
	in := io.NopCloser(im.streams.In)
	if name != "-" {
		if in, err = os.Open(name); err != nil {
			return err
		}
	}
	defer in.Close()
	reader, err := newRecordReader(format, &counting{in: in, count: &im.read}, im.CSVTypes == "infer")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for ; ; *number++ {
		rec, err := reader.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var bad *recordError
		if err != nil && !errors.As(err, &bad) {
			return fmt.Errorf("%s: %w", name, err)
		}
		if *number < im.skip {
			continue
		}
		j := job{record: rec, number: *number, file: name}
		if bad != nil {
			j.line = bad.line
			if err := im.fail(j, bad.cause); err != nil {
				return err
			}
			continue
		}
		key := remote.KeyOf(rec.document, im.paths)
		j.key = key
		shard := fnv.New32a()
		_, _ = io.WriteString(shard, key+"\x00"+rec.document.Get("id").Text()) // It never fails.
		select {
		case queues[shard.Sum32()%uint32(len(queues))] <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := im.tick(); err != nil {
			return err
		}
	}
}

// write upserts a document.
func (im *importer) write(ctx context.Context, j job) error {
	if ctx.Err() != nil {
		return nil // The cause is already known.
	}
	body := j.document.Append(nil)
	charge := 0.0
	a, err := remote.Retrying(ctx, func() (remote.Answer, error) {
		a, err := im.client.Do(ctx, http.MethodPost, remote.DocumentPath(im.Database, im.Container), body,
			"content-type", "application/json",
			"x-ms-documentdb-partitionkey", j.key,
			"x-ms-documentdb-is-upsert", "True",
		)
		if spent, err := a.Charge(); err == nil {
			charge += spent
		}
		return a, err
	})
	if err != nil {
		return err
	}
	switch a.Status {
	case http.StatusOK, http.StatusCreated:
		im.mu.Lock()
		defer im.mu.Unlock()
		im.done.add(j.number)
		im.written++
		im.charge += charge
		return nil
	case http.StatusUnauthorized, http.StatusNotFound:
		return a.Refusal("write to " + im.Database + "/" + im.Container) // not this document's fault
	}
	return im.fail(j, fmt.Errorf("%d: %w", a.Status, remote.Refusal(a.Status, a.Body)))
}

// importFailure is a line of the report.
type importFailure struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Record int64  `json:"record"` // among those of all files, from 1
	ID     string `json:"id,omitempty"`
	Error  string `json:"error"`
}

// fail reports a document that could not be read or written, or returns the error that
// ends the import.
func (im *importer) fail(j job, cause error) error {
	if !im.Continue {
		return fmt.Errorf("%s: line %d: %w", j.file, j.line, cause)
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.done.add(j.number)
	im.failed++
	if im.report == nil {
		im.meter.End()
		_, err := fmt.Fprintf(im.streams.Err, "%s: line %d: %v\n", j.file, j.line, cause)
		return err
	}
	text, err := json.Marshal(importFailure{File: j.file, Line: j.line, Record: j.number + 1, ID: j.document.Get("id").Text(), Error: cause.Error()})
	if err != nil {
		return err
	}
	_, err = im.report.Write(append(text, '\n'))
	return err
}

// tick shows and stores the progress, a few times per second.
func (im *importer) tick() error {
	now := time.Now()
	im.mu.Lock()
	due := now.Sub(im.stored) >= console.MeterEvery
	if due {
		im.stored = now
		part := -1.0
		if size := im.sizes.Load(); size > 0 {
			part = float64(im.read.Load()) / float64(size)
		}
		im.meter.Show(part, fmt.Sprintf("%s, %.0f a second, %s", console.Counted(im.written, "document"), float64(im.written)/now.Sub(im.began).Seconds(), console.Units(im.charge)))
	}
	im.mu.Unlock()
	if !due {
		return nil
	}
	return im.store(false)
}

// finish stores the state and prints the result.
func (im *importer) finish(ctx context.Context, err error) error {
	if stored := im.store(err == nil); stored != nil && err == nil {
		return stored
	}
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		again := fmt.Sprintf("give --skip %d", im.done.next)
		if im.State != "" {
			again = "give the same --state"
		}
		return fmt.Errorf("%w; %s written; to continue, %s", err, console.Counted(im.written, "document"), again)
	}
	took := time.Since(im.began)
	_, err = fmt.Fprintf(im.streams.Out, "%s written in %s, %s\n", console.Counted(im.written, "document"), console.Took(took), console.Units(im.charge))
	if err == nil && im.failed > 0 {
		err = fmt.Errorf("%s could not be written", console.Counted(im.failed, "document"))
	}
	return err
}

// counting counts the bytes read.
type counting struct {
	in    io.Reader
	count *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.count.Add(int64(n))
	return n, err
}
