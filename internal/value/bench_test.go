package value

import (
	"strings"
	"testing"
)

// document1K is a document of about 1 KiB with 15 properties, typical of a shop
// or a telemetry service.
var document1K = `{"id":"b7e1f0c2-6a4e-4f0e-9d5b-0f3c2a1d7e55","tenantId":"contoso","userId":"alice@contoso.example",` +
	`"sessionId":"0000-55a3-77f2","type":"order","created":"2024-05-17T09:31:22.4471Z","amount":129.95,"currency":"EUR",` +
	`"items":[{"sku":"A-1000","count":2,"price":19.99},{"sku":"B-2040","count":1,"price":89.97}],` +
	`"address":{"street":"Königstraße 12","city":"München","zip":"80331","country":"DE"},"paid":true,"coupon":null,` +
	`"note":"` + strings.Repeat("leave the parcel at the back door, please. ", 8) + `","score":1234567890123,` +
	`"tags":["new","priority","gift wrapped","returning customer"]}`

func BenchmarkParse(b *testing.B) {
	data := []byte(document1K)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	v := mustParse(b, document1K)
	dst := make([]byte, 0, 2048)
	b.SetBytes(int64(len(document1K)))
	b.ReportAllocs()
	for b.Loop() {
		dst = v.Append(dst[:0])
	}
}

func BenchmarkCompare(b *testing.B) {
	for name, text := range benchValues {
		b.Run("kind="+name, func(b *testing.B) {
			left, right := mustParse(b, text), mustParse(b, text)
			b.ReportAllocs()
			for b.Loop() {
				if Compare(left, right) != 0 {
					b.Fatal("not equal")
				}
			}
		})
	}
}

func BenchmarkAppendKey(b *testing.B) {
	for name, text := range benchValues {
		b.Run("kind="+name, func(b *testing.B) {
			v := mustParse(b, text)
			dst := make([]byte, 0, 2048)
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendKey(dst[:0], v)
			}
		})
	}
}

var benchValues = map[string]string{
	"integer":  `1234567890123`,
	"double":   `129.95`,
	"string":   `"alice@contoso.example"`,
	"document": document1K,
}

func mustParse(tb testing.TB, text string) Value {
	tb.Helper()
	v, err := ParseString(text)
	if err != nil {
		tb.Fatalf("parse %q: %v", text, err)
	}
	return v
}
