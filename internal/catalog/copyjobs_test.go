package catalog_test

import (
	"fmt"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// TestCopyJobRows keeps jobs over a restart, oldest first, and separate from the
// versions.
func TestCopyJobRows(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	c, shut, err := onDisk(disk)
	if err != nil {
		t.Fatal(err)
	}
	before := c.View().Version()
	for i, name := range []string{"z", "a", "m", "z"} { // z is stored twice
		job := resource.CopyJob{Name: name, Number: uint64(min(i, 2)), Status: resource.CopyRunning, Tasks: []resource.CopyTask{{Processed: int64(i)}}}
		if name == "z" {
			job.Number = 0
		}
		if err := c.PutCopyJob(&job); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteCopyJob("a"); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteCopyJob("never there"); err != nil {
		t.Fatal(err)
	}
	if now := c.View().Version(); now != before {
		t.Errorf("the version rose from %d to %d", before, now)
	}
	shut()
	c = opened(t, disk)
	jobs, err := c.CopyJobs()
	got := ""
	for _, job := range jobs {
		got += fmt.Sprintf("%s %d %s; ", job.Name, job.Tasks[0].Processed, job.Status)
	}
	if want := "z 3 Running; m 2 Running; "; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// A job that could not be stored stops the catalog as a commit does.
func TestCopyJobNotStored(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	c := opened(t, disk)
	disk.FailFrom(1)
	job := resource.CopyJob{Name: "j"}
	if err := c.PutCopyJob(&job); status.CodeOf(err) != status.CodeUnavailable || !catalog.OutcomeUnknown(err) {
		t.Errorf("the first: %v", err)
	}
	disk.Heal()
	if err := c.DeleteCopyJob("j"); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("the next: %v", err)
	}
}
