package azcosmos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// PageSizeDefault is the default maximum number of items on a page of a query.
const PageSizeDefault = 100

// RowsMax is the maximum number of rows kept in memory for comparison: all rows
// of both copies under resolver.ReadBoth, and the different rows of a DISTINCT.
const RowsMax = 100_000

// QueryOptions changes how a query runs. The zero value is ready to use.
type QueryOptions struct {
	// Parameters are the parameters of the query text.
	Parameters []sdk.QueryParameter

	// PartitionKey restricts the query to one partition key in each container.
	PartitionKey *resolver.Key

	// PageSize is the maximum number of items on a page. Default
	// PageSizeDefault.
	PageSize int

	// Continuation continues a query after a page of another Pager.
	Continuation string

	// Parallelism is the number of concurrent requests. Default: that of the
	// client.
	Parallelism int
}

// Page is a part of the result of a query.
type Page struct {
	Items  [][]byte
	Charge float64

	// Continuation lets another Pager continue after this page. It is "" after
	// the last page, and if only this Pager knows the rest: under
	// resolver.ReadBoth, after too many rows of a DISTINCT, and if the token
	// would be longer than 1 MiB.
	Continuation string
}

// Pager returns the result of a query page by page. It must be used by one
// goroutine at a time.
type Pager struct {
	client    *Client
	text      string
	selection resolver.Selection[resolver.Key]
	options   QueryOptions

	started  bool
	finished bool
	outlived bool // what it was reading has been deleted
	reading  reading
	routing  *resolver.Routing // at the start; decides the owners of rows
	shape    shape
	streams  []*stream
	passed   int             // rows so far, including those skipped by OFFSET
	place    place           // position in the rows of all containers
	seen     map[digest]bool // rows of a DISTINCT
	charge   float64         // since the last page
	ready    []row           // rows that remain after gather, under ReadBoth
}

// shape says how rows are requested and merged.
type shape struct {
	statement *statement // nil: one container answers the query alone
	aggregate bool
	envelope  bool
	filter    bool // request the owner of each row
	places    bool // keep the place, so that the query can follow another plan
	both      bool // read all rows and choose between copies
}

// Query queries all targets that may hold items of the selection, as if they
// were one container: rows come in the order of ORDER BY, otherwise target by
// target; TOP, OFFSET LIMIT, DISTINCT and the aggregates COUNT, SUM, MIN, MAX
// and AVG apply to all targets together. GROUP BY, ORDER BY RANK and aggregates
// inside other expressions are an ErrQuery unless a single container answers.
//
// A query continues across moves: with ORDER BY to its end, otherwise until the
// items it reads are deleted; then the error is ErrRestart.
//
// The selection says which targets to ask. As with a partition key, the query
// text must still say which items are wanted. options may be nil.
func (c *Client) Query(text string, selection resolver.Selection[resolver.Key], options *QueryOptions) *Pager {
	p := &Pager{client: c, text: text, selection: selection}
	if options != nil {
		p.options = *options
	}
	if p.options.PageSize <= 0 {
		p.options.PageSize = PageSizeDefault
	}
	if p.options.Parallelism <= 0 {
		p.options.Parallelism = c.config.Parallelism
	}
	return p
}

// More reports whether NextPage may return more items.
func (p *Pager) More() bool { return !p.finished }

// NextPage returns the next page, which may be empty. After an error the same
// page may be requested again, except after ErrRestart, ErrQuery and
// ErrContinuation.
func (p *Pager) NextPage(ctx context.Context) (Page, error) {
	if p.outlived {
		return Page{}, ErrRestart
	}
	if p.finished {
		return Page{}, nil
	}
	routing, done, err := p.client.config.View.Begin(ctx)
	if err != nil {
		return Page{}, err
	}
	defer done()
	if !p.started {
		err = p.start(routing)
	} else if !p.reading.holds(routing) {
		err = p.follow(routing)
	}
	if err != nil {
		return Page{}, err
	}
	began := time.Now()
	rows, err := p.rows(ctx)
	if err == nil && resolver.Elapsed(began, time.Now()) >= p.client.config.Timeout {
		err = p.confirm(ctx)
		p.outlived = err != nil
	}
	if err != nil {
		return Page{}, err
	}
	page := Page{Charge: p.charge}
	p.charge = 0
	for _, r := range rows {
		page.Items = append(page.Items, r.raw)
	}
	if !p.finished {
		page.Continuation = p.continuation()
	}
	return page, nil
}

// confirm checks that a page which took longer than a Mover waits was read
// before the copies it relied on were deleted.
func (p *Pager) confirm(ctx context.Context) error {
	if p.client.config.View.Lease() == 0 {
		return nil
	}
	routing, err := p.client.config.View.Confirm(ctx)
	if err != nil {
		return errors.Join(ErrRestart, err)
	}
	move := routing.State.Move
	if p.reading.both && (move == nil || move.Phase.Final()) || !p.reading.holds(routing) {
		return ErrRestart
	}
	return nil
}

// Items returns all items of a query and their charge. After an error it also
// returns the items read so far.
func (p *Pager) Items(ctx context.Context) ([][]byte, float64, error) {
	var items [][]byte
	charge := 0.0
	for p.More() {
		page, err := p.NextPage(ctx)
		charge += page.Charge
		if err != nil {
			return items, charge, err
		}
		items = append(items, page.Items...)
	}
	return items, charge, nil
}

// reading says by which plan a query reads. Plans are compared by fingerprint,
// because routings change during a query.
type reading struct {
	plan     string
	filtered bool // each row's owner is requested
	alone    bool // only one container is asked, so that copies cannot appear as second rows
	both     bool
}

// readingOf returns how a query that starts now reads.
func readingOf(routing *resolver.Routing) (reading, error) {
	mode, _ := routing.Modes()
	r := reading{plan: planFingerprint(routing, false), filtered: routing.Copies(), both: mode == resolver.ReadBoth}
	switch mode {
	case resolver.ReadNext:
		r.plan = planFingerprint(routing, true)
	case resolver.ReadNone:
		return r, &resolver.MigratingError{RetryAfter: resolver.RetryAfterDefault}
	}
	return r, nil
}

// planFingerprint identifies a plan, and also the period in which it was in
// force, because items that come back are new ones. It is "" for a routing built
// in code. A spillover that has grown has the same fingerprint, because items in
// it do not move.
func planFingerprint(routing *resolver.Routing, next bool) string {
	state := routing.State
	if state.Version == 0 {
		return ""
	}
	plan, moves := state.Current, state.Moves
	if next {
		if state.Move == nil {
			return "none"
		}
		plan, moves = state.Move.Next, moves+1
	}
	ungrown := func(s resolver.Scheme) resolver.Scheme {
		if s.Kind == resolver.KindSpillover {
			s.Targets, s.Opening = nil, false
		}
		return s
	}
	plan.Scheme, plan.Behind = ungrown(plan.Scheme), maps.Clone(plan.Behind)
	for name, behind := range plan.Behind {
		plan.Behind[name] = ungrown(behind)
	}
	text, _ := json.Marshal(struct { // plain data, so it cannot fail
		Key   resolver.KeySpec
		Plan  resolver.Plan
		Moves int64
	}{state.Key, plan, moves})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// holds reports whether the assumptions of the reading are still true: that the
// items of its plan are where the plan says, until the clean phase of a move
// deletes them; and, without a filter, that no containers hold copies.
func (r reading) holds(routing *resolver.Routing) bool {
	if r.both {
		return true // everything is read at the start
	}
	move := routing.State.Move
	current := r.plan == planFingerprint(routing, false)
	if !r.filtered && !r.alone {
		return current && !routing.Copies()
	}
	if move == nil {
		return current
	}
	next := r.plan == planFingerprint(routing, true)
	return current && move.Phase != resolver.Clean || next && (move.Phase == resolver.Switch || move.Phase == resolver.Clean)
}

// start chooses the streams.
func (p *Pager) start(routing *resolver.Routing) error {
	reading, err := readingOf(routing)
	if err != nil {
		return err
	}
	p.reading, p.routing = reading, routing
	if p.options.Continuation != "" {
		if err := p.resume(routing); err != nil {
			return err
		}
		p.started = true
		return nil
	}
	targets, err := routing.ForRead(p.selection)
	if err != nil {
		return err
	}
	for _, t := range targets {
		p.streams = append(p.streams, &stream{target: t})
	}
	p.reading.alone = len(targets) == 1
	if len(targets) != 1 || reading.filtered || p.mayDivide() {
		if err := p.merge(); err != nil {
			return err
		}
	}
	p.started = true
	return nil
}

// mayDivide reports whether the query should be merged even though one container
// could answer it alone. After some pages its gateway may refuse the query
// because of its partitions, and a token of the user's query cannot be handed to
// streams of a merged one.
func (p *Pager) mayDivide() bool {
	s, err := parseStatement(p.text, p.options.Parameters)
	if err != nil || s.group || s.rank || s.star && s.alias == "" {
		return false
	}
	aggregated, err := s.aggregates()
	return err == nil && !aggregated && (len(s.order) > 0 || s.distinct || s.limited)
}

// mayMove reports whether rows must include their keys although no containers
// hold copies yet, because a move may begin between two pages. That is possible
// under a watched state. Aggregates have only one page. With a filter, a
// DISTINCT would send all rows and a key function all documents.
func (p *Pager) mayMove(s *statement, aggregated bool) bool {
	state := p.routing.State
	return p.options.Continuation == "" && !p.reading.alone && p.client.config.View.Lease() > 0 &&
		!aggregated && !s.distinct && s.root != "" && state.Version != 0 && state.Key.Function == "" && !state.Current.Spills()
}

// merge prepares for several streams, or for copies among the rows.
func (p *Pager) merge() error {
	s, err := parseStatement(p.text, p.options.Parameters)
	if err != nil {
		return err
	}
	if s.group || s.rank {
		return fmt.Errorf("%w: GROUP BY and ORDER BY RANK need a single container", ErrQuery)
	}
	aggregated, err := s.aggregates()
	if err != nil {
		return err
	}
	if aggregated && (len(s.order) > 0 || s.distinct || s.limited) {
		return fmt.Errorf("%w: an aggregate with ORDER BY, DISTINCT, TOP or OFFSET LIMIT", ErrQuery)
	}
	if p.mayMove(s, aggregated) {
		p.reading.filtered = true
	}
	shape := shape{statement: s, aggregate: aggregated, filter: p.reading.filtered, both: p.reading.both}
	shape.envelope = shape.filter || len(s.order) > 0
	shape.places = s.keepsPlace()
	if shape.filter && s.root == "" {
		return fmt.Errorf("%w: while items move, FROM must name the document", ErrQuery)
	}
	if s.star && s.alias == "" {
		return fmt.Errorf("%w: SELECT * needs a name in FROM", ErrQuery)
	}
	if s.distinct && p.seen == nil {
		p.seen = map[digest]bool{}
	}
	p.shape = shape
	text := p.streamText()
	for _, stream := range p.streams {
		stream.text = text
	}
	return nil
}

// streamText returns the query that each stream sends.
func (p *Pager) streamText() string {
	s := p.shape.statement
	if s == nil {
		return p.text
	}
	if p.shape.envelope {
		return s.envelope(p.members(), !p.shape.filter)
	}
	if p.shape.aggregate {
		return s.partials()
	}
	return s.plain()
}

// members returns the expressions that an envelope needs to identify equal rows,
// owners and copies.
func (p *Pager) members() []string {
	root := p.shape.statement.root
	member := func(name, expression string) string { return fmt.Sprintf("%q: %s", name, expression) }
	var list []string
	if p.shape.both || len(p.shape.statement.order) > 0 && root != "" {
		for i, path := range p.client.config.PartitionKey {
			list = append(list, member(envelopePart+strconv.Itoa(i), pathExpression(root, path)))
		}
		list = append(list, member(envelopeID, root+".id"))
	}
	if !p.shape.filter {
		return list
	}
	if spec := p.routing.State.Key; spec.Function != "" {
		list = append(list, member(envelopeWhole, root))
	} else {
		for i, path := range spec.Paths {
			list = append(list, member(envelopeKey+strconv.Itoa(i), pathExpression(root, path)))
		}
	}
	if p.shape.both {
		list = append(list, member(envelopeTime, root+"._ts"))
	}
	return list
}

// rows returns the rows of the next page.
func (p *Pager) rows(ctx context.Context) ([]row, error) {
	for {
		rows, err := p.produce(ctx)
		var divided *dividedError
		if !errors.As(err, &divided) {
			return rows, err
		}
		if err := p.divide(ctx, divided.stream); err != nil {
			return nil, err
		}
	}
}

func (p *Pager) produce(ctx context.Context) ([]row, error) {
	switch {
	case p.ready != nil:
		return p.nextReady(), nil
	case p.shape.both:
		return p.gather(ctx)
	case p.shape.aggregate:
		return p.aggregate(ctx)
	case p.shape.statement != nil && len(p.shape.statement.order) > 0:
		return p.ordered(ctx)
	}
	return p.unordered(ctx)
}

// unordered returns the rows of one page of the first stream that has any. Pages
// of the following streams are fetched at the same time.
func (p *Pager) unordered(ctx context.Context) ([]row, error) {
	for len(p.streams) > 0 {
		if err := p.fill(ctx, p.streams[:min(len(p.streams), p.options.Parallelism)]); err != nil {
			return nil, err
		}
		first := p.streams[0]
		var rows []row
		for _, r := range first.rows {
			if p.admit(r) {
				rows = append(rows, r)
			}
		}
		first.drop(len(first.rows))
		p.dropFinished()
		if p.isFull() {
			p.streams = nil
		}
		if len(rows) > 0 {
			p.finished = len(p.streams) == 0
			return rows, nil
		}
	}
	p.finished = true
	return nil, nil
}

// ordered merges the streams, each of which is sorted.
func (p *Pager) ordered(ctx context.Context) ([]row, error) {
	var rows []row
	terms := p.shape.statement.order
	for len(rows) < p.options.PageSize && !p.isFull() {
		if err := p.fill(ctx, p.streams); err != nil {
			if len(rows) > 0 {
				break // return what there is; the next page repeats the error
			}
			return rows, err
		}
		if p.dropFinished(); len(p.streams) == 0 {
			break
		}
		first := p.streams[0]
		for _, s := range p.streams[1:] {
			if compareRows(terms, s.rows[0].order, first.rows[0].order) < 0 {
				first = s
			}
		}
		r := first.rows[0]
		first.give(terms)
		if p.shape.places {
			p.place.note(terms, r)
		}
		if p.admit(r) {
			rows = append(rows, r)
		}
	}
	p.dropFinished()
	p.finished = len(p.streams) == 0 || p.isFull()
	return rows, nil
}

// dropFinished removes the streams that have no more rows.
func (p *Pager) dropFinished() {
	p.streams = slices.DeleteFunc(p.streams, func(s *stream) bool { return s.done && len(s.rows) == 0 })
}

// admit counts a row and reports whether it belongs to the result.
func (p *Pager) admit(r row) bool {
	s := p.shape.statement
	if s == nil {
		return true
	}
	if p.isFull() || s.distinct && p.repeats(r) {
		return false
	}
	p.passed++
	return !s.limited || p.passed > s.offset
}

// isFull reports whether TOP or LIMIT is reached.
func (p *Pager) isFull() bool {
	s := p.shape.statement
	return s != nil && s.limited && p.passed >= s.offset+s.limit
}

// digest identifies a row of a DISTINCT.
type digest [12]byte

func (p *Pager) repeats(r row) bool {
	var d digest
	sum := sha256.Sum256(canonical(r.raw))
	copy(d[:], sum[:])
	if p.seen[d] {
		return true
	}
	p.seen[d] = true
	return false
}

// canonical returns equal bytes for equal JSON values: 1 and 1.0 are equal, and
// the order of members does not matter.
func canonical(raw []byte) []byte {
	if value, err := decode(raw); err == nil {
		if text, err := json.Marshal(plainNumbers(value)); err == nil {
			return text
		}
	}
	return raw
}

// aggregate reads all streams to their end and returns one row.
func (p *Pager) aggregate(ctx context.Context) ([]row, error) {
	if err := p.readAll(ctx); err != nil {
		return nil, err
	}
	var all []row
	for _, s := range p.streams {
		all = append(all, s.rows...)
	}
	p.streams, p.finished = nil, true
	return p.combine(all), nil
}

// combine aggregates rows or partial results.
func (p *Pager) combine(rows []row) []row {
	s := p.shape.statement
	var members []byte
	for i, c := range s.columns {
		a := accumulator{function: c.aggregate}
		for _, r := range rows {
			value := parseOrderValue(r.members[envelopeArg+strconv.Itoa(i)])
			if p.shape.envelope {
				a.add(value)
			} else {
				a.merge(parseOrderValue(r.members["n"+strconv.Itoa(i)]).integer, value)
			}
		}
		result := a.result()
		if s.value {
			if result == nil {
				return nil
			}
			return []row{{raw: result}}
		}
		if result == nil {
			continue
		}
		name, _ := json.Marshal(c.name)
		members = append(append(append(append(members, ','), name...), ':'), result...)
	}
	if len(members) > 0 {
		members[0] = '{'
		return []row{{raw: append(members, '}')}}
	}
	return []row{{raw: []byte("{}")}}
}

// gather reads everything under ReadBoth, chooses the newer copy of each item,
// and returns the first page of the result.
func (p *Pager) gather(ctx context.Context) ([]row, error) {
	if err := p.readAll(ctx); err != nil {
		return nil, err
	}
	type choice struct {
		target string
		time   float64
		next   bool
	}
	winners := map[string]choice{}
	var all []row
	for _, s := range p.streams {
		for _, r := range s.rows {
			_, to, err := p.routing.Moves(r.key)
			if err != nil {
				return nil, err
			}
			c := choice{s.target.Name, r.time, s.target.Name == to.Name}
			last, known := winners[r.source]
			if !known || c.time > last.time || c.time == last.time && c.next {
				winners[r.source] = c
			}
			all = append(all, r)
		}
	}
	all = slices.DeleteFunc(all, func(r row) bool { return winners[r.source].target != r.target })
	p.streams = nil
	if p.shape.aggregate {
		p.finished = true
		return p.combine(all), nil
	}
	terms := p.shape.statement.order
	slices.SortStableFunc(all, func(a, b row) int { return compareRows(terms, a.order, b.order) })
	p.ready = slices.DeleteFunc(all, func(r row) bool { return !p.admit(r) })
	return p.nextReady(), nil
}

// nextReady returns a page of the rows in memory.
func (p *Pager) nextReady() []row {
	n := min(len(p.ready), p.options.PageSize)
	rows := p.ready[:n]
	p.ready = p.ready[n:]
	p.finished = len(p.ready) == 0
	return rows
}

// readAll reads all streams to their end.
func (p *Pager) readAll(ctx context.Context) error {
	for {
		open, total := []*stream(nil), 0
		for _, s := range p.streams {
			total += len(s.rows)
			if !s.done {
				open = append(open, s)
			}
		}
		if total > RowsMax {
			return fmt.Errorf("%w: more than %d rows to compare", ErrQuery, RowsMax)
		}
		if len(open) == 0 {
			return nil
		}
		if err := p.fetchAll(ctx, open); err != nil {
			return err
		}
	}
}
