package auth

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
)

// FuzzVerify sends any credentials. They are refused with a status: the keys of the
// account are not those of the corpus.
func FuzzVerify(f *testing.F) {
	const date = "Fri, 20 Nov 2026 12:00:00 GMT"
	good := header(strangerKey, "get\ndocs\ndbs/d/colls/c\nfri, 20 nov 2026 12:00:00 gmt\n\n")
	plain, err := url.QueryUnescape(good)
	if err != nil {
		f.Fatal(err)
	}
	for _, authorization := range []string{
		good, plain, good + ",x", strings.ToLower(good), "", "%", "%4", "%zz", ",", "type=master&ver=1.0&sig=",
		"type=master&ver=1.0&sig=a&sig=b", "type%3Dresource%26ver%3D1%26sig%3Dx%3By%3B", "type=aad&ver=1.0&sig=a.b.c",
	} {
		f.Add(authorization, "GET", "docs", "dbs/d/colls/c", date, "")
	}
	f.Add(good, "GET", "docs", "dbs/1ZAmAA==/colls/1ZAmAIAAAAA=", "", date)
	f.Add(good, "POST", "DOCS", "offers/AAAB", "", "")
	f.Add(good, "", "", "/", "x", date)
	f.Add(good, "é", "docs", "\xff//dbs\n", date, date)

	v := newVerifier(f, Keys{Primary: primaryKey, Secondary: secondaryKey}, 15*time.Minute)
	f.Fuzz(func(t *testing.T, authorization, method, kind, link, date, httpDate string) {
		c := Credentials{Method: method, ResourceType: kind, ResourceLink: link, Authorization: authorization, Date: date, HTTPDate: httpDate}
		caller, err := v.Verify(c, testNow)
		if caller != (Caller{}) {
			t.Fatalf("let in as %v", caller.Kind())
		}
		e := status.From(err)
		if e == nil || e.Code != status.CodeUnauthorized && e.Code != status.CodeBadRequest {
			t.Fatalf("error %v", err)
		}
		if (authorization == "") != (e.Sub == status.SubAuthorizationMissing) {
			t.Fatalf("authorization %q: %v", authorization, err)
		}
	})
}

// FuzzSign signs any request. The same account accepts the signature, in each form of
// the header, and no other does.
func FuzzSign(f *testing.F) {
	f.Add("GET", "docs", "dbs/d/colls/c/docs/a b?ü", uint32(0))
	f.Add("post", "", "", uint32(1_700_000_000))
	f.Add("PUT", "offers", "offers/AAAB", uint32(1<<32-1))
	f.Add("pAtCh", "docs", "dbs/d/colls/c/docs/a/b#%2F+", uint32(1))
	f.Add("\n", "colls", "\xff\x00", uint32(2))
	account := newVerifier(f, Keys{Primary: strangerKey, Secondary: primaryKey}, time.Nanosecond)
	other := newVerifier(f, Keys{Primary: secondaryKey}, 0)
	key, err := ParseKey(primaryKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, kind, link string, seconds uint32) {
		if !resourceTypes[strings.ToLower(kind)] {
			kind = "docs"
		}
		now := time.Unix(int64(seconds), 0).UTC()
		c := Credentials{Method: method, ResourceType: kind, ResourceLink: link, Date: now.Format("Mon, 02 Jan 2006 15:04:05 GMT")}
		signed := Sign(key, method, kind, link, c.Date)
		plain, err := url.QueryUnescape(signed)
		if err != nil {
			t.Fatal(err)
		}
		for _, c.Authorization = range []string{signed, plain, strings.ReplaceAll(signed, "%3D", "%3d"), signed + ",more"} {
			if caller, err := account.Verify(c, now); err != nil || caller.Kind() != Master {
				t.Fatalf("%q: %v, %v", c.Authorization, caller.Kind(), err)
			}
			if caller, err := other.Verify(c, now); status.CodeOf(err) != status.CodeUnauthorized || caller.Kind() != Anonymous {
				t.Fatalf("%q at another account: %v, %v", c.Authorization, caller.Kind(), err)
			}
		}
	})
}

// FuzzParseKey reads any text as a key. The error shows none of it.
func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"", " ", WellKnownKey, primaryKey, " " + primaryKey + "\n", "AAAA", "not base64", "====", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseKey(text)
		if err != nil {
			if key != (Key{}) || IsWellKnown(text) {
				t.Fatalf("a key came with the error %v", err)
			}
			// Short texts may be part of the message by chance.
			if len(text) >= keyBytesMin && strings.Contains(err.Error(), text) && strings.TrimSpace(text) != "" {
				t.Fatalf("the error shows the key: %v", err)
			}
			return
		}
		if len(key.secret) < keyBytesMin {
			t.Fatalf("a key of %d bytes", len(key.secret))
		}
	})
}
