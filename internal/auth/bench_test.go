package auth

import (
	"testing"
	"time"
)

// benchmarkCases are the ways to sign a request, the common one first.
var benchmarkCases = []struct {
	name    string
	key     string
	link    string
	sign    string
	refused bool
}{
	{"signed=name", primaryKey, "dbs/db/colls/c/docs/item-1", "dbs/db/colls/c/docs/item-1", false},
	{"signed=rid", primaryKey, "dbs/1ZAmAA==/colls/1ZAmAIAAAAA=", "1zamaiaaaaa=", false},
	{"signed=secondary", secondaryKey, "dbs/db/colls/c/docs/item-1", "dbs/db/colls/c/docs/item-1", false},
	{"signed=wrong", strangerKey, "dbs/db/colls/c/docs/item-1", "dbs/db/colls/c/docs/item-1", true},
}

func BenchmarkVerify(b *testing.B) {
	for _, bench := range benchmarkCases {
		b.Run(bench.name, func(b *testing.B) {
			v := newVerifier(b, Keys{Primary: primaryKey, Secondary: secondaryKey}, 15*time.Minute)
			c := benchmarkCredentials(bench.key, bench.link, bench.sign)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(c, testNow); (err != nil) != bench.refused {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchmarkCredentials(key, link, signed string) Credentials {
	return Credentials{
		Method: "GET", ResourceType: "docs", ResourceLink: link, Date: "Fri, 20 Nov 2026 12:00:00 GMT",
		Authorization: header(key, "get\ndocs\n"+signed+"\nfri, 20 nov 2026 12:00:00 gmt\n\n"),
	}
}

func BenchmarkSign(b *testing.B) {
	key, err := ParseKey(primaryKey)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Sign(key, "GET", "docs", "dbs/db/colls/c/docs/item-1", "Fri, 20 Nov 2026 12:00:00 GMT")
	}
}
