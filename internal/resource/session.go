package resource

import (
	"math"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/status"
)

// SessionToken returns "<partition>:-1#<lsn>", the token of a client that has
// seen the LSN in that partition. The -1 is the version of the account's write
// topology, which never changes with one region.
func (id PartitionID) SessionToken(lsn LSN) string {
	room := make([]byte, 0, len("4294967295:-1#18446744073709551615"))
	return string(id.AppendSessionToken(room, lsn))
}

// AppendSessionToken appends the result of [PartitionID.SessionToken] to dst.
func (id PartitionID) AppendSessionToken(dst []byte, lsn LSN) []byte {
	dst = strconv.AppendUint(dst, uint64(id), 10)
	dst = append(dst, ":-1#"...)
	return strconv.AppendUint(dst, uint64(lsn), 10)
}

// SessionTokens is what a client has seen of some partitions: reads must not
// return an older state. The zero value means nothing.
type SessionTokens struct {
	parts []sessionPart
}

type sessionPart struct {
	id  PartitionID
	lsn LSN
}

// topologyVersion is the only version in the tokens of an account with one
// region.
const topologyVersion = -1

// ParseSession parses a session token as clients send it: the tokens of one or
// more partitions, separated by commas, each in the form "id:lsn" (version 1) or
// "id:version#lsn", optionally followed by "#region=lsn" parts, which have no
// meaning with one region. Empty text is the zero value. The error is status
// 400.
func ParseSession(text string) (SessionTokens, error) {
	if strings.TrimSpace(text) == "" {
		return SessionTokens{}, nil
	}
	parts := make([]sessionPart, 0, 1+strings.Count(text, ","))
	for token := range strings.SplitSeq(text, ",") {
		part, ok := parseSessionPart(strings.TrimSpace(token))
		if !ok {
			return SessionTokens{}, status.BadRequest("The session token provided '%s' is invalid.", clip(text))
		}
		parts = append(parts, part)
	}
	return SessionTokens{parts}, nil
}

func parseSessionPart(token string) (sessionPart, bool) {
	idText, rest, found := strings.Cut(token, ":")
	id, err := strconv.ParseUint(idText, 10, 32)
	if !found || err != nil {
		return sessionPart{}, false
	}
	part := sessionPart{id: PartitionID(id)}
	first, rest, isSecond := strings.Cut(rest, "#")
	if !isSecond {
		lsn, ok := parseLSN(first)
		part.lsn = lsn
		return part, ok
	}
	version, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return sessionPart{}, false
	}
	lsnText, regions, hasRegions := strings.Cut(rest, "#")
	lsn, ok := parseLSN(lsnText)
	if !ok || hasRegions && !validRegions(regions) {
		return sessionPart{}, false
	}
	if version > topologyVersion {
		// The token of another topology: no partition here satisfies it.
		lsn = math.MaxUint64
	}
	part.lsn = lsn
	return part, true
}

// parseLSN parses an LSN. Clients that have seen nothing may send -1.
func parseLSN(text string) (LSN, bool) {
	if text == "-1" {
		return 0, true
	}
	lsn, err := strconv.ParseUint(text, 10, 63)
	return LSN(lsn), err == nil
}

func validRegions(text string) bool {
	for region := range strings.SplitSeq(text, "#") {
		id, lsn, found := strings.Cut(region, "=")
		if _, err := strconv.ParseUint(id, 10, 32); !found || err != nil {
			return false
		}
		if _, ok := parseLSN(lsn); !ok {
			return false
		}
	}
	return true
}

// IsZero reports whether the client has seen nothing.
func (s SessionTokens) IsZero() bool { return len(s.parts) == 0 }

// For returns the highest LSN that the client has seen in the given partitions,
// and whether it has seen any. Pass a partition and its ancestors: a child
// starts above all of them, so the LSN of a parent is a lower bound for the
// child. It ignores tokens of other partitions.
//
// For a token that no partition here can have issued it returns the highest
// possible LSN, which no partition reaches.
func (s SessionTokens) For(ids ...PartitionID) (LSN, bool) {
	var highest LSN
	found := false
	for _, part := range s.parts {
		for _, id := range ids {
			if part.id == id {
				highest, found = max(highest, part.lsn), true
			}
		}
	}
	return highest, found
}
