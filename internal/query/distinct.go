package query

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// uniqueRows are the distinct rows that a merge has returned, as hashes of their
// values.
type uniqueRows struct {
	seen  map[[16]byte]struct{}
	again int64 // number of rows of earlier pages, which are skipped now
	room  int64 // bytes

	allowance allowance

	key []byte
	sum [16]byte // of the last row checked
}

// parseRow parses a row of a query, or a stored value. A row contains documents, so it
// may be nested more deeply than a document. If it is too deep to be parsed again, the
// error is a BadRequest.
func parseRow(text string) (value.Value, error) {
	v, err := value.ParseDeep(text)
	if syntax := new(value.SyntaxError); errors.As(err, &syntax) && syntax.Deep {
		return value.Undefined(), status.BadRequest("A row of the query contains %s.", syntax.Message)
	}
	if err != nil {
		return value.Undefined(), fmt.Errorf("not JSON: %w", err)
	}
	return v, nil
}

// fresh reports whether no equal row was returned.
func (u *uniqueRows) fresh(json []byte) (bool, error) {
	v, err := parseRow(string(json))
	if err != nil {
		return false, err
	}
	u.key = value.AppendKey(u.key[:0], v)
	sum := sha256.Sum256(u.key)
	u.sum = [16]byte(sum[:16])
	_, seen := u.seen[u.sum]
	most := cmp.Or(max(u.room, 0), memoryDefault)
	held := int64(len(u.seen)) * (entrySize + 16)
	if held > most {
		return false, TooMuchMemory(most)
	}
	return !seen, u.allowance.cover(held)
}

// note records the last row checked as returned.
func (u *uniqueRows) note() { u.seen[u.sum] = struct{}{} }
