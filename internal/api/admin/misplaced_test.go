package admin_test

import (
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
)

// TestMisplacedMembers shows that a body with a member in the wrong place is refused
// with 400, and changes nothing. With 200, the client would believe that the change was
// made.
func TestMisplacedMembers(t *testing.T) {
	t.Parallel()
	door := copyDoor(t)
	const (
		container = "/sqlDatabases/d/containers/c"
		settings  = container + "/throughputSettings/default"
		tasks     = `"jobProperties":{"tasks":[{"source":{"databaseName":"d","containerName":"from"},"destination":{"databaseName":"d","containerName":"to"}}]}`
		ends      = `"source":{"databaseName":"d","containerName":"from"},"destination":{"databaseName":"d","containerName":"to"}`
		targets   = `"targetPhysicalPartitionThroughputInfo":[{"id":"0","throughput":800}]`
	)
	walk(t, door, []step{{"POST", "/containers?database=d&partitions=2&throughput=1000", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 201, nil}})
	state := func() (all string) {
		for _, target := range []string{settings, "/limits?database=d&container=c", "/copyJobs"} {
			_, content := call(t, door, "GET", target, "", "x-decan-key", auth.WellKnownKey)
			all += content
		}
		return all
	}
	before := state()
	if !strings.Contains(before, `"throughput":1000`) {
		t.Fatal(before)
	}
	walk(t, door, []step{
		{"PUT", settings, `{"throughput":5000}`, 400, []string{"'throughput' belongs in properties.resource"}},
		{"PUT", settings, `{"properties":{"throughput":5000}}`, 400, []string{"'throughput' belongs in properties.resource"}},
		{"PUT", settings, `{"properties":{"resource":{"throughput":1000}},"throughput":5000}`, 400, []string{"belongs in"}},
		{"PUT", settings, `{"properties":{"autoscaleSettings":{"maxThroughput":5000}}}`, 400, []string{"'autoscaleSettings' belongs in"}},
		{"PUT", settings, `{"throughputBuckets":[]}`, 400, []string{"'throughputBuckets' belongs in"}},
		{"PUT", settings, `{"properties":{"resource":{"maxThroughput":5000}}}`, 400, []string{"none of throughput, autoscaleSettings and throughputBuckets"}},
		{"PUT", settings, `{"properties":{"resource":{}}}`, 400, []string{"none of throughput"}},
		{"PUT", settings, `{"properties":{"resource":[{"throughput":5000}]}}`, 400, []string{"none of throughput"}},
		{"PUT", settings, `{}`, 400, []string{"none of throughput"}},
		{"POST", settings + "/migrateToAutoscale", `{"properties":{"resource":{"autoscaleSettings":{"maxThroughput":5000}}}}`, 400, []string{"takes no throughput"}},
		{"POST", settings + "/migrateToManualThroughput", `{"throughput":5000}`, 400, []string{"takes no throughput"}},

		{"POST", settings + "/retrieveThroughputDistribution", `{"physicalPartitionIds":[{"id":"1"}]}`, 400, []string{"'physicalPartitionIds' belongs in properties.resource"}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"physicalPartitionIds":[{"id":"1"}]}}`, 400, []string{"belongs in"}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":{"id":"1"}}}}`, 400, []string{"must be an array"}},
		{"POST", settings + "/redistributeThroughput", `{"throughputPolicy":"custom",` + targets + `}`, 400, []string{"'throughputPolicy' belongs in properties.resource"}},
		{"POST", settings + "/redistributeThroughput", `{"properties":{"resource":{"throughputPolicy":"equal"},` + targets + `}}`, 400, []string{"'targetPhysicalPartitionThroughputInfo' belongs in"}},

		{"POST", container + "/partitionMerge", `{"properties":{"isDryRun":true}}`, 400, []string{`no property \"properties\"`}},
		{"POST", container + "/partitionMerge", `{"dryRun":true}`, 400, []string{`no property \"dryRun\"`}},

		{"PUT", "/limits?database=d&container=c", `{"limits":{"partitionRUs":500}}`, 400, []string{`limit \"limits\" does not exist`}},

		{"PUT", "/copyJobs/x", `{"mode":"Online","properties":{` + tasks + `}}`, 400, []string{"'mode' belongs in properties"}},
		{"PUT", "/copyJobs/x", `{"properties":{"mode":{"Online":true},` + tasks + `}}`, 400, []string{"'mode'"}},
		{"PUT", "/copyJobs/x", `{"workerCount":2,"properties":{` + tasks + `}}`, 400, []string{"'workerCount' belongs in properties"}},
		{"PUT", "/dataTransferJobs/x", `{"mode":"Online","properties":{` + ends + `}}`, 400, []string{"'mode' belongs in properties"}},
		{"PUT", "/copyJobs/x", `{"properties":{"mirror":true,` + tasks + `}}`, 400, []string{"'mirror' belongs in properties.decan"}},
		{"PUT", "/copyJobs/x", `{"decan":{"mirror":true},"properties":{` + tasks + `}}`, 400, []string{"'decan' belongs in properties"}},
		{"PUT", "/copyJobs/x", `{"properties":{"decan":{"mirror":"true"},` + tasks + `}}`, 400, []string{"'mirror'", "true or false"}},
		{"PUT", "/copyJobs/x", `{"properties":{"decan":{"onFailure":1},` + tasks + `}}`, 400, []string{"'onFailure'"}},

		{"PUT", "/sqlRoleDefinitions/11111111-1111-1111-1111-111111111111", `{"roleName":"r","assignableScopes":["/"],"permissions":[{"dataActions":["Microsoft.DocumentDB/databaseAccounts/readMetadata"]}]}`, 400, []string{"'roleName'"}},
		{"PUT", "/sqlRoleAssignments/11111111-1111-1111-1111-111111111111", `{"roleDefinitionId":"00000000-0000-0000-0000-000000000001","scope":"/","principalId":"p"}`, 400, []string{"'roleDefinitionId'"}},
		{"POST", "/regenerateKey", `{"properties":{"keyKind":"secondary"}}`, 400, nil},
	})
	if after := state(); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
	// A property in its place takes effect, whatever else the body has.
	walk(t, door, []step{
		{"PUT", settings, `{"location":"somewhere","tags":{},"properties":{"resource":{"throughput":1100},"options":{}}}`, 200, []string{`"throughput":1100`}},
		{"POST", settings + "/migrateToAutoscale", "{}", 200, []string{`"maxThroughput":2000`}},
		{"POST", settings + "/retrieveThroughputDistribution", `{"properties":{"resource":{"physicalPartitionIds":[{"id":"-1"}]}}}`, 200, []string{`"id":"0"`, `"id":"1"`}},
	})
}

// TestMissingOwner shows that the message for a database or container that does not
// exist has its name, whether the path or the query names it.
func TestMissingOwner(t *testing.T) {
	t.Parallel()
	walk(t, copyDoor(t), []step{
		{"POST", "/containers?database=nowhere", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 404, []string{`"The database nowhere does not exist."`}},
		{"GET", "/partitions?database=d&container=nowhere", "", 404, []string{`"The container d/nowhere does not exist."`}},
		{"PUT", "/limits?database=d&container=nowhere", `{"partitionRUs":500}`, 404, []string{`"The container d/nowhere does not exist."`}},
		{"POST", "/sqlDatabases/d/containers/nowhere/partitionMerge", "", 404, []string{`"The container d/nowhere does not exist."`}},
		{"POST", "/sqlDatabases/nowhere/partitionMerge", "", 404, []string{`"The database nowhere does not exist."`}},
	})
}
