package auth

import (
	"strings"

	"github.com/decandb/decan/internal/status"
)

// Refusals are the reasons that [Refusal] returns.
var refusals = map[status.Sub]string{
	status.SubAuthorizationMissing:   "missing",
	status.SubAuthorizationMalformed: "malformed",
	status.SubLocalAuthDisabled:      "local_auth_disabled",
	status.SubEntraDisabled:          "bearer_token",
	status.SubEntraMalformed:         "bearer_token",
	status.SubEntraSignature:         "bearer_token",
	status.SubEntraNotYet:            "bearer_token",
	status.SubEntraExpired:           "bearer_token",
	status.SubEntraIssuer:            "bearer_token",
	status.SubEntraAudience:          "bearer_token",
	status.SubEntraNoObject:          "bearer_token",
}

// Refusal names why credentials were refused with err, in one of few words that a
// metric can have as a label: missing, malformed, local_auth_disabled, bearer_token,
// resource_token, date (too far from the server's) or key (another one). It says
// nothing of the credentials themselves.
func Refusal(c Credentials, err error) string {
	if reason, ok := refusals[status.SubOf(err)]; ok {
		return reason
	}
	// The form is what clients send, percent-encoded or not: type=resource&ver=1&sig=...
	header := strings.ToLower(c.Authorization[:min(len(c.Authorization), 256)])
	if strings.Contains(header, "type=resource") || strings.Contains(header, "type%3dresource") {
		return "resource_token"
	}
	if _, dateErr := c.date(); dateErr != nil || status.CodeOf(err) == status.CodeForbidden {
		return "date"
	}
	return "key"
}
