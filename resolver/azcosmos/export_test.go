package azcosmos

import (
	"context"
	"net/http"
	"time"

	"github.com/decandb/decan/resolver"
)

// SetSleep replaces the function with which the client waits. Call it before the
// first use.
func (c *Client) SetSleep(sleep func(ctx context.Context, d time.Duration) error) { c.sleep = sleep }

// SetRenewInterval sets the interval at which the mover renews its lease. Call
// it before the first step.
func (m *Mover) SetRenewInterval(d time.Duration) { m.renewEvery = d }

// Sign sets the headers of a request about scripts.
func (r RESTScripts) Sign(request *http.Request, key []byte, link string, kind resolver.ScriptKind) {
	r.sign(request, key, link, kind)
}

// EqualDocuments and DocumentHash export the comparison of items and copies.
var (
	EqualDocuments = equalDocuments
	DocumentHash   = documentHash
)

// ParseStatement exports the parser for fuzzing.
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

// ParsePosition exports the parser of continuation tokens for fuzzing.
func ParsePosition(token string) error {
	_, err := parsePosition(token)
	return err
}

// CompareValues orders two JSON values as ORDER BY does.
func CompareValues(a, b string) int {
	return parseOrderValue([]byte(a)).compare(parseOrderValue([]byte(b)))
}

// Canonical returns the bytes by which DISTINCT compares JSON values.
func Canonical(text string) string { return string(canonical([]byte(text))) }
