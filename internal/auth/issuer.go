package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer signs bearer tokens, for tests and for installations without a directory. It
// never prints its key.
type Issuer struct {
	key *ecdsa.PrivateKey
	id  string // of the key: a digest of its public half
}

// BearerToken is the content of a token of an [Issuer].
type BearerToken struct {
	Issuer    string
	Audience  string
	Principal string // object id: "oid" and "sub"
	Groups    []string
	NotBefore time.Time
	Expires   time.Time
}

// NewIssuer returns an issuer with a new key on the curve P-256.
func NewIssuer() (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return newIssuer(key)
}

// ParseIssuer reads the result of [Issuer.PEM].
func ParseIssuer(text []byte) (*Issuer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("it is not the PEM of a private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, errors.New("its key is not on the curve P-256")
	}
	return newIssuer(private)
}

func newIssuer(key *ecdsa.PrivateKey) (*Issuer, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(point)
	return &Issuer{key: key, id: base64.RawURLEncoding.EncodeToString(sum[:16])}, nil
}

// PEM returns the private key. Its holder can make tokens for every principal.
func (i *Issuer) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(i.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// KeySet returns the public key as a JSON web key set, for [ParseKeySet].
func (i *Issuer) KeySet() ([]byte, error) {
	point, err := i.key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	half := len(point) / 2
	text := base64.RawURLEncoding.EncodeToString
	key := map[string]string{
		"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": i.id,
		"x": text(point[1 : 1+half]), "y": text(point[1+half:]),
	}
	return json.Marshal(map[string]any{"keys": []any{key}})
}

// Sign returns the token in the form that clients send.
func (i *Issuer) Sign(t BearerToken) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, bearerClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    t.Issuer,
			Subject:   t.Principal,
			Audience:  jwt.ClaimStrings{t.Audience},
			NotBefore: jwt.NewNumericDate(t.NotBefore),
			ExpiresAt: jwt.NewNumericDate(t.Expires),
		},
		Object: t.Principal,
		Groups: t.Groups,
	})
	token.Header["kid"] = i.id
	return token.SignedString(i.key)
}

// Format prints a placeholder instead of the key, for every verb.
func (*Issuer) Format(f fmt.State, _ rune) { hide(f) }
