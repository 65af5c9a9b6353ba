package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/decandb/decan/internal/server/servertest"
)

// seen counts the responses to an SDK, including those to retries.
type seen struct{ throttled, waited atomic.Int64 }

// Do implements policy.Policy.
func (s *seen) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err == nil && resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("x-ms-substatus") == "3200" {
		s.throttled.Add(1)
		if millis, err := strconv.Atoi(resp.Header.Get("x-ms-retry-after-ms")); err == nil && millis > 0 {
			s.waited.Add(int64(millis))
		}
	}
	return resp, err
}

// throttledContainer is a container of 400 RU/s on a server, as the Go SDK sees it.
func throttledContainer(t *testing.T, s *Server, options azcosmos.ClientOptions) *azcosmos.ContainerClient {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(s.Key())
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(s.Endpoint(), credential, &options)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var exists *azcore.ResponseError
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "d"}, nil); err != nil && (!errors.As(err, &exists) || exists.StatusCode != 409) {
		t.Fatal(err)
	}
	database, err := client.NewDatabase("d")
	if err != nil {
		t.Fatal(err)
	}
	throughput := azcosmos.NewManualThroughputProperties(400)
	if _, err := database.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID:                     "c",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
	}, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}); err != nil && (!errors.As(err, &exists) || exists.StatusCode != 409) {
		t.Fatal(err)
	}
	container, err := client.NewContainer("d", "c")
	if err != nil {
		t.Fatal(err)
	}
	return container
}

// large returns an item of some 550 RU, more than 400 RU/s allow in a second.
func large(id string) []byte {
	return []byte(`{"id":"` + id + `","pk":"a","text":"` + strings.Repeat("x", 1200<<10) + `"}`)
}

// TestS45Throttled writes more than 400 RU/s allow. Without retries the SDK's
// user sees 429 with the sub-status and the time to wait; with retries every
// write succeeds.
func TestS45Throttled(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Throughput: ThroughputOptions{Enforcement: "on"}})
	ctx := t.Context()
	key := azcosmos.NewPartitionKeyString("a")

	impatient := throttledContainer(t, s, azcosmos.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	var refused *azcore.ResponseError
	for i := 0; refused == nil; i++ {
		answer, err := impatient.UpsertItem(ctx, key, large("first"), nil)
		if err == nil && answer.RequestCharge < 500 {
			t.Fatalf("an item of 1.2 MB cost %v RU", answer.RequestCharge)
		}
		if err != nil && !errors.As(err, &refused) || i > 100 {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	answer := refused.RawResponse
	if refused.StatusCode != 429 || answer.Header.Get("x-ms-substatus") != "3200" || answer.Header.Get("x-ms-request-charge") != "0" {
		t.Errorf("refused with %d/%s for %s RU", refused.StatusCode, answer.Header.Get("x-ms-substatus"), answer.Header.Get("x-ms-request-charge"))
	}
	if millis, err := strconv.Atoi(answer.Header.Get("x-ms-retry-after-ms")); err != nil || millis < 1 {
		t.Errorf("refused without a time to wait: %q", answer.Header.Get("x-ms-retry-after-ms"))
	}

	var on seen
	patient := throttledContainer(t, s, azcosmos.ClientOptions{ClientOptions: policy.ClientOptions{PerRetryPolicies: []policy.Policy{&on}}})
	for i := range 3 {
		if _, err := patient.UpsertItem(ctx, key, large(strconv.Itoa(i)), nil); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	// Replacing such an item costs nearly three seconds of throughput. It is refused
	// until that much time has passed since the last replace.
	for i := 0; on.throttled.Load() == 0; i++ {
		if _, err := patient.UpsertItem(ctx, key, large("2"), nil); err != nil || i > 100 {
			t.Fatalf("write %d over the last: %v", i, err)
		}
	}
	if on.waited.Load() == 0 {
		t.Errorf("throttled %d times without a time to wait", on.throttled.Load())
	}
	item, err := patient.ReadItem(ctx, key, "2", nil)
	if err != nil || len(item.Value) < 1200<<10 {
		t.Errorf("read back %d bytes, %v", len(item.Value), err)
	}

	metrics := scrape(t, s)
	for _, want := range []string{
		`decan_partition_normalized_ru{container="c",database="d",partition="0"} 100`,
		`decan_partition_throughput_rus{container="c",database="d",partition="0"} 400`,
		`decan_partition_documents{container="c",database="d",partition="0"} 4`,
		`decan_partition_document_bytes{container="c",database="d",partition="0"} 4.9`, // millions
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	if strings.Contains(metrics, `decan_throttled_requests_total{outcome="refused",reason="budget"} 0`) {
		t.Error("no refusal was counted")
	}
}

func scrape(t *testing.T, s *Server) string {
	t.Helper()
	resp, err := http.Get(s.AdminEndpoint() + "metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestThroughputSettings shows the effect of each setting of throughput.
func TestThroughputSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		want   []any // logical and physical bytes, RU/s of a partition and a container, metadata RU/s, changes
	}{
		{Config{}, []any{int64(20 << 30), int64(50 << 30), 10_000, 1_000_000, 0, 0}},
		{Config{Partitions: PartitionOptions{Preset: "laptop"}}, []any{int64(4 << 20), int64(10 << 20), 1_000, 100_000, 0, 0}},
		{Config{Partitions: PartitionOptions{Preset: "laptop", LogicalMax: 7, PhysicalMax: 8}, Throughput: ThroughputOptions{PartitionMax: 900, ContainerMax: 2_000}}, []any{int64(7), int64(8), 900, 2_000, 0, 0}},
		{Config{Throughput: ThroughputOptions{MetadataMax: 240, ChangesMax: 25}}, []any{int64(20 << 30), int64(50 << 30), 10_000, 1_000_000, 240, 25}},
	} {
		full, err := c.config.complete()
		l := full.Limits
		if got := []any{l.LogicalPartitionBytes, l.PhysicalPartitionBytes, l.PartitionRUs, l.ContainerRUs, l.MetadataRUs, l.ThroughputChanges}; err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v %v, want %v", c.config, got, err, c.want)
		}
	}
	for _, wrong := range []Config{
		{Throughput: ThroughputOptions{Enforcement: "maybe"}},
		{Partitions: PartitionOptions{Preset: "desktop"}},
		{Partitions: PartitionOptions{LogicalMax: -1}},
		{Throughput: ThroughputOptions{PartitionMax: -1}},
		{Throughput: ThroughputOptions{ContainerMax: 999}},
		{Throughput: ThroughputOptions{MetadataMax: -1}},
		{Throughput: ThroughputOptions{ChangesMax: -1}},
	} {
		if _, err := wrong.complete(); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}

// TestMetadataThrottled requests definitions faster than the account's reserve
// serves them, and changes throughput more often than allowed: 429/3201 with the
// time to wait, after which the SDK's retry succeeds. Documents are served at the
// same time.
func TestMetadataThrottled(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Throughput: ThroughputOptions{MetadataMax: 30, ChangesMax: 1}})
	container := throttledContainer(t, s, azcosmos.ClientOptions{})
	refused := func(r servertest.Response) time.Duration {
		t.Helper()
		millis, err := strconv.Atoi(r.Header.Get("x-ms-retry-after-ms"))
		if r.Header.Get("x-ms-substatus") != "3201" || err != nil || millis < 1 {
			t.Errorf("refused with sub-status %q, wait %q: %s", r.Header.Get("x-ms-substatus"), r.Header.Get("x-ms-retry-after-ms"), r.Body)
		}
		return time.Duration(millis) * time.Millisecond
	}
	var last servertest.Response
	for i := 0; last.Status != http.StatusTooManyRequests; i++ {
		if last = call(t, s, "GET", "dbs/d/colls/c", ""); last.Status != http.StatusOK && last.Status != http.StatusTooManyRequests || i > 10_000 {
			t.Fatalf("read %d: %d %s", i, last.Status, last.Body)
		}
	}
	if wait := refused(last); wait > time.Second {
		t.Errorf("a wait of %v, although the budget is renewed each second", wait)
	}
	if r := call(t, s, "POST", "dbs/d/colls/c/docs", `{"id":"x","pk":"a"}`); r.Status != http.StatusCreated {
		t.Errorf("a document: %d %s", r.Status, r.Body)
	}
	for i := range 40 { // more than one second allows
		if _, err := container.Read(t.Context(), nil); err != nil {
			t.Fatalf("read %d by the SDK: %v", i, err)
		}
	}
	const settings = "sqlDatabases/d/containers/c/throughputSettings/default"
	change := func(rus int) (code int, answer string) {
		t.Helper()
		waitFor(t, "metadata throughput", func() bool {
			code, answer = callAdmin(t, s, "PUT", settings, fmt.Sprintf(`{"properties":{"resource":{"throughput":%d}}}`, rus))
			return !strings.Contains(answer, "rate of metadata requests")
		})
		return code, answer
	}
	if code, answer := change(500); code != http.StatusOK {
		t.Errorf("the first change: %d %s", code, answer)
	}
	if code, answer := change(600); code != http.StatusTooManyRequests || !strings.Contains(answer, "5 minutes") {
		t.Errorf("the second change: %d %s", code, answer)
	}
}

// TestServerless refuses throughput over HTTP and serves containers without.
func TestServerless(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Throughput: ThroughputOptions{Serverless: true, Enforcement: "on"}})
	if r := call(t, s, "POST", "dbs", `{"id":"d"}`); r.Status != 201 {
		t.Fatalf("database: %d %s", r.Status, r.Body)
	}
	definition := `{"id":"c","partitionKey":{"paths":["/pk"]}}`
	if r := call(t, s, "POST", "dbs/d/colls", definition, "x-ms-offer-throughput", "400"); r.Status != 400 {
		t.Errorf("with throughput: %d %s", r.Status, r.Body)
	}
	if r := call(t, s, "POST", "dbs/d/colls", definition); r.Status != 201 {
		t.Errorf("without: %d %s", r.Status, r.Body)
	}
	if r := call(t, s, "GET", "offers", ""); r.Status != 200 || !strings.Contains(string(r.Body), `"_count":0`) {
		t.Errorf("offers: %d %s", r.Status, r.Body)
	}
}
