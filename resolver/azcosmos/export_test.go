package azcosmos

import (
	"context"
	"time"
)

// SetSleep has the client wait by a function of the test, before its first use.
func (c *Client) SetSleep(sleep func(ctx context.Context, d time.Duration) error) { c.sleep = sleep }

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
