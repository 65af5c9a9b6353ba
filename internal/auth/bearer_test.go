package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// bearerVerifier accepts the tokens of the keys.
func bearerVerifier(t testing.TB, set *KeySet) *Verifier {
	t.Helper()
	return newVerifier(t, Keys{Primary: primaryKey, Secondary: secondaryKey}, 0).WithBearer(BearerRules{
		Issuers: []string{"iss", "iss2"}, Audiences: []string{"aud", "aud2"}, Keys: func(string) *KeySet { return set },
	})
}

func keySet(t testing.TB, text []byte) *KeySet {
	t.Helper()
	set, err := ParseKeySet(text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// publicPEM is public keys as PEM.
func publicPEM(t testing.TB, keys ...any) []byte {
	t.Helper()
	var text []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return text
}

func claims(change func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "iss", "aud": "aud", "oid": "ann", "exp": testNow.Add(time.Hour).Unix()}
	if change != nil {
		change(c)
	}
	return c
}

func sign(t testing.TB, method jwt.SigningMethod, key any, c jwt.Claims, header map[string]any) Credentials {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	for name, v := range header {
		token.Header[name] = v
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return Credentials{Authorization: "type=aad&ver=1.0&sig=" + text}
}

// TestBearerClaims shows which claims are valid, and the errors for others, on both
// sides of each limit.
func TestBearerClaims(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	v := bearerVerifier(t, keySet(t, publicPEM(t, &key.PublicKey)))
	at := func(claim string, offset time.Duration) func(jwt.MapClaims) {
		return func(c jwt.MapClaims) { c[claim] = testNow.Add(offset).Unix() }
	}
	set := func(claim string, content any) func(jwt.MapClaims) {
		return func(c jwt.MapClaims) { c[claim] = content }
	}
	for _, c := range []struct {
		name   string
		change func(jwt.MapClaims)
		want   status.Sub
	}{
		{"as it should be", nil, 0},
		{"a second issuer", set("iss", "iss2"), 0},
		{"another issuer", set("iss", "iss3"), status.SubEntraIssuer},
		{"no issuer", func(c jwt.MapClaims) { delete(c, "iss") }, status.SubEntraIssuer},
		{"one of two audiences", set("aud", []string{"x", "aud2"}), 0},
		{"another audience", set("aud", "x"), status.SubEntraAudience},
		{"no audience", func(c jwt.MapClaims) { delete(c, "aud") }, status.SubEntraMalformed},
		{"no end", func(c jwt.MapClaims) { delete(c, "exp") }, status.SubEntraMalformed},
		{"ended within the leeway", at("exp", time.Second-bearerLeeway), 0},
		{"ended", at("exp", -bearerLeeway), status.SubEntraExpired},
		{"begins within the leeway", at("nbf", bearerLeeway), 0},
		{"begins later", at("nbf", bearerLeeway+time.Second), status.SubEntraNotYet},
		{"a subject alone", func(c jwt.MapClaims) { delete(c, "oid"); c["sub"] = "ann" }, 0},
		{"nobody", func(c jwt.MapClaims) { delete(c, "oid") }, status.SubEntraNoObject},
		{"an end that is no number", set("exp", "soon"), status.SubEntraMalformed},
	} {
		who, err := v.Verify(sign(t, jwt.SigningMethodES256, key, claims(c.change), nil), testNow)
		if status.SubOf(err) != c.want || (err == nil) != (c.want == 0) || err != nil && status.CodeOf(err) != status.CodeUnauthorized {
			t.Errorf("%s: %v, want %d", c.name, err, c.want)
		}
		if c.want == 0 && (who.Kind() != Bearer || who.Principal()[0] != "ann") {
			t.Errorf("%s: %s %q", c.name, who.Kind(), who.Principal())
		}
	}
	groups := make([]string, groupsMax+1)
	for i := range groups {
		groups[i] = fmt.Sprint(i)
	}
	who, err := v.Verify(sign(t, jwt.SigningMethodES256, key, claims(func(c jwt.MapClaims) { c["groups"] = groups }), nil), testNow)
	if err != nil || len(who.Principal()) != 1+groupsMax {
		t.Errorf("%d groups: %d count, %v", len(groups), len(who.Principal())-1, err)
	}
}

// TestBearerSignatures shows which signatures are valid: none without a key, with a
// public key as the secret, or with a key of another kind or id.
func TestBearerSignatures(t *testing.T) {
	t.Parallel()
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, rsaBitsMin)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := publicPEM(t, &curve.PublicKey, &rsaKey.PublicKey, edPublic)
	named, err := newIssuer(curve)
	if err != nil {
		t.Fatal(err)
	}
	namedSet, err := named.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	v, byID := bearerVerifier(t, keySet(t, public)), bearerVerifier(t, keySet(t, namedSet))
	for _, c := range []struct {
		name   string
		by     *Verifier
		method jwt.SigningMethod
		key    any
		header map[string]any
		good   bool
	}{
		{"ES256", v, jwt.SigningMethodES256, curve, nil, true},
		{"RS256", v, jwt.SigningMethodRS256, rsaKey, nil, true},
		{"PS512", v, jwt.SigningMethodPS512, rsaKey, nil, true},
		{"EdDSA", v, jwt.SigningMethodEdDSA, edKey, nil, true},
		{"none", v, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, false},
		{"HS256 with the public keys", v, jwt.SigningMethodHS256, public, nil, false},
		{"a stranger", v, jwt.SigningMethodES256, stranger, nil, false},
		{"a critical extension", v, jwt.SigningMethodES256, curve, map[string]any{"crit": []string{"b64"}}, false},
		{"the id of the key", byID, jwt.SigningMethodES256, curve, map[string]any{"kid": named.id}, true},
		{"no id", byID, jwt.SigningMethodES256, curve, nil, true},
		{"another id", byID, jwt.SigningMethodES256, curve, map[string]any{"kid": "other"}, false},
		{"a key of another kind", byID, jwt.SigningMethodRS256, rsaKey, nil, false},
	} {
		_, err := c.by.Verify(sign(t, c.method, c.key, claims(nil), c.header), testNow)
		if c.good != (err == nil) || err != nil && status.SubOf(err) != status.SubEntraSignature {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, text := range []string{"a.b.c", "a.b", "..", "e30.e30.e30", strings.Repeat("a", 1000)} {
		if _, err := v.Verify(Credentials{Authorization: "type=aad&ver=1.0&sig=" + text}, testNow); status.CodeOf(err) != status.CodeUnauthorized {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := newVerifier(t, Keys{Primary: primaryKey}, 0).Verify(sign(t, jwt.SigningMethodES256, curve, claims(nil), nil), testNow); status.SubOf(err) != status.SubEntraDisabled {
		t.Errorf("without an issuer: %v", err)
	}
}

// TestEmulatorTokens shows the tokens of the SDKs' suites: signed with the text of an
// account key, and valid only if that is switched on.
func TestEmulatorTokens(t *testing.T) {
	t.Parallel()
	token := func(key string, expires time.Time) Credentials {
		text := base64.RawURLEncoding.EncodeToString
		return Credentials{Authorization: "type=aad&ver=1.0&sig=" + text([]byte(`{"typ":"JWT","alg":"RS256"}`)) + "." +
			text(fmt.Appendf(nil, `{"oid":"x","aud":"any","iss":"any","exp":%d}`, expires.Unix())) + "." + text([]byte(key))}
	}
	off := newVerifier(t, Keys{Primary: primaryKey, Secondary: secondaryKey}, 0)
	on := off.WithBearer(BearerRules{Emulator: true})
	later := testNow.Add(time.Hour)
	for _, key := range []string{primaryKey, secondaryKey} {
		if who, err := on.Verify(token(key, later), testNow); err != nil || who.Kind() != Master {
			t.Errorf("%s, %v", who.Kind(), err)
		}
		if _, err := off.Verify(token(key, later), testNow); status.SubOf(err) != status.SubEntraDisabled {
			t.Errorf("switched off: %v", err)
		}
	}
	for _, key := range []string{strangerKey, "", primaryKey[:20]} {
		if _, err := on.Verify(token(key, later), testNow); status.CodeOf(err) != status.CodeUnauthorized {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := on.Verify(token(primaryKey, testNow.Add(-time.Hour)), testNow); status.SubOf(err) != status.SubEntraExpired {
		t.Errorf("expired: %v", err)
	}
}

// TestLocalAuthDisabled refuses signatures and resource tokens, valid or not, and
// accepts bearer tokens, and keys for the management of the account.
func TestLocalAuthDisabled(t *testing.T) {
	t.Parallel()
	issuer, err := NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	text, err := issuer.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	set := keySet(t, text)
	rules := BearerRules{Issuers: []string{"iss"}, Audiences: []string{"aud"}, Keys: func(string) *KeySet { return set }}
	open := newVerifier(t, Keys{Primary: primaryKey, PrimaryReadonly: secondaryKey}, time.Hour).WithBearer(rules)
	rules.Only = true
	closed := open.WithBearer(rules)
	signed := func(key string) Credentials {
		parsed, err := ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		date := testNow.Format(http.TimeFormat)
		return Credentials{Method: "get", Date: date, Authorization: Sign(parsed, "get", "", "", date)}
	}
	permission := &resource.Permission{RID: resource.PermissionRID(resource.UserRID(resource.DatabaseRID(1), 7), 1), Mode: resource.PermissionAll}
	bearer, err := issuer.Sign(BearerToken{Issuer: "iss", Audience: "aud", Principal: "someone", NotBefore: testNow, Expires: testNow.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Credentials{
		"key": signed(primaryKey), "read-only key": signed(secondaryKey),
		"resource token": {Authorization: open.Mint(permission, testNow.Add(time.Minute))},
	} {
		if _, err := open.Verify(c, testNow); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := closed.Verify(c, testNow); status.CodeOf(err) != status.CodeUnauthorized || status.SubOf(err) != status.SubLocalAuthDisabled {
			t.Errorf("%s with local authorization disabled: %v", name, err)
		}
	}
	if _, err := closed.Verify(signed(strangerKey), testNow); status.SubOf(err) != status.SubLocalAuthDisabled {
		t.Errorf("a stranger learns that the key is wrong: %v", err)
	}
	if who, err := closed.Verify(Credentials{Authorization: "type=aad&ver=1.0&sig=" + bearer}, testNow); err != nil || who.Kind() != Bearer {
		t.Errorf("bearer token: %s, %v", who.Kind(), err)
	}
	for key, want := range map[string]Kind{primaryKey: Master, secondaryKey: Reader} {
		c := signed(key)
		c.Management = true
		if who, err := closed.Verify(c, testNow); err != nil || who.Kind() != want {
			t.Errorf("management: %s, %v", who.Kind(), err)
		}
	}
}

// TestIssuer reads back the PEM of an issuer, and shows that an issuer never prints its
// key.
func TestIssuer(t *testing.T) {
	t.Parallel()
	issuer, err := NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	text, err := issuer.PEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseIssuer(text)
	if err != nil || again.id != issuer.id {
		t.Fatalf("read back: %v", err)
	}
	set, err := issuer.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	token, err := again.Sign(BearerToken{Issuer: "iss", Audience: "aud", Principal: "ann", Groups: []string{"g"}, NotBefore: testNow, Expires: testNow.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	who, err := bearerVerifier(t, keySet(t, set)).Verify(Credentials{Authorization: "type=aad&ver=1.0&sig=" + token}, testNow)
	if err != nil || fmt.Sprint(who.Principal()) != "[ann g]" {
		t.Errorf("%q, %v", who.Principal(), err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if printed := fmt.Sprintf(verb, issuer); printed != "(hidden)" {
			t.Errorf("%s prints %s", verb, printed)
		}
	}
	for _, wrong := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParseIssuer([]byte(wrong)); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}

// TestKeySetBounds shows which keys are accepted.
func TestKeySetBounds(t *testing.T) {
	t.Parallel()
	number := func(bits int) string {
		n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
		return base64.RawURLEncoding.EncodeToString(n.SetBit(n, 0, 1).Bytes())
	}
	rsaJSON := func(bits int, e string) string {
		return fmt.Sprintf(`{"keys":[{"kty":"RSA","n":%q,"e":%q}]}`, number(bits), e)
	}
	one, err := json.Marshal(map[string]any{"kty": "RSA", "n": number(rsaBitsMin), "e": "AQAB"})
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int) string {
		return `{"keys":[` + strings.TrimSuffix(strings.Repeat(string(one)+",", n), ",") + `]}`
	}
	for text, good := range map[string]bool{
		rsaJSON(rsaBitsMin, "AQAB"):           true,
		rsaJSON(rsaBitsMin-1, "AQAB"):         false,
		rsaJSON(rsaBitsMax, "AQAB"):           true,
		rsaJSON(rsaBitsMax+1, "AQAB"):         false,
		rsaJSON(rsaBitsMin, "Ag"):             false, // 2
		rsaJSON(rsaBitsMin, "_____w"):         false, // above 31 bits
		rsaJSON(rsaBitsMin, ""):               false,
		many(keysMax):                         true,
		many(keysMax + 1):                     false,
		`{"keys":[]}`:                         false,
		`{`:                                   false,
		``:                                    false,
		`{"keys":[{"kty":"oct","k":"AAAA"}]}`: false,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]}`:                false,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}`:                        false,
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n":             false,
		`{"keys":[{"kty":"RSA","use":"enc","n":"` + number(2048) + `","e":"AQAB"}]}`: false,
	} {
		if _, err := ParseKeySet([]byte(text)); good != (err == nil) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// TestMint verifies tokens for permissions of any kind, and refuses tokens with one
// changed bit, and those of other accounts.
func TestMint(t *testing.T) {
	t.Parallel()
	database := resource.DatabaseRID(1)
	p := &resource.Permission{
		RID: resource.PermissionRID(resource.UserRID(database, 7), 1<<40), Mode: resource.PermissionRead,
		Target: resource.PermissionTarget{Container: resource.ContainerRID(database, 2)},
	}
	v := newVerifier(t, Keys{Primary: primaryKey, Secondary: secondaryKey}, 0)
	token := v.Mint(p, testNow.Add(time.Minute))
	verify := func(v *Verifier, token string) (Caller, error) {
		return v.Verify(Credentials{Authorization: token}, testNow)
	}
	who, err := verify(v, token)
	if err != nil || who.Kind() != Token || who.Permission() != p.RID {
		t.Fatalf("%s for %q, %v", who.Kind(), who.Permission(), err)
	}
	if err := who.May(Access{Action: Read, On: Container, Container: p.Target.Container}); status.CodeOf(err) != status.CodeForbidden {
		t.Errorf("before the permission is known: %v", err)
	}
	if who, err = who.WithPermission(p); err != nil {
		t.Fatal(err)
	}
	if err := who.May(Access{Action: Read, On: Container, Container: p.Target.Container}); err != nil {
		t.Error(err)
	}
	changed := *p
	changed.Mode = resource.PermissionAll
	if _, err := who.WithPermission(&changed); status.CodeOf(err) != status.CodeForbidden {
		t.Errorf("a permission that was changed: %v", err)
	}
	if _, err := who.WithPermission(nil); status.CodeOf(err) != status.CodeForbidden {
		t.Errorf("a permission that is gone: %v", err)
	}
	swapped := newVerifier(t, Keys{Primary: secondaryKey, Secondary: primaryKey}, 0)
	if _, err := verify(swapped, token); err != nil {
		t.Errorf("with its key as the secondary one: %v", err)
	}
	for name, other := range map[string]*Verifier{
		"another account":            newVerifier(t, Keys{Primary: strangerKey}, 0),
		"its key as a read-only one": newVerifier(t, Keys{Primary: strangerKey, PrimaryReadonly: primaryKey}, 0),
	} {
		if _, err := verify(other, token); status.CodeOf(err) != status.CodeUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
	start := strings.Index(token, "sig=") + len("sig=")
	for i := start; i < len(token); i++ {
		for bit := range 8 {
			forged := []byte(token)
			forged[i] ^= 1 << bit
			if who, err := verify(v, string(forged)); err == nil {
				t.Fatalf("bit %d of byte %d changed: %s", bit, i, who.Kind())
			}
		}
	}
}

// FuzzParseKeySet reads any text as keys, and looks up ids in them.
func FuzzParseKeySet(f *testing.F) {
	issuer, err := NewIssuer()
	if err != nil {
		f.Fatal(err)
	}
	set, err := issuer.KeySet()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(set)
	f.Add(publicPEM(f, &issuer.key.PublicKey))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := ParseKeySet(text)
		if (err == nil) != (set != nil) {
			t.Fatalf("%v and %v", set, err)
		}
		for _, alg := range bearerMethods {
			if n := len(set.matching("", alg)); n > keysMax {
				t.Fatalf("%d keys", n)
			}
		}
	})
}

// FuzzToken sends any text as a token: it is refused with a status, whatever the
// kind.
func FuzzToken(f *testing.F) {
	issuer, err := NewIssuer()
	if err != nil {
		f.Fatal(err)
	}
	text, err := issuer.KeySet()
	if err != nil {
		f.Fatal(err)
	}
	v := bearerVerifier(f, keySet(f, text))
	v.bearer.Emulator = true
	other := newVerifier(f, Keys{Primary: strangerKey}, 0)
	p := &resource.Permission{RID: resource.PermissionRID(resource.UserRID(resource.DatabaseRID(1), 1), 1)}
	f.Add(other.Mint(p, testNow.Add(time.Hour)))
	stranger, err := NewIssuer()
	if err != nil {
		f.Fatal(err)
	}
	token, err := stranger.Sign(BearerToken{Issuer: "iss", Audience: "aud", Principal: "x", Expires: testNow.Add(time.Hour)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("type=aad&ver=1.0&sig=" + token)
	f.Add("type=resource&ver=1.0&sig=;;")
	f.Fuzz(func(t *testing.T, authorization string) {
		who, err := v.Verify(Credentials{Authorization: authorization, Date: "x"}, testNow)
		if err == nil || who != (Caller{}) || status.From(err) == nil {
			t.Fatalf("%s, %v", who.Kind(), err)
		}
	})
}
