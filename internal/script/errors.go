package script

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"modernc.org/quickjs"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// stopped translates the reason why work was stopped.
func (p *Program) stopped(err error) error {
	switch {
	case errors.Is(err, errRunaway):
		p.bad.Store(true)
		return p.timeoutError()
	case errors.Is(err, errStopped):
		return p.timeoutError()
	}
	return err
}

// timeoutError returns the error for a script that ran too long. For a function
// the query is wrong: a client would retry a 408.
func (p *Program) timeoutError() error {
	code := status.CodeRequestTimeout
	if p.kind == Function {
		code = status.CodeBadRequest
	}
	return status.New(code, 0, "The %s %s did not end within %v.", p.kind, p.name, p.runner.limits.Time)
}

// runawayError returns the error for a script that could not be stopped before.
func (p *Program) runawayError() error {
	if p.bad.Load() {
		return p.timeoutError()
	}
	return nil
}

// uncaught translates an error of the engine itself, which a script cannot catch
// or which prevented the engine from describing what was thrown.
func (p *Program) uncaught(err error) error {
	var e *quickjs.Error
	if !errors.As(err, &e) {
		return p.failed(err.Error(), "", 0)
	}
	if e.Name == "InternalError" && e.Message == "interrupted" {
		return p.timeoutError()
	}
	return p.failed(e.Error(), "", 0)
}

const outOfMemory = "InternalError: out of memory"

// exception translates what a script threw, as described by base.js. internal
// means that the engine threw it for lack of memory or stack.
func (p *Program) exception(described string) (err error, internal bool) {
	told, _ := value.ParseString(described)
	number, _ := told.Get("number").Int64()
	if number < 0 || number > 1<<16-1 {
		number = 0
	}
	text := told.Get("text").Text()
	internal = told.Get("internal").IsTrue() || text == "null" // the engine throws null if it has no memory for an error
	if text == outOfMemory {
		text = fmt.Sprintf("%s (a script has %d bytes)", text, p.runner.limits.MemoryBytes)
	}
	return p.failed(text, told.Get("stack").Text(), status.Sub(number)), internal
}

// failed returns the error for a script that threw. The number of the exception,
// for instance that of a failed operation, is the sub-status.
func (p *Program) failed(text, stack string, number status.Sub) error {
	text = clip(text)
	message := "Encountered exception while executing Javascript. Exception = " + text
	if trace := p.trace(stack); trace != "" {
		message += "\r\nStack trace: " + text + trace
	}
	return scriptError(number, message)
}

// scriptError returns an error in the service's form for scripts.
func scriptError(sub status.Sub, message string) error {
	return status.New(status.CodeBadRequest, sub, `{"Errors":[%s]}`, value.AppendQuoted(nil, message))
}

// textMax is how many bytes of a script's own text are in a message.
const textMax = 4 << 10

func clip(text string) string {
	if len(text) <= textMax {
		return text
	}
	return strings.ToValidUTF8(text[:textMax], "") + "..."
}

var place = regexp.MustCompile(`\(?<eval>:(\d+):(\d+)\)?`)

// framesMax is how many calls are in a message.
const framesMax = 10

// trace converts the engine's stack to lines of a message. Positions are those
// in the body; frames outside it are omitted.
func (p *Program) trace(stack string) string {
	var b strings.Builder
	frames := 0
	for line := range strings.Lines(stack) {
		at := place.FindStringSubmatchIndex(line)
		if at == nil {
			continue
		}
		row, _ := strconv.Atoi(line[at[2]:at[3]])
		if row <= linesBefore {
			continue
		}
		if frames++; frames > framesMax {
			break
		}
		fmt.Fprintf(&b, "\r\n   %s(%s.js:%d:%s)", strings.TrimLeft(line[:at[0]], " "), p.name, row-linesBefore, line[at[4]:at[5]])
	}
	return b.String()
}
