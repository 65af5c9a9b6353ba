package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestStories tells, as text, what becomes of containers that grow: the approaches
// of S106 to S110 for a first level of few values, what more levels do for a
// tenant (S17, S19, S28), and limits of a container's own. The limits are scaled
// down: 1,000 RU/s and 256 KB for a physical partition, 64 KB for a full key.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := start(t, Config{
			LimitsPreset: "laptop", LogicalPartitionMax: 64 << 10, PhysicalPartitionMax: 256 << 10,
			CrossPartition: "full",
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

// story is a server that a text speaks to. Containers are those of database d;
// the first argument of each step names one.
type story struct{ server *Server }

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
		return s.create(t, container, strings.Split(paths, ";"), number("rus", 400))
	case "load":
		return s.load(t, container, number("tenants", 1), number("users", 1), number("sessions", 1), number("bytes", 500))
	case "throughput":
		return s.throughput(t, container, number("rus", 0))
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

func (s story) create(t *testing.T, container string, paths []string, rus int) string {
	t.Helper()
	kind := "Hash"
	if len(paths) > 1 {
		kind = "MultiHash"
	}
	list, err := json.Marshal(paths)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":%s,"kind":%q,"version":2}}`, container, list, kind)
	r := call(t, s.server, http.MethodPost, "dbs/d/colls", body, "x-ms-offer-throughput", strconv.Itoa(rus))
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
	r := call(t, s.server, http.MethodPost, "dbs/d/colls/"+container+"/docs", body, "x-ms-documentdb-is-upsert", "True")
	if r.Status == http.StatusCreated || r.Status == http.StatusOK {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Status, r.Header.Get("x-ms-substatus"))
}

// throughput sets the offer of a container and waits until it is in force.
func (s story) throughput(t *testing.T, container string, rus int) string {
	t.Helper()
	path := "sqlDatabases/d/containers/" + container + "/throughputSettings/default"
	code, answer := s.admin(t, http.MethodPut, path, fmt.Sprintf(`{"properties":{"resource":{"throughput":%d}}}`, rus))
	if code != http.StatusOK {
		return fmt.Sprintf("%d %s", code, answer)
	}
	waitFor(t, "the offer", func() bool {
		_, answer := s.admin(t, http.MethodGet, path, "")
		return strings.Contains(answer, `"offerReplacePending":"false"`)
	})
	return counted(len(s.partitions(t, container).Partitions))
}

// storyPartitions is what the admin port says of a container's partitions.
type storyPartitions struct {
	Limits struct {
		Bytes int64 `json:"partitionBytes"`
	} `json:"limits"`
	Partitions []struct {
		Documents int64 `json:"documents"`
		Bytes     int64 `json:"documentBytes"`
	} `json:"partitions"`
}

func (s story) partitions(t *testing.T, container string) (p storyPartitions) {
	t.Helper()
	code, answer := s.admin(t, http.MethodGet, "partitions?database=d&container="+container, "")
	if code != http.StatusOK {
		t.Fatalf("partitions: %d %s", code, answer)
	}
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// spread says how many documents each partition has, in range order, and how far
// the fullest is above the mean.
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

// settle waits until no partition is above the storage limit. How many there are
// then depends on when they were split.
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

// query pages through a query and says what it returned and how many partitions
// it has visited.
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
		r := call(t, s.server, http.MethodPost, "dbs/d/colls/"+container+"/docs", string(body), headers...)
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
	rows, _ := s.rows(t, from, "SELECT c.id, c.tenant, c.user, c.session, c.text FROM c")
	copied := 0
	for _, row := range rows {
		if refused := s.put(t, to, string(row)); refused == "" {
			copied++
		}
	}
	return fmt.Sprintf("%d of %d documents copied", copied, len(rows))
}

// limits changes the limits of a container, or shows them without an input.
func (s story) limits(t *testing.T, container, change string) string {
	t.Helper()
	method := http.MethodGet
	if change != "" {
		method = http.MethodPut
	}
	code, answer := s.admin(t, method, "limits?"+url.Values{"database": {"d"}, "container": {container}}.Encode(), change)
	return fmt.Sprintf("%d %s", code, answer)
}

func (s story) admin(t *testing.T, method, path, body string) (code int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.server.AdminEndpoint()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-decan-key", s.server.Key())
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
