package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/server/servertest"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// crowded is a server on a disk that fills up, and the writes that it has
// acknowledged.
type crowded struct {
	t      *testing.T
	config Config
	server *Server
	client *servertest.Client
	random *rand.Rand

	documents map[string]string // by id, as acknowledged
	next      int
}

// open starts the server. The caller closes it.
func (c *crowded) open() {
	c.t.Helper()
	c.config.Ports.Data, c.config.Ports.Admin = "127.0.0.1:0", "127.0.0.1:0"
	s, err := Start(context.Background(), c.config)
	if err != nil {
		c.t.Fatal(err)
	}
	client, err := servertest.Dial(s.address())
	if err != nil {
		c.t.Fatal(errors.Join(err, s.Close()))
	}
	client.KeepHeaders = true
	c.server, c.client = s, client
}

func (c *crowded) close() {
	c.t.Helper()
	_ = c.client.Close()
	if err := c.server.Close(); err != nil && !storage.IsNoSpace(err) {
		c.t.Fatal(err)
	}
}

func (c *crowded) call(method, link, body string, headers ...string) servertest.Response {
	c.t.Helper()
	r, err := c.client.Do(servertest.Prepare(c.server.Key(), method, link, []byte(body), headers...))
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, link, err)
	}
	return r
}

// settled is call for a request that may have to open a partition again.
func (c *crowded) settled(method, link, body string, headers ...string) (r servertest.Response) {
	c.t.Helper()
	for range 10 {
		if r = c.call(method, link, body, headers...); r.Status != http.StatusServiceUnavailable {
			break
		}
		c.server.mend()
	}
	return r
}

const crowdedContainer = "dbs/d/colls/c"

func onKey(id string) []string {
	return []string{"x-ms-documentdb-partitionkey", `["` + id + `"]`}
}

// create writes an incompressible document of about n bytes, and reports whether
// the server accepted it. The server refuses with 507, or with 503 if the outcome
// is unknown.
func (c *crowded) create(n int) (taken bool) {
	c.t.Helper()
	id := fmt.Sprintf("d%06d", c.next)
	c.next++
	noise := make([]byte, n*3/4)
	for i := range noise {
		noise[i] = byte(c.random.Uint32())
	}
	text := base64.StdEncoding.EncodeToString(noise)
	r := c.call("POST", crowdedContainer+"/docs", fmt.Sprintf(`{"id":%q,"text":%q}`, id, text), onKey(id)...)
	switch r.Status {
	case http.StatusCreated:
		c.documents[id] = text
		return true
	case http.StatusInsufficientStorage, http.StatusServiceUnavailable:
		return false
	}
	c.t.Fatalf("create %s: %d %s", id, r.Status, r.Body)
	return false
}

// fill writes until the server refuses writes even after a flush of the memory.
func (c *crowded) fill(n int) (written int) {
	c.t.Helper()
	for refused := 0; refused < 3; c.server.mend() {
		refused++
		for c.create(n) {
			written++
			refused = 0
		}
	}
	return written
}

// remove deletes about that share of the documents. If other programs have filled the
// disk, a deletion may be refused, or its outcome unknown.
func (c *crowded) remove(share float64, taken bool) {
	c.t.Helper()
	for id := range c.documents {
		if c.random.Float64() >= share {
			continue
		}
		switch r := c.call("DELETE", crowdedContainer+"/docs/"+id, "", onKey(id)...); {
		case r.Status == http.StatusNoContent:
			delete(c.documents, id)
		case taken && r.Status == http.StatusInsufficientStorage:
		case taken && r.Status == http.StatusServiceUnavailable:
			delete(c.documents, id) // The outcome is unknown.
			c.server.mend()
		default:
			c.t.Fatalf("delete %s: %d %s", id, r.Status, r.Body)
		}
	}
}

// verify reads every acknowledged document.
func (c *crowded) verify(when string) {
	c.t.Helper()
	for id, text := range c.documents {
		r := c.settled("GET", crowdedContainer+"/docs/"+id, "", onKey(id)...)
		if r.Status != http.StatusOK || !strings.Contains(string(r.Body), text) {
			c.t.Fatalf("%s: document %s: %d, %d bytes", when, id, r.Status, len(r.Body))
		}
	}
}

// refuses checks how writes that need space are refused.
func (c *crowded) refuses(when string) {
	c.t.Helper()
	for link, headers := range map[string][]string{crowdedContainer + "/docs": onKey("last"), "dbs": nil} {
		r := c.settled("POST", link, `{"id":"last"}`, headers...)
		if r.Status != http.StatusInsufficientStorage || !strings.Contains(string(r.Body), "The disk is full") {
			c.t.Errorf("%s: a write to %s: %d %s", when, link, r.Status, r.Body)
		}
	}
}

// ready returns the answer of /ready.
func (c *crowded) ready() (code int, body string) {
	c.t.Helper()
	return callAdmin(c.t, c.server, "GET", "ready", "")
}

// becomes waits until the node, which checks once a second, has reached a state.
func (c *crowded) becomes(what string, done func() bool) {
	c.t.Helper()
	waitFor(c.t, what, func() bool {
		c.server.mend()
		return done()
	})
}

// tell runs the story of a disk that fills up: no acknowledged write is lost,
// reads and deletions work, a restart serves, and with free space everything
// works again without a restart. take lets other programs fill the disk, or free
// it.
func (c *crowded) tell(take func(all bool), size int) {
	t := c.t
	c.documents = map[string]string{}
	c.random = rand.New(rand.NewPCG(1, 2))
	c.open()
	if err := c.server.CreateContainer(t.Context(), "d", `{"id":"c","partitionKey":{"paths":["/id"],"kind":"Hash","version":2},"indexingPolicy":{"indexingMode":"consistent","includedPaths":[],"excludedPaths":[{"path":"/*"}]}}`, 2); err != nil {
		t.Fatal(err)
	}
	first := c.fill(size)
	if first < 20 {
		t.Fatalf("only %d documents fitted in", first)
	}
	c.becomes("/ready that tells of the full disk", func() bool {
		c.fill(size) // A compaction may have freed space.
		code, body := c.ready()
		return code == http.StatusOK && strings.Contains(body, `"disk":"full`)
	})
	c.verify("on a full disk")

	c.remove(0.1, false)
	c.verify("after deletions on a full disk")
	take(true)
	c.server.mend()
	c.refuses("on a disk without room")
	c.verify("on a disk without room")
	c.remove(0.2, true)
	c.server.mend()
	c.verify("after deletions on a disk without room")

	c.close()
	take(true) // the space that closing has freed
	c.open()
	c.verify("after a restart on a disk without room")
	take(true) // the space that opening has freed
	c.server.mend()
	c.refuses("after a restart on a disk without room")

	take(false)
	c.becomes("deletions", func() bool {
		return c.call("DELETE", crowdedContainer+"/docs/none", "", onKey("none")...).Status == http.StatusNotFound
	})
	c.remove(0.7, false)
	c.becomes("room after deletions", func() bool {
		r := c.call("POST", "dbs", `{"id":"other"}`)
		return r.Status == http.StatusCreated
	})
	c.verify("with room again")
	if more := c.fill(size); more < first/4 {
		t.Errorf("%d documents fitted in after most of %d were deleted", more, first)
	}
	c.verify("on a full disk again")
	if r := c.call("DELETE", "dbs/d", ""); r.Status != http.StatusNoContent {
		t.Errorf("delete the database on a full disk: %d %s", r.Status, r.Body)
	}
	c.becomes("room after the database is gone", func() bool { return c.call("POST", "dbs", `{"id":"third"}`).Status == http.StatusCreated })
	if code, body := c.ready(); code != http.StatusOK || strings.Contains(body, `"disk"`) || strings.Contains(body, `"partitions"`) {
		t.Errorf("/ready with room: %d %s", code, body)
	}
	c.close()
}

// TestDiskFull runs the story on a disk in memory.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	const size = 40 << 20
	disk := storagetest.NewCrashable()
	disk.Limit(size)
	c := &crowded{t: t, config: Config{Data: t.TempDir(), adjust: func(o *storage.Options) { o.FS = disk.FS() }}}
	var other interface {
		io.Closer
		Preallocate(offset, length int64) error
	}
	taken := int64(0)
	c.tell(func(all bool) {
		if !all {
			if err := errors.Join(other.Close(), disk.FS().Remove("/other")); err != nil {
				t.Fatal(err)
			}
			return
		}
		err := error(nil)
		if other == nil {
			other, err = disk.FS().Create("/other", "")
		}
		if err == nil {
			taken += (size - disk.Used()) / 4096 * 4096
			err = other.Preallocate(0, taken)
		}
		if err != nil {
			t.Fatal(err)
		}
	}, 300_000)
}

// TestDiskFullForReal runs it on a small file system named by DECAN_SMALL_DISK,
// such as a tmpfs of 64 MB: docs/testing.md explains how.
func TestDiskFullForReal(t *testing.T) {
	dir := os.Getenv("DECAN_SMALL_DISK")
	if dir == "" {
		t.Skip("DECAN_SMALL_DISK does not name a directory of a small file system")
	}
	c := &crowded{t: t, config: Config{Data: filepath.Join(dir, "data")}}
	t.Cleanup(func() { _ = os.RemoveAll(c.config.Data) })
	other := filepath.Join(dir, "other")
	t.Cleanup(func() { _ = os.Remove(other) })
	c.tell(func(all bool) {
		if !all {
			if err := os.Remove(other); err != nil {
				t.Fatal(err)
			}
			return
		}
		f, err := os.OpenFile(other, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		block := make([]byte, 4096)
		for err == nil {
			_, err = f.Write(block)
		}
		_ = f.Close()
		if !storage.IsNoSpace(err) {
			t.Fatal(err)
		}
	}, 300_000)
}

// A store that met ENOSPC without a warning, as on an unwatched disk, is opened
// again when space is available, and so is the catalog's.
func TestDiskFullUnwatched(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	c := &crowded{
		t: t, documents: map[string]string{}, random: rand.New(rand.NewPCG(3, 4)),
		config: Config{Data: t.TempDir(), adjust: func(o *storage.Options) { o.FS, o.ReserveDir = disk.FS(), "" }},
	}
	c.open()
	if err := c.server.CreateContainer(t.Context(), "d", `{"id":"c","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}`, 2); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c.create(1000)
	}
	disk.Fill()
	if taken := c.fill(10); taken > 0 {
		t.Errorf("%d writes were acknowledged on a full disk", taken)
	}
	if r := c.call("POST", "dbs", `{"id":"other"}`); r.Status != http.StatusServiceUnavailable {
		t.Errorf("a new database: %d %s", r.Status, r.Body)
	}
	if code, body := c.ready(); code != http.StatusServiceUnavailable {
		t.Errorf("/ready with a catalog that has failed: %d %s", code, body)
	}
	c.becomes("readable", func() bool {
		for id := range c.documents {
			if c.call("GET", crowdedContainer+"/docs/"+id, "", onKey(id)...).Status != http.StatusOK {
				return false
			}
		}
		return true
	})
	if _, body := c.ready(); !strings.Contains(body, "ready") {
		t.Error(body)
	}
	disk.Heal()
	c.becomes("a catalog that takes changes", func() bool {
		r := c.call("POST", "dbs", `{"id":"third"}`)
		return r.Status == http.StatusCreated
	})
	for _, u := range []string{"other"} { // The database is stored or not, and the outcome is known again.
		if r := c.call("GET", "dbs/"+u, ""); r.Status != http.StatusOK && r.Status != http.StatusNotFound {
			t.Errorf("database %s: %d %s", u, r.Status, r.Body)
		}
	}
	c.becomes("writable", func() bool { return c.create(1000) })
	c.verify("with room again")
	c.close()
	c.open()
	c.verify("after a restart")
	c.close()
}
