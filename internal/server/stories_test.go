package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestStories runs stories of growing containers as text: the approaches of S106
// to S112 for a first level with few values, levels for tenants (S7, S9, S10,
// S11, S17, S19, S28), divided and merged throughput, an autoscale maximum that
// follows the data, and limits of a container's own. The limits are scaled down:
// 1,000 RU/s and 256 KB for a physical partition, 64 KB for a full key.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		t.Parallel()
		s := start(t, Config{
			Partitions: PartitionOptions{Preset: "laptop", LogicalMax: 64 << 10, PhysicalMax: 256 << 10},
			Protocol:   ProtocolOptions{CrossPartition: "full"},
		})
		if r := call(t, s, http.MethodPost, "dbs", `{"id":"d"}`); r.Status != http.StatusCreated {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		story := story{s}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return story.step(t, d)
		})
	})
}

// story is a server with text commands. The first argument of each step names a
// container of database d, or with its database, as in shared/c; shared/ is the
// database itself.
type story struct{ server *Server }

// named returns the resource that the first argument of a step names.
func named(argument string) (database, container string) {
	if database, container, found := strings.Cut(argument, "/"); found {
		return database, container
	}
	return "d", argument
}

// collection is the path of a container on the data port.
func collection(argument string) string {
	database, container := named(argument)
	return "dbs/" + database + "/colls/" + container
}

// managed is the path of a database or container in the management API.
func managed(argument string) string {
	database, container := named(argument)
	if container == "" {
		return "sqlDatabases/" + database
	}
	return "sqlDatabases/" + database + "/containers/" + container
}

// scope is the query of an admin path for a container.
func scope(argument string) string {
	database, container := named(argument)
	return "?" + url.Values{"database": {database}, "container": {container}}.Encode()
}

func (s story) step(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	container := d.CmdArgs[0].Key
	number := func(name string, otherwise int) int {
		n := otherwise
		d.MaybeScanArgs(t, name, &n)
		return n
	}
	switch d.Cmd {
	case "create":
		var paths string
		d.ScanArgs(t, "paths", &paths)
		return s.create(t, container, strings.Split(paths, ";"), number("rus", 400), number("max", 0), d.HasArg("shares"))
	case "database":
		r := call(t, s.server, http.MethodPost, "dbs", fmt.Sprintf(`{"id":%q}`, container), offered(number("rus", 400), number("max", 0))...)
		return strconv.Itoa(r.Status)
	case "offer":
		if most := number("reaches", 0); most > 0 {
			return s.offer(t, container, fmt.Sprintf(`"maxThroughput":%d`, most))
		}
		return s.offer(t, container, "")
	case "divide":
		return s.divide(t, container, d.Input)
	case "shares":
		return s.shares(t, container)
	case "merge":
		return s.merge(t, container, d.HasArg("dry"))
	case "largest":
		return s.largest(t, container)
	case "load":
		return s.load(t, container, number("tenants", 1), number("users", 1), number("sessions", 1), number("bytes", 500))
	case "throughput":
		return s.throughput(t, container, number("rus", 0), number("max", 0), d.HasArg("autoscale"))
	case "spread":
		return s.spread(t, container)
	case "settle":
		return s.settle(t, container)
	case "query":
		return s.query(t, container, d.Input)
	case "copy":
		return s.copy(t, container, d.CmdArgs[1].Key)
	case "limits":
		return s.limits(t, container, d.Input)
	}
	d.Fatalf(t, "no step %q", d.Cmd)
	return ""
}

// offered are the headers that provision throughput at creation: manual, or autoscale
// with a maximum.
func offered(rus, most int) []string {
	if most > 0 {
		return []string{"x-ms-cosmos-offer-autopilot-settings", fmt.Sprintf(`{"maxThroughput":%d}`, most)}
	}
	return []string{"x-ms-offer-throughput", strconv.Itoa(rus)}
}

func (s story) create(t *testing.T, container string, paths []string, rus, most int, shares bool) string {
	t.Helper()
	database, name := named(container)
	headers := offered(rus, most)
	if shares {
		headers = nil
	}
	kind := "Hash"
	if len(paths) > 1 {
		kind = "MultiHash"
	}
	list, err := json.Marshal(paths)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":%s,"kind":%q,"version":2}}`, name, list, kind)
	r := call(t, s.server, http.MethodPost, "dbs/"+database+"/colls", body, headers...)
	if r.Status != http.StatusCreated {
		return fmt.Sprintf("%d %s", r.Status, r.Body)
	}
	return counted(len(s.partitions(t, container).Partitions))
}

func counted(n int) string {
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

// load writes a document for each session of each user of each tenant.
func (s story) load(t *testing.T, container string, tenants, users, sessions, bytes int) string {
	t.Helper()
	written, refused := 0, map[string]int{}
	for tenant := range tenants {
		for user := range users {
			for session := range sessions {
				body := fmt.Sprintf(`{"id":"%d-%d-%d","tenant":"t%d","user":"u%d","session":"s%d","text":%q}`,
					tenant, user, session, tenant, user, session, strings.Repeat("x", bytes))
				r := s.put(t, container, body)
				if r == "" {
					written++
				} else {
					refused[r]++
				}
			}
		}
	}
	text := fmt.Sprintf("%d written", written)
	for reason, n := range refused {
		text += fmt.Sprintf(", %d refused with %s", n, reason)
	}
	return text
}

// put stores a document and returns the refusal, if it was refused.
func (s story) put(t *testing.T, container, body string) string {
	t.Helper()
	r := call(t, s.server, http.MethodPost, collection(container)+"/docs", body, "x-ms-documentdb-is-upsert", "True")
	if r.Status == http.StatusCreated || r.Status == http.StatusOK {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Status, r.Header.Get("x-ms-substatus"))
}

// throughput sets the offer of a container and waits until it is in effect.
func (s story) throughput(t *testing.T, container string, rus, most int, autoscale bool) string {
	t.Helper()
	path := managed(container) + "/throughputSettings/default"
	var code int
	var answer string
	switch {
	case autoscale:
		code, answer = s.admin(t, http.MethodPost, path+"/migrateToAutoscale", "")
	case most > 0:
		code, answer = s.admin(t, http.MethodPut, path, fmt.Sprintf(`{"properties":{"resource":{"autoscaleSettings":{"maxThroughput":%d}}}}`, most))
	default:
		code, answer = s.admin(t, http.MethodPut, path, fmt.Sprintf(`{"properties":{"resource":{"throughput":%d}}}`, rus))
	}
	if code != http.StatusOK {
		return fmt.Sprintf("%d %s", code, answer)
	}
	s.offer(t, container, inForce)
	if _, name := named(container); name == "" {
		return "ok"
	}
	return counted(len(s.partitions(t, container).Partitions))
}

// inForce is part of the answer about a throughput that waits for no splits.
const inForce = `"offerReplacePending":"false"`

// offer returns the throughput of a database or container, once the answer
// contains a text.
func (s story) offer(t *testing.T, container, awaited string) string {
	t.Helper()
	var settings struct {
		Properties struct {
			Resource struct {
				Throughput int    `json:"throughput"`
				Minimum    string `json:"minimumThroughput"`
				Pending    string `json:"offerReplacePending"`
				Autoscale  *struct {
					Max int `json:"maxThroughput"`
				} `json:"autoscaleSettings"`
			} `json:"resource"`
		} `json:"properties"`
	}
	waitFor(t, awaited, func() bool {
		code, answer := s.admin(t, http.MethodGet, managed(container)+"/throughputSettings/default", "")
		if err := json.Unmarshal([]byte(answer), &settings); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		return strings.Contains(answer, awaited)
	})
	r := settings.Properties.Resource
	what := fmt.Sprintf("%d RU/s", r.Throughput)
	if r.Autoscale != nil {
		what = fmt.Sprintf("up to %d RU/s", r.Autoscale.Max)
	}
	return fmt.Sprintf("%s, at least %s, pending %s", what, r.Minimum, r.Pending)
}

// divide sets manual shares of partitions: lines with a position in the order of
// ranges and RU/s. It returns the shares once they are in effect.
func (s story) divide(t *testing.T, container, input string) string {
	t.Helper()
	partitions := s.partitions(t, container).Partitions
	var targets []string
	for line := range strings.SplitSeq(input, "\n") {
		var at, rus int
		if _, err := fmt.Sscanf(line, "%d=%d", &at, &rus); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		targets = append(targets, fmt.Sprintf(`{"id":%q,"throughput":%d}`, partitions[at].ID, rus))
	}
	body := fmt.Sprintf(`{"properties":{"resource":{"throughputPolicy":"custom","targetPhysicalPartitionThroughputInfo":[%s]}}}`, strings.Join(targets, ","))
	code, answer := s.admin(t, http.MethodPost, managed(container)+"/throughputSettings/default/redistributeThroughput", body)
	if code != http.StatusOK {
		return fmt.Sprintf("%d %s", code, answer)
	}
	return s.shares(t, container)
}

// shares returns the share of each partition, in range order, and the sum.
func (s story) shares(t *testing.T, container string) string {
	t.Helper()
	s.offer(t, container, inForce)
	var each []string
	sum := 0.0
	for _, p := range s.partitions(t, container).Partitions {
		each = append(each, strconv.FormatFloat(p.Share, 'f', -1, 64))
		sum += p.Share
	}
	return fmt.Sprintf("%s: %.0f RU/s", strings.Join(each, " "), sum)
}

// merge merges a container, or all that share the throughput of a database, and
// returns how many partitions remain.
func (s story) merge(t *testing.T, container string, dry bool) string {
	t.Helper()
	code, answer := s.admin(t, http.MethodPost, managed(container)+"/partitionMerge", fmt.Sprintf(`{"isDryRun":%t}`, dry))
	var left layout
	if err := json.Unmarshal([]byte(answer), &left); err != nil || code != http.StatusOK {
		return fmt.Sprintf("%d %s", code, answer)
	}
	empty := 0
	for _, p := range left.Partitions {
		if p.Storage == 0 {
			empty++
		}
	}
	return fmt.Sprintf("%s, %d of them empty", counted(len(left.Partitions)), empty)
}

// largest returns how much of the limit the largest full partition key uses, and the
// number of keys.
func (s story) largest(t *testing.T, container string) string {
	t.Helper()
	definition := call(t, s.server, http.MethodGet, collection(container), "")
	var c struct {
		PartitionKey struct{ Paths []string }
	}
	if err := json.Unmarshal(definition.Body, &c); err != nil {
		t.Fatal(err)
	}
	code, answer := s.admin(t, http.MethodGet, "limits"+scope(container), "")
	var limits struct {
		Limits struct{ LogicalPartitionBytes int64 }
	}
	if err := json.Unmarshal([]byte(answer), &limits); err != nil || code != http.StatusOK {
		t.Fatalf("limits: %d %s", code, answer)
	}
	rows, _ := s.rows(t, container, storyDocuments)
	bytes, most := map[string]int64{}, int64(0)
	for _, row := range rows {
		var document map[string]string
		if err := json.Unmarshal(row, &document); err != nil {
			t.Fatal(err)
		}
		key := ""
		for _, path := range c.PartitionKey.Paths {
			key += path + document[strings.TrimPrefix(path, "/")]
		}
		bytes[key] += int64(len(row))
		most = max(most, bytes[key])
	}
	return fmt.Sprintf("%d keys, the largest holds %.0f %% of what one may hold", len(bytes), 100*float64(most)/float64(limits.Limits.LogicalPartitionBytes))
}

// storyDocuments selects documents as they were written.
const storyDocuments = "SELECT c.id, c.tenant, c.user, c.session, c.text FROM c"

// storyPartitions is the admin port's answer about a container's partitions.
type storyPartitions struct {
	Limits struct {
		Bytes int64 `json:"partitionBytes"`
	} `json:"limits"`
	Partitions []struct {
		ID        string  `json:"id"`
		Documents int64   `json:"documents"`
		Bytes     int64   `json:"documentBytes"`
		Share     float64 `json:"share"`
	} `json:"partitions"`
}

func (s story) partitions(t *testing.T, container string) (p storyPartitions) {
	t.Helper()
	code, answer := s.admin(t, http.MethodGet, "partitions"+scope(container), "")
	if code != http.StatusOK {
		t.Fatalf("partitions: %d %s", code, answer)
	}
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// spread returns how many documents each partition has, in range order, and the ratio
// of the fullest to the mean.
func (s story) spread(t *testing.T, container string) string {
	t.Helper()
	var each []string
	var all, most int64
	p := s.partitions(t, container).Partitions
	for _, x := range p {
		each = append(each, fmt.Sprint(x.Documents))
		all, most = all+x.Documents, max(most, x.Documents)
	}
	return fmt.Sprintf("%s\nthe fullest has %.1f times the mean", strings.Join(each, " "), float64(most)*float64(len(p))/float64(all))
}

// settle waits until no partition is above the storage limit. The number of
// partitions then depends on when they were split.
func (s story) settle(t *testing.T, container string) string {
	t.Helper()
	several := false
	waitFor(t, "splits", func() bool {
		p := s.partitions(t, container)
		several = len(p.Partitions) > 1
		for _, x := range p.Partitions {
			if x.Bytes > p.Limits.Bytes {
				return false
			}
		}
		return true
	})
	if several {
		return "several partitions, none above its limit"
	}
	return "one partition, not above its limit"
}

// query pages through a query and returns its result and the number of partitions
// that it has visited.
func (s story) query(t *testing.T, container, text string) string {
	t.Helper()
	rows, visited := s.rows(t, container, text)
	return fmt.Sprintf("%d documents from %d of %s", len(rows), visited, counted(len(s.partitions(t, container).Partitions)))
}

func (s story) rows(t *testing.T, container, text string) (rows []json.RawMessage, visited int) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": text})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for continuation := ""; ; {
		headers := []string{"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True"}
		if continuation != "" {
			headers = append(headers, "x-ms-continuation", continuation)
		}
		r := call(t, s.server, http.MethodPost, collection(container)+"/docs", string(body), headers...)
		if r.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", text, r.Status, r.Body)
		}
		var page struct{ Documents []json.RawMessage }
		if err := json.Unmarshal(r.Body, &page); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.Documents...)
		for id := range strings.SplitSeq(r.Header.Get("x-decan-partitions"), ",") {
			seen[id] = true
		}
		if continuation = r.Header.Get("x-ms-continuation"); continuation == "" {
			return rows, len(seen)
		}
	}
}

// copy writes all documents of a container into another one.
func (s story) copy(t *testing.T, from, to string) string {
	t.Helper()
	rows, _ := s.rows(t, from, storyDocuments)
	copied := 0
	for _, row := range rows {
		if refused := s.put(t, to, string(row)); refused == "" {
			copied++
		}
	}
	return fmt.Sprintf("%d of %d documents copied", copied, len(rows))
}

// limits changes the limits of a container, or shows them if it has no input.
func (s story) limits(t *testing.T, container, change string) string {
	t.Helper()
	method := http.MethodGet
	if change != "" {
		method = http.MethodPut
	}
	code, answer := s.admin(t, method, "limits"+scope(container), change)
	return fmt.Sprintf("%d %s", code, answer)
}

func (s story) admin(t *testing.T, method, path, body string) (code int, answer string) {
	t.Helper()
	return callAdmin(t, s.server, method, path, body)
}
