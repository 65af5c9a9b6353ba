package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/value"
)

// arm is the path of the account in the management API.
const arm = "/subscriptions/0/resourceGroups/rg/providers/Microsoft.DocumentDB/databaseAccounts/decan"

// step is a request and the expected parts of its answer.
type step struct {
	method, target, body string
	want                 int
	holds                []string
}

// walk performs steps one after another, with the key.
func walk(t *testing.T, door http.Handler, steps []step) {
	t.Helper()
	for _, s := range steps {
		answer, content := call(t, door, s.method, s.target, s.body, "x-decan-key", auth.WellKnownKey)
		if answer.StatusCode != s.want {
			t.Errorf("%s %s %s: %d, want %d: %s", s.method, s.target, s.body, answer.StatusCode, s.want, content)
		}
		for _, part := range s.holds {
			if !strings.Contains(content, part) {
				t.Errorf("%s %s %s: %s, want it to hold %s", s.method, s.target, s.body, content, part)
			}
		}
	}
}

// TestThroughputSettings shows throughput in the form of the management API.
func TestThroughputSettings(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	const settings = "/sqlDatabases/d/containers/c/throughputSettings/default"
	if _, err := e.CreateDatabase(t.Context(), auth.Owner(), engine.DatabaseRequest{
		Body:       value.Object([]value.Member{{Name: "id", Value: value.String("shared")}}),
		Throughput: engine.ThroughputRequest{Manual: new(500)},
	}); err != nil {
		t.Fatal(err)
	}
	walk(t, door, []step{
		{"POST", "/containers?database=d&partitions=2&throughput=1000", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 201, nil},
		{"POST", "/containers?database=shared&partitions=2", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 201, nil},
		{"GET", arm + settings, "", 200, []string{
			`"name":"default","type":"Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings"`,
			`"resource":{"throughput":1000,"minimumThroughput":"400","offerReplacePending":"false","instantMaximumThroughput":"20000","softAllowedMaximumThroughput":"1000000","_rid":`,
		}},
		{"GET", "/sqlDatabases/shared/throughputSettings/default", "", 200, []string{`"throughput":500`, `sqlDatabases/throughputSettings"`}},
		{"PUT", settings, `{"properties":{"resource":{"throughput":1200}}}`, 200, []string{`"throughput":1200`}},
		{"PUT", settings, `{"properties":{"resource":{"throughput":300}}}`, 400, nil},
		{"PUT", settings, `{"properties":{"resource":{"throughput":1200,"autoscaleSettings":{"maxThroughput":4000}}}}`, 400, nil},
		{"PUT", settings, `{"properties":{"resource":{"autoscaleSettings":{"maxThroughput":4000}}}}`, 400, []string{"migration"}},
		{"PUT", settings, `{"properties":{"resource":{"throughput":20100}}}`, 400, []string{"20000 RU/s"}},
		{"POST", settings + "/migrateToAutoscale", "", 200, []string{`"autoscaleSettings":{"maxThroughput":2000}`}},
		{"PUT", settings, `{"properties":{"resource":{"autoscaleSettings":{"maxThroughput":3000}}}}`, 200, []string{`"autoscaleSettings":{"maxThroughput":3000}`}},
		{"PUT", settings, `{"properties":{"resource":{"autoscaleSettings":{"maxThroughput":3000,"autoUpgradePolicy":{"throughputPolicy":{"isEnabled":true,"incrementPercent":10}}}}}}`, 200, []string{
			`"autoscaleSettings":{"maxThroughput":3000,"autoUpgradePolicy":{"throughputPolicy":{"isEnabled":true,"incrementPercent":10}}}`,
		}},
		{"PUT", settings, `{"properties":{"resource":{"autoscaleSettings":{"maxThroughput":3000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":101}}}}}}`, 400, []string{"0 to 100"}},
		{"GET", settings, "", 200, []string{`"incrementPercent":10`}},
		{"POST", settings + "/migrateToManualThroughput", "", 200, []string{`"throughput":3000`}},
		{"PUT", settings, `{"properties":{"resource":{"throughputBuckets":[{"id":1,"maxThroughputPercentage":30}]}}}`, 200, []string{`"throughput":3000`, `"throughputBuckets":[{"id":1,"maxThroughputPercentage":30}]`}},
		{"GET", settings, "", 200, []string{`"x-decan-earlier":[{"since":`, `,"throughput":1000},{"since":`, `,"throughput":1200},{"since":`, `,"autoscaleSettings":{"maxThroughput":2000}},{"since":`, `,"autoscaleSettings":{"maxThroughput":3000}}],"_rid"`}},
		{"PUT", settings, `{"properties":{"resource":{"throughputBuckets":null}}}`, 429, []string{"10 minutes"}},
		{"GET", strings.Replace(arm, "decan", "other", 1) + settings, "", 404, []string{"other"}},
		{"GET", "/sqlDatabases/d/containers/none/throughputSettings/default", "", 404, nil},
		{"GET", "/sqlDatabases/none/throughputSettings/default", "", 404, nil},
		{"GET", "/sqlDatabases/d/throughputSettings/default", "", 404, nil},
		{"GET", "/sqlDatabases/shared/containers/c/throughputSettings/default", "", 404, nil},
		{"PUT", settings, "[]", 400, nil},
	})
	if answer, _ := call(t, door, "GET", settings, ""); answer.StatusCode != 401 {
		t.Errorf("without a key: %d", answer.StatusCode)
	}
}

// TestS113Redistribution gives three partitions 2,000, 4,000 and 1,000 RU/s and
// reads them back.
func TestS113Redistribution(t *testing.T) {
	t.Parallel()
	door, _ := newDoor(t, nil)
	const settings = arm + "/sqlDatabases/d/containers/c/throughputSettings/default"
	walk(t, door, []step{
		{"POST", "/containers?database=d&partitions=3&throughput=6000", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 201, nil},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":"-1"}]}}}`, 200, []string{
			`{"properties":{"resource":{"physicalPartitionThroughputInfo":[{"id":"0","throughput":2000},{"id":"1","throughput":2000},{"id":"2","throughput":2000}]}}}`,
		}},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"custom","targetPhysicalPartitionThroughputInfo":[{"id":"1","throughput":4000}],"sourcePhysicalPartitionThroughputInfo":[{"id":"2","throughput":1000}]}}}`, 200, []string{
			`{"properties":{"resource":{"physicalPartitionThroughputInfo":[{"id":"1","throughput":4000},{"id":"2","throughput":1000}]}}}`,
		}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{}}}`, 200, []string{
			`[{"id":"0","throughput":2000},{"id":"1","throughput":4000},{"id":"2","throughput":1000}]`,
		}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":"1"}]}}}`, 200, []string{`Info":[{"id":"1","throughput":4000}]`}},
		{"GET", settings, "", 200, []string{`"throughput":7000`}},
		{"PUT", settings, `{"properties":{"resource":{"throughput":8000}}}`, 400, []string{"by hand"}},
		{"POST", settings + "/migrateToAutoscale", "", 400, []string{"by hand"}},
		{"GET", "/partitions?database=d&container=c", "", 200, []string{`"share":2000,`, `"share":4000,`, `"share":1000,`}},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"equal","targetPhysicalPartitionThroughputInfo":[],"sourcePhysicalPartitionThroughputInfo":[]}}}`, 200, []string{
			`[{"id":"0","throughput":2333.33},{"id":"1","throughput":2333.33},{"id":"2","throughput":2333.33}]`,
		}},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"custom"}}}`, 400, nil},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"none","targetPhysicalPartitionThroughputInfo":[],"sourcePhysicalPartitionThroughputInfo":[]}}}`, 200, []string{
			`[{"id":"0","throughput":2333.33},{"id":"1","throughput":2333.33},{"id":"2","throughput":2333.33}]`,
		}},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"custom","targetPhysicalPartitionThroughputInfo":[{"id":"x","throughput":4000}]}}}`, 400, nil},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":"3"}]}}}`, 400, nil},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":1}]}}}`, 400, nil},
		{"POST", strings.Replace(settings, "/c/", "/none/", 1) + "/retrieveThroughputDistribution", `{}`, 404, nil},
	})
}

// TestSharedRedistribution divides the throughput of a database over the partitions of
// its containers, whose ids there have the form of a GUID.
func TestSharedRedistribution(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	const settings = arm + "/sqlDatabases/shared/throughputSettings/default"
	if _, err := e.CreateDatabase(t.Context(), auth.Owner(), engine.DatabaseRequest{
		Body:       value.Object([]value.Member{{Name: "id", Value: value.String("shared")}}),
		Throughput: engine.ThroughputRequest{Manual: new(900)},
	}); err != nil {
		t.Fatal(err)
	}
	walk(t, door, []step{
		{"POST", settings + "/retrieveThroughputDistribution", `{}`, 200, []string{`"physicalPartitionThroughputInfo":[]`}},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"custom","targetPhysicalPartitionThroughputInfo":[{"id":"0","throughput":400}]}}}`, 400, []string{"No container uses the throughput"}},
		{"POST", "/containers?database=shared&partitions=2", `{"id":"a","partitionKey":{"paths":["/pk"]}}`, 201, nil},
		{"POST", "/containers?database=shared&partitions=1", `{"id":"b","partitionKey":{"paths":["/pk"]}}`, 201, nil},
	})
	_, content := call(t, door, "POST", settings+"/retrieveThroughputDistribution", `{}`, "x-decan-key", auth.WellKnownKey)
	infos := parse(t, content).Get("properties").Get("resource").Get("physicalPartitionThroughputInfo").Items()
	if len(infos) != 3 {
		t.Fatal(content)
	}
	var ids []string
	for _, info := range infos {
		if n, _ := info.Get("throughput").Int64(); n != 300 {
			t.Errorf("%s, want 300 RU/s for each", content)
		}
		ids = append(ids, info.Get("id").String())
	}
	custom := func(targets string) string {
		return `{"properties":{"resource":{"throughputPolicy":"custom","targetPhysicalPartitionThroughputInfo":[` + targets + `],"sourcePhysicalPartitionThroughputInfo":[]}}}`
	}
	of := func(i, rus int) string { return fmt.Sprintf(`{"id":%s,"throughput":%d}`, ids[i], rus) }
	walk(t, door, []step{
		{"POST", settings + "/redistributeThroughput", custom(of(1, 400) + "," + of(2, 500)), 200, []string{`Info":[` + of(1, 400) + "," + of(2, 500) + `]`}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":` + strings.ToUpper(ids[2]) + `}]}}}`, 200, []string{`Info":[` + of(2, 500) + `]`}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":"-1"}]}}}`, 200, []string{`Info":[` + of(0, 300) + "," + of(1, 400) + "," + of(2, 500) + `]`}},
		{"GET", settings, "", 200, []string{`"throughput":1200`}},
		{"GET", "/partitions?database=shared&container=b", "", 200, []string{`"share":500,`}},
		{"PUT", settings, `{"properties":{"resource":{"throughput":900}}}`, 400, []string{"by hand"}},
		{"POST", settings + "/redistributeThroughput", custom(`{"id":"0","throughput":400}`), 400, []string{"no physical partition 0"}},
		{"POST", settings + "/redistributeThroughput", custom(`{"id":"00000009-8000-0002-0000-000000000000","throughput":400}`), 400, []string{"no physical partition 00000009"}},
		{"POST", settings + "/redistributeThroughput", custom(`{"id":"00000009-8000-0002-0001-000000000000","throughput":400}`), 400, []string{"not a number"}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":"7"}]}}}`, 400, []string{"no physical partition 7"}},
		{"GET", settings, "", 200, []string{`"throughput":1200`}},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"equal"}}}`, 200, []string{`"throughput":400`}},
		{"PUT", settings, `{"properties":{"resource":{"throughput":900}}}`, 200, []string{`"throughput":900`}},
		{"POST", "/sqlDatabases/d/throughputSettings/default/retrieveThroughputDistribution", `{}`, 404, nil},
		{"POST", "/sqlDatabases/none/throughputSettings/default/redistributeThroughput", custom(of(0, 300)), 404, nil},
		{"POST", "/sqlDatabases/shared/containers/a/throughputSettings/default/retrieveThroughputDistribution", `{}`, 404, nil},
	})
	// The throughput of a container does not accept such ids.
	walk(t, door, []step{
		{"POST", "/containers?database=d&partitions=2&throughput=1000", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 201, nil},
		{"POST", "/sqlDatabases/d/containers/c/throughputSettings/default/redistributeThroughput", custom(of(0, 300)), 400, []string{"no physical partition"}},
	})
}

// TestRedistributionRefused requests invalid divisions: each answer states the reason,
// and the throughput does not change, nor do its etag and shares.
func TestRedistributionRefused(t *testing.T) {
	t.Parallel()
	door, _ := newDoor(t, nil)
	const settings = "/sqlDatabases/d/containers/c/throughputSettings/default"
	custom := func(targets, sources string) string {
		return `{"properties":{"resource":{"throughputPolicy":"custom","targetPhysicalPartitionThroughputInfo":[` + targets + `],"sourcePhysicalPartitionThroughputInfo":[` + sources + `]}}}`
	}
	walk(t, door, []step{
		{"POST", "/containers?database=d&partitions=3&throughput=6000", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 201, nil},
		{"POST", settings + "/redistributeThroughput", custom(`{"id":"0","throughput":1000},{"id":"1","throughput":3000}`, ``), 200, nil},
	})
	state := func() string {
		_, offer := call(t, door, "GET", settings, "", "x-decan-key", auth.WellKnownKey)
		_, shares := call(t, door, "POST", settings+"/retrieveThroughputDistribution", `{}`, "x-decan-key", auth.WellKnownKey)
		return offer + shares
	}
	before := state()
	if !strings.Contains(before, `[{"id":"0","throughput":1000},{"id":"1","throughput":3000},{"id":"2","throughput":2000}]`) {
		t.Fatal(before)
	}
	// The policy none does not change a division.
	walk(t, door, []step{
		{"POST", settings + "/redistributeThroughput", strings.Replace(custom(``, ``), "custom", "none", 1), 200, []string{
			`[{"id":"0","throughput":1000},{"id":"1","throughput":3000},{"id":"2","throughput":2000}]`,
		}},
	})
	if after := state(); after != before {
		t.Errorf("the policy none: it was %s and is %s", before, after)
	}
	for name, c := range map[string]struct{ body, holds string }{
		"below zero":             {custom(`{"id":"0","throughput":-100}`, ``), "-100"},
		"zero":                   {custom(`{"id":"0","throughput":0}`, ``), "not a positive whole number"},
		"none":                   {custom(`{"id":"0"}`, ``), "no throughput"},
		"below the least":        {custom(`{"id":"0","throughput":99}`, ``), "100 to 20000"},
		"above twice the limit":  {custom(`{"id":"0","throughput":20001}`, ``), "100 to 20000"},
		"beyond every number":    {custom(`{"id":"0","throughput":1e300}`, ``), "not a positive whole number"},
		"a fraction":             {custom(`{"id":"0","throughput":1500.5}`, ``), "1500.5"},
		"a text":                 {custom(`{"id":"0","throughput":"2000"}`, ``), "2000"},
		"a sum between steps":    {custom(`{"id":"0","throughput":1050}`, ``), "6050"},
		"an unknown target":      {custom(`{"id":"3","throughput":1000}`, ``), "no physical partition 3"},
		"an unknown source":      {custom(`{"id":"0","throughput":2000}`, `{"id":"7"}`), "no physical partition 7"},
		"an id below zero":       {custom(`{"id":"-1","throughput":2000}`, ``), "-1"},
		"an id that is a number": {custom(`{"id":0,"throughput":2000}`, ``), "number in a string"},
		"one named twice":        {custom(`{"id":"0","throughput":2000}`, `{"id":"0"}`), "named twice"},
		"a source without more":  {custom(`{"id":"0","throughput":3000}`, `{"id":"2"}`), "cannot give up"},
		"nobody":                 {custom(``, ``), "Name the physical partitions"},
		"equal, with names":      {strings.Replace(custom(`{"id":"0","throughput":2000}`, ``), "custom", "equal", 1), "equal"},
		"none, with names":       {strings.Replace(custom(`{"id":"0","throughput":2000}`, ``), "custom", "none", 1), "none no partition is named"},
		"an unknown policy":      {strings.Replace(custom(`{"id":"0","throughput":2000}`, ``), "custom", "even", 1), "is not equal, custom or none"},
		"no policy":              {`{"properties":{"resource":{}}}`, "missing"},
		"no list":                {`{"properties":{"resource":{"throughputPolicy":"custom","targetPhysicalPartitionThroughputInfo":{"id":"0"}}}}`, "array"},
		"no object":              {`[]`, ""},
		"no JSON":                {`{`, ""},
	} {
		answer, content := call(t, door, "POST", settings+"/redistributeThroughput", c.body, "x-decan-key", auth.WellKnownKey)
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(content, c.holds) {
			t.Errorf("%s: %d %s, want 400 that says %q", name, answer.StatusCode, content, c.holds)
		}
		if after := state(); after != before {
			t.Fatalf("%s: it was %s and is %s", name, before, after)
		}
	}
}

// TestHottestKeys shows the consumption of a partition, by key.
func TestHottestKeys(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	walk(t, door, []step{
		{"POST", "/containers?database=d&throughput=1000", `{"id":"c","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash"},"indexingPolicy":{"indexingMode":"none","automatic":false}}`, 201, nil},
	})
	for i, user := range []string{"Alice", "Bob", "Alice"} {
		document, err := value.ParseString(`{"id":"` + string(rune('1'+i)) + `","tenant":"Contoso","user":"` + user + `"}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Create(t.Context(), auth.Owner(), engine.DocumentRequest{Link: engine.Link{Database: "d", Container: "c"}, Document: document}); err != nil {
			t.Fatal(err)
		}
	}
	walk(t, door, []step{
		{"GET", "/partitions?database=d&container=c", "", 200, []string{
			`"limits":{"partitionBytes":53687091200,"logicalBytes":21474836480,"partitionRUs":10000}`,
			`"share":1000,"consumedRUs":0,"consumedTotal":15,"normalizedRUConsumption":1.5,"savedRUs":0,"throttled":0,"capped":0,`,
			`"hottestKeys":[{"key":["Contoso","Alice"],"epk":"`,
			`"requestUnits":10,"error":0},{"key":["Contoso","Bob"],"epk":"`,
			`"hottestPrefixes":[{"key":["Contoso"],"epk":"`,
			`"requestUnits":15,"error":0}]`,
		}},
	})
}
