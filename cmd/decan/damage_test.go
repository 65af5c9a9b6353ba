package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// inserted is a document whose write was acknowledged.
type inserted struct {
	get servertest.Request
	at  time.Time
}

// template is a data directory that was killed under load.
type template struct {
	dir       string
	files     []string // relative names
	dirs      []string // relative names
	old, late []inserted
}

const (
	// markAge is the age from which the loss of an acknowledged write must be detected.
	markAge = time.Second
	// damageTrials is the number of trials of `go test`.
	damageTrials = 40
	// damageProgress is the number of trials between two reports of the long job.
	damageProgress = 100
)

// killedUnderLoad writes documents to several containers, one of which splits, and kills
// the server.
func killedUnderLoad(t *testing.T, seed uint64) *template {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	p := spawn(t, "--data", dir, "--limits", "laptop")
	client, err := servertest.Dial(p.address)
	if err != nil {
		t.Fatal(err)
	}
	send := func(link, body string, headers ...string) {
		t.Helper()
		if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", link, []byte(body), headers...), "a definition", 201); err != nil {
			t.Fatal(err)
		}
	}
	send("dbs", `{"id":"d"}`)
	for _, name := range []string{"a", "b", "c"} {
		send("dbs/d/colls", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"]}}`, name), "x-ms-offer-throughput", "4000")
	}
	client.Close()
	p.kill()
	// The catalog does not name this directory: the next start moves it to the quarantine.
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "p", "unknown"), 0o700), os.WriteFile(filepath.Join(dir, "p", "unknown", "file"), []byte("something"), 0o600)); err != nil {
		t.Fatal(err)
	}
	p = spawn(t, "--data", dir, "--limits", "laptop", "--physical-partition-max", "600KB")
	var mu sync.Mutex
	var all []inserted
	var writers sync.WaitGroup
	for w := range 6 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			i := 0
			untilDead(t, p.address, func(client *servertest.Client) error {
				i++
				name, id := "aab"[w%3:w%3+1], fmt.Sprintf("%d-%d", w, i)
				if random.IntN(9) == 0 {
					name = "c"
				}
				key, link := fmt.Sprintf(`["%d"]`, i%50), "dbs/d/colls/"+name+"/docs"
				body := fmt.Appendf(nil, `{"id":%q,"pk":"%d","pad":%q}`, id, i%50, bytes.Repeat([]byte{'a' + byte(i%26)}, random.IntN(1500)))
				if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", link, body, "x-ms-documentdb-partitionkey", key), "a write", 201, 429, 410, 449, 503); err != nil {
					return err
				}
				get := servertest.Prepare(server.WellKnownKey, "GET", link+"/"+id, nil, "x-ms-documentdb-partitionkey", key)
				response, err := client.Do(get)
				if err == nil && response.Status == 200 {
					mu.Lock()
					all = append(all, inserted{get, time.Now()})
					mu.Unlock()
				}
				pause := time.NewTimer(time.Duration(random.IntN(25)) * time.Millisecond)
				<-pause.C // So that the load lasts for some seconds without many documents.
				return err
			})
		})
	}
	// These writes keep the log of the catalog from being empty. Each database has a new
	// name, because the last one may have been created just before the process died.
	writers.Go(func() {
		i := 0
		untilDead(t, p.address, func(client *servertest.Client) error {
			i++
			name := fmt.Sprintf("made-%d", i)
			if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", "dbs", fmt.Appendf(nil, `{"id":%q}`, name)), "a database", 201, 429); err != nil {
				return err
			}
			pause := time.NewTimer(20 * time.Millisecond)
			<-pause.C
			_, err := ask(client, servertest.Prepare(server.WellKnownKey, "DELETE", "dbs/"+name, nil), "a deletion", 204, 404, 429)
			return err
		})
	})
	// Wait for enough documents, and then until they are old.
	for deadline := time.Now().Add(startTime); ; {
		tick := time.NewTimer(50 * time.Millisecond)
		<-tick.C
		mu.Lock()
		written := len(all)
		mu.Unlock()
		if written >= 500 || time.Now().After(deadline) {
			break
		}
	}
	life := time.NewTimer(3 * markAge / 2)
	<-life.C
	p.kill()
	end := time.Now()
	writers.Wait()
	made := &template{dir: dir}
	for _, d := range all {
		if end.Sub(d.at) > markAge {
			made.old = append(made.old, d)
		} else {
			made.late = append(made.late, d)
		}
	}
	made.files = slices.Sorted(maps.Keys(filesBelow(t, dir)))
	made.dirs = dirsBelow(t, dir)
	if len(made.old) < 50 {
		t.Fatalf("only %d documents are older than %s", len(made.old), markAge)
	}
	return made
}

// filesBelow reads every file of a directory.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err == nil {
			relative, _ := filepath.Rel(dir, name)
			found[relative] = string(content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// dirsBelow returns the relative names of the directories below another.
func dirsBelow(t *testing.T, dir string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != dir {
			relative, _ := filepath.Rel(dir, name)
			dirs = append(dirs, relative)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// harm is the damage of one file or directory.
type harm struct {
	kind string // flip, cut or remove
	file string
	at   int // bit or length
	what string
}

func (h harm) String() string { return fmt.Sprintf("%s %s at %d", h.kind, h.file, h.at) }

// fileKind is the kind of a file, for the choice and the table of results.
func fileKind(name string) string {
	parts := strings.Split(name, string(filepath.Separator))
	base, where := parts[len(parts)-1], "partition"
	switch {
	case len(parts) == 1:
		return base
	case parts[0] == "quarantine":
		return parts[0]
	case parts[0] != "p":
		where = parts[0]
	}
	switch {
	case strings.HasPrefix(base, "marker."):
		base = "marker"
	case strings.HasPrefix(base, "MANIFEST"):
		base = "manifest"
	case strings.HasPrefix(base, "OPTIONS"):
		base = "options"
	case filepath.Ext(base) != "":
		base = strings.TrimPrefix(filepath.Ext(base), ".")
	}
	return where + " " + base
}

// dirKind is the kind of a directory.
func dirKind(name string) string {
	switch parts := strings.Split(name, string(filepath.Separator)); {
	case parts[0] == "quarantine":
		return "directory quarantine"
	case parts[0] == "p" && len(parts) == 3:
		return "directory of a partition"
	case parts[0] == "p" && len(parts) == 2:
		return "directory of a container"
	default:
		return "directory " + name
	}
}

// flipEvery is the distance of flipped bits.
const flipEvery = 500

// cutEvery is the approximate distance of the lengths to which a file is truncated.
const cutEvery = 500

// enumerate returns every harm of the directory, by kind: for each file flips of every
// 500th bit, a truncation at a random place in each 500 bytes, and the removal; and the
// removal of each directory. The order within a kind is random: of ten harms, six are
// flips, two truncations and two removals, while there are any.
func (m *template) enumerate(t *testing.T, random *rand.Rand) map[string][]harm {
	t.Helper()
	type queues struct{ flips, cuts, removals []harm }
	byKind := map[string]*queues{}
	of := func(kind string) *queues {
		if byKind[kind] == nil {
			byKind[kind] = &queues{}
		}
		return byKind[kind]
	}
	for _, name := range m.files {
		info, err := os.Stat(filepath.Join(m.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kind, size := fileKind(name), int(info.Size())
		q := of(kind)
		for bit := 0; bit < 8*size; bit += flipEvery {
			q.flips = append(q.flips, harm{"flip", name, bit, kind})
		}
		for from := 0; from < size; from += cutEvery {
			q.cuts = append(q.cuts, harm{"cut", name, from + random.IntN(min(cutEvery, size-from)), kind})
		}
		q.removals = append(q.removals, harm{"remove", name, 0, kind})
	}
	for _, name := range m.dirs {
		kind := dirKind(name)
		of(kind).removals = append(of(kind).removals, harm{"remove", name, 0, kind})
	}
	all := map[string][]harm{}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		q := byKind[kind]
		for _, list := range [][]harm{q.flips, q.cuts, q.removals} {
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		take := func(from *[]harm, n int) {
			n = min(n, len(*from))
			all[kind] = append(all[kind], (*from)[:n]...)
			*from = (*from)[n:]
		}
		for len(q.flips)+len(q.cuts)+len(q.removals) > 0 {
			take(&q.removals, 1)
			take(&q.flips, 3)
			take(&q.cuts, 1)
			take(&q.flips, 3)
			take(&q.removals, 1)
			take(&q.cuts, 1)
		}
	}
	return all
}

// choose picks the harms of a run: one of each kind in turn, beginning with a random
// kind. None occurs twice.
func choose(all map[string][]harm, trials int, random *rand.Rand) (chosen []harm) {
	kinds := slices.Sorted(maps.Keys(all))
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for round, some := 0, true; some; round++ {
		some = false
		for _, kind := range kinds {
			if round < len(all[kind]) {
				some = true
				if chosen = append(chosen, all[kind][round]); len(chosen) == trials {
					return chosen
				}
			}
		}
	}
	return chosen
}

func (h harm) do(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, h.file)
	var err error
	switch h.kind {
	case "remove":
		err = os.RemoveAll(name)
	case "cut":
		err = os.Truncate(name, int64(h.at))
	default:
		var content []byte
		if content, err = os.ReadFile(name); err == nil {
			content[h.at/8] ^= 1 << (h.at % 8)
			err = os.WriteFile(name, content, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// harmed is the result of a trial.
type harmed struct {
	refused bool // the server did not start
	closed  int  // reads of documents that failed
	lost    int  // missing old documents
	late    int  // missing documents of the last second
	problem string
}

// try harms a copy, starts a server and reads everything.
func (m *template) try(t *testing.T, h harm) harmed {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(m.dir)); err != nil {
		t.Fatal(err)
	}
	h.do(t, dir)
	before := filesBelow(t, dir)
	var log lockedBuffer
	s, err := server.Start(context.Background(), server.Config{
		Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}, Data: dir, Partitions: server.PartitionOptions{Preset: "laptop"}, Clock: server.ClockOptions{Skew: -1},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	var o harmed
	if err != nil {
		o.refused = true
		if !h.names(err.Error() + log.String()) {
			o.problem = fmt.Sprintf("the refusal does not name the file: %v\n%s", err, log.String())
		}
		o.problem += kept(before, filesBelow(t, dir), filepath.Dir(h.file), true, false)
		return o
	}
	address, _ := url.Parse(s.Endpoint())
	client, err := servertest.Dial(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	read := func(d inserted) (missing bool) {
		response, err := client.Do(d.get)
		switch {
		case err != nil:
			o.problem = err.Error()
		case response.Status == 404:
			return true
		case response.Status != 200:
			o.closed++
		}
		return false
	}
	for _, d := range m.old {
		if read(d) {
			o.lost++
		}
	}
	for _, d := range m.late {
		if read(d) {
			o.late++
		}
	}
	client.Close()
	if err := s.Close(); err != nil && o.closed == 0 {
		o.problem += fmt.Sprintf("close: %v\n", err)
	}
	if o.closed > 0 && !h.names(log.String()) {
		o.problem += fmt.Sprintf("%d documents are refused and the log does not name the file\n%s", o.closed, log.String())
	}
	if o.lost > 0 {
		o.problem += log.String()
	}
	o.problem += kept(before, filesBelow(t, dir), filepath.Dir(h.file), false, o.closed > 0)
	return o
}

// names reports whether a text names the harmed file. For a marker its kind is
// sufficient, because the rest of its name is lost with it.
func (h harm) names(text string) bool {
	base := filepath.Base(h.file)
	if strings.HasPrefix(h.what, "directory of") {
		base = h.file // The base is a number.
	}
	if kind, isMarker := strings.CutPrefix(base, "marker."); isMarker {
		base = "marker." + strings.Split(kind, ".")[0]
	}
	return strings.Contains(text, base)
}

// kept compares the files of a directory before and after a start. A refused start leaves
// each file unchanged, except the reserve, which has no data. A start removes files of a
// store only after it has opened and verified all stores that were not closed: logs whose
// rows are in tables, and tables, manifests, options and markers with newer versions. The
// store itself stays, or is in the quarantine. The files of a refused partition do not
// change.
func kept(before, after map[string]string, harmed string, start, partition bool) string {
	has := func(dir string) bool {
		for name := range after {
			if filepath.Dir(name) == dir || strings.HasPrefix(name, "quarantine") && filepath.Base(filepath.Dir(name)) == filepath.Base(dir) {
				return true
			}
		}
		return false
	}
	var text strings.Builder
	for name, content := range before {
		dir := filepath.Dir(name)
		now, found := after[name]
		switch {
		case start && dir != "reserve" && !found:
			fmt.Fprintf(&text, "file %s is gone after the refused start\n", name)
		case start && dir != "reserve" && now != content:
			fmt.Fprintf(&text, "file %s is changed by the refused start\n", name)
		case dir != "." && !has(dir):
			fmt.Fprintf(&text, "directory %s is gone\n", dir)
		case partition && dir == harmed && dir != "." && now != content:
			fmt.Fprintf(&text, "file %s of the refused partition is gone or changed\n", name)
		}
	}
	return text.String()
}

// lockedBuffer collects a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestDamage damages or removes one file, or removes one directory, of a server that was
// killed under load, and starts a server: it serves every write that was acknowledged more
// than a second before, or the server or the partition refuses and names the file. A
// refused start removes and changes nothing. The test enumerates the damages of each file,
// and takes a sample with damages of each kind. DECAN_DAMAGE_TRIALS sets the number of
// trials, DECAN_DAMAGE_SEED repeats a choice.
func TestDamage(t *testing.T) {
	t.Parallel()
	trials, seed := damageTrials, uint64(time.Now().UnixNano())
	if text := os.Getenv("DECAN_DAMAGE_TRIALS"); text != "" {
		trials, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("DECAN_DAMAGE_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	made := killedUnderLoad(t, seed)
	all := made.enumerate(t, random)
	chosen := choose(all, trials, random)
	t.Logf("seed %d, %d trials, %d files and %d directories, %d old and %d late documents", seed, len(chosen), len(made.files), len(made.dirs), len(made.old), len(made.late))
	type row struct{ trials, flips, served, refused, closed, late, lost, wrong int }
	table := map[string]*row{}
	show := func() {
		for _, kind := range slices.Sorted(maps.Keys(table)) {
			r := table[kind]
			t.Logf("%-26s trials %3d of %6d (flips %3d): all served %3d, start refused %3d, partition refused %3d, less than a second lost %3d, lost %d, other %d",
				kind, r.trials, len(all[kind]), r.flips, r.served, r.refused, r.closed, r.late, r.lost, r.wrong)
		}
	}
	for trial, h := range chosen {
		if trial > 0 && trial%damageProgress == 0 {
			t.Logf("%d of %d trials", trial, len(chosen))
			show()
		}
		o := made.try(t, h)
		if table[h.what] == nil {
			table[h.what] = &row{}
		}
		r := table[h.what]
		r.trials++
		if h.kind == "flip" {
			r.flips++
		}
		switch {
		case o.refused:
			r.refused++
		case o.closed > 0:
			r.closed++
		case o.lost == 0 && o.late == 0:
			r.served++
		}
		if o.late > 0 {
			r.late++
		}
		if o.lost > 0 {
			r.lost++
			t.Errorf("trial %d, %s: %d documents are lost without a word", trial, h, o.lost)
		}
		if o.problem != "" {
			r.wrong++
			t.Errorf("trial %d, %s: %s", trial, h, o.problem)
		}
	}
	show()
}
