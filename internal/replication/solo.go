package replication

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/decandb/decan/internal/status"
)

// SoloOptions sets the limits of a [Solo]. The zero value means defaults.
type SoloOptions struct {
	// QueueEffects is how many effects of one partition may wait; 1,024 by default. Beyond
	// it Propose rejects with TooManyRequests, so a slow disk throttles clients instead of
	// using up memory.
	QueueEffects int

	// QueueBytes is how many bytes of rows of one partition may wait; 64 MB by default. An
	// empty queue accepts an effect of any size.
	QueueBytes int

	// BatchEffects and BatchBytes limit one durable step: 256 effects and 4 MB by default.
	// The limits keep the first effects from waiting for all the others.
	BatchEffects int
	BatchBytes   int
}

func (o SoloOptions) withDefaults() SoloOptions {
	if o.QueueEffects <= 0 {
		o.QueueEffects = 1024
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 64 << 20
	}
	if o.BatchEffects <= 0 {
		o.BatchEffects = 256
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = 4 << 20
	}
	return o
}

// retryAfter is when a client should retry after a full queue: a few durable steps
// later.
const retryAfter = 10 * time.Millisecond

// Solo is the group of a single machine. For each partition it applies all waiting
// effects in one durable step, while the next effects queue up: group commit without a
// timer. A partition has a goroutine only while it has effects.
type Solo struct {
	machine StateMachine
	options SoloOptions
	running sync.WaitGroup // one for each busy partition

	mu     sync.Mutex
	queues map[PartitionRef]*queue // of the busy partitions
	broken map[PartitionRef]error  // partitions whose state machine panicked
	status Status
}

// queue contains the waiting effects of one busy partition. Its group's mutex guards
// it, except batch and effects, which belong to its goroutine.
type queue struct {
	waiting []proposed
	bytes   int

	batch   []proposed
	effects []Effect
}

type proposed struct {
	effect   Effect
	proposal *Proposal
}

// NewSolo returns a group that applies effects with sm and default limits.
func NewSolo(sm StateMachine) *Solo { return NewSoloWith(sm, SoloOptions{}) }

// NewSoloWith is [NewSolo] with other limits.
func NewSoloWith(sm StateMachine, options SoloOptions) *Solo {
	return &Solo{
		machine: sm,
		options: options.withDefaults(),
		queues:  map[PartitionRef]*queue{},
		broken:  map[PartitionRef]error{},
		status:  Status{Leader: true},
	}
}

// Propose proposes an effect, see [Group].
func (s *Solo) Propose(ctx context.Context, partition PartitionRef, effect Effect) *Proposal {
	p := NewProposal()
	if err := s.enqueue(ctx, partition, proposed{effect, p}); err != nil {
		p.Resolve(Rejected, err)
	}
	return p
}

func (s *Solo) enqueue(ctx context.Context, partition PartitionRef, p proposed) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Closed {
		s.status.Rejected++
		return errClosed()
	}
	if err := s.broken[partition]; err != nil {
		s.status.Rejected++
		return status.Unavailable(err, "The partition has stopped.")
	}
	q := s.queues[partition]
	if q != nil && (len(q.waiting) >= s.options.QueueEffects ||
		len(q.waiting) > 0 && q.bytes+len(p.effect.Rows) > s.options.QueueBytes) {
		s.status.Rejected++
		return status.TooManyRequests(status.SubRequestRateTooLarge, retryAfter,
			"Too many writes wait for partition %s: %d writes, %d bytes.", partition.Partition, len(q.waiting), q.bytes)
	}
	if q == nil {
		q = &queue{}
		s.queues[partition] = q
		s.running.Go(func() { s.drain(partition, q) })
	}
	q.waiting = append(q.waiting, p)
	q.bytes += len(p.effect.Rows)
	s.status.Pending++
	return nil
}

// drain applies the effects of one partition until none are left.
func (s *Solo) drain(partition PartitionRef, q *queue) {
	for s.take(partition, q) {
		rejected, err := s.apply(partition, q.effects)
		s.resolve(q, rejected, err)
	}
}

// take moves the next effects from the queue to the batch. If there are none it returns
// false, and the partition is no longer busy.
func (s *Solo) take(partition PartitionRef, q *queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(s.queues, partition)
		return false
	}
	n, bytes := 0, 0
	for n < len(q.waiting) && n < s.options.BatchEffects {
		size := len(q.waiting[n].effect.Rows)
		if n > 0 && bytes+size > s.options.BatchBytes {
			break
		}
		bytes += size
		n++
	}
	if n == len(q.waiting) {
		// The usual case: the two slices are swapped.
		q.batch, q.waiting = q.waiting, q.batch[:0]
	} else {
		q.batch = append(q.batch[:0], q.waiting[:n]...)
		rest := copy(q.waiting, q.waiting[n:])
		clear(q.waiting[rest:])
		q.waiting = q.waiting[:rest]
	}
	q.bytes -= bytes
	q.effects = q.effects[:0]
	for i := range q.batch {
		q.effects = append(q.effects, q.batch[i].effect)
	}
	return true
}

// apply calls the state machine. A panic there is a bug. It stops this partition
// permanently, because its state is unknown, while the others continue to serve.
func (s *Solo) apply(partition PartitionRef, effects []Effect) (rejected []error, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("apply to partition %s panicked: %v\n%s", partition, r, debug.Stack())
			s.mu.Lock()
			s.broken[partition] = err
			s.mu.Unlock()
		}
	}()
	s.mu.Lock()
	err = s.broken[partition]
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	rejected, err = s.machine.Apply(partition, effects)
	if rejected != nil && len(rejected) != len(effects) {
		panic(fmt.Sprintf("%d answers for %d effects", len(rejected), len(effects)))
	}
	return rejected, err
}

// resolve resolves the proposals of a batch.
func (s *Solo) resolve(q *queue, rejected []error, err error) {
	// Waiting goroutines must see the new counters.
	s.mu.Lock()
	s.status.Pending -= len(q.batch)
	s.status.Batches++
	for i := range q.batch {
		switch {
		case rejected != nil && rejected[i] != nil:
			s.status.Rejected++
		case err != nil:
			s.status.Unknown++
		default:
			s.status.Applied++
		}
	}
	s.mu.Unlock()

	var unknown error
	if err != nil {
		unknown = errUnknown(err)
	}
	for i := range q.batch {
		switch p := q.batch[i].proposal; {
		case rejected != nil && rejected[i] != nil:
			p.Resolve(Rejected, rejected[i])
		case err != nil:
			p.Resolve(Unknown, unknown)
		default:
			p.Resolve(Applied, nil)
		}
	}
	// A reused slice must not keep the rows alive.
	clear(q.batch)
	clear(q.effects)
}

// ReadBarrier returns at once: an effect is visible before it is acknowledged.
func (s *Solo) ReadBarrier(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Closed {
		return errClosed()
	}
	return context.Cause(ctx)
}

// Status returns the current state of the group.
func (s *Solo) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Close rejects further proposals and returns when all earlier ones are resolved.
func (s *Solo) Close() error {
	s.mu.Lock()
	s.status.Closed = true
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
