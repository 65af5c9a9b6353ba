package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// story is the world of one file of testdata.
type story struct {
	*world
	link         engine.Link
	headers      map[string]string
	text         string // of the input, after the headers
	etag         resource.ETag
	continuation string
	session      string
	offer        string
}

// TestStories runs the files of testdata.
//
// The first argument of a command, or the line "link: ...", is a path such as
// d/c/x. The input begins with any number of lines "name: value", which set the
// options of the request. The rest is the body or the text of the query. The
// values <etag>, <continuation>, <session> and <offer> denote the latest ones
// seen. The output leaves out the system properties of documents, unless
// "whole" is given. "quiet" leaves out the new definition, and "member" shows
// one member of it.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		t.Parallel()
		s := &story{world: newWorld(t, func(c *engine.Config) {
			c.Now = func() time.Time { return time.Unix(1700000000, 0) }
			c.Limits.Databases = 12
			c.Limits.SharedContainers = 2
			if strings.Contains(path, "weaker") {
				c.Account.Consistency = resource.BoundedStaleness
			}
		})}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(t, d)
			if err != nil {
				out = err.Error() + "\n" + out
			}
			return strings.TrimRight(out, "\n") + "\n"
		})
	})
}

func (s *story) run(t *testing.T, d *datadriven.TestData) (string, error) {
	s.read(d)
	ctx := context.Background()
	switch d.Cmd {
	case "reopen":
		s.reopen(t)
		return "ok", nil
	case "create", "upsert", "replace", "delete", "read":
		return s.document(ctx, t, d)
	case "query", "list", "explain":
		return s.feed(ctx, t, d, s.Query)
	case "changes":
		return s.changes(ctx, t, d)
	case "load":
		for line := range strings.SplitSeq(d.Input, "\n") {
			s.create(t, s.link, line)
		}
		return "ok", nil
	case "settle":
		return s.settle(ctx, t)
	case "plan":
		p, err := s.QueryPlan(ctx, caller, engine.PlanRequest{Link: s.link, Text: s.text, Params: s.params(t), Key: s.key(t), Features: s.headers["features"]})
		return string(p.Body), err
	case "query-databases":
		return s.feed(ctx, t, d, s.QueryDatabases)
	case "query-containers":
		return s.feed(ctx, t, d, s.QueryContainers)
	case "query-offers":
		return s.feed(ctx, t, d, s.QueryOffers)
	case "ranges":
		return s.ranges(ctx)
	}
	return s.definition(ctx, t, d)
}

// read parses a command.
func (s *story) read(d *datadriven.TestData) {
	s.link, s.headers, s.text = engine.Link{}, map[string]string{}, ""
	if len(d.CmdArgs) > 0 {
		parts := append(strings.SplitN(d.CmdArgs[0].Key, "/", 3), "", "", "")
		s.link = engine.Link{Database: parts[0], Container: parts[1], Document: parts[2]}
	}
	lines := strings.Split(d.Input, "\n")
	for len(lines) > 0 {
		name, text, found := strings.Cut(lines[0], ": ")
		if !found || strings.ContainsAny(name, " {") {
			break
		}
		switch text {
		case "<etag>":
			text = string(s.etag)
		case "<continuation>":
			text = s.continuation
		case "<session>":
			text = s.session
		case "<offer>":
			text = s.offer
		}
		s.headers[name] = text
		lines = lines[1:]
	}
	s.text = strings.Join(lines, "\n")
	if path, given := s.headers["link"]; given {
		parts := append(strings.SplitN(path, "/", 3), "", "", "")
		s.link = engine.Link{Database: parts[0], Container: parts[1], Document: parts[2]}
	}
}

func (s *story) options() engine.Options {
	return engine.Options{Session: s.headers["session"], SessionList: s.headers["session-list"] != "", Consistency: s.headers["consistency"], IntendedRID: s.headers["intended"]}
}

func (s *story) key(t *testing.T) *partitionkey.Key { return key(t, s.headers["key"]) }

func (s *story) params(t *testing.T) []query.Param {
	var list []query.Param
	if text := s.headers["params"]; text != "" {
		for _, m := range parse(t, text).Members() {
			list = append(list, query.Param{Name: m.Name, Value: m.Value})
		}
	}
	return list
}

func (s *story) number(name string) int {
	n, _ := strconv.Atoi(s.headers[name])
	return n
}

func (s *story) document(ctx context.Context, t *testing.T, d *datadriven.TestData) (string, error) {
	req := engine.DocumentRequest{
		Link: s.link, Key: s.key(t), Options: s.options(),
		IfMatch: resource.ETag(s.headers["if-match"]), IfNoneMatch: resource.ETag(s.headers["if-none-match"]),
	}
	if s.text != "" {
		req.Document, req.Size = parse(t, s.text), len(s.text)
	}
	if n := s.number("size"); n > 0 {
		req.Size = n
	}
	call := map[string]func() (engine.Document, error){
		"create":  func() (engine.Document, error) { return s.Create(ctx, caller, req) },
		"upsert":  func() (engine.Document, error) { return s.Upsert(ctx, caller, req) },
		"replace": func() (engine.Document, error) { return s.Replace(ctx, caller, req) },
		"delete":  func() (engine.Document, error) { return s.Delete(ctx, caller, req) },
		"read":    func() (engine.Document, error) { return s.Read(ctx, caller, req) },
	}
	doc, err := call[d.Cmd]()
	if doc.ETag != "" {
		s.etag = doc.ETag
	}
	if doc.Session != "" {
		s.session = doc.Session
	}
	var b strings.Builder
	if doc.Created {
		b.WriteString("created ")
	}
	if doc.Body != nil {
		b.WriteString(s.plain(t, d, doc.Body))
	}
	fmt.Fprintf(&b, "\n%s", s.result(d, doc.Result))
	return b.String(), err
}

// result shows the parts of an answer that the arguments select.
func (s *story) result(d *datadriven.TestData, r engine.Result) string {
	var b strings.Builder
	if d.HasArg("charge") {
		fmt.Fprintf(&b, "charge %v\n", r.Charge)
	}
	if d.HasArg("session") {
		fmt.Fprintf(&b, "session %s lsn %d\n", r.Session, r.LSN)
	}
	if d.HasArg("visited") {
		fmt.Fprintf(&b, "visited %v\n", r.Partitions)
	}
	if d.HasArg("owner") {
		fmt.Fprintf(&b, "owner %s %s\n", ownerText(r.Owner), r.OwnerRID)
	}
	return b.String()
}

// plain removes the volatile members from a JSON text.
func (s *story) plain(t *testing.T, d *datadriven.TestData, text []byte) string {
	if d.HasArg("whole") {
		return string(text)
	}
	v := parse(t, string(text))
	if v.Kind() != value.KindObject {
		return string(text)
	}
	return v.Without("_rid", "_self", "_etag", "_ts", "_attachments").JSON()
}

func (s *story) feed(ctx context.Context, t *testing.T, d *datadriven.TestData, run func(context.Context, auth.Caller, engine.QueryRequest) (engine.Feed, error)) (string, error) {
	req := engine.QueryRequest{
		Link: s.link, Text: s.text, Params: s.params(t), Key: s.key(t), MaxItems: s.number("items"),
		Continuation: s.headers["continuation"], Cross: s.headers["cross"] == "true", Full: s.headers["full"] == "true", Options: s.options(),
		Explain: d.Cmd == "explain", Indexes: d.HasArg("indexes"),
	}
	if text, given := s.headers["partition"]; given {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		id := resource.PartitionID(n)
		req.Partition = &id
	}
	if text, given := s.headers["clip"]; given {
		low, high, _ := strings.Cut(text, " ")
		from, err := partitionkey.ParseEPK(strings.Trim(low, `"`))
		if err != nil {
			t.Fatal(err)
		}
		to, err := partitionkey.ParseEPK(high)
		if err != nil {
			t.Fatal(err)
		}
		req.Clip = &partitionkey.Range{Min: from, Max: to}
	}
	if d.Cmd == "list" {
		run = s.List
	}
	page, err := run(ctx, caller, req)
	s.continuation = page.Continuation
	if page.Session != "" {
		s.session = page.Session
	}
	var b strings.Builder
	for _, row := range page.Rows {
		if req.Explain {
			b.WriteString(explained(parse(t, string(row))))
			continue
		}
		b.WriteString(s.plain(t, d, row) + "\n")
		if rid := parse(t, string(row)).Get("_rid"); d.Cmd == "query-offers" && rid.IsDefined() {
			s.offer = rid.Text()
		}
	}
	if page.Continuation != "" {
		b.WriteString("more\n")
	}
	if d.HasArg("indexes") && err == nil {
		fmt.Fprintf(&b, "%s\n", page.Indexes.Value().JSON())
	}
	if d.HasArg("read") && err == nil {
		fmt.Fprintf(&b, "documents read: %d\n", page.Stats.Retrieved)
	}
	b.WriteString(s.result(d, page.Result))
	if b.Len() == 0 {
		return "no rows", err
	}
	return b.String(), err
}

// explained shows the row of an explained query without the members that differ
// from run to run.
func explained(row value.Value) string {
	var b strings.Builder
	b.WriteString(row.Get("text").Text())
	partitions := row.Get("partitions")
	fmt.Fprintf(&b, "partitions %s of %s\n", partitions.Get("visited").JSON(), partitions.Get("total").JSON())
	for _, name := range []string{"indexes", "retrievedDocuments", "indexHits", "matchedDocuments", "returnedRows", "complete"} {
		fmt.Fprintf(&b, "%s %s\n", name, row.Get(name).JSON())
	}
	return b.String()
}

// settle waits until the index transformation of a container is complete.
func (s *story) settle(ctx context.Context, t *testing.T) (string, error) {
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		r, err := s.ReadContainer(ctx, caller, engine.ContainerRequest{Link: s.link})
		switch {
		case err != nil:
			return "", err
		case r.IndexProgress == 100:
			return "progress 100", nil
		case time.Now().After(deadline):
			t.Fatalf("the index stays at %d %%", r.IndexProgress)
		}
	}
}

func (s *story) ranges(ctx context.Context) (string, error) {
	page, err := s.Ranges(ctx, caller, engine.ContainerRequest{Link: s.link, IfNoneMatch: resource.ETag(s.headers["if-none-match"])})
	s.etag = page.ETag
	var b strings.Builder
	for _, row := range page.Rows {
		b.WriteString(strings.ReplaceAll(string(row), "\n", "") + "\n")
	}
	return b.String(), err
}

func (s *story) definition(ctx context.Context, t *testing.T, d *datadriven.TestData) (string, error) {
	var body value.Value
	if s.text != "" {
		body = parse(t, s.text)
	}
	var given engine.ThroughputRequest
	for name, field := range map[string]**int{"manual": &given.Manual, "autoscale": &given.AutoscaleMax} {
		if _, named := s.headers[name]; named {
			n := s.number(name)
			*field = &n
		}
	}
	ifMatch, ifNoneMatch := resource.ETag(s.headers["if-match"]), resource.ETag(s.headers["if-none-match"])
	database := engine.DatabaseRequest{Link: s.link, Body: body, Throughput: given, IfMatch: ifMatch, IfNoneMatch: ifNoneMatch}
	container := engine.ContainerRequest{
		Link: s.link, Body: body, Throughput: given, IfMatch: ifMatch, IfNoneMatch: ifNoneMatch,
		Partitions: s.number("partitions"), Usage: s.headers["usage"] == "true",
	}
	offer := engine.OfferRequest{
		Offer: s.headers["offer"], Body: body, IfMatch: ifMatch, IfNoneMatch: ifNoneMatch,
		MigrateToAutoscale: s.headers["migrate"] == "autoscale", MigrateToManual: s.headers["migrate"] == "manual",
	}
	calls := map[string]func() (engine.Resource, error){
		"create-database":   func() (engine.Resource, error) { return s.CreateDatabase(ctx, caller, database) },
		"read-database":     func() (engine.Resource, error) { return s.ReadDatabase(ctx, caller, database) },
		"delete-database":   func() (engine.Resource, error) { return s.DeleteDatabase(ctx, caller, database) },
		"create-container":  func() (engine.Resource, error) { return s.CreateContainer(ctx, caller, container) },
		"read-container":    func() (engine.Resource, error) { return s.ReadContainer(ctx, caller, container) },
		"replace-container": func() (engine.Resource, error) { return s.ReplaceContainer(ctx, caller, container) },
		"delete-container":  func() (engine.Resource, error) { return s.DeleteContainer(ctx, caller, container) },
		"read-offer":        func() (engine.Resource, error) { return s.ReadOffer(ctx, caller, offer) },
		"replace-offer":     func() (engine.Resource, error) { return s.ReplaceOffer(ctx, caller, offer) },
	}
	call, known := calls[d.Cmd]
	if !known {
		t.Fatalf("unknown command %s", d.Cmd)
	}
	r, err := call()
	s.etag = r.ETag
	var b strings.Builder
	switch {
	case d.HasArg("member"): // one member of the definition
		var name string
		d.ScanArgs(t, "member", &name)
		b.WriteString(parse(t, string(r.Body)).Get(name).JSON() + "\n")
	case r.Body != nil && !d.HasArg("quiet"):
		b.WriteString(s.plain(t, d, r.Body) + "\n")
	}
	if r.Usage != nil {
		fmt.Fprintf(&b, "%d documents of %d bytes\n", r.Usage.Documents, r.Usage.DocumentBytes)
	}
	if r.MinThroughput != 0 {
		fmt.Fprintf(&b, "minimum %d\n", r.MinThroughput)
	}
	b.WriteString(s.result(d, r.Result))
	if b.Len() == 0 && err == nil {
		return "ok", nil
	}
	return b.String(), err
}

// ownerText returns the names of an owner, the database first.
func ownerText(o engine.Owner) string {
	return strings.TrimRight(o.Database+"/"+o.Container+o.User, "/")
}
