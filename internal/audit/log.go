package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// Level says which requests an audit log has.
type Level uint8

// The levels. Each has what those before it have.
const (
	Failures Level = iota // refused for who sent them: 401 and 403
	Changes               // those that may change something or show a secret
	All
)

// ParseLevel reads failures, changes or all.
func ParseLevel(text string) (Level, error) {
	for level, name := range []string{"failures", "changes", "all"} {
		if text == name {
			return Level(level), nil
		}
	}
	return 0, fmt.Errorf("audit level %q: use failures, changes or all", text)
}

// Record is one line of an audit log.
type Record struct {
	Time       time.Time `json:"time"`
	Door       string    `json:"door"`               // data, compute or admin
	Address    string    `json:"address"`            // of the connection
	Caller     string    `json:"caller"`             // nobody, master, reader, token or bearer (words: a value)
	Name       string    `json:"name,omitempty"`     // of a bearer token its principal, of a resource token the RID of its permission
	Operation  string    `json:"operation"`          // as in the metrics; on the admin port verb and path
	Resource   string    `json:"resource,omitempty"` // link of the resource, without the ids of items
	Status     int       `json:"status"`
	SubStatus  int       `json:"sub_status,omitempty"`
	ActivityID string    `json:"activity_id,omitempty"`
	Charge     float64   `json:"charge,omitempty"` // request units
}

// LogConfig says where an audit log is and what is in it. Path or Output is required.
type LogConfig struct {
	Path     string    // a file, appended to and made with mode 0600
	Output   io.Writer // where lines go instead of to a file
	Level    Level
	Required bool // requests are refused while the log cannot be written
	Logger   *slog.Logger
}

// Log is an audit log. Lines are kept in memory for up to flushInterval. It is safe for
// concurrent use.
type Log struct {
	config LogConfig
	failed atomic.Bool // the last write did not succeed
	done   chan struct{}
	ended  chan struct{}

	mu sync.Mutex

	out     io.Writer
	file    *os.File // nil for another output
	pending []byte   // whole lines that are not written, but for the first `begun` bytes
	begun   int
	dropped uint64
	closed  bool
}

const (
	flushInterval = time.Second
	flushBytes    = 64 << 10
	pendingMax    = 4 << 20 // beyond it lines are dropped, which the log says at the end
)

// Open opens an audit log, which the caller closes.
func Open(config LogConfig) (*Log, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{config: config, out: config.Output, done: make(chan struct{}), ended: make(chan struct{})}
	if l.out == nil {
		file, err := openFile(config.Path)
		if err != nil {
			return nil, err
		}
		l.out, l.file = file, file
	}
	go l.flushOften()
	return l, nil
}

func openFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return file, nil
}

// Reopen opens the file by its name again, after it was renamed. On an error the old
// file is kept.
func (l *Log) Reopen() error {
	if l == nil || l.config.Path == "" {
		return nil
	}
	file, err := openFile(l.config.Path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return file.Close()
	}
	l.flush()
	l.begun = 0 // A line that the old file has in part is whole in the new one.
	old := l.file
	l.out, l.file = file, file
	return errors.Join(old.Sync(), old.Close())
}

// Close writes what is left and syncs the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.done)
	<-l.ended

	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	if len(l.pending) > 0 {
		err = errors.Join(err, fmt.Errorf("audit log: %d bytes of lines are lost", len(l.pending)))
	}
	if l.file != nil {
		err = errors.Join(err, l.file.Sync(), l.file.Close())
	}
	return err
}

func (l *Log) flushOften() {
	defer close(l.ended)
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-ticker.C:
			l.mu.Lock()
			_ = l.flush() // It is logged, and the next tick tries again.
			l.mu.Unlock()
		}
	}
}

// flush writes the pending lines. What cannot be written stays. The caller holds mu.
func (l *Log) flush() error {
	if len(l.pending) == 0 {
		return nil
	}
	n, err := l.out.Write(l.pending[l.begun:])
	l.begun += n
	if err != nil {
		l.forgetWritten()
		if !l.failed.Swap(true) {
			l.config.Logger.Error("audit log cannot be written", "error", err, "required", l.config.Required)
		}
		return fmt.Errorf("audit log: %w", err)
	}
	l.pending, l.begun = l.pending[:0], 0
	if l.failed.Swap(false) {
		l.config.Logger.Warn("audit log is written again", "dropped", l.dropped)
		l.dropped = 0
	}
	return nil
}

// forgetWritten drops the lines that are written whole, so that begun counts from
// the beginning of a line.
func (l *Log) forgetWritten() {
	for i := l.begun - 1; i >= 0; i-- {
		if l.pending[i] == '\n' {
			l.pending = append(l.pending[:0], l.pending[i+1:]...)
			l.begun -= i + 1
			return
		}
	}
}

func (l *Log) write(r *Record) {
	line, err := json.Marshal(r)
	if err != nil {
		l.config.Logger.Error("audit record cannot be encoded", "error", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending)+len(line)+1 > pendingMax {
		l.dropped++
		return
	}
	l.pending = append(append(l.pending, line...), '\n')
	if len(l.pending)-l.begun >= flushBytes && !l.failed.Load() {
		_ = l.flush() // It is logged.
	}
}

// Name returns how a caller was authenticated, and the name that its credentials
// have: the principal of a bearer token, the permission of a resource token.
func Name(caller auth.Caller) (kind, name string) {
	switch caller.Kind() {
	case auth.Bearer:
		if principal := caller.Principal(); len(principal) > 0 {
			name = principal[0]
		}
	case auth.Token:
		name = caller.Permission().String()
	}
	return caller.Kind().String(), name
}

// Ready returns nil, or a 503 while requests have to be refused because the log that
// is required cannot be written.
func (d *Door) Ready() error {
	if d == nil || d.watch.log == nil || !d.watch.log.config.Required || !d.watch.log.failed.Load() {
		return nil
	}
	return status.New(status.CodeUnavailable, 0, "The audit log cannot be written, and --audit-failure refuse is set: the log of the server says why.")
}

// Wants reports whether the audit log has a request: one that may change something,
// or show a secret, and one that was answered with a status.
func (d *Door) Wants(changes bool, code int) bool {
	if d == nil || d.watch.log == nil {
		return false
	}
	level := d.watch.log.config.Level
	return level == All || level == Changes && changes || code == int(status.CodeUnauthorized) || code == int(status.CodeForbidden)
}

// Write appends a record, whose Door is filled in and whose Address loses its port.
func (d *Door) Write(r Record) {
	r.Door, r.Address = d.name, host(r.Address)
	const linkBytesMax = 512
	if len(r.Resource) > linkBytesMax {
		r.Resource = r.Resource[:linkBytesMax]
	}
	d.watch.log.write(&r)
}
