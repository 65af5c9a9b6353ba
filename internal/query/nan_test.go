package query

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
)

// rooted are documents with the computed property root, the square root of n,
// which is NaN below 0; both it and an array that contains it are indexed.
func rooted(t *testing.T) (docs list, ix *index.Index, computed []resource.ComputedProperty) {
	t.Helper()
	computed = []resource.ComputedProperty{
		{Name: "root", Query: "SELECT VALUE SQRT(c.n) FROM c"},
		{Name: "roots", Query: "SELECT VALUE [SQRT(c.n)] FROM c"},
	}
	ix, err := index.Compile(resource.IndexingPolicy{
		Mode: resource.IndexingConsistent, Automatic: true, Included: []string{"/*", "/root/?", "/roots/*"}, Computed: computed,
	})
	if err != nil {
		t.Fatal(err)
	}
	extend, err := CompileComputed(computed)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []string{"-4", "4", "100", "0", `"x"`, "-1"} {
		d := newDocument(t, nil, uint64(i+1), fmt.Sprintf(`{"id":"%d","n":%s}`, i+1, n))
		v, err := extend.Extend(d.body)
		if err != nil {
			t.Fatal(err)
		}
		d.terms = ix.Terms(nil, v)
		docs = append(docs, d)
	}
	return docs, ix, computed
}

// TestNotANumber shows that neither a comparison of order nor its NOT finds NaN, whether
// it is computed, indexed or a constant, and that the index, which orders NaN among the
// keys, gives the same result.
func TestNotANumber(t *testing.T) {
	t.Parallel()
	docs, ix, computed := rooted(t)
	answered := 0
	for filter, want := range map[string][]uint64{
		"SQRT(c.n) < 5":                                  {2, 4},
		"NOT (SQRT(c.n) < 5)":                            {3},
		"SQRT(c.n) = SQRT(c.n)":                          {2, 3, 4},
		"c.n / 0 <= 0.5":                                 {1, 6},
		"c.root < 5":                                     {2, 4},
		"c.root <= 10":                                   {2, 3, 4},
		"5 > c.root":                                     {2, 4},
		"10 >= c.root":                                   {2, 3, 4},
		"c.root > 1":                                     {2, 3},
		"c.root >= 0":                                    {2, 3, 4},
		"c.root < 5 AND c.root > -1":                     {2, 4},
		"c.root < 5 OR c.n = 100":                        {2, 3, 4},
		"c.root BETWEEN -1 AND 5":                        {2, 4},
		"c.root NOT BETWEEN -1 AND 5":                    {3},
		"NOT (c.root < 5)":                               {3},
		"NOT (c.root >= 5)":                              {2, 4},
		"NOT (5 <= c.root)":                              {2, 4},
		"NOT (c.root > 5 AND c.n = 100)":                 {1, 2, 4, 5, 6},
		"c.root = NaN":                                   nil,
		"c.root != NaN":                                  {1, 2, 3, 4, 6},
		"c.root != 2":                                    {1, 3, 4, 6},
		"NOT (c.root = 2)":                               {1, 3, 4, 6},
		"c.root IN (NaN, 2)":                             {2},
		"c.root IN (NaN)":                                nil,
		"c.root NOT IN (NaN, 2)":                         {1, 3, 4, 6},
		"c.root IN (NaN,2,3,4,5,6,7,8,9)":                {2},
		"c.root NOT IN (NaN,2,3,4,5,6,7,8,9)":            {1, 3, 4, 6},
		"IS_NUMBER(c.root)":                              {1, 2, 3, 4, 6},
		"c.n < NaN":                                      nil,
		"c.n >= NaN":                                     nil,
		"NaN <= c.n":                                     nil,
		"c.n = 0/0":                                      nil,
		"c.n != 0/0":                                     {1, 2, 3, 4, 5, 6},
		"NOT (c.n < NaN)":                                nil,
		"NOT (NaN >= c.n)":                               nil,
		"NOT (c.n < NaN OR c.n = 4)":                     nil,
		"c.n BETWEEN 0 AND NaN":                          nil,
		"c.n NOT BETWEEN NaN AND 4":                      {3},
		"c.n IN (NaN, 4)":                                {2},
		"c.roots = [NaN]":                                nil,
		"c.roots = [2]":                                  {2},
		"c.roots != [NaN]":                               {1, 2, 3, 4, 5, 6},
		"ARRAY_CONTAINS(c.roots, NaN)":                   nil,
		"ARRAY_CONTAINS(c.roots, 2)":                     {2},
		"ARRAY_CONTAINS_ANY(c.roots, NaN, 2)":            {2},
		"ARRAY_CONTAINS_ALL(c.roots, NaN, 2)":            nil,
		"ARRAY_CONTAINS([NaN, 4], c.n)":                  {2},
		"ARRAY_CONTAINS([NaN], c.root)":                  nil,
		"c.roots[0] < 5":                                 {2, 4},
		"NOT (c.roots[0] < 5)":                           {3},
		"EXISTS(SELECT r FROM r IN c.roots WHERE r < 5)": {2, 4},
		"EXISTS(SELECT r FROM r IN c.roots WHERE NOT (r < 5))": {3},
		"EXISTS(SELECT r FROM r IN c.roots WHERE r = NaN)":     nil,
	} {
		text := "SELECT VALUE c.id FROM c WHERE " + filter
		for name, ix := range map[string]*index.Index{"with": ix, "without": nil} {
			p, err := Compile(text, nil, ix, Options{Computed: computed})
			if err != nil {
				t.Fatalf("%s: %v", filter, err)
			}
			if got := numbersOf(t, p, docs); !slices.Equal(got, want) {
				t.Errorf("%s %s the index: %v, want %v", filter, name, got, want)
			}
			if !p.exact || ix == nil {
				continue
			}
			answered++
			if got := admittedBy(p, docs); !slices.Equal(got, want) {
				t.Errorf("%s: the index alone says %v, want %v", filter, got, want)
			}
		}
		p, err := Compile("SELECT VALUE COUNT(1) FROM c WHERE "+filter, nil, ix, Options{Computed: computed})
		if err != nil {
			t.Fatal(err)
		}
		count := func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, indexed{docs}, b) }
		page, _, err := p.Merge([]Stream{count}, Progress{}).Page(t.Context(), Budget{MaxBytes: 1 << 20})
		if err != nil || len(page.Rows) != 1 || string(page.Rows[0].JSON) != fmt.Sprint(len(want)) {
			t.Errorf("%s: counted %v, %v, want %d", filter, page.Rows, err, len(want))
		}
	}
	if answered < 10 {
		t.Errorf("too few cases: the index alone answers %d filters", answered)
	}
}
