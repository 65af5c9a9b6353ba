package query

import (
	"bytes"
	"unsafe"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// Teller tells of single documents whether they are among those of an index
// expression, by their bytes and without the index. It answers what the lists of the
// index say: for a term that does not show its value it says yes where the lists do.
//
// For a document that a source has at hand this is cheaper than to read the lists of
// an expression that many documents of a partition satisfy. A Teller belongs to one
// goroutine.
type Teller struct {
	places value.Locator
	access tells
	cells  []value.Located
	leaves int
	layout value.Layout
	term   []byte
}

// tells is a part of the expression.
type tells struct {
	expr  index.Expr
	args  []tells
	slot  int  // of a leaf
	stamp bool // the leaf is of _ts
}

// tellerMax is how many leaves a Teller has at most: beyond it the lists are cheaper.
const tellerMax = 64

// NewTeller returns a Teller of an expression that the index serves; nil when it has
// parts that the value of one place does not tell, as those about elements of arrays,
// words and shapes.
func NewTeller(ix *index.Index, access index.Expr) *Teller {
	t := &Teller{}
	var ok bool
	if t.access, ok = t.compile(ix, access); !ok {
		return nil
	}
	t.cells = make([]value.Located, t.places.Len())
	return t
}

func (t *Teller) compile(ix *index.Index, e index.Expr) (tells, bool) {
	n := tells{expr: e}
	switch e.Op {
	case index.Leaf, index.Filter:
		if t.leaves++; t.leaves > tellerMax || !ix.Placed(e) {
			return n, false
		}
		path := make(value.Path, len(e.Span.Path))
		for i, name := range e.Span.Path {
			path[i] = value.Step{Name: name}
		}
		if n.stamp = len(path) == 1 && path[0].Name == "_ts"; !n.stamp {
			n.slot = t.places.Add(path)
		}
		return n, true
	case index.And, index.Or:
		for _, arg := range e.Args {
			part, ok := t.compile(ix, arg)
			if !ok {
				return n, false
			}
			n.args = append(n.args, part)
		}
	}
	return n, true
}

// Leaves returns how many parts the expression has.
func (t *Teller) Leaves() int { return t.leaves }

// Tell reports whether a document is one of the expression's. body is its stored
// JSON, without system properties, and ts its _ts.
func (t *Teller) Tell(body []byte, ts int64) bool {
	clear(t.cells)
	if len(t.cells) > 0 && !t.places.Locate(body, t.cells, &t.layout) {
		return true // Who reads the document will say what is wrong with it.
	}
	return t.holds(&t.access, ts)
}

func (t *Teller) holds(n *tells, ts int64) bool {
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

// standing returns what stands for the value of the cell in a term: of an array or an
// object an empty one.
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
		// The text lives as long as the document, and nobody keeps the value.
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
