package nosql_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// direct is the door of direct mode of a world, with one connection to it.
type direct struct {
	world  *world
	client *rntbdtest.Client
	sent   int64 // requests
}

// openDirect opens the door. Requests of the client are answered until the test ends.
func openDirect(t testing.TB, w *world) *direct {
	t.Helper()
	config := w.config
	config.Direct = 10251
	door := rntbd.New(rntbd.Config{Handler: nosql.NewDirect(config), Plain: true})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = door.Serve(listener)
	}()
	w.closers = append(w.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := door.Close(ctx)
		<-served
		return err
	})
	client, err := rntbdtest.Dial(listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &direct{world: w, client: client}
}

// do sends a request and checks the rules for every answer.
func (d *direct) do(t testing.TB, f *rntbdtest.Frame) *rntbdtest.Frame {
	t.Helper()
	d.sent++
	present := int64(0)
	if len(f.Payload) > 0 {
		present = 1
	}
	f.Int(rntbd.RequestPayloadPresent, rntbd.TypeByte, present).Int(rntbd.RequestTransportRequestID, rntbd.TypeULong, d.sent)
	answer, err := d.client.Do(f)
	if err != nil {
		t.Fatalf("%s %s: %v", f.Operation(), f.Resource(), err)
	}
	if got := answer.Answered(rntbd.ResponseTransportRequestID); got != d.sent {
		t.Fatalf("the answer is to request %d, not %d", got, d.sent)
	}
	for _, id := range []rntbd.ResponseID{
		rntbd.ResponseLSN, rntbd.ResponseLocalLSN, rntbd.ResponseQuorumAckedLSN, rntbd.ResponseQuorumAckedLocalLSN, rntbd.ResponseGlobalCommittedLSN,
	} {
		if answer.Answered(id) < 1 {
			t.Errorf("%s %s: %d has %s %d", f.Operation(), f.Resource(), answer.Status(), id, answer.Answered(id))
		}
	}
	if answer.Answered(rntbd.ResponseItemLSN) > answer.Answered(rntbd.ResponseLSN) {
		t.Errorf("%s %s: the LSN of the item is above that of the partition", f.Operation(), f.Resource())
	}
	if !strings.HasPrefix(answer.Told(rntbd.ResponseSessionToken), "-1#") || answer.Told(rntbd.ResponsePartitionKeyRangeID) == "" {
		t.Errorf("%s %s: %d has session %q of %q", f.Operation(), f.Resource(), answer.Status(),
			answer.Told(rntbd.ResponseSessionToken), answer.Told(rntbd.ResponsePartitionKeyRangeID))
	}
	return answer
}

// item returns a request, signed with the account's key, for an item of the container c
// in the database d.
func (d *direct) item(t testing.TB, a engine.Address, operation rntbd.Operation, id, key string) *rntbdtest.Frame {
	t.Helper()
	parsed, err := partitionkey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	partition, _ := partitionOf(a, parsed)
	f := rntbdtest.Request(rntbd.Document, operation, rntbd.GUID{15: 1})
	f.Text(rntbd.RequestDatabaseName, "d").Text(rntbd.RequestCollectionName, "c").Text(rntbd.RequestPartitionKey, key)
	f.Text(rntbd.RequestCollectionRID, a.RID().String()).Text(rntbd.RequestReplicaPath, where(a, partition, 1))
	if id != "" {
		f.Text(rntbd.RequestDocumentName, id)
	}
	return d.signed(f)
}

// signed adds date and signature.
func (d *direct) signed(f *rntbdtest.Frame) *rntbdtest.Frame {
	methods := map[rntbd.Operation]string{
		rntbd.Read: "GET", rntbd.ReadFeed: "GET", rntbd.Replace: "PUT", rntbd.Patch: "PATCH", rntbd.Delete: "DELETE", rntbd.Head: "HEAD", rntbd.HeadFeed: "HEAD",
	}
	method := cmp.Or(methods[f.Operation()], "POST")
	kind := map[rntbd.Resource]string{
		rntbd.Document: "docs", rntbd.Collection: "colls", rntbd.Database: "dbs", rntbd.StoredProcedure: "sprocs", rntbd.User: "users", rntbd.Permission: "permissions",
	}[f.Resource()]
	link := ""
	for _, part := range []struct {
		id   rntbd.RequestID
		word string
	}{
		{rntbd.RequestDatabaseName, "dbs"},
		{rntbd.RequestCollectionName, "colls"},
		{rntbd.RequestUserName, "users"},
		{rntbd.RequestDocumentName, "docs"},
		{rntbd.RequestStoredProcedureName, "sprocs"},
		{rntbd.RequestPermissionName, "permissions"},
	} {
		if token, ok := f.Token(uint16(part.id)); ok {
			link += "/" + part.word + "/" + token.Value
		}
	}
	date := now().UTC().Format(http.TimeFormat)
	return f.Add(rntbd.RequestDate, rntbd.TypeSmallString, date).
		Text(rntbd.RequestAuthorizationToken, auth.Sign(testKey, method, kind, strings.TrimPrefix(link, "/"), date))
}

// where returns the path of a replica of a partition; master is for definitions.
func where(a engine.Address, id string, number int) string {
	return nosql.Place(a.RID(), id, number)
}

// partitionOf returns the one partition that has a key.
func partitionOf(a engine.Address, key partitionkey.Key) (string, bool) {
	found, n := "", 0
	for id := range resource.PartitionID(100) {
		if a.Has(id) && a.Holds(id, key) {
			found, n = id.String(), n+1
		}
	}
	return found, n == 1
}

// TestDirectStories tells the stories again, with each request that direct mode has in its
// form, and expects the same answers.
func TestDirectStories(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"batch", "changefeed", "conformance", "continuations", "databases", "documents", "hierarchy", "patch",
		"permissions", "query", "scripts", "session", "suites", "triggers", "udfs",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &story{values: map[string]string{}, direct: true}
			s.start(t, settings{})
			datadriven.RunTest(t, "testdata/"+name+".txt", func(t *testing.T, d *datadriven.TestData) string {
				got := s.run(t, d)
				if s.translated && sameAnswer(got, d.Expected) {
					return d.Expected
				}
				return got
			})
			if s.frames < 5 {
				t.Errorf("%d requests were made in direct mode", s.frames)
			}
		})
	}
}

// gatewayOnly are headers that only the REST protocol has.
var gatewayOnly = []string{
	"x-decan-partitions", "allow", "preference-applied", "x-ms-documentdb-partitionkeyrangeid", "content-location", "content-type", "location",
	"x-ms-cosmos-query-requiresdistribution", "x-ms-request-duration-ms", "x-ms-session-token",
}

// sameAnswer compares the answers of the two doors.
func sameAnswer(got, want string) bool {
	plain := func(answer string) string {
		lines := strings.Split(strings.TrimRight(answer, "\n"), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool {
			name, _, _ := strings.Cut(line, ":")
			return slices.Contains(gatewayOnly, name)
		})
		if len(lines) > 1 && lines[0] == "410" && lines[1] == "x-ms-substatus: 1002" {
			lines[1] = "x-ms-substatus: 1007"
		}
		return strings.ReplaceAll(strings.Join(lines, "\n"), `"statusCode":410,"subStatusCode":1002`, `"statusCode":410,"subStatusCode":1007`)
	}
	return plain(got) == plain(want) && sameSession(got, want)
}

// sameSession reports whether the session tokens are the same, where both have one.
// Answers about definitions have one in direct mode only.
func sameSession(got, want string) bool {
	token := func(answer string) string {
		_, rest, _ := strings.Cut(answer, "x-ms-session-token: ")
		rest, _, _ = strings.Cut(rest, "\n")
		return rest
	}
	return token(want) == "" || token(want) == token(got) || strings.Contains(token(want), ",")
}

// frameOf translates a request, or returns nil for one that direct mode does not have.
func (d *direct) frameOf(method, target string, header http.Header, body string) *rntbdtest.Frame {
	path := strings.Split(strings.Trim(target, "/"), "/")
	var ids []string
	kind := ""
	for i, segment := range path {
		if i%2 == 0 {
			kind += "/" + segment
			continue
		}
		id, err := url.PathUnescape(segment)
		if err != nil {
			return nil
		}
		ids = append(ids, id)
	}
	feed := len(path)%2 == 1
	kinds := map[string]struct {
		resource rntbd.Resource
		names    []rntbd.RequestID
	}{
		"/dbs":                   {rntbd.Database, []rntbd.RequestID{rntbd.RequestDatabaseName}},
		"/dbs/colls":             {rntbd.Collection, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName}},
		"/dbs/colls/docs":        {rntbd.Document, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName, rntbd.RequestDocumentName}},
		"/dbs/colls/sprocs":      {rntbd.StoredProcedure, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName, rntbd.RequestStoredProcedureName}},
		"/dbs/colls/conflicts":   {rntbd.Conflict, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName, rntbd.RequestConflictName}},
		"/dbs/users":             {rntbd.User, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestUserName}},
		"/dbs/users/permissions": {rntbd.Permission, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestUserName, rntbd.RequestPermissionName}},
	}
	k, known := kinds[kind]
	truth := func(name string) bool { return strings.EqualFold(header.Get(name), "true") }
	query := truth("x-ms-documentdb-isquery") || truth("x-ms-documentdb-query") || strings.HasPrefix(header.Get("content-type"), "application/query+json")
	items := k.resource == rntbd.Document
	var operation rntbd.Operation
	switch {
	case !known:
		return nil
	case feed && method == "GET":
		operation = rntbd.ReadFeed
	case feed && method == "POST" && truth("x-ms-cosmos-is-batch-request") && items:
		operation = rntbd.Batch
	case feed && method == "POST" && header.Get("x-ms-cosmos-is-query-plan-request") != "":
		return nil
	case feed && method == "POST" && query && header.Get("a-im") == "":
		operation = rntbd.Query
	case feed && method == "POST" && items && truth("x-ms-documentdb-is-upsert"):
		operation = rntbd.Upsert
	case feed && method == "POST" && items && !query:
		operation = rntbd.Create
	case feed:
		return nil
	case k.resource == rntbd.Collection:
		return nil // over the gateway
	case method == "GET":
		operation = rntbd.Read
	case method == "PUT":
		operation = rntbd.Replace
	case method == "DELETE":
		operation = rntbd.Delete
	case method == "PATCH":
		operation = rntbd.Patch
	case method == "POST" && k.resource == rntbd.StoredProcedure:
		operation = rntbd.ExecuteJavaScript
	default:
		return nil
	}
	if k.resource == rntbd.StoredProcedure && operation != rntbd.ExecuteJavaScript || k.resource == rntbd.Database && operation == rntbd.Delete || k.resource == rntbd.User && operation == rntbd.Delete {
		return nil
	}
	f := rntbdtest.Request(k.resource, operation, rntbd.GUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Payload = []byte(body)
	condition := "If-None-Match"
	if operation == rntbd.Read || operation == rntbd.ReadFeed {
		condition = "If-Match"
	}
	if header.Get(condition) != "" {
		return nil // There is one token for both.
	}
	for i, id := range ids {
		f.Text(k.names[i], id)
	}
	if !addTokens(f, header) {
		return nil
	}
	if !items && k.resource != rntbd.StoredProcedure && k.resource != rntbd.Conflict {
		return f.Text(rntbd.RequestReplicaPath, nosql.Place("", "M", 1))
	}
	found, ok := d.world.engine.Address(engine.Link{Database: ids[0], Container: ids[1]})
	if !ok {
		return nil // Clients learn from the gateway that a container does not exist.
	}
	partition := ""
	if given := header.Get("x-ms-documentdb-partitionkeyrangeid"); given != "" {
		_, partition, _ = strings.Cut(","+given, ",")
		if i := strings.LastIndexByte(given, ','); i >= 0 {
			partition = given[i+1:]
		}
		if n, err := strconv.ParseUint(partition, 10, 32); err != nil || strconv.FormatUint(n, 10) != partition {
			return nil
		}
	} else {
		key, err := partitionkey.Parse(header.Get("x-ms-documentdb-partitionkey"))
		if err != nil {
			return nil
		}
		if partition, ok = partitionOf(found, key); !ok {
			return nil
		}
	}
	return f.Text(rntbd.RequestReplicaPath, where(found, partition, 1)).Text(rntbd.RequestCollectionRID, found.RID().String())
}

// addTokens translates headers. It reports false for one that direct mode does not have.
func addTokens(f *rntbdtest.Frame, header http.Header) bool {
	texts := map[string]rntbd.RequestID{
		"Authorization":                              rntbd.RequestAuthorizationToken,
		"X-Ms-Documentdb-Partitionkey":               rntbd.RequestPartitionKey,
		"X-Ms-Documentdb-Partitionkeyrangeid":        rntbd.RequestPartitionKeyRangeID,
		"X-Ms-Session-Token":                         rntbd.RequestSessionToken,
		"X-Ms-Continuation":                          rntbd.RequestContinuationToken,
		"If-Match":                                   rntbd.RequestMatch,
		"If-None-Match":                              rntbd.RequestMatch,
		"If-Modified-Since":                          rntbd.RequestIfModifiedSince,
		"A-Im":                                       rntbd.RequestAIM,
		"X-Ms-Cosmos-Intended-Collection-Rid":        rntbd.RequestIntendedCollectionRID,
		"X-Ms-Documentdb-Pre-Trigger-Include":        rntbd.RequestPreTriggerInclude,
		"X-Ms-Documentdb-Post-Trigger-Include":       rntbd.RequestPostTriggerInclude,
		"X-Ms-Cosmos-Changefeed-Wire-Format-Version": rntbd.RequestChangeFeedWireFormatVersion,
	}
	flags := map[string]rntbd.RequestID{
		"X-Ms-Cosmos-Batch-Atomic":              rntbd.RequestIsBatchAtomic,
		"X-Ms-Cosmos-Batch-Continue-On-Error":   rntbd.RequestShouldBatchContinueOnError,
		"X-Ms-Documentdb-Populatequerymetrics":  rntbd.RequestPopulateQueryMetrics,
		"X-Ms-Documentdb-Populatequotainfo":     rntbd.RequestPopulateQuotaInfo,
		"X-Ms-Documentdb-Script-Enable-Logging": rntbd.RequestEnableLogging,
		"X-Ms-Cosmos-Populateindexmetrics-V2":   rntbd.RequestPopulateIndexMetricsV2,
		"X-Ms-Cosmos-Populateindexmetrics":      rntbd.RequestPopulateIndexMetrics,
	}
	numbers := map[string]rntbd.RequestID{
		"X-Ms-Max-Item-Count": rntbd.RequestPageSize, "X-Ms-Documentdb-Expiry-Seconds": rntbd.RequestResourceTokenExpiry,
		"X-Ms-Documentdb-Responsecontinuationtokenlimitinkb": rntbd.RequestResponseContinuationTokenLimitInKB,
	}
	implied := []string{
		"X-Ms-Documentdb-Isquery", "X-Ms-Documentdb-Query", "X-Ms-Documentdb-Is-Upsert", "X-Ms-Cosmos-Is-Batch-Request",
		"X-Ms-Documentdb-Query-Enablecrosspartition", "X-Ms-Version",
	}
	for name, values := range header {
		text := values[0]
		n, err := strconv.ParseInt(text, 10, 32)
		switch {
		case texts[name] != 0 && len(text) < 60_000:
			f.Text(texts[name], text)
		case name == "X-Ms-Date":
			f.Add(rntbd.RequestDate, rntbd.TypeSmallString, text)
		case flags[name] != 0 && strings.EqualFold(text, "true"):
			f.Int(flags[name], rntbd.TypeByte, 1)
		case flags[name] != 0 && strings.EqualFold(text, "false"):
			f.Int(flags[name], rntbd.TypeByte, 0)
		case numbers[name] != 0 && err == nil && n >= -1:
			f.Int(numbers[name], rntbd.TypeULong, n)
		case name == "Prefer" && text == "return=minimal":
			f.Int(rntbd.RequestReturnPreference, rntbd.TypeByte, 1)
		case name == "X-Ms-Consistency-Level" && slices.Contains(levels, text):
			f.Int(rntbd.RequestConsistencyLevel, rntbd.TypeByte, int64(slices.Index(levels, text)))
		case name == "X-Ms-Start-Epk", name == "X-Ms-End-Epk":
			id := map[string]rntbd.RequestID{"X-Ms-Start-Epk": rntbd.RequestStartEPK, "X-Ms-End-Epk": rntbd.RequestEndEPK}[name]
			f.Add(id, rntbd.TypeBytes, text)
			if header.Get("x-ms-read-key-type") == "" {
				f.Int(rntbd.RequestReadFeedKeyType, rntbd.TypeByte, 3)
			}
		case name == "X-Ms-Read-Key-Type":
			f.Int(rntbd.RequestReadFeedKeyType, rntbd.TypeByte, 3)
		case slices.Contains(implied, name):
		case name == "Content-Type" && text != "application/sql":
		default:
			return false
		}
	}
	return true
}

// levels are the consistency levels in the order of their numbers.
var levels = []string{"Strong", "BoundedStaleness", "Session", "Eventual", "ConsistentPrefix"}

// response returns an answer of direct mode in the form of the REST protocol.
func response(answer *rntbdtest.Frame) (*http.Response, []byte) {
	header := http.Header{}
	for name, id := range map[string]rntbd.ResponseID{
		"etag": rntbd.ResponseETag, "x-ms-continuation": rntbd.ResponseContinuationToken, "x-ms-documentdb-partitionkeyrangeid": rntbd.ResponsePartitionKeyRangeID,
		"x-ms-alt-content-path": rntbd.ResponseOwnerFullName, "x-ms-content-path": rntbd.ResponseOwnerID, "x-ms-resource-quota": rntbd.ResponseStorageMaxResourceQuota,
		"x-ms-resource-usage": rntbd.ResponseStorageResourceQuotaUsage, "x-ms-documentdb-query-metrics": rntbd.ResponseQueryMetrics,
		"x-ms-cosmos-index-utilization": rntbd.ResponseIndexUtilization, "x-ms-documentdb-script-log-results": rntbd.ResponseLogResults, "x-ms-schemaversion": rntbd.ResponseSchemaVersion,
	} {
		if text := answer.Told(id); text != "" {
			header.Set(name, text)
		}
	}
	for name, id := range map[string]rntbd.ResponseID{
		"x-ms-item-count": rntbd.ResponseItemCount, "x-ms-substatus": rntbd.ResponseSubStatus, "lsn": rntbd.ResponseLSN, "x-ms-item-lsn": rntbd.ResponseItemLSN, "x-ms-retry-after-ms": rntbd.ResponseRetryAfterMilliseconds,
	} {
		if n := answer.Answered(id); n >= 0 {
			header.Set(name, fmt.Sprint(n))
		}
	}
	header.Set("x-ms-activity-id", answer.Activity.String())
	if token, ok := answer.Token(uint16(rntbd.ResponseRequestCharge)); ok {
		header.Set("x-ms-request-charge", strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64([]byte(token.Value))), 'f', -1, 64))
	}
	header.Set("x-ms-session-token", answer.Told(rntbd.ResponsePartitionKeyRangeID)+":"+answer.Told(rntbd.ResponseSessionToken))
	return &http.Response{StatusCode: answer.Status(), Header: header}, answer.Payload
}
