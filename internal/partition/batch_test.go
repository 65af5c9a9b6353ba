package partition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/patch"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// patchOf reads the body of a patch as the engine does.
func patchOf(body value.Value) (changes *patch.Patch, condition *query.Plan, err error) {
	if changes, err = patch.Parse(body); err != nil || changes.Condition == "" {
		return changes, nil, err
	}
	condition, err = query.Compile("SELECT VALUE true "+changes.Condition, nil, nil, query.Options{})
	return changes, condition, err
}

// patch: patch id=ID key=JSON [if-match=] [if-none-match=]; the input is the body
// of the request.
func (s *story) patch(d *datadriven.TestData) string {
	var meter throughput.Meter
	changes, condition, err := patchOf(s.w.parse(d.Input))
	if err != nil {
		return statusText(err)
	}
	got, err := s.w.write(Patch, value.Value{}, func(w *Write) {
		w.ID, w.Key, w.Changes, w.Condition, w.Meter = s.arg(d, "id"), s.key(s.arg(d, "key")), changes, condition, &meter
		w.IfMatch, w.IfNoneMatch = s.etagArg(d, "if-match"), s.etagArg(d, "if-none-match")
	})
	if err != nil {
		return fmt.Sprintf("%s (lsn %d, %.2f RU)", s.hide(statusText(err)), got.LSN, meter.Charge())
	}
	s.see(got.ETag)
	return fmt.Sprintf("lsn %d (%.2f RU)\n%s", got.LSN, meter.Charge(), s.hide(string(got.Body)))
}

// batch: batch key=JSON [atomicity=each|upto] [body]; each line of the input is an
// operation: its name, optionally silent, if-match=... and if-none-match=..., the id if
// it takes one, and the body if it has one.
func (s *story) batch(d *datadriven.TestData) string {
	var meter throughput.Meter
	key := s.key(s.arg(d, "key"))
	atomicity := map[string]Atomicity{"": Atomic, "upto": UpTo, "each": Each}[s.arg(d, "atomicity")]
	b := s.w.batchOf(key, atomicity)
	b.Meter = &meter
	for line := range strings.Lines(d.Input) {
		b.Operations = append(b.Operations, s.operation(d, strings.TrimSpace(line)))
	}
	got, err := s.w.partition.Load().Batch(context.Background(), b)
	if err != nil {
		return fmt.Sprintf("%s (lsn %d, %.2f RU)", s.hide(statusText(err)), got.LSN, meter.Charge())
	}
	var out strings.Builder
	for i, r := range got.Results {
		name := b.Operations[i].Op.String()
		if r.Err != nil {
			fmt.Fprintf(&out, "%s: %s (%.2f RU)\n", name, s.hide(statusText(r.Err)), r.Charge)
			continue
		}
		s.see(r.ETag)
		fmt.Fprintf(&out, "%s: created %t lsn %d etag %s (%.2f RU)\n", name, r.Created, r.LSN, s.see(r.ETag), r.Charge)
		if r.Body != nil && (d.HasArg("body") || b.Operations[i].Op == Fetch) {
			fmt.Fprintf(&out, "  %s\n", s.hide(string(r.Body)))
		}
	}
	fmt.Fprintf(&out, "refused %t, lsn %d, %.2f RU", got.Refused, got.LSN, meter.Charge())
	return out.String()
}

func (s *story) operation(d *datadriven.TestData, line string) (o BatchOperation) {
	name, rest, _ := strings.Cut(line, " ")
	at := slices.IndexFunc([]Op{Create, Upsert, Replace, Delete, Patch, Fetch}, func(op Op) bool { return op.String() == name })
	if at < 0 {
		d.Fatalf(s.t, "unknown operation %q", line)
	}
	o.Op = Op(at)
	for {
		word, behind, _ := strings.Cut(rest, " ")
		option, text, _ := strings.Cut(word, "=")
		switch option {
		case "silent":
			o.Silent = true
		case "if-match":
			o.IfMatch = s.etag(text)
		case "if-none-match":
			o.IfNoneMatch = s.etag(text)
		case "wrong":
			o.Wrong = status.BadRequest("The caller has found something wrong.")
		default:
			return s.operands(d, o, rest)
		}
		rest = behind
	}
}

// operands reads the text after the options of an operation.
func (s *story) operands(d *datadriven.TestData, o BatchOperation, rest string) BatchOperation {
	if o.Op != Create && o.Op != Upsert {
		o.ID, rest, _ = strings.Cut(rest, " ")
	}
	switch o.Op {
	case Patch:
		var err error
		if o.Changes, o.Condition, err = patchOf(s.w.parse(rest)); err != nil {
			d.Fatalf(s.t, "%v", err)
		}
	case Create, Upsert, Replace:
		o.Document = s.w.parse(rest)
	}
	return o
}

func (s *story) etag(text string) resource.ETag {
	return s.etagArg(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "etag", Vals: []string{text}}}}, "etag")
}

// batchOf is a batch for a key, without operations.
func (w *world) batchOf(key partitionkey.Key, atomicity Atomicity) Batch {
	definition := w.container.Load().PartitionKey
	return Batch{Atomicity: atomicity, Generation: w.own.Generation, Key: key, EPK: definition.Hash(key)}
}
