package cql

import "github.com/decandb/decan/internal/api/cql/frame"

// eventsMax bounds the bytes that wait for a client that takes no events.
const eventsMax = 1 << 20

// send sends a frame, together with others that are ready at the same time. What is
// owed for it is released when it is sent.
func (c *connection) send(f *frame.Frame, owed debt) {
	c.server.metrics.answered(f.Message)
	c.mu.Lock()
	if c.broken {
		c.mu.Unlock()
		c.pay(owed)
		return
	}
	c.owed.slots += owed.slots
	c.owed.bytes += owed.bytes + c.addLocked(f)
	if c.sending {
		c.mu.Unlock()
		return
	}
	c.sending = true
	c.mu.Unlock()
	c.sendGathered()
}

// addLocked gathers a frame, and returns by how much that has raised the budget.
func (c *connection) addLocked(f *frame.Frame) int64 {
	before := c.writer.Len()
	if err := c.writer.Add(f); err != nil {
		c.server.config.Logger.Error("an answer of CQL cannot be encoded", "error", err)
		f = &frame.Frame{Version: f.Version, Stream: f.Stream, Message: &frame.Error{Code: frame.CodeServer, Message: "The answer cannot be encoded: " + err.Error()}}
		_ = c.writer.Add(f) // It fits into every length field.
	}
	size := int64(c.writer.Len() - before)
	c.server.inflight.add(size)
	return size
}

// sendGathered sends everything that is gathered until nothing more is. It is called by
// the goroutine that has set sending.
func (c *connection) sendGathered() {
	c.mu.Lock()
	for !c.broken && c.writer.Len() > 0 {
		gathered, owed := c.writer.Take(), c.owed
		c.owed = debt{}
		c.mu.Unlock()

		err := gathered.Send(c.wire)
		c.pay(owed)

		c.mu.Lock()
		c.broken = err != nil
	}
	var rest debt
	if c.broken {
		rest, c.owed = c.owed, debt{}
	}
	broken := c.broken
	c.sending = false
	c.idle.Broadcast()
	c.mu.Unlock()
	c.pay(rest)
	if broken {
		c.cancel()
		_ = c.conn.Close() // The reading goroutine notices.
	}
}

// pay releases what was owed.
func (c *connection) pay(d debt) {
	if d.bytes > 0 {
		c.server.inflight.release(d.bytes)
	}
	for range d.slots {
		<-c.slots
	}
}

// push sends an event without waiting for the client.
func (c *connection) push(event *frame.Event) {
	c.mu.Lock()
	if c.broken {
		c.mu.Unlock()
		return
	}
	c.owed.bytes += c.addLocked(&frame.Frame{Version: frame.Version(c.spoken.Load()), Stream: frame.EventStream, Message: event})
	full := c.sending && c.writer.Len() > eventsMax
	begin := !c.sending
	c.sending = true
	c.mu.Unlock()
	switch {
	case full:
		_ = c.conn.Close() // The goroutine that sends notices.
	case begin:
		go c.sendGathered()
	}
}

// drain returns when everything is sent that can be.
func (c *connection) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.sending {
		c.idle.Wait()
	}
}

// segment makes both directions use segments, after the answer to STARTUP was sent.
func (c *connection) segment() {
	c.drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writer.StartSegments(c.compression)
	c.reader.StartSegments(c.compression)
}

// compress compresses the bodies of versions 3 and 4.
func (c *connection) compress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writer.SetCompression(c.compression)
	c.reader.SetCompression(c.compression)
}
