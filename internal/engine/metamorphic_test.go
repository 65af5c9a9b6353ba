package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// One sequence of operations gives the same answers on 1, 8 and 64 partitions
// as on a map, with restarts in between. A failure prints the seed.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	seeds := uint64(3)
	if engine.RaceDetector {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			var worlds []*shape
			for _, n := range []int{1, 8, 64} {
				w := newWorld(t, nil)
				worlds = append(worlds, &shape{world: w, link: w.container(t, n, "/t", "/u")})
			}
			model := map[string]string{} // key and id to document
			random := rand.New(rand.NewPCG(seed, 42))
			for step := range 250 {
				op := draw(random)
				want := op.apply(model)
				for _, w := range worlds {
					if got := w.apply(t, op); got != want {
						t.Fatalf("step %d on %s: %+v: got %d, want %d", step, w.link, op, got, want)
					}
				}
				if step%50 == 49 {
					worlds[step/50%3].reopen(t)
					for _, w := range worlds {
						w.compare(t, model, random)
					}
				}
			}
			for _, w := range worlds {
				w.check(t)
			}
		})
	}
}

type operation struct {
	name     string // create, upsert, replace, delete, read
	tenant   int
	user     int
	id       int
	n        int
	document string
}

func draw(random *rand.Rand) operation {
	op := operation{
		name:   []string{"create", "upsert", "replace", "delete", "read"}[random.IntN(5)],
		tenant: random.IntN(4), user: random.IntN(3), id: random.IntN(5), n: random.IntN(100),
	}
	op.document = fmt.Sprintf(`{"id":"i%d","t":"t%d","u":%d,"n":%d}`, op.id, op.tenant, op.user, op.n)
	return op
}

func (o operation) key() string  { return fmt.Sprintf(`["t%d",%d]`, o.tenant, o.user) }
func (o operation) slot() string { return fmt.Sprintf("%s i%d", o.key(), o.id) }

// apply applies the operation to the model and returns the expected status.
func (o operation) apply(model map[string]string) status.Code {
	_, exists := model[o.slot()]
	switch {
	case o.name == "create" && exists:
		return status.CodeConflict
	case o.name != "create" && o.name != "upsert" && !exists:
		return status.CodeNotFound
	case o.name == "delete":
		delete(model, o.slot())
	case o.name != "read":
		model[o.slot()] = o.document
	}
	return 0
}

// shape is a world with a container.
type shape struct {
	*world
	link engine.Link
}

func (s *shape) apply(t *testing.T, o operation) status.Code {
	t.Helper()
	req := engine.DocumentRequest{Link: s.link, Key: key(t, o.key()), Document: parse(t, o.document)}
	req.Link.Document = fmt.Sprintf("i%d", o.id)
	ctx := context.Background()
	var err error
	switch o.name {
	case "create":
		_, err = s.Create(ctx, caller, req)
	case "upsert":
		_, err = s.Upsert(ctx, caller, req)
	case "replace":
		_, err = s.Replace(ctx, caller, req)
	case "delete":
		_, err = s.Delete(ctx, caller, req)
	case "read":
		_, err = s.Read(ctx, caller, req)
	}
	return status.CodeOf(err)
}

// compare runs queries with random scopes and compares the rows with the model.
func (s *shape) compare(t *testing.T, model map[string]string, random *rand.Rand) {
	t.Helper()
	tenant, user, n := random.IntN(4), random.IntN(3), random.IntN(100)
	for _, q := range []struct {
		where, key string
		holds      func(t, u, n int) bool
	}{
		{"true", "", func(_, _, _ int) bool { return true }},
		{fmt.Sprintf(`c.t = "t%d"`, tenant), "", func(t, _, _ int) bool { return t == tenant }},
		{fmt.Sprintf(`c.t = "t%d" AND c.u = %d`, tenant, user), "", func(t, u, _ int) bool { return t == tenant && u == user }},
		{fmt.Sprintf(`c.u = %d AND c.n >= %d`, user, n), "", func(_, u, m int) bool { return u == user && m >= n }},
		{fmt.Sprintf(`c.n < %d`, n), fmt.Sprintf(`["t%d"]`, tenant), func(t, _, m int) bool { return t == tenant && m < n }},
		{fmt.Sprintf(`c.t IN ("t0", "t%d") OR c.n = %d`, tenant, n), "", func(t, _, m int) bool { return t == 0 || t == tenant || m == n }},
	} {
		var want []string
		for _, document := range slices.Sorted(maps.Values(model)) {
			v := parse(t, document)
			tn := int(v.Get("t").Text()[1] - '0')
			if q.holds(tn, int(v.Get("u").Float()), int(v.Get("n").Float())) {
				want = append(want, document)
			}
		}
		req := engine.QueryRequest{Link: s.link, Text: "SELECT c.id, c.t, c.u, c.n FROM c WHERE " + q.where, Key: key(t, q.key), Cross: true, MaxItems: 1 + random.IntN(9)}
		got, _ := s.all(t, req)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %s with key %q:\ngot  %v\nwant %v", s.link, q.where, q.key, got, want)
		}
	}
}
