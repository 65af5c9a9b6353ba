package resource

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// The limits of copy jobs.
const (
	// CopyJobsMax is how many jobs are kept. New jobs replace the oldest that
	// have ended.
	CopyJobsMax = 200

	// CopyTasksMax is how many pairs of containers one job may copy.
	CopyTasksMax = 32

	// CopyWorkersDefault and CopyWorkersMax bound the number of concurrent
	// writes of a job. A write waits for its sync, which it shares with other
	// writes to its partition, so several workers keep one partition busy.
	CopyWorkersDefault = 8
	CopyWorkersMax     = 64

	// CopyFailuresMax is how many documents that could not be copied are
	// recorded; all of them are counted.
	CopyFailuresMax = 100

	copyNameCharsMax = 100
)

// CopyMode says when a copy job ends.
type CopyMode string

// The modes, as clients write them.
const (
	CopyOffline CopyMode = "Offline" // when the documents that existed at its start are copied
	CopyOnline  CopyMode = "Online"  // when it is told to end; until then it follows the changes
)

// CopyStatus is the state of a copy job.
type CopyStatus string

// The states of a job, as clients read them.
const (
	CopyPending   CopyStatus = "Pending"   // waits for a free slot
	CopyRunning   CopyStatus = "Running"   // copies, or follows changes
	CopyPaused    CopyStatus = "Paused"    // waits for resume
	CopyCompleted CopyStatus = "Completed" // has copied everything
	CopyCancelled CopyStatus = "Cancelled" // was cancelled; the copied documents stay
	CopyFaulted   CopyStatus = "Faulted"   // failed on a document or container; may be resumed
)

// Ended reports whether a job has ended for good.
func (s CopyStatus) Ended() bool { return s == CopyCompleted || s == CopyCancelled }

// Active reports whether a job is working, or will work without a command.
func (s CopyStatus) Active() bool { return s == CopyPending || s == CopyRunning }

// CopyJob copies the documents of containers into other containers. It is the
// stored form: the request and the progress.
type CopyJob struct {
	Name    string     `json:"name"`
	Number  uint64     `json:"number"` // increases with every job
	Mode    CopyMode   `json:"mode"`
	Workers int        `json:"workers"`
	Tasks   []CopyTask `json:"tasks"`

	// Skip continues after documents that cannot be copied, and counts them.
	// Otherwise the first of them makes the job fail.
	Skip bool `json:"skip,omitempty"`

	// Mirror removes documents from the targets before the job ends that the
	// sources no longer have. The targets were empty when the job was created.
	Mirror bool `json:"mirror,omitempty"`

	Status     CopyStatus `json:"status"`
	CaughtUp   bool       `json:"caughtUp,omitempty"`   // an online job has reached the end of the feed once
	Completing bool       `json:"completing,omitempty"` // an online job was told to end
	Error      *CopyError `json:"error,omitempty"`      // why it is faulted

	Skipped  int64         `json:"skipped,omitempty"`  // documents that could not be copied
	Failures []CopyFailure `json:"failures,omitempty"` // the first of these documents

	Created time.Time     `json:"created"`
	Updated time.Time     `json:"updated"`
	Worked  time.Duration `json:"worked"` // total time that it has been running
}

// CopyTask is a pair of containers of a job.
type CopyTask struct {
	Source CopyEnd `json:"source"`
	Target CopyEnd `json:"target"`

	Processed int64 `json:"processed"` // documents and changes that have been processed
	Total     int64 `json:"total"`     // Processed plus an upper bound of what is known to remain
	Removed   int64 `json:"removed,omitempty"`

	ReadCharge  float64 `json:"readCharge"`  // request units spent on the source
	WriteCharge float64 `json:"writeCharge"` // request units spent on the target

	Ranges []CopyRange `json:"ranges,omitempty"` // of the source; empty until the task begins
	Sweep  []CopyRange `json:"sweep,omitempty"`  // of the target, while a mirror removes documents
	Done   bool        `json:"done,omitempty"`
}

// CopyEnd is the source or target container of a task, as the job was given it.
type CopyEnd struct {
	Database  string `json:"database"`
	Container string `json:"container"`
	RID       RID    `json:"rid"` // another container with the same name does not count
}

// CopyRange is how far a key range of a container's feed has been read.
type CopyRange struct {
	Range partitionkey.Range `json:"range"`
	After ETag               `json:"after,omitempty"` // position; empty: the beginning
	Stop  LSN                `json:"stop,omitempty"`  // where to end; zero: at the end of the feed
	Done  bool               `json:"done,omitempty"`
}

// CopyError is why a job is faulted.
type CopyError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// CopyFailure is a document that could not be copied.
type CopyFailure struct {
	Task    int    `json:"task"` // index of its pair of containers
	ID      string `json:"id"`
	Key     string `json:"key"` // in the source, as JSON
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Validate fills in defaults and returns status 400 for an invalid job. It does
// not check that the containers exist.
func (j *CopyJob) Validate() error {
	if err := validCopyName(j.Name); err != nil {
		return err
	}
	switch mode := string(j.Mode); {
	case mode == "", strings.EqualFold(mode, string(CopyOffline)):
		j.Mode = CopyOffline
	case strings.EqualFold(mode, string(CopyOnline)):
		j.Mode = CopyOnline
	default:
		return status.BadRequest("The mode %q of the copy job is neither Offline nor Online.", clip(string(j.Mode)))
	}
	if j.Workers == 0 {
		j.Workers = CopyWorkersDefault
	}
	if j.Workers < 1 || j.Workers > CopyWorkersMax {
		return status.BadRequest("A copy job has 1 to %d workers, not %d.", CopyWorkersMax, j.Workers)
	}
	if n := len(j.Tasks); n < 1 || n > CopyTasksMax {
		return status.BadRequest("A copy job has 1 to %d pairs of containers, not %d.", CopyTasksMax, n)
	}
	targets := map[CopyEnd]bool{}
	for _, t := range j.Tasks {
		for _, end := range []CopyEnd{t.Source, t.Target} {
			if end.Database == "" || end.Container == "" {
				return status.BadRequest("The source and the destination of a copy job each need a databaseName and a containerName.")
			}
		}
		if t.Source.same(t.Target) {
			return status.BadRequest("The container %s cannot be copied into itself.", t.Source)
		}
		named := CopyEnd{Database: t.Target.Database, Container: t.Target.Container}
		if targets[named] {
			return status.BadRequest("The container %s is the destination of two tasks of one copy job.", t.Target)
		}
		targets[named] = true
	}
	return nil
}

func validCopyName(name string) error {
	good := name != "" && len(name) <= copyNameCharsMax && name[0] != '.'
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		good = good && (letter || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}
	if !good {
		return status.BadRequest("The name %q of the copy job is not valid: 1 to %d letters, digits, hyphens, underscores and full stops, not beginning with a full stop.", clip(name), copyNameCharsMax)
	}
	return nil
}

// String names the container as people write it.
func (e CopyEnd) String() string { return fmt.Sprintf("%s/%s", clip(e.Database), clip(e.Container)) }

func (e CopyEnd) same(o CopyEnd) bool { return e.Database == o.Database && e.Container == o.Container }

// SameRequest reports whether two jobs were requested with the same parameters,
// whatever their progress is.
func (j *CopyJob) SameRequest(o *CopyJob) bool {
	same := func(a, b CopyTask) bool { return a.Source.same(b.Source) && a.Target.same(b.Target) }
	return j.Name == o.Name && j.Mode == o.Mode && j.Workers == o.Workers && j.Skip == o.Skip && j.Mirror == o.Mirror &&
		slices.EqualFunc(j.Tasks, o.Tasks, same)
}

// Clone returns a copy that shares nothing that changes.
func (j *CopyJob) Clone() CopyJob {
	c := *j
	c.Tasks = slices.Clone(j.Tasks)
	for i := range c.Tasks {
		c.Tasks[i].Ranges = slices.Clone(c.Tasks[i].Ranges)
		c.Tasks[i].Sweep = slices.Clone(c.Tasks[i].Sweep)
	}
	c.Failures = slices.Clone(j.Failures)
	if j.Error != nil {
		reason := *j.Error
		c.Error = &reason
	}
	return c
}

// Processed returns the number of documents and changes that all tasks have
// processed.
func (j *CopyJob) Processed() int64 {
	var n int64
	for _, t := range j.Tasks {
		n += t.Processed
	}
	return n
}

// Total returns Processed plus what is known to remain.
func (j *CopyJob) Total() int64 {
	var n int64
	for _, t := range j.Tasks {
		n += t.Total
	}
	return n
}
