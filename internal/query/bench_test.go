package query

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// benchDocuments are documents of about 1 KiB with 15 properties.
func benchDocuments(b *testing.B, n int) plainList {
	var docs plainList
	for i := range n {
		var m strings.Builder
		fmt.Fprintf(&m, `{"id":"item-%06d","tenantId":"tenant-%d","userId":"user-%d","n":%d`, i, i%10, i%100, i%50)
		for j := range 10 {
			fmt.Fprintf(&m, `,"property%d":"%s"`, j, strings.Repeat("v", 70))
		}
		m.WriteString(`,"_rid":"abcdefgh","_ts":1700000000}`)
		docs = append(docs, Candidate{Number: uint64(i + 1), Body: []byte(m.String())})
	}
	return docs
}

// plainList is a Source without index and copies.
type plainList []Candidate

func (l plainList) Candidates(_ context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		for _, c := range l {
			if c.Number > need.After && !yield(c, nil) {
				return
			}
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	ix := newIndex(b)
	params := []Param{{Name: "@tenant-id", Value: value.String("a")}, {Name: "@user-id", Value: value.String("b")}}
	d := partitionkey.Definition{Paths: []string{"/tenantId", "/userId", "/sessionId"}, Kind: partitionkey.KindMultiHash}.Normalize()
	b.ReportAllocs()
	for b.Loop() {
		p, err := Compile("SELECT * FROM c WHERE c.tenantId = @tenant-id AND c.userId = @user-id AND c.n > 5", params, ix, Options{})
		if err != nil || len(p.Ranges(d)) != 1 {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	docs := benchDocuments(b, 1000)
	for name, text := range map[string]string{
		"filter":      `SELECT * FROM c WHERE c.tenantId = "none" AND c.n > 5`,
		"passthrough": `SELECT * FROM c`,
		"project":     `SELECT c.id, c.n FROM c WHERE c.n >= 0`,
		"order":       `SELECT TOP 10 * FROM c ORDER BY c.n`,
		"compute":     `SELECT VALUE CONCAT(c.id, "-", ToString(c.n * 2)) FROM c WHERE STARTSWITH(c.id, "item")`,
	} {
		b.Run("query="+name+"/docs=1000", func(b *testing.B) {
			p := mustCompile(b, text)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Run(b.Context(), docs, Budget{MaxBytes: 1 << 30}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	docs := benchDocuments(b, 1000)
	p := mustCompile(b, `SELECT VALUE c.id FROM c ORDER BY c.n`)
	var streams []Stream
	for i := range 8 {
		streams = append(streams, func(ctx context.Context, budget Budget) (Page, error) {
			return p.Run(ctx, docs[i*125:(i+1)*125], budget)
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := p.Merge(streams, Progress{}).Page(b.Context(), Budget{MaxItems: 1000}); err != nil {
			b.Fatal(err)
		}
	}
}
