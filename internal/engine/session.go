package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// reading is the consistency of a read: its level, and the LSNs that it must
// have reached.
type reading struct {
	level  resource.Consistency
	tokens resource.SessionTokens
	until  time.Time // when the wait for partitions to reach the tokens ends
}

// reading parses the options of a request. The error is 400 for a level that is
// unknown or stronger than the account's, and for an invalid session token.
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
	// stronger ones always show at least what a token requires.
	if r.level <= resource.Session && !tokens.IsZero() {
		r.tokens = tokens
		// This is the machine's clock, not Config.Now: it bounds a wait and sets
		// no time of a document.
		r.until = time.Now().Add(e.limits.SessionWait)
	}
	return r, nil
}

// Pauses before a partition that has not reached an LSN is asked again. They
// double from the first to the longest.
const (
	behindPause    = time.Millisecond
	behindPauseMax = 10 * time.Millisecond
)

// retryBehind calls ask, and again after a pause while the partition has not reached
// lsn, as [reading.again] decides.
func retryBehind[T any](ctx context.Context, how *reading, lsn resource.LSN, ask func() (T, error)) (T, error) {
	answer, err := ask()
	for pause := time.Duration(0); how.again(ctx, err, lsn, &pause); {
		answer, err = ask()
	}
	return answer, err
}

// again pauses and reports true if a partition that has not reached an LSN should
// be asked again. err is its answer; pause is the length of the previous pause,
// which again updates. It reports false for an LSN that cannot exist, and when
// the time is over.
func (r *reading) again(ctx context.Context, err error, lsn resource.LSN, pause *time.Duration) bool {
	if err == nil || lsn == math.MaxUint64 || status.CodeOf(err) != status.CodeNotFound || status.SubOf(err) != status.SubReadSessionNotAvailable {
		return false
	}
	left := time.Until(r.until)
	if left <= 0 {
		return false
	}
	*pause = min(max(2**pause, behindPause), behindPauseMax)
	return pacing.Sleep(ctx, min(*pause, left)) == nil
}

// requiredLSN returns the LSN that the partition must have reached for this
// client, according to its own token or one of an ancestor; zero if there is
// none.
func (r reading) requiredLSN(p resource.Partition) resource.LSN {
	if r.tokens.IsZero() {
		return 0
	}
	var lsn resource.LSN
	if len(p.Parents) == 0 {
		lsn, _ = r.tokens.For(p.ID)
	} else {
		lsn, _ = r.tokens.For(append([]resource.PartitionID{p.ID}, p.Parents...)...)
	}
	if lsn == cluster.FirstLSN {
		return 0
	}
	return lsn
}

// shownLSN is an LSN as clients see it. A partition that an earlier version has made, and
// that was never written, is at 0, which clients of direct mode take for no LSN.
func shownLSN(lsn resource.LSN) resource.LSN { return max(lsn, cluster.FirstLSN) }

// sessionBytesMax bounds the session token of an answer, so that its header stays
// below the 8,190 bytes that some HTTP clients accept for one header, and all
// headers below the 16 KB that others accept. It is sufficient for about 600
// partitions.
const sessionBytesMax = 8000

// seen has the LSNs reached by the partitions of a page, ordered by id. The zero
// value is empty.
type seen []seenPartition

type seenPartition struct {
	id  resource.PartitionID
	lsn resource.LSN
}

// reached records the LSN that a partition has reached. It is called each time
// that the partition is asked.
func (s *seen) reached(id resource.PartitionID, lsn resource.LSN) {
	lsn = shownLSN(lsn)
	at, found := slices.BinarySearchFunc(*s, id, func(p seenPartition, id resource.PartitionID) int { return cmp.Compare(p.id, id) })
	if !found {
		*s = slices.Insert(*s, at, seenPartition{id: id})
	}
	(*s)[at].lsn = max((*s)[at].lsn, lsn)
}

// token returns the session token of the page. Without partitions it is "". As in the
// service it is the token of one partition: here that with the greatest id. With list
// it has the tokens of all, joined by commas, as clients send them; those beyond
// sessionBytesMax are left out, those of the greatest ids.
func (s seen) token(list bool) string {
	if len(s) == 0 {
		return ""
	}
	if last := s[len(s)-1]; len(s) == 1 || !list {
		return last.id.SessionToken(last.lsn)
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
