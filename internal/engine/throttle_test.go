package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestThrottling runs the stories of testdata/throttle: budgets with a clock that
// the story sets.
//
//	world [enforcement=on|warn|off] [burst] [serverless] [laptop] [strong] [splits] [metadata=] [changes=]
//	    a fresh server; splits lets it be asked for more partitions, which never come
//	database id= [manual=] [max=]
//	container id= [db=] [manual=] [max=] [partitions=] [paths=(/a,/b)] [cut=tenant] [indexed]
//	    cut makes two partitions that meet inside a tenant
//	merge [id=] [db=] [dry]   all partitions of a container, or of those that share the database's throughput
//	split id= [db=] partition=        a partition in two
//	query id= [db=] [key=] [items=]   all pages of the query in the input, with the partitions that they ask
//	visited, throttled id= [db=]      how many partitions queries have asked on average; what each has throttled
//	check                             every stored invariant
//	limits id= [db=] rus= container=   what a partition of a container, and the container, can be given
//	offer id= [db=] [at=]  the input is an offer, equal, or lines: target|source id[=RU/s]; nothing reads it; at seconds
//	load                   lines: <seconds> <verb> <container> <arguments>
//	    create <n> <key> [low] [bucket=N]  documents of one key until one is refused; @2 is some key
//	                                       of partition 2, Contoso@2 some key of that tenant there
//	    read, query                        the same with point reads of the first, and COUNT over the key
//	    partitions                         what the partitions have spent
//	    hot                                which keys spend most
//	    ask <what> <n>                     the definitions of a container, until one is refused
func TestThrottling(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/throttle", func(t *testing.T, file string) {
		t.Parallel()
		s := &throttleStory{}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

type throttleStory struct {
	t     *testing.T
	w     *world
	clock clock
	next  int
	first map[string]string // id of the first document of a key
	asked []string
}

func (s *throttleStory) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	if look, known := s.looks()[d.Cmd]; known {
		return look(d)
	}
	switch d.Cmd {
	case "world":
		return s.world(d)
	case "database":
		res, err := s.w.CreateDatabase(t.Context(), caller, engine.DatabaseRequest{
			Body: parse(t, `{"id":"`+text(d, "id")+`"}`), Throughput: asked(t, d),
		})
		return outcome(res.Body != nil, err)
	case "container":
		return s.container(d)
	case "offer":
		return s.offer(d)
	case "limits":
		return s.limits(d)
	case "merge":
		return s.merge(d)
	case "split":
		return s.split(d)
	case "load":
		var b strings.Builder
		for line := range strings.SplitSeq(d.Input, "\n") {
			fmt.Fprintf(&b, "%s -> %s\n", line, s.line(strings.Fields(line)))
		}
		return b.String()
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func text(d *datadriven.TestData, name string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == name {
			return strings.Join(arg.Vals, ",")
		}
	}
	return ""
}

func asked(t *testing.T, d *datadriven.TestData) engine.ThroughputRequest {
	t.Helper()
	number := func(name string) *int {
		if !d.HasArg(name) {
			return nil
		}
		var n int
		d.ScanArgs(t, name, &n)
		return &n
	}
	return engine.ThroughputRequest{Manual: number("manual"), AutoscaleMax: number("max")}
}

func outcome(done bool, err error) string {
	if err != nil {
		return throttled(err)
	}
	return fmt.Sprintf("done %v", done)
}

func throttled(err error) string {
	e := status.From(err)
	if e == nil {
		return err.Error()
	}
	if e.Code == status.CodeTooManyRequests {
		return fmt.Sprintf("429/%d, wait %v", e.Sub, e.RetryAfter)
	}
	return e.Error()
}

func (s *throttleStory) world(d *datadriven.TestData) string {
	s.clock.set(time.Unix(1_700_002_800, 0))
	s.first = map[string]string{}
	s.w = newWorld(s.t, func(c *engine.Config) {
		c.Now = s.clock.now
		c.Serverless = d.HasArg("serverless")
		if d.HasArg("strong") {
			c.Account.Consistency = resource.Strong
		}
		if d.HasArg("laptop") {
			c.Limits = resource.LaptopLimits()
		}
		d.MaybeScanArgs(s.t, "metadata", &c.Limits.MetadataRUs)
		d.MaybeScanArgs(s.t, "changes", &c.Limits.ThroughputChanges)
		c.MergeAll = func(context.Context, resource.RID, bool) ([]cluster.PartitionSize, error) { return nil, nil }
		if d.HasArg("splits") {
			c.Rebalance = func(container resource.RID) {
				c, _ := s.w.catalog.View().ContainerByRID(container)
				s.asked = append(s.asked, c.ID+" is rebalanced")
			}
		}
	})
	enforcement, err := cluster.ParseEnforcement(text(d, "enforcement"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.w.throttling = cluster.Throttling{Enforcement: enforcement, Burst: d.HasArg("burst"), Serverless: d.HasArg("serverless")}
	s.w.reopen(s.t)
	return "ok"
}

func database(d *datadriven.TestData) string {
	if name := text(d, "db"); name != "" {
		return name
	}
	return "d"
}

func (s *throttleStory) container(d *datadriven.TestData) string {
	paths := text(d, "paths")
	if paths == "" {
		paths = "/pk"
	}
	list := strings.Split(paths, ",")
	kind := "Hash"
	if len(list) > 1 {
		kind = "MultiHash"
	}
	partitions := 0
	d.MaybeScanArgs(s.t, "partitions", &partitions)
	if tenant := text(d, "cut"); tenant != "" {
		return s.cut(d, list, tenant)
	}
	policy := `,"indexingPolicy":{"indexingMode":"none","automatic":false}`
	if d.HasArg("indexed") {
		policy = ""
	}
	res, err := s.w.CreateContainer(s.t.Context(), caller, engine.ContainerRequest{
		Link: engine.Link{Database: database(d)},
		Body: parse(s.t, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["%s"],"kind":%q,"version":2}%s}`,
			text(d, "id"), strings.Join(list, `","`), kind, policy)),
		Throughput: asked(s.t, d),
		Partitions: partitions,
	})
	if err != nil {
		return outcome(res.Body != nil, err)
	}
	c, _ := s.w.catalog.View().Container(database(d), text(d, "id"))
	return fmt.Sprintf("%d partitions", c.Ranges.Len())
}

// cut creates a container of two partitions with a bound in the middle of a
// tenant's keys, as after a split.
func (s *throttleStory) cut(d *datadriven.TestData, paths []string, tenant string) string {
	owner, ok := s.w.catalog.View().Database(database(d))
	if !ok {
		s.t.Fatalf("no database %s", database(d))
	}
	container, err := resource.ParseContainer(parse(s.t, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["%s"],"kind":"MultiHash","version":2}}`, text(d, "id"), strings.Join(paths, `","`))))
	if err != nil {
		s.t.Fatal(err)
	}
	container.RID = s.w.catalog.ReserveContainer(owner.RID)
	prefix, err := container.PartitionKey.Prefix(partitionkey.NewKey(partitionkey.String(tenant)))
	if err != nil {
		s.t.Fatal(err)
	}
	middle := prefix.Min + "\x20" // second levels hash to bytes up to 3F
	change := catalog.CreateContainer{Container: container, Partitions: []resource.Partition{
		{ID: 0, Range: partitionkey.Range{Min: partitionkey.MinEPK, Max: middle}, Group: 1, Generation: 1},
		{ID: 1, Range: partitionkey.Range{Min: middle, Max: partitionkey.MaxEPK}, Group: 1, Generation: 1, Ordinal: 1},
	}}
	t, err := resource.DefaultLimits().NewThroughput(asked(s.t, d).Manual, nil, resource.Upgrade{})
	if err != nil {
		s.t.Fatal(err)
	}
	change.Throughput = &t
	if err := s.w.node.CreatePartitions(s.t.Context(), container, change.Partitions); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.w.catalog.Commit(s.t.Context(), change); err != nil {
		s.t.Fatal(err)
	}
	return "2 partitions"
}

// looks has the commands that change nothing.
func (s *throttleStory) looks() map[string]func(d *datadriven.TestData) string {
	return map[string]func(d *datadriven.TestData) string{
		"query":     s.query,
		"visited":   s.visited,
		"throttled": s.throttled,
		"check":     func(*datadriven.TestData) string { s.w.check(s.t); return "ok" },
	}
}

func linkOf(d *datadriven.TestData) engine.Link {
	return engine.Link{Database: database(d), Container: text(d, "id")}
}

func (s *throttleStory) split(d *datadriven.TestData) string {
	var id int
	d.ScanArgs(s.t, "partition", &id)
	result, err := s.w.SplitPartition(s.t.Context(), caller, engine.SplitRequest{Link: linkOf(d), Partition: resource.PartitionID(id)})
	if err != nil {
		return throttled(err)
	}
	return fmt.Sprintf("%s is %s and %s", result.Parent, result.Children[0].ID, result.Children[1].ID)
}

func (s *throttleStory) query(d *datadriven.TestData) string {
	req := engine.QueryRequest{Link: linkOf(d), Text: d.Input, Cross: true, Full: true, Key: key(s.t, text(d, "key"))}
	d.MaybeScanArgs(s.t, "items", &req.MaxItems)
	rows, pages := 0, [][]resource.PartitionID{}
	for {
		page, err := s.w.Query(s.t.Context(), caller, req)
		if err != nil {
			return throttled(err)
		}
		rows, pages = rows+len(page.Rows), append(pages, page.Partitions)
		if req.Continuation = page.Continuation; req.Continuation == "" {
			return fmt.Sprintf("%d rows, pages of partitions %v", rows, pages)
		}
	}
}

func (s *throttleStory) visited(d *datadriven.TestData) string {
	v, err := s.w.QueryVisits(caller, linkOf(d))
	if err != nil {
		return throttled(err)
	}
	return fmt.Sprintf("%d queries have asked %d partitions, %.2f each", v.Queries, v.Partitions, v.Mean())
}

func (s *throttleStory) throttled(d *datadriven.TestData) string {
	var b strings.Builder
	for _, p := range s.stats(linkOf(d)) {
		fmt.Fprintf(&b, "%s: %d of %s\n", p.Partition.ID, p.Load.Throttled, p.Partition.Range)
	}
	return b.String()
}

func (s *throttleStory) merge(d *datadriven.TestData) string {
	_, err := s.w.MergeAll(s.t.Context(), caller, linkOf(d), d.HasArg("dry"))
	return outcome(true, err)
}

func (s *throttleStory) limits(d *datadriven.TestData) string {
	_, err := s.w.ChangeLimits(s.t.Context(), caller, linkOf(d), func(own *resource.OwnLimits) error {
		d.MaybeScanArgs(s.t, "rus", &own.PartitionRUs)
		d.MaybeScanArgs(s.t, "container", &own.ContainerRUs)
		return nil
	})
	return outcome(true, err)
}

func (s *throttleStory) offer(d *datadriven.TestData) string {
	offer, err := s.w.OfferOf(linkOf(d))
	if err != nil {
		return throttled(err)
	}
	req := engine.OfferRequest{Offer: offer, PartitionRUs: true, MigrateToAutoscale: d.HasArg("autoscale"), MigrateToManual: d.HasArg("manual")}
	change := s.w.ReplaceOffer
	switch {
	case d.Input == "" && !req.MigrateToAutoscale && !req.MigrateToManual:
		change = s.w.ReadOffer
	case strings.HasPrefix(d.Input, "{"):
		req.Body = parse(s.t, d.Input)
	case d.Input != "":
		req.Redistribution = s.redistribution(d.Input)
	}
	if d.HasArg("at") {
		var at float64
		d.ScanArgs(s.t, "at", &at)
		s.at(at)
	}
	s.asked = nil
	res, err := change(s.t.Context(), caller, req)
	if err != nil {
		return throttled(err)
	}
	content := parse(s.t, string(res.Body)).Get("content")
	out := fmt.Sprintf("throughput %s", content.Get("offerThroughput"))
	if settings := content.Get("offerAutopilotSettings"); settings.IsDefined() {
		out += fmt.Sprintf(" of %s", settings.Get("maxThroughput"))
	}
	out += fmt.Sprintf(", at least %d, at once %d, at most %d, pending %v", res.MinThroughput, res.InstantThroughput, res.MaxThroughput, res.ReplacePending)
	for _, p := range content.Get("physicalPartitionThroughputInfo").Items() {
		out += fmt.Sprintf("\npartition %s has %s", s.partitionName(p.Get("id")), p.Get("throughput"))
	}
	return strings.Join(append([]string{out}, s.asked...), "\n")
}

func (s *throttleStory) redistribution(input string) *engine.Redistribution {
	var r engine.Redistribution
	for line := range strings.SplitSeq(input, "\n") {
		words := strings.Fields(line)
		if words[0] == "equal" {
			r.Equal = true
			continue
		}
		var share resource.Share
		id, rus, _ := strings.Cut(words[1], "=")
		if name, number, shared := strings.Cut(id, "/"); shared {
			c, ok := s.w.catalog.View().Container("d", name)
			if !ok {
				s.t.Fatalf("%q: no container %s", line, name)
			}
			share.Container, id = c.RID, number
		}
		n, err := strconv.Atoi(id)
		if err == nil && rus != "" {
			share.RUs, err = strconv.Atoi(rus)
		}
		if err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		share.ID = resource.PartitionID(n)
		if words[0] == "target" {
			r.Targets = append(r.Targets, share)
		} else {
			r.Sources = append(r.Sources, share)
		}
	}
	return &r
}

// partitionName returns the name of a physical partition, with that of its
// container if containers share a throughput.
func (s *throttleStory) partitionName(id value.Value) string {
	share, err := resource.ParseShareName(id)
	if err != nil {
		s.t.Fatal(err)
	}
	if share.Container == "" {
		return share.ID.String()
	}
	c, ok := s.w.catalog.View().ContainerByRID(share.Container)
	if !ok {
		s.t.Fatalf("no container has the partition %s", id)
	}
	return c.ID + "/" + share.ID.String()
}

// line carries out one line of load.
func (s *throttleStory) line(words []string) string {
	at, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		s.t.Fatal(err)
	}
	s.at(at)
	link := engine.Link{Database: "d", Container: words[2]}
	if db, name, found := strings.Cut(words[2], "/"); found {
		link = engine.Link{Database: db, Container: name}
	}
	switch words[1] {
	case "partitions":
		return s.partitions(link)
	case "hot":
		return s.hot(link)
	}
	if words[1] == "ask" {
		return s.ask(link, words[3], words[4])
	}
	n, err := strconv.Atoi(words[3])
	if err != nil {
		s.t.Fatal(err)
	}
	var opts engine.Options
	for _, word := range words[5:] {
		if bucket, found := strings.CutPrefix(word, "bucket="); found {
			number, err := strconv.Atoi(bucket)
			if err != nil {
				s.t.Fatal(err)
			}
			opts.Bucket = uint8(number)
		} else {
			opts.LowPriority = opts.LowPriority || word == "low"
			if strings.HasPrefix(word, "level=") {
				opts.Consistency = word[len("level="):]
			}
		}
	}
	return s.repeat(n, func() (engine.Result, error) { return s.request(words[1], link, words[4], opts) })
}

// at sets the clock to seconds since the story began.
func (s *throttleStory) at(seconds float64) {
	s.clock.set(time.Unix(1_700_002_800, 0).Add(time.Duration(seconds * float64(time.Second))))
}

// ask sends requests for the definition of a container until one is refused.
func (s *throttleStory) ask(link engine.Link, what, times string) string {
	ctx := context.Background()
	of := engine.ContainerRequest{Link: link}
	list := engine.QueryRequest{Link: engine.Link{Database: link.Database}}
	requests := map[string]func() (engine.Result, error){
		"container": func() (engine.Result, error) { out, err := s.w.ReadContainer(ctx, caller, of); return out.Result, err },
		"database": func() (engine.Result, error) {
			out, err := s.w.ReadDatabase(ctx, caller, engine.DatabaseRequest{Link: list.Link})
			return out.Result, err
		},
		"ranges": func() (engine.Result, error) { out, err := s.w.Ranges(ctx, caller, of); return out.Result, err },
		"containers": func() (engine.Result, error) {
			out, err := s.w.ListContainers(ctx, caller, list)
			return out.Result, err
		},
		"offers": func() (engine.Result, error) {
			out, err := s.w.ListOffers(ctx, caller, engine.QueryRequest{})
			return out.Result, err
		},
		"users": func() (engine.Result, error) { out, err := s.w.ListUsers(ctx, caller, list); return out.Result, err },
		"new": func() (engine.Result, error) {
			s.next++
			body := parse(s.t, fmt.Sprintf(`{"id":"new%d","partitionKey":{"paths":["/pk"]}}`, s.next))
			out, err := s.w.CreateContainer(ctx, caller, engine.ContainerRequest{Link: list.Link, Body: body})
			return out.Result, err
		},
	}
	n, err := strconv.Atoi(times)
	if err != nil || requests[what] == nil {
		s.t.Fatalf("ask %s %s: %v", what, times, err)
	}
	return s.repeat(n, requests[what])
}

// repeat sends requests until one is refused.
func (s *throttleStory) repeat(n int, request func() (engine.Result, error)) string {
	charge := 0.0
	for i := range n {
		result, err := request()
		charge += result.Charge
		if err != nil {
			return fmt.Sprintf("%d done for %.2f RU, then %s for %.2f RU", i, charge-result.Charge, throttled(err), result.Charge)
		}
	}
	return fmt.Sprintf("%d done for %.2f RU", n, charge)
}

func (s *throttleStory) request(verb string, link engine.Link, word string, opts engine.Options) (engine.Result, error) {
	ctx := context.Background()
	c, ok := s.w.catalog.View().Container(link.Database, link.Container)
	if !ok {
		s.t.Fatalf("no container %v", link)
	}
	values := s.keyOf(c, word)
	k := key(s.t, `["`+strings.Join(values, `","`)+`"]`)
	switch verb {
	case "create":
		s.next++
		doc := fmt.Sprintf(`{"id":"%d"`, s.next)
		for i, v := range values {
			doc += fmt.Sprintf(`,%q:%q`, strings.TrimPrefix(c.PartitionKey.Paths[i], "/"), v)
		}
		if s.first[word] == "" {
			s.first[word] = strconv.Itoa(s.next)
		}
		out, err := s.w.Create(ctx, caller, engine.DocumentRequest{Link: link, Document: parse(s.t, doc+"}"), Options: opts})
		return out.Result, err
	case "read":
		link.Document = s.first[word]
		out, err := s.w.Read(ctx, caller, engine.DocumentRequest{Link: link, Key: k, Options: opts})
		return out.Result, err
	case "query":
		out, err := s.w.Query(ctx, caller, engine.QueryRequest{Link: link, Text: "SELECT VALUE COUNT(1) FROM c", Key: k, Options: opts})
		return out.Result, err
	}
	s.t.Fatalf("unknown verb %s", verb)
	return engine.Result{}, nil
}

// keyOf returns the values of a key, such as a/b; @2 is a key in partition 2,
// and a@2 a key there that begins with a.
func (s *throttleStory) keyOf(c *catalog.Container, word string) []string {
	prefix, id, some := strings.Cut(word, "@")
	if !some {
		return strings.Split(word, "/")
	}
	for i := range 10_000 {
		values := []string{"k" + strconv.Itoa(i)}
		if prefix != "" {
			values = append([]string{prefix}, values...)
		}
		var components []partitionkey.Component
		for _, v := range values {
			components = append(components, partitionkey.String(v))
		}
		if c.Ranges.Locate(c.PartitionKey.Hash(partitionkey.NewKey(components...))).Value.ID.String() == id {
			return values
		}
	}
	s.t.Fatalf("no key in partition %s", id)
	return nil
}

func (s *throttleStory) stats(link engine.Link) []engine.PartitionStats {
	all, err := s.w.PartitionStats(s.t.Context(), caller, link)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func (s *throttleStory) partitions(link engine.Link) string {
	var b strings.Builder
	for _, p := range s.stats(link) {
		l := p.Load
		fmt.Fprintf(&b, "\n   %s: share %.2f, normalized %.1f%%, spent %.2f, throttled %d, capped %d", p.Partition.ID, l.Rate, l.Normalized, l.Total, l.Throttled, l.Capped)
		if l.Billed > 0 {
			fmt.Fprintf(&b, ", autoscaled %d, billed %d", l.Autoscaled, l.Billed)
		}
	}
	return b.String()
}

func (s *throttleStory) hot(link engine.Link) string {
	var b strings.Builder
	for _, p := range s.stats(link) {
		for _, list := range []struct {
			name string
			keys []cluster.HotKey
		}{{"key", p.Load.Keys}, {"prefix", p.Load.Prefixes}} {
			for _, hot := range list.keys {
				fmt.Fprintf(&b, "\n   %s: %s %s spent %.2f", p.Partition.ID, list.name, hot.Key, hot.Units)
			}
		}
	}
	return b.String()
}
