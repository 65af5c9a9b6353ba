package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/internal/value"
)

// BenchmarkKeyGiven compares ways to reach one item of a container with a key of three
// levels and eight physical partitions: with the whole key as an option, in the filter,
// or not at all, and what a client pays for taking the key from an item of 1 KB (S84).
// docs/choosing-a-key.md has the results.
func BenchmarkKeyGiven(b *testing.B) {
	s := decantest.Start(b, decan.Config{})
	s.Container("shop", `{"id":"events","partitionKey":{"paths":["/tenant","/user","/session"],"kind":"MultiHash","version":2}}`, 8)
	client, err := remote.Account{Endpoint: s.Endpoint(), Key: s.Key()}.Documents(1)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	item := func(n int) string {
		return fmt.Sprintf(`{"id":"e%d","tenant":"t%d","user":"u%d","session":"s%d","text":%q}`, n, n%50, n%500, n, strings.Repeat("x", 900))
	}
	path := remote.DocumentPath("shop", "events")
	paths := [][]string{{"tenant"}, {"user"}, {"session"}}
	for n := range 2000 {
		document, err := value.ParseString(item(n))
		if err != nil {
			b.Fatal(err)
		}
		if a, err := client.Do(b.Context(), http.MethodPost, path, []byte(item(n)), "x-ms-documentdb-partitionkey", remote.KeyOf(document, paths)); err != nil || a.Status != http.StatusCreated {
			b.Fatal(a.Status, err)
		}
	}
	key := `["t7","u7","s1007"]`
	report := func(b *testing.B, charge float64, visited int) {
		b.ReportMetric(charge, "RU")
		b.ReportMetric(float64(visited), "partitions")
	}
	b.Run("read/key=option", func(b *testing.B) {
		var charge float64
		for b.Loop() {
			a, err := client.Do(b.Context(), http.MethodGet, append(path[:len(path):len(path)], "e1007"), nil, "x-ms-documentdb-partitionkey", key)
			if err != nil || a.Status != http.StatusOK {
				b.Fatal(a.Status, err)
			}
			charge, _ = a.Charge()
		}
		report(b, charge, 1)
	})
	for _, c := range []struct{ name, text, key string }{
		{"query/key=option", `SELECT * FROM c WHERE c.id = "e1007"`, key},
		{"query/key=filter", `SELECT * FROM c WHERE c.tenant = "t7" AND c.user = "u7" AND c.session = "s1007" AND c.id = "e1007"`, ""},
		{"query/key=first-level", `SELECT * FROM c WHERE c.tenant = "t7" AND c.id = "e1007"`, ""},
		{"query/key=none", `SELECT * FROM c WHERE c.id = "e1007"`, ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			var page remote.Page
			for b.Loop() {
				var err error
				page, err = client.Page(b.Context(), remote.Statement{Database: "shop", Container: "events", Text: c.text, Key: c.key}, "")
				if err != nil || len(page.Rows) != 1 {
					b.Fatal(len(page.Rows), err)
				}
			}
			report(b, page.Charge, len(page.Partitions))
		})
	}
	b.Run("take-from-item", func(b *testing.B) {
		b.ReportAllocs()
		text := []byte(item(1007))
		for b.Loop() {
			document, err := value.Parse(text)
			if err != nil || remote.KeyOf(document, paths) != key {
				b.Fatal(err)
			}
		}
	})
}
