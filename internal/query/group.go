package query

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"unsafe"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// grouping is how a plan makes one row from the rows of several documents: aggregates,
// GROUP BY, and DISTINCT, which is GROUP BY of the select list.
//
// A partition returns groups in the order of their keys, so paging, resuming after a
// split and merging partitions work as for ORDER BY. The keys that an ORDER BY names
// come first. Without ORDER BY, the merge puts groups in the order in which a scan meets
// them; see [Plan.FirstSeen].
type grouping struct {
	keys  []groupKey
	calls []groupCall
	emit  emitter // of a finished group; it reads only registers

	lookups []lookup // how the index answers; nil if it cannot

	desc    bool // the direction of the first key, which is also that of positions
	sorted  bool // an ORDER BY depends on the order of keys
	drop    bool // DISTINCT VALUE: a group with an undefined key is not a row
	lone    bool // aggregates without GROUP BY: one group, even without rows
	listing bool // a list is made, so the order of documents matters
}

// groupKey is one value that the rows of a group share.
type groupKey struct {
	expr   sql.Expr // nil for the whole document
	eval   func(e *env) value.Value
	local  int  // the register for the select list
	invert bool // its direction differs from that of the first
}

// groupCall is one aggregate of the select list.
type groupCall struct {
	kind  AggregateKind
	expr  *sql.CallExpr
	arg   func(e *env) value.Value
	local int
}

// Group is one partition's part of a group: plain data, so that it can come from
// another machine. It refers to no document.
type Group struct {
	Keys       []value.Value
	Aggregates []Aggregate
}

// compileGroups compiles the grouping of a query. DISTINCT in an order other than that
// of the select list has none: the merge removes duplicates.
func (p *Plan) compileGroups(c *compiler, ix *index.Index) error {
	q := p.query
	combined := isGrouped(q)
	if !combined && !q.Distinct {
		return nil
	}
	if p.once = !combined && p.order != nil && c.selectsRID(q); p.once {
		return nil
	}
	exprs := q.GroupBy
	if !combined {
		exprs = slices.Collect(q.Columns())
	}
	orderBy := slices.Clone(q.OrderBy)
	if combined && len(exprs) == 0 {
		orderBy = nil // a single row has no order
	}
	for i := range orderBy {
		orderBy[i] = computedKey(orderBy[i])
	}
	sorts, all := keyOrder(orderBy, exprs, combined)
	if !all {
		p.replay = true
		return nil
	}
	p.replay = combined && q.Distinct && !selectsKeys(q)
	g := &grouping{drop: !combined && q.Value != nil, sorted: len(orderBy) > 0}
	g.lone = combined && len(exprs) == 0
	g.desc = g.sorted && sorts[0].Desc
	p.group = g
	if q.Star {
		whole := c.star()
		g.keys = []groupKey{{eval: whole.value(), local: c.local()}}
		g.emit = local(g.keys[0].local).emitter()
		return nil
	}
	for _, sort := range sorts {
		key := groupKey{expr: sort.Expr, eval: c.expr(sort.Expr).value(), local: c.local(), invert: sort.Desc != g.desc}
		g.keys = append(g.keys, key)
	}
	if combined {
		g.addCalls(c, q)
	}
	p.compileLookup(c, ix)
	for _, call := range g.calls {
		c.bind(call.expr, call.local)
	}
	for _, key := range g.keys {
		c.bind(key.expr, key.local)
	}
	g.emit = c.projection(q)
	return nil
}

// selectsRID reports whether every row has the _rid of its document, as in the queries
// that clients send to merge rows in order.
func (c *compiler) selectsRID(q *sql.Select) bool {
	return slices.ContainsFunc(q.Items, func(item sql.SelectItem) bool {
		path, stored := c.path(item.Expr)
		return stored && len(path) == 1 && path[0].Name == "_rid"
	})
}

// addCalls adds the aggregates of the select list.
func (g *grouping) addCalls(c *compiler, q *sql.Select) {
	for _, x := range aggregateCalls(q) {
		kind, _ := aggregateKind(x)
		g.calls = append(g.calls, groupCall{kind: kind, expr: x, arg: c.expr(x.Args[0]).value(), local: c.local()})
		g.listing = g.listing || kind == MakeList || kind == MakeSet
	}
}

// keyOrder returns the distinct keys of groups, those of ORDER BY first and in its
// order. The ORDER BY of combined rows may name a part of a key; as a key of its own it
// adds no groups. all is false if ORDER BY names anything else.
func keyOrder(orderBy []sql.OrderByItem, exprs []sql.Expr, combined bool) (sorts []sql.OrderByItem, all bool) {
	rest := map[string]bool{}
	for _, x := range exprs {
		rest[sql.Canonical(x)] = true
	}
	take := func(sort sql.OrderByItem) {
		if text := sql.Canonical(sort.Expr); rest[text] {
			rest[text] = false
			sorts = append(sorts, sort)
		}
	}
	for _, sort := range orderBy {
		text := sql.Canonical(sort.Expr)
		if _, known := rest[text]; !known {
			if !combined {
				return nil, false
			}
			rest[text] = true
		}
		take(sort)
	}
	desc := len(sorts) > 0 && sorts[0].Desc
	for _, x := range exprs {
		take(sql.OrderByItem{Expr: x, Desc: desc})
	}
	return sorts, true
}

// appendKey appends the key of the group of the current row.
func (g *grouping) appendKey(dst []byte, e *env) []byte {
	start := len(dst)
	for _, k := range g.keys {
		at, v := len(dst), k.eval(e)
		if g.sorted {
			dst = value.AppendOrderKey(dst, v)
		}
		if !g.sorted || v.Kind() >= value.KindArray { // equal hashes do not imply equal values
			dst = value.AppendKey(dst, v)
		}
		if k.invert {
			invert(dst[at:])
		}
	}
	return g.short(dst, start)
}

// A key that is longer than a position, and whose order does not matter, ends in a
// hash.
const (
	groupKeyMax = OrderKeyMax - 1
	groupHash   = 16
	groupPrefix = groupKeyMax - groupHash
)

// seekable returns a prefix of a key such that no greater key has its values before
// it. A hash may sort a key before or after any key with the same prefix.
func (g *grouping) seekable(key []byte) []byte {
	if g.sorted {
		return key
	}
	return key[:min(len(key), groupPrefix)]
}

// short truncates the key that begins at start, unless its order matters.
func (g *grouping) short(key []byte, start int) []byte {
	if g.sorted || len(key)-start <= groupKeyMax {
		return key
	}
	sum := sha256.Sum256(key[start:])
	return append(key[:start+groupPrefix], sum[:groupHash]...)
}

// finisher writes the rows of complete groups.
type finisher struct {
	plan *Plan
	env  *env
}

// row returns the row of a group, or false if it is undefined.
func (f *finisher) row(group *Group) (json []byte, ok bool, err error) {
	g := f.plan.group
	for i, k := range g.keys {
		f.env.locals[k.local] = group.Keys[i]
	}
	for i, call := range g.calls {
		f.env.locals[call.local] = group.Aggregates[i].result()
	}
	json, ok = g.emit(f.env, nil)
	return json, ok, f.env.err
}

// newGroup returns the group of the current row. It does not add the row.
func (g *grouping) newGroup(e *env) *Group {
	group := &Group{Keys: make([]value.Value, len(g.keys)), Aggregates: make([]Aggregate, len(g.calls))}
	for i, k := range g.keys {
		group.Keys[i] = retained(k.eval(e))
	}
	for i, call := range g.calls {
		group.Aggregates[i].Kind = call.kind
	}
	return group
}

// empty returns the only group of a query without GROUP BY, with no rows.
func (g *grouping) empty() *Group { return g.newGroup(nil) }

// merge adds another partition's part of the same group. Equal objects can differ in the
// order of their members: a group shows those of the part that a scan meets first.
func (to *Group) merge(e *env, from *Group, first bool) {
	for i := range to.Aggregates {
		to.Aggregates[i].merge(e, &from.Aggregates[i])
	}
	if first {
		to.Keys = from.Keys
	}
}

// groupSet collects the least groups of a partition after a position.
type groupSet struct {
	run     *run
	g       *grouping
	rowsMax int   // 0 for no limit
	room    int64 // bytes
	held    int64 // bytes of all groups

	groups  map[string]*groupEntry
	only    *groupEntry // of a grouping with a single group
	dropped bool        // groups were removed
	ceiling []byte      // the least key of the removed groups; no key from it on may enter

	row  int    // the current row of the document; see run.each
	text []byte // scratch
}

// groupEntry is a group of a partition.
type groupEntry struct {
	*Group
	first firstSight // in this partition
	size  int64      // in memory, without the growth of its aggregates
}

func (r *run) newGroupSet() *groupSet {
	room := r.budget.Memory
	if room <= 0 {
		room = memoryDefault
	}
	s := &groupSet{run: r, g: r.plan.group, rowsMax: max(r.budget.MaxItems, 0), room: room}
	s.reset()
	return s
}

// reset removes all groups.
func (s *groupSet) reset() {
	s.held, s.dropped, s.ceiling = 0, false, nil
	if s.g.lone {
		s.only = &groupEntry{Group: s.g.empty()}
	} else {
		s.groups = map[string]*groupEntry{}
	}
}

// grouped runs a query that combines documents.
func (r *run) grouped(ctx context.Context, src Source) error {
	s := r.newGroupSet()
	if s.g.lone && r.budget.Started {
		return nil // the only group was returned
	}
	if r.plan.accessing.Op != index.None {
		done, err := s.look(ctx, src)
		if done {
			r.page.Stats.Ways.Answered = 1
		}
		if err == nil && !done {
			err = s.scan(ctx, src)
		}
		if err != nil {
			return err
		}
	}
	s.deliver()
	return nil
}

// scan reads the documents.
func (s *groupSet) scan(ctx context.Context, src Source) error {
	r := s.run
	need := Need{Access: r.plan.accessing, Unordered: !s.g.listing, Bare: r.plan.bare}
	add := func(row int) bool {
		s.row = row
		return s.add(1)
	}
	return r.candidates(ctx, src, need, func(c Candidate) bool {
		r.setCurrent(c)
		r.each(add)
		return true
	})
}

// add adds the current row, as many times as there are rows with its values. It
// returns false if evaluation failed.
func (s *groupSet) add(times int64) bool {
	e := s.run.env
	entry := s.only
	if entry == nil {
		if entry = s.entry(e); entry == nil {
			return e.err == nil
		}
	}
	before := e.memory
	e.memory += s.held
	for i := range s.g.calls {
		entry.Aggregates[i].addTimes(e, s.g.calls[i].arg(e), times)
	}
	s.held, e.memory = e.memory-before, before
	return e.err == nil
}

// entry returns the group of the current row, or nil if it is not on this page.
func (s *groupSet) entry(e *env) *groupEntry {
	r, g := s.run, s.g
	if g.drop && !g.keys[0].eval(e).IsDefined() {
		return nil
	}
	s.makeRoom()
	r.key = g.appendKey(r.key[:0], e)
	if entry := s.groups[string(r.key)]; entry != nil {
		if at := s.current(); at.before(entry.first) {
			entry.first = at
			for i := range g.keys {
				if v := &entry.Keys[i]; v.Kind() >= value.KindArray {
					*v = retained(g.keys[i].eval(e))
				}
			}
		}
		return entry
	}
	if e.err != nil || !s.follows(r.key) || s.dropped && g.compare(r.key, s.ceiling) >= 0 {
		return nil
	}
	return s.insert(e)
}

// makeRoom removes groups of later pages if there are too many, or if they use more
// than three quarters of the memory. The last quarter is for values in computation.
func (s *groupSet) makeRoom() {
	switch {
	case s.rowsMax > 0 && len(s.groups) >= 2*s.rowsMax+64:
		s.trim(s.rowsMax)
	case s.held > s.room/4*3:
		s.trim(max(1, len(s.groups)/2))
	}
}

// insert adds the group of the current row.
func (s *groupSet) insert(e *env) *groupEntry {
	r := s.run
	entry := &groupEntry{Group: s.g.newGroup(e), first: s.current()}
	entry.size = int64(len(r.key) + entrySize + int(unsafe.Sizeof(*entry)+unsafe.Sizeof(Group{})) + len(entry.Aggregates)*int(unsafe.Sizeof(Aggregate{})))
	for _, v := range entry.Keys {
		entry.size += int64(sizeOf(v))
	}
	s.groups[string(r.key)] = entry
	if s.held += entry.size; s.held > s.room {
		s.trim(max(1, len(s.groups)/2))
	}
	if s.held > s.room {
		e.fail(TooMuchMemory(s.room))
	}
	e.covers(s.held)
	return s.groups[string(r.key)]
}

// current returns where the current row is.
func (s *groupSet) current() firstSight { return firstSight{number: s.run.number, row: s.row} }

// trim removes all but the n least groups.
func (s *groupSet) trim(n int) {
	keys := s.keys()
	if len(keys) <= n {
		return
	}
	s.dropped, s.ceiling = true, []byte(keys[n])
	for _, key := range keys[n:] {
		entry := s.groups[key]
		s.held -= entry.size
		for i := range entry.Aggregates {
			s.held -= entry.Aggregates[i].kept
		}
		delete(s.groups, key)
	}
}

// keys returns the keys of all groups in order.
func (s *groupSet) keys() []string {
	keys := make([]string, 0, len(s.groups))
	for key := range s.groups {
		keys = append(keys, key)
	}
	compared := 0
	slices.SortFunc(keys, func(a, b string) int {
		if compared++; compared%stepsCheck == 0 {
			s.run.env.check() // the sort still ends
		}
		return strings.Compare(a, b)
	})
	if s.g.desc {
		slices.Reverse(keys)
	}
	return keys
}

// compare orders the keys of groups.
func (g *grouping) compare(a, b []byte) int {
	if g.desc {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// follows reports whether a group comes after the beginning of the page; see
// [run.follows] for truncated keys.
func (s *groupSet) follows(key []byte) bool {
	from := &s.run.from
	switch {
	case from.none:
		return true
	case from.cut:
		return s.g.compare(key[:min(len(key), OrderKeyMax)], from.key) >= 0
	}
	return s.g.compare(key, from.key) > 0
}

// deliver appends the groups to the page.
func (s *groupSet) deliver() {
	r := s.run
	if s.only != nil {
		r.page.Next = Position{Key: []byte{}}
		r.page.Rows = []Row{{Group: s.only.Group, Order: []byte{}, Position: r.page.Next}}
		return
	}
	if s.rowsMax > 0 {
		s.trim(s.rowsMax)
	}
	r.page.More = s.dropped
	for _, key := range s.keys() {
		entry := s.groups[key]
		r.page.Next = Position{Number: entry.first.number, Key: cutKey([]byte(key))}
		if !s.g.sorted {
			r.page.Next.Row = entry.first.row
		}
		r.page.Rows = append(r.page.Rows, Row{Group: entry.Group, Order: []byte(key), Position: r.page.Next})
	}
}
