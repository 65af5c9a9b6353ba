package index

import (
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// TestFixAgreesWithValues fixes the first key of an order to a value and narrows the
// second. The order must contain exactly the documents with that value that satisfy the
// predicate, for all directions of the keys in the index and the query.
func TestFixAgreesWithValues(t *testing.T) {
	t.Parallel()
	hits := 0
	for seed := range uint64(4000) {
		r := newRandom(seed)
		policy := resource.DefaultIndexing()
		down, up := r.coin(), r.coin()
		policy.Composite = [][]resource.CompositePath{{{Path: "/a", Descending: down}, {Path: "/b", Descending: up}}}
		x, err := Compile(policy)
		if err != nil {
			t.Fatal(err)
		}
		turned := r.coin()
		o, ok := x.Order([]SortKey{{Path: Path{"a"}, Desc: down != turned}, {Path: Path{"b"}, Desc: up != turned}}, nil)
		if !ok || !o.Walks {
			t.Fatalf("seed %d: no order", seed)
		}
		v, bound := r.value(0), r.value(0)
		doc := value.Object([]value.Member{{Name: "a", Value: v}, {Name: "b", Value: r.value(0)}})
		if r.coin() {
			doc = doc.With("a", r.value(0))
		}
		op := []Op{Eq, Lt, Le, Gt, Ge}[r.IntN(5)]
		s, ok := x.Span(Path{"b"}, op, bound)
		rest, tells := o.Fix(v)
		if !ok || !tells {
			continue // undefined, an array, an object or a long string
		}
		same := value.Equal(doc.Get("a"), v) || !v.IsDefined() && !doc.Get("a").IsDefined()
		want := same && holds(doc.Get("b"), op, bound)
		got := inSpan(x.Terms(nil, doc), rest.Narrow(s).Span)
		if want && !got || got && !want && s.Exact {
			t.Fatalf("seed %d: %s with a = %s and b %s %s: %t, found %t", seed, doc, v, op, bound, want, got)
		}
		if in := inSpan(x.Terms(nil, doc), rest.Span); in != same {
			t.Fatalf("seed %d: %s with a = %s: %t, found %t", seed, doc, v, same, in)
		}
		if want {
			hits++
		}
		if _, more := rest.Fix(v); more {
			t.Fatalf("seed %d: the only key of an order was fixed", seed)
		}
	}
	if hits < 40 {
		t.Errorf("only %d documents found: the test does not cover enough", hits)
	}
}
