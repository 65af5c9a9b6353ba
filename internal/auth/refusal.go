package auth

import (
	"strings"

	"github.com/decandb/decan/internal/status"
)

// refusals are the reasons that [Refusal] returns, by sub-status.
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

// Refusal returns the reason why credentials were refused with err, as the label of a
// metric: missing, malformed, local_auth_disabled, bearer_token, resource_token, date
// (too far from the server's) or key (wrong). It contains no part of the credentials.
func Refusal(c Credentials, err error) string {
	if reason, ok := refusals[status.SubOf(err)]; ok {
		return reason
	}
	// Clients send type=resource&ver=1&sig=..., percent-encoded or not.
	header := strings.ToLower(c.Authorization[:min(len(c.Authorization), 256)])
	if strings.Contains(header, "type=resource") || strings.Contains(header, "type%3dresource") {
		return "resource_token"
	}
	if _, dateErr := c.date(); dateErr != nil || status.CodeOf(err) == status.CodeForbidden {
		return "date"
	}
	return "key"
}
