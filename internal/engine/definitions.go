package engine

import (
	"context"
	"iter"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// listText is the query by which lists are made.
const listText = "SELECT * FROM c"

// definition is a database, container, offer, script, user or permission as a
// query sees it.
type definition struct {
	rid     resource.RID
	content value.Value
}

// definitionSource supplies a plan with the definitions of one kind and parent
// in the order of their creation, which is that of their RIDs.
type definitionSource []definition

// Candidates yields the definitions with numbers above need.After. There is no
// index that would narrow them down.
func (s definitionSource) Candidates(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		var body []byte
		for _, d := range s {
			number := d.number()
			if number <= need.After {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(query.Candidate{}, err)
				return
			}
			body = d.content.Append(body[:0])
			if !yield(query.Candidate{Number: number, Body: body}, nil) {
				return
			}
		}
	}
}

// number returns the bytes of the RID as a number, or for a child of a container
// its number there. It rises with creation among the definitions of one parent,
// so a continuation survives changes between pages.
func (d definition) number() uint64 {
	if n := d.rid.Number(); n != 0 {
		return n
	}
	var n uint64
	for i := range len(d.rid) {
		n = n<<8 | uint64(d.rid[i])
	}
	return n
}

// definitions runs req's query over the definitions that list returns. list
// sets the owner.
func (e *Engine) definitions(ctx context.Context, caller auth.Caller, req QueryRequest, list func(*catalog.View, *Feed) ([]definition, error)) (Feed, error) {
	return e.definitionsOf(ctx, caller, kindOf(auth.Query, req.Link), req, list)
}

// definitionsOf is definitions for a kind of resource that the link does not
// determine.
func (e *Engine) definitionsOf(ctx context.Context, caller auth.Caller, on auth.Resource, req QueryRequest, list func(*catalog.View, *Feed) ([]definition, error)) (Feed, error) {
	var meter throughput.Meter
	var out Feed
	err := e.allow(caller, auth.Access{Action: auth.Query, On: on}, req.Link)
	if err == nil {
		err = e.control.metadataRequest(on, throughput.MetadataQuery)
	}
	if err != nil {
		return out, fail(err)
	}
	err = e.definitionPage(ctx, &req, list, &out)
	meter.Add(throughput.MetadataQuery)
	out.Charge = meter.Charge()
	return out, fail(err)
}

func (e *Engine) definitionPage(ctx context.Context, req *QueryRequest, list func(*catalog.View, *Feed) ([]definition, error), out *Feed) error {
	all, err := list(e.catalog.View(), out)
	if err != nil {
		return err
	}
	// Definitions have no index, and can be ordered by any path.
	plan, err := e.compile(req.Text, req.Params, nil, nil)
	if err != nil {
		return err
	}
	at, err := e.resume(req, out.ParentRID, plan, "")
	if err != nil {
		return err
	}
	run := func(ctx context.Context, b query.Budget) (query.Page, error) {
		return plan.Run(ctx, definitionSource(all), b)
	}
	streams := []stream{{run: run, clip: partitionkey.Full()}}
	if err := e.serve(ctx, req, plan, streams, at, out); err != nil || out.Continuation == "" || e.trailing {
		return err
	}
	// As in the service, the page with the last row is the last one: other definitions
	// may follow, but none that is a row.
	next := *req
	next.Continuation, next.MaxItems = out.Continuation, 1
	if at, err = e.resume(&next, out.ParentRID, plan, ""); err != nil {
		return err
	}
	var rest Feed
	if err := e.serve(ctx, &next, plan, streams, at, &rest); err != nil {
		return err
	}
	if len(rest.Rows) == 0 && rest.Continuation == "" {
		out.Continuation = ""
	}
	return nil
}
