package script

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"modernc.org/quickjs"

	"github.com/decandb/decan/internal/status"
)

// Program is a compiled script. It is safe for concurrent use.
type Program struct {
	runner *Runner
	kind   Kind
	name   string
	code   []byte      // bytecode of a function that returns the script's function
	sealed atomic.Bool // the shared sealed realm is sufficient
	bad    atomic.Bool // one of its runs could not be stopped
}

// The text around a body. A body is an expression, optionally followed by
// declarations of further functions on separate lines; the first function is
// called. Its line numbers are higher than those of our own scripts, by which a
// stack trace distinguishes the two.
var before = "(function () { var fn =" + strings.Repeat("\n", linesBefore)

const (
	linesBefore = 1000
	after       = "\n;return fn; })"
)

// Compile compiles the body of a script: a function, optionally followed by
// declarations of others. name is the script's id, for messages.
//
// A body that is not valid JavaScript is status 400 with the sub-status of
// compile errors; a body that is too long is status 413.
func (r *Runner) Compile(ctx context.Context, kind Kind, name, body string) (*Program, error) {
	if len(body) > r.limits.BodyBytes {
		return nil, status.TooLarge("The body of a %s must not be longer than %d bytes. This one has %d.", kind, r.limits.BodyBytes, len(body))
	}
	p := &Program{runner: r, kind: kind, name: name}
	p.sealed.Store(kind == Function && fitsSealed(body))
	if err := r.enter(ctx, r.calls); err != nil {
		return nil, err
	}
	defer r.leave(r.calls)
	m, err := r.newMachine()
	if err != nil {
		return nil, err
	}
	var code []byte
	var fault error
	err = m.do(ctx, r.prepareTime(), func() { code, fault = m.compile(body) })
	if !errors.Is(err, errRunaway) {
		defer m.retire()
	}
	if err != nil {
		return nil, p.stopped(err)
	}
	if fault != nil {
		return nil, compileError(fault, body)
	}
	p.code = code
	return p, nil
}

// compile runs on the machine's goroutine. It first compiles the body alone, so
// that the body cannot end the function around it.
func (m *machine) compile(body string) ([]byte, error) {
	if err := m.boot(); err != nil {
		return nil, err
	}
	if _, err := m.vm.Compile("var fn =\n"+body+"\n;", quickjs.EvalGlobal); err != nil {
		return nil, err
	}
	return m.vm.Compile(before+body+after, quickjs.EvalGlobal)
}

// Kind returns the kind of the program.
func (p *Program) Kind() Kind { return p.kind }

func compileError(err error, body string) error {
	var e *quickjs.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("compile a script: %w", err)
	}
	message := "Encountered exception while compiling Javascript. Exception = " + e.Error()
	if line := e.LineNumber - 1; line > 0 {
		message += fmt.Sprintf("\r\nSource information: line: %d, column: %d, source line:\r\n%s", line, e.ColumnNumber, sourceLine(body, line))
	}
	return scriptError(status.SubScriptCompile, message)
}

// sourceLine returns a line of the body, counted from 1, shortened for a
// message.
func sourceLine(body string, line int) string {
	const room = 120
	for text := range strings.Lines(body) {
		if line--; line == 0 {
			text = strings.TrimRight(text, "\r\n")
			return text[:min(len(text), room)]
		}
	}
	return ""
}

// A body that may change built-in objects, or needs what a sealed realm does not
// have, gets a separate realm for each call, which costs a hundred times as
// much. The patterns only guess, in favour of the script: a sealed realm keeps
// nothing whatever the script does, but a change that it refuses is a difference
// that a user could notice.
var (
	borrowed = regexp.MustCompile(`\b[A-Z]\w*\.prototype\.\w+\.(?:call|apply|bind)\b`)
	assigned = regexp.MustCompile(`\b[A-Z]\w*\s*(?:\.\s*[\w$]+|\[[^\]]*\])\s*=[^=]`)
	unsealed = regexp.MustCompile(`\b(?:prototype|__proto__|__\w+etter__|definePropert(?:y|ies)|[gs]etPrototypeOf|Reflect|Proxy|` +
		`eval|Function|globalThis|async|await|import|Promise|WeakRef|FinalizationRegistry|Atomics|SharedArrayBuffer)\b`)
)

func fitsSealed(body string) bool {
	if strings.Contains(body, "prototype") {
		body = borrowed.ReplaceAllString(body, "borrowed")
	}
	return !unsealed.MatchString(body) && !assigned.MatchString(body)
}
