package azcosmos

import (
	"context"
	"net/http"
	"time"

	"github.com/decandb/decan/resolver"
)

// SetSleep has the client wait by a function of the test, before its first use.
func (c *Client) SetSleep(sleep func(ctx context.Context, d time.Duration) error) { c.sleep = sleep }

// SetPulse has the mover save its hold of a move at an interval of the test, before its
// first step.
func (m *Mover) SetPulse(d time.Duration) { m.pulse = d }

// Sign puts the headers on a request about scripts.
func (r RESTScripts) Sign(request *http.Request, key []byte, link string, kind resolver.ScriptKind) {
	r.sign(request, key, link, kind)
}

// EqualDocuments and DocumentHash open the comparison of items and copies.
var (
	EqualDocuments = equalDocuments
	DocumentHash   = documentHash
)

// ParseStatement opens the parser to fuzzing.
func ParseStatement(text string) error {
	s, err := parseStatement(text, nil)
	if err == nil {
		_, err = s.aggregates()
	}
	if err == nil && (s.star || len(s.columns) > 0) {
		s.plain()
		s.envelope(nil, true)
	}
	return err
}

// ParsePosition opens the parser of continuation tokens to fuzzing.
func ParsePosition(token string) error {
	_, err := parsePosition(token)
	return err
}

// CompareValues orders two JSON values as ORDER BY does.
func CompareValues(a, b string) int {
	return parseOrderValue([]byte(a)).compare(parseOrderValue([]byte(b)))
}

// Canonical returns the bytes by which DISTINCT knows a JSON value.
func Canonical(text string) string { return string(canonical([]byte(text))) }
