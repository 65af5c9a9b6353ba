package azcosmos

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/decandb/decan/resolver"
)

// place is where a query with ORDER BY stands among the rows of all containers: what
// comes before its last row was given, and of the rows that are equal to it those of the
// documents that it lists. It names no container, so it means the same under any plan.
type place struct {
	last  []orderValue // of the last row; nil before the first
	given []string     // the sources of the rows given that are equal to it
	lost  bool         // some of them cannot be told apart, or there are too many
}

// placeRowsMax is how many equal rows a place tells apart.
const placeRowsMax = 2048

// note takes down that a row was given.
func (p *place) note(terms []orderTerm, r row) {
	if p.last == nil || compareRows(terms, p.last, r.order) != 0 {
		*p = place{last: r.order}
	}
	// How a service orders arrays among each other, and objects, is not known here.
	composite := slices.ContainsFunc(r.order, func(v orderValue) bool { return v.rank >= rankArray })
	if p.lost = p.lost || composite || r.source == "" || len(p.given) == placeRowsMax; p.lost {
		p.given = nil
		return
	}
	p.given = append(p.given, r.source)
}

// sourceOf tells documents apart by what a move leaves as it is: the partition key and the
// id, in 12 bytes of a hash.
func sourceOf(partition resolver.Key, id json.RawMessage) string {
	sum := sha256.Sum256(append([]byte(partition.String()), id...))
	return base64.RawStdEncoding.EncodeToString(sum[:12])
}

// keepsPlace reports whether a move leaves the rows of a statement in their order: it has
// one, of documents that can be told apart, and not by what the service sets anew when an
// item is copied.
func (s *statement) keepsPlace() bool {
	if len(s.order) == 0 || s.root == "" {
		return false
	}
	for _, term := range s.order {
		tokens, err := lex(term.text)
		if err != nil {
			return false
		}
		for _, t := range tokens {
			name := term.text[t.start:t.end]
			if t.symbol == '"' {
				name, _ = unquote(name)
			}
			if systemProperties[name] {
				return false
			}
		}
	}
	return true
}

// follow has a query go on from its place in the containers of the plan in force, after
// what it began with is gone. Each of them is read from its beginning up to the place
// without giving anything. A query without a place cannot be followed: rows come in the
// order in which a container got its items, and a copy is a new one.
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
	p.reading, p.routing, p.strands = now, routing, nil
	for _, t := range targets {
		p.strands = append(p.strands, &strand{target: t, far: true, last: p.place.last, ties: slices.Clone(p.place.given)})
	}
	return p.merge()
}
