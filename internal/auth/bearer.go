package auth

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/decandb/decan/internal/status"
)

// BearerRules say which bearer tokens are valid. The zero value refuses all.
type BearerRules struct {
	Issuers   []string // accepted values of "iss"
	Audiences []string // accepted values of "aud"

	// Keys returns the keys that sign tokens. kid is the key that the token names, or
	// "": a source that does not have it may first look for newer keys. Keys must be
	// safe for concurrent use; nil refuses all tokens.
	Keys func(kid string) *KeySet

	// Only refuses account keys and resource tokens, except for management of the
	// account, like disableLocalAuth of the service.
	Only bool

	// Emulator accepts the tokens of the SDKs' test suites, whose signature is an
	// account key itself. Their sender is a [Master].
	Emulator bool
}

// bearerLeeway is the accepted difference between the clocks of issuer and server, as
// in the libraries of the service.
const bearerLeeway = 5 * time.Minute

// bearerMethods are the accepted signature methods, all with a public key. Without this
// list a public key could be used as the secret of an HMAC.
var bearerMethods = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// bearerClaims are the claims of a token that the server uses.
type bearerClaims struct {
	jwt.RegisteredClaims
	Object string   `json:"oid"` // the principal, in Entra directories
	Groups []string `json:"groups"`
}

func (v *Verifier) verifyBearer(token string, now time.Time) (Caller, error) {
	if v.bearer.Emulator {
		if caller, err := v.verifyEmulator(token, now); err == nil || v.bearer.Keys == nil {
			return caller, err
		}
	}
	if v.bearer.Keys == nil {
		return Caller{}, status.Unauthorized(status.SubEntraDisabled, "Bearer tokens (type=aad) are not accepted: the server has no issuer. Use an account key, or start it with --token-issuer.")
	}
	var claims bearerClaims
	parser := jwt.NewParser(jwt.WithValidMethods(bearerMethods), jwt.WithAudience(v.bearer.Audiences...), jwt.WithExpirationRequired(),
		jwt.WithLeeway(bearerLeeway), jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithStrictDecoding())
	if _, err := parser.ParseWithClaims(token, &claims, v.keysOf); err != nil {
		return Caller{}, bearerError(err)
	}
	if !slices.Contains(v.bearer.Issuers, claims.Issuer) {
		return Caller{}, bearerError(jwt.ErrTokenInvalidIssuer)
	}
	return claims.caller()
}

// keysOf returns the keys that may have signed a token.
func (v *Verifier) keysOf(token *jwt.Token) (any, error) {
	if _, critical := token.Header["crit"]; critical {
		return nil, errors.New("a critical extension is not known")
	}
	kid, _ := token.Header["kid"].(string)
	keys := v.bearer.Keys(kid).matching(kid, token.Method.Alg())
	if len(keys) == 0 {
		return nil, jwt.ErrTokenSignatureInvalid
	}
	return jwt.VerificationKeySet{Keys: keys}, nil
}

func (c *bearerClaims) caller() (Caller, error) {
	id := c.Object
	if id == "" {
		id = c.Subject
	}
	if id == "" {
		return Caller{}, status.Unauthorized(status.SubEntraNoObject, "The bearer token names no principal: it has neither 'oid' nor 'sub'.")
	}
	return Caller{kind: Bearer, who: newPrincipal(id, c.Groups)}, nil
}

// verifyEmulator accepts a token whose signature is an account key.
func (v *Verifier) verifyEmulator(token string, now time.Time) (Caller, error) {
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 {
		return Caller{}, bearerError(jwt.ErrTokenMalformed)
	}
	var claims bearerClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		return Caller{}, bearerError(err)
	}
	good := false
	for _, text := range []string{v.keys.Primary, v.keys.Secondary} {
		// The suites encode the text of the key, not its bytes.
		encoded := base64.RawURLEncoding.EncodeToString([]byte(strings.TrimSpace(text)))
		given := strings.TrimRight(token[dot+1:], "=")
		good = text != "" && subtle.ConstantTimeCompare([]byte(encoded), []byte(given)) == 1 || good
	}
	if !good {
		return Caller{}, bearerError(jwt.ErrTokenSignatureInvalid)
	}
	validator := jwt.NewValidator(jwt.WithExpirationRequired(), jwt.WithLeeway(bearerLeeway), jwt.WithTimeFunc(func() time.Time { return now }))
	if err := validator.Validate(claims); err != nil {
		return Caller{}, bearerError(err)
	}
	return Caller{kind: Master}, nil
}

// bearerError returns why a token is refused, without any part of it.
func bearerError(err error) error {
	for _, reason := range []struct {
		err  error
		sub  status.Sub
		text string
	}{
		{jwt.ErrTokenMalformed, status.SubEntraMalformed, "it is not a signed JSON web token"},
		{jwt.ErrTokenSignatureInvalid, status.SubEntraSignature, "its signature is not by the configured issuer, or its method is not accepted"},
		{jwt.ErrTokenUnverifiable, status.SubEntraSignature, "its signature cannot be verified"},
		{jwt.ErrTokenRequiredClaimMissing, status.SubEntraMalformed, "it has no expiration time"},
		{jwt.ErrTokenExpired, status.SubEntraExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, status.SubEntraNotYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, status.SubEntraIssuer, "its issuer is not the configured one"},
		{jwt.ErrTokenInvalidAudience, status.SubEntraAudience, "it is for another audience"},
	} {
		if errors.Is(err, reason.err) {
			return status.Unauthorized(reason.sub, "The bearer token is refused: %s.", reason.text)
		}
	}
	return status.Unauthorized(status.SubEntraMalformed, "The bearer token is refused: it cannot be read.")
}
