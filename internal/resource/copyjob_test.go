package resource

import (
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
)

// TestCopyJobValidate checks both sides of the limits of copy jobs, and the
// defaults.
func TestCopyJobValidate(t *testing.T) {
	t.Parallel()
	pair := func(n string) CopyTask {
		return CopyTask{Source: CopyEnd{Database: "d", Container: "s"}, Target: CopyEnd{Database: "d", Container: "t" + n}}
	}
	tasks := func(n int) (all []CopyTask) {
		for i := range n {
			all = append(all, pair(strings.Repeat("x", i)))
		}
		return all
	}
	for name, c := range map[string]struct {
		change func(*CopyJob)
		good   bool
	}{
		"as it is":            {func(*CopyJob) {}, true},
		"online":              {func(j *CopyJob) { j.Mode = CopyOnline }, true},
		"another mode":        {func(j *CopyJob) { j.Mode = "live" }, false},
		"mode in lower case":  {func(j *CopyJob) { j.Mode = "online" }, true},
		"one worker":          {func(j *CopyJob) { j.Workers = 1 }, true},
		"most workers":        {func(j *CopyJob) { j.Workers = CopyWorkersMax }, true},
		"too many workers":    {func(j *CopyJob) { j.Workers = CopyWorkersMax + 1 }, false},
		"fewer than none":     {func(j *CopyJob) { j.Workers = -1 }, false},
		"no tasks":            {func(j *CopyJob) { j.Tasks = nil }, false},
		"most tasks":          {func(j *CopyJob) { j.Tasks = tasks(CopyTasksMax) }, true},
		"too many tasks":      {func(j *CopyJob) { j.Tasks = tasks(CopyTasksMax + 1) }, false},
		"one target twice":    {func(j *CopyJob) { j.Tasks = append(tasks(1), tasks(1)...) }, false},
		"no database":         {func(j *CopyJob) { j.Tasks[0].Source.Database = "" }, false},
		"no container":        {func(j *CopyJob) { j.Tasks[0].Target.Container = "" }, false},
		"into itself":         {func(j *CopyJob) { j.Tasks[0].Target = j.Tasks[0].Source }, false},
		"no name":             {func(j *CopyJob) { j.Name = "" }, false},
		"the longest name":    {func(j *CopyJob) { j.Name = strings.Repeat("n", copyNameCharsMax) }, true},
		"a longer name":       {func(j *CopyJob) { j.Name = strings.Repeat("n", copyNameCharsMax+1) }, false},
		"all letters":         {func(j *CopyJob) { j.Name = "aZ09-_." }, true},
		"a slash in the name": {func(j *CopyJob) { j.Name = "a/b" }, false},
		"a leading dot":       {func(j *CopyJob) { j.Name = ".." }, false},
		"a name with umlauts": {func(j *CopyJob) { j.Name = "ü" }, false},
	} {
		job := CopyJob{Name: "j", Tasks: tasks(1)}
		c.change(&job)
		err := job.Validate()
		if (err == nil) != c.good || err != nil && status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (job.Mode != CopyOffline && job.Mode != CopyOnline || job.Workers == 0) {
			t.Errorf("%s: no defaults: %+v", name, job)
		}
	}
}
