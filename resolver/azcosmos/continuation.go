package azcosmos

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
)

const (
	continuationVersion = 3

	// continuationBytesMax bounds the size of a token, because a token may come
	// from anywhere.
	continuationBytesMax = 1 << 20

	// continuationSeenMax is the maximum number of DISTINCT rows in a token, at
	// 12 bytes each.
	continuationSeenMax = 2048
)

// position is the content of a continuation token.
type position struct {
	Version  int              `json:"v"`
	Query    string           `json:"q"` // fingerprint of text, parameters and selection
	Plan     string           `json:"p"`
	Filtered bool             `json:"f,omitempty"`
	Alone    bool             `json:"a,omitempty"`
	Merged   bool             `json:"m,omitempty"`
	Passed   int              `json:"n,omitempty"`
	Place    *placePosition   `json:"o,omitempty"` // with ORDER BY only
	Streams  []streamPosition `json:"s"`
	Seen     []byte           `json:"d,omitempty"`
}

type streamPosition struct {
	Target string            `json:"t"`
	Part   string            `json:"r,omitempty"` // id of the physical partition
	Keys   *keyRange         `json:"k,omitempty"` // the range within that partition
	Token  string            `json:"c,omitempty"`
	Last   []json.RawMessage `json:"l,omitempty"`
	Ties   []string          `json:"e,omitempty"`
}

// placePosition is a place in a token.
type placePosition struct {
	Last  []json.RawMessage `json:"l"`
	Given []string          `json:"e,omitempty"`
	Lost  bool              `json:"x,omitempty"`
}

// keyRange is a range of hashed keys.
type keyRange struct {
	Min partitionkey.EPK `json:"a"`
	Max partitionkey.EPK `json:"b"`
}

// continuation returns the token for the position after the last page, "" if a
// token cannot hold it.
func (p *Pager) continuation() string {
	if p.ready != nil || len(p.seen) > continuationSeenMax {
		return ""
	}
	at := position{
		Version: continuationVersion, Query: p.fingerprint(), Plan: p.reading.plan,
		Filtered: p.reading.filtered, Alone: p.reading.alone, Merged: p.shape.statement != nil, Passed: p.passed,
	}
	if p.place.last != nil {
		at.Place = &placePosition{wrapOrder(p.place.last), p.place.given, p.place.lost}
	}
	for _, s := range p.streams {
		if s.done && len(s.rows) == 0 {
			continue
		}
		one := streamPosition{Target: s.target.Name, Part: s.part.partition, Token: s.pageToken, Last: wrapOrder(s.last), Ties: s.ties}
		if one.Part != "" {
			one.Keys = &keyRange{s.part.keys.Min, s.part.keys.Max}
		}
		at.Streams = append(at.Streams, one)
	}
	for d := range p.seen {
		at.Seen = append(at.Seen, d[:]...)
	}
	text, err := json.Marshal(at)
	if err != nil || base64.RawURLEncoding.EncodedLen(len(text)) > continuationBytesMax {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// wrapOrder puts each order value into an array with one element, or with none
// if the value is undefined.
func wrapOrder(values []orderValue) []json.RawMessage {
	var list []json.RawMessage
	for _, value := range values {
		wrapped := json.RawMessage("[]")
		if value.raw != nil {
			wrapped = append(append(json.RawMessage("["), value.raw...), ']')
		}
		list = append(list, wrapped)
	}
	return list
}

func unwrapOrder(list []json.RawMessage) ([]orderValue, error) {
	var values []orderValue
	for _, wrapped := range list {
		var within []json.RawMessage
		if err := json.Unmarshal(wrapped, &within); err != nil || len(within) > 1 {
			return nil, fmt.Errorf("%w: invalid order value", ErrContinuation)
		}
		var value orderValue
		if len(within) == 1 {
			value = parseOrderValue(within[0])
		}
		values = append(values, value)
	}
	return values, nil
}

// resume moves the pager to the position of its token.
func (p *Pager) resume(routing *resolver.Routing) error {
	at, err := parsePosition(p.options.Continuation)
	if err != nil {
		return err
	}
	if at.Query != p.fingerprint() {
		return fmt.Errorf("%w: it belongs to another query", ErrContinuation)
	}
	if err := p.resumeRows(at); err != nil {
		return err
	}
	p.reading = reading{plan: at.Plan, filtered: at.Filtered, alone: at.Alone}
	if !p.reading.holds(routing) {
		err = p.follow(routing)
	} else {
		err = p.resumeStreams(routing, at)
	}
	if err != nil {
		return err
	}
	return p.checkStreams()
}

// resumeRows restores which rows were returned already.
func (p *Pager) resumeRows(at position) error {
	p.passed = at.Passed
	for seen := at.Seen; len(seen) >= len(digest{}); seen = seen[len(digest{}):] {
		if p.seen == nil {
			p.seen = map[digest]bool{}
		}
		p.seen[digest(seen)] = true
	}
	if at.Place == nil {
		return nil
	}
	last, err := unwrapOrder(at.Place.Last)
	p.place = place{last, at.Place.Given, at.Place.Lost}
	return err
}

func parsePosition(token string) (position, error) {
	var at position
	if len(token) > continuationBytesMax {
		return at, fmt.Errorf("%w: longer than %d bytes", ErrContinuation, continuationBytesMax)
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil {
		return at, fmt.Errorf("%w: %w", ErrContinuation, err)
	}
	if at.Version != continuationVersion || at.Passed < 0 || len(at.Streams) == 0 {
		return at, fmt.Errorf("%w: version %d", ErrContinuation, at.Version)
	}
	return at, nil
}

// resumeStreams continues the streams of the token.
func (p *Pager) resumeStreams(routing *resolver.Routing, at position) error {
	var err error
	if p.routing, err = p.reading.owner(routing); err != nil {
		return err
	}
	targets := map[string]resolver.Target{}
	for _, t := range routing.Targets() {
		targets[t.Name] = t
	}
	for _, one := range at.Streams {
		target, found := targets[one.Target]
		if !found || (one.Part == "") != (one.Keys == nil) {
			return fmt.Errorf("%w: invalid target %q", ErrContinuation, one.Target)
		}
		s := &stream{target: target, token: one.Token, pageToken: one.Token, ties: one.Ties}
		if one.Keys != nil {
			s.part = part{one.Part, partitionkey.Range{Min: one.Keys.Min, Max: one.Keys.Max}}
		}
		if s.last, err = unwrapOrder(one.Last); err != nil {
			return err
		}
		p.streams = append(p.streams, s)
	}
	if at.Merged {
		return p.merge()
	}
	return nil
}

// checkStreams rejects order values that do not match the query.
func (p *Pager) checkStreams() error {
	terms := 0
	if p.shape.statement != nil {
		terms = len(p.shape.statement.order)
	}
	wrong := p.place.last != nil && len(p.place.last) != terms
	for _, s := range p.streams {
		wrong = wrong || s.last != nil && len(s.last) != terms
	}
	if wrong {
		return fmt.Errorf("%w: wrong number of order values", ErrContinuation)
	}
	return nil
}

// owner returns a routing under which rows of the reading have the same owners
// as when it began.
func (r reading) owner(routing *resolver.Routing) (*resolver.Routing, error) {
	mode, _ := routing.Modes()
	reads := planFingerprint(routing, mode == resolver.ReadNext)
	if !r.filtered || reads == r.plan && mode != resolver.ReadBoth {
		return routing, nil
	}
	// The move has advanced: go back to a phase that reads by the plan.
	state := routing.State
	move := *state.Move
	move.Read = ""
	move.Phase = resolver.Verify
	if r.plan == planFingerprint(routing, true) {
		move.Phase = resolver.Switch
	}
	state.Move = &move
	return routing.With(state)
}

// fingerprint identifies the query.
func (p *Pager) fingerprint() string {
	text, err := json.Marshal(struct {
		Text       string
		Parameters any
		Selection  string
		Partition  *resolver.Key
	}{p.text, p.options.Parameters, fmt.Sprint(p.selection), p.options.PartitionKey})
	if err != nil {
		text = []byte(p.text)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
