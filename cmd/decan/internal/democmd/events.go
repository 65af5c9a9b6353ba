package democmd

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// demoEvent is an event of a user's session with a tenant, S31.
type demoEvent struct {
	ID         string `json:"id"`
	TenantID   string `json:"TenantId"`
	UserID     string `json:"UserId"`
	SessionID  string `json:"SessionId"`
	TenantUser string `json:"TenantUser,omitempty"` // the synthetic key, where one is used
	Kind       string `json:"kind"`
	Details    string `json:"details"`
}

const (
	demoTenants     = 40 // the small ones
	demoUserEvents  = 6  // in a row of one user
	demoVisitEvents = 3  // of a session
)

// demoEvents returns count events, the same ones each time. Six of ten belong to
// Contoso, which has thousands of users at the default count, and the others to
// Microsoft and many small tenants. The events of a user follow each other, so that
// the first users of each tenant are written before any limit is reached.
func demoEvents(count int) []demoEvent {
	random := rand.New(rand.NewPCG(31, 31))
	kinds := []string{"sign-in", "click", "payment"}
	events := make([]demoEvent, 0, count)
	for user := 0; len(events) < count; user++ {
		tenant, id := demoTenant(random, user), demoID(random)
		for i := range min(demoUserEvents, count-len(events)) {
			events = append(events, demoEvent{
				ID:        demoID(random),
				TenantID:  tenant,
				UserID:    id,
				SessionID: fmt.Sprintf("0000-11-%04d", i/demoVisitEvents),
				Kind:      kinds[i%len(kinds)],
			})
		}
	}
	return events
}

// Large tenants, as the service's documentation names them.
const (
	demoLargest = "Contoso"
	demoLarge   = "Microsoft"
)

// demoTenant draws the tenant of the next user. Each of the first users belongs to
// another tenant, so that every tenant has one.
func demoTenant(random *rand.Rand, user int) string {
	share := random.IntN(100)
	small := fmt.Sprintf("tenant-%02d", random.IntN(demoTenants))
	switch {
	case user == 0:
		return demoLargest
	case user == 1:
		return demoLarge
	case user-2 < demoTenants:
		return fmt.Sprintf("tenant-%02d", user-2)
	case share < 60:
		return demoLargest
	case share < 66:
		return demoLarge
	}
	return small
}

// demoID draws an id in the form of a GUID.
func demoID(random *rand.Rand) string {
	a, b := random.Uint64(), random.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xFFFF, a&0xFFFF, b>>48, b&0xFFFFFFFFFFFF)
}

// demoDetails is the text from which an event takes as much as it needs to have the
// requested size.
var demoDetails = strings.Repeat("page=/orders referrer=/start screen=1280x720 ", 1+demoVolume/demoDocumentsMin/45)

// body returns the JSON of an event, about size bytes of it.
func (e demoEvent) body(size int) ([]byte, error) {
	const fixed = 240 // ids, names and quotes
	e.Details = demoDetails[:min(max(size-fixed, 0), len(demoDetails))]
	return json.Marshal(e)
}
