package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

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
	now  time.Time
	root *branch
	body []byte

	located bool          // the texts of cells are those of body
	shape   shape         // of the documents located
	cells   []cell        // by slot
	stack   []value.Value // arguments of the calls under way
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

	memory    int64 // bytes that the query keeps; see keeps
	memoryMax int64 // 0: memoryDefault

	// err is the first trouble met: a document that is no JSON, or a limit.
	// Evaluation goes on to its end, and the run stops at it.
	err error
}

// newEnv returns what constants are evaluated in.
func newEnv() *env { return &env{root: &branch{slot: -1}, folds: true} }

// env returns what one run of the plan is evaluated in. Inputs that go on for
// long within one document look whether ctx ended.
func (p *Plan) env(ctx context.Context, now time.Time) env {
	left := env{cells: make([]cell, p.slots)}
	if p.locals > 0 {
		left.locals = make([]value.Value, p.locals)
	}
	return p.renew(ctx, &left, now)
}

// renew is env with the memory that another run of the plan has left.
func (p *Plan) renew(ctx context.Context, left *env, now time.Time) env {
	return env{now: now, root: &p.root, cells: left.cells, locals: left.locals, shape: left.shape, ctx: ctx}
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
	e.cells[slot] = cell{text: text, value: v, parsed: true}
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
		if e.ctx != nil && e.ctx.Err() != nil {
			e.fail(e.ctx.Err())
		}
	}
	return e.err == nil
}

// What functions and comparisons do inside of one value is counted as well, or a
// few of them could take minutes: ten thousand values sought in a million.
const (
	workCheck = 1 << 16 // units of work between two looks at the context
	workFold  = 16      // times that after which folding leaves a constant to the run
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
		e.worked = 0
		e.look()
	}
	return e.err == nil
}

// look fails when the run is over, or folding has taken long.
func (e *env) look() {
	switch {
	case e.ctx != nil && e.ctx.Err() != nil:
		e.fail(e.ctx.Err())
	case e.folds:
		if e.looks++; e.looks > workFold {
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
	return e.fits(builtMax - roomBehind(v, builtMax))
}

// roomBehind returns what is left of room bytes behind the JSON of v, less than
// zero when it is too large.
func roomBehind(v value.Value, room int) int {
	room--
	switch v.Kind() {
	case value.KindString:
		room -= v.Len()
	case value.KindArray:
		for _, item := range v.Items() {
			if room = roomBehind(item, room); room < 0 {
				break
			}
		}
	case value.KindObject:
		for _, m := range v.Members() {
			if room = roomBehind(m.Value, room-len(m.Name)); room < 0 {
				break
			}
		}
	}
	return room
}

// raw returns the text of a place in the document, nil when it is not there.
func (e *env) raw(slot int) []byte {
	if !e.located {
		e.locate()
	}
	return e.cells[slot].text
}

func (e *env) locate() {
	e.located = true
	clear(e.cells)
	if !e.root.locate(e.body, e.cells, &e.shape) {
		clear(e.cells)
		e.fail(fmt.Errorf("a stored document is not JSON"))
	}
}

// at returns the value of a place in the document.
func (e *env) at(slot int) value.Value {
	raw := e.raw(slot)
	known := &e.cells[slot]
	if known.parsed {
		return known.value
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
			if v, err = value.ParseString(text); err != nil {
				e.fail(fmt.Errorf("a stored document is not JSON: %w", err))
			}
		}
	}
	known.value, known.parsed = v, true
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
	case digit(c):
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
		if !digit(text[i]) {
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
	return truthOf(a.Kind() == b.Kind() && value.Equal(a, b))
}

// ordered returns how a compares with b, and false when < and its like are
// undefined for them: values have an order among their own kind, and arrays,
// objects and undefined have none.
func ordered(a, b value.Value) (int, bool) {
	if a.Kind() != b.Kind() || !hasOrder(a.Kind()) {
		return 0, false
	}
	return value.Compare(a, b), true
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
	holds := outcomesOf[op]
	return func(a, b value.Value) truth {
		c, ok := ordered(a, b)
		if !ok {
			return unknown
		}
		return holds.hold(c)
	}
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
		return func(x, y float64) float64 { return float64(int32(uint32(int32Of(x)) >> (int32Of(y) & 31))) }
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
