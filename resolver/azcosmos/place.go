package azcosmos

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/decandb/decan/resolver"
)

// place is the position of a query with ORDER BY in the rows of all containers:
// all rows that sort before its last row were returned, and of the rows that are
// equal to it those of the listed documents. It names no container, so it stays
// valid when the plan changes.
type place struct {
	last  []orderValue // order values of the last row; nil before the first row
	given []string     // sources of the returned rows that are equal to it
	lost  bool         // some of them are indistinguishable, or there are too many
}

// placeRowsMax is how many equal rows a place distinguishes.
const placeRowsMax = 2048

// note records that a row was returned.
func (p *place) note(terms []orderTerm, r row) {
	if p.last == nil || compareRows(terms, p.last, r.order) != 0 {
		*p = place{last: r.order}
	}
	// The order that a service uses among arrays, and among objects, is unknown.
	composite := slices.ContainsFunc(r.order, orderValue.nested)
	if p.lost = p.lost || composite || r.source == "" || len(p.given) == placeRowsMax; p.lost {
		p.given = nil
		return
	}
	p.given = append(p.given, r.source)
}

// sourceOf identifies a document by what a move does not change, its partition
// key and its id, in 12 bytes of a hash.
func sourceOf(partition resolver.Key, id json.RawMessage) string {
	sum := sha256.Sum256(append([]byte(partition.String()), id...))
	return base64.RawStdEncoding.EncodeToString(sum[:12])
}

// keepsPlace reports whether the rows of a statement keep their order across a
// move: it has an ORDER BY, its documents can be identified, and it does not
// order by properties that change when an item is copied.
func (s *statement) keepsPlace() bool {
	if len(s.order) == 0 || s.root == "" {
		return false
	}
	for _, term := range s.order {
		tokens, err := lex(term.text, nil)
		if err != nil {
			return false
		}
		for _, t := range tokens {
			name := term.text[t.start:t.end]
			if t.symbol == '"' {
				name = t.text
			}
			if systemProperties[name] {
				return false
			}
		}
	}
	return true
}

// follow continues a query from its place in the containers of the current plan,
// after a move has removed what it was reading. It skips the rows of each
// container up to the place. A query without a place cannot follow: its rows
// come in the order in which a container received its items, and a copy arrives
// later.
func (p *Pager) follow(routing *resolver.Routing) error {
	now, err := readingOf(routing)
	if err != nil {
		return err
	}
	if p.place.last == nil || p.place.lost || now.both {
		return ErrRestart
	}
	targets, err := routing.ForRead(p.selection)
	if err != nil {
		return err
	}
	now.alone = len(targets) == 1
	p.reading, p.routing, p.streams = now, routing, nil
	for _, t := range targets {
		p.streams = append(p.streams, &stream{target: t, far: true, last: p.place.last, ties: slices.Clone(p.place.given)})
	}
	return p.merge()
}
