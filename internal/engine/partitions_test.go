package engine_test

import (
	"testing"

	"github.com/decandb/decan/internal/engine"
)

// An operation that names a tenant costs the same with many physical partitions as
// with few. One that names none costs more with each of them (S39, S40).
func TestChargesOverManyPartitions(t *testing.T) {
	t.Parallel()
	few, many := 8, 200
	if engine.RaceDetector {
		many = 50
	}
	before, link := tenants(t, few)
	after, same := tenants(t, many)
	for _, c := range []struct {
		where  string
		fanOut bool
	}{
		{`c.TenantId = "t1" AND c.UserId = "u2" AND c.SessionId = "s3"`, false},
		{`c.TenantId = "t1" AND c.UserId = "u2"`, false},
		{`c.TenantId = "t1"`, false},
		{`c.TenantId = "t1" AND c.SessionId = "s3"`, false},
		{`c.UserId = "u2"`, true},
		{`c.SessionId = "s3"`, true},
	} {
		text := "SELECT * FROM c WHERE " + c.where
		cheap, rows := before.charged(t, link, text, -1)
		dear, found := after.charged(t, same, text, -1)
		if rows == 0 || rows != found {
			t.Errorf("%s: %d rows of %d partitions, %d of %d", c.where, rows, few, found, many)
		}
		if !c.fanOut {
			if dear != cheap {
				t.Errorf("%s costs %.2f RU with %d partitions and %.2f with %d", c.where, cheap, few, dear, many)
			}
			continue
		}
		// Each additional partition costs two to three units.
		if each := (dear - cheap) / float64(many-few); each < 2 || each > 3 {
			t.Errorf("%s costs %.2f RU with %d partitions and %.2f with %d: %.2f for each", c.where, cheap, few, dear, many, each)
		}
	}
}
