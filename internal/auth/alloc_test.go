//go:build !race

// With the race detector, pools drop objects at random.

package auth

import (
	"testing"
	"time"
)

// A request that is signed in the common way allocates no memory.
func TestVerifyDoesNotAllocate(t *testing.T) {
	v := newVerifier(t, Keys{Primary: primaryKey, Secondary: secondaryKey}, 15*time.Minute)
	for _, key := range []string{primaryKey, secondaryKey} {
		const link = "dbs/db/colls/c/docs/item-1"
		c := benchmarkCredentials(key, link, link)
		allocs := testing.AllocsPerRun(1000, func() {
			if _, err := v.Verify(c, testNow); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%v allocations", allocs)
		}
	}
}
