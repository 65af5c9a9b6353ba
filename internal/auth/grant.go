package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// tokenClaims is the content of a resource token. It names a permission; the engine
// looks up what that permission allows at each request.
type tokenClaims struct {
	permission resource.RID
	print      [printBytes]byte // of the permission when the token was made
	expires    int64            // seconds of the epoch
}

// The layout of a token, which docs/access.md describes.
const (
	claimsVersion   = 1
	permissionBytes = 16
	printBytes      = 8
	claimsBytes     = 1 + permissionBytes + printBytes + 8
)

var tokenText = base64.RawURLEncoding.Strict()

func (c tokenClaims) append(dst []byte) []byte {
	dst = append(dst, claimsVersion)
	dst = append(dst, c.permission...)
	dst = append(dst, c.print[:]...)
	return binary.BigEndian.AppendUint64(dst, uint64(c.expires))
}

// parseClaims reads the claims of a token with a valid signature.
func parseClaims(text []byte) (tokenClaims, bool) {
	if len(text) != claimsBytes || text[0] != claimsVersion {
		return tokenClaims{}, false
	}
	c := tokenClaims{permission: resource.RID(text[1 : 1+permissionBytes])}
	copy(c.print[:], text[1+permissionBytes:])
	c.expires = int64(binary.BigEndian.Uint64(text[claimsBytes-8:]))
	return c, c.permission.IsPermission()
}

// Mint returns a resource token for a permission that expires at a time, in whole
// seconds, in the form that clients send: "type=resource&ver=1&sig=...". It is valid
// while the present primary key is the primary or secondary key. Without a key it
// returns "".
func (v *Verifier) Mint(p *resource.Permission, expires time.Time) string {
	if v == nil || len(v.signers) == 0 || !p.RID.IsPermission() {
		return ""
	}
	claims := tokenClaims{permission: p.RID, print: p.Fingerprint(), expires: expires.Unix()}.append(nil)
	return "type=resource&ver=1&sig=" + tokenText.EncodeToString(claims) + ";" + tokenText.EncodeToString(v.signers[0].seal(claims)) + ";"
}

// verifyToken returns the caller with the permission of a resource token.
func (v *Verifier) verifyToken(signature string, now time.Time) (Caller, error) {
	content, rest, ok := strings.Cut(signature, ";")
	sealText, rest, closed := strings.Cut(rest, ";")
	claimsText, err := tokenText.DecodeString(content)
	if err != nil || !ok || !closed || rest != "" {
		return Caller{}, malformed("the resource token is incomplete")
	}
	seal, err := tokenText.DecodeString(sealText)
	if err != nil {
		return Caller{}, malformed("the resource token is incomplete")
	}
	good := false
	for _, s := range v.signers {
		// Every key is tried, so that the time reveals nothing.
		good = !s.readOnly && hmac.Equal(s.seal(claimsText), seal) || good
	}
	if !good {
		return Caller{}, status.Unauthorized(0, "The input authorization token can't serve the request: the resource token was not made by this account, or the account key that it was made with has been replaced.")
	}
	claims, ok := parseClaims(claimsText)
	if !ok {
		return Caller{}, malformed("the resource token has another version")
	}
	if now.Unix() >= claims.expires {
		return Caller{}, status.Forbidden(0, "The authorization token is not valid at the current time: the resource token expired at %s. Read the permission again for a new one.",
			time.Unix(claims.expires, 0).UTC().Format("2006-01-02 15:04:05Z"))
	}
	return Caller{kind: Token, token: &claims}, nil
}

// seal signs the claims of a token with a key that has no other use.
func (s *signer) seal(claims []byte) []byte {
	mac := hmac.New(sha256.New, s.tokenKey)
	mac.Write(claims)
	return mac.Sum(nil)
}

// tokenKeyOf derives the key of resource tokens from an account key.
func tokenKeyOf(key Key) []byte {
	mac := hmac.New(sha256.New, []byte(key.secret))
	mac.Write([]byte("decan resource token"))
	return mac.Sum(nil)
}
