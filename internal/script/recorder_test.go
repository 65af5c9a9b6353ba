package script

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// recorder is a Host: the documents of one logical key in memory, a transaction
// that is committed or dropped, and a list of the operations.
type recorder struct {
	docs   []value.Value // in the order of their RIDs
	number int           // of the last document
	clock  int           // of the last etag
	limit  int           // maximum number of operations in a run; 0 for no limit, -1 for none
	fail   error         // the error of the next operation

	pending []value.Value
	used    int
	log     []string
}

const (
	selfLink = "dbs/1ZAmAA==/colls/1ZAmAJT9ABk="
)

func (h *recorder) begin() {
	h.pending, h.used, h.log = slices.Clone(h.docs), 0, nil
}

func (h *recorder) commit() { h.docs = h.pending }

func (h *recorder) Container() (self, database, name string) { return selfLink, "d", "c" }

func (h *recorder) Quota() (usage, quota string) { return "documentsCount=1;", "documentsCount=-1;" }

func (h *recorder) Room() int {
	if h.limit == 0 {
		return 1000
	}
	return max(h.limit-h.used, 0)
}

// operate counts and records an operation.
func (h *recorder) operate(format string, args ...any) error {
	h.used++
	h.log = append(h.log, fmt.Sprintf(format, args...))
	err := h.fail
	h.fail = nil
	return err
}

func (h *recorder) find(t Target) int {
	return slices.IndexFunc(h.pending, func(d value.Value) bool {
		if t.RID != "" {
			return d.Get("_rid").Text() == t.RID
		}
		return d.Get("id").Text() == t.ID
	})
}

func (h *recorder) existing(t Target) (int, error) {
	i := h.find(t)
	if i < 0 {
		return 0, status.NotFound()
	}
	if t.ETag != "" && t.ETag != h.pending[i].Get("_etag").Text() {
		return 0, status.PreconditionFailed()
	}
	return i, nil
}

// stored adds system properties to a document.
func (h *recorder) stored(document, old value.Value) value.Value {
	rid := old.Get("_rid")
	if !rid.IsDefined() {
		h.number++
		rid = value.String(fmt.Sprintf("r%03d", h.number))
	}
	h.clock++
	return document.With("_rid", rid).
		With("_self", value.String(selfLink+"/docs/"+rid.Text()+"/")).
		With("_etag", value.String("e"+strconv.Itoa(h.clock)))
}

func (h *recorder) Create(_ context.Context, w Write) (value.Value, error) {
	id := w.Document.Get("id").Text()
	if err := h.operate("create %s", mask(id)); err != nil {
		return value.Value{}, err
	}
	if id == "" {
		return value.Value{}, status.BadRequest("The document has no id.")
	}
	if h.find(Target{ID: id}) >= 0 {
		return value.Value{}, status.Conflict()
	}
	d := h.stored(w.Document, value.Value{})
	h.pending = append(h.pending, d)
	return d, nil
}

func (h *recorder) Upsert(ctx context.Context, w Write) (value.Value, error) {
	id := w.Document.Get("id").Text()
	if h.find(Target{ID: id}) < 0 {
		return h.Create(ctx, w)
	}
	return h.put("upsert", Target{ID: id, ETag: w.Target.ETag}, w)
}

func (h *recorder) Replace(_ context.Context, w Write) (value.Value, error) {
	return h.put("replace", w.Target, w)
}

func (h *recorder) put(verb string, t Target, w Write) (value.Value, error) {
	if err := h.operate("%s %s%s", verb, t.RID, t.ID); err != nil {
		return value.Value{}, err
	}
	i, err := h.existing(t)
	if err != nil {
		return value.Value{}, err
	}
	h.pending = slices.Clone(h.pending)
	h.pending[i] = h.stored(w.Document, h.pending[i])
	return h.pending[i], nil
}

func (h *recorder) Read(_ context.Context, t Target) (value.Value, error) {
	if err := h.operate("read %s%s", t.RID, t.ID); err != nil {
		return value.Value{}, err
	}
	i, err := h.existing(Target{RID: t.RID, ID: t.ID})
	if err != nil {
		return value.Value{}, err
	}
	if t.IfNoneMatch != "" && t.IfNoneMatch == h.pending[i].Get("_etag").Text() {
		return value.Value{}, nil
	}
	return h.pending[i], nil
}

func (h *recorder) Delete(_ context.Context, t Target) error {
	if err := h.operate("delete %s%s", t.RID, t.ID); err != nil {
		return err
	}
	i, err := h.existing(t)
	if err == nil {
		h.pending = slices.Delete(slices.Clone(h.pending), i, i+1)
	}
	return err
}

var simple = regexp.MustCompile(`^SELECT \* FROM c(?: WHERE c\.(\w+) = (\S+))?(?: ORDER BY c\.(\S+) (ASC|DESC))?$`)

// Query supports the one form of query that the tests need. Its continuation is
// the number of rows before it and, with an order, the RID of the last one.
func (h *recorder) Query(_ context.Context, q Query) (Page, error) {
	if err := h.operate("query %q size=%d continuation=%q", q.Text, q.PageSize, q.Continuation); err != nil {
		return Page{}, err
	}
	rows, err := h.rows(q)
	if err != nil {
		return Page{}, err
	}
	size := q.PageSize
	if size < 0 {
		size = 1000
	}
	var page Page
	for _, row := range rows {
		if row.Get("_rid").Text() <= q.Continuation {
			continue
		}
		if len(page.Rows) == size {
			return page, nil
		}
		page.Continuation = row.Get("_rid").Text()
		kept := true
		if q.Keep != nil {
			if kept, err = q.Keep(row); err != nil {
				return Page{}, err
			}
		}
		if kept {
			page.Rows = append(page.Rows, row)
		}
	}
	page.Continuation = ""
	return page, nil
}

func (h *recorder) rows(q Query) ([]value.Value, error) {
	rows := slices.Clone(h.pending)
	if q.Text == "" {
		return rows, nil
	}
	form := simple.FindStringSubmatch(q.Text)
	if form == nil {
		return nil, status.BadRequest("Syntax error.")
	}
	if form[1] != "" {
		want, err := value.ParseString(form[2])
		if err != nil {
			for _, p := range q.Parameters.Items() {
				if p.Get("name").Text() == form[2] {
					want = p.Get("value")
				}
			}
		}
		rows = slices.DeleteFunc(rows, func(d value.Value) bool { return !d.Get(form[1]).Equal(want) })
	}
	if form[3] != "" {
		var path value.Path
		for name := range strings.FieldsFuncSeq(form[3], func(r rune) bool { return strings.ContainsRune(`.[]"'`, r) }) {
			path = append(path, value.Step{Name: name})
		}
		slices.SortStableFunc(rows, func(a, b value.Value) int {
			order := value.Compare(a.At(path), b.At(path))
			if form[4] == "DESC" {
				order = -order
			}
			return order
		})
	}
	return rows, nil
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// mask replaces random ids.
func mask(text string) string { return uuid.ReplaceAllString(text, "<uuid>") }

// show returns a document without its system properties.
func show(d value.Value) string {
	return mask(d.Without("_rid", "_self", "_etag").JSON())
}

var _ Host = (*recorder)(nil)

// failure prints an error, or the first one of a list.
func failure(err error) string {
	if e := status.From(err); e != nil {
		message := e.Message
		if wrapped, err := value.ParseString(message); err == nil {
			message = wrapped.Get("Errors").Index(0).Text()
		}
		return fmt.Sprintf("%d/%d %s", e.Code, e.Sub, strings.ReplaceAll(message, "\r", ""))
	}
	return err.Error()
}
