package admin

import (
	"net/http"
	"strings"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// headerKey contains the account key itself, for simple HTTP clients. It is for trusted
// networks or TLS, because the request reveals the key.
const headerKey = "X-Decan-Key"

// verify authenticates a caller with an account key, and checks that the key allows the
// action: a read-only key allows reads. The header x-decan-key or a bearer token contains
// the key, or the request is signed as on the data plane, with an empty resource type and
// the path as the link. The watch counts refusals.
func (h *handler) verify(hr *http.Request, action auth.Action) (auth.Caller, error) {
	credentials := auth.Credentials{
		Management:    true,
		Method:        hr.Method,
		ResourceLink:  strings.Trim(hr.URL.Path, "/"),
		Authorization: hr.Header.Get("Authorization"),
		Date:          hr.Header.Get("x-ms-date"),
		HTTPDate:      hr.Header.Get("Date"),
	}
	key := hr.Header.Get(headerKey)
	if key == "" {
		key = bearerKey(credentials.Authorization)
	}
	caller, err := h.authenticate(credentials, key)
	if err != nil {
		if key != "" { // A request with the key needs no date.
			credentials.Date = h.now().UTC().Format(http.TimeFormat)
		}
		h.watch.Refused(auth.Refusal(credentials, err), hr.RemoteAddr)
		return caller, err
	}
	return caller, caller.Allow(action, status.Path{})
}

// bearerKey returns the account key of an Authorization header of the form "Bearer KEY",
// which scrapers of metrics can send, and "" for other forms.
func bearerKey(header string) string {
	const scheme = "bearer "
	if len(header) > len(scheme) && strings.EqualFold(header[:len(scheme)], scheme) {
		return strings.TrimSpace(header[len(scheme):])
	}
	return ""
}

func (h *handler) authenticate(credentials auth.Credentials, key string) (auth.Caller, error) {
	if key == "" {
		return h.engine.Verify(credentials)
	}
	// The engine verifies a signature made with the given key, so that the comparison
	// takes constant time and covers all keys of the account.
	credentials.Date = h.now().UTC().Format(http.TimeFormat)
	parsed, err := auth.ParseKey(key)
	if err != nil {
		return auth.Caller{}, status.Unauthorized(status.SubAuthorizationMalformed, "The key in x-decan-key, or after Bearer, is not base64.")
	}
	credentials.Authorization = auth.Sign(parsed, credentials.Method, credentials.ResourceType, credentials.ResourceLink, credentials.Date)
	caller, err := h.engine.Verify(credentials)
	if status.CodeOf(err) == status.CodeUnauthorized {
		return caller, status.Unauthorized(0, "The key in x-decan-key, or after Bearer, is not a key of this account.")
	}
	return caller, err
}
