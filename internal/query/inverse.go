package query

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// inverse adds what an operator or a function says about the only operand that is not
// constant, if its result is in d: UPPER(c.pk) = "A" that c.pk is "a" or "A", FLOOR(c.x) = 1
// that c.x is from 1 to 2. No value is left out: for c.pk + 1 = 5, numbers close to 4 are
// not, because their sum is rounded to 5. The service's planner visits only the key 4.
func (r *reach) inverse(n node, d domain, in []box) []box {
	of, back := r.inverted(n)
	if back == nil || len(in) == 0 || d.kinds&mayMiss != 0 || d.intervals == nil {
		return in
	}
	before, ok := back(d)
	switch {
	case !ok:
		return in
	case before.empty():
		return nil
	}
	return r.want(of, before, in)
}

// inverted returns the operand of an operator or a function, and the values of it whose
// results are in a domain of numbers or strings. That is nil if it is not known.
func (r *reach) inverted(n node) (of node, back func(d domain) (domain, bool)) {
	switch x := n.x.(type) {
	case *sql.UnaryExpr:
		switch x.Op {
		case "-":
			return n.at(x.X), linear(func(v value.Value) value.Value { return unary("-", v) }, true, 0)
		case "+":
			return n.at(x.X), linear(func(v value.Value) value.Value { return v }, false, 0)
		}
	case *sql.BinaryExpr:
		return r.invertedBinary(n, x)
	case *sql.CallExpr:
		return r.invertedCall(n, x)
	}
	return node{}, nil
}

func (r *reach) invertedBinary(n node, x *sql.BinaryExpr) (of node, back func(d domain) (domain, bool)) {
	op, of, other := x.Op, n.at(x.X), n.at(x.Y)
	k, ok := r.constant(r.resolve(other))
	first := false // the constant is the first operand
	if !ok {
		of, first = n.at(x.Y), true
		if k, ok = r.constant(r.resolve(n.at(x.X))); !ok {
			return node{}, nil
		}
	}
	if k.Kind() != value.KindNumber || !k.Finite() {
		return node{}, nil
	}
	wide := math.Abs(k.Float())
	undo := map[string]string{"+": "-", "-": "+", "*": "/", "/": "*"}[op]
	f := func(v value.Value) value.Value { return arithmetic(undo)(v, k) }
	switch negative := k.Float() < 0; {
	case undo == "" || op == "/" && first:
		return node{}, nil
	case op == "-" && first:
		return of, linear(func(v value.Value) value.Value { return arithmetic("-")(k, v) }, true, wide)
	case op == "+" || op == "-":
		return of, linear(f, false, wide)
	case k.Float() == 0:
		return node{}, nil
	default:
		return of, linear(f, negative, 0x1p-1000)
	}
}

func (r *reach) invertedCall(n node, x *sql.CallExpr) (of node, back func(d domain) (domain, bool)) {
	f := functions[strings.ToUpper(x.Name)]
	if x.UDF || f == nil || len(x.Args) == 0 {
		return node{}, nil
	}
	of = n.at(x.Args[0])
	second, whole := int64(0), len(x.Args) == 1
	if len(x.Args) > 1 {
		if v, ok := r.constant(r.resolve(n.at(x.Args[len(x.Args)-1]))); ok {
			second, whole = v.Int64()
		}
	}
	switch f.name {
	case "ABS":
		return of, ofIntervals(beforeAbs)
	case "FLOOR":
		return of, ofIntervals(beforeFloor)
	case "CEILING":
		return of, ofIntervals(func(s interval) []interval { return mirror(beforeFloor(mirror(s)[0])...) })
	case "TRUNC":
		return of, ofIntervals(beforeTrunc)
	case "SIGN":
		return of, ofIntervals(beforeSign)
	case "ROUND":
		if whole && second >= -15 && second <= 15 {
			return of, ofIntervals(func(s interval) []interval { return beforeRound(s, second) })
		}
	case "UPPER":
		return of, ofCases(upper, unicode.ToLower)
	case "LOWER":
		return of, ofCases(lower, unicode.ToUpper)
	case "REVERSE":
		return of, beforeReverse
	case "LEFT":
		if whole {
			return of, func(d domain) (domain, bool) { return beforeLeft(d, second) }
		}
	case "SUBSTRING":
		if start, ok := r.constant(r.resolve(n.at(x.Args[1]))); ok && whole && value.Equal(start, value.Int(0)) {
			return of, func(d domain) (domain, bool) { return beforeLeft(d, second) }
		}
	case "LENGTH":
		return of, beforeLength
	case "INDEX_OF":
		if s, ok := r.constant(r.resolve(n.at(x.Args[1]))); ok && len(x.Args) == 2 && s.Kind() == value.KindString && s.Text() != "" {
			return of, func(d domain) (domain, bool) { return beginning(s.Text()), onlyZero(d) }
		}
	}
	return node{}, nil
}

// ofIntervals returns what must hold for an operand if each interval of results, which
// has no NaN, comes from the intervals that f returns. NaN comes from NaN.
func ofIntervals(f func(s interval) []interval) func(d domain) (domain, bool) {
	return func(d domain) (domain, bool) {
		out := domain{intervals: []interval{}}
		for _, s := range d.listed() {
			if kindsOf(s.low) != mayNumber {
				continue
			}
			if isNaN(s.low) {
				if !s.above {
					out.intervals = append(out.intervals, interval{low: s.low, high: s.low})
				}
				if s.low, s.above = value.Number(math.Inf(-1)), false; isNaN(s.high) {
					continue
				}
			}
			for _, t := range f(s) {
				if !t.empty() {
					out.intervals = append(out.intervals, t)
				}
			}
		}
		if len(out.intervals) > 0 {
			out.kinds, out.intervals = mayNumber, united(out.intervals)
		}
		return out, true
	}
}

// linear is ofIntervals for a function whose inverse is f; turned is set if it decreases.
// If least is not 0, results are rounded: the intervals are wider by the error of numbers
// of at least this size.
func linear(f func(v value.Value) value.Value, turned bool, least float64) func(d domain) (domain, bool) {
	return ofIntervals(func(s interval) []interval {
		t := interval{low: f(s.low), high: f(s.high), above: s.above, below: s.below}
		if turned {
			t = interval{low: t.high, high: t.low, above: t.below, below: t.above}
		}
		if t.low.Kind() != value.KindNumber || t.high.Kind() != value.KindNumber || isNaN(t.low) || isNaN(t.high) {
			return []interval{allNumbers}
		}
		if least > 0 {
			t.low, t.above = widened(t.low, -1, least), false
			t.high, t.below = widened(t.high, 1, least), false
		}
		return []interval{t}
	})
}

// widened returns a number that differs by more than the error of a sum or a product.
func widened(v value.Value, sign, least float64) value.Value {
	x := v.Float()
	if math.IsInf(x, 0) {
		return v
	}
	return number(x + sign*0x1p-48*max(math.Abs(x), least))
}

// mirror returns the intervals of the negative numbers.
func mirror(list ...interval) []interval {
	out := make([]interval, len(list))
	for i, s := range list {
		out[i] = interval{low: unary("-", s.high), high: unary("-", s.low), above: s.below, below: s.above}
	}
	return out
}

func number(x float64) value.Value { return value.Number(x) }

func beforeAbs(s interval) []interval {
	list := intersected([]interval{s}, []interval{{low: value.Int(0), high: number(math.Inf(1))}})
	return append(list, mirror(list...)...)
}

// exactMax is the greatest size of numbers whose halves are exact.
const exactMax = 1 << 51

// exact reports whether the bounds of an interval are infinite or at most exactMax.
func (s interval) exact() bool {
	small := func(v value.Value) bool { return math.IsInf(v.Float(), 0) || math.Abs(v.Float()) <= exactMax }
	return small(s.low) && small(s.high)
}

// wholes returns the least and the greatest integer in an interval.
func (s interval) wholes() (low, high float64) {
	low, high = math.Ceil(s.low.Float()), math.Floor(s.high.Float())
	if s.above && low == s.low.Float() {
		low++
	}
	if s.below && high == s.high.Float() {
		high--
	}
	return low, high
}

func beforeFloor(s interval) []interval {
	low, high := s.wholes()
	switch {
	case !s.exact():
		return []interval{allNumbers}
	case low > high:
		return nil
	}
	return []interval{{low: number(low), high: number(high + 1), below: !math.IsInf(high, 1)}}
}

func beforeTrunc(s interval) []interval {
	low, high := s.wholes()
	switch {
	case !s.exact():
		return []interval{allNumbers}
	case low > high:
		return nil
	}
	t := interval{low: number(low), high: number(high)}
	if low <= 0 && !math.IsInf(low, -1) {
		t.low, t.above = number(low-1), true
	}
	if high >= 0 && !math.IsInf(high, 1) {
		t.high, t.below = number(high+1), true
	}
	return []interval{t}
}

func beforeSign(s interval) []interval {
	var list []interval
	for _, one := range []struct {
		sign int64
		of   interval
	}{
		{-1, interval{low: number(math.Inf(-1)), high: value.Int(0), below: true}},
		{0, interval{low: value.Int(0), high: value.Int(0)}},
		{1, interval{low: value.Int(0), high: number(math.Inf(1)), above: true}},
	} {
		if v := value.Int(one.sign); len(intersected([]interval{s}, []interval{{low: v, high: v}})) > 0 {
			list = append(list, one.of)
		}
	}
	return list
}

// beforeRound returns the numbers that are rounded to a number of digits.
func beforeRound(s interval, digits int64) []interval {
	half := 0.5 * math.Pow(10, -float64(digits))
	if !s.exact() {
		return []interval{allNumbers}
	}
	if digits != 0 {
		half += 1e-9 * max(half, math.Abs(s.low.Float()), math.Abs(s.high.Float()))
		if math.IsInf(half, 0) {
			return []interval{allNumbers}
		}
	}
	t := interval{low: number(s.low.Float() - half), high: number(s.high.Float() + half), above: s.above, below: s.below}
	if v, ok := s.point(); ok && digits == 0 {
		switch x := v.Float(); {
		case x != math.Floor(x):
			return nil
		case x > 0:
			t.below = true
		case x < 0:
			t.above = true
		default:
			t.above, t.below = true, true
		}
	}
	return []interval{t}
}

// casesMost is the number of texts with other capital letters that are listed.
const casesMost = 32

// ofCases returns the texts that change turns into those of a domain; back returns the
// other form of a letter.
func ofCases(change func(s string) string, back func(r rune) rune) func(d domain) (domain, bool) {
	return func(d domain) (domain, bool) {
		d = d.meet(domain{kinds: mayString})
		if before, _, ok := cased(d, change, back); ok {
			return before, true
		}
		rest, exact, ok := cased(outside(d), change, back)
		return outside(rest), exact && ok
	}
}

// cased returns the texts that change turns into the texts of a list of single texts and
// of beginnings. If these are too many, it returns more, and exact is false.
func cased(d domain, change func(s string) string, back func(r rune) rune) (before domain, exact, ok bool) {
	before, exact = domain{intervals: []interval{}}, true
	for _, s := range d.intervals {
		v, single := s.point()
		if !single && !s.isBeginning() || v.Kind() != value.KindString {
			return before, false, false
		}
		texts, all := variants(v.Text(), change, back)
		if len(texts) == 0 && !single {
			return before, false, false
		}
		exact = exact && all
		for _, text := range texts {
			part := beginning(text)
			if single && all {
				part = just(value.String(text))
			}
			if before.kinds = mayString; part.intervals == nil {
				return domain{kinds: mayString}, false, true
			}
			before.intervals = append(before.intervals, part.intervals...)
		}
	}
	if before.kinds != 0 {
		before.intervals = united(before.intervals)
	}
	return before, exact, d.intervals != nil || d.kinds == 0
}

// variants returns the texts that change turns into s, or their first letters if these
// are too many.
func variants(s string, change func(s string) string, back func(r rune) rune) (texts []string, all bool) {
	if change(s) != s {
		return nil, true
	}
	texts = []string{""}
	for _, r := range s {
		other := back(r)
		if change(string(other)) != string(r) {
			other = r
		}
		if other != r && len(texts)*2 > casesMost {
			first, size := utf8.DecodeRuneInString(s)
			if back(first) == first {
				return []string{s[:size]}, false
			}
			return []string{s[:size], string(back(first))}, false
		}
		next := make([]string, 0, 2*len(texts))
		for _, t := range texts {
			if next = append(next, t+string(r)); other != r {
				next = append(next, t+string(other))
			}
		}
		texts = next
	}
	return texts, true
}

// isBeginning reports whether the interval is that of the strings with a beginning.
func (s interval) isBeginning() bool {
	if s.low.Kind() != value.KindString || s.low.Text() == "" {
		return false
	}
	of := beginning(s.low.Text()).intervals[0]
	return !s.above && s.below == of.below && value.Equal(s.high, of.high)
}

func beforeReverse(d domain) (domain, bool) {
	d = d.meet(domain{kinds: mayString})
	var list []value.Value
	for _, s := range d.intervals {
		v, ok := s.point()
		if !ok {
			return d, false
		}
		list = append(list, value.String(reverse(v.Text())))
	}
	return just(list...), d.intervals != nil || d.kinds == 0
}

// beforeLeft returns the texts whose first characters are in a domain.
func beforeLeft(d domain, size int64) (domain, bool) {
	d = d.meet(domain{kinds: mayString})
	if d.intervals == nil {
		return d, d.kinds == 0
	}
	if size <= 0 {
		return domain{}, !d.has(value.String(""))
	}
	out := domain{intervals: []interval{}}
	for _, s := range d.intervals {
		if v, ok := s.point(); ok && int64(utf8.RuneCountInString(v.Text())) > size {
			continue
		}
		// All texts with the same first size characters are on the same side of a bound.
		if head, long, exact := firstOf(s.low.Text(), size); long && (s.above || !exact) {
			after := beginning(head).intervals[0]
			if s.low, s.above = after.high, false; !s.low.IsDefined() {
				continue
			}
		}
		if s.high.IsDefined() {
			if head, long, exact := firstOf(s.high.Text(), size); long && (!s.below || !exact) {
				after := beginning(head).intervals[0]
				s.high, s.below = after.high, after.below
			}
		}
		if !s.empty() {
			out.intervals = append(out.intervals, s)
		}
	}
	if len(out.intervals) > 0 {
		out.kinds, out.intervals = mayString, united(out.intervals)
	}
	return out, true
}

// firstOf returns the first characters of s if it has at least as many; exact is set if
// these are all.
func firstOf(s string, size int64) (head string, long, exact bool) {
	n := int64(0)
	for i := range s {
		if n == size {
			return s[:i], true, false
		}
		n++
	}
	return s, n == size, true
}

// onlyZero reports whether 0 is the only number in a domain.
func onlyZero(d domain) bool {
	return d.kinds&mayNumber != 0 && d.meet(just(value.Int(0))).kinds != 0 && d.meet(except(value.Int(0))).kinds&mayNumber == 0
}

// beforeLength returns the texts whose length is in a domain that is only 0, or that ends
// there.
func beforeLength(d domain) (domain, bool) {
	empty := value.String("")
	if onlyZero(d) {
		return just(empty), true
	}
	ends := slices.ContainsFunc(d.intervals, func(s interval) bool { return s.above && value.Equal(s.low, value.Int(0)) })
	return except(empty).meet(domain{kinds: mayString}), ends && !d.has(value.Int(0))
}
