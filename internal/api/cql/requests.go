package cql

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
)

// request is a request of a client that has signed in.
type request struct {
	*connection
	stream   int16
	keyspace string // in use when the request was read
	bytes    int64  // taken from the budget
	frame    frame.Frame
	trace    frame.UUID
	tracer   *tracer // nil if the request is not traced

	// entry is the prepared statement of an EXECUTE, nil if there is none.
	entry *preparedEntry

	statement *Statement // that runs, of a batch the first one; nil before it is known
}

// outcome is what a request is answered with.
type outcome struct {
	message  frame.Message
	warnings []string
	payload  []frame.Pair[[]byte]
	keyspace string // of USE
	charge   float64
}

// dispatch begins to answer a request. It returns false if the connection ends.
func (c *connection) dispatch(r *request) bool {
	c.server.metrics.request(r.frame.Message.Opcode())
	switch m := r.frame.Message.(type) {
	case frame.Options:
		r.answer(outcome{message: c.supported()})
		return true
	case frame.Register:
		c.server.register(c, m.Events)
		r.answer(outcome{message: frame.Ready{}})
		return true
	case frame.Startup, frame.AuthResponse:
		r.answer(outcome{message: protocolError("Unexpected message %s, the connection is already initialized", m.Opcode())})
		return true
	}
	if r.uses() {
		// The requests that follow are in the new keyspace.
		c.keyspace = r.run()
		return true
	}
	c.running.Add(1)
	c.server.Start(r)
	return true
}

// uses reports whether the request is USE, as far as its beginning shows. It finds the
// statement of an EXECUTE.
func (r *request) uses() bool {
	switch m := r.frame.Message.(type) {
	case *frame.Query:
		return isUse(m.Text)
	case *frame.Execute:
		r.entry = r.server.prepared.find(m.ID)
		return r.entry != nil && r.entry.statement.Kind == Use
	}
	return false
}

// isUse reports whether a text begins with the word USE, after comments.
func isUse(text string) bool {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		var end string
		switch {
		case strings.HasPrefix(text, "--"), strings.HasPrefix(text, "//"):
			end = "\n"
		case strings.HasPrefix(text, "/*"):
			end = "*/"
		default:
			return len(text) > 3 && strings.EqualFold(text[:3], "use") && strings.ContainsRune(" \t\r\n\"/-", rune(text[3]))
		}
		_, rest, found := strings.Cut(text, end)
		if !found {
			return false
		}
		text = rest
	}
}

// Do implements transport.Task.
func (r *request) Do() {
	defer r.connection.running.Done()
	r.run()
}

// run runs the statement and answers the request. It returns the keyspace in use
// afterwards.
func (r *request) run() (keyspace string) {
	began := r.server.config.Now()
	if r.frame.Flags&frame.FlagTracing != 0 {
		r.startTrace(began)
	}
	done := r.process()
	r.audit(began, &done)
	if r.tracer != nil {
		r.traced(&done)
	}
	r.answer(done)
	if done.keyspace != "" {
		return done.keyspace
	}
	return r.keyspace
}

func (r *request) process() (done outcome) {
	defer func() {
		if fault := recover(); fault != nil {
			r.server.config.Logger.Error("a statement of CQL failed: a bug", "panic", fault, "stack", string(debug.Stack()))
			done = outcome{message: &frame.Error{Code: frame.CodeServer, Message: "Internal error. The log of the server says more."}}
		}
	}()
	done, of, err := r.perform()
	if err != nil {
		worded, internal := of.word(err)
		if internal {
			r.server.config.Logger.Error("a statement of CQL failed", "error", err)
		}
		return outcome{message: worded, warnings: done.warnings}
	}
	return done
}

// perform runs the statement. It returns how an error is worded.
func (r *request) perform() (done outcome, of failed, err error) {
	if err := r.server.config.Watch.Ready(); err != nil {
		return outcome{}, of, err
	}
	switch m := r.frame.Message.(type) {
	case *frame.Query:
		of.consistency = m.Parameters.Consistency
		done, err = r.query(m, &of)
	case *frame.Prepare:
		done, err = r.prepare(m)
	case *frame.Execute:
		of.consistency = m.Parameters.Consistency
		done, err = r.execute(m, &of)
	case *frame.Batch:
		of = failed{write: true, consistency: m.Parameters.Consistency}
		done, err = r.batch(m)
	}
	return done, of, err
}

// answer sends the answer of the request.
func (r *request) answer(o outcome) {
	f := frame.Frame{Version: r.session.Version, Stream: r.stream, Message: o.message, Warnings: o.warnings, Payload: o.payload}
	if r.trace != (frame.UUID{}) {
		f.Flags, f.TraceID = frame.FlagTracing, r.trace
	}
	r.send(&f, debt{bytes: r.bytes, slots: 1})
}

// inUse returns the keyspace for a request with the parameters.
func (r *request) inUse(p *frame.Parameters) string {
	if p.Has(frame.QueryKeyspace) {
		return p.Keyspace
	}
	return r.keyspace
}

// attemptsMax is how often a text is prepared again because the schema changes.
const attemptsMax = 5

func (r *request) query(m *frame.Query, of *failed) (outcome, error) {
	p := &m.Parameters
	for attempt := 1; ; attempt++ {
		statement, err := r.server.config.Processor.Prepare(r.context(), r.session, r.inUse(p), m.Text)
		if err != nil {
			return outcome{}, err
		}
		of.write = statement.Kind != Read && statement.Kind != Use
		values, ok := resolve(statement, p)
		if !ok {
			return outcome{}, invalid("Invalid amount of bind variables")
		}
		done, err := r.executeStatement(statement, r.inUse(p), values, p, nil)
		if !errors.Is(err, ErrStale) || attempt == attemptsMax {
			return done, err
		}
	}
}

// resolve returns the values in the order of the markers, and whether there are as many
// as the statement needs. Names that no marker has are ignored.
func resolve(statement *Statement, p *frame.Parameters) ([]frame.Value, bool) {
	if p.Names == nil {
		return p.Values, len(p.Values) == statement.Markers.Len()
	}
	values := make([]frame.Value, statement.Markers.Len())
	for i, marker := range statement.Markers.All() {
		found := false
		for j, name := range p.Names {
			if name == marker.Name {
				values[i], found = p.Values[j], true
			}
		}
		if !found {
			return nil, false
		}
	}
	return values, true
}

// authorize returns an error if the caller may not run the statement. A read-only key
// allows reads.
func (r *request) authorize(s *Statement) error {
	if s.Kind == Read && s.Permission == "" || s.Kind == Use || r.session.Caller.Kind() == auth.Master {
		return nil
	}
	if r.session.Caller.Kind() == auth.Reader && s.Kind == Read {
		return nil
	}
	return &frame.Error{Code: frame.CodeUnauthorized, Message: fmt.Sprintf("User %s has no %s permission on %s or any of its parents", r.session.User, s.Permission, s.On)}
}

// executeStatement runs a statement. entry is nil for a text.
func (r *request) executeStatement(s *Statement, keyspace string, values []frame.Value, p *frame.Parameters, m *executed) (outcome, error) {
	r.statement = s
	if err := r.authorize(s); err != nil {
		return outcome{}, err
	}
	result, err := r.server.config.Processor.Execute(r.context(), r.session, s, &Request{
		Keyspace: keyspace, Values: values, Parameters: p, Payload: r.frame.Payload, Trace: r.trace, Memory: r,
	})
	if err != nil {
		if result == nil {
			return outcome{}, err
		}
		return outcome{warnings: result.Warnings}, err
	}
	done := r.finish(result)
	if result.Rows != nil {
		done.message = rowsMessage(s, result.Rows, p, m)
	}
	return done, nil
}

// Hold implements table.Memory: it takes bytes from the budget for the answer, until it is sent. It does not wait:
// requests that hold some and wait for more might wait for each other.
func (r *request) Hold(bytes int) error {
	if !r.server.inflight.try(int64(bytes)) {
		return &frame.Error{Code: frame.CodeOverloaded, Message: fmt.Sprintf(
			"The results of requests without pages take too much memory: %d MB are for requests and their answers. Ask for pages.", r.server.config.InflightBytes>>20)}
	}
	r.bytes += int64(bytes)
	return nil
}

// executed is an EXECUTE with the statement that it names.
type executed struct {
	message *frame.Execute
	entry   *preparedEntry
	version frame.Version
}

// rowsMessage returns the answer with rows. The columns are left out if the client asks
// for that, unless it does not know them: those of a statement with IF, and those that
// have changed since it has prepared.
func rowsMessage(s *Statement, rows *Rows, p *frame.Parameters, m *executed) *frame.Rows {
	answer := &frame.Rows{Count: rows.Count, Cells: rows.Cells, Metadata: frame.Metadata{
		Columns: rows.Columns, PagingState: rows.PagingState,
		Skip: p.Has(frame.QuerySkipMetadata) && s.Result.Len() > 0,
	}}
	if m != nil && m.version >= frame.V5 && s.Result.Len() > 0 && !bytes.Equal(m.message.MetadataID, m.entry.metadataID) {
		answer.Metadata.NewID = m.entry.metadataID
	}
	return answer
}

// finish tells others about the changes of a result and returns the answer without rows.
func (r *request) finish(result *Result) outcome {
	done := outcome{message: frame.Void{}, warnings: result.Warnings, keyspace: result.Keyspace, payload: r.charged(result), charge: result.Charge}
	switch n := len(result.Changes); {
	case n > 0:
		r.server.Changed(result.Changes...)
		done.message = &result.Changes[n-1]
	case result.Keyspace != "":
		done.message = frame.SetKeyspace{Keyspace: result.Keyspace}
	}
	return done
}

// chargeKey is the name under which the service sends the request charge: a float64.
const chargeKey = "RequestCharge"

func (r *request) charged(result *Result) []frame.Pair[[]byte] {
	charge := binary.BigEndian.AppendUint64(make([]byte, 0, 8), math.Float64bits(result.Charge))
	all := make([]frame.Pair[[]byte], 0, 1+len(result.Payload))
	return append(append(all, frame.Pair[[]byte]{Name: chargeKey, Value: charge}), result.Payload...)
}

// markersMax is how many values the protocol can count.
const markersMax = 65_535

// textShown is how much of a statement an error quotes.
const textShown = 200

func (r *request) prepare(m *frame.Prepare) (outcome, error) {
	keyspace := r.keyspace
	if m.Keyspace != "" {
		keyspace = m.Keyspace
	}
	id := idOf(keyspace, m.Text)
	e := r.server.prepared.find(id[:])
	if e == nil || e.keyspace != keyspace || e.text != m.Text {
		statement, err := r.server.config.Processor.Prepare(r.context(), r.session, keyspace, m.Text)
		if err != nil {
			return outcome{}, err
		}
		if n := statement.Markers.Len(); n > markersMax {
			return outcome{}, invalid("Too many markers(?). %d markers exceed the allowed maximum of %d", n, markersMax)
		}
		e = newEntry(keyspace, m.Text, statement)
		if !r.server.prepared.add(e) {
			return outcome{}, invalid("Prepared statement of size %d bytes is larger than allowed maximum of %d MB: %s...",
				e.bytes, r.server.config.PreparedBytes>>20, m.Text[:min(len(m.Text), textShown)])
		}
	}
	done := r.finish(&Result{})
	done.message = &frame.Prepared{ID: e.id[:], MetadataID: e.metadataID, Markers: e.statement.Markers, Keys: e.statement.Keys, Result: e.statement.Result}
	return done, nil
}

func (r *request) execute(m *frame.Execute, of *failed) (outcome, error) {
	e := r.entry
	if e == nil {
		return outcome{}, unprepared(m.ID)
	}
	of.write = e.statement.Kind != Read && e.statement.Kind != Use
	values, ok := resolve(e.statement, &m.Parameters)
	if !ok {
		return outcome{}, invalid("there were %d markers(?) in CQL but %d bound variables", e.statement.Markers.Len(), len(m.Parameters.Values))
	}
	done, err := r.executeStatement(e.statement, e.keyspace, values, &m.Parameters, &executed{m, e, r.session.Version})
	if errors.Is(err, ErrStale) {
		r.server.prepared.drop(e)
		return done, unprepared(m.ID)
	}
	return done, err
}

func (r *request) batch(m *frame.Batch) (outcome, error) {
	if len(m.Statements) == 0 {
		return r.finish(&Result{}), nil
	}
	for attempt := 1; ; attempt++ {
		b, err := r.batchOf(m)
		if err != nil {
			return outcome{}, err
		}
		result, err := r.server.config.Processor.Batch(r.context(), r.session, b)
		if errors.Is(err, ErrStale) && attempt < attemptsMax {
			r.forget(m)
			continue
		}
		if err != nil {
			return outcome{}, err
		}
		done := r.finish(result)
		if result.Rows != nil {
			done.message = rowsMessage(b.Statements[0].Statement, result.Rows, &m.Parameters, nil)
		}
		return done, nil
	}
}

// forget drops the prepared statements of a batch of which one is stale.
func (r *request) forget(m *frame.Batch) {
	for i := range m.Statements {
		if e := r.server.prepared.find(m.Statements[i].ID); e != nil {
			r.server.prepared.drop(e)
		}
	}
}

// batchOf finds and prepares the statements of a batch.
func (r *request) batchOf(m *frame.Batch) (*Batch, error) {
	keyspace := r.inUse(&m.Parameters)
	b := &Batch{
		Type: m.Type, Keyspace: keyspace, Parameters: &m.Parameters, Payload: r.frame.Payload, Trace: r.trace,
		Statements: make([]BatchStatement, len(m.Statements)),
	}
	for i := range m.Statements {
		given := &m.Statements[i]
		var s *Statement
		if given.ID != nil {
			e := r.server.prepared.find(given.ID)
			if e == nil {
				return nil, unprepared(given.ID)
			}
			s = e.statement
		} else {
			var err error
			if s, err = r.server.config.Processor.Prepare(r.context(), r.session, keyspace, given.Text); err != nil {
				return nil, err
			}
		}
		if i == 0 {
			r.statement = s
		}
		if s.Kind != Modify {
			return nil, invalid("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
		}
		if s.Markers.Len() != len(given.Values) {
			return nil, invalid("There were %d markers(?) in CQL but %d bound variables", s.Markers.Len(), len(given.Values))
		}
		if err := r.authorize(s); err != nil {
			return nil, err
		}
		b.Statements[i] = BatchStatement{Statement: s, Values: given.Values}
	}
	return b, nil
}
