package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logOf returns the newest log of a store after write, with its number.
func logOf(t testing.TB, write func(*Store)) (log []byte, number uint32) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	p := newPool(t, Options{FS: disk})
	s, err := p.Create("d/s")
	must(t, err)
	write(s)
	files := contents(t, disk, "d/s")
	must(t, s.Close())
	for base, text := range files {
		if n, isLog := logNumber(base); isLog && uint32(n) >= number {
			log, number = []byte(text), uint32(n)
		}
	}
	return log, number
}

// fillSized applies a row of the given size.
func fillSized(s *Store, i, size int) error {
	b := s.NewBatch()
	defer b.Close()
	return errors.Join(b.Set(fmt.Appendf(nil, "mrow%05d", i), bytes.Repeat([]byte{byte(i%250 + 1)}, size)), s.Apply(b))
}

// sampleLogs write logs with different kinds of batches.
func sampleLogs(t testing.TB) map[string]func(*Store) {
	return map[string]func(*Store){
		"small": func(s *Store) {
			for i := range 300 {
				must(t, fillSized(s, i, 20))
			}
		},
		"blocks": func(s *Store) {
			for i := range 60 {
				must(t, fillSized(s, i, 1000+i*37%5000))
			}
		},
		"large": func(s *Store) {
			for i := range 8 {
				must(t, fillSized(s, i, 20_000*(i%4)+10))
			}
		},
		"concurrent": func(s *Store) {
			var writers sync.WaitGroup
			for w := range 8 {
				writers.Go(func() {
					for i := range 30 {
						if err := fillSized(s, w*1000+i, 700); err != nil {
							t.Error(err)
						}
					}
				})
			}
			writers.Wait()
		},
	}
}

func scanLog(t testing.TB, log []byte, number uint32) *recordScan {
	t.Helper()
	s := &recordScan{isLog: true, number: number}
	must(t, s.read(bytes.NewReader(log)))
	return s
}

// chunksOf returns the begin and the end of each chunk of a valid log, and its synced
// offset.
func chunksOf(log []byte, number uint32) (begins, ends []int, synced []uint64) {
	for at := 0; at+plainHeader <= len(log); {
		block := log[at:min(len(log), at/blockBytes*blockBytes+blockBytes)]
		c, ok := readChunk(block, true, number)
		if !ok {
			if len(block) >= offsetHeader {
				break
			}
			at += len(block)
			continue
		}
		begins, ends, synced = append(begins, at), append(ends, at+c.size), append(synced, c.synced)
		at += c.size
	}
	return begins, ends, synced
}

// proven reports for each chunk of a log whether later chunks prove that it was synced.
func proven(begins []int, synced []uint64) []bool {
	all := make([]bool, len(begins))
	for i := range begins {
		different := map[uint64]bool{}
		for _, offset := range synced[i+1:] {
			different[offset] = true
			all[i] = all[i] || offset > uint64(begins[i])
		}
		all[i] = all[i] || len(different) >= syncsProve
	}
	return all
}

// otherLog returns a valid log with another number and chunks of the same sizes, like
// what remains after the end of a reused file.
func otherLog(log []byte, begins, ends []int) []byte {
	old := bytes.Clone(log)
	for i, at := range begins {
		old[at+plainHeader] ^= 0x40
		for j := at + offsetHeader; j < ends[i]; j++ {
			old[j] ^= 0x55
		}
		binary.LittleEndian.PutUint32(old[at:], chunkSum(old[at+plainHeader-1:ends[i]]))
	}
	return old
}

// A log that is cut at any byte is torn and not damaged, and the rows before the cut
// are read. The same holds if zeros or an older log follow the cut.
func TestCutLogIsTorn(t *testing.T) {
	t.Parallel()
	for name, write := range sampleLogs(t) {
		log, number := logOf(t, write)
		begins, ends, _ := chunksOf(log, number)
		if len(begins) < 8 {
			t.Fatalf("%s: a log of %d chunks", name, len(begins))
		}
		old := otherLog(log, begins, ends)
		random := rand.New(rand.NewPCG(1, 2))
		for range 400 {
			cut := random.IntN(len(log) + 1)
			for kind, tail := range map[string][]byte{"": nil, "zeros": make([]byte, len(log)-cut), "an older log": old[cut:]} {
				s := scanLog(t, append(log[:cut:cut], tail...), number)
				if s.damaged() {
					t.Fatalf("%s: cut at byte %d of %d, then %s: damaged, %+v", name, cut, len(log), kind, s.proof)
				}
				whole := 0
				for _, end := range ends {
					if end <= cut {
						whole = end
					}
				}
				if s.reach < int64(whole) || s.reach > int64(max(cut, whole)+offsetHeader) {
					t.Fatalf("%s: cut at byte %d, then %s: valid up to byte %d, want %d", name, cut, kind, s.reach, whole)
				}
			}
		}
	}
}

// A flipped bit of a log is damage if later chunks prove that the place was synced.
// With one writer at a time they do so for all but the last records.
func TestFlippedLogIsDamaged(t *testing.T) {
	t.Parallel()
	for name, write := range sampleLogs(t) {
		log, number := logOf(t, write)
		if s := scanLog(t, log, number); s.broken || s.damaged() {
			t.Fatalf("%s: the log as it was written: %+v", name, s)
		}
		begins, ends, synced := chunksOf(log, number)
		certain := proven(begins, synced)
		last := 0
		for i := range certain {
			if certain[i] {
				last = i
			}
		}
		if after := scanLog(t, log, number).records - scanLog(t, log[:ends[last]], number).records; name != "concurrent" && after > 3 {
			t.Errorf("%s: %d records follow the last one that is known to be synced", name, after)
		}
		for i := range begins {
			for at := begins[i]; at < ends[i]; at += max(1, (ends[i]-begins[i])/6) {
				flipped := bytes.Clone(log)
				flipped[at] ^= 1 << (at % 8)
				s := scanLog(t, flipped, number)
				if s.damaged() != certain[i] {
					t.Fatalf("%s: bit %d of byte %d, chunk %d of %d at %d: damaged %v, want %v (%+v)", name, at%8, at, i, len(begins), begins[i], s.damaged(), certain[i], s)
				}
				if s.reach != int64(begins[i]) && s.reach/blockBytes*blockBytes != s.reach {
					t.Fatalf("%s: byte %d in chunk %d: valid up to %d, want %d", name, at, i, s.reach, begins[i])
				}
			}
		}
	}
}

// makeChunk returns a whole record of a log in the current format.
func makeChunk(number uint32, synced uint64, payload string) []byte {
	c := make([]byte, offsetHeader, offsetHeader+len(payload))
	binary.LittleEndian.PutUint16(c[4:], uint16(len(payload)))
	c[6] = byte(formOffset)*chunkTypes + partWhole + 1
	binary.LittleEndian.PutUint32(c[7:], number)
	binary.LittleEndian.PutUint64(c[11:], synced)
	c = append(c, payload...)
	binary.LittleEndian.PutUint32(c, chunkSum(c[6:]))
	return c
}

// Two synced offsets after a place do not prove that it was synced: the sync that gave
// the second one may have begun before the place was written. Three do, as does an
// offset beyond the place. An offset beyond its own chunk is not from this log.
func TestSyncedOffsetsProve(t *testing.T) {
	t.Parallel()
	const number = 7
	first, broken := makeChunk(number, 0, "first"), makeChunk(number, 0, "broken")
	broken[len(broken)-1] ^= 1
	place := uint64(len(first))
	for name, c := range map[string]struct {
		synced []uint64
		want   bool
	}{
		"nothing follows":     {nil, false},
		"one offset":          {[]uint64{0, 0, 0, 0}, false},
		"two offsets":         {[]uint64{0, 5, 5, 5}, false},
		"three offsets":       {[]uint64{0, 5, place}, true},
		"beyond the place":    {[]uint64{place + 1}, true},
		"up to the place":     {[]uint64{place}, false},
		"beyond its chunk":    {[]uint64{1 << 20}, false},
		"beyond three chunks": {[]uint64{1 << 20, 2 << 20, 3 << 20}, false},
	} {
		log := append(bytes.Clone(first), broken...)
		for _, synced := range c.synced {
			log = append(log, makeChunk(number, synced, "later")...)
		}
		s := scanLog(t, log, number)
		if s.records != 1 || s.reach != int64(place) || s.damaged() != c.want {
			t.Errorf("%s: %d records up to %d, damaged %v, want 1 up to %d, %v", name, s.records, s.reach, s.damaged(), place, c.want)
		}
	}
}

// A manifest that is cut is torn. A flip in any edit but the last is damage, and so is
// any change to the records that were synced before a marker named the manifest.
func TestManifestDamage(t *testing.T) {
	t.Parallel()
	disk := killed(t, 100, true)
	p := newPool(t, Options{FS: disk})
	s, err := p.Open("d/s")
	must(t, err)
	for i := range 5 {
		must(t, fillRow(s, fmt.Sprintf("mrow%05d", 500+i)))
		must(t, s.Flush())
	}
	files := contents(t, disk, "d/s")
	must(t, s.Close())
	var manifest string
	for base := range files {
		if strings.HasPrefix(base, manifestPrefix) && base > manifest {
			manifest = base
		}
	}
	good := files[manifest]
	var ends []int
	scan := recordScan{}
	scan.record = func([]byte) { ends = append(ends, int(scan.reach)) }
	must(t, scan.read(strings.NewReader(good)))
	if len(ends) < 6 || scan.broken {
		t.Fatalf("manifest of %d edits: %+v", len(ends), scan)
	}
	judge := func(what string, text string, want bool) {
		t.Helper()
		changed := vfs.NewMem()
		must(t, changed.MkdirAll("d/s", 0o755))
		for base, content := range files {
			if base == manifest {
				content = text
			}
			writeFile(t, changed, "d/s/"+base, content)
		}
		e, err := examine(changed, "d/s")
		must(t, err)
		if damaged := e.err() != nil; damaged != want {
			t.Fatalf("%s of %d bytes, edits end at %d: damaged %v, want %v: %v", what, len(good), ends, damaged, want, e.err())
		}
	}
	for cut := range len(good) {
		judge(fmt.Sprintf("cut at byte %d", cut), good[:cut], cut < ends[1])
	}
	for at := range len(good) {
		flipped := []byte(good)
		flipped[at] ^= 1 << (at % 8)
		judge(fmt.Sprintf("bit %d of byte %d", at%8, at), string(flipped), at < ends[len(ends)-2])
	}
	judge("as it is", good, false)
	judge("with zeros", good+strings.Repeat("\x00", 5000), false)
}

func writeFile(t testing.TB, files vfs.FS, name, content string) {
	t.Helper()
	f, err := files.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, errors.Join(err, f.Sync(), f.Close()))
}

// FuzzExamineLog reads arbitrary bytes as a log: reading never fails, never exceeds the
// file, and finds no damage in a file that ends where its valid part ends.
func FuzzExamineLog(f *testing.F) {
	for _, write := range sampleLogs(f) {
		log, number := logOf(f, write)
		f.Add(log[:min(len(log), 36_000)], number, true)
	}
	f.Add([]byte{0, 0, 0, 0, 0, 0, 5, 3, 0, 0, 0}, uint32(2), true)
	f.Add(bytes.Repeat([]byte{1}, 100), uint32(0x01010101), false)
	f.Fuzz(func(t *testing.T, data []byte, number uint32, isLog bool) {
		s := recordScan{isLog: isLog, number: number, record: func(head []byte) {
			if len(head) > recordHead {
				t.Errorf("the beginning of a record has %d bytes", len(head))
			}
		}}
		must(t, s.read(bytes.NewReader(data)))
		if s.end > s.reach || s.reach > int64(len(data)) {
			t.Fatalf("%d bytes: records up to %d, chunks up to %d", len(data), s.end, s.reach)
		}
		again := recordScan{isLog: isLog, number: number}
		must(t, again.read(bytes.NewReader(data[:s.reach])))
		if again.reach != s.reach || again.end != s.end || again.records != s.records || again.damaged() {
			t.Fatalf("the valid part is read as %+v, before as %+v", again, s)
		}
		(&examinedLog{}).batch(data)
		(&examined{}).edit(data)
	})
}
