// Package auth says who is calling and what they may do.
//
// A door gathers [Credentials] from a request; [Verifier.Verify] turns them into
// a [Caller], or into the status that the client gets; the engine asks
// [Caller.Allow] before it does anything. The credentials are those of the
// NoSQL protocol: a signature made with one of the account's two keys, in
// payload.go. [Sign] makes one, for tests and the command line.
//
// # Invariants
//
// Secrets are compared in constant time. An error says what the server would
// have signed, never with what. The zero Caller may do nothing.
//
// Resource tokens and bearer tokens are refused by name until the issues that
// bring them. The package knows no header by name and has no clock.
//
// Page: docs/architecture.md, "Floor 1: pure machines".
package auth

import (
	"strings"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Credentials is what a request says about who sends it and what it is about,
// as far as signatures cover it.
type Credentials struct {
	Method string // of HTTP, in any case

	// ResourceType is the last type segment of the path: "dbs", "colls",
	// "docs", ...; empty for the account.
	ResourceType string

	// ResourceLink is the link of the resource, or of its parent when the
	// request addresses a feed. Segments are percent-decoded, no slash is at
	// its ends; empty for the account and the feeds of databases and offers.
	ResourceLink string

	Authorization string // raw header
	Date          string // x-ms-date header
	HTTPDate      string // Date header, which counts when Date is empty
}

// Verifier verifies credentials for one account. It is immutable and safe for
// concurrent use. Nil and the zero Verifier refuse everybody.
type Verifier struct {
	signers []*signer // primary key first
	skew    time.Duration
}

// NewVerifier returns a verifier for the keys. A signature is good for the time
// skew before and after its date, both ends included; zero or less is for ever.
// The error names the key that cannot be used.
func NewVerifier(keys Keys, skew time.Duration) (*Verifier, error) {
	parsed, err := keys.parse()
	if err != nil {
		return nil, err
	}
	v := &Verifier{skew: skew}
	for _, key := range parsed {
		v.signers = append(v.signers, newSigner(key))
	}
	return v, nil
}

// resourceTypes are the types that a signature can be about. It never changes.
var resourceTypes = map[string]bool{
	"": true, "dbs": true, "colls": true, "docs": true, "pkranges": true, "offers": true,
	"sprocs": true, "triggers": true, "udfs": true, "users": true, "permissions": true,
	"conflicts": true, "attachments": true, "media": true, "clientencryptionkeys": true, "schemas": true,
	"snapshots": true, "udts": true, "roledefinitions": true, "roleassignments": true,
	"addresses": true, "operations": true,
}

// Verify says who sent the credentials. It keeps nothing of them. The errors,
// in the order of checking:
//
//   - 401/5000: there is no authorization
//   - 401/5001: it cannot be read, or is longer than its kind may be
//   - 401: it is a resource token, which is not supported yet
//   - 401/5002: it is a bearer token, which is not supported yet
//   - 401: the request has no date, or one that cannot be read
//   - 401: the signature is another; the message shows the text the server signed
//   - 400: the resource type is none that a signature can be about
//   - 403: the date is too far from now; the message shows the window
func (v *Verifier) Verify(c Credentials, now time.Time) (Caller, error) {
	if v == nil || len(v.signers) == 0 {
		return Caller{}, status.Unauthorized(0, "No account key is configured.")
	}
	if c.Authorization == "" {
		return Caller{}, status.Unauthorized(status.SubAuthorizationMissing, "Required Header authorization is missing. Ensure a valid Authorization token is passed.")
	}
	primary := v.signers[0]
	s := primary.get()
	defer primary.put(s)
	signature, err := s.parse(c.Authorization)
	if err != nil {
		return Caller{}, err
	}
	date, err := c.date()
	if err != nil {
		return Caller{}, err
	}
	if !s.made(signature, &c, c.ResourceLink) && !v.matchesOther(signature, &c) {
		return Caller{}, mismatch(&c)
	}
	if !resourceTypes[c.ResourceType] && !resourceTypes[strings.ToLower(c.ResourceType)] {
		return Caller{}, status.BadRequest("The resource type '%s' is not known.", clip(c.ResourceType, nameCharsShown))
	}
	// Only who has a key learns the server's time.
	if err := v.checkDate(date, now); err != nil {
		return Caller{}, err
	}
	return Caller{kind: Master}, nil
}

// matchesOther tries what clients sign less often than the link with the
// primary key: the link with the secondary key, then the RID alone with both.
// RIDs come last since few requests use them, and finding out takes longest.
func (v *Verifier) matchesOther(signature []byte, c *Credentials) bool {
	for _, signer := range v.signers[1:] {
		if signer.made(signature, c, c.ResourceLink) {
			return true
		}
	}
	rid, ok := ridLink(c.ResourceLink)
	if !ok {
		return false
	}
	for _, signer := range v.signers {
		if signer.made(signature, c, rid) {
			return true
		}
	}
	return false
}

// ridLink returns what takes the place of the link in a signature when the
// resource is addressed by RIDs: the last one, in lower case. It reports false
// when some id in the link is no RID.
func ridLink(link string) (string, bool) {
	last := ""
	isID := false
	for segment := range strings.SplitSeq(link, "/") {
		if isID {
			if _, err := resource.ParseRID(segment); err != nil {
				return "", false
			}
			last = segment
		}
		isID = !isID
	}
	// A link of names and ids alternating ends in an id.
	return strings.ToLower(last), last != "" && !isID
}

// date returns the time in the date header that the signature covers.
func (c Credentials) date() (time.Time, error) {
	text := c.Date
	if text == "" {
		text = c.HTTPDate
	}
	if text == "" {
		return time.Time{}, status.Unauthorized(0, "The request has no date. Send x-ms-date, or Date, as in 'Tue, 01 Nov 1994 08:12:31 GMT'.")
	}
	date, ok := parseDate(text)
	if !ok {
		return time.Time{}, status.Unauthorized(0, "The date '%s' of the request cannot be read. Write it as in 'Tue, 01 Nov 1994 08:12:31 GMT'.", clip(text, nameCharsShown))
	}
	return date, nil
}

// parseDate reads the date of HTTP in any case, and with the zone name UTC,
// which some clients print.
func parseDate(text string) (time.Time, bool) {
	const (
		layout = "Mon, 02 Jan 2006 15:04:05"
		zone   = " GMT"
	)
	// time.Parse would also take fractions of a second, however long.
	if len(text) != len(layout)+len(zone) {
		return time.Time{}, false
	}
	name := text[len(layout):]
	if !strings.EqualFold(name, zone) && !strings.EqualFold(name, " UTC") {
		return time.Time{}, false
	}
	date, err := time.Parse(layout, text[:len(layout)])
	return date, err == nil
}

func (v *Verifier) checkDate(date, now time.Time) error {
	if v.skew <= 0 {
		return nil
	}
	if age := now.Sub(date); age <= v.skew && age >= -v.skew {
		return nil
	}
	const layout = "2006-01-02 15:04:05Z"
	return status.Forbidden(0, "The authorization token is not valid at the current time. Its date is %s; the server accepts dates from %s to %s. Set the clock of the client.",
		date.UTC().Format(layout), now.Add(-v.skew).UTC().Format(layout), now.Add(v.skew).UTC().Format(layout))
}

func mismatch(c *Credentials) error {
	payload := clip(string(appendPayload(nil, c, c.ResourceLink)), payloadCharsShown)
	return status.Unauthorized(0, "The input authorization token can't serve the request. The wrong key is being used, or the expected payload is not built as per the protocol. Server used the following payload to sign: '%s'", payload)
}

// How much of what a caller sent a message shows, in characters. Every payload
// of a request that names resources within their limits is shown in full.
const (
	nameCharsShown    = 64
	payloadCharsShown = 2 << 10
)

// clip keeps text that a caller sent from filling a message.
func clip(s string, charsMax int) string {
	n := 0
	for i := range s {
		if n++; n > charsMax {
			return s[:i] + "..."
		}
	}
	return s
}
