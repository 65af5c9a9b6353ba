package auth

import (
	"bytes"
	"strings"

	"github.com/decandb/decan/internal/status"
)

// How long the text of a token may be, by its kind, after decoding.
const (
	masterBytesMax   = 1 << 10
	resourceBytesMax = 8 << 10
	bearerBytesMax   = 16 << 10
)

// parse returns the signature in the authorization header, base64 text that
// belongs to s. The header is the percent-encoded form of
// "type=master&ver=1.0&sig=...", in which '+' stands for itself, since base64
// has it and no client encodes a blank. What follows a comma is ignored.
func (s *scratch) parse(header string) (signature []byte, err error) {
	header, _, _ = strings.Cut(header, ",")
	// Encoding makes three bytes of one at most.
	if len(header) > 3*bearerBytesMax {
		return nil, malformed("it is longer than any token may be")
	}
	var ok bool
	if s.token, ok = appendDecoded(s.token[:0], header); !ok {
		return nil, malformed("a percent sign is not followed by two hexadecimal digits")
	}
	text, _, _ := bytes.Cut(s.token, []byte(","))
	kind, version, signature, ok := cutParts(text)
	if !ok {
		return nil, malformed("it does not have the form 'type=...&ver=...&sig=...'")
	}
	switch string(kind) {
	case "master":
		if len(text) > masterBytesMax {
			return nil, malformed("it is longer than a token of type 'master' may be")
		}
	case "resource":
		if len(text) > resourceBytesMax {
			return nil, malformed("it is longer than a token of type 'resource' may be")
		}
		return nil, status.Unauthorized(0, "Authorization with a resource token (type=resource) is not supported by this version of Decan. Use an account key. See docs/compatibility.md.")
	case "aad":
		if len(text) > bearerBytesMax {
			return nil, malformed("it is longer than a token of type 'aad' may be")
		}
		return nil, status.Unauthorized(status.SubEntraDisabled, "Authorization with a Microsoft Entra token (type=aad) is not supported by this version of Decan. Use an account key. See docs/compatibility.md.")
	default:
		return nil, malformed("its type is not 'master'")
	}
	if string(version) != "1.0" {
		return nil, malformed("its version is not '1.0'")
	}
	return signature, nil
}

func malformed(what string) error {
	return status.Unauthorized(status.SubAuthorizationMalformed, "The authorization header cannot be read: %s. The format should be 'type={typetoken}&ver={tokenversion}&sig={hashsignature}', percent-encoded.", what)
}

// cutParts returns the values of the three parts, which may come in any order
// but only once each.
func cutParts(text []byte) (kind, version, signature []byte, ok bool) {
	parts := 0
	for part := range bytes.SplitSeq(text, []byte("&")) {
		name, content, found := bytes.Cut(part, []byte("="))
		var into *[]byte
		switch string(name) {
		case "type":
			into = &kind
		case "ver":
			into = &version
		case "sig":
			into = &signature
		}
		if !found || into == nil || *into != nil || len(content) == 0 {
			return nil, nil, nil, false
		}
		*into = content
		parts++
	}
	return kind, version, signature, parts == 3
}

// appendDecoded appends the text with its percent escapes replaced once.
func appendDecoded(dst []byte, text string) ([]byte, bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			dst = append(dst, text[i])
			continue
		}
		if i+2 >= len(text) {
			return dst, false
		}
		high, low := hexDigit(text[i+1]), hexDigit(text[i+2])
		if high < 0 || low < 0 {
			return dst, false
		}
		dst = append(dst, byte(high<<4|low))
		i += 2
	}
	return dst, true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
