package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// reading is how a request wants to read: at which level, and not behind what.
type reading struct {
	level  resource.Consistency
	tokens resource.SessionTokens
	until  time.Time // by when the partitions have to be as far as the tokens
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
	// stronger ones show at least as much as a token asks for.
	if r.level <= resource.Session && !tokens.IsZero() {
		r.tokens = tokens
		// The clock is that of the machine: it bounds waiting, and stamps nothing.
		r.until = time.Now().Add(e.limits.SessionWait)
	}
	return r, nil
}

// The first pause before a partition that is behind is asked again; they double
// up to the longest.
const (
	behindPause    = time.Millisecond
	behindPauseMax = 10 * time.Millisecond
)

// caughtUp calls ask, and again after a pause while the partition is behind lsn, as
// [reading.again] decides.
func caughtUp[T any](ctx context.Context, how *reading, lsn resource.LSN, ask func() (T, error)) (T, error) {
	answer, err := ask()
	for pause := time.Duration(0); how.again(ctx, err, lsn, &pause); {
		answer, err = ask()
	}
	return answer, err
}

// again reports whether to ask a partition once more that could not answer at an
// LSN, after a pause: it may be catching up. err is its answer, and pause the one
// before, which again keeps. There is no hope for an LSN that nobody has given
// out, and none when the time is over.
func (r *reading) again(ctx context.Context, err error, lsn resource.LSN, pause *time.Duration) bool {
	if err == nil || lsn == math.MaxUint64 || status.CodeOf(err) != status.CodeNotFound || status.SubOf(err) != status.SubReadSessionNotAvailable {
		return false
	}
	left := time.Until(r.until)
	if left <= 0 {
		return false
	}
	*pause = min(max(2**pause, behindPause), behindPauseMax)
	timer := time.NewTimer(min(*pause, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
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

// sessionBytesMax bounds the session token of an answer, so that its header stays
// below the 8,190 bytes that some HTTP clients take of one, and all headers below
// the 16 KB that others take: about 600 partitions have room.
const sessionBytesMax = 8000

// seen is how far the partitions have come that a page is made of, by their ids.
// The zero value has none.
type seen []seenPartition

type seenPartition struct {
	id  resource.PartitionID
	lsn resource.LSN
}

// reached notes how far a partition has come, each time that it is asked.
func (s *seen) reached(id resource.PartitionID, lsn resource.LSN) {
	at, found := slices.BinarySearchFunc(*s, id, func(p seenPartition, id resource.PartitionID) int { return cmp.Compare(p.id, id) })
	if !found {
		*s = slices.Insert(*s, at, seenPartition{id: id})
	}
	(*s)[at].lsn = max((*s)[at].lsn, lsn)
}

// token returns the session token of the page: that of each partition, joined by
// commas, as clients send the tokens of several partitions. Without partitions
// it is "". Those that have no room are left out, the greatest ids first.
func (s seen) token() string {
	if len(s) == 1 {
		return s[0].id.SessionToken(s[0].lsn)
	}
	var token []byte
	for i, p := range s {
		whole := len(token)
		if i > 0 {
			token = append(token, ',')
		}
		if token = p.id.AppendSessionToken(token, p.lsn); len(token) > sessionBytesMax {
			return string(token[:whole])
		}
	}
	return string(token)
}
