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

// Level says which requests an audit log contains.
type Level uint8

// The levels. Each includes the previous one.
const (
	Failures Level = iota // requests answered with 401 and 403
	Changes               // requests that may change something or show a secret
	All                   // every request
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
	Caller     string    `json:"caller"`             // kind: anonymous, master, reader, token or bearer
	Name       string    `json:"name,omitempty"`     // the principal of a bearer token, or the RID of the permission of a resource token
	Operation  string    `json:"operation"`          // as in the metrics; on the admin port method and path
	Resource   string    `json:"resource,omitempty"` // link of the resource, without the ids of items
	Status     int       `json:"status"`
	SubStatus  int       `json:"sub_status,omitempty"`
	ActivityID string    `json:"activity_id,omitempty"`
	Charge     float64   `json:"charge,omitempty"` // request units
}

// LogConfig configures an audit log. Path or Output is required.
type LogConfig struct {
	Path     string    // the file to append to, created with mode 0600
	Output   io.Writer // the output instead of a file
	Level    Level
	Required bool // requests are refused while the log cannot be written
	Logger   *slog.Logger
}

// Log is an audit log. It buffers lines for up to flushInterval. It is safe for
// concurrent use.
type Log struct {
	config LogConfig
	failed atomic.Bool // the last write failed
	done   chan struct{}
	ended  chan struct{}

	mu sync.Mutex

	out     io.Writer
	file    *os.File // nil for another output
	pending []byte   // whole lines; the first begun bytes are written
	begun   int
	dropped uint64
	closed  bool
}

const (
	flushInterval = time.Second
	flushBytes    = 64 << 10
	pendingMax    = 4 << 20 // further lines are dropped and counted
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
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Reopen opens the file again by its name, after it was renamed. After an error the log
// continues with the old file.
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
	l.begun = 0 // A line that is partly in the old file is complete in the new one.
	old := l.file
	l.out, l.file = file, file
	return errors.Join(old.Sync(), old.Close())
}

// Close writes the remaining lines and syncs the file.
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
			_ = l.flush() // The error is logged, and the next tick tries again.
			l.mu.Unlock()
		}
	}
}

// flush writes the pending lines. Lines that cannot be written stay. The caller holds mu.
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

// forgetWritten drops the lines that are completely written, so that begun counts from
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
		_ = l.flush() // The error is logged.
	}
}

// Name returns the kind of a caller, and the name in its credentials: the principal of a
// bearer token, or the permission of a resource token.
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

// Ready returns nil, or 503 while a required log cannot be written.
func (d *Door) Ready() error {
	if d == nil || d.watch.log == nil || !d.watch.log.config.Required || !d.watch.log.failed.Load() {
		return nil
	}
	return status.New(status.CodeUnavailable, 0, "The audit log cannot be written, and the server runs with --audit-failure refuse. The log of the server says why.")
}

// Wants reports whether the audit log contains a request with an answer of that status
// code. changes means that the request may change something or show a secret.
func (d *Door) Wants(changes bool, code int) bool {
	if d == nil || d.watch.log == nil {
		return false
	}
	level := d.watch.log.config.Level
	return level == All || level == Changes && changes || code == int(status.CodeUnauthorized) || code == int(status.CodeForbidden)
}

// Write appends a record. It sets Door, and removes the port from Address.
func (d *Door) Write(r Record) {
	r.Door, r.Address = d.name, host(r.Address)
	const linkBytesMax = 512
	if len(r.Resource) > linkBytesMax {
		r.Resource = r.Resource[:linkBytesMax]
	}
	d.watch.log.write(&r)
}
