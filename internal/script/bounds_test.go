package script

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

func compile(t testing.TB, r *Runner, kind Kind, body string) *Program {
	t.Helper()
	p, err := r.Compile(context.Background(), kind, "test", body)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// endless is a call that the engine cannot interrupt: a built-in function that
// visits four billion indexes without checking a flag.
const endless = "function (n) { return new Array(n).indexOf(1); }"

// TestRunaway runs scripts that cannot be stopped: the caller gets its response,
// the script is not started again, and there is a limit on the number of such
// scripts.
func TestRunaway(t *testing.T) {
	r := New(Limits{Time: 10 * time.Millisecond, Runaways: 1})
	r.grace = 20 * time.Millisecond
	p, q := compile(t, r, Function, endless), compile(t, r, Function, "function () { return 1; }")
	n := value.Int(10_000_000 / slowdown) // it ends some time, so that the test leaves nothing running
	for tries := 1; p.runawayError() == nil; tries++ {
		// A delayed caller may return after the script has ended.
		if _, err := p.Call(t.Context(), []value.Value{n}); err != nil && status.CodeOf(err) != status.CodeBadRequest || tries > 100 {
			t.Fatalf("call %d: got %v, want 400 and a script that is left behind", tries, err)
		}
	}
	// The script may end at any time. This one counts until it is told to stop.
	m, err := r.newMachine()
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan struct{})
	if err := m.do(t.Context(), r.limits.Time, func() { <-held }); !errors.Is(err, errRunaway) {
		t.Fatalf("got %v, want %v", err, errRunaway)
	}
	for r.Runaways() > 1 { // the script is still running
		runtime.Gosched()
	}
	if got := r.Runaways(); got != 1 {
		t.Errorf("got %d runaways, want 1", got)
	}
	if _, err := p.Call(t.Context(), nil); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("called again: got %v, want 400 at once", err)
	}
	if _, err := q.Call(t.Context(), nil); status.CodeOf(err) != status.CodeTooManyRequests || status.SubOf(err) != status.SubScriptConcurrency {
		t.Errorf("another script: got %v, want 429", err)
	}
	r.Close() // does not wait for the runaway
	close(held)
	for r.Runaways() != 0 {
		runtime.Gosched()
	}
}

// TestContextEnds checks that a script stops when the context of its caller
// ends.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	r := New(Limits{Time: time.Hour})
	defer r.Close()
	loop := compile(t, r, Function, "function () { for (;;); }")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := loop.Call(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call: got %v", err)
	}
	if _, err := loop.Call(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call by a context that is over: got %v", err)
	}
	for _, body := range []string{"function () { for (;;); }", "function f() { __.readDocuments(__.getSelfLink(), f); }", "async function () { for (;;) await 0; }"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := compile(t, r, Procedure, body).Run(ctx, &recorder{}, Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", body, err)
		}
		cancel()
	}
	if _, err := compile(t, r, Function, "function () { return 1; }").Call(t.Context(), nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestSlots checks that more callers than engines wait, and are all served.
func TestSlots(t *testing.T) {
	t.Parallel()
	r := New(Limits{Engines: 2, Idle: 1})
	p := compile(t, r, Function, "function (x) { total = x; for (i = 0; i < 10; i++) total += i; return total; }")
	fresh := compile(t, r, Function, "function (x) { String.prototype.x = x; return ''.x; }")
	var calls sync.WaitGroup
	var served atomic.Int32
	for i := range 8 {
		calls.Go(func() {
			for j := range 50 {
				x := value.Int(int64(i*1000 + j))
				if got, err := p.Call(t.Context(), []value.Value{x}); err != nil || !got.Equal(value.Int(int64(i*1000+j+45))) {
					t.Errorf("got %v, %v", got, err)
				}
				served.Add(1)
			}
			if got, err := fresh.Call(t.Context(), []value.Value{value.Int(int64(i))}); err != nil || !got.Equal(value.Int(int64(i))) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	calls.Wait()
	if got := served.Load(); got != 400 {
		t.Errorf("served %d calls, want 400", got)
	}
	if got := len(r.idle); got != 1 {
		t.Errorf("%d engines are kept, want 1", got)
	}
	r.Close()
	if _, err := p.Call(t.Context(), nil); !errors.Is(err, errClosed) {
		t.Errorf("after Close: got %v", err)
	}
}

// TestManyPrograms checks that an engine is replaced when it has loaded the
// maximum number of programs.
func TestManyPrograms(t *testing.T) {
	t.Parallel()
	r := New(Limits{Idle: 1})
	defer r.Close()
	for i := range 2*programsMax + 1 {
		p := compile(t, r, Function, fmt.Sprintf("function () { return %d; }", i))
		for range 2 {
			if got, err := p.Call(t.Context(), nil); err != nil || !got.Equal(value.Int(int64(i))) {
				t.Fatalf("got %v, %v", got, err)
			}
		}
		for _, m := range r.idle {
			if len(m.makers) > programsMax {
				t.Fatalf("an engine has %d programs loaded", len(m.makers))
			}
		}
	}
}

// TestKinds checks that a program that must be run cannot be called, and vice
// versa.
func TestKinds(t *testing.T) {
	t.Parallel()
	r := New(Limits{})
	defer r.Close()
	if _, err := compile(t, r, Procedure, "function () {}").Call(t.Context(), nil); err == nil {
		t.Error("a stored procedure was called")
	}
	if _, err := compile(t, r, Function, "function () {}").Run(t.Context(), &recorder{}, Request{}); err == nil {
		t.Error("a user-defined function was run")
	}
}

// TestArgumentsBound checks arguments on both sides of the size limit.
func TestArgumentsBound(t *testing.T) {
	t.Parallel()
	r := New(Limits{MemoryBytes: 4 << 20})
	defer r.Close()
	p := compile(t, r, Function, "function (a, b) { return a.length + b.length; }")
	half := value.String(strings.Repeat("x", 1<<19))
	if got, err := p.Call(t.Context(), []value.Value{half, half}); err != nil || !got.Equal(value.Int(1<<20)) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := p.Call(t.Context(), []value.Value{half, half, value.String("x")}); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("got %v, want 400", err)
	}
}

// TestLogFitsHeader logs random texts with the limit at exactly the length that
// they take in a header: they fit, and one character more is an exception in the
// script.
func TestLogFitsHeader(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	var ascii strings.Builder
	for c := range rune(0x80) {
		ascii.WriteRune(c)
	}
	texts := []string{ascii.String()}
	for range 20 {
		var b strings.Builder
		for range 1 + rng.IntN(30) {
			b.WriteRune([]rune{'a', 'Z', '0', ' ', '%', '!', '\'', 'é', '\u07ff', '\u0800', '\ud7ff', '€', '\ufffd', '😀', '\U0010ffff'}[rng.IntN(15)])
		}
		texts = append(texts, b.String())
	}
	const body = "function (text) { console.log(text); try { console.log('.'); } catch (e) { getContext().getResponse().setBody(e.number); } }"
	for _, text := range texts {
		r := New(Limits{LogBytes: len(url.PathEscape(text))})
		result, err := compile(t, r, Procedure, body).Run(t.Context(), &recorder{}, Request{Args: []value.Value{value.String(text)}, Log: true})
		if err != nil || result.Log != text || !result.Body.Equal(value.Int(413)) {
			t.Errorf("seed %d: logged %q, got %q, %v, %v", seed, text, result.Log, result.Body, err)
		}
		r.Close()
	}
	// Half of a surrogate pair is replaced by a character.
	r := New(Limits{LogBytes: len("%EF%BF%BD")})
	defer r.Close()
	if result, err := compile(t, r, Procedure, `function () { console.log("\ud800"); }`).Run(t.Context(), &recorder{}, Request{Log: true}); err != nil || result.Log != "\ufffd" {
		t.Errorf("got %q, %v", result.Log, err)
	}
}

// TestOwnScripts checks that our own scripts have fewer lines than the offset of
// bodies, by which stack traces distinguish them.
func TestOwnScripts(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{"base": baseSource, "realm": realmSource, "api": apiSource} {
		if lines := strings.Count(source, "\n"); lines >= linesBefore {
			t.Errorf("%s.js has %d lines", name, lines)
		}
	}
}

// TestRandomValues passes values through a function that returns its argument,
// in a sealed realm and in a separate one.
func TestRandomValues(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	r := New(Limits{})
	defer r.Close()
	same := compile(t, r, Function, "function (x) { return x; }")
	own := compile(t, r, Function, "function (x) { return Reflect.get({ x: x }, 'x'); }")
	for range 300 {
		v := randomValue(rng, 4)
		for _, p := range []*Program{same, own}[:1+rng.IntN(2)] {
			if got, err := p.Call(t.Context(), []value.Value{v}); err != nil || !got.Equal(v) {
				t.Fatalf("seed %d: sent %v, got %v, %v", seed, v, got, err)
			}
		}
	}
}

func randomValue(rng *rand.Rand, depth int) value.Value {
	texts := []string{"", "a", "é😀", "\x00", "\"\\\n\u2028", "__proto__", "constructor", "toString", "0", "toJSON"}
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch rng.IntN(kinds) {
	case 0:
		return value.Null()
	case 1:
		return value.Bool(rng.IntN(2) == 0)
	case 2:
		return value.Int(rng.Int64N(1<<54) - 1<<53)
	case 3:
		return value.Number(rng.NormFloat64() * 1e100)
	case 4:
		return value.String(texts[rng.IntN(len(texts))])
	case 5:
		items := make([]value.Value, rng.IntN(4))
		for i := range items {
			items[i] = randomValue(rng, depth-1)
		}
		return value.Array(items)
	}
	members := make([]value.Member, rng.IntN(4))
	for i := range members {
		members[i] = value.Member{Name: texts[rng.IntN(len(texts)-3)] + "x", Value: randomValue(rng, depth-1)}
	}
	return value.Object(members)
}

// FuzzCall compiles and calls any text: it returns a value or a status in time,
// and does not affect the next call of another function.
func FuzzCall(f *testing.F) {
	for _, body := range []string{
		"function (x) { return x; }", "x => x.y.z", "function () { this.a = 1; return a }", "(", "async () => 1", "class { static x = 1 }",
		"function () { Object.freeze(this) }", "function () { for (;;); }", "function () { delete this.undefined; return Object.keys(this) }",
		"function f() {}\nfunction g() {}", "/*", "`", "function () { throw { toString: null } }", "() => ({ toJSON: () => 1n })",
		"function () { Array.prototype = 1; Math = 2; [].push = 3 }", "function*(){ yield 1 }", "function () { return arguments.callee }",
	} {
		f.Add(body, `[{"a":1},"x"]`)
	}
	r := New(Limits{Time: textTime, MemoryBytes: 8 << 20, Runaways: 1 << 20})
	witness, err := r.Compile(context.Background(), Function, "witness", "function () { return [typeof leak, Object.keys(this).length, ''.x === undefined, [].map.name, JSON.stringify({ a: [1] })]; }")
	if err != nil {
		f.Fatal(err)
	}
	want, err := witness.Call(context.Background(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, args string) {
		p, err := r.Compile(t.Context(), Function, "fuzz", body)
		if err != nil {
			if status.From(err) == nil {
				t.Fatalf("compile: %v", err)
			}
			return
		}
		given, err := value.ParseString(args)
		if err != nil {
			return
		}
		r.limits.Time = 50 * time.Millisecond
		for range 2 {
			if _, err := p.Call(t.Context(), given.Items()); err != nil && status.From(err) == nil {
				t.Fatalf("call: %v", err)
			}
		}
		r.limits.Time = textTime // the second call must end, however long it is delayed
		if got, err := witness.Call(t.Context(), nil); err != nil || !got.Equal(want) {
			t.Fatalf("the witness saw %v, %v, want %v", got, err, want)
		}
	})
}
