package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// bank is accounts under one key, between which batches move money.
type bank struct {
	*world
	key                  partitionkey.Key
	moved, short, behind atomic.Int64 // transfers that succeeded, lacked money, or read an old version
}

const (
	accounts = 4
	balance  = 10 // of each account at the start
)

// account is a document with a balance.
func account(i, n int) string { return fmt.Sprintf(`{"id":"%d","a":"bank","b":1,"n":%d}`, i, n) }

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{world: newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))}
	b.key = partitionkey.NewKey(partitionkey.String("bank"), partitionkey.Number(1))
	for i := range accounts {
		if _, err := b.write(Create, b.parse(account(i, balance)), nil); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// do executes operations as one batch, and returns its results and the code of its
// error, zero for none.
func (b *bank) do(operations ...Operation) ([]BatchResult, status.Code, error) {
	ask := b.batchOf(b.key, Atomic)
	for _, o := range operations {
		ask.Operations = append(ask.Operations, BatchOperation{Operation: o})
	}
	done, err := b.partition.Load().Batch(context.Background(), ask)
	for _, r := range done.Results {
		if r.Err != nil && r.Err.Code != status.CodeFailedDependency {
			return done.Results, r.Err.Code, err
		}
	}
	return done.Results, 0, err
}

// increment moves money by two patches. The condition of the first requires a
// sufficient balance.
func (b *bank) increment(from, to, amount int) (status.Code, error) {
	patch := func(id int, text string) Operation {
		o := b.patchOf(text)
		o.ID = fmt.Sprint(id)
		return o
	}
	_, code, err := b.do(
		patch(from, fmt.Sprintf(`{"condition":"from c where c.n >= %d","operations":[{"op":"incr","path":"/n","value":%d}]}`, amount, -amount)),
		patch(to, fmt.Sprintf(`[{"op":"incr","path":"/n","value":%d}]`, amount)),
	)
	if code == status.CodePreconditionFailed {
		b.short.Add(1)
	}
	return code, err
}

// replace moves money by replacing both documents if they still have the etags that it
// read. Either may have changed, the second one too.
func (b *bank) replace(from, to, amount int) (status.Code, error) {
	read, code, err := b.do(Operation{Op: Fetch, ID: fmt.Sprint(from)}, Operation{Op: Fetch, ID: fmt.Sprint(to)})
	if code != 0 || err != nil {
		return code, err
	}
	var operations []Operation
	for i, change := range []int{-amount, amount} {
		doc := b.parse(string(read[i].Body))
		old, _ := doc.Get("n").Int64()
		n := int(old) + change
		if n < 0 {
			b.short.Add(1)
			return status.CodePreconditionFailed, nil
		}
		operations = append(operations, Operation{Op: Replace, Document: b.parse(account([]int{from, to}[i], n)), IfMatch: read[i].ETag})
	}
	_, code, err = b.do(operations...)
	if code == status.CodePreconditionFailed {
		b.behind.Add(1)
	}
	return code, err
}

// look checks the accounts as a batch and a query return them, and reports errors.
func (b *bank) look() error {
	var reads []Operation
	for i := range accounts {
		reads = append(reads, Operation{Op: Fetch, ID: fmt.Sprint(i)})
	}
	read, code, err := b.do(reads...)
	if err != nil || code != 0 {
		return fmt.Errorf("a batch of reads got %d, %w", code, err)
	}
	var total int64
	for _, r := range read {
		n, ok := b.parse(string(r.Body)).Get("n").Int64()
		if !ok || n < 0 {
			return fmt.Errorf("an account is %s", r.Body)
		}
		total += n
	}
	rows, _, err := b.rows("SELECT VALUE SUM(c.n) FROM c", partitionkey.Full(), 0, nil)
	if want := fmt.Sprint(accounts * balance); err != nil || fmt.Sprint(total) != want || len(rows) != 1 || rows[0] != want {
		return fmt.Errorf("a batch of reads has %d in all, and a query %s, %w", total, rows, err)
	}
	return nil
}

// transfers moves money that many times, and checks all accounts in between.
func (b *bank) transfers(random *rand.Rand, times int) error {
	for i := range times {
		from := random.IntN(accounts)
		to := (from + 1 + random.IntN(accounts-1)) % accounts
		way := b.increment
		if random.IntN(2) == 0 {
			way = b.replace
		}
		code, err := way(from, to, 1+random.IntN(balance))
		switch {
		case err != nil || code != 0 && code != status.CodePreconditionFailed:
			return fmt.Errorf("a transfer got %d, %w", code, err)
		case code == 0:
			b.moved.Add(1)
		}
		if i%8 == 0 {
			if err := b.look(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestBankOfBatches has several clients move money between the accounts of one key,
// with batches of conditional patches and of replaces with etags, while others read:
// every reader sees the same total, no account is below zero, and a crash loses no
// money.
func TestBankOfBatches(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	const seed, clients = 1, 4
	times := 100
	if raceDetector {
		times = 25
	}
	var done atomic.Bool
	var writers, readers sync.WaitGroup
	for c := range clients {
		writers.Go(func() {
			if err := b.transfers(rand.New(rand.NewPCG(seed, uint64(c))), times); err != nil {
				t.Errorf("client %d: %v", c, err)
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for again := true; again; again = !done.Load() { // Again after all transfers have ended.
				if err := b.look(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	if b.moved.Load() == 0 || b.short.Load() == 0 {
		t.Errorf("%d transfers, %d had not enough, %d read an old version: too few to show anything", b.moved.Load(), b.short.Load(), b.behind.Load())
	}
	if err := b.crash(0, seed); err != nil {
		t.Fatal(err)
	}
	if err := b.look(); err != nil {
		t.Errorf("after the crash: %v", err)
	}
	b.verify(t)
}
