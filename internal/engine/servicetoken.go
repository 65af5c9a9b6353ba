package engine

import (
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// isServiceToken reports whether a continuation has one of the service's forms. One
// of Decan's own is base64 and begins with none of these characters.
func isServiceToken(token string) bool {
	return strings.HasPrefix(token, "[") || strings.HasPrefix(token, "{") ||
		strings.HasPrefix(token, "+RID:") || strings.HasPrefix(token, "-RID:")
}

// resumeService reads a continuation in a form of the service, as far as it names a
// position; anything else is 400.
//
//	{"token":T,"range":{"min":"05C1","max":"FF"}}   T is a position in the range, null its
//	                                                beginning; the ranges below it are finished
//	[{...},{...}]                                   adjoining ranges; only the first is begun
//	-RID:~<rid>#RT:1#TRC:10                         after this document, in one partition;
//	                                                TRC is the number of rows so far
//
// T is a RID form or a token of Decan's own.
func (q *queryPage) resumeService(c *catalog.Container, plan *query.Plan, s scope, mark uint64) (continuation, error) {
	token := q.req.Continuation
	all := partitionkey.Range{Min: s.ranges[0].Min, Max: s.ranges[len(s.ranges)-1].Max}
	if token[0] == '+' || token[0] == '-' {
		return afterRID(c, plan, token, all, mark)
	}
	list, err := value.Parse([]byte(token))
	if err != nil {
		return continuation{}, invalidContinuation()
	}
	entries := []value.Value{list}
	if list.Kind() == value.KindArray {
		entries = list.Items()
	}
	var at continuation
	var end partitionkey.EPK
	for i, entry := range entries {
		inner, r, err := serviceEntry(entry)
		switch {
		case err != nil:
			return at, err
		case i == 0:
			here := r
			if both, ok := r.Intersect(all); ok {
				here = both
			}
			if at, err = q.resumeEntry(c, plan, inner, here, mark); err != nil {
				return at, err
			}
		case inner != "" || r.Min.Compare(end) != 0:
			return at, foreignContinuation("only its first range may have been begun, and each of the others begins where the one before ends")
		}
		end = r.Max
	}
	if len(entries) == 0 {
		return at, invalidContinuation()
	}
	return at, nil
}

// resumeEntry returns the position of an entry with an inner token and a range.
func (q *queryPage) resumeEntry(c *catalog.Container, plan *query.Plan, inner string, r partitionkey.Range, mark uint64) (continuation, error) {
	if plan.Ordered() || plan.Hybrid() != nil {
		return continuation{}, foreignContinuation("a position in one range is none in the order of all rows")
	}
	switch {
	case inner == "":
		return continuation{Query: mark, Range: r}, nil
	case isServiceToken(inner) && inner[0] != '[' && inner[0] != '{':
		return afterRID(c, plan, inner, r, mark)
	}
	at, err := resumeOwn(inner, mark, fingerprint(c.RID, plan, q.req))
	if err != nil {
		return at, err
	}
	var ok bool
	if at.Range, ok = at.Range.Intersect(r); !ok {
		return at, foreignContinuation("its range has nothing in common with the position in it")
	}
	return at, nil
}

// serviceEntry reads {"token":...,"range":{"min":...,"max":...}}.
func serviceEntry(entry value.Value) (inner string, r partitionkey.Range, err error) {
	token, bounds := entry.Get("token"), entry.Get("range")
	if k := token.Kind(); k != value.KindString && k != value.KindNull {
		return "", r, invalidContinuation()
	}
	if token.Kind() == value.KindString {
		inner = token.Text()
	}
	low, high := bounds.Get("min"), bounds.Get("max")
	if low.Kind() != value.KindString || high.Kind() != value.KindString {
		return "", r, invalidContinuation()
	}
	if r.Min, err = partitionkey.ParseEPK(low.Text()); err == nil {
		r.Max, err = partitionkey.ParseEPK(high.Text())
	}
	if err != nil || r.Empty() || r.Max.Compare(partitionkey.MaxEPK) > 0 {
		return "", r, foreignContinuation("its range is none of effective partition keys")
	}
	return inner, r, nil
}

// afterRID returns the position after the document of a RID form, in the part of the
// key space that the token is about. That must be in one partition: numbers of
// documents have no order across partitions.
func afterRID(c *catalog.Container, plan *query.Plan, token string, within partitionkey.Range, mark uint64) (continuation, error) {
	if !plan.Separate() {
		return continuation{}, foreignContinuation("a document is no position in the rows of this query, which has an order, skips or combines rows")
	}
	at := continuation{Query: mark, Range: within, Started: true}
	for i, field := range strings.Split(token[1:], "#") {
		name, text, _ := strings.Cut(field, ":")
		var err error
		switch name {
		case "RID":
			var rid resource.RID
			rid, err = resource.ParseRID(strings.TrimPrefix(text, "~"))
			if err == nil && (i > 0 || !rid.IsDocument() || rid.Container() != c.RID) {
				return at, foreignContinuation("its document is none of this container")
			}
			at.Position.Number = rid.Number()
		case "TRC":
			var rows uint64
			rows, err = strconv.ParseUint(text, 10, 62)
			at.Taken = int64(rows)
		case "RT", "ISV", "IEO", "QCF", "FPC", "FPP":
			// The number of pages, and how the service's index continues.
		default:
			return at, foreignContinuation("it has the field " + strconv.QuoteToASCII(name) + ", which is not known")
		}
		if err != nil {
			return at, invalidContinuation()
		}
	}
	if several(c, []partitionkey.Range{within}) {
		return at, foreignContinuation("it names a document, and its range has several physical partitions")
	}
	return at, nil
}

// foreignContinuation returns the error of a token in a form of the service that names
// no position here.
func foreignContinuation(why string) error {
	return status.BadRequest("Invalid Continuation Token. It is in the service's form, but names no position here: %s.", why)
}
