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

	"github.com/decandb/decan/internal/giveway"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// truth is what a condition comes to. Only yes keeps a row.
type truth uint8

const (
	unknown truth = iota // undefined, or no boolean at all
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

// truthIn returns what v says as a condition.
func truthIn(v value.Value) truth {
	if v.Kind() != value.KindBool {
		return unknown
	}
	return truthOf(v.IsTrue())
}

// builtMax bounds the bytes of a value that an expression builds and of a row.
// A page of results cannot hold more, and without a bound a short text could
// ask for more memory than there is.
const builtMax = 4 << 20

// env is what an expression is evaluated against: one document at a time. One
// goroutine uses it.
type env struct {
	now    time.Time
	places *value.Locator
	body   []byte

	located bool            // the texts of cells are those of body
	layout  value.Layout    // of the documents located
	cells   []value.Located // by slot
	stack   []value.Value   // arguments of the calls under way
	scratch []byte
	rooms   rooms    // of functions; see functions_text.go
	called  []result // of user-defined functions, by the place of the call; see callUser
	calls   int64    // of user-defined functions

	// locals are the registers of a plan: for the aliases of inputs that are no
	// places of the document, for aggregates and for group keys.
	locals []value.Value
	ctx    context.Context // of the run; nil for none
	steps  int             // rows of inputs made of this document so far
	worked int             // since the last look at the context; see work
	folds  bool            // constants, and not for a run
	looks  int             // at a context that is not there

	memory    int64 // bytes that the query keeps, and those of values that wait; see keeps and take
	memoryMax int64 // 0: memoryDefault
	allowance allowance
	fresh     int64 // bytes that were made for the value computed last; see take
	held      int64 // those made for the values that are in the registers of inputs

	// err is the first trouble met: a document that is no JSON, or a limit.
	// Evaluation goes on to its end, and the run stops at it.
	err error
}

// newEnv returns what constants are evaluated in.
func newEnv() *env { return &env{places: new(value.Locator), folds: true} }

// env returns what one run of the plan is evaluated in. Inputs that go on for
// long within one document look whether ctx ended.
func (p *Plan) env(ctx context.Context, now time.Time) env {
	left := env{cells: make([]value.Located, p.places.Len())}
	if p.locals > 0 {
		left.locals = make([]value.Value, p.locals)
	}
	return p.renew(ctx, &left, now)
}

// renew is env with the memory that another run of the plan has left.
func (p *Plan) renew(ctx context.Context, left *env, now time.Time) env {
	return env{now: now, places: &p.places, cells: left.cells, locals: left.locals, layout: left.layout, ctx: ctx}
}

// load turns to another document. body must stay as it is until the next load.
func (e *env) load(body []byte) {
	e.body, e.steps, e.located = body, 0, false
	for i := range e.called {
		e.called[i].known = false
	}
}

// assume turns to a document of which the value of one place is all that is
// known, and all that anybody asks for. text is that value as JSON; nil when
// nothing is there.
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

// Bounds on the rows that the inputs of a query make of one document, those of
// subqueries included: ten arrays joined with each other have no end in sight.
const (
	stepsMax   = 5_000_000
	stepsCheck = 1 << 10 // steps between two looks at the context
)

// step counts a row of an input, and reports whether to go on.
func (e *env) step() bool {
	e.steps++
	if e.steps%stepsCheck == 0 {
		if e.steps > stepsMax {
			e.fail(status.BadRequest("The query makes more than %d rows of one document before they are filtered. Join fewer arrays, or filter their elements in subqueries.", stepsMax))
		}
		e.check()
	}
	return e.err == nil
}

// check lets others work, and fails when the run is over.
func (e *env) check() {
	if e.ctx == nil {
		return
	}
	if err := giveway.Check(e.ctx); err != nil {
		e.fail(err)
	}
}

// What functions and comparisons do inside of one value is counted as well, or a
// few of them could take minutes: ten thousand values sought in a million.
const (
	workCheck = 1 << 16 // units of work between two looks at the context
	workFold  = 16      // times that after which folding leaves a constant to the run
	workFolds = 64      // times that for all constants of a plan
	workDeep  = 1 << 13 // of two arrays or objects, whatever is in them

	longText = 1 << 10 // bytes of a text from which looking at it counts
)

var errFold = errors.New("the constant takes long to compute")

// work counts n units of what a function or a comparison does, each about an
// element or some bytes, and reports whether to go on.
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

// look fails when the run is over, or folding has taken long.
func (e *env) look() {
	e.check()
	if e.folds {
		if e.looks += e.worked / workCheck; e.looks > workFold {
			e.fail(errFold)
		}
	}
}

// workOn counts what a look at all arguments takes.
func (e *env) workOn(args []value.Value) bool {
	n := 1
	for i := range args {
		n += args[i].Len()
	}
	return e.work(n)
}

// workOf counts the comparison of two values.
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

// fitsValue reports whether the JSON of v may be built. A value can be far larger
// than the memory it takes, because its parts may be shared.
func (e *env) fitsValue(v value.Value) bool {
	if v.Kind() < value.KindString {
		return true
	}
	m := measure{room: builtMax}
	return e.fitsIn(&m, v)
}

// fitsIn reports whether v may become a part of a value that m has measured so
// far. Everything that is built of parts goes through here, so no value is larger
// than builtMax however much its parts share, and whoever walks one comes to an
// end.
func (e *env) fitsIn(m *measure, v value.Value) bool {
	before := m.nodes
	m.add(v)
	return e.work(m.nodes-before) && (m.room >= 0 || e.fits(builtMax-m.room))
}

// measure is the size of a value, with what is shared counted as often as it is
// reached.
type measure struct {
	room  int // bytes left for its JSON, about; less than zero when it is too large
	nodes int // values looked at
}

// add counts a value, and stops when there is no room left.
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

// valueSize and memberSize are the bytes of an element of an array and of a member
// of an object, without what they refer to.
const (
	valueSize  = int(unsafe.Sizeof(value.Value{}))
	memberSize = int(unsafe.Sizeof(value.Member{}))
)

// take computes a value that waits for others: an argument, an operand, a part of
// a literal. What was made for it counts in e.memory, which whoever takes values
// notes before and sets back when they are gone; what is a part of the document, a
// constant, or in a register does not. The value is undefined when the query
// needs more memory than it may use.
func (e *env) take(eval func(e *env) value.Value) value.Value {
	e.fresh = 0
	v := eval(e)
	if n := e.made(v); n > 0 && !e.keeps(int(n)) {
		return value.Undefined()
	}
	return v
}

// made returns the bytes that were made for a value computed a moment ago. e.fresh
// is 0 before, and what makes something sets it.
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

// release lets go of the values taken since e.memory was before, for v that was
// made of them and may share their memory.
func (e *env) release(v value.Value, before int64) value.Value {
	e.fresh, e.memory = e.memory-before, before
	if v.Kind() == value.KindString {
		e.fresh = max(e.fresh, int64(v.Len()))
	}
	return v
}

// raw returns the text of a place in the document, nil when it is not there.
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
		// The value shares the candidate's bytes, which outlive it: nothing
		// that is kept for longer than a candidate refers to values.
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

// plainScalar reads the values that most places hold, without the parser's room
// for containers: words, short integers, and strings without escapes. The text
// is that of one value in a document that was parsed when it was stored.
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

// plainString returns what is between the quotes of a string without escapes.
func plainString(text string) (string, bool) {
	last := len(text) - 1
	if last < 1 || text[0] != '"' || text[last] != '"' || strings.IndexByte(text, '\\') >= 0 {
		return "", false
	}
	return text[1:last], true
}

// shortInteger returns the number that at most 18 digits say, all of which fit.
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

// numbers returns both operands when they are numbers.
func numbers(a, b value.Value) (x, y float64, ok bool) {
	if a.Kind() != value.KindNumber || b.Kind() != value.KindNumber {
		return 0, 0, false
	}
	return a.Float(), b.Float(), true
}

// equal is the operator =. Two defined values of different types are unequal;
// see settled.md on that choice.
func equal(a, b value.Value) truth {
	if !a.IsDefined() || !b.IsDefined() {
		return unknown
	}
	return truthOf(equalValues(a, b))
}

// equalValues is equality as the language has it: of arrays and objects part
// by part, and of numbers as IEEE 754 defines it, where NaN equals nothing. The
// order of keys, which groups and sorts, has NaN equal to itself instead.
func equalValues(a, b value.Value) bool { return value.Equal(a, b) && !hasNaN(a) }

// hasNaN reports whether a value is NaN or has one at any depth.
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

// ordered is < and its like. They are undefined but between values of one kind
// that has an order, which arrays, objects and undefined have not. Nothing is
// above or below NaN, nor as great.
func (o outcomes) ordered(a, b value.Value) truth {
	switch {
	case a.Kind() != b.Kind() || !hasOrder(a.Kind()):
		return unknown
	case isNaN(a) || isNaN(b):
		return no
	}
	return o.hold(value.Compare(a, b))
}

// hasOrder reports whether < and its like are defined between values of a kind.
// They are for null too: null is at most null, and clients that resume a sort
// behind a row whose key is null ask for those from null on.
func hasOrder(k value.Kind) bool {
	return k == value.KindNull || k == value.KindBool || k == value.KindNumber || k == value.KindString
}

// outcomes are the results of a comparison, as cmp.Compare has them, for which
// an operator holds.
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

// placeComparison is the comparison of a place in the document with a constant.
// It compares the texts of plain strings and of short integers as they stand.
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

// compare is a test of two values that counts its work.
func (e *env) compare(test func(a, b value.Value) truth, a, b value.Value) truth {
	if !e.workOf(a, b) {
		return unknown
	}
	return test(a, b)
}

// view returns the bytes of a document as a string, which is good for as long as
// the document is.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// arithmetic returns the function of an operator on two numbers.
func arithmetic(op string) func(x, y float64) float64 {
	switch op {
	case "+":
		return func(x, y float64) float64 { return x + y }
	case "-":
		return func(x, y float64) float64 { return x - y }
	case "*":
		return func(x, y float64) float64 { return x * y }
	case "/":
		return func(x, y float64) float64 { return x / y }
	case "%":
		return math.Mod
	case "&":
		return func(x, y float64) float64 { return float64(int32Of(x) & int32Of(y)) }
	case "|":
		return func(x, y float64) float64 { return float64(int32Of(x) | int32Of(y)) }
	case "^":
		return func(x, y float64) float64 { return float64(int32Of(x) ^ int32Of(y)) }
	case "<<":
		return func(x, y float64) float64 { return float64(int32Of(x) << (int32Of(y) & 31)) }
	case ">>":
		return func(x, y float64) float64 { return float64(int32Of(x) >> (int32Of(y) & 31)) }
	case ">>>":
		return func(x, y float64) float64 { return float64(uint32(int32Of(x)) >> (int32Of(y) & 31)) }
	}
	return nil
}

// int32Of is the conversion of JavaScript: modulo 2^32, and 0 for what is not
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
		if i, ok := v.Int64(); ok && i != math.MinInt64 {
			return value.Int(-i)
		}
		return value.Number(-v.Float())
	case "~":
		return value.Int(int64(^int32Of(v.Float())))
	}
	return v
}

// member is access by a name. It looks at the members one by one.
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
