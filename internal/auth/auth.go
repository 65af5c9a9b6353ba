// Package auth says who is calling and what they may do.
//
// A door gathers [Credentials] from a request; [Verifier.Verify] turns them into
// a [Caller], or into the status that the client gets; the engine tells the
// caller what it needs to know, asks [Caller.May] before it does anything, and
// keeps to the partition key of [Caller.Grant]. The credentials are those of the
// NoSQL protocol: a signature made with one of the account's four keys
// (payload.go), a resource token that [Verifier.Mint] made (grant.go), or a
// bearer token of a configured issuer (bearer.go, keyset.go). [Sign] makes a
// signature, for tests and the command line.
//
// # Invariants
//
// Secrets are compared in constant time. An error says what the server would
// have signed, never with what, and shows nothing of a token. The zero Caller may
// do nothing. What a token or a role does not name is refused.
//
// The package knows no header by name, has no clock and looks up nothing: what
// a permission or a role says today is the engine's to find.
//
// Page: docs/access.md
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

	// Management says that the request is about the account and not its data: an
	// account key opens that always.
	Management bool

	Authorization string // raw header
	Date          string // x-ms-date header
	HTTPDate      string // Date header, which counts when Date is empty
}

// Verifier verifies credentials for one account. It is immutable and safe for
// concurrent use. Nil and the zero Verifier refuse everybody.
type Verifier struct {
	keys    Keys
	signers []*signer // primary key first
	skew    time.Duration
	bearer  BearerRules
}

// NewVerifier returns a verifier for the keys. A signature is valid for the time
// skew before and after its date, both ends included; zero or less is forever.
// The error names the key that cannot be used.
func NewVerifier(keys Keys, skew time.Duration) (*Verifier, error) {
	signers, err := keys.signers()
	if err != nil {
		return nil, err
	}
	return &Verifier{keys: keys, signers: signers, skew: skew}, nil
}

// WithBearer returns a verifier that accepts bearer tokens, too.
func (v *Verifier) WithBearer(rules BearerRules) *Verifier {
	changed := *v
	changed.bearer = rules
	return &changed
}

// WithKeys returns a verifier with other keys. The error names the key that
// cannot be used.
func (v *Verifier) WithKeys(keys Keys) (*Verifier, error) {
	signers, err := keys.signers()
	if err != nil {
		return nil, err
	}
	changed := *v
	changed.keys, changed.signers = keys, signers
	return &changed, nil
}

// Keys returns the account's keys, none for nil.
func (v *Verifier) Keys() Keys {
	if v == nil {
		return Keys{}
	}
	return v.keys
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
//   - 401/5202: it is a key's or a resource token, and neither is accepted
//   - of a resource token, 401: this account has not made it; 403: it has expired
//   - of a bearer token, 401/5002 to 5011: none are accepted, or not this one
//   - 401: the request has no date, or one that cannot be read
//   - 401: the signature is another; the message shows the text the server signed
//   - 400: the resource type is none that a signature can be about
//   - 403: the date is too far from now; the message shows the window
//
// A caller with a token is to be told its permission ([Caller.WithPermission]),
// one with a bearer token its roles ([Caller.WithRoles]): without that it may do
// nothing.
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
	kind, signature, err := s.parse(c.Authorization)
	if err != nil {
		return Caller{}, err
	}
	if v.bearer.Only && kind != bearerForm && !c.Management {
		return Caller{}, status.Unauthorized(status.SubLocalAuthDisabled, "Local Authorization is disabled. Use an AAD token to authorize all requests.")
	}
	switch kind {
	case resourceForm:
		return v.verifyToken(string(signature), now)
	case bearerForm:
		return v.verifyBearer(string(signature), now)
	}
	return v.verifySignature(s, signature, &c, now)
}

func (v *Verifier) verifySignature(s *scratch, signature []byte, c *Credentials, now time.Time) (Caller, error) {
	date, err := c.date()
	if err != nil {
		return Caller{}, err
	}
	caller := Caller{kind: Master}
	if !s.made(signature, c, c.ResourceLink) {
		caller.kind = v.matchesOther(signature, c)
	}
	if caller.kind == Nobody {
		return caller, mismatch(c)
	}
	if !resourceTypes[c.ResourceType] && !resourceTypes[strings.ToLower(c.ResourceType)] {
		return Caller{}, status.BadRequest("The resource type '%s' is not known.", status.Clip(c.ResourceType, nameCharsShown))
	}
	// Only who has a key learns the server's time.
	if err := v.checkDate(date, now); err != nil {
		return Caller{}, err
	}
	return caller, nil
}

// matchesOther tries what clients sign less often than the link with the
// primary key: the link with the other keys, then the RID alone with all.
// RIDs come last since few requests use them, and finding out takes longest. It
// returns what the key makes of the caller.
func (v *Verifier) matchesOther(signature []byte, c *Credentials) Kind {
	for _, signer := range v.signers[1:] {
		if signer.made(signature, c, c.ResourceLink) {
			return signer.kind()
		}
	}
	rid, ok := ridLink(c.ResourceLink)
	if !ok {
		return Nobody
	}
	for _, signer := range v.signers {
		if signer.made(signature, c, rid) {
			return signer.kind()
		}
	}
	return Nobody
}

func (s *signer) kind() Kind {
	if s.readOnly {
		return Reader
	}
	return Master
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
		return time.Time{}, status.Unauthorized(0, "The date '%s' of the request cannot be read. Write it as in 'Tue, 01 Nov 1994 08:12:31 GMT'.", status.Clip(text, nameCharsShown))
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
	payload := status.Clip(string(appendPayload(nil, c, c.ResourceLink)), payloadCharsShown)
	return status.Unauthorized(0, "The input authorization token can't serve the request. The wrong key is being used, or the expected payload is not built as per the protocol. Server used the following payload to sign: '%s'", payload)
}

// How much of what a caller sent a message shows, in characters. Every payload
// of a request that names resources within their limits is shown in full.
const (
	nameCharsShown    = 64
	payloadCharsShown = 2 << 10
)
