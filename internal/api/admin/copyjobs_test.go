package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/admin"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/copyjob"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
)

const armAccount = "/subscriptions/s/resourceGroups/g/providers/Microsoft.DocumentDB/databaseAccounts/decan"

// copyDoor returns a door with copy jobs, to the containers d/from, with
// three documents, and d/to.
func copyDoor(t *testing.T) http.Handler {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e, names, registry := newEngine(t)
	for _, definition := range []string{`{"id":"from","partitionKey":{"paths":["/a"]}}`, `{"id":"to","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash"}}`} {
		_, err := e.CreateContainer(t.Context(), auth.Owner(), engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: parse(t, definition)})
		check(err)
	}
	for i := range 3 {
		_, err := e.Create(t.Context(), auth.Owner(), engine.DocumentRequest{
			Link: engine.Link{Database: "d", Container: "from"}, Document: parse(t, fmt.Sprintf(`{"id":"%d","a":"x"}`, i)),
		})
		check(err)
	}
	jobs, err := copyjob.Open(copyjob.Config{Catalog: names, Engine: e, Poll: time.Millisecond})
	check(err)
	jobs.Start()
	t.Cleanup(jobs.Close)
	return admin.New(admin.Config{Engine: e, CopyJobs: jobs, Gatherer: registry, Limits: resource.DefaultLimits(), Now: now})
}

// TestCopyJobs creates a job in each form of the management API and reads it in the
// other one. Other components, such as Cassandra's, have no hierarchical keys (S101)
// and are refused by name.
func TestCopyJobs(t *testing.T) {
	t.Parallel()
	door := copyDoor(t)
	with := func(method, target, body string, want int) string {
		t.Helper()
		answer, content := call(t, door, method, target, body, "x-decan-key", auth.WellKnownKey)
		if answer.StatusCode != want {
			t.Errorf("%s %s %.90s: %d, want %d: %s", method, target, body, answer.StatusCode, want, content)
		}
		return content
	}
	const tasks = `"jobProperties":{"jobType":"NoSqlRUToNoSqlRU","tasks":[{"source":{"databaseName":"d","containerName":"from"},"destination":{"databaseName":"d","containerName":"to"}}]}`
	with("PUT", armAccount+"/copyJobs/j1", `{"properties":{`+tasks+`,"mode":"Offline","workerCount":2}}`, 200)
	job := untilEnded(t, func() string { return with("GET", armAccount+"/copyJobs/j1", "", 200) })
	if job.Type != "Microsoft.DocumentDB/databaseAccounts/copyJobs" || job.ID != armAccount+"/copyJobs/j1" || job.Name != "j1" ||
		job.Properties.Status != "Completed" || job.Properties.Processed != 3 || job.Properties.Total != 3 || job.Properties.Workers != 2 ||
		job.Properties.Mode != "Offline" || job.Properties.JobProperties.JobType != "NoSqlRUToNoSqlRU" ||
		len(job.Properties.JobProperties.Tasks) != 1 || !strings.HasPrefix(job.Properties.Duration, "00:00:") {
		t.Errorf("the job is %+v", job)
	}
	if _, err := time.Parse(time.RFC3339Nano, job.Properties.Updated); err != nil {
		t.Errorf("lastUpdatedUtcTime: %v", err)
	}

	// The older form, online, with all its verbs.
	const source, destination = `"source":{"component":"CosmosDBSql","databaseName":"d","containerName":"from","remoteAccountName":"DECAN"}`, `"destination":{"component":"CosmosDBSql","databaseName":"d","containerName":"to"}`
	created := with("PUT", "/dataTransferJobs/j2", `{"properties":{`+source+`,`+destination+`,"mode":"online"}}`, 200)
	for _, want := range []string{`"id":"/dataTransferJobs/j2"`, `"type":"Microsoft.DocumentDB/databaseAccounts/dataTransferJobs"`, `"jobName":"j2"`, `"mode":"Online"`, `"component":"CosmosDBSql"`} {
		if !strings.Contains(created, want) {
			t.Errorf("the data transfer job lacks %s: %s", want, created)
		}
	}
	for _, step := range []struct{ verb, want string }{{"pause", "Paused"}, {"resume", "Running"}, {"complete", "Running"}} {
		if got := with("POST", "/dataTransferJobs/j2/"+step.verb, "", 200); !strings.Contains(got, `"status":"`+step.want+`"`) {
			t.Errorf("%s: %s", step.verb, got)
		}
	}
	untilEnded(t, func() string { return with("GET", "/copyJobs/j2", "", 200) })
	with("POST", "/copyJobs/j2/cancel", "", 409)

	// A job with several tasks has no older form.
	two := strings.Replace(tasks, `]}`, `,{"source":{"databaseName":"d","containerName":"to"},"destination":{"databaseName":"d","containerName":"from"}}]}`, 1)
	with("PUT", "/copyJobs/j3", `{"properties":{`+two+`}}`, 200)
	untilEnded(t, func() string { return with("GET", "/copyJobs/j3", "", 200) })
	with("GET", "/dataTransferJobs/j3", "", 404)
	for list, want := range map[string]int{"/copyJobs": 3, "/dataTransferJobs": 2, armAccount + "/copyJobs": 3} {
		if got := strings.Count(with("GET", list, "", 200), `"name":"j`); got != want {
			t.Errorf("%s has %d jobs, want %d", list, got, want)
		}
	}

	for _, c := range []struct {
		method, target, body string
		want                 int
	}{
		{"GET", "/copyJobs/none", "", 404},
		{"GET", strings.Replace(armAccount, "decan", "other", 1) + "/copyJobs", "", 404},
		{"POST", "/copyJobs/j1/stop", "", 404},
		{"POST", "/copyJobs/none/pause", "", 404},
		{"PUT", "/copyJobs/j1", `{"properties":{` + tasks + `,"mode":"Online"}}`, 409},
		{"PUT", "/copyJobs/x", `{}`, 400},
		{"PUT", "/copyJobs/x", `{"properties":{}}`, 400},
		{"PUT", "/copyJobs/x", `{"properties":{` + tasks + `,"mode":"Sometimes"}}`, 400},
		{"PUT", "/copyJobs/x", `{"properties":{` + tasks + `,"workerCount":0}}`, 400},
		{"PUT", "/copyJobs/x", `{"properties":{` + tasks + `,"workerCount":1.5}}`, 400},
		{"PUT", "/copyJobs/x", `{"properties":{` + tasks + `,"decan":{"onFailure":"Perhaps"}}}`, 400},
		{"PUT", "/copyJobs/x", `{"properties":{` + strings.Replace(tasks, "NoSqlRUToNoSqlRU", "CassandraRUToCassandraRU", 1) + `}}`, 400},
		{"PUT", "/copyJobs/x", `{"properties":{` + strings.Replace(tasks, `"containerName":"to"`, `"containerName":"none"`, 1) + `}}`, 404},
		{"PUT", "/dataTransferJobs/x", `{"properties":{` + strings.Replace(source, "CosmosDBSql", "CosmosDBCassandra", 1) + `,` + destination + `}}`, 400},
		{"PUT", "/dataTransferJobs/x", `{"properties":{` + strings.Replace(source, "DECAN", "other", 1) + `,` + destination + `}}`, 400},
	} {
		with(c.method, c.target, c.body, c.want)
	}
	for _, target := range []string{"/copyJobs", "/copyJobs/j1", "/dataTransferJobs"} {
		if answer, _ := call(t, door, "GET", target, ""); answer.StatusCode != 401 {
			t.Errorf("%s without the key: %d", target, answer.StatusCode)
		}
	}
	without, _ := newDoor(t, nil)
	if answer, _ := call(t, without, "GET", "/copyJobs", "", "x-decan-key", auth.WellKnownKey); answer.StatusCode != 501 {
		t.Errorf("a server without copy jobs: %d", answer.StatusCode)
	}
}

// shownJob is a job as clients of the management API read it.
type shownJob struct {
	ID, Name, Type string
	Properties     struct {
		JobProperties struct {
			JobType string
			Tasks   []json.RawMessage
		}
		Mode, Status, Duration string
		Processed              int64  `json:"processedCount"`
		Total                  int64  `json:"totalCount"`
		Workers                int    `json:"workerCount"`
		Updated                string `json:"lastUpdatedUtcTime"`
	}
}

// untilEnded reads a job until it has ended.
func untilEnded(t *testing.T, read func() string) (job shownJob) {
	t.Helper()
	for !t.Failed() {
		if err := json.Unmarshal([]byte(read()), &job); err != nil {
			t.Fatal(err)
		}
		if job.Properties.Status != "Running" && job.Properties.Status != "Pending" {
			break
		}
	}
	return job
}
