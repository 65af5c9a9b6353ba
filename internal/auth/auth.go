// Package auth authenticates callers and decides what they may do.
//
// A door collects [Credentials] from a request, and [Verifier.Verify] returns a
// [Caller] or the error for the client. The engine adds the caller's permission or
// roles, calls [Caller.May] before each operation, and restricts the operation to the
// partition key of [Caller.Grant]. The credentials are those of the NoSQL protocol: a
// signature made with one of the four account keys (payload.go), a resource token of
// [Verifier.Mint] (grant.go), or a bearer token of a configured issuer (bearer.go,
// keyset.go). Protocols with passwords use [Verifier.VerifyKey], whose password is the
// account key. [Sign] makes a signature, for tests and the command line.
//
// # Invariants
//
// Secrets are compared in constant time. An error shows the text that the server
// signed, but no key and no part of a token. The zero Caller may do nothing. An action
// that no token or role allows is refused.
//
// The package knows no header by name, has no clock, and does no lookups: the engine
// finds the current permissions and roles.
//
// Page: docs/access.md
package auth

import (
	"strings"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Credentials are the parts of a request that identify its sender, and those that a
// signature covers.
type Credentials struct {
	Method string // the HTTP method, in any case

	// ResourceType is the last type segment of the path: "dbs", "colls",
	// "docs", ...; empty for the account.
	ResourceType string

	// ResourceLink is the link of the resource, or for a feed of its parent, with
	// percent-decoded segments and without a slash at its ends. It is empty for the
	// account and the feeds of databases and offers.
	ResourceLink string

	// Management means that the request is about the account and not its data. An
	// account key is always valid for it.
	Management bool

	Authorization string // raw header
	Date          string // x-ms-date header
	HTTPDate      string // Date header, used if Date is empty
}

// Verifier verifies credentials for one account. It is immutable and safe for
// concurrent use. Nil and the zero Verifier refuse every request.
type Verifier struct {
	keys    Keys
	signers []*signer // primary key first
	skew    time.Duration
	bearer  BearerRules
}

// NewVerifier returns a verifier for the keys. A signature is valid from skew before
// its date to skew after it, inclusive; zero or less means no limit. The error names
// the invalid key.
func NewVerifier(keys Keys, skew time.Duration) (*Verifier, error) {
	signers, err := keys.signers()
	if err != nil {
		return nil, err
	}
	return &Verifier{keys: keys, signers: signers, skew: skew}, nil
}

// WithBearer returns a verifier that also accepts bearer tokens.
func (v *Verifier) WithBearer(rules BearerRules) *Verifier {
	changed := *v
	changed.bearer = rules
	return &changed
}

// WithKeys returns a verifier with other keys. The error names the invalid key.
func (v *Verifier) WithKeys(keys Keys) (*Verifier, error) {
	signers, err := keys.signers()
	if err != nil {
		return nil, err
	}
	changed := *v
	changed.keys, changed.signers = keys, signers
	return &changed, nil
}

// Keys returns the keys of the account; the zero value for nil.
func (v *Verifier) Keys() Keys {
	if v == nil {
		return Keys{}
	}
	return v.keys
}

// resourceTypes are the resource types that a signature can have. It never changes.
var resourceTypes = map[string]bool{
	"": true, "dbs": true, "colls": true, "docs": true, "pkranges": true, "offers": true,
	"sprocs": true, "triggers": true, "udfs": true, "users": true, "permissions": true,
	"conflicts": true, "attachments": true, "media": true, "clientencryptionkeys": true, "schemas": true,
	"snapshots": true, "udts": true, "roledefinitions": true, "roleassignments": true,
	"addresses": true, "operations": true,
}

// Verify returns the caller that sent the credentials. It keeps no reference to them.
// Its errors, in the order of the checks:
//
//   - 401/5000: the authorization is missing
//   - 401/5001: it is malformed, or too long for its type
//   - 401/5202: it is a signature or a resource token, and only bearer tokens are
//     accepted
//   - for a resource token, 401: this account has not made it; 403: it has expired
//   - for a bearer token, 401/5002 to 5011: none are accepted, or this one is not
//   - 401: the date of the request is missing or malformed
//   - 401: the signature is wrong; the message shows the text that the server signed
//   - 400: the resource type is unknown
//   - 403: the date is too far from now; the message shows the accepted period
//
// The engine adds the permission to a caller with a resource token
// ([Caller.WithPermission]), and the roles to one with a bearer token
// ([Caller.WithRoles]): without them the caller may do nothing.
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
	if caller.kind == Anonymous {
		return caller, mismatch(c)
	}
	if !resourceTypes[c.ResourceType] && !resourceTypes[strings.ToLower(c.ResourceType)] {
		return Caller{}, status.BadRequest("The resource type '%s' is not known.", status.Clip(c.ResourceType, nameCharsShown))
	}
	// Only a client with a key learns the time of the server.
	if err := v.checkDate(date, now); err != nil {
		return Caller{}, err
	}
	return caller, nil
}

// matchesOther tries the signatures that are rarer than that of the link with the
// primary key: the link with the other keys, then the RID with all keys. RIDs are last,
// because few requests use them and the check takes longest. It returns the kind of
// caller for the key.
func (v *Verifier) matchesOther(signature []byte, c *Credentials) Kind {
	for _, signer := range v.signers[1:] {
		if signer.made(signature, c, c.ResourceLink) {
			return signer.kind()
		}
	}
	rid, ok := ridLink(c.ResourceLink)
	if !ok {
		return Anonymous
	}
	for _, signer := range v.signers {
		if signer.made(signature, c, rid) {
			return signer.kind()
		}
	}
	return Anonymous
}

func (s *signer) kind() Kind {
	if s.readOnly {
		return Reader
	}
	return Master
}

// ridLink returns the text that replaces the link in a signature if the resource is
// addressed by RIDs: the last RID, in lower case. It returns false if an id in the link
// is not a RID.
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
	// In a link, names and ids alternate; it ends with an id.
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

// parseDate reads an HTTP date in any case, also with the zone UTC, which some clients
// send.
func parseDate(text string) (time.Time, bool) {
	const (
		layout = "Mon, 02 Jan 2006 15:04:05"
		zone   = " GMT"
	)
	// time.Parse would also accept fractions of a second of any length.
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

// The maximum length of a caller's text in a message, in characters. The payload of
// every request with valid names fits.
const (
	nameCharsShown    = 64
	payloadCharsShown = 2 << 10
)
