package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"net/url"
	"sync"
)

// appendPayload appends the text that a signature is made of: five pieces, each
// with a line feed after it. Of the two dates one is empty. The link keeps its
// case, everything else is in lower case.
//
// The form is documented under "Access control in the Azure Cosmos DB SQL API".
func appendPayload(dst []byte, c *Credentials, link string) []byte {
	dst = append(appendLower(dst, c.Method), '\n')
	dst = append(appendLower(dst, c.ResourceType), '\n')
	dst = append(append(dst, link...), '\n')
	if c.Date != "" {
		return append(append(appendLower(dst, c.Date), '\n'), '\n')
	}
	dst = append(dst, '\n')
	return append(appendLower(dst, c.HTTPDate), '\n')
}

// appendLower appends ASCII text in lower case, other bytes as they are.
func appendLower(dst []byte, text string) []byte {
	for i := range len(text) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// signer makes signatures with one key, with state that is kept between
// requests: setting up a key costs as much as signing with it.
type signer struct {
	pool     sync.Pool // of *scratch
	readOnly bool
	tokenKey []byte // of resource tokens
}

// scratch is what verifying one request needs. A field that is handed to an
// interface would be allocated each time otherwise.
type scratch struct {
	mac     hash.Hash
	token   []byte // decoded header
	payload []byte
	sum     []byte
	text    []byte // sum in base64
}

func newSigner(key Key, readOnly bool) *signer {
	s := &signer{readOnly: readOnly, tokenKey: tokenKeyOf(key)}
	s.pool.New = func() any { return newScratch(key) }
	return s
}

func newScratch(key Key) *scratch {
	return &scratch{mac: hmac.New(sha256.New, []byte(key.secret))}
}

func (s *signer) get() *scratch { return s.pool.Get().(*scratch) }

func (s *signer) put(used *scratch) {
	const keptMax = 4 << 10
	if cap(used.token) > keptMax || cap(used.payload) > keptMax {
		return // One huge request must not stay in memory for all the small ones.
	}
	s.pool.Put(used)
}

// made does what [scratch.made] does, with a scratch of the signer's own.
func (s *signer) made(signature []byte, c *Credentials, link string) bool {
	own := s.get()
	defer s.put(own)
	return own.made(signature, c, link)
}

// made reports whether the signature, which is base64 text, is the one of the
// credentials with that link. The time it takes tells nothing of the right one.
func (s *scratch) made(signature []byte, c *Credentials, link string) bool {
	return subtle.ConstantTimeCompare(s.sign(c, link), signature) == 1
}

// sign returns the signature of the credentials with that link, as base64. It
// is valid until the next call.
func (s *scratch) sign(c *Credentials, link string) []byte {
	s.payload = appendPayload(s.payload[:0], c, link)
	s.mac.Reset()
	s.mac.Write(s.payload)
	s.sum = s.mac.Sum(s.sum[:0])
	s.text = base64.StdEncoding.AppendEncode(s.text[:0], s.sum)
	return s.text
}

// Sign returns the value of the authorization header for a request that sends
// the date in x-ms-date. Method, type, link and date are as in [Credentials],
// and are signed as they are: [Verifier.Verify] is who judges them. The zero Key
// signs too, with a secret of no bytes, which no account can have.
func Sign(key Key, method, resourceType, link, date string) string {
	c := Credentials{Method: method, ResourceType: resourceType, ResourceLink: link, Date: date}
	return url.QueryEscape("type=master&ver=1.0&sig=" + string(newScratch(key).sign(&c, link)))
}
