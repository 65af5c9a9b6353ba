package engine

import (
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// reading is how a request wants to read: at which level, and not behind what.
type reading struct {
	level  resource.Consistency
	tokens resource.SessionTokens
}

// reading parses the options of a request: 400 for a level that is unknown or
// stronger than the account's, and for a session token that cannot be read.
func (e *Engine) reading(o Options) (reading, error) {
	r := reading{level: e.account.Consistency}
	if o.Consistency != "" {
		asked, err := resource.ParseConsistency(o.Consistency)
		if err != nil {
			return r, err
		}
		if !e.account.Consistency.Allows(asked) {
			return r, status.BadRequest("The consistency level %s is stronger than %s, the level of the account. Requests may only weaken it.", asked, e.account.Consistency)
		}
		r.level = asked
	}
	tokens, err := resource.ParseSession(o.Session)
	if err != nil {
		return r, err
	}
	// The weaker levels promise nothing about what the client has seen, and the
	// stronger ones read the latest anyway.
	if r.level <= resource.Session {
		r.tokens = tokens
	}
	return r, nil
}

// behind returns the LSN that the partition must have reached for this client,
// by its own token or one of an ancestor; zero when any will do.
func (r reading) behind(p resource.Partition) resource.LSN {
	if r.tokens.IsZero() {
		return 0
	}
	if len(p.Parents) == 0 {
		lsn, _ := r.tokens.For(p.ID)
		return lsn
	}
	lsn, _ := r.tokens.For(append([]resource.PartitionID{p.ID}, p.Parents...)...)
	return lsn
}
