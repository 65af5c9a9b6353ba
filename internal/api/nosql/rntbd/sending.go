package rntbd

import "runtime"

const (
	// largePayload is the size from which a payload is not copied to the answers that
	// go out with it.
	largePayload = 16 << 10

	// unsentMax is how many bytes of answers may wait for a client before no more of
	// its requests are read.
	unsentMax = 8 << 20

	// answersMax is how many bytes of answers a connection may hold, those that are
	// being made included. Answers up to countedMin come in addition.
	answersMax = 32 << 20

	// keptBytes is the maximum capacity of a buffer that is kept for later answers.
	keptBytes = 64 << 10

	// countedMin is the size up to which an answer or a request is not counted as
	// memory: it fits into the buffers of its connection.
	countedMin = 4 << 10
)

// gathered are answers that go out together.
type gathered struct {
	bytes []byte
	ends  []int       // of the answers in bytes
	large []largePart // in their order
	debt  debt
}

// largePart is a payload that is sent before the byte at an offset of gathered.bytes.
type largePart struct {
	at      int
	payload []byte
}

// debt is what a connection holds for answers until they are sent.
type debt struct {
	requests int // open requests
	bytes    int // of answers
	memory   int // taken from Config.Memory
}

func (d *debt) add(other debt) {
	d.requests += other.requests
	d.bytes += other.bytes
	d.memory += other.memory
}

func (g *gathered) add(x *exchange) {
	g.bytes = x.response.appendHead(g.bytes, x.request.Activity, x.request.transport())
	if payload := x.response.Payload; len(payload) > largePayload {
		g.large = append(g.large, largePart{at: len(g.bytes), payload: payload})
	} else {
		g.bytes = append(g.bytes, payload...)
	}
	g.ends = append(g.ends, len(g.bytes))
	g.debt.add(x.debt)
}

func (g *gathered) reset() {
	if cap(g.bytes) > keptBytes {
		g.bytes = nil
	}
	clear(g.large)
	g.bytes, g.ends, g.large, g.debt = g.bytes[:0], g.ends[:0], g.large[:0], debt{}
}

// send writes the answers to w.
//
// With TLS, each answer begins with a record of its own: Java's decoder moves what
// follows an answer in the same record over the payload of that answer, before the
// payload is read. The records of all answers go out together.
func (g *gathered) send(w *wire) error {
	w.hold()
	ends := g.ends
	if w.records == nil {
		ends = nil
	}
	from := 0
	write := func(to int) error {
		for len(ends) > 0 && ends[0] <= to {
			if end := ends[0]; end > from {
				if _, err := w.Write(g.bytes[from:end]); err != nil {
					return err
				}
				from = end
			}
			ends = ends[1:]
		}
		if from == to {
			return nil
		}
		_, err := w.Write(g.bytes[from:to])
		from = to
		return err
	}
	for _, part := range g.large {
		if err := write(part.at); err != nil {
			return err
		}
		if _, err := w.Write(part.payload); err != nil {
			return err
		}
	}
	if err := write(len(g.bytes)); err != nil {
		return err
	}
	return w.release()
}

// send sends the answer of x, together with others that are ready at the same time.
// What is owed for it is paid when it is sent. x is not used after send has returned.
func (c *connection) send(x *exchange) {
	size := x.response.size()
	x.debt.bytes = size
	if size > countedMin {
		c.server.config.Memory.Add(size) // It exists already.
		x.debt.memory += size
	}
	c.mu.Lock()
	c.reserved -= x.reserved
	if c.broken {
		x.debt.bytes = 0
		c.payLocked(x.debt)
		c.mu.Unlock()
		return
	}
	c.unsent += size
	c.next.add(x)
	if c.sending {
		if x.reserved > size {
			c.changed.Broadcast()
		}
		c.mu.Unlock()
		return
	}
	c.sending = true
	others := c.open > c.next.debt.requests
	c.mu.Unlock()
	if others {
		// Requests of this connection that are about to end join.
		runtime.Gosched()
	}
	c.sendGathered()
}

// sendGathered sends everything that is gathered until nothing more is. It is called by
// the goroutine that has set sending.
func (c *connection) sendGathered() {
	c.mu.Lock()
	for !c.broken && len(c.next.bytes) > 0 {
		c.next, c.going = c.going, c.next
		c.mu.Unlock()

		err := c.going.send(c.wire)
		c.server.metrics.writes.Inc()

		c.mu.Lock()
		c.payLocked(c.going.debt)
		c.going.reset()
		c.broken, c.cause = err != nil, err
	}
	if c.broken {
		c.payLocked(c.next.debt)
		c.next.reset()
	}
	broken := c.broken
	c.sending = false
	if c.open == 0 {
		c.since.Store(c.server.now())
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	if broken {
		c.cancel()
		_ = c.conn.Close() // The reading goroutine notices.
	}
}

// payLocked releases what was owed.
func (c *connection) payLocked(d debt) {
	if d.memory > 0 {
		c.server.config.Memory.Release(d.memory)
	}
	c.open -= d.requests
	c.unsent -= d.bytes
	c.server.metrics.open.Add(-int64(d.requests))
	c.changed.Broadcast()
}

// drain returns when no request is open and everything is sent that can be.
func (c *connection) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.sending || c.open > 0 {
		c.changed.Wait()
	}
}
