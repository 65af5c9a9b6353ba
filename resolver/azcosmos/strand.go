package azcosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
)

// strand is the part of a query that one container answers, or one physical partition
// of it.
type strand struct {
	target    resolver.Target
	partition string // id of the physical one, "" for the whole container
	text      string

	token string // for the next page
	done  bool   // there is no next page
	rows  []row  // fetched and not given yet

	// Where the page of rows began, and what was given of it: the order values of the
	// last row and how many rows of the page have the same. So a resumed query finds
	// its place even if the page has changed.
	pageToken string
	last      []orderValue
	equal     int
}

// row is one row of an answer.
type row struct {
	raw     []byte                     // what the user asked for
	members map[string]json.RawMessage // the envelope
	order   []orderValue

	target   string
	key      resolver.Key
	identity string
	time     float64
}

// drop gives n rows away at once.
func (s *strand) drop(n int) {
	s.rows = s.rows[n:]
	if len(s.rows) == 0 {
		s.rows, s.pageToken, s.last, s.equal = nil, s.token, nil, 0
	}
}

// give gives the first row away and notes its place.
func (s *strand) give(terms []orderTerm) {
	order := s.rows[0].order
	if s.last == nil || compareRows(terms, s.last, order) != 0 {
		s.equal = 0
	}
	s.last, s.equal = order, s.equal+1
	s.drop(1)
}

// skip drops what an earlier Pager has given of the page that was just fetched.
func (s *strand) skip(terms []orderTerm) {
	last, equal := s.last, s.equal
	given := 0
	for _, r := range s.rows {
		c := compareRows(terms, r.order, last)
		if c > 0 || c == 0 && equal == 0 {
			break
		}
		if c == 0 {
			equal--
		}
		given++
	}
	s.rows = s.rows[given:]
	if len(s.rows) == 0 {
		s.drop(0)
	}
}

// fill fetches until each strand has a row or is done.
func (p *Pager) fill(ctx context.Context, strands []*strand) error {
	for {
		var empty []*strand
		for _, s := range strands {
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

// fetchAll fetches the next page of every strand, some at once.
func (p *Pager) fetchAll(ctx context.Context, strands []*strand) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wait  sync.WaitGroup
		slots = make(chan struct{}, p.options.Parallelism)

		mu   sync.Mutex
		errs []error
	)
	for _, s := range strands {
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
	// The first error ended the others.
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// dividedError says that a container wants its partitions to be asked one by one.
type dividedError struct {
	strand *strand
	cause  error
}

func (e *dividedError) Error() string { return e.cause.Error() }

// subStatusCrossPartition comes with status 400 when a gateway does not answer a query
// over several partitions.
const subStatusCrossPartition = "1004"

// fetch fetches the next page of a strand. It keeps what the strand had.
func (p *Pager) fetch(ctx context.Context, s *strand) (float64, error) {
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
	options := &sdk.QueryOptions{QueryParameters: p.options.Parameters, PageSizeHint: int32(min(p.options.PageSize, 1<<30))} // #nosec G115 -- bounded
	if s.token != "" {
		options.ContinuationToken = &s.token
	}
	if s.partition != "" {
		ctx = policy.WithHTTPHeader(ctx, http.Header{headerPartition: {s.partition}})
	}
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
	if statusOf(err) == http.StatusBadRequest && subStatusOf(err) == subStatusCrossPartition && s.partition == "" && s.token == "" {
		return chargeOf(err), &dividedError{s, err}
	}
	if err != nil {
		return chargeOf(err), fmt.Errorf("query %s: %w", s.target.Name, err)
	}
	return float64(page.RequestCharge), p.take(s, page)
}

// take adds a page to a strand.
func (p *Pager) take(s *strand, page sdk.QueryItemsResponse) error {
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

// row reads one row, and reports whether it belongs to the answer.
func (p *Pager) row(s *strand, item []byte) (row, bool, error) {
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
	if p.shape.filter {
		if owned, err := p.owned(&r); err != nil || !owned {
			return r, false, err
		}
	}
	return r, r.raw != nil || p.shape.aggregate, nil
}

// owned fills in what tells copies apart, and reports whether the row comes from an
// owner of its item.
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
		part, err := keyOf(r.members, envelopePart, len(p.client.config.PartitionKey))
		if err != nil {
			return false, err
		}
		r.identity = part.String() + string(r.members[envelopeID])
		r.time = parseOrderValue(r.members[envelopeTime]).number
	}
	owned, err := p.routing.Owns(r.target, r.key)
	if errors.Is(err, resolver.ErrKey) || errors.Is(err, resolver.ErrNoTarget) {
		return true, nil // nothing routes it, so nothing moves it
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

// pathExpression writes a key path as an expression over an alias.
func pathExpression(alias, path string) string {
	segments, err := partitionkey.ParsePath(path)
	if err != nil {
		return "undefined" // New has parsed the paths
	}
	for _, segment := range segments {
		quoted, _ := json.Marshal(segment) // a string: it cannot fail
		alias += "[" + string(quoted) + "]"
	}
	return alias
}

// divide puts a strand per physical partition in the place of one of a container.
func (p *Pager) divide(ctx context.Context, whole *strand) error {
	container, err := p.client.container(whole.target)
	if err != nil {
		return err
	}
	ids, err := p.partitions(ctx, container)
	if err != nil {
		return fmt.Errorf("partitions of %s: %w", whole.target.Name, err)
	}
	i := slices.Index(p.strands, whole)
	if i < 0 {
		return nil
	}
	var parts []*strand
	for _, id := range ids {
		parts = append(parts, &strand{target: whole.target, partition: id, text: whole.text})
	}
	p.strands = slices.Replace(p.strands, i, i+1, parts...)
	if p.shape.statement == nil {
		return p.merge()
	}
	return nil
}

// headerPartition names a physical partition, in requests and answers.
const headerPartition = "X-Ms-Documentdb-Partitionkeyrangeid"

// partitions returns the ids of a container's physical partitions. The SDK shows their
// bounds only, so each is asked for its name with a query that reads nothing.
func (p *Pager) partitions(ctx context.Context, container *sdk.ContainerClient) ([]string, error) {
	ranges, err := container.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range ranges {
		within := policy.WithHTTPHeader(ctx, http.Header{
			"X-Ms-Read-Key-Type": {"EffectivePartitionKeyRange"},
			"X-Ms-Start-Epk":     {r.MinInclusive},
			"X-Ms-End-Epk":       {r.MaxExclusive},
		})
		var page sdk.QueryItemsResponse
		err := p.client.retryThrottled(ctx, func() error {
			var err error
			page, err = container.NewQueryItemsPager("SELECT VALUE c.id FROM c WHERE false", sdk.NewPartitionKey(), nil).NextPage(within)
			return err
		})
		if err != nil {
			return nil, err
		}
		p.charge += float64(page.RequestCharge)
		id := page.RawResponse.Header.Get(headerPartition)
		if id == "" || slices.Contains(ids, id) {
			return nil, fmt.Errorf("%w: the service does not name the partition of %s to %s", ErrQuery, r.MinInclusive, r.MaxExclusive)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
