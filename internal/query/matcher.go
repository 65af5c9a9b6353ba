package query

import (
	"bytes"
	"unsafe"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// Matcher decides from the bytes of a document, without the index, whether the document
// satisfies an index expression. It answers as the index does: for a term that does not
// determine its value it returns true if the index has the document there.
//
// For a document in memory this is cheaper than reading the posting lists of an
// expression that many documents of a partition satisfy. One goroutine uses a Matcher.
type Matcher struct {
	places value.Locator
	access matchNode
	cells  []value.Located
	layout value.Layout
	term   []byte
}

// matchNode is a node of the expression.
type matchNode struct {
	expr  index.Expr
	args  []matchNode
	slot  int  // of a leaf
	stamp bool // the leaf is of _ts
}

// matcherMax is the maximum number of leaves of a Matcher. Above it the lists are cheaper.
const matcherMax = 64

// Matchable reports whether [NewMatcher] has a Matcher for an expression of the index,
// and the number of leaves of that expression. It allocates nothing, so callers can
// compare costs without creating a Matcher. There is no Matcher if a part of the
// expression needs more than the value at one path: elements of arrays, words and
// shapes.
func Matchable(ix *index.Index, access index.Expr) (leaves int, ok bool) {
	switch access.Op {
	case index.Leaf, index.Filter:
		return 1, ix.Placed(access)
	case index.And, index.Or:
		for _, arg := range access.Args {
			n, ok := Matchable(ix, arg)
			if leaves += n; !ok || leaves > matcherMax {
				return 0, false
			}
		}
	}
	return leaves, true
}

// NewMatcher returns a Matcher for an expression of the index, nil if there is none
// according to [Matchable].
func NewMatcher(ix *index.Index, access index.Expr) *Matcher {
	if _, ok := Matchable(ix, access); !ok {
		return nil
	}
	t := &Matcher{}
	t.access = t.compile(access)
	t.cells = make([]value.Located, t.places.Len())
	return t
}

// compile returns the node of an expression, and adds its places.
func (t *Matcher) compile(e index.Expr) matchNode {
	n := matchNode{expr: e}
	switch e.Op {
	case index.Leaf, index.Filter:
		path := make(value.Path, len(e.Span.Path))
		for i, name := range e.Span.Path {
			path[i] = value.Step{Name: name}
		}
		if n.stamp = len(path) == 1 && path[0].Name == "_ts"; !n.stamp {
			n.slot = t.places.Add(path)
		}
	case index.And, index.Or:
		for _, arg := range e.Args {
			n.args = append(n.args, t.compile(arg))
		}
	}
	return n
}

// Match reports whether a document satisfies the expression. body is its stored JSON,
// without system properties, and ts its _ts.
func (t *Matcher) Match(body []byte, ts int64) bool {
	clear(t.cells)
	if len(t.cells) > 0 && !t.places.Locate(body, t.cells, &t.layout) {
		return true // the reader of the document reports the error
	}
	return t.holds(&t.access, ts)
}

func (t *Matcher) holds(n *matchNode, ts int64) bool {
	switch n.expr.Op {
	case index.All:
		return true
	case index.And:
		for i := range n.args {
			if !t.holds(&n.args[i], ts) {
				return false
			}
		}
		return true
	case index.Or:
		for i := range n.args {
			if t.holds(&n.args[i], ts) {
				return true
			}
		}
		return false
	case index.Leaf, index.Filter:
		v := value.Int(ts)
		if !n.stamp {
			v = standing(&t.cells[n.slot])
		}
		var holds bool
		t.term, holds = n.expr.Holds(t.term[:0], v)
		return holds
	}
	return false
}

// standing returns the value that represents the cell in a term: an empty array or
// object for an array or object.
func standing(c *value.Located) value.Value {
	if c.Parsed || c.Text == nil {
		return c.Value
	}
	c.Parsed = true
	switch c.Text[0] {
	case '{':
		c.Value = value.Object(nil)
		return c.Value
	case '[':
		c.Value = value.Array(nil)
		return c.Value
	}
	text := unsafe.String(unsafe.SliceData(c.Text), len(c.Text))
	if c.Text[0] == '"' && bytes.IndexByte(c.Text, '\\') < 0 {
		// The text is valid as long as the document, and the value is not kept.
		c.Value = value.String(text[1 : len(text)-1])
		return c.Value
	}
	v, err := value.ParseString(text)
	if err != nil {
		v = value.Undefined()
	}
	c.Value = v
	return v
}
