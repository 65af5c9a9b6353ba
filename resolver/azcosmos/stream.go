package azcosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
)

// stream is the part of a query that one container, or one physical partition of
// it, answers.
type stream struct {
	target resolver.Target
	part   part // zero for the whole container
	text   string
	far    bool // its place is some pages ahead
	cuts   int  // how many times it was divided since the last page

	token string // for the next page
	done  bool   // there is no next page
	rows  []row  // fetched but not returned yet

	// The position in the page that rows came from: the token of the page, the
	// order values of the last returned row, and the documents of all returned
	// rows with the same values. With these a resumed query finds its place even
	// if the page has changed or its partition was split.
	pageToken string
	last      []orderValue
	ties      []string
	pending   []string // those of ties that a resumed query has not met yet
}

// row is one row of a result.
type row struct {
	raw     []byte                     // what the user asked for
	members map[string]json.RawMessage // the envelope
	order   []orderValue
	source  string // identifies its document; "" if FROM does not name it

	target string
	key    resolver.Key
	time   float64
}

// drop removes the first n rows.
func (s *stream) drop(n int) {
	s.rows = s.rows[n:]
	if len(s.rows) > 0 {
		return
	}
	s.rows, s.pageToken, s.ties = nil, s.token, s.pending
	if len(s.ties) == 0 {
		s.last = nil
	}
}

// give removes the first row and records its place.
func (s *stream) give(terms []orderTerm) {
	first := s.rows[0]
	if s.last == nil || compareRows(terms, s.last, first.order) != 0 {
		s.ties, s.pending = nil, nil
	}
	s.last, s.ties = first.order, append(s.ties, first.source)
	s.drop(1)
}

// skip drops the rows of the fetched page that an earlier Pager returned. The
// page may be shorter than that Pager's; the search then continues on the next
// page.
func (s *stream) skip(terms []orderTerm) {
	s.pending = slices.Clone(s.ties)
	beyond := false
	s.rows = slices.DeleteFunc(s.rows, func(r row) bool {
		c := compareRows(terms, r.order, s.last)
		beyond = beyond || c > 0
		if c != 0 {
			return c < 0
		}
		i := slices.Index(s.pending, r.source)
		if i >= 0 {
			s.pending = slices.Delete(s.pending, i, i+1)
		}
		return i >= 0
	})
	if beyond {
		s.pending = nil
	}
	if s.far = s.far && len(s.rows) == 0; len(s.rows) == 0 {
		s.drop(0)
	}
}

// fill fetches until each stream has a row or is done.
func (p *Pager) fill(ctx context.Context, streams []*stream) error {
	for {
		var empty []*stream
		for _, s := range streams {
			if len(s.rows) == 0 && !s.done {
				empty = append(empty, s)
			}
		}
		if len(empty) == 0 {
			return nil
		}
		if err := p.fetchAll(ctx, empty); err != nil {
			return err
		}
	}
}

// fetchAll fetches the next page of every stream, several at once.
func (p *Pager) fetchAll(ctx context.Context, streams []*stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wait  sync.WaitGroup
		slots = make(chan struct{}, p.options.Parallelism)

		mu   sync.Mutex
		errs []error
	)
	for _, s := range streams {
		slots <- struct{}{}
		wait.Go(func() {
			charge, err := p.fetch(ctx, s)
			mu.Lock()
			p.charge += charge
			if err != nil {
				errs = append(errs, err)
				cancel()
			}
			mu.Unlock()
			<-slots
		})
	}
	wait.Wait()
	// The first error canceled the other requests.
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// fetch fetches the next page of a stream. It keeps the rows that the stream
// has.
func (p *Pager) fetch(ctx context.Context, s *stream) (float64, error) {
	container, err := p.client.container(s.target)
	if err != nil {
		return 0, err
	}
	pk := sdk.NewPartitionKey()
	if p.options.PartitionKey != nil {
		if pk, err = partitionKey(*p.options.PartitionKey); err != nil {
			return 0, err
		}
	}
	options := &sdk.QueryOptions{QueryParameters: p.options.Parameters, PageSizeHint: p.pageSizeHint(s)}
	if s.token != "" {
		options.ContinuationToken = &s.token
	}
	ctx = s.part.within(ctx)
	text := s.text
	if text == "" {
		text = p.text
	}
	var page sdk.QueryItemsResponse
	err = p.client.retryThrottled(ctx, func() error {
		var err error
		page, err = container.NewQueryItemsPager(text, pk, options).NextPage(ctx)
		return err
	})
	if s.mustDivide(err) {
		return chargeOf(err), &dividedError{s, err}
	}
	if err != nil {
		return chargeOf(err), fmt.Errorf("query %s: %w", s.target.Name, err)
	}
	s.cuts = 0
	return float64(page.RequestCharge), p.take(s, page)
}

// pageSizeHint returns how many rows to ask a stream for: no more than can be
// returned, but a full page if some of them were returned before.
func (p *Pager) pageSizeHint(of *stream) int32 {
	size := p.options.PageSize
	if of.far {
		size = max(size, PageSizeDefault)
	}
	if s := p.shape.statement; s != nil && s.limited && !s.distinct && of.last == nil {
		size = min(size, max(1, s.offset+s.limit-p.passed))
	}
	return int32(min(size, 1<<30)) // #nosec G115 -- bounded
}

// take adds a page to a stream.
func (p *Pager) take(s *stream, page sdk.QueryItemsResponse) error {
	for _, item := range page.Items {
		r, owned, err := p.row(s, item)
		if err != nil {
			return err
		}
		if owned {
			s.rows = append(s.rows, r)
		}
	}
	next := ""
	if page.ContinuationToken != nil {
		next = *page.ContinuationToken
	}
	s.done = next == ""
	s.pageToken, s.token = s.token, next
	if s.last != nil {
		s.skip(p.shape.statement.order)
	}
	return nil
}

// row parses one row, and reports whether it belongs to the result.
func (p *Pager) row(s *stream, item []byte) (row, bool, error) {
	r := row{raw: item, target: s.target.Name}
	if !p.shape.envelope && !p.shape.aggregate {
		return r, true, nil
	}
	if err := json.Unmarshal(item, &r.members); err != nil {
		return r, false, fmt.Errorf("row of %s: %w", s.target.Name, err)
	}
	r.raw = r.members[envelopeRow]
	for i := range p.shape.statement.order {
		r.order = append(r.order, parseOrderValue(r.members[envelopeOrder+strconv.Itoa(i)]))
	}
	if id := r.members[envelopeID]; id != nil {
		partition, err := keyOf(r.members, envelopePart, len(p.client.config.PartitionKey))
		if err != nil {
			return r, false, err
		}
		r.source = sourceOf(partition, id)
	}
	if p.shape.filter {
		if owned, err := p.owned(&r); err != nil || !owned {
			return r, false, err
		}
	}
	return r, r.raw != nil || p.shape.aggregate, nil
}

// owned fills in what identifies copies, and reports whether the row comes from
// an owner of its item.
func (p *Pager) owned(r *row) (bool, error) {
	var err error
	if whole := r.members[envelopeWhole]; whole != nil {
		r.key, err = p.routing.Key(whole)
	} else {
		r.key, err = keyOf(r.members, envelopeKey, len(p.routing.State.Key.Paths))
	}
	if err != nil {
		return false, err
	}
	if p.shape.both {
		r.time = parseOrderValue(r.members[envelopeTime]).number
	}
	owned, err := p.routing.Owns(r.target, r.key)
	if errors.Is(err, resolver.ErrKey) || errors.Is(err, resolver.ErrNoTarget) {
		return true, nil // the plan does not route it, so it does not move
	}
	return owned, err
}

// keyOf reads the levels of a key from an envelope.
func keyOf(members map[string]json.RawMessage, name string, levels int) (resolver.Key, error) {
	list := make([]json.RawMessage, levels)
	for i := range list {
		list[i] = members[name+strconv.Itoa(i)]
		if list[i] == nil || list[i][0] == '[' || list[i][0] == '{' {
			list[i] = json.RawMessage("{}") // undefined
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return resolver.Key{}, err
	}
	key, err := partitionkey.Parse(string(text))
	if err != nil {
		return key, fmt.Errorf("%w: %w", resolver.ErrKey, err)
	}
	return key, nil
}

// pathExpression returns the expression for a key path on an alias.
func pathExpression(alias, path string) string {
	segments, err := partitionkey.ParsePath(path)
	if err != nil {
		return "undefined" // unreachable: New has parsed the paths
	}
	for _, segment := range segments {
		quoted, _ := json.Marshal(segment) // a string, so it cannot fail
		alias += "[" + string(quoted) + "]"
	}
	return alias
}
