package nosql

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
)

// TestTarget shows how paths are split, decoded and signed.
func TestTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uri      string
		segments string // joined by bars
		kind     string
		link     string
	}{
		{"/", "", "", ""},
		{"", "", "", ""},
		{"//", "", "", ""},
		{"/?api-version=1", "", "", ""},
		{"/dbs", "dbs", "dbs", ""},
		{"/dbs/", "dbs", "dbs", ""},
		{"//dbs/", "dbs", "dbs", ""},
		{"/dbs?x=1/y", "dbs", "dbs", ""},
		{"/dbs/d", "dbs|d", "dbs", "dbs/d"},
		{"/dbs/d/colls", "dbs|d|colls", "colls", "dbs/d"},
		{"/dbs/d/colls/c/", "dbs|d|colls|c", "colls", "dbs/d/colls/c"},
		{"/dbs/d/colls/c/docs", "dbs|d|colls|c|docs", "docs", "dbs/d/colls/c"},
		{"/dbs/d/colls/c/docs?x", "dbs|d|colls|c|docs", "docs", "dbs/d/colls/c"},
		{"/dbs/d/colls/c/docs/x", "dbs|d|colls|c|docs|x", "docs", "dbs/d/colls/c/docs/x"},
		// One client sends question marks of ids raw, and others encode slashes.
		{"/dbs/db/colls/c/docs/a%20b?%C3%BC", "dbs|db|colls|c|docs|a b?ü", "docs", "dbs/db/colls/c/docs/a b?ü"},
		{"/dbs/db/colls/c/docs/a%20b%2F%C3%BC%3F%23+", "dbs|db|colls|c|docs|a b/ü?#+", "docs", "dbs/db/colls/c/docs/a b/ü?#+"},
		{"/dbs/db/colls/c/docs/%252F", "dbs|db|colls|c|docs|%2F", "docs", "dbs/db/colls/c/docs/%2F"},
		{"/dbs/D/colls/C/docs/X", "dbs|D|colls|C|docs|X", "docs", "dbs/D/colls/C/docs/X"},
		{"/dbs/d/colls/c/operations/partitionkeydelete", "dbs|d|colls|c|operations|partitionkeydelete", "colls", "dbs/d/colls/c"},
		{"/offers", "offers", "offers", ""},
		{"/offers/AbCd/", "offers|AbCd", "offers", "offers/AbCd"},
		{"//addresses/?$resolveFor=dbs%2fd%2fcolls%2fc%2fdocs&x=1", "addresses", "docs", "dbs/d/colls/c"},
		{"/addresses?%24resolveFor=dbs/d", "addresses", "dbs", "dbs/d"},
		{"/addresses?$resolveFor=addresses", "addresses", "addresses", ""},
		{"/addresses?$resolveFor=%zz", "addresses", "", ""},
		{"/addresses", "addresses", "", ""},
		{"/dbs/d/colls/c/docs/x/attachments/a", "dbs|d|colls|c|docs|x|attachments|a", "attachments", "dbs/d/colls/c/docs/x/attachments/a"},
		{"http://host:8081/dbs/d", "dbs|d", "dbs", "dbs/d"},
		{"http://host:8081", "", "", ""},
	} {
		var got target
		if err := got.parse(c.uri); err != nil {
			t.Errorf("%q: %v", c.uri, err)
			continue
		}
		if joined := strings.Join(got.segments[:got.count], "|"); joined != c.segments {
			t.Errorf("%q: segments %q, want %q", c.uri, joined, c.segments)
		}
		if kind, link := got.signed(); kind != c.kind || link != c.link {
			t.Errorf("%q: signed %q %q, want %q %q", c.uri, kind, link, c.kind, c.link)
		}
	}
}

// TestTargetRefused shows the paths that are a 400 whatever exists.
func TestTargetRefused(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"/dbs//colls", "/dbs/%", "/dbs/%2", "/dbs/%zz", "/dbs/%ff", "/dbs/a/colls/c/docs/%c3%28",
		"/dbs/d/colls/c/docs/x/attachments/a/b",
	} {
		var got target
		if err := got.parse(uri); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%q: error %v, want 400", uri, err)
		}
	}
}

// TestResolveFor shows how address resolution is signed.
func TestResolveFor(t *testing.T) {
	t.Parallel()
	query := "$filter=protocol%20eq%20rntbd&$resolveFor=dbs%2fd%2fcolls%2fc"
	if got := resolveFor(query); got != "dbs/d/colls/c" {
		t.Errorf("resolveFor(%q) = %q", query, got)
	}
	if got := resolveFor("x"); got != "" {
		t.Errorf("resolveFor of nothing = %q", got)
	}
}

func FuzzTarget(f *testing.F) {
	for _, uri := range []string{"/", "//dbs/", "/dbs/a%20b?%C3%BC", "/dbs/%2F%/x", "http://h/dbs/d?x", "/addresses/?$resolveFor=x", "?"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		var got target
		if err := got.parse(uri); err != nil {
			if status.CodeOf(err) != status.CodeBadRequest {
				t.Fatalf("error %v is not a 400", err)
			}
			return
		}
		for _, segment := range got.segments[:got.count] {
			if segment == "" || !utf8.ValidString(segment) {
				t.Fatalf("segment %q of %q", segment, uri)
			}
		}
		_, link := got.signed()
		if got.segments[0] == "addresses" {
			return
		}
		var parts []string
		switch n := got.count; {
		case n == 6 && got.segments[4] == "operations":
			parts = got.segments[:4]
		case n%2 == 0:
			parts = got.segments[:n]
		default:
			parts = got.segments[:n-1]
		}
		if want := strings.Join(parts, "/"); link != want {
			t.Fatalf("link %q of %q, want %q", link, uri, want)
		}
		lookup(&got)
	})
}
