package auth

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/decandb/decan/internal/status"
)

// VerifyKey returns the caller that sent an account key itself, as protocols with
// passwords do. The text is base64, as clients configure it. The error is 401 if it is
// none of the keys, and 401/5202 if only bearer tokens are accepted.
func (v *Verifier) VerifyKey(text string) (Caller, error) {
	if v == nil || len(v.signers) == 0 {
		return Caller{}, status.Unauthorized(0, "No account key is configured.")
	}
	if v.bearer.Only {
		return Caller{}, status.Unauthorized(status.SubLocalAuthDisabled, "Local Authorization is disabled. Use an AAD token to authorize all requests.")
	}
	given, err := ParseKey(text)
	kind := Anonymous
	// Every key is compared, and hashes have one length, so the time says nothing.
	sum := sha256.Sum256([]byte(given.secret))
	for _, known := range []struct {
		text string
		kind Kind
	}{
		{v.keys.SecondaryReadonly, Reader},
		{v.keys.PrimaryReadonly, Reader},
		{v.keys.Secondary, Master},
		{v.keys.Primary, Master},
	} {
		key, keyErr := ParseKey(known.text)
		if keyErr != nil {
			continue // The key is not configured.
		}
		if want := sha256.Sum256([]byte(key.secret)); subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
			kind = known.kind
		}
	}
	if err != nil || kind == Anonymous {
		return Caller{}, status.Unauthorized(0, "The password is not a key of the account.")
	}
	return Caller{kind: kind}, nil
}
