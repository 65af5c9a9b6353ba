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
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// copyOrder is an order in which a program copies the files of a directory.
type copyOrder struct {
	name string
	// listed means that the program lists all files first, like rsync. Otherwise it lists
	// each directory when it copies it, like tar.
	listed bool
	sort   func(names []string, random *rand.Rand)
}

// copyOrders are the orders of the test.
var copyOrders = []copyOrder{
	{"tar", false, func(names []string, _ *rand.Rand) { slices.Sort(names) }},
	{"tar in reverse", false, func(names []string, _ *rand.Rand) { slices.Sort(names); slices.Reverse(names) }},
	{"tar of an unsorted directory", false, shuffle},
	{"rsync", true, func(names []string, _ *rand.Rand) { slices.Sort(names) }},
	{"rsync in reverse", true, func(names []string, _ *rand.Rand) { slices.Sort(names); slices.Reverse(names) }},
	{"random", true, shuffle},
}

func shuffle(names []string, random *rand.Rand) {
	slices.Sort(names)
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
}

// copyPause is the maximum pause between two files of a copy, in which the server writes.
const copyPause = 2 * time.Millisecond

// copyLive copies a directory while a server writes to it. It skips files that no longer
// exist.
func (o copyOrder) copyLive(from, to string, random *rand.Rand) error {
	file := func(name string) error {
		time.Sleep(time.Duration(random.Int64N(int64(copyPause)))) // the server's moment is the subject
		content, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o600)
		}
		return err
	}
	if o.listed {
		var names []string
		err := filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !entry.IsDir() {
				relative, _ := filepath.Rel(from, name)
				names = append(names, relative)
			}
			return err
		})
		if err != nil {
			return err
		}
		o.sort(names, random)
		for _, name := range names {
			if err := file(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	var directory func(dir string) error
	directory = func(dir string) error {
		entries, err := os.ReadDir(filepath.Join(from, dir))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, dir), 0o700); err != nil {
			return err
		}
		isDir, names := map[string]bool{}, []string(nil)
		for _, e := range entries {
			names, isDir[e.Name()] = append(names, e.Name()), e.IsDir()
		}
		o.sort(names, random)
		for _, name := range names {
			do := file
			if isDir[name] {
				do = directory
			}
			if err := do(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	return directory(".")
}

// liveCopy is a copy of a directory under load.
type liveCopy struct {
	order copyOrder
	load  string
	dir   string
	began time.Time
	whole bool // equal to the directory after the copy
}

func (c liveCopy) String() string { return c.order.name + " under " + c.load }

// The loads of a copy: many writes, occasional writes, and none.
const (
	loadFull  = "full load"
	loadLight = "light load"
	loadNone  = "no load"
)

// TestLiveCopy copies the directory of a server under load, which splits partitions, file
// by file in several orders, and starts a server with each copy: it serves every write
// that was acknowledged before the copy began, or it refuses and names what is missing or
// damaged. It removes nothing. The load is full, with containers that are created and
// dropped, or light, or none. DECAN_COPY_ROUNDS sets the number of copies per order,
// DECAN_COPY_SEED repeats a choice.
func TestLiveCopy(t *testing.T) {
	t.Parallel()
	rounds, seed := 1, uint64(time.Now().UnixNano())
	if text := os.Getenv("DECAN_COPY_ROUNDS"); text != "" {
		rounds, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("DECAN_COPY_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	data := filepath.Join(t.TempDir(), "data")
	s, err := server.Start(context.Background(), server.Config{
		Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}, Data: data, Partitions: server.PartitionOptions{Preset: "laptop", PhysicalMax: 400 << 10}, Clock: server.ClockOptions{Skew: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, _ := url.Parse(s.Endpoint())
	load := newCopyLoad(t, endpoint.Host, seed)
	var copies []liveCopy
	for round := range rounds {
		for i, order := range copyOrders {
			of := []string{loadFull, loadLight, loadNone}[(round+i)%3]
			load.become(loadFull)
			load.grow(40)
			load.become(of)
			if of == loadNone {
				load.wait()
			}
			c := liveCopy{order: order, load: of, dir: filepath.Join(t.TempDir(), fmt.Sprintf("%d-%d", round, i)), began: time.Now()}
			if err := order.copyLive(data, c.dir, random); err != nil {
				t.Fatal(err)
			}
			c.whole = same(data, c.dir)
			copies = append(copies, c)
		}
	}
	all := load.end()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("seed %d, %d copies, %d documents", seed, len(copies), len(all))
	for _, c := range copies {
		if !c.try(t, all) && c.whole {
			t.Errorf("%s: a copy that is equal to the directory is not served", c)
		}
	}
}

// try starts a server with a copy and reads the documents that were acknowledged before
// the copy began. It returns whether all are served.
func (c liveCopy) try(t *testing.T, all []inserted) (served bool) {
	t.Helper()
	before := filesBelow(t, c.dir)
	// The garbage that the catalog of the copy names: dropped containers, and partitions
	// that were being created.
	var leftovers []string
	if report, err := server.Check(c.dir); err == nil {
		leftovers = report.Leftovers
	}
	var log lockedBuffer
	s, err := server.Start(context.Background(), server.Config{
		Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}, Data: c.dir, Partitions: server.PartitionOptions{Preset: "laptop"}, Clock: server.ClockOptions{Skew: -1},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		if !c.right(err.Error()) {
			t.Errorf("%s: the refusal does not say what is wrong: %v", c, err)
		}
		if text := kept(before, filesBelow(t, c.dir), "", true, false); text != "" {
			t.Errorf("%s: %s", c, text)
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		t.Logf("%s: refused: %s", c, first)
		return false
	}
	address, _ := url.Parse(s.Endpoint())
	client, err := servertest.Dial(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	earlier, closed, missing := 0, 0, 0
	for _, d := range all {
		if !d.at.Before(c.began) {
			continue
		}
		earlier++
		response, err := client.Do(d.get)
		switch {
		case err != nil:
			t.Fatal(err)
		case response.Status == 404:
			missing++
		case response.Status == 503:
			closed++
		case response.Status != 200:
			t.Errorf("%s: a document is answered %d: %s", c, response.Status, response.Body)
		}
	}
	client.Close()
	if err := s.Close(); err != nil && closed == 0 {
		t.Errorf("%s: close: %v", c, err)
	}
	if missing > 0 {
		t.Errorf("%s: %d of %d documents that were acknowledged before the copy are missing\n%s", c, missing, earlier, log.String())
	}
	if closed > 0 && !c.right(log.String()) {
		t.Errorf("%s: %d documents are refused and the log does not say why\n%s", c, closed, log.String())
	}
	for name := range before {
		dir := filepath.Join(c.dir, filepath.Dir(name))
		if slices.ContainsFunc(leftovers, func(leftover string) bool { return strings.Contains(leftover, dir) }) {
			delete(before, name)
		}
	}
	if text := kept(before, filesBelow(t, c.dir), "", false, closed > 0); text != "" {
		t.Errorf("%s: %s", c, text)
	}
	t.Logf("%s: of %d documents %d are refused and %d missing", c, earlier, closed, missing)
	return closed == 0 && missing == 0
}

// same reports whether two directories have the same files with the same content.
func same(a, b string) bool {
	has := func(dir string) map[string]string {
		found := map[string]string{}
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(name)
			relative, _ := filepath.Rel(dir, name)
			found[relative] = string(content)
			return err
		})
		if err != nil {
			return nil // The server has removed it in the meantime.
		}
		return found
	}
	first, second := has(a), has(b)
	return first != nil && second != nil && maps.Equal(first, second)
}

// right reports whether a text names a file or directory of the copy, or the catalog, as
// damaged, missing or older than the others.
func (c liveCopy) right(text string) bool {
	named := strings.Contains(text, c.dir) || strings.Contains(text, "catalog")
	return named && slices.ContainsFunc([]string{"is older than", "are older than", "cannot be found", "was acknowledged", "damaged", "is missing", "has no catalog"},
		func(says string) bool { return strings.Contains(text, says) })
}

// copyLoad is a load of inserts into three containers, and of containers that are created
// and dropped.
type copyLoad struct {
	t       *testing.T
	mu      sync.Mutex
	all     []inserted
	load    atomic.Value // a string
	idle    atomic.Int32 // clients that wait
	stopped chan struct{}
	writers sync.WaitGroup
}

// become changes the load. Writes in progress may be acknowledged afterwards.
func (l *copyLoad) become(load string) { l.load.Store(load) }

// wait waits until all clients wait.
func (l *copyLoad) wait() {
	for deadline := time.Now().Add(startTime); l.idle.Load() < copyClients; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatal("the load does not wait")
		}
	}
}

// copyClients is the number of clients of the load.
const copyClients = 4

// pause waits up to a time under full load, and much longer under another load.
func (l *copyLoad) pause(d time.Duration) {
	time.Sleep(d) // This keeps the directory small.
	l.idle.Add(1)
	defer l.idle.Add(-1)
	for began := time.Now(); l.load.Load() != loadFull && (l.load.Load() == loadNone || time.Since(began) < 20*d); {
		select {
		case <-l.stopped:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func newCopyLoad(t *testing.T, address string, seed uint64) *copyLoad {
	t.Helper()
	l := &copyLoad{t: t, stopped: make(chan struct{})}
	l.become(loadFull)
	client, err := servertest.Dial(address)
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
	for w := range 3 {
		l.writers.Go(func() {
			random, i := rand.New(rand.NewPCG(seed, uint64(w+1))), 0
			l.repeat(address, func(client *servertest.Client) error {
				i++
				key, link := fmt.Sprintf(`["%d"]`, i%50), "dbs/d/colls/"+"abc"[w:w+1]+"/docs"
				body := fmt.Appendf(nil, `{"id":"%d","pk":"%d","pad":%q}`, i, i%50, bytes.Repeat([]byte{'a' + byte(i%26)}, random.IntN(3000)))
				response, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", link, body, "x-ms-documentdb-partitionkey", key), "a write", 201, 429, 410, 449, 503)
				if err == nil && response.Status == 201 {
					get := servertest.Prepare(server.WellKnownKey, "GET", link+"/"+strconv.Itoa(i), nil, "x-ms-documentdb-partitionkey", key)
					l.mu.Lock()
					l.all = append(l.all, inserted{get, time.Now()})
					l.mu.Unlock()
				}
				l.pause(time.Duration(random.IntN(8)) * time.Millisecond)
				return err
			})
		})
	}
	l.writers.Go(func() {
		i := 0
		l.repeat(address, func(client *servertest.Client) error {
			if l.pause(time.Millisecond); l.load.Load() != loadFull {
				return nil
			}
			i++
			name := fmt.Sprintf("made-%d", i)
			if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", "dbs/d/colls", fmt.Appendf(nil, `{"id":%q,"partitionKey":{"paths":["/pk"]}}`, name)), "a container", 201, 429); err != nil {
				return err
			}
			l.pause(20 * time.Millisecond)
			_, err := ask(client, servertest.Prepare(server.WellKnownKey, "DELETE", "dbs/d/colls/"+name, nil), "a deletion", 204, 404, 429)
			return err
		})
	})
	return l
}

// repeat repeats an operation until the load ends.
func (l *copyLoad) repeat(address string, operate func(*servertest.Client) error) {
	client, err := servertest.Dial(address)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer client.Close()
	for {
		select {
		case <-l.stopped:
			return
		default:
		}
		if err := operate(client); err != nil {
			l.t.Error(err)
			return
		}
	}
}

// grow waits until n more documents are written.
func (l *copyLoad) grow(n int) {
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.all)
	}
	for had, deadline := count(), time.Now().Add(startTime); count() < had+n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatal("the load does not go on")
		}
	}
}

// end ends the load and returns the acknowledged documents.
func (l *copyLoad) end() []inserted {
	close(l.stopped)
	l.writers.Wait()
	return l.all
}
