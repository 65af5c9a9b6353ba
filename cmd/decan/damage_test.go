package main

import (
	"bytes"
	"context"
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
	files     []string // relative names, without the lock
	old, late []inserted
}

const (
	// markAge is how old an acknowledged write is that must not be missed.
	markAge = time.Second
	// damageTrials is how many trials `go test` makes.
	damageTrials = 40
)

// killedUnderLoad fills a server with documents of several containers, one of which
// is split meanwhile, and kills it.
func killedUnderLoad(t *testing.T, seed uint64) *template {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	p := spawn(t, "--data", dir, "--limits", "laptop", "--physical-partition-max", "600KB")
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
	life := time.NewTimer(3 * time.Second)
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
	if len(made.old) < 50 {
		t.Fatalf("only %d documents are older than %s", len(made.old), markAge)
	}
	return made
}

// filesBelow reads every file of a directory but locks.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "LOCK" {
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

// harm is what is done to one file.
type harm struct {
	kind string // flip, cut or remove
	file string
	at   int // bit or length
}

func (h harm) String() string { return fmt.Sprintf("%s %s at %d", h.kind, h.file, h.at) }

// fileKind is the kind of a file, for the choice and for the table of outcomes.
func fileKind(name string) string {
	base, where := filepath.Base(name), "partition"
	switch strings.Split(name, string(filepath.Separator))[0] {
	case "catalog", "tls":
		where = strings.Split(name, string(filepath.Separator))[0]
	case base:
		return base
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

// choose picks a harm: kinds of files in turn, then the file, then the place.
func (m *template) choose(trial int, random *rand.Rand) harm {
	byKind := map[string][]string{}
	for _, name := range m.files {
		byKind[fileKind(name)] = append(byKind[fileKind(name)], name)
	}
	kinds := slices.Sorted(maps.Keys(byKind))
	files := byKind[kinds[trial%len(kinds)]]
	h := harm{file: files[random.IntN(len(files))]}
	info, err := os.Stat(filepath.Join(m.dir, h.file))
	size := 0
	if err == nil {
		size = int(info.Size())
	}
	switch pick := random.IntN(10); {
	case pick < 2 || size == 0:
		h.kind = "remove"
	case pick < 4:
		h.kind, h.at = "cut", random.IntN(size)
	default:
		h.kind, h.at = "flip", random.IntN((8*size+499)/500)*500
	}
	return h
}

func (h harm) do(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, h.file)
	var err error
	switch h.kind {
	case "remove":
		err = os.Remove(name)
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

// harmed is what a trial found.
type harmed struct {
	refused bool // the server did not start
	closed  int  // documents that were answered with an error
	lost    int  // old documents that are not there
	late    int  // documents of the last second that are not there
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
		Listen: "127.0.0.1:0", AdminListen: "none", Data: dir, LimitsPreset: "laptop", ClockSkew: -1,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	var o harmed
	if err != nil {
		o.refused = true
		if !names(err.Error()+log.String(), h.file) {
			o.problem = fmt.Sprintf("the refusal does not name the file: %v\n%s", err, log.String())
		}
		o.problem += kept(before, filesBelow(t, dir), filepath.Dir(h.file), true)
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
	if o.closed > 0 && !names(log.String(), h.file) {
		o.problem += fmt.Sprintf("%d documents are refused and the log does not name the file\n%s", o.closed, log.String())
	}
	if o.lost > 0 {
		o.problem += log.String()
	}
	o.problem += kept(before, filesBelow(t, dir), filepath.Dir(h.file), o.closed > 0)
	return o
}

// names reports whether a text names a file. Of a marker its kind is enough: the rest
// of its name is what is lost with it.
func names(text, file string) bool {
	base := filepath.Base(file)
	if kind, isMarker := strings.CutPrefix(base, "marker."); isMarker {
		base = "marker." + strings.Split(kind, ".")[0]
	}
	return strings.Contains(text, base)
}

// kept compares what a directory had with what it has. A start may remove files of a
// store only after it has opened it and verified what it must have: then it removes
// logs whose rows are in tables, and tables, manifests, options and markers that
// newer ones replace. The store itself stays where it is, or in the quarantine. The
// files of the store that is refused stay as they are, byte by byte.
func kept(before, after map[string]string, harmed string, refused bool) string {
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
		if dir != "." && !has(dir) {
			fmt.Fprintf(&text, "directory %s is gone\n", dir)
		}
		if dir == harmed && dir != "." && refused && after[name] != content {
			fmt.Fprintf(&text, "file %s of the refused store is gone or changed\n", name)
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

// TestDamage harms one file of a directory that was killed under load, and starts a
// server: every write that was acknowledged more than a second before is served, or
// the server or the partition refuses and names the file, and nothing is removed that
// was not verified. DECAN_DAMAGE_TRIALS sets the number of trials, and
// DECAN_DAMAGE_SEED repeats a choice of harms.
func TestDamage(t *testing.T) {
	trials, seed := damageTrials, uint64(time.Now().UnixNano())
	if text := os.Getenv("DECAN_DAMAGE_TRIALS"); text != "" {
		trials, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("DECAN_DAMAGE_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	made := killedUnderLoad(t, seed)
	t.Logf("seed %d, %d trials, %d files, %d old and %d late documents", seed, trials, len(made.files), len(made.old), len(made.late))
	type row struct{ trials, served, refused, closed, late, lost, wrong int }
	table := map[string]*row{}
	for trial := range trials {
		h := made.choose(trial, random)
		o := made.try(t, h)
		key := fileKind(h.file)
		if table[key] == nil {
			table[key] = &row{}
		}
		r := table[key]
		r.trials++
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
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		r := table[kind]
		t.Logf("%-24s trials %3d: all served %3d, start refused %3d, partition refused %3d, less than a second lost %3d, lost %d, other %d",
			kind, r.trials, r.served, r.refused, r.closed, r.late, r.lost, r.wrong)
	}
}
