package script

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

const taxBody = `function tax(income) { if (income < 1000) return income * 0.1; else if (income < 10000) return income * 0.2; else return income * 0.4; }`

const documentBody = `function (d) { for (var i = 0, n = 0; i < d.tags.length; i++) if (d.tags[i].indexOf('a') >= 0) n++; return { id: d.id, n: n }; }`

const document = `{"id":"abc","pk":"x","tags":["alpha","beta","gamma","delta"],"address":{"city":"Ulm","zip":"89073"},"n":12.5}`

// BenchmarkCall is one call of a user-defined function.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct{ name, body, argument string }{
		{"argument=number", taxBody, "5000"},
		{"argument=document", documentBody, document},
		{"argument=number/globals=1", "function (x) { total = x; return total; }", "5000"},
		{"argument=number/realm=own", "function (x) { Math.x = x; return Math.x; }", "5000"},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := New(Limits{})
			defer r.Close()
			p := compile(b, r, Function, c.body)
			args := []value.Value{parse(b, c.argument)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Call(context.Background(), args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRun is one run of a stored procedure that creates documents.
func BenchmarkRun(b *testing.B) {
	body := `function (items) {
		var created = 0;
		items.forEach((item) => __.createDocument(__.getSelfLink(), item, (err) => { if (err) throw err; getContext().getResponse().setBody(++created); }));
	}`
	for _, n := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("creates=%d", n), func(b *testing.B) {
			r := New(Limits{})
			defer r.Close()
			p := compile(b, r, Procedure, body)
			items := make([]value.Value, n)
			for i := range items {
				items[i] = parse(b, strings.Replace(document, "abc", fmt.Sprintf("id%d", i), 1))
			}
			host := &recorder{}
			b.ReportAllocs()
			for b.Loop() {
				host.begin()
				if _, err := p.Run(context.Background(), host, Request{Args: []value.Value{value.Array(items)}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCompile measures the check of a body, and a first call.
func BenchmarkCompile(b *testing.B) {
	b.Run("compile", func(b *testing.B) {
		r := New(Limits{})
		defer r.Close()
		for b.Loop() {
			compile(b, r, Function, taxBody)
		}
	})
	b.Run("first-call", func(b *testing.B) {
		for b.Loop() {
			r := New(Limits{})
			if _, err := compile(b, r, Function, taxBody).Call(context.Background(), []value.Value{value.Int(1)}); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
	})
}
