package query

import (
	"math"
	"math/bits"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// AggregateKind is the function of an [Aggregate].
type AggregateKind uint8

// The kinds of aggregates.
const (
	Count    AggregateKind = iota // number of defined values
	Sum                           // of numbers
	Average                       // of numbers
	Min                           // the least
	Max                           // the greatest
	CountIf                       // number of values that are true
	MakeList                      // all values, as an array
	MakeSet                       // the distinct values, as an array
)

// aggregateKinds maps the upper-case name of a function to its kind.
var aggregateKinds = map[string]AggregateKind{
	"COUNT": Count, "SUM": Sum, "AVG": Average, "MIN": Min, "MAX": Max,
	"COUNTIF": CountIf, "MAKELIST": MakeList, "MAKESET": MakeSet,
}

// aggregateNames are the names of the kinds in query plans.
var aggregateNames = [...]string{"Count", "Sum", "Average", "Min", "Max", "CountIf", "MakeList", "MakeSet"}

// String returns the name of the kind in query plans.
func (k AggregateKind) String() string { return aggregateNames[k] }

// aggregateKind returns the kind of an aggregate call, or false if x is not one.
func aggregateKind(x sql.Expr) (AggregateKind, bool) {
	call, ok := x.(*sql.CallExpr)
	if !ok || call.UDF {
		return 0, false
	}
	kind, ok := aggregateKinds[strings.ToUpper(call.Name)]
	return kind, ok
}

// aggregatesIn iterates over the aggregates of x, except those inside another
// aggregate or a subquery.
func aggregatesIn(x sql.Expr) func(yield func(*sql.CallExpr) bool) {
	return func(yield func(*sql.CallExpr) bool) { walkAggregates(x, yield) }
}

func walkAggregates(x sql.Expr, yield func(*sql.CallExpr) bool) bool {
	if _, ok := aggregateKind(x); ok {
		return yield(x.(*sql.CallExpr))
	}
	for part := range sql.Children(x) {
		if !walkAggregates(part, yield) {
			return false
		}
	}
	return true
}

// hasAggregate reports whether x contains an aggregate outside subqueries.
func hasAggregate(x sql.Expr) bool {
	for range aggregatesIn(x) {
		return true
	}
	return false
}

// Aggregate is the state of an aggregate function over the values so far. Two states of
// one kind merge, in either order, into the state over the values of both: sums stay
// exact until they are read. It is plain data and refers to no document. The zero value
// is a COUNT of no values.
//
// Undefined values are ignored. SUM and AVG are undefined if a value is not a number,
// MIN and MAX if one is an array or an object.
type Aggregate struct {
	Kind  AggregateKind
	Count int64       // number of values: for COUNTIF the true ones, otherwise the defined ones
	Void  bool        // a value made the result undefined
	Sum   Total       // of Sum and Average
	Best  value.Value // of Min and Max; undefined before the first value
	List  []value.Value

	seen map[string]struct{} // the keys of List, of MakeSet
	kept int64               // bytes counted in env.memory
}

// add adds a value. e bounds the memory of lists; see [env.keeps].
func (a *Aggregate) add(e *env, v value.Value) { a.addTimes(e, v, 1) }

// addTimes adds a value several times.
func (a *Aggregate) addTimes(e *env, v value.Value, times int64) {
	if !v.IsDefined() || a.Kind == CountIf && truthIn(v) != yes {
		return
	}
	a.Count += times
	switch a.Kind {
	case Sum, Average:
		if v.Kind() != value.KindNumber {
			a.Void = true
			return
		}
		a.Sum.add(v, times)
	case Min, Max:
		a.compete(e, v)
	case MakeList, MakeSet:
		for ; times > 0 && e.err == nil; times-- {
			a.collect(e, v)
		}
	}
}

func (a *Aggregate) compete(e *env, v value.Value) {
	if v.Kind() > value.KindString {
		a.Void = true
	}
	if a.Void {
		a.Best = value.Undefined()
		return
	}
	if a.Best.IsDefined() {
		c := value.Compare(v, a.Best)
		if a.Kind == Max {
			c = -c
		}
		if c >= 0 {
			return
		}
	}
	a.keeps(e, sizeOf(v)-sizeOf(a.Best))
	a.Best = retained(v)
}

func (a *Aggregate) collect(e *env, v value.Value) {
	if a.Kind == MakeSet && !a.isNew(e, v) || !a.keeps(e, sizeOf(v)) {
		return
	}
	a.List = append(a.List, retained(v))
}

// isNew adds a value to a set and reports whether the set had no equal value.
func (a *Aggregate) isNew(e *env, v value.Value) bool {
	if a.seen == nil {
		a.seen = make(map[string]struct{}, len(a.List)+1)
		for _, item := range a.List {
			a.seen[string(value.AppendKey(nil, item))] = struct{}{}
		}
	}
	e.scratch = value.AppendKey(e.scratch[:0], v)
	if _, ok := a.seen[string(e.scratch)]; ok {
		return false
	}
	a.seen[string(e.scratch)] = struct{}{}
	return a.keeps(e, len(e.scratch)+entrySize)
}

// keeps is [env.keeps] for the memory of the aggregate.
func (a *Aggregate) keeps(e *env, n int) bool {
	a.kept += int64(n)
	return e.keeps(n)
}

// merge adds the values of o after those of a. Both are of one kind. Lists may share
// values afterwards; values are immutable.
func (a *Aggregate) merge(e *env, o *Aggregate) {
	if a.Kind == MakeList || a.Kind == MakeSet {
		for _, v := range o.List {
			a.collect(e, v)
		}
		a.Count += o.Count
		return
	}
	a.Void = a.Void || o.Void
	a.Count += o.Count
	a.Sum.merge(&o.Sum)
	if o.Best.IsDefined() || a.Void {
		a.compete(e, o.Best)
	}
}

// result returns the aggregate of all values so far.
func (a *Aggregate) result() value.Value {
	switch a.Kind {
	case Count, CountIf:
		return value.Int(a.Count)
	case MakeList, MakeSet:
		return value.Array(a.List)
	}
	if a.Void {
		return value.Undefined()
	}
	switch a.Kind {
	case Sum:
		return a.Sum.value()
	case Average:
		if a.Count == 0 {
			return value.Undefined()
		}
		return value.Number(a.Sum.value().Float() / float64(a.Count))
	}
	return a.Best
}

// Total is an exact sum of numbers. It does not depend on their order, so partitions
// and pages do not change a result. It is rounded once, when it is read. A sum that
// exceeds the range of doubles at any point is infinite.
type Total struct {
	High    int64     // of the integers, with Low: 128 bits in two's complement
	Low     uint64    //
	Parts   []float64 // of the others, in ascending order: doubles that do not overlap
	Special float64   // the infinities and NaN; 0 if there are none
}

// add adds a number several times.
func (t *Total) add(v value.Value, times int64) {
	if i, ok := v.Int64(); ok {
		high, low := bits.Mul64(uint64(i), uint64(times))
		t.addInteger(int64(high)+i>>63*times, low) // Mul64 treats a negative i as i + 2^64
		return
	}
	x := v.Float()
	if times == 1 {
		t.addDouble(x)
		return
	}
	n := float64(times)
	if product := x * n; n < 1<<53 && product-product == 0 && math.Abs(product) > 1e-200 {
		t.addDouble(product)
		t.addDouble(math.FMA(x, n, -product)) // the rounding error of the product
		return
	}
	for ; times > 0; times-- {
		t.addDouble(x)
	}
}

func (t *Total) addInteger(high int64, low uint64) {
	var carry uint64
	t.Low, carry = bits.Add64(t.Low, low, 0)
	t.High += high + int64(carry)
}

// addDouble is the step of Shewchuk's exact addition: it replaces x and each part by
// their rounded sum, which it adds to the next part, and the error, which it stores.
func (t *Total) addDouble(x float64) {
	kept := t.Parts[:0]
	for _, y := range t.Parts {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		sum := x + y
		if low := y - (sum - x); low != 0 && !math.IsInf(sum, 0) {
			kept = append(kept, low)
		}
		x = sum
	}
	if x-x != 0 {
		t.Special += x
		t.Parts = kept[:0]
		return
	}
	t.Parts = append(kept, x)
}

func (t *Total) merge(o *Total) {
	t.addInteger(o.High, o.Low)
	for _, x := range o.Parts {
		t.addDouble(x)
	}
	t.Special += o.Special
}

// value returns the number nearest to the sum, which is the sum itself if it is an
// integer of 64 bits.
func (t *Total) value() value.Value {
	if t.Special != 0 {
		return value.Number(t.Special)
	}
	if len(t.Parts) == 0 && t.High == int64(t.Low)>>63 {
		return value.Int(int64(t.Low))
	}
	all := Total{Parts: append(make([]float64, 0, len(t.Parts)+4), t.Parts...)}
	for _, piece := range []struct {
		bits  float64
		shift int
	}{{float64(uint32(t.Low)), 0}, {float64(t.Low >> 32), 32}, {float64(uint32(t.High)), 64}, {float64(t.High >> 32), 96}} {
		if piece.bits != 0 {
			all.addDouble(math.Ldexp(piece.bits, piece.shift))
		}
	}
	if all.Special != 0 {
		return value.Number(all.Special)
	}
	return value.Number(rounded(all.Parts))
}

// rounded returns the double nearest to the sum of parts that do not overlap. A tie
// goes to the even one.
func rounded(parts []float64) float64 {
	i := len(parts) - 1
	if i < 0 {
		return 0
	}
	sum, low := parts[i], 0.0
	for i--; i >= 0 && low == 0; i-- {
		x := sum
		sum = x + parts[i]
		low = parts[i] - (sum - x)
	}
	// low is at most half a unit of sum's last digit. If it is exactly half of it, the
	// next part decides.
	if low != 0 && i >= 0 && (low < 0) == (parts[i] < 0) {
		if twice := 2 * low; twice == (sum+twice)-sum {
			sum += twice
		}
	}
	return sum
}

// memoryDefault is the maximum memory in bytes of one query for groups, sets and
// lists.
const memoryDefault = 64 << 20

// entrySize is the approximate size of an entry of a map without its key.
const entrySize = 48

// keeps counts n bytes that the query keeps. It returns false and sets the error if
// that exceeds the limit. To keep memory temporarily, save e.memory before and restore
// it afterwards.
func (e *env) keeps(n int) bool {
	e.memory += int64(n)
	most := e.memoryMax
	if most <= 0 {
		most = memoryDefault
	}
	if e.memory <= most {
		return e.covers(e.memory)
	}
	e.fail(TooMuchMemory(most))
	return false
}

// covers reports whether the query may hold that many bytes in addition to other
// queries. If not, it sets the error.
func (e *env) covers(bytes int64) bool {
	if err := e.allowance.cover(bytes); err != nil {
		e.fail(err)
		return false
	}
	return true
}

// GrowFree is the number of bytes that a page may hold without calling [Budget.Grow].
const GrowFree = 64 << 10

// allowance is the memory granted to a page. The zero value has no limit.
type allowance struct {
	grow    Granter
	granted int64
}

func allowanceOf(b *Budget) allowance { return allowance{grow: b.Grow, granted: GrowFree} }

// cover extends the allowance to that many bytes in total, or returns an error.
func (a *allowance) cover(bytes int64) error {
	if bytes <= a.granted || a.grow == nil {
		return nil
	}
	granted, err := a.grow.Grow(bytes - a.granted)
	a.granted += granted
	return err
}

// TooMuchMemory returns the error for a query that needs more than most bytes for
// groups, distinct rows, or a ranking.
func TooMuchMemory(most int64) error {
	return status.BadRequest("The query needs more memory than the %d bytes that queries may use. Filter for fewer documents, or ask for fewer rows with TOP or OFFSET LIMIT, or for fewer groups and distinct values.", most)
}

// sizeOf returns the approximate memory of a value.
func sizeOf(v value.Value) int {
	const word = 24
	n := word
	switch v.Kind() {
	case value.KindString:
		n += v.Len()
	case value.KindArray:
		for _, item := range v.Items() {
			n += sizeOf(item)
		}
	case value.KindObject:
		for _, m := range v.Members() {
			n += 16 + len(m.Name) + sizeOf(m.Value)
		}
	}
	return n
}

// retained returns a copy of v that does not share memory with its document, so that
// it can be kept.
func retained(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindString:
		return value.String(strings.Clone(v.Text()))
	case value.KindArray:
		items := make([]value.Value, v.Len())
		for i, item := range v.Items() {
			items[i] = retained(item)
		}
		return value.Array(items)
	case value.KindObject:
		members := make([]value.Member, v.Len())
		for i, m := range v.Members() {
			members[i] = value.Member{Name: strings.Clone(m.Name), Value: retained(m.Value)}
		}
		return value.Object(members)
	}
	return v
}
