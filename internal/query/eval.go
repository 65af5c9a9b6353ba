package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// truth is the value of a condition in three-valued logic. Only yes keeps a row.
type truth uint8

const (
	unknown truth = iota // undefined, or not a boolean
	no
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (t truth) not() truth {
	switch t {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

func (t truth) value() value.Value {
	switch t {
	case yes:
		return value.Bool(true)
	case no:
		return value.Bool(false)
	}
	return value.Undefined()
}

// truthIn returns v as the value of a condition.
func truthIn(v value.Value) truth {
	if v.Kind() != value.KindBool {
		return unknown
	}
	return truthOf(v.IsTrue())
}

// builtMax is the maximum size in bytes of a row and of a value that an expression
// builds. A page cannot hold more, and a short text could otherwise demand unbounded
// memory.
const builtMax = 4 << 20

// env is the state in which expressions are evaluated, for one document at a time. One
// goroutine uses it.
type env struct {
	now    time.Time
	places *value.Locator
	body   []byte

	located bool            // the texts of cells are those of body
	layout  value.Layout    // of the documents located
	cells   []value.Located // by slot
	stack   []value.Value   // arguments of the current calls
	scratch []byte
	buffers buffers  // of functions; see functions_text.go
	called  []result // results of user-defined functions, by the place of the call; see callUser
	calls   int64    // number of calls of user-defined functions

	// locals are the registers of a plan, for aliases of inputs that are not places in
	// the document, for aggregates and for group keys.
	locals []value.Value
	ctx    context.Context // of the run; nil for none
	steps  int             // rows that the inputs made of this document so far
	worked int             // work since the last check of the context; see work
	folds  bool            // it evaluates constants, not a run
	looks  int             // work of folding, in units of workCheck

	memory    int64 // bytes that the query keeps, including values that wait for others; see keeps and take
	memoryMax int64 // 0: memoryDefault
	allowance allowance
	fresh     int64 // bytes allocated for the value computed last; see take
	held      int64 // bytes allocated for the values in the registers of inputs

	// err is the first error: a document that is not JSON, or a limit. Evaluation
	// continues to its end, and then the run stops.
	err error
}

// newEnv returns an env for constants.
func newEnv() *env { return &env{places: new(value.Locator), folds: true} }

// env returns the env of one run. Inputs that make many rows of one document check ctx.
func (p *Plan) env(ctx context.Context, now time.Time) env {
	left := env{cells: make([]value.Located, p.places.Len())}
	if p.locals > 0 {
		left.locals = make([]value.Value, p.locals)
	}
	return p.renew(ctx, &left, now)
}

// renew is env, but reuses the memory of a previous run of the plan.
func (p *Plan) renew(ctx context.Context, left *env, now time.Time) env {
	return env{now: now, places: &p.places, cells: left.cells, locals: left.locals, layout: left.layout, ctx: ctx}
}

// load sets the current document. body must not change until the next load.
func (e *env) load(body []byte) {
	e.body, e.steps, e.located = body, 0, false
	for i := range e.called {
		e.called[i].known = false
	}
}

// assume sets a document of which only the value at one place is known and used. text
// is that value as JSON; nil if it is undefined.
func (e *env) assume(slot int, v value.Value, text []byte) {
	e.load(emptyDocument)
	e.located = true
	clear(e.cells)
	e.cells[slot] = value.Located{Text: text, Value: v, Parsed: true}
}

func (e *env) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Limits on the number of rows that the inputs of a query, including those of
// subqueries, make of one document. Without them a join of ten arrays would run
// practically forever.
const (
	stepsMax   = 5_000_000
	stepsCheck = 1 << 10 // steps between two checks of the context
)

// step counts a row of an input and reports whether to continue.
func (e *env) step() bool {
	e.steps++
	if e.steps%stepsCheck == 0 {
		if e.steps > stepsMax {
			e.fail(status.BadRequest("The query produces more than %d rows from one document before it filters them. Join fewer arrays, or filter their elements in subqueries.", stepsMax))
		}
		e.check()
	}
	return e.err == nil
}

// check yields to other queries, and fails if the run is over.
func (e *env) check() {
	if e.ctx == nil {
		return
	}
	if err := pacing.Check(e.ctx); err != nil {
		e.fail(err)
	}
}

// Functions and comparisons count their work inside one value as well, because a few
// of them could take minutes: for example a search for ten thousand values in a
// million.
const (
	workCheck = 1 << 16 // units of work between two checks of the context
	workFold  = 16      // multiple of workCheck after which folding leaves a constant to the run
	workFolds = 64      // multiple of workCheck for all constants of a plan
	workDeep  = 1 << 13 // work of comparing two arrays or objects, whatever their elements

	longText = 1 << 10 // bytes of a text from which reading it counts as work
)

var errFold = errors.New("the constant takes too long to compute")

// work counts n units of work, each for an element or a few bytes, and reports whether
// to continue.
func (e *env) work(n int) bool {
	if e.err != nil {
		return false
	}
	if e.worked += n; e.worked >= workCheck {
		e.look()
		e.worked = 0
	}
	return e.err == nil
}

// look fails if the run is over or folding takes too long.
func (e *env) look() {
	e.check()
	if e.folds {
		if e.looks += e.worked / workCheck; e.looks > workFold {
			e.fail(errFold)
		}
	}
}

// workOn counts the work of reading all arguments.
func (e *env) workOn(args []value.Value) bool {
	n := 1
	for i := range args {
		n += args[i].Len()
	}
	return e.work(n)
}

// workOf counts the work of comparing two values.
func (e *env) workOf(a, b value.Value) bool {
	switch {
	case a.Kind() < value.KindString || a.Kind() != b.Kind():
		return e.work(1)
	case a.Kind() == value.KindString:
		return e.work(1 + min(a.Len(), b.Len()))
	}
	return e.work(workDeep + min(a.Len(), b.Len()))
}

// fits reports whether a value of n bytes may be built.
func (e *env) fits(n int) bool {
	if n > builtMax {
		e.fail(status.BadRequest("A value computed by the query is larger than %d bytes.", builtMax))
		return false
	}
	return true
}

// fitsValue reports whether the JSON of v may be built. It can be far larger than the
// memory of v, whose parts may be shared.
func (e *env) fitsValue(v value.Value) bool {
	if v.Kind() < value.KindString {
		return true
	}
	m := measure{room: builtMax}
	return e.fitsIn(&m, v)
}

// fitsIn reports whether v may become a part of the value that m has measured so far.
// All values that are built of parts are checked here. So no value is larger than
// builtMax, however many parts it shares, and every walk over a value ends.
func (e *env) fitsIn(m *measure, v value.Value) bool {
	before := m.nodes
	m.add(v)
	return e.work(m.nodes-before) && (m.room >= 0 || e.fits(builtMax-m.room))
}

// measure is the size of a value. Shared parts count each time they occur.
type measure struct {
	room  int // approximate number of bytes left for its JSON; negative if it is too large
	nodes int // number of values visited
}

// add counts a value. It stops when no room is left.
func (m *measure) add(v value.Value) {
	m.room--
	m.nodes++
	switch v.Kind() {
	case value.KindString:
		m.room -= v.Len()
	case value.KindArray:
		for _, item := range v.Items() {
			if m.add(item); m.room < 0 {
				return
			}
		}
	case value.KindObject:
		for _, member := range v.Members() {
			m.room -= len(member.Name)
			if m.add(member.Value); m.room < 0 {
				return
			}
		}
	}
}

// valueSize and memberSize are the sizes in bytes of an element of an array and of a
// member of an object, without what they refer to.
const (
	valueSize  = int(unsafe.Sizeof(value.Value{}))
	memberSize = int(unsafe.Sizeof(value.Member{}))
)

// take computes a value that is kept while other values are computed: an argument, an
// operand, a part of a literal. It adds the memory allocated for the value to e.memory.
// The caller saves e.memory before and restores it when the values are no longer used.
// Parts of the document, constants and registers do not count. The value is undefined
// if the query exceeds its memory.
func (e *env) take(eval func(e *env) value.Value) value.Value {
	e.fresh = 0
	v := eval(e)
	if n := e.made(v); n > 0 && !e.keeps(int(n)) {
		return value.Undefined()
	}
	return v
}

// made returns the bytes that were allocated for a value just computed. e.fresh is 0
// before; each allocation sets it.
func (e *env) made(v value.Value) int64 {
	if v.Kind() < value.KindString || v.Kind() == value.KindString && e.stored(v.Text()) {
		return 0
	}
	return e.fresh
}

// stored reports whether a text is a part of the document.
func (e *env) stored(s string) bool {
	at, from := uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(unsafe.Pointer(unsafe.SliceData(e.body)))
	return at >= from && at < from+uintptr(len(e.body))
}

// release frees the values taken since e.memory was before. v was made of them and may
// share their memory.
func (e *env) release(v value.Value, before int64) value.Value {
	e.fresh, e.memory = e.memory-before, before
	if v.Kind() == value.KindString {
		e.fresh = max(e.fresh, int64(v.Len()))
	}
	return v
}

// raw returns the text of a place in the document, or nil if it is missing.
func (e *env) raw(slot int) []byte {
	if !e.located {
		e.locate()
	}
	return e.cells[slot].Text
}

func (e *env) locate() {
	e.located = true
	clear(e.cells)
	if !e.places.Locate(e.body, e.cells, &e.layout) {
		clear(e.cells)
		e.fail(fmt.Errorf("a stored document is not JSON"))
	}
}

// at returns the value of a place in the document.
func (e *env) at(slot int) value.Value {
	raw := e.raw(slot)
	known := &e.cells[slot]
	if known.Parsed {
		return known.Value
	}
	v := value.Undefined()
	if raw != nil {
		// The value shares the bytes of the candidate, which outlive it: nothing that
		// is kept longer than a candidate refers to values.
		text := view(raw)
		var ok bool
		if v, ok = plainScalar(text); !ok {
			if !e.work(len(text)) {
				return value.Undefined()
			}
			var err error
			if v, err = parseRow(text); err != nil {
				e.fail(fmt.Errorf("a stored document: %w", err))
			}
		}
	}
	known.Value, known.Parsed = v, true
	return v
}

// plainScalar parses the most common values without the parser's stacks: keywords,
// short integers, and strings without escapes. The text is one value of a stored
// document, so it is well formed.
func plainScalar(text string) (value.Value, bool) {
	switch c := text[0]; {
	case c == '"':
		if s, ok := plainString(text); ok {
			return value.String(s), true
		}
	case isDigit(c):
		if n, ok := shortInteger(text); ok {
			return value.Int(n), true
		}
	case text == "null":
		return value.Null(), true
	case text == "true":
		return value.Bool(true), true
	case text == "false":
		return value.Bool(false), true
	}
	return value.Value{}, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// plainString returns the content of a string without escapes.
func plainString(text string) (string, bool) {
	last := len(text) - 1
	if last < 1 || text[0] != '"' || text[last] != '"' || strings.IndexByte(text, '\\') >= 0 {
		return "", false
	}
	return text[1:last], true
}

// shortInteger parses an integer of at most 18 digits, which always fits 64 bits.
func shortInteger(text string) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	for i := range len(text) {
		if !isDigit(text[i]) {
			return 0, false
		}
		n = n*10 + int64(text[i]-'0')
	}
	return n, true
}

// numbers returns both operands if they are numbers.
func numbers(a, b value.Value) (x, y float64, ok bool) {
	if a.Kind() != value.KindNumber || b.Kind() != value.KindNumber {
		return 0, 0, false
	}
	return a.Signed(), b.Signed(), true
}

// equal is the operator =. Two defined values of different types are unequal.
func equal(a, b value.Value) truth {
	if !a.IsDefined() || !b.IsDefined() {
		return unknown
	}
	return truthOf(equalValues(a, b))
}

// equalValues is the equality of the language. It compares arrays and objects part by
// part, and numbers as in IEEE 754, where NaN equals nothing. In the order of keys,
// which groups and sorts, NaN equals itself.
func equalValues(a, b value.Value) bool { return value.Equal(a, b) && !hasNaN(a) }

// hasNaN reports whether a value is NaN or contains one at any depth.
func hasNaN(v value.Value) bool {
	switch v.Kind() {
	case value.KindNumber:
		return isNaN(v)
	case value.KindArray:
		return slices.ContainsFunc(v.Items(), hasNaN)
	case value.KindObject:
		return slices.ContainsFunc(v.Members(), func(m value.Member) bool { return hasNaN(m.Value) })
	}
	return false
}

func isNaN(v value.Value) bool { return v.Kind() == value.KindNumber && math.IsNaN(v.Float()) }

// ordered is < and the like. It is undefined unless both values have the same kind and
// that kind has an order, which arrays, objects and undefined do not have. NaN has no
// order, either.
func (o outcomes) ordered(a, b value.Value) truth {
	if a.Kind() != b.Kind() || !hasOrder(a.Kind()) || isNaN(a) || isNaN(b) {
		return unknown
	}
	return o.hold(value.Compare(a, b))
}

// hasOrder reports whether < and the like are defined for values of a kind. They are
// defined for null: null <= null is true, and clients that resume a sort after a row
// with the key null ask for keys >= null.
func hasOrder(k value.Kind) bool {
	return k == value.KindNull || k == value.KindBool || k == value.KindNumber || k == value.KindString
}

// outcomes are the results of cmp.Compare for which an operator is true.
type outcomes uint8

const (
	less outcomes = 1 << iota
	same
	more
)

var outcomesOf = map[string]outcomes{"=": same, "!=": less | more, "<": less, "<=": less | same, ">": more, ">=": more | same}

func (o outcomes) hold(c int) truth { return truthOf(o>>(c+1)&1 != 0) }

// comparison returns the test of a comparison operator.
func comparison(op string) func(a, b value.Value) truth {
	switch op {
	case "=":
		return equal
	case "!=":
		return func(a, b value.Value) truth { return equal(a, b).not() }
	}
	return outcomesOf[op].ordered
}

// placeComparison is the comparison of a place in the document with a constant. It
// compares plain strings and short integers without parsing them.
func placeComparison(op string, slot int, v value.Value) func(e *env) truth {
	test, holds := comparison(op), outcomesOf[op]
	slow := func(e *env, raw []byte) truth {
		if raw == nil {
			return unknown
		}
		return e.compare(test, e.at(slot), v)
	}
	if i, ok := v.Int64(); ok {
		return func(e *env) truth {
			raw := e.raw(slot)
			if n, ok := shortInteger(view(raw)); ok {
				return holds.hold(cmp.Compare(n, i))
			}
			return slow(e, raw)
		}
	}
	if v.Kind() == value.KindString {
		text := v.Text()
		return func(e *env) truth {
			raw := e.raw(slot)
			if len(raw) > longText && !e.work(len(raw)) {
				return unknown
			}
			if s, ok := plainString(view(raw)); ok {
				return holds.hold(strings.Compare(s, text))
			}
			return slow(e, raw)
		}
	}
	return func(e *env) truth { return slow(e, e.raw(slot)) }
}

// compare applies a test to two values and counts its work.
func (e *env) compare(test func(a, b value.Value) truth, a, b value.Value) truth {
	if !e.workOf(a, b) {
		return unknown
	}
	return test(a, b)
}

// view returns bytes of a document as a string, which is valid as long as the
// document.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// arithmetic returns the function of an operator on two numbers.
func arithmetic(op string) func(a, b value.Value) value.Value {
	switch op {
	case "+":
		return value.Add
	case "-":
		return value.Subtract
	case "*":
		return value.Multiply
	case "/":
		return value.Divide
	case "%":
		return value.Modulo
	case "&":
		return bitwise(func(x, y int32) int32 { return x & y })
	case "|":
		return bitwise(func(x, y int32) int32 { return x | y })
	case "^":
		return bitwise(func(x, y int32) int32 { return x ^ y })
	case "<<":
		return bitwise(func(x, y int32) int32 { return x << (y & 31) })
	case ">>":
		return bitwise(func(x, y int32) int32 { return x >> (y & 31) })
	case ">>>":
		// Unlike in JavaScript, the result is a signed integer, too.
		return bitwise(func(x, y int32) int32 { return int32(uint32(x) >> (y & 31)) })
	}
	return nil
}

// bitwise returns an operator on integers of 32 bits as a function of two numbers. The
// result counts as floating point.
func bitwise(f func(x, y int32) int32) func(a, b value.Value) value.Value {
	return func(a, b value.Value) value.Value {
		x, y, ok := numbers(a, b)
		if !ok {
			return value.Undefined()
		}
		return value.Double(float64(f(int32Of(x), int32Of(y))))
	}
}

// int32Of converts as JavaScript does: modulo 2^32, and to 0 if the number is not
// finite.
func int32Of(f float64) int32 {
	if f-f != 0 {
		return 0
	}
	f = math.Mod(math.Trunc(f), 1<<32)
	return int32(uint32(int64(f)))
}

// concat is the operator ||.
func (e *env) concat(a, b value.Value) value.Value {
	if a.Kind() != value.KindString || b.Kind() != value.KindString || !e.fits(a.Len()+b.Len()) || !e.work(a.Len()+b.Len()) {
		return value.Undefined()
	}
	return value.String(a.Text() + b.Text())
}

// unary applies a sign or a complement.
func unary(op string, v value.Value) value.Value {
	if v.Kind() != value.KindNumber {
		return value.Undefined()
	}
	switch op {
	case "-":
		return value.Negate(v)
	case "~":
		return value.Double(float64(^int32Of(v.Float())))
	}
	return v
}

// member is access by a name. It searches the members linearly.
func (e *env) member(of value.Value, name string) value.Value {
	if of.Kind() == value.KindObject && !e.work(of.Len()) {
		return value.Undefined()
	}
	return of.Get(name)
}

// element is access by a computed name or position.
func (e *env) element(of, at value.Value) value.Value {
	switch at.Kind() {
	case value.KindString:
		return e.member(of, at.Text())
	case value.KindNumber:
		if i, ok := at.Int64(); ok && i >= 0 && i < math.MaxInt32 {
			return of.Index(int(i))
		}
	}
	return value.Undefined()
}
