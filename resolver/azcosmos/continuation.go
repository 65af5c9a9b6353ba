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
	continuationVersion = 2

	// continuationBytesMax bounds a token, which may come from anywhere.
	continuationBytesMax = 1 << 20

	// continuationSeenMax is how many rows of a DISTINCT a token carries: 12 bytes
	// each.
	continuationSeenMax = 2048
)

// position is what a continuation token holds.
type position struct {
	Version  int              `json:"v"`
	Query    string           `json:"q"` // fingerprint of text, parameters and selection
	Plan     string           `json:"p"`
	Filtered bool             `json:"f,omitempty"`
	Alone    bool             `json:"a,omitempty"`
	Merged   bool             `json:"m,omitempty"`
	Passed   int              `json:"n,omitempty"`
	Strands  []strandPosition `json:"s"`
	Seen     []byte           `json:"d,omitempty"`
}

type strandPosition struct {
	Target string            `json:"t"`
	Part   string            `json:"r,omitempty"` // id of the physical partition
	Keys   *keyRange         `json:"k,omitempty"` // the part of it, with an id
	Token  string            `json:"c,omitempty"`
	Last   []json.RawMessage `json:"l,omitempty"`
	Ties   []string          `json:"e,omitempty"`
}

// keyRange is a range of hashed keys.
type keyRange struct {
	Min partitionkey.EPK `json:"a"`
	Max partitionkey.EPK `json:"b"`
}

// continuation returns the token for the place after the last page.
func (p *Pager) continuation() string {
	if p.ready != nil || len(p.seen) > continuationSeenMax {
		return ""
	}
	at := position{
		Version: continuationVersion, Query: p.fingerprint(), Plan: p.reading.plan,
		Filtered: p.reading.filtered, Alone: p.reading.alone, Merged: p.shape.statement != nil, Passed: p.passed,
	}
	for _, s := range p.strands {
		if s.done && len(s.rows) == 0 {
			continue
		}
		one := strandPosition{Target: s.target.Name, Part: s.part.partition, Token: s.pageToken, Ties: s.ties}
		if one.Part != "" {
			one.Keys = &keyRange{s.part.keys.Min, s.part.keys.Max}
		}
		for _, value := range s.last {
			// An array of none or one value, because a value may be undefined.
			wrapped := json.RawMessage("[]")
			if value.raw != nil {
				wrapped = append(append(json.RawMessage("["), value.raw...), ']')
			}
			one.Last = append(one.Last, wrapped)
		}
		at.Strands = append(at.Strands, one)
	}
	for d := range p.seen {
		at.Seen = append(at.Seen, d[:]...)
	}
	text, err := json.Marshal(at)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// resume puts the pager at the place of its token.
func (p *Pager) resume(routing *resolver.Routing) error {
	at, err := parsePosition(p.options.Continuation)
	if err != nil {
		return err
	}
	if at.Query != p.fingerprint() {
		return fmt.Errorf("%w: it belongs to another query", ErrContinuation)
	}
	p.reading = reading{plan: at.Plan, filtered: at.Filtered, alone: at.Alone}
	if !p.reading.holds(routing) {
		return ErrRestart
	}
	p.routing, err = p.reading.owner(routing)
	if err != nil {
		return err
	}
	if err := p.resumeStrands(routing, at); err != nil {
		return err
	}
	if at.Merged {
		if err := p.merge(); err != nil {
			return err
		}
	}
	p.passed = at.Passed
	for seen := at.Seen; len(seen) >= len(digest{}); seen = seen[len(digest{}):] {
		if p.seen != nil {
			p.seen[digest(seen)] = true
		}
	}
	return p.checkStrands()
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
	if at.Version != continuationVersion || at.Passed < 0 || len(at.Strands) == 0 {
		return at, fmt.Errorf("%w: version %d", ErrContinuation, at.Version)
	}
	return at, nil
}

func (p *Pager) resumeStrands(routing *resolver.Routing, at position) error {
	targets := map[string]resolver.Target{}
	for _, t := range routing.Targets() {
		targets[t.Name] = t
	}
	for _, one := range at.Strands {
		target, found := targets[one.Target]
		if !found || (one.Part == "") != (one.Keys == nil) {
			return fmt.Errorf("%w: the target %q", ErrContinuation, one.Target)
		}
		s := &strand{target: target, token: one.Token, pageToken: one.Token, ties: one.Ties}
		if one.Keys != nil {
			s.part = part{one.Part, partitionkey.Range{Min: one.Keys.Min, Max: one.Keys.Max}}
		}
		for _, wrapped := range one.Last {
			var values []json.RawMessage
			if err := json.Unmarshal(wrapped, &values); err != nil || len(values) > 1 {
				return fmt.Errorf("%w: an order value", ErrContinuation)
			}
			var value orderValue
			if len(values) == 1 {
				value = parseOrderValue(values[0])
			}
			s.last = append(s.last, value)
		}
		p.strands = append(p.strands, s)
	}
	return nil
}

// checkStrands refuses order values that the query does not have.
func (p *Pager) checkStrands() error {
	for _, s := range p.strands {
		if s.last != nil && (p.shape.statement == nil || len(s.last) != len(p.shape.statement.order)) {
			return fmt.Errorf("%w: order values", ErrContinuation)
		}
	}
	return nil
}

// owner returns a routing under which rows of the reading are owned as when it began.
func (r reading) owner(routing *resolver.Routing) (*resolver.Routing, error) {
	mode, _ := routing.Modes()
	reads := planFingerprint(routing, mode == resolver.ReadNext)
	if !r.filtered || reads == r.plan && mode != resolver.ReadBoth {
		return routing, nil
	}
	// The move has gone on: put the state back to a phase that reads by the plan.
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

// fingerprint tells queries apart.
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
