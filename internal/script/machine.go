package script

import (
	"context"
	_ "embed"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/quickjs"
)

//go:embed js/base.js
var baseSource string

//go:embed js/realm.js
var realmSource string

//go:embed js/api.js
var apiSource string

// stackSlots bounds recursion, in calls. With a deeper stack an overflow takes
// longer to report, and goroutines are larger: 2,000 calls take about 6 MB.
const stackSlots = 2000

// prepareTime bounds the creation of a realm, which takes milliseconds, and the
// compilation of a body. It is in addition to the script's own time, and grows
// with it: an operator who gives scripts more time has a slower machine.
func (r *Runner) prepareTime() time.Duration { return 10*time.Second + r.limits.Time }

// programsMax is how many programs an engine loads before it is replaced,
// because it cannot unload them.
const programsMax = 64

// machine is an engine and its goroutine. The holder gives it work with do, one
// piece at a time. Only the goroutine uses the engine, except for Interrupt.
type machine struct {
	runner *Runner
	work   chan func()
	done   chan struct{} // one value for each piece of work that was not abandoned
	state  atomic.Int32  // idle, working, abandoned
	timer  *time.Timer   // belongs to the holder

	vm        *quickjs.VM
	interrupt atomic.Pointer[quickjs.VM] // vm, for the holder
	describe  quickjs.Value              // of base.js
	invoke    quickjs.Value              // of realm.js
	makers    map[*Program]quickjs.Value // loaded programs
	held      []quickjs.Value            // references to free before vm is closed
	spent     bool                       // must not be used again
	broken    error                      // the engine panicked
}

const (
	machineIdle int32 = iota
	machineWorking
	machineAbandoned
)

// errRunaway means that work did not end in time and was abandoned.
var errRunaway = fmt.Errorf("the script did not stop")

// errStopped means that work was interrupted because its time was over.
var errStopped = fmt.Errorf("the time of the script is over")

// newMachine starts an engine without a realm. The caller must retire it.
func (r *Runner) newMachine() (*machine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	m := &machine{
		runner: r,
		work:   make(chan func()),
		done:   make(chan struct{}, 1),
		timer:  time.NewTimer(time.Hour),
	}
	m.timer.Stop()
	r.machines.Add(1)
	go m.loop()
	return m, nil
}

// retire ends the goroutine, which closes the engine.
func (m *machine) retire() { close(m.work) }

func (m *machine) loop() {
	debug.SetPanicOnFault(true) // the engine's memory is not managed by Go
	for work := range m.work {
		m.perform(work)
		if !m.state.CompareAndSwap(machineWorking, machineIdle) {
			m.close()
			m.runner.runaways.Add(-1)
			return
		}
		m.done <- struct{}{}
	}
	m.close()
	m.runner.machines.Done()
}

// perform runs one piece of work. An engine that panics can neither be used
// again nor be closed cleanly.
func (m *machine) perform(work func()) {
	defer func() {
		if p := recover(); p != nil {
			m.broken = fmt.Errorf("script engine: %v", p)
			m.spent = true
		}
	}()
	work()
}

func (m *machine) close() {
	defer func() { _ = recover() }() // a broken engine leaks and panics on close
	if m.vm == nil {
		return
	}
	for i := range m.held {
		m.held[i].Free()
	}
	m.vm.Close()
}

// hold keeps a reference until the engine is closed. An object with a reference
// at that time is never freed, nor is anything that it can reach; from a
// function that is the whole realm.
func (m *machine) hold(v quickjs.Value, err error) (quickjs.Value, error) {
	if err == nil {
		m.held = append(m.held, v)
	}
	return v, err
}

// do runs a piece of work on the goroutine, within the time and the context.
//
// After errRunaway the machine is lost: the work is still running, so the caller
// must not touch what it shares with it, and must not retire the machine. After
// another error the machine is spent.
func (m *machine) do(ctx context.Context, budget time.Duration, work func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.state.Store(machineWorking)
	m.timer.Reset(budget)
	defer m.timer.Stop()
	m.work <- work
	var cause error
	select {
	case <-m.done:
		return m.broken
	case <-ctx.Done():
		cause = ctx.Err()
	case <-m.timer.C:
		cause = errStopped
	}
	m.spent = true
	return m.stop(cause)
}

// stop interrupts the work and waits for its end. It interrupts several times,
// because the engine forgets an interrupt between two entries.
func (m *machine) stop(cause error) error {
	const tries = 20
	for range tries {
		if vm := m.interrupt.Load(); vm != nil {
			vm.Interrupt()
		}
		m.timer.Reset(m.runner.grace / tries)
		select {
		case <-m.done:
			return cause
		case <-m.timer.C:
		}
	}
	if !m.state.CompareAndSwap(machineWorking, machineAbandoned) {
		<-m.done
		return cause
	}
	m.runner.runaways.Add(1)
	m.runner.machines.Done()
	return errRunaway
}

// boot creates the engine and what every realm has. It runs on the machine's
// goroutine.
func (m *machine) boot() error {
	vm, err := quickjs.NewVM()
	if err != nil {
		return err
	}
	m.vm = vm
	m.interrupt.Store(vm)
	m.makers = map[*Program]quickjs.Value{}
	vm.SetMemoryLimit(uintptr(m.runner.limits.MemoryBytes))
	vm.SetMaxStackSize(stackSlots)
	vm.SetCanBlock(false)
	base, err := m.own(baseSource)
	if err != nil {
		return err
	}
	m.describe, err = m.hold(base.CallValue(quickjs.UndefinedValue))
	return err
}

// own evaluates one of our own scripts, which is compiled once for all engines.
func (m *machine) own(source string) (quickjs.Value, error) {
	if code, compiled := m.runner.code.Load(source); compiled {
		return m.hold(m.vm.EvalBytecodeValue(code.([]byte)))
	}
	code, err := m.vm.Compile(source, quickjs.EvalGlobal)
	if err != nil {
		return quickjs.Value{}, err
	}
	m.runner.code.Store(source, code)
	return m.hold(m.vm.EvalBytecodeValue(code))
}

// parts evaluates a script whose value is a function that returns an array, and
// returns the first elements of the array.
func (m *machine) parts(source string, count int, args ...any) ([]quickjs.Value, error) {
	setup, err := m.own(source)
	if err != nil {
		return nil, err
	}
	array, err := m.hold(setup.CallValue(quickjs.UndefinedValue, append([]any{m.describe}, args...)...))
	if err != nil {
		return nil, err
	}
	parts := make([]quickjs.Value, count)
	for i := range parts {
		atom, err := m.vm.NewAtom(string(rune('0' + i)))
		if err != nil {
			return nil, err
		}
		if parts[i], err = m.hold(array.GetPropertyValue(atom)); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// kept lists the global names of a sealed realm.
const kept = "Object Array String Number Boolean Symbol BigInt Math JSON Date RegExp Map Set WeakMap WeakSet Iterator " +
	"Error EvalError RangeError ReferenceError SyntaxError TypeError URIError InternalError AggregateError " +
	"ArrayBuffer DataView Uint8ClampedArray Int8Array Uint8Array Int16Array Uint16Array Int32Array Uint32Array " +
	"BigInt64Array BigUint64Array Float16Array Float32Array Float64Array " +
	"parseInt parseFloat isNaN isFinite decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape"

// constants is the script that turns the built-in objects of a sealed realm,
// except the global object, into constants.
var constants = func() string {
	var b strings.Builder
	for name := range strings.FieldsSeq(kept) {
		fmt.Fprintf(&b, "const %s = __decan_constants.%s;\n", name, name)
	}
	b.WriteString("delete __decan_constants;\n")
	return b.String()
}()

// bootCalls creates a realm for calls of functions. It runs on the machine's
// goroutine.
func (m *machine) bootCalls(sealed bool) error {
	if err := m.boot(); err != nil {
		return err
	}
	parts, err := m.parts(realmSource, 2, sealed, m.runner.limits.ResultBytes)
	if err != nil {
		return err
	}
	m.invoke = parts[0]
	if !sealed {
		return nil
	}
	_, err = parts[1].Call(quickjs.UndefinedValue, kept)
	if err == nil {
		_, err = m.own(constants)
	}
	return err
}

// maker returns the function that creates a program's function. It runs on the
// machine's goroutine.
func (m *machine) maker(p *Program) (quickjs.Value, error) {
	if make, loaded := m.makers[p]; loaded {
		return make, nil
	}
	make, err := m.hold(m.vm.EvalBytecodeValue(p.code))
	if err == nil {
		m.makers[p] = make
	}
	return make, err
}
