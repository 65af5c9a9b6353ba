package partition

import (
	"slices"
	"sync"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// intake passes requests from their callers to the writer, and starts the writer's
// goroutine when there is work for it. Its methods whose names end in Locked need mu.
type intake struct {
	// start runs the writer until there is no work, and then closes idle.
	start func(idle chan struct{})

	// wake tells a writer that waits for a proposal that there is more work.
	wake chan struct{}

	mu sync.Mutex

	queue   []*request    // to be evaluated
	spare   []*request    // memory for the next queue
	running bool          // the writer's goroutine exists
	idle    chan struct{} // closed when that goroutine ends; nil before the first start

	closed  bool          // the partition is being closed: no request is accepted
	sealed  bool          // the writer takes no request
	ended   *status.Error // every write gets it; nil while the partition accepts writes
	reindex bool          // compare the policy with the container's
	order   *order        // for the writer; nil if there is none
	handing *handover     // the split or merge in progress; nil if there is none

	locks keyLocks
}

// startLocked makes the writer look for work.
func (q *intake) startLocked() {
	if !q.running {
		q.running = true
		q.idle = make(chan struct{})
		go q.start(q.idle)
		return
	}
	select {
	case q.wake <- struct{}{}:
	default: // The writer has been told already.
	}
}

// askReindex makes the writer compare its policy with the container's.
func (q *intake) askReindex() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reindex = true
}

// end answers every write with err from now on, including those that wait.
func (q *intake) end(err *status.Error) {
	q.mu.Lock()
	q.ended = err
	refused := append(q.queue, q.locks.unpark()...)
	q.queue = nil
	q.mu.Unlock()
	refuse(refused, err)
}

// refuse answers requests that the writer will not evaluate.
func refuse(requests []*request, err error) {
	for _, r := range requests {
		if r.stage.CompareAndSwap(waiting, claimed) {
			r.err = err
			close(r.evaluated)
		}
	}
}

// keyLocks are the locks on logical partitions. The mutex of the intake guards them.
type keyLocks struct {
	byKey   map[string]*keyLock
	holders int // locks that are held or wanted
	parked  int // requests that wait for a lock
}

// keyLock is the lock of one logical partition. Only requests of its owner are
// evaluated while it is held.
type keyLock struct {
	key      string     // of the 'q' row of the logical partition
	held     bool       // the writer has granted it
	released bool       // the owner does not need it any more
	parked   []*request // that wait for it
}

// newLock announces a lock. The writer grants it when it takes the first request that
// has it.
func (q *intake) newLock(keys *request) *keyLock {
	lock := &keyLock{key: string(keys.logical())}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.locks.holders++
	return lock
}

// logical returns the key of the 'q' row of the request's logical partition.
func (r *request) logical() []byte { return storage.LogicalKey(nil, r.epk, r.hash) }

// pass divides requests into those that are not for locked keys, and those that it has
// parked. It grants locks in the order of the requests.
func (l *keyLocks) pass(requests []*request) (passed, parked []*request) {
	if l.holders == 0 {
		return requests, nil
	}
	passed = requests[:0]
	for _, r := range requests {
		key := r.logical()
		lock := l.byKey[string(key)]
		switch {
		case lock != nil && lock != r.lock:
			lock.parked = append(lock.parked, r)
			l.parked++
			parked = append(parked, r)
			continue
		case lock == nil && r.lock != nil && !r.lock.held && !r.lock.released:
			if l.byKey == nil {
				l.byKey = map[string]*keyLock{}
			}
			l.byKey[string(key)] = r.lock
			r.lock.held = true
		}
		passed = append(passed, r)
	}
	clear(requests[len(passed):])
	return passed, parked
}

// unlock releases a lock, or withdraws it if it was not granted. It returns the requests
// that have waited for it, which come before all others now.
func (q *intake) unlock(lock *keyLock) (unparked []*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if lock.released {
		return nil
	}
	lock.released = true
	q.locks.holders--
	if lock.held {
		delete(q.locks.byKey, lock.key)
	}
	parked := lock.parked
	lock.parked = nil
	q.locks.parked -= len(parked)
	if len(parked) == 0 {
		return nil
	}
	if q.closed {
		refuse(parked, errClosed())
		return nil
	}
	q.queue = append(slices.Clone(parked), q.queue...)
	if !q.sealed {
		q.startLocked()
	}
	return parked
}

// unpark returns all requests that wait for a lock, which do not wait any more.
func (l *keyLocks) unpark() (all []*request) {
	for _, lock := range l.byKey {
		all = append(all, lock.parked...)
		lock.parked = nil
	}
	l.parked = 0
	return all
}
