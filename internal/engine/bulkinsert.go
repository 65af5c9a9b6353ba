package engine

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// bulkInsert is the procedure of the system that also runs for a physical partition instead
// of a key. The bulk executors of the older .NET and Java clients call it so.
const bulkInsert = "__.sys.commonBulkInsert"

// bulkTime is how long a run of [bulkInsert] begins further documents. Clients continue
// with the rest.
const bulkTime = 5 * time.Second

// insertBulk creates or upserts the documents of the first argument in one partition, in
// their order, until one is refused or the time is over. The answer has the number of
// documents that are written; if that is none, the error is that of the first document.
//
// Unlike a run with a key it is no transaction: the documents of a partition have many
// keys. The caller needs the right to write documents, too.
func (e *Engine) insertBulk(ctx context.Context, caller auth.Caller, req *ExecuteRequest) (out Executed, err error) {
	wish := auth.Access{Action: auth.Execute, On: auth.Script, Feed: "sprocs", ID: req.Procedure}
	if err := e.allow(caller, wish, req.Link); err != nil {
		return out, err
	}
	if _, err := e.owner(req.Link, req.IntendedRID, &out.Result); err != nil {
		return out, err
	}
	operations, soft, err := bulkOperations(req.Args)
	if err != nil {
		return out, err
	}
	out.Charge = runCharge
	end := e.now().Add(bulkTime)
	count, code := 0, status.Code(0)
	for count < len(operations) && code == 0 && (count == 0 || e.now().Before(end)) {
		batch := BatchRequest{Link: req.Link, Partition: req.Partition, Atomicity: UpTo, Options: req.Options}
		batch.Operations = operations[count:min(count+BatchMax, len(operations))]
		if operations[0].Action == auth.Upsert {
			batch.Atomicity = Each // A document that is sent again is replaced again.
		}
		done, err := e.Batch(ctx, caller, batch)
		done.Charge += out.Charge
		out.Result = done.Result
		var first *status.Error
		for _, r := range done.Results {
			if first = r.Err; first != nil {
				break
			}
			count++
		}
		if err == nil && first != nil {
			err = first
		}
		if soft && status.CodeOf(err) == status.CodeConflict {
			code = status.CodeConflict
		} else if err != nil && count > 0 {
			break // The client sends the rest, and learns then why this one was refused.
		} else if err != nil {
			return out, err
		}
	}
	out.Body = value.Object([]value.Member{
		{Name: "count", Value: value.Int(int64(count))}, {Name: "errorCode", Value: value.Int(int64(code))},
	}).Append(nil)
	return out, nil
}

// bulkOperations reads the arguments: documents, each perhaps as JSON in a string, and
// options. soft means that a conflict ends the run without an error.
func bulkOperations(args []value.Value) (operations []BatchOperation, soft bool, err error) {
	if len(args) == 0 || args[0].Kind() != value.KindArray {
		return nil, false, status.BadRequest("The first argument of %s must be an array of documents.", bulkInsert)
	}
	options := value.Undefined()
	if len(args) > 1 {
		options = args[1]
	}
	action := auth.Create
	if options.Get("enableUpsert").IsTrue() {
		action = auth.Upsert
	}
	operations = make([]BatchOperation, args[0].Len())
	for i, document := range args[0].Items() {
		o := BatchOperation{Action: action, Body: document, Silent: true}
		if document.Kind() == value.KindString {
			o.Size = len(document.Text())
			if o.Body, err = value.ParseString(document.Text()); err != nil {
				return nil, false, status.BadRequest("Document %d of %s is not valid JSON: %s.", i, bulkInsert, err)
			}
		} else {
			o.Size = len(document.Append(nil))
		}
		operations[i] = o
	}
	return operations, options.Get("softStopOnConflict").IsTrue(), nil
}
