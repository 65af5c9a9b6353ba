package democmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/console/consoletest"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/auth"
)

// terminal returns a terminal of 80 columns, and copies to out what is written to it. wait
// closes it and returns when everything is copied.
func terminal(t *testing.T, out io.Writer) (file *os.File, wait func()) {
	t.Helper()
	screen, file, err := pty.Open()
	if err != nil {
		t.Skipf("this system has no terminals: %v", err)
	}
	if err := pty.Setsize(screen, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(struct{ io.Writer }{out}, screen) // It ends with an error after the last writer.
	})
	return file, sync.OnceFunc(func() {
		file.Close()
		copying.Wait()
		screen.Close()
	})
}

// tooWide returns the lines of a terminal that wrap, except sentences, commands and the key.
func tooWide(text string) (lines []string) {
	for line := range strings.SplitSeq(strings.NewReplacer("\x1b[K", "", "\r", "\n").Replace(text), "\n") {
		if utf8.RuneCountInString(line) > 80 && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "  decan ") && !strings.HasPrefix(line, "  key ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestDemoTenants runs the demonstration with few events, with its progress in a terminal
// and its results in a pipe, and checks the server that keeps
// running and the properties of the four keys that do not depend on the numbers (S6, S31,
// S32, S33, S34, S38, S39, S42).
func TestDemoTenants(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var kept containerState
	var keptErr error
	progress := &consoletest.Until{Text: "--endpoint ", Told: func(all string) {
		defer cancel()
		admin := regexp.MustCompile(`admin +(http://\S+)`).FindStringSubmatch(all)
		if admin == nil {
			keptErr = errors.New("the admin port is not named")
			return
		}
		d := demo{admin: remote.Admin{Endpoint: admin[1], Key: auth.WellKnownKey}}
		kept, keptErr = d.state(ctx, &demoLayouts[len(demoLayouts)-1])
	}}
	var out bytes.Buffer
	c := &tenantsCommand{Documents: demoDocumentsMin, JSON: true, Keep: true}
	file, wait := terminal(t, progress)
	defer wait()
	if err := c.run(ctx, console.Streams{Out: &out, Err: file}); err != nil {
		t.Fatal(err)
	}
	wait()
	var report demoReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	documents := int64(0)
	for _, p := range kept.Partitions {
		documents += p.Documents
	}
	if keptErr != nil || documents != demoDocumentsMin {
		t.Errorf("the server that keeps running has %d documents, %v", documents, keptErr)
	}
	if report.Events != demoDocumentsMin || len(report.Layouts) != len(demoLayouts) {
		t.Fatalf("%d events for %d keys", report.Events, len(report.Layouts))
	}
	for i := range report.Layouts {
		demoHolds(t, &report, &report.Layouts[i])
		if line := fmt.Sprintf("%s ██████████  100 %% 1,000 of 1,000, %d partitions", demoLayouts[i].title, report.Layouts[i].Partitions); !strings.Contains(progress.String(), line) {
			t.Errorf("the progress has no line %q:\n%s", line, progress.String())
		}
	}
	demoCompares(t, report.Layouts)
	advisorAgrees(t, &report)

	var text bytes.Buffer
	if err := report.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,000 events of about", "refused writes", "user alone", "* finds fewer documents, because writes were refused", `the limit of 4 MB per key is reached by ["Contoso"].`, "The program must build the key."} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, text.String())
		}
	}
	if lines := strings.Count(text.String(), "\n"); lines > 24 {
		t.Errorf("the table has %d lines, more than a screen", lines)
	}
	var narrow bytes.Buffer
	file, wait = terminal(t, &narrow)
	defer wait()
	if err := report.print(file); err != nil {
		t.Fatal(err)
	}
	wait()
	if lines := tooWide(narrow.String() + progress.String()); lines != nil || strings.Count(narrow.String(), "partition key ") != 2 {
		t.Errorf("in a terminal of 80 columns these lines are too long: %q\n%s", lines, narrow.String())
	}
}

// demoHolds checks one key: the answers to the client agree with the numbers of the
// server.
func demoHolds(t *testing.T, report *demoReport, r *demoResult) {
	t.Helper()
	if r.Taken+r.Refused != report.Events || int64(r.Taken) != r.Documents || r.TakenBytes != r.Bytes {
		t.Errorf("%s: %d taken with %d bytes and %d refused of %d; the server has %d with %d", r.Key, r.Taken, r.TakenBytes, r.Refused, report.Events, r.Documents, r.Bytes)
	}
	if r.Partitions < 2 || r.LargestBytes < 1 || r.LargestBytes > r.LogicalLimit {
		t.Errorf("%s: %d partitions, %s has %d bytes of %d", r.Key, r.Partitions, r.LargestKey, r.LargestBytes, r.LogicalLimit)
	}
	if len(r.Queries) != 6 {
		t.Fatalf("%s: %d queries", r.Key, len(r.Queries))
	}
	for _, q := range r.Queries {
		if q.Visited < 1 || q.Visited > q.Total || q.Total != r.Partitions || q.Charge < 1 || q.Documents < 1 || q.Pages < 1 {
			t.Errorf("%s, %s: %+v", r.Key, q.Name, q)
		}
		if q.Missing < 0 || q.Missing > 0 && r.Refused == 0 {
			t.Errorf("%s, %s: %d documents are missing, %d were refused", r.Key, q.Name, q.Missing, r.Refused)
		}
	}
}

// demoCompares checks the differences of the keys.
func demoCompares(t *testing.T, layouts []demoResult) {
	t.Helper()
	byTenant, byUser, synthetic, hierarchical := layouts[0], layouts[1], layouts[2], layouts[3]
	if byTenant.Refused == 0 || byUser.Refused+synthetic.Refused+hierarchical.Refused > 0 {
		t.Errorf("refused: %d %d %d %d", byTenant.Refused, byUser.Refused, synthetic.Refused, hierarchical.Refused)
	}
	asked := func(r demoResult, name string) demoAnswer {
		for _, q := range r.Queries {
			if q.Name == name {
				return q
			}
		}
		t.Fatalf("%s: nothing about %s", r.Key, name)
		return demoAnswer{}
	}
	for _, all := range []demoAnswer{
		asked(byTenant, askUser), asked(synthetic, askUser), asked(hierarchical, askUser),
		asked(byUser, askSmall), asked(synthetic, askSmall), asked(byUser, askLargest), asked(synthetic, askLargest),
	} {
		if all.Visited != all.Total {
			t.Errorf("a fan-out visited %d of %d: %s", all.Visited, all.Total, all.Text)
		}
	}
	for _, one := range []demoAnswer{asked(byTenant, askLargest), asked(byTenant, askSmall), asked(byUser, askUser), asked(synthetic, "tenant and user"), asked(synthetic, "point read"), asked(hierarchical, "point read")} {
		if one.Visited != 1 {
			t.Errorf("a targeted request visited %d of %d: %s", one.Visited, one.Total, one.Text)
		}
	}
	large, small := asked(hierarchical, askLargest), asked(hierarchical, askSmall)
	if large.Visited < 2 || small.Visited >= small.Total {
		t.Errorf("hierarchical: the largest tenant is on %d partitions, a small one on %d, of %d", large.Visited, small.Visited, small.Total)
	}
	// Each further partition costs its base, a lookup, and an empty result.
	fan := asked(byUser, askSmall)
	if more, want := fan.Charge-small.Charge, 2*float64(fan.Visited-small.Visited); more < want || fan.Documents != small.Documents {
		t.Errorf("%d documents for %.2f RU from %d partitions, %d for %.2f from %d: the difference is below %.2f",
			fan.Documents, fan.Charge, fan.Visited, small.Documents, small.Charge, small.Visited, want)
	}
}

// TestDemoEvents: the events are the same each time, have uneven tenants and the requested
// size.
func TestDemoEvents(t *testing.T) {
	t.Parallel()
	const count = 20_000
	events := demoEvents(count)
	tenants, users, ids := map[string]int{}, map[string]bool{}, map[string]bool{}
	for i, e := range demoEvents(count) {
		if e != events[i] {
			t.Fatalf("event %d differs: %+v and %+v", i, e, events[i])
		}
		tenants[e.TenantID]++
		ids[e.ID] = true
		if e.TenantID == demoLargest {
			users[e.UserID] = true
		}
	}
	if len(events) != count || len(ids) != count || len(tenants) != demoTenants+2 {
		t.Errorf("%d events with %d ids of %d tenants", len(events), len(ids), len(tenants))
	}
	if share := float64(tenants[demoLargest]) / count; math.Abs(share-0.6) > 0.05 || len(users) < 1_000 {
		t.Errorf("%s has %.2f of the events and %d users", demoLargest, share, len(users))
	}
	for _, want := range []int{demoEventBytes, demoVolume / demoDocumentsMin} {
		body, err := events[0].body(want)
		if err != nil || math.Abs(float64(len(body)-want)) > 100 {
			t.Errorf("an event of %d bytes has %d, %v", want, len(body), err)
		}
	}
}

// TestDemoInterrupted: an interrupted load ends with an error and without a table. In a pipe
// there is no progress.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	file, wait := terminal(t, &consoletest.Until{Text: "of 1,000", Told: func(string) { cancel() }})
	defer wait()
	c := &tenantsCommand{Documents: demoDocumentsMin}
	if err := c.run(ctx, console.Streams{Out: &out, Err: file}); err == nil || out.Len() > 0 {
		t.Errorf("%v %s", err, out.String())
	}
	m := newLoadMeter(&out, "/TenantId", 2_000)
	m.show(3)
	m.endLine()
	if out.Len() > 0 {
		t.Errorf("in a pipe: %s", out.String())
	}
}

// TestLoadMeter draws a bar on a terminal.
func TestLoadMeter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := newLoadMeter(&out, "/TenantId", 2_000)
	m.terminal = true
	m.done.Store(1_000)
	m.refused.Store(7)
	m.show(3)
	m.endLine()
	m.endLine()
	want := "\r\x1b[K/TenantId █████·····   50 % 1,000 of 2,000, 3 partitions, 7 refused\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
