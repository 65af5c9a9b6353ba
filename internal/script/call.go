package script

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"modernc.org/quickjs"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Call calls a user-defined function. Undefined is passed as undefined in both
// directions; a result that JSON cannot represent, such as a function or NaN, is
// undefined.
//
// If the function throws, takes too long, needs too much memory or returns too
// much, the error is status 400. If ctx ends, its error is returned. Call only
// reads args.
func (p *Program) Call(ctx context.Context, args []value.Value) (value.Value, error) {
	if p.kind != Function {
		return value.Value{}, fmt.Errorf("script: a %s cannot be called", p.kind)
	}
	if err := p.runawayError(); err != nil {
		return value.Value{}, err
	}
	r := p.runner
	given, err := r.arguments(args)
	if err != nil {
		return value.Value{}, err
	}
	if err := r.enter(ctx, r.calls); err != nil {
		return value.Value{}, err
	}
	defer r.leave(r.calls)
	if p.sealed.Load() {
		result, err := p.callIn(ctx, true, given)
		if !errors.Is(err, errLeft) {
			return result, err
		}
		p.sealed.Store(false) // it has no effects, so it can be called again
	}
	return p.callIn(ctx, false, given)
}

// errLeft means that a function changed a sealed realm in a way that could not
// be undone.
var errLeft = errors.New("script: the realm was changed")

// callIn calls the function in a shared sealed realm, or in a new one.
func (p *Program) callIn(ctx context.Context, sealed bool, args []any) (value.Value, error) {
	r := p.runner
	m, err := r.takeMachine(ctx, p, sealed)
	if err != nil {
		return value.Value{}, err
	}
	var answer any
	var fault error
	err = m.do(ctx, r.limits.Time, func() { answer, fault = m.call(p, args) })
	if errors.Is(err, errRunaway) {
		return value.Value{}, p.stopped(err)
	}
	defer func() { r.giveMachine(m, sealed) }()
	if err != nil {
		return value.Value{}, p.stopped(err)
	}
	if fault != nil {
		m.spent = true
		if sealed && isLeft(fault) {
			return value.Value{}, errLeft
		}
		return value.Value{}, p.uncaught(fault)
	}
	return p.decode(m, answer)
}

func isLeft(err error) bool {
	var e *quickjs.Error
	return errors.As(err, &e) && e.Message == "the global object was changed for good"
}

// takeMachine returns a free engine that has loaded the program.
func (r *Runner) takeMachine(ctx context.Context, p *Program, sealed bool) (*machine, error) {
	m := r.idleMachine(sealed)
	if m != nil && m.makers[p] != (quickjs.Value{}) {
		return m, nil
	}
	if m == nil {
		var err error
		if m, err = r.newMachine(); err != nil {
			return nil, err
		}
	}
	var fault error
	err := m.do(ctx, r.prepareTime(), func() { fault = m.prepare(p, sealed) })
	if errors.Is(err, errRunaway) {
		return nil, p.stopped(err)
	}
	if err == nil && fault != nil {
		err = p.uncaught(fault)
	}
	if err != nil {
		m.retire()
		return nil, p.stopped(err)
	}
	return m, nil
}

func (r *Runner) idleMachine(sealed bool) *machine {
	if !sealed {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.idle) - 1
	if last < 0 {
		return nil
	}
	m := r.idle[last]
	r.idle = r.idle[:last]
	return m
}

// giveMachine returns an engine to the pool if it can be used again.
func (r *Runner) giveMachine(m *machine, sealed bool) {
	if sealed && !m.spent && len(m.makers) < programsMax {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed && len(r.idle) < r.limits.Idle {
			r.idle = append(r.idle, m)
			return
		}
	}
	m.retire()
}

// prepare loads a program. It runs on the machine's goroutine.
func (m *machine) prepare(p *Program, sealed bool) error {
	if m.vm == nil {
		if err := m.bootCalls(sealed); err != nil {
			return err
		}
	}
	_, err := m.maker(p)
	return err
}

// call calls a program. It runs on the machine's goroutine.
func (m *machine) call(p *Program, args []any) (any, error) {
	args[0] = m.makers[p]
	return m.invoke.Call(quickjs.UndefinedValue, args...)
}

// arguments returns the arguments of invoke: space for the maker, a letter for
// the type of each argument, and the arguments. They may take up to a quarter of
// an engine's memory.
func (r *Runner) arguments(args []value.Value) ([]any, error) {
	var letters [8]byte
	given := append(make([]any, 0, 2+len(args)), nil, nil)
	spec := letters[:0]
	size := 0
	for _, arg := range args {
		letter := byte('v')
		switch arg.Kind() {
		case value.KindUndefined:
			given = append(given, quickjs.Undefined{})
		case value.KindNull:
			given = append(given, nil)
		case value.KindBool:
			given = append(given, arg.Bool())
		case value.KindNumber:
			given = append(given, arg.Float())
		case value.KindString:
			given = append(given, arg.Text())
			size += arg.Len()
		default:
			letter = 'j'
			text := arg.JSON()
			given = append(given, text)
			size += len(text)
		}
		spec = append(spec, letter)
	}
	if size > r.limits.MemoryBytes/4 {
		return nil, status.BadRequest("The arguments of a user-defined function must not be larger than %d bytes together.", r.limits.MemoryBytes/4)
	}
	given[1] = string(spec)
	return given, nil
}

// decode decodes the result of invoke.
func (p *Program) decode(m *machine, answer any) (value.Value, error) {
	switch a := answer.(type) {
	case nil:
		return value.Null(), nil
	case bool:
		return value.Bool(a), nil
	case int:
		return value.Int(int64(a)), nil
	case float64:
		if math.IsNaN(a) || math.IsInf(a, 0) {
			return value.Value{}, nil
		}
		return value.Number(a), nil
	case string:
		return p.decodeText(m, a)
	}
	return value.Value{}, nil
}

func (p *Program) decodeText(m *machine, answer string) (value.Value, error) {
	letter, text := answer[0], answer[1:]
	switch letter {
	case 'e':
		err, internal := p.exception(text)
		m.spent = m.spent || internal
		return value.Value{}, err
	case 'l':
		return value.Value{}, p.tooLarge()
	}
	if len(text) > p.runner.limits.ResultBytes {
		return value.Value{}, p.tooLarge()
	}
	if letter == 's' {
		return value.String(text), nil
	}
	result, err := value.ParseString(text)
	if err != nil {
		return value.Value{}, status.BadRequest("The user-defined function %s returned a value that cannot be read: %s", p.name, strings.TrimSuffix(err.Error(), "."))
	}
	return result, nil
}

func (p *Program) tooLarge() error {
	return status.BadRequest("The result of the user-defined function %s is larger than %d bytes.", p.name, p.runner.limits.ResultBytes)
}
