package resource

import (
	"strings"

	"github.com/decandb/decan/internal/status"
)

var consistencyNames = [...]string{"Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"}

// String returns the name used on the wire.
func (c Consistency) String() string {
	if int(c) >= len(consistencyNames) {
		return "Consistency(?)"
	}
	return consistencyNames[c]
}

// ParseConsistency parses the name of a level in any letter case. The error is
// status 400.
func ParseConsistency(text string) (Consistency, error) {
	for level, name := range consistencyNames {
		if strings.EqualFold(text, name) {
			return Consistency(level), nil
		}
	}
	return 0, status.BadRequest("The consistency level '%s' is not known. Use one of %s.", clip(text), strings.Join(consistencyNames[:], ", "))
}

// Allows reports whether a request may ask for a level in an account whose
// default level is c: a request may only weaken it.
func (c Consistency) Allows(asked Consistency) bool { return asked >= c }

// DoublesReads reports whether reads at this level cost twice.
func (c Consistency) DoublesReads() bool { return c <= BoundedStaleness }
