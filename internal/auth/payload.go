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

// appendPayload appends the text that a signature covers: five parts, each followed by
// a line feed. One of the two dates is empty. The link keeps its case; everything else
// is in lower case.
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

// appendLower appends ASCII text in lower case, and other bytes unchanged.
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

// signer makes signatures with one key. It keeps state between requests, because
// preparing a key costs as much as signing with it.
type signer struct {
	pool     sync.Pool // of *scratch
	readOnly bool
	tokenKey []byte // of resource tokens
}

// scratch is the state of the verification of one request. Without it, values that are
// passed to interfaces would be allocated for each request.
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
		return // The buffers of one huge request must not stay in memory.
	}
	s.pool.Put(used)
}

// made is [scratch.made] with a scratch of the signer.
func (s *signer) made(signature []byte, c *Credentials, link string) bool {
	own := s.get()
	defer s.put(own)
	return own.made(signature, c, link)
}

// made reports whether the signature, as base64, is that of the credentials with that
// link. Its time reveals nothing about the right signature.
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

// Sign returns the value of the authorization header for a request with the date in
// x-ms-date. Method, type, link and date are as in [Credentials]. Sign does not check
// them. The zero Key signs with an empty secret, which no account can have.
func Sign(key Key, method, resourceType, link, date string) string {
	c := Credentials{Method: method, ResourceType: resourceType, ResourceLink: link, Date: date}
	return url.QueryEscape("type=master&ver=1.0&sig=" + string(newScratch(key).sign(&c, link)))
}
