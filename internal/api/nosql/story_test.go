package nosql_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
)

// TestStories runs every file of testdata against a server of its own.
//
// The command http is a request in its raw form, to which the test adds date
// and signature unless the request has its own. The answer shows placeholders for
// volatile values. Its arguments:
//
//	show=(a,b)   headers to show in addition to the usual ones
//	save=name    keep the answer's values as $name.etag and so on
//	unsigned     add neither date nor signature
//	as=GET       sign as if the method were this one
//	raw          show the body as it is
//
// $etag, $continuation, $session, $rid, $self, $token and $activity stand for
// values of the last answer. The command server restarts with other settings, and split
// splits a partition of a container.
func TestStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := &story{values: map[string]string{}}
			s.start(t, settings{})
			datadriven.RunTest(t, file, s.run)
		})
	}
}

// story is one conversation with a server.
type story struct {
	world   *world
	address string
	stop    func()
	values  map[string]string // values of $name

	direct     bool // requests that direct mode has are made in its form
	door       *direct
	translated bool // the last one was
	frames     int  // how many were
}

func (s *story) start(t *testing.T, set settings) {
	t.Helper()
	if s.stop != nil {
		s.stop()
	}
	w := newWorld(t, set)
	s.world = w
	server := httptest.NewServer(w.handler)
	s.address = server.Listener.Addr().String()
	s.stop = func() { server.Close(); w.close() }
	if s.direct {
		s.door = openDirect(t, w)
	}
	t.Cleanup(s.stop)
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "http":
		return s.http(t, d)
	case "server":
		var set settings
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "full":
				set.full = true
			case "disable-local-auth":
				set.bearerOnly = true
			case "prefix-permissions":
				set.prefixes = true
			case "prefix-deletes":
				set.deletes = true
			case "several-triggers":
				set.Switches.SeveralTriggers = true
			case "script-time":
				var err error
				if set.scriptTime, err = time.ParseDuration(arg.Vals[0]); err != nil {
					d.Fatalf(t, "%v", err)
				}
			case "strict-ids":
				set.Switches.StrictItemIDs = true
			case "trust-proxy":
				set.Switches.TrustForwardedProto = true
			case "direct":
				set.Direct = 10251
			case "endpoint":
				set.Endpoint = arg.Vals[0]
			case "consistency":
				set.consistency = arg.Vals[0]
			default:
				d.Fatalf(t, "unknown setting %s", arg.Key)
			}
		}
		s.start(t, set)
		return ""
	case "split":
		var database, container string
		var id int
		d.ScanArgs(t, "database", &database)
		d.ScanArgs(t, "container", &container)
		d.ScanArgs(t, "partition", &id)
		result, err := s.world.engine.SplitPartition(context.Background(), auth.Owner(), engine.SplitRequest{
			Link: engine.Link{Database: database, Container: container}, Partition: resource.PartitionID(id),
		})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("into %s and %s", result.Children[0].ID, result.Children[1].ID)
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

// shown are the headers shown for every answer.
var shown = []string{
	"x-ms-substatus", "x-ms-item-count", "x-ms-continuation", "x-ms-documentdb-partitionkeyrangeid",
	"x-decan-partitions", "x-ms-session-token", "allow", "preference-applied",
}

func (s *story) http(t *testing.T, d *datadriven.TestData) string {
	method, target, header, body := s.request(t, d.Input)
	signed := method
	show := slices.Clone(shown)
	save, raw, unsigned := "", false, false
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "show":
			show = append(show, arg.Vals...)
		case "save":
			save = arg.Vals[0] + "."
		case "as":
			signed = arg.Vals[0]
		case "raw":
			raw = true
		case "unsigned":
			unsigned = true
		default:
			d.Fatalf(t, "unknown argument %s", arg.Key)
		}
	}
	if !unsigned && header.Get("authorization") == "" {
		if header.Get("x-ms-date") == "" {
			header.Set("x-ms-date", now().UTC().Format(http.TimeFormat))
		}
		kind, link := nosql.Signed(target)
		header.Set("authorization", auth.Sign(testKey, signed, kind, link, header.Get("x-ms-date")))
	}
	var answer *http.Response
	var content []byte
	s.translated = false
	if s.direct && !unsigned && signed == method {
		if f := s.door.frameOf(method, target, header, body); f != nil {
			s.translated = true
			s.frames++
			answer, content = response(s.door.do(t, f))
		}
	}
	if answer == nil {
		answer, content = s.exchange(t, method, target, header, body)
	}
	s.remember(save, answer, content)

	var out strings.Builder
	fmt.Fprintln(&out, answer.StatusCode)
	for _, name := range show {
		if text := answer.Header.Get(name); text != "" {
			if name == "x-ms-continuation" {
				text = "<continuation>"
			}
			fmt.Fprintf(&out, "%s: %s\n", name, hide(text))
		}
	}
	if len(content) > 0 {
		text := string(content)
		if !raw {
			text = hide(text)
		}
		fmt.Fprintln(&out, text)
	}
	return out.String()
}

// request reads the input of the command: the request line, headers, and after
// an empty line the body. Lines of the body are joined.
func (s *story) request(t *testing.T, input string) (method, target string, header http.Header, body string) {
	t.Helper()
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(s.values))) {
		input = strings.ReplaceAll(input, "$"+name, s.values[name])
	}
	head, body, _ := strings.Cut(input, "\n\n")
	lines := strings.Split(head, "\n")
	method, target, _ = strings.Cut(lines[0], " ")
	header = http.Header{}
	for _, line := range lines[1:] {
		name, text, found := strings.Cut(line, ":")
		if !found {
			t.Fatalf("%q is no header", line)
		}
		header.Add(name, strings.TrimSpace(text))
	}
	return method, target, header, strings.ReplaceAll(body, "\n", "")
}

// exchange sends the bytes itself, since net/http would clean the target, and
// checks the rules for every answer.
func (s *story) exchange(t *testing.T, method, target string, header http.Header, body string) (*http.Response, []byte) {
	t.Helper()
	connection, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\n", method, target)
	if header.Get("host") == "" {
		header.Set("host", "decan.test:8081")
	}
	if header.Get("transfer-encoding") == "" && (body != "" || method == "POST" || method == "PUT") {
		header.Set("content-length", fmt.Sprint(len(body)))
	}
	header.Set("connection", "close")
	if err := header.Write(&text); err != nil {
		t.Fatal(err)
	}
	text.WriteString("\r\n" + body)
	if _, err := connection.Write(text.Bytes()); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	checkAnswer(t, method+" "+target, answer, content)
	return answer, content
}

// checkAnswer checks the rules of every answer that clients rely on.
func checkAnswer(t *testing.T, what string, answer *http.Response, content []byte) {
	t.Helper()
	if len(answer.TransferEncoding) > 0 {
		t.Errorf("%s: the answer is chunked", what)
	}
	empty := answer.StatusCode == 204 || answer.StatusCode == 304
	if answer.Header.Get("content-length") == "" && !empty {
		t.Errorf("%s: no Content-Length", what)
	}
	for _, name := range []string{"x-ms-activity-id", "x-ms-request-charge", "x-ms-schemaversion", "x-ms-serviceversion", "date"} {
		if answer.Header.Get(name) == "" {
			t.Errorf("%s: no %s", what, name)
		}
	}
	for name, values := range answer.Header {
		if slices.Contains(values, "") {
			t.Errorf("%s: the header %s is empty", what, name)
		}
	}
	page := what == "GET /" && answer.Header.Get("content-security-policy") != "" // for browsers
	if len(content) > 0 && !page && (!json.Valid(content) || answer.Header.Get("content-type") != "application/json") {
		t.Errorf("%s: the body is not JSON: %s", what, content)
	}
	if answer.StatusCode >= 400 && !strings.HasPrefix(what, "HEAD ") {
		var fault struct{ Code, Message string }
		if json.Unmarshal(content, &fault) != nil || fault.Code == "" || fault.Message == "" {
			t.Errorf("%s: an error without code and message: %s", what, content)
		}
		if !strings.Contains(fault.Message, answer.Header.Get("x-ms-activity-id")) {
			t.Errorf("%s: an error without its activity id: %s", what, content)
		}
	}
}

// remember keeps the values of an answer for later requests.
func (s *story) remember(prefix string, answer *http.Response, content []byte) {
	values := map[string]string{
		"etag":         answer.Header.Get("etag"),
		"continuation": answer.Header.Get("x-ms-continuation"),
		"session":      answer.Header.Get("x-ms-session-token"),
		"activity":     answer.Header.Get("x-ms-activity-id"),
	}
	var body map[string]any
	if json.Unmarshal(content, &body) == nil {
		values["rid"], _ = body["_rid"].(string)
		values["self"], _ = body["_self"].(string)
		if token, ok := body["_token"].(string); ok {
			values["token"] = url.QueryEscape(token)
		}
		if offers, ok := body["Offers"].([]any); ok && len(offers) > 0 {
			offer, _ := offers[0].(map[string]any)
			values["offer"], _ = offer["_self"].(string)
			values["offerID"], _ = offer["id"].(string)
		}
	}
	for name, text := range values {
		if text != "" {
			s.values[name] = text
			if prefix != "" {
				s.values[prefix+name] = text
			}
		}
	}
}

// volatile matches the values that differ between runs.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\\r\\nActivityId: [0-9a-fA-F-]{36}(, ResourceType: \w+, OperationType: \w+)?, Decan/test`), `$1`},
	{regexp.MustCompile(`"_etag":"\\"[^"]+\\""`), `"_etag":<etag>`},
	{regexp.MustCompile(`"_ts":\d+`), `"_ts":<ts>`},
	{regexp.MustCompile(`"id":"[^"]{4}","_rid":"([^"]{4})","_self":"offers/`), `"id":<rid>,"_rid":"$1","_self":"offers/`},
	{regexp.MustCompile(`"_rid":"[A-Za-z0-9+=-]+"`), `"_rid":<rid>`},
	{regexp.MustCompile(`"_self":"[A-Za-z0-9+=/-]+"`), `"_self":<self>`},
	{regexp.MustCompile(`"_token":"type=resource&ver=1&sig=[^"]+;[^"]+;"`), `"_token":<token>`},
	{regexp.MustCompile(`"offerResourceId":"[A-Za-z0-9+=-]+"`), `"offerResourceId":<rid>`},
	{regexp.MustCompile(`"resource":"dbs/[A-Za-z0-9+=-]{8}/[A-Za-z0-9+=/-]+"`), `"resource":<self>`},
	{regexp.MustCompile(`"offerLastReplaceTimestamp":\d+`), `"offerLastReplaceTimestamp":<ts>`},
	{regexp.MustCompile(`RID [A-Za-z0-9+=-]+`), `RID <rid>`},
	{regexp.MustCompile(`InTimeInMs=[0-9.]+|TimeInMs=[0-9.]+`), `TimeInMs=<ms>`},
	{regexp.MustCompile(`"milliseconds":[0-9.]+`), `"milliseconds":<ms>`},
	{regexp.MustCompile(`^"[0-9a-f-]{20,}"$`), `<etag>`},
}

func hide(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// now is the clock of every story.
func now() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }
