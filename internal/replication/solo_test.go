package replication_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/replication/replicationtest"
	"github.com/decandb/decan/internal/status"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("solo", func(t *testing.T) {
		t.Parallel()
		replicationtest.Conformance(t, func(sm replication.StateMachine, queueEffects int) replication.Group {
			return replication.NewSoloWith(sm, replication.SoloOptions{QueueEffects: queueEffects})
		})
	})
	t.Run("flaky without trouble", func(t *testing.T) {
		t.Parallel()
		replicationtest.Conformance(t, func(sm replication.StateMachine, queueEffects int) replication.Group {
			return replicationtest.NewFlaky(sm, replicationtest.FlakyOptions{Seed: 1, Delay: 0.2, QueueEffects: queueEffects})
		})
	})
}

// An idle group has no goroutines, however many partitions it has served.
func TestSoloIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r replicationtest.Recorder
		g := replication.NewSolo(&r)
		for p := range 1000 {
			if err := g.Propose(t.Context(), replicationtest.Ref(p), replicationtest.Effect(1)).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// A goroutine that waited for more work would be durably blocked, and the bubble
		// would not end: synctest reports it.
		synctest.Wait()
	})
}

// A batch is limited in effects and bytes. An effect above the limit is applied alone.
func TestSoloBatchLimits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	entered := make(chan struct{}, 100)
	var sizes []int
	r := replicationtest.Recorder{Before: func(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
		entered <- struct{}{}
		<-release
		sizes = append(sizes, len(effects))
		return nil, nil
	}}
	g := replication.NewSoloWith(&r, replication.SoloOptions{BatchEffects: 4, BatchBytes: 100, QueueBytes: 1000})
	propose := func(n, size int) *replication.Proposal {
		e := replicationtest.Effect(n)
		e.Rows = append(e.Rows, make([]byte, size-8)...)
		return g.Propose(t.Context(), replicationtest.Ref(1), e)
	}
	var proposals []*replication.Proposal
	proposals = append(proposals, propose(1, 10))
	<-entered
	for i, size := range []int{10, 10, 10, 10, 10, 200, 50, 50, 1, 600} {
		proposals = append(proposals, propose(i+2, max(size, 8)))
	}
	if p := propose(99, 100); status.CodeOf(p.Err()) != status.CodeTooManyRequests {
		t.Errorf("a full queue: %s, %v", p.Outcome(), p.Err())
	}
	close(release)
	for _, p := range proposals {
		if err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 4, 1, 1, 2, 1, 1}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v effects, want %v", sizes, want)
	}
}

// A state machine that returns a wrong number of answers has a bug and stops its
// partition.
func TestSoloWrongAnswers(t *testing.T) {
	t.Parallel()
	r := replicationtest.Recorder{Before: func(replication.PartitionRef, []replication.Effect) ([]error, error) {
		return make([]error, 7), errors.New("confused")
	}}
	g := replication.NewSolo(&r)
	defer g.Close()
	p := g.Propose(t.Context(), replicationtest.Ref(1), replicationtest.Effect(1))
	if err := p.Wait(t.Context()); p.Outcome() != replication.Unknown || status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("outcome %s, %v", p.Outcome(), err)
	}
}

// On a flaky group each effect is applied at most once and in order. Effects reported
// as applied are applied, rejected ones are not.
func TestFlaky(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			var r replicationtest.Recorder
			g := replicationtest.NewFlaky(&r, replicationtest.FlakyOptions{
				Seed: seed, Delay: 0.3, Lose: 0.05, LoseAnswer: 0.05, Refuse: 0.05,
			})
			var writers sync.WaitGroup
			for p := range 4 {
				writers.Go(func() { writer(t, g, &r, p, seed) })
			}
			writers.Wait()
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			r.Check(t)
			if g.Trouble() == 0 {
				t.Error("nothing was lost")
			}
		})
	}
}

// writer proposes effects like a partition: without waiting for answers, and again from
// the applied state when one is lost.
func writer(t *testing.T, g *replicationtest.Flaky, r *replicationtest.Recorder, partition int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, uint64(partition)))
	ref := replicationtest.Ref(partition)
	next, window := 1, []*replication.Proposal{}
	confirmed := 0
	for confirmed < 400 {
		stopped := false
		for range 1 + random.IntN(8) {
			p := g.Propose(t.Context(), ref, replicationtest.Effect(next))
			if p.Outcome() == replication.Rejected {
				stopped = status.CodeOf(p.Err()) == status.CodeUnavailable
				break
			}
			window = append(window, p)
			next++
		}
		failed := false
		for _, p := range window {
			if p.Wait(t.Context()) != nil {
				failed = true
			} else if failed {
				t.Errorf("partition %d: an effect after a lost one was acknowledged", partition)
			}
		}
		window = window[:0]
		// The applied state tells the result of unknown outcomes.
		applied := r.Applied(ref)
		for i, n := range applied {
			if n != i+1 {
				t.Errorf("partition %d applied effect %d at index %d", partition, n, i)
				return
			}
		}
		if !failed && len(applied) != next-1 {
			t.Errorf("partition %d: %d effects applied, %d confirmed", partition, len(applied), next-1)
		}
		if stopped {
			g.Restart(ref)
		}
		confirmed, next = len(applied), len(applied)+1
		runtime.Gosched()
	}
}
