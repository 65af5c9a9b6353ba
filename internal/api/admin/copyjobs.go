package admin

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// A copy job has two forms in the service's management API: copyJobs, with a list of
// tasks, and the older dataTransferJobs, with one source and one destination.
const (
	copyJobsPath      = "/copyJobs"
	transferJobsPath  = "/dataTransferJobs"
	copyJobsType      = "Microsoft.DocumentDB/databaseAccounts/copyJobs"
	transferJobsType  = "Microsoft.DocumentDB/databaseAccounts/dataTransferJobs"
	copyJobType       = "NoSqlRUToNoSqlRU"
	transferComponent = "CosmosDBSql"
)

// jobForm is one of the two forms.
type jobForm struct {
	path, kind string
	read       func(properties value.Value, job *resource.CopyJob, account string) error
	write      func(job *resource.CopyJob) (members []value.Member, shown bool)
}

var jobForms = [...]jobForm{
	{copyJobsPath, copyJobsType, readCopyJob, writeCopyJob},
	{transferJobsPath, transferJobsType, readTransferJob, writeTransferJob},
}

// copyRoutes adds the paths of copy jobs to the table.
func (h *handler) copyRoutes(mux *http.ServeMux) {
	for _, form := range jobForms {
		for _, account := range []string{accountPath, ""} {
			list := account + form.path
			one := list + "/{job}"
			mux.HandleFunc("GET "+list, h.keyed(h.listJobs(form)))
			mux.HandleFunc("GET "+one, h.keyed(h.readJob(form)))
			mux.HandleFunc("PUT "+one, h.keyed(h.createJob(form)))
			mux.HandleFunc("POST "+one+"/{verb}", h.keyed(h.changeJob(form)))
		}
	}
}

// ofThisAccount refuses the paths of other accounts, and all requests if the server has
// no copy jobs.
func (h *handler) ofThisAccount(hr *http.Request) error {
	if h.jobs == nil {
		return status.New(status.CodeNotImplemented, 0, "This server has no copy jobs.")
	}
	_, err := h.managed(hr)
	return err
}

func (h *handler) listJobs(form jobForm) operation {
	return func(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
		if err := h.ofThisAccount(hr); err != nil {
			return err
		}
		jobs, err := h.jobs.List(caller)
		if err != nil {
			return err
		}
		list := []value.Value{}
		for i := range jobs {
			if answer, shown := form.answer(strings.TrimSuffix(hr.URL.Path, "/"), &jobs[i]); shown {
				list = append(list, answer)
			}
		}
		answer := value.Object([]value.Member{{Name: "value", Value: value.Array(list)}})
		writeJSON(hw, http.StatusOK, answer.Append(nil))
		return nil
	}
}

func (h *handler) readJob(form jobForm) operation {
	return func(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
		if err := h.ofThisAccount(hr); err != nil {
			return err
		}
		job, err := h.jobs.Get(caller, hr.PathValue("job"))
		if err != nil {
			return err
		}
		return form.show(hw, hr, &job)
	}
}

func (h *handler) createJob(form jobForm) operation {
	return func(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
		if err := h.ofThisAccount(hr); err != nil {
			return err
		}
		body, err := h.readObject(hw, hr)
		if err != nil {
			return err
		}
		asked := resource.CopyJob{Name: hr.PathValue("job")}
		if err := readJobProperties(body, &asked); err != nil {
			return err
		}
		if err := form.read(body.Get("properties"), &asked, h.engine.Account().ID); err != nil {
			return err
		}
		job, err := h.jobs.Create(hr.Context(), caller, asked)
		if err != nil {
			return err
		}
		return form.show(hw, hr, &job)
	}
}

// changeJob answers POST .../{job}/pause, resume, cancel and complete.
func (h *handler) changeJob(form jobForm) operation {
	return func(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
		if err := h.ofThisAccount(hr); err != nil {
			return err
		}
		verbs := map[string]func() (resource.CopyJob, error){}
		name := hr.PathValue("job")
		verbs["pause"] = func() (resource.CopyJob, error) { return h.jobs.Pause(hr.Context(), caller, name) }
		verbs["resume"] = func() (resource.CopyJob, error) { return h.jobs.Resume(hr.Context(), caller, name) }
		verbs["cancel"] = func() (resource.CopyJob, error) { return h.jobs.Cancel(hr.Context(), caller, name) }
		verbs["complete"] = func() (resource.CopyJob, error) { return h.jobs.Complete(hr.Context(), caller, name) }
		change, known := verbs[strings.ToLower(hr.PathValue("verb"))]
		if !known {
			return status.New(status.CodeNotFound, 0, "A copy job has the verbs pause, resume, cancel and complete, not %.40q.", hr.PathValue("verb"))
		}
		job, err := change()
		if err != nil {
			return err
		}
		return form.show(hw, hr, &job)
	}
}

// show answers with a job in this form, or 404 if it does not have this form.
func (f jobForm) show(hw http.ResponseWriter, hr *http.Request, job *resource.CopyJob) error {
	before, _, _ := strings.Cut(hr.URL.Path, f.path)
	answer, shown := f.answer(before+f.path, job)
	if !shown {
		return status.New(status.CodeNotFound, 0, "The copy job %q has %d tasks, and a data transfer job has one: read it at %s.", job.Name, len(job.Tasks), copyJobsPath)
	}
	writeJSON(hw, http.StatusOK, answer.Append(nil))
	return nil
}

// answer returns a job in this form; list is the path of the list of jobs.
func (f jobForm) answer(list string, job *resource.CopyJob) (value.Value, bool) {
	members, shown := f.write(job)
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(list + "/" + job.Name)},
		{Name: "name", Value: value.String(job.Name)},
		{Name: "type", Value: value.String(f.kind)},
		{Name: "properties", Value: value.Object(append(members, jobMembers(job)...))},
	}), shown
}

// jobMembers returns the members of a job in both forms.
func jobMembers(job *resource.CopyJob) []value.Member {
	members := []value.Member{
		{Name: "mode", Value: value.String(string(job.Mode))},
		{Name: "status", Value: value.String(string(job.Status))},
		{Name: "processedCount", Value: value.Int(job.Processed())},
		{Name: "totalCount", Value: value.Int(job.Total())},
		{Name: "workerCount", Value: value.Int(int64(job.Workers))},
		{Name: "lastUpdatedUtcTime", Value: value.String(job.Updated.UTC().Format("2006-01-02T15:04:05.0000000Z"))},
		{Name: "duration", Value: value.String(clockTime(job.Worked))},
	}
	if job.Error != nil {
		members = append(members, value.Member{Name: "error", Value: value.Object([]value.Member{
			{Name: "code", Value: value.String(job.Error.Code)},
			{Name: "message", Value: value.String(job.Error.Message)},
		})})
	}
	return append(members, value.Member{Name: "decan", Value: decanMembers(job)})
}

// decanMembers returns the members that only Decan has.
func decanMembers(job *resource.CopyJob) value.Value {
	var read, write float64
	var removed int64
	for _, t := range job.Tasks {
		read, write, removed = read+t.ReadCharge, write+t.WriteCharge, removed+t.Removed
	}
	failures := make([]value.Value, len(job.Failures))
	for i, f := range job.Failures {
		failures[i] = value.Object([]value.Member{
			{Name: "task", Value: value.Int(int64(f.Task))},
			{Name: "id", Value: value.String(f.ID)},
			{Name: "partitionKey", Value: value.String(f.Key)},
			{Name: "code", Value: value.String(f.Code)},
			{Name: "message", Value: value.String(f.Message)},
		})
	}
	onFailure := "Fault"
	if job.Skip {
		onFailure = "Skip"
	}
	return value.Object([]value.Member{
		{Name: "onFailure", Value: value.String(onFailure)},
		{Name: "mirror", Value: value.Bool(job.Mirror)},
		{Name: "caughtUp", Value: value.Bool(job.CaughtUp)},
		{Name: "completing", Value: value.Bool(job.Completing)},
		{Name: "sourceCharge", Value: value.Number(round(read))},
		{Name: "destinationCharge", Value: value.Number(round(write))},
		{Name: "removedCount", Value: value.Int(removed)},
		{Name: "skippedCount", Value: value.Int(job.Skipped)},
		{Name: "skipped", Value: value.Array(failures)},
	})
}

// clockTime writes a duration like the service: hours, minutes, seconds.
func clockTime(d time.Duration) string {
	seconds := int64(d / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

// readJobProperties reads the members of both forms.
func readJobProperties(body value.Value, job *resource.CopyJob) error {
	properties := body.Get("properties")
	if properties.Kind() != value.KindObject {
		return status.BadRequest("The body of a copy job has no object 'properties'.")
	}
	if err := misplaced(body, []string{"properties"}, "mode", "workerCount", "decan"); err != nil {
		return err
	}
	if err := misplaced(body, []string{"properties", "decan"}, "onFailure", "mirror"); err != nil {
		return err
	}
	mode := properties.Get("mode")
	if mode.Kind() > value.KindNull && mode.Kind() != value.KindString {
		return status.BadRequest("The property 'mode' is %.40s. It must be Offline or Online.", mode.JSON())
	}
	job.Mode = resource.CopyMode(mode.Text())
	for _, known := range []resource.CopyMode{resource.CopyOffline, resource.CopyOnline} {
		if strings.EqualFold(string(job.Mode), string(known)) {
			job.Mode = known
		}
	}
	if count := properties.Get("workerCount"); count.Kind() > value.KindNull {
		n, whole := count.Int64()
		if !whole || n < 1 || n > resource.CopyWorkersMax {
			return status.BadRequest("The property 'workerCount' is %.40s. It must be a whole number from 1 to %d.", count.JSON(), resource.CopyWorkersMax)
		}
		job.Workers = int(n)
	}
	return readDecanMembers(properties.Get("decan"), job)
}

// readDecanMembers reads the members that only Decan has. A null is like a missing member.
func readDecanMembers(ours value.Value, job *resource.CopyJob) error {
	onFailure, mirror := ours.Get("onFailure"), ours.Get("mirror")
	switch {
	case strings.EqualFold(onFailure.Text(), "Skip"):
		job.Skip = true
	case onFailure.Kind() > value.KindNull && !strings.EqualFold(onFailure.Text(), "Fault"):
		return status.BadRequest("The property 'onFailure' is %.40s. It must be Fault or Skip.", onFailure.JSON())
	}
	if mirror.Kind() > value.KindNull && mirror.Kind() != value.KindBool {
		return status.BadRequest("The property 'mirror' is %.40s. It must be true or false.", mirror.JSON())
	}
	job.Mirror = mirror.IsTrue()
	return nil
}

// readCopyJob reads the tasks of the newer form.
func readCopyJob(properties value.Value, job *resource.CopyJob, account string) error {
	asked := properties.Get("jobProperties")
	if kind := asked.Get("jobType").Text(); kind != "" && !strings.EqualFold(kind, copyJobType) {
		return status.Unsupported("A copy job of the type " + kind)
	}
	for _, end := range []string{"sourceDetails", "destinationDetails"} {
		if err := localAccount(asked.Get(end), account); err != nil {
			return err
		}
	}
	for _, task := range asked.Get("tasks").Items() {
		job.Tasks = append(job.Tasks, resource.CopyTask{Source: readEnd(task.Get("source")), Target: readEnd(task.Get("destination"))})
	}
	return nil
}

// readTransferJob reads the one task of the older form.
func readTransferJob(properties value.Value, job *resource.CopyJob, account string) error {
	source, target := properties.Get("source"), properties.Get("destination")
	for _, end := range []value.Value{source, target} {
		if component := end.Get("component").Text(); component != "" && !strings.EqualFold(component, transferComponent) {
			return status.Unsupported("A data transfer with the component " + component)
		}
		if err := localAccount(end, account); err != nil {
			return err
		}
	}
	job.Tasks = []resource.CopyTask{{Source: readEnd(source), Target: readEnd(target)}}
	return nil
}

// localAccount refuses a source or destination in another account.
func localAccount(end value.Value, account string) error {
	if remote := end.Get("remoteAccountName").Text(); remote != "" && !strings.EqualFold(remote, account) {
		return status.Unsupported("A copy job between accounts (remoteAccountName)")
	}
	return nil
}

func readEnd(end value.Value) resource.CopyEnd {
	return resource.CopyEnd{Database: end.Get("databaseName").Text(), Container: end.Get("containerName").Text()}
}

func writeCopyJob(job *resource.CopyJob) ([]value.Member, bool) {
	tasks := make([]value.Value, len(job.Tasks))
	for i, t := range job.Tasks {
		tasks[i] = value.Object([]value.Member{
			{Name: "source", Value: value.Object(endMembers(t.Source))},
			{Name: "destination", Value: value.Object(endMembers(t.Target))},
			{Name: "processedCount", Value: value.Int(t.Processed)},
			{Name: "totalCount", Value: value.Int(t.Total)},
		})
	}
	return []value.Member{{Name: "jobProperties", Value: value.Object([]value.Member{
		{Name: "jobType", Value: value.String(copyJobType)},
		{Name: "tasks", Value: value.Array(tasks)},
	})}}, true
}

// writeTransferJob reports false for a job with several tasks.
func writeTransferJob(job *resource.CopyJob) ([]value.Member, bool) {
	component := value.Member{Name: "component", Value: value.String(transferComponent)}
	return []value.Member{
		{Name: "jobName", Value: value.String(job.Name)},
		{Name: "source", Value: value.Object(append([]value.Member{component}, endMembers(job.Tasks[0].Source)...))},
		{Name: "destination", Value: value.Object(append([]value.Member{component}, endMembers(job.Tasks[0].Target)...))},
	}, len(job.Tasks) == 1
}

func endMembers(end resource.CopyEnd) []value.Member {
	return []value.Member{
		{Name: "databaseName", Value: value.String(end.Database)},
		{Name: "containerName", Value: value.String(end.Container)},
	}
}
