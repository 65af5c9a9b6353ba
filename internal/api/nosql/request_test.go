package nosql

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// with returns a request that carries headers given as name, value, name, value.
func with(headers ...string) *request {
	hr := httptest.NewRequest("POST", "/dbs/d/colls/c/docs", nil)
	for i := 0; i < len(headers); i += 2 {
		hr.Header.Add(headers[i], headers[i+1])
	}
	r := new(request)
	r.fill(hr)
	return r
}

// TestBodyLimit tests both sides of the limit, with and without an announced
// length.
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 1000
	for _, size := range []int{0, 1, limit - 1, limit, limit + 1, 3 * limit} {
		for _, announced := range []bool{true, false} {
			r := with()
			r.source = strings.NewReader(strings.Repeat("x", size))
			r.length = -1
			if announced {
				r.length = int64(size)
			}
			body, err := r.readBody(limit)
			switch {
			case size <= limit && (err != nil || len(body) != size):
				t.Errorf("size %d, announced %t: %d bytes, error %v", size, announced, len(body), err)
			case size > limit && status.CodeOf(err) != status.CodeTooLarge:
				t.Errorf("size %d, announced %t: error %v, want 413", size, announced, err)
			}
		}
	}
}

// TestBodyBroken shows that a body that ends early is the client's error, and
// that a compressed one is refused by name.
func TestBodyBroken(t *testing.T) {
	t.Parallel()
	r := with()
	r.source = iotest.ErrReader(io.ErrUnexpectedEOF)
	if _, err := r.readBody(10); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("error %v, want 400", err)
	}
	r.source = iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc")))
	if _, err := r.readBody(10); status.CodeOf(err) != status.CodeBadRequest && status.CodeOf(err) != status.CodeRequestTimeout {
		t.Errorf("error %v, want 400 or 408", err)
	}
	r = with("Content-Encoding", "gzip")
	r.source = strings.NewReader("x")
	if _, err := r.readBody(10); status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("error %v, want 400 that names gzip", err)
	}
}

func TestReadObject(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, c := range []struct {
		body string
		good bool
	}{
		{`{}`, true},
		{` {"id":"x"} `, true},
		{nested(128), true},
		{nested(129), false},
		{``, false},
		{`{`, false},
		{`[]`, false},
		{`"x"`, false},
		{`{} {}`, false},
		{"\x80\x00", false},
		{"{\"a\":\"\xff\"}", false},
	} {
		r := with()
		r.source = strings.NewReader(c.body)
		r.length = int64(len(c.body))
		_, size, err := r.readObject(1 << 20)
		switch {
		case c.good && (err != nil || size != len(c.body)):
			t.Errorf("%.40q: size %d, error %v", c.body, size, err)
		case !c.good && status.CodeOf(err) != status.CodeBadRequest:
			t.Errorf("%.40q: error %v, want 400", c.body, err)
		}
	}
}

// TestMaxItems shows the page sizes.
func TestMaxItems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "0": 0, "1": 1, "1000": 1000, "-1": -1} {
		if got, err := with(headerMaxItemCount, text).maxItems(); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "1.5", "-2", " ", "99999999999", "+-1", "0x10"} {
		if _, err := with(headerMaxItemCount, text).maxItems(); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%q: error %v, want 400", text, err)
		}
	}
}

func TestRangeID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, id, rid string
	}{{"", "", ""}, {"0", "0", ""}, {"17", "17", ""}, {"AbCdAKEfGh0=,3", "3", "AbCdAKEfGh0="}, {"rid, 4", "4", "rid"}} {
		id, rid, err := with(headerGivenRangeID, c.text).rangeID()
		got := ""
		if id != nil {
			got = id.String()
		}
		if got != c.id || rid != c.rid || err != nil {
			t.Errorf("%q: id %q, rid %q, error %v", c.text, got, rid, err)
		}
	}
	for _, text := range []string{"x", "-1", "4294967296", "0,", "1.0", "M"} {
		if _, _, err := with(headerGivenRangeID, text).rangeID(); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%q: error %v, want 400", text, err)
		}
	}
}

func TestEPKRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start, end, want string
	}{
		{"", "", ""},
		{"1F", "", "[1F,FF)"},
		{"", "1f", "[,1F)"},
		{"1F", "2F", "[1F,2F)"},
		{"1F", "1F", "[1F,1FFF)"},
	} {
		clip, err := with(headerStartEPK, c.start, headerEndEPK, c.end).epkRange()
		got := ""
		if clip != nil {
			got = clip.String()
		}
		if got != c.want || err != nil {
			t.Errorf("%q to %q: %s, %v, want %s", c.start, c.end, got, err, c.want)
		}
	}
	for _, c := range [][2]string{{"2F", "1F"}, {"x", ""}, {"", "1"}, {"1", "2"}} {
		if _, err := with(headerStartEPK, c[0], headerEndEPK, c[1]).epkRange(); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%q: error %v, want 400", c, err)
		}
	}
}

// TestIsQuery shows the ways in which clients mark a query.
func TestIsQuery(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]string{
		{"x-ms-documentdb-isquery", "True"},
		{"x-ms-documentdb-isquery", "true"},
		{"x-ms-documentdb-query", "True"},
		{"Content-Type", "application/query+json"},
		{"Content-Type", "Application/Query+JSON; charset=utf-8"},
		{"Content-Type", "application/sql"},
	} {
		if !with(headers...).isQuery() {
			t.Errorf("%q does not mark a query", headers)
		}
	}
	for _, headers := range [][]string{{}, {"x-ms-documentdb-isquery", "False"}, {"x-ms-documentdb-isquery", ""}, {"Content-Type", "application/json"}} {
		if with(headers...).isQuery() {
			t.Errorf("%q marks a query", headers)
		}
	}
}

func TestMinimal(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]string{
		{"Prefer", "return=minimal"},
		{"prefer", "respond-async, Return=Minimal"},
		{"Prefer", "x", "Prefer", "return=minimal"},
		{"x-ms-cosmos-populate-content-response-on-write", "False"},
	} {
		if !with(headers...).minimal() {
			t.Errorf("%q does not ask for a minimal answer", headers)
		}
	}
	for _, headers := range [][]string{{}, {"Prefer", "return=representation"}, {"x-ms-cosmos-populate-content-response-on-write", "True"}} {
		if with(headers...).minimal() {
			t.Errorf("%q asks for a minimal answer", headers)
		}
	}
}

// TestOptions shows both ways to request a consistency level.
func TestOptions(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[string]string{"": "", "Eventual": "Eventual", "session": "Session", "LatestCommitted": "", "GlobalStrong": "Strong"} {
		opts, err := with(headerReadStrategy, strategy, headerGivenSession, "0:-1#3", headerIntendedRID, "r").options()
		if err != nil || opts.Consistency != want || opts.Session != "0:-1#3" || opts.IntendedRID != "r" {
			t.Errorf("%q: %+v, %v", strategy, opts, err)
		}
	}
	if _, err := with(headerReadStrategy, "x").options(); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("an unknown strategy: error %v, want 400", err)
	}
	for strategy, want := range map[string]string{"Eventual": "Eventual", "LatestCommitted": "", "": "Strong"} {
		if opts, err := with(headerReadStrategy, strategy, headerConsistency, "Strong").options(); err != nil || opts.Consistency != want {
			t.Errorf("strategy %q and level Strong: %q, %v, want %q", strategy, opts.Consistency, err, want)
		}
	}
}

// TestPartitionKeyHeader shows that a key is absent, read or a 400.
func TestPartitionKeyHeader(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", `["a"]`: `["a"]`, `["t", 1, null]`: `["t",1,null]`, `["\U0001f600\a"]`: `["\ud83d\ude00\u0007"]`, `[]`: `[]`, `[{}]`: `[{}]`} {
		key, err := with(headerPartitionKey, text).partitionKey()
		got := ""
		if key != nil {
			got = key.String()
		}
		if got != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"a", `"a"`, `["a"`, `[{"a":1}]`, `[1e400]`, `["\q"]`} {
		if _, err := with(headerPartitionKey, text).partitionKey(); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%q: error %v, want 400", text, err)
		}
	}
	if err := keyError(&partitionkey.Error{Message: "x", Mismatch: true}); status.SubOf(err) != status.SubPartitionKeyMismatch {
		t.Errorf("a mismatch has sub-status %d", status.SubOf(err))
	}
	if err := keyError(errors.New("x")); status.CodeOf(err) != status.CodeInternal {
		t.Errorf("an error of another type is %v", err)
	}
}

func TestThroughputHeaders(t *testing.T) {
	t.Parallel()
	if req, err := with(headerOfferThroughput, "400").throughput(); err != nil || req.Manual == nil || *req.Manual != 400 || req.AutoscaleMax != nil {
		t.Errorf("manual: %+v, %v", req, err)
	}
	if req, err := with(headerOfferAutopilot, `{"maxThroughput":4000}`).throughput(); err != nil || req.AutoscaleMax == nil || *req.AutoscaleMax != 4000 || req.Manual != nil {
		t.Errorf("autoscale: %+v, %v", req, err)
	}
	if req, err := with(headerOfferAutopilot, `{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":100}}}`).throughput(); err != nil || *req.AutoscaleMax != 4000 || req.Upgrade.Percent != 100 {
		t.Errorf("autoscale that is upgraded: %+v, %v", req, err)
	}
	if req, err := with().throughput(); err != nil || req.Manual != nil || req.AutoscaleMax != nil {
		t.Errorf("nothing: %+v, %v", req, err)
	}
	for _, headers := range [][]string{
		{headerOfferThroughput, "x"},
		{headerOfferThroughput, "4.5"},
		{headerOfferType, "S1"},
		{headerOfferAutopilot, "x"},
		{headerOfferAutopilot, "{}"},
		{headerOfferAutopilot, `{"maxThroughput":"4000"}`},
		{headerOfferAutopilot, `{"maxThroughput":1e18}`},
		{headerOfferAutopilot, `{"maxThroughput":0.5}`},
		{headerOfferAutopilot, `{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":101}}}`},
	} {
		if _, err := with(headers...).throughput(); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%q: error %v, want 400", headers, err)
		}
	}
}

// FuzzHeaders reads every header that has a syntax: any text gives a value or a
// 400.
func FuzzHeaders(f *testing.F) {
	for _, text := range []string{"", "-1", `["a",{},null,1.5]`, "1F", "AbCdAKEfGh0=,3", `{"maxThroughput":4000}`, "return=minimal", "Session"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		hr := &http.Request{Header: http.Header{}}
		for _, name := range []string{headerPartitionKey, headerMaxItemCount, headerGivenRangeID, headerStartEPK, headerOfferThroughput, headerPrefer, headerReadStrategy, headerContentType} {
			hr.Header[name] = []string{first}
		}
		for _, name := range []string{headerEndEPK, headerOfferAutopilot, headerGivenActivityID} {
			hr.Header[name] = []string{second}
		}
		r := &request{message: message{headers: httpHeaders(hr.Header)}}
		check := func(err error) {
			if err != nil && status.CodeOf(err) != status.CodeBadRequest {
				t.Fatalf("%q, %q: %v is not a 400", first, second, err)
			}
		}
		_, err := r.partitionKey()
		check(err)
		_, err = r.maxItems()
		check(err)
		_, _, err = r.rangeID()
		check(err)
		clip, err := r.epkRange()
		check(err)
		if clip != nil && clip.Empty() {
			t.Fatalf("%q, %q: the empty range %s", first, second, clip)
		}
		_, err = r.throughput()
		check(err)
		_, err = r.options()
		check(err)
		r.minimal()
		r.isQuery()
		if id := activityID(second); !isGUID(id) {
			t.Fatalf("%q is no GUID", id)
		}
	})
}

// fewBytes is a body of which some bytes arrive, followed by an error.
type fewBytes struct{ left int }

func (b *fewBytes) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

// The buffer of a body grows with the bytes that have arrived: to less than four
// times as much, and 4 KB at least, whatever is announced; and no further than
// the body.
func TestBodyGrows(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	for _, announced := range []int64{-1, 1000, 4095, 4096, 100_000, limit} {
		for _, arrives := range []int{0, 1, 4096, 4097, 70_000, 1 << 20, limit} {
			if announced >= 0 && int64(arrives) > announced {
				continue
			}
			r := with()
			r.memory = NewMemory(0, nil)
			r.length = announced
			r.source = &fewBytes{left: arrives}
			if _, err := r.readBody(limit); status.CodeOf(err) != status.CodeBadRequest {
				t.Fatalf("%d announced, %d arrive: %v", announced, arrives, err)
			}
			if most := int64(max(4*arrives, countedMin)); r.memory.Taken() > most || r.memory.Taken() > limit+1 {
				t.Errorf("%d announced, %d arrive: %d bytes are taken", announced, arrives, r.memory.Taken())
			}
			if least := int64(arrives); arrives > countedMin && r.memory.Taken() < least {
				t.Errorf("%d announced, %d arrive: only %d bytes are counted", announced, arrives, r.memory.Taken())
			}
			memory := r.memory
			r.end()
			if memory.Taken() != 0 {
				t.Errorf("%d announced, %d arrive: %d bytes are left taken", announced, arrives, memory.Taken())
			}
		}
	}
}

// A request whose body took long has its whole time afterwards.
func TestTimeBeginsAfterTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := with()
		r.limitTime(time.Minute)
		body, in := io.Pipe()
		go func() {
			for range 10 {
				in.Write([]byte("x"))
				time.Sleep(time.Minute) // simulated
			}
			in.Close()
		}()
		r.source, r.length = body, -1
		if got, err := r.readBody(100); len(got) != 10 || err != nil {
			t.Fatalf("%q %v", got, err)
		}
		if deadline, _ := r.ctx.Deadline(); r.ctx.Err() != nil || time.Until(deadline) != time.Minute {
			t.Errorf("%v, and %v are left", r.ctx.Err(), time.Until(deadline))
		}
		r.cancel()
	})
}
