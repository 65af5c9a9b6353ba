package throughput

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// start is the beginning of an hour, so that cases can count seconds from it.
var start = time.Unix(1_700_002_800, 0).Truncate(time.Hour)

// TestText runs the cases of testdata. Each line of the input begins with the
// time in seconds since the start.
//
//	bucket rate=     a budget; lines: take <charge>, spend <charge>, rate <units>, left
//	autoscale max=   lines: use <charge>, current, billed
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				step := stepper(t, d)
				var b strings.Builder
				for line := range strings.SplitSeq(d.Input, "\n") {
					fmt.Fprintf(&b, "%s -> %s\n", line, runLine(t, line, step))
				}
				return b.String()
			})
		})
	}
}

// stepper returns what carries out one line.
func stepper(t *testing.T, d *datadriven.TestData) func(now time.Time, verb string, n float64) string {
	t.Helper()
	switch d.Cmd {
	case "bucket":
		var rate float64
		d.ScanArgs(t, "rate", &rate)
		b := NewBucket(rate, start)
		return func(now time.Time, verb string, n float64) string { return stepBucket(b, now, verb, n) }
	case "autoscale":
		var maximum float64
		d.ScanArgs(t, "max", &maximum)
		a := NewAutoscale(maximum, start)
		return func(now time.Time, verb string, n float64) string { return stepAutoscale(a, now, verb, n) }
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return nil
}

func runLine(t *testing.T, line string, step func(now time.Time, verb string, n float64) string) string {
	t.Helper()
	var at, n float64
	var verb string
	if fields, err := fmt.Sscan(line, &at, &verb, &n); fields < 2 {
		t.Fatalf("%q: %v", line, err)
	}
	out := step(start.Add(time.Duration(at*float64(time.Second))), verb, n)
	if out == "" {
		t.Fatalf("%q: unknown verb", line)
	}
	return out
}

func stepBucket(b *Bucket, now time.Time, verb string, n float64) string {
	switch verb {
	case "take":
		if wait, ok := b.Take(n, now); !ok {
			return "wait " + wait.String()
		}
	case "spend":
		b.Spend(n, now)
	case "rate":
		b.SetRate(n, now)
	case "left":
	default:
		return ""
	}
	return fmt.Sprintf("%.2f left", b.Left(now))
}

func stepAutoscale(a *Autoscale, now time.Time, verb string, n float64) string {
	switch verb {
	case "use":
		a.Observe(n, now)
	case "current", "billed":
	default:
		return ""
	}
	return fmt.Sprintf("current %d billed %d", a.Current(now), a.Billed(now))
}

// Over a long time a bucket lets through what its rate allows and one overdraft,
// and whoever waits as long as told is admitted.
func TestBucketKeepsItsRate(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 10))
	for _, rate := range []float64{400, 0.3, 10_000} {
		now := start
		b := NewBucket(rate, now)
		spent, dearest := 0.0, 0.0
		for range 2000 {
			charge := random.Float64() * rate * 3
			wait, ok := b.Take(charge, now)
			if !ok {
				if wait <= 0 {
					t.Fatalf("refused with a wait of %v", wait)
				}
				if _, early := b.Take(0, now.Add(wait-1)); early {
					t.Fatalf("admitted before %v were over", wait)
				}
				now = now.Add(wait)
				if _, ok = b.Take(charge, now); !ok {
					t.Fatalf("refused after waiting %v, with %v left", wait, b.Left(now))
				}
			}
			spent += charge
			dearest = max(dearest, charge)
			now = now.Add(time.Duration(random.Int64N(int64(time.Second) / 10)))
		}
		seconds := math.Floor(now.Sub(start).Seconds()) + 1
		if spent > rate*seconds+dearest+1e-6 {
			t.Errorf("rate %v: %v spent in %v seconds", rate, spent, seconds)
		}
	}
}

func BenchmarkBucketTake(b *testing.B) {
	bucket := NewBucket(1e12, start)
	b.ReportAllocs()
	for b.Loop() {
		bucket.Take(1, start)
	}
}
