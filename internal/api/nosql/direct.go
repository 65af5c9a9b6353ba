package nosql

import (
	"context"
	"net/http"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// This file is the door of direct mode: it reads an rntbd.Request and sets an
// rntbd.Response. The files whose names begin with direct belong to it.

// NewDirect returns the door for clients in direct mode, safe for concurrent use. Of cfg
// it needs what [New] needs, and both may share everything in it. It ignores Admit.
func NewDirect(cfg Config) rntbd.Handler { return directDoor{newHandler(cfg)} }

// directDoor answers requests of direct mode with the handlers of the REST protocol.
type directDoor struct{ *handler }

// directRequest is what a request of direct mode has in addition to its message.
type directRequest struct {
	from    *rntbd.Request // nil for a request of another door
	asked   place
	found   engine.Address // the container of a request to one of its partitions
	located bool           // found is set
}

// Serve answers one request.
func (d directDoor) Serve(ctx context.Context, q *rntbd.Request, w *rntbd.Response) {
	r := d.begin(d.now())
	defer d.end(r)
	r.direct.from = q
	r.ctx = ctx
	r.message = message{
		base:    ctx,
		headers: &r.direct,
		remote:  q.Client.Remote,
		secure:  q.Client.Secure,
		payload: q.Payload,
	}
	r.activity = q.Activity.String()
	fault := r.translate()
	if fault == nil {
		fault = arrived(q.Fault, r.memory)
	}
	answer := d.respond(r, fault)
	d.encode(w, r, answer)
	d.count(r, answer)
}

// arrived returns the error of a request whose payload was not read.
func arrived(fault rntbd.Fault, memory *Memory) error {
	switch fault {
	case rntbd.TooLarge:
		return status.TooLarge("Request size is too large.")
	case rntbd.NoMemory:
		return memory.Refusal()
	}
	return nil
}

// masterID is how clients call the partition that has the definitions: databases,
// containers, users and permissions.
const masterID = "M"

// replicas is how many addresses a partition has: a primary and three secondaries, as in
// the service. Clients read from two secondaries where an account is Strong or has bounded
// staleness. All of them are this server.
const replicas = 4

// writeQuorum is how many of them have to have a write, as clients are told.
const writeQuorum = 3

// locate checks that a request in direct mode has reached the partition that it is for.
// It is called after the caller is authenticated.
func (h *handler) locate(r *request) error {
	at := &r.direct.asked
	if !at.known || at.master != r.onDefinitions() || !at.primary && r.direct.writes() {
		return status.PartitionMoved(0) // The client asks for the addresses again.
	}
	if at.master {
		return nil
	}
	found, ok := h.engine.Address(r.container())
	if !ok {
		return status.OwnerNotFound()
	}
	given, err := r.direct.containerRID()
	if err != nil {
		return err
	}
	if rid := found.RID(); rid != at.container || given != "" && given != rid {
		return status.PartitionMoved(status.SubNameCacheStale)
	}
	r.direct.found, r.direct.located = found, true
	// A client that names another partition than that of the address has a newer map.
	id, _, err := r.rangeID()
	if err != nil {
		return err
	}
	if id != nil && found.Has(*id) {
		at.partition = *id
	}
	if !found.Has(at.partition) {
		return status.PartitionMoved(status.SubCompletingSplit)
	}
	key, err := r.partitionKey()
	if err == nil && key != nil && !found.Holds(at.partition, *key) {
		return status.PartitionMoved(status.SubCompletingSplit)
	}
	return nil // The handler refuses a key that is not valid.
}

// moved returns the error for clients in direct mode of a partition that others have
// replaced: with 410/1002, which the gateway sends, writes fail, and .NET gets each row of
// a query twice.
func moved(e *status.Error) *status.Error {
	if e.Code != status.CodeGone || e.Sub != status.SubRangeGone {
		return e
	}
	return status.PartitionMoved(status.SubCompletingSplit)
}

// reached returns the LSN of the partition that a request is for, if its result has none.
func (h *handler) reached(r *request, open bool) (resource.LSN, error) {
	switch d := &r.direct; {
	case d.asked.master && r.caller.Kind() != auth.Anonymous:
		return h.engine.DefinitionsLSN(), nil
	case d.located && d.found.Has(d.asked.partition):
		return d.found.LSN(r.ctx, d.asked.partition, open)
	}
	return 1, nil
}

// barrier answers a client that waits for a replica to reach an LSN: it asks until the
// answer has it. Every caller that is authenticated may: barriers are signed like the
// request for which the client sends them.
func (h *handler) barrier(r *request) (*response, error) {
	lsn, err := h.reached(r, true)
	if err != nil {
		return nil, err
	}
	r.result.LSN = lsn
	return r.answer(http.StatusOK, nil), nil
}
