package storage

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BenchmarkOpen opens a store that was closed, and one that was killed with a log of 4
// MB, and measures the search for damage in their files.
func BenchmarkOpen(b *testing.B) {
	closed := vfs.NewMem()
	p := newPool(b, Options{FS: closed})
	must(b, p.Build("d/s", func(s *Store) error {
		var errs []error
		for i := range 4000 {
			errs = append(errs, fillSized(s, i, 1000))
		}
		return errors.Join(errs...)
	}))
	crashable := vfs.NewCrashableMem()
	p = newPool(b, Options{FS: crashable})
	s, err := p.Create("d/s")
	must(b, err)
	for i := range 4000 {
		must(b, fillSized(s, i, 1000))
	}
	killed := crashable.CrashClone(vfs.CrashCloneCfg{})
	must(b, s.Close())
	for _, c := range []struct {
		name string
		disk *vfs.MemFS
	}{{"closed", closed}, {"killed", killed}} {
		b.Run(fmt.Sprintf("store=%s/work=examine", c.name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e, err := examine(c.disk, "d/s")
				must(b, errors.Join(err, e.err()))
			}
		})
		b.Run(fmt.Sprintf("store=%s/work=open", c.name), func(b *testing.B) {
			b.ReportAllocs()
			disk := c.disk
			for b.Loop() {
				b.StopTimer()
				if c.name == "killed" {
					disk = c.disk.CrashClone(vfs.CrashCloneCfg{})
				}
				p := newPool(b, Options{FS: disk})
				b.StartTimer()
				s, err := p.Open("d/s")
				must(b, err)
				b.StopTimer()
				must(b, s.Close())
				b.StartTimer()
			}
		})
	}
}
