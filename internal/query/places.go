package query

import (
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// place returns the name of the place of a resolved node: a property of a document or
// of an element, or any other expression that has one value in a document. It returns
// false if n is none. Names of properties of the document begin with a slash.
func (r *reach) place(n node) (name string, ok bool) {
	switch x := n.x.(type) {
	case nil:
		return "", n.row == nil
	case *sql.Ident:
		return r.name(n.s, x.Name) + "#" + x.Name, true
	case *sql.MemberExpr:
		return r.step(n.at(x.X), x.Name)
	case *sql.IndexExpr:
		if v, ok := r.constant(n.at(x.Index)); ok {
			if v.Kind() == value.KindString {
				return r.step(n.at(x.X), v.Text())
			}
			of, ok := r.place(r.resolve(n.at(x.X)))
			return of + "[" + v.JSON() + "]", ok
		}
	}
	if !r.named(n) {
		return "", false
	}
	return r.name(n.s, "") + ":" + sql.Canonical(n.x), true
}

func (r *reach) step(of node, name string) (string, bool) {
	of = r.resolve(of)
	base, ok := r.place(of)
	if ok && of.x == nil && of.s.owner.computed.has(name) {
		base = "computed"
	}
	return base + placeOf(name), ok
}

// placeOf returns the name of the place of a property of the document.
func placeOf(names ...string) string {
	text := ""
	for _, name := range names {
		text += "/" + strconv.Itoa(len(name)) + ":" + name
	}
	return text
}

// name returns a text for the scope that defines a name, or for s if the name is "".
func (r *reach) name(s *scope, name string) string {
	if name != "" {
		_, s = s.lookup(name)
	}
	text, ok := r.names[s]
	if !ok {
		if r.names == nil {
			r.names = map[*scope]string{}
		}
		text = strconv.Itoa(len(r.names))
		r.names[s] = text
	}
	return text
}

// namedMax is the length of the texts of expressions that count as places.
const namedMax = 200

// named reports whether an expression has one value in a document, and is short.
func (r *reach) named(n node) bool {
	if at := n.x.Span(); at.End-at.Start > namedMax {
		return false
	}
	return isSteady(n.x)
}

// isSteady reports whether x always has the same value for the same document.
func isSteady(x sql.Expr) bool {
	switch x := x.(type) {
	case *sql.Subquery:
		return false
	case *sql.CallExpr:
		if f := functions[strings.ToUpper(x.Name)]; x.UDF || f == nil || f.volatile {
			return false
		}
	}
	for part := range sql.Children(x) {
		if !isSteady(part) {
			return false
		}
	}
	return true
}
