package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// types runs a command line and checks its exit code and its output, which must match
// the patterns. A pattern that begins with "!" must not match. It returns standard
// output.
func types(t *testing.T, code int, args []string, patterns ...string) string {
	t.Helper()
	var out, errors bytes.Buffer
	got := run(args, console.Streams{Out: &out, Err: &errors})
	text := out.String() + errors.String()
	if got != code {
		t.Errorf("%q ends with %d, want %d\n%s", args, got, code, text)
	}
	for _, pattern := range patterns {
		pattern, not := strings.CutPrefix(pattern, "!")
		if regexp.MustCompile(pattern).MatchString(text) == not {
			t.Errorf("%q says\n%s\nwant of %s: %v", args, text, pattern, !not)
		}
	}
	return out.String()
}

// partitionDirs returns the directories of the partitions of a data directory.
func partitionDirs(t *testing.T, dir string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(dir, "p", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// startsWith starts a server for a directory in this process. The start must be refused
// with the text, or succeed if the text is empty.
func startsWith(t *testing.T, dir, refusal string) {
	t.Helper()
	s, err := server.Start(context.Background(), server.Config{Data: dir, Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}})
	switch {
	case err == nil && refusal != "":
		t.Errorf("started, want it refused with %q", refusal)
	case err != nil && (refusal == "" || !strings.Contains(err.Error(), refusal)):
		t.Errorf("refused with %q, want %q", err, refusal)
	}
	if err == nil {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAcceptLossCommand accepts losses on the command line: for an undamaged directory,
// and for one without a partition, with and without --start-empty, each twice.
func TestAcceptLossCommand(t *testing.T) {
	t.Parallel()
	dir := checkable(t)
	before := filesBelow(t, dir)
	types(t, 2, []string{"check", "--start-empty", dir}, `--start-empty needs --accept-loss: give both`)
	types(t, 2, []string{"check", "--accept-loss"}, `expected "<dir>"`)
	types(t, 1, []string{"check", "--accept-loss", filepath.Join(dir, "p")}, `p is not a data directory: it has no node\.json`)
	if after := filesBelow(t, dir); !maps.Equal(before, after) {
		t.Error("the directory is not what it was")
	}

	// While a server runs.
	s, err := server.Start(context.Background(), server.Config{Data: dir, Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--accept-loss"}, {"--accept-loss", "--start-empty"}, {}} {
		types(t, 1, append([]string{"check", dir}, args...), `is in use by another decan process`, `!nothing is lost`, `!every invariant holds`)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// Nothing is wrong.
	for _, args := range [][]string{{"--accept-loss"}, {"--accept-loss", "--start-empty"}, {"--accept-loss"}} {
		types(t, 0, append([]string{"check", dir}, args...), `(?m)^nothing is lost$`, `1,600 documents`, `every invariant holds\n$`, `!lost:`, `!quarantine`, `!remains`)
	}

	// One partition is missing.
	gone := partitionDirs(t, dir)[2]
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	startsWith(t, dir, "directories that the catalog names cannot be found")
	types(t, 1, []string{"check", dir}, `problem: .*`+regexp.QuoteMeta(gone), `decan: .*: \d problems?\n$`)
	for range 2 {
		types(t, 1, []string{"check", "--accept-loss", dir},
			`(?m)^remains: Nothing of partition \d of container 'carts' in database 'shop' is left: restore `+regexp.QuoteMeta(gone)+` from a backup, .*--start-empty`,
			`!lost: `, `problem: `, `!every invariant holds`)
		startsWith(t, dir, "directories that the catalog names cannot be found")
	}
	types(t, 0, []string{"check", "--accept-loss", "--start-empty", dir},
		`(?m)^lost: All documents of partition 2 of container 'carts' in database 'shop' are lost; the empty partition 4 has its range, and its changes begin after LSN \d+\.$`,
		`(?m)^accepted loss: .*All documents of partition 2 of container 'carts'`, `!remains`, `!kept in the quarantine`, `8 partitions`, `every invariant holds\n$`)
	types(t, 0, []string{"check", "--accept-loss", "--start-empty", dir}, `(?m)^nothing is lost$`, `accepted loss: `, `every invariant holds\n$`, `!(?m)^lost:`)
	types(t, 0, []string{"check", dir}, `accepted loss: `, `every invariant holds\n$`)
	startsWith(t, dir, "")

	// One partition cannot be read: the quarantine keeps a copy.
	unreadable := partitionDirs(t, dir)[0]
	if err := os.Remove(filepath.Join(unreadable, "FORMAT")); err != nil {
		t.Fatal(err)
	}
	types(t, 1, []string{"check", "--accept-loss", dir}, `(?m)^remains: Nothing of partition \d of container 'carts' in database 'shop' can be read: restore `, `!(?m)^lost: `)
	types(t, 0, []string{"check", "--accept-loss", "--start-empty", dir}, `(?m)^lost: All documents of partition 0 of container 'carts'`,
		`(?m)^kept in the quarantine: \S+-0$`, `(?m)^in quarantine: \S+-0: p/`, `every invariant holds\n$`)
	startsWith(t, dir, "")
}

// TestQuarantineCommands lists, restores and deletes on the command line: a container
// that an older catalog does not name, and a directory that is not a partition.
func TestQuarantineCommands(t *testing.T) {
	t.Parallel()
	dir := checkable(t)
	old := filepath.Join(t.TempDir(), "catalog")
	if err := os.CopyFS(old, os.DirFS(filepath.Join(dir, "catalog"))); err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(context.Background(), server.Config{Data: dir, Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := servertest.Dial(strings.Trim(strings.TrimPrefix(s.Endpoint(), "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(link, body string, headers ...string) {
		t.Helper()
		if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", link, []byte(body), headers...), "a write", 201); err != nil {
			t.Fatal(err)
		}
	}
	send("dbs/shop/colls", `{"id":"late","partitionKey":{"paths":["/pk"]}}`, "x-decan-partition-count", "2")
	for i := range 20 {
		send("dbs/shop/colls/late/docs", fmt.Sprintf(`{"id":"%d","pk":"%d"}`, i, i), "x-ms-documentdb-partitionkey", fmt.Sprintf(`["%d"]`, i))
	}
	client.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	unknown := filepath.Join(dir, "p", "unknown")
	if err := os.MkdirAll(unknown, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unknown, "file"), []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "catalog")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "catalog"), os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	types(t, 0, []string{"quarantine", "list", dir}, `^the quarantine is empty\n$`)
	startsWith(t, dir, "the catalog is older than")
	types(t, 0, []string{"check", "--accept-loss", dir}, `(?m)^lost: The catalog has lost its versions? \d+.*; the last one was acknowledged at `,
		`(?m)^kept in the quarantine: \S+-unknown$`, `(?m)^kept in the quarantine: \S+-0$`, `(?m)^kept in the quarantine: \S+-1$`, `every invariant holds\n$`)
	names := map[string]string{}
	list := types(t, 0, []string{"quarantine", "list", dir}, `-unknown: p/unknown, since .*: no container of the catalog has this partition`,
		`; partition 0 of container \S+, range \S+, \d+ documents, \d+ bytes, LSN \d+\n`)
	for line := range strings.Lines(list) {
		name, _, _ := strings.Cut(line, ": ")
		names[name[strings.LastIndex(name, "-")+1:]] = name
	}
	if names["0"] == "" || names["1"] == "" || names["unknown"] == "" {
		t.Fatalf("the quarantine has\n%s", list)
	}

	// Wrong names and wrong command lines change nothing.
	before := filesBelow(t, dir)
	none := `the quarantine has no entry '.*': give the full name, as 'decan quarantine list' prints it\n$`
	for _, wrong := range []string{"nothing", names["0"][1:], "..", ".", "", names["0"] + "/content", "../p"} {
		types(t, 1, []string{"quarantine", "delete", dir, wrong}, none)
		types(t, 1, []string{"quarantine", "restore", dir, names["1"], wrong}, none)
	}
	types(t, 2, []string{"quarantine", "delete", dir}, `expected "<name>"`)
	types(t, 2, []string{"quarantine", "restore", dir}, `expected "<name> \.\.\."`)
	types(t, 2, []string{"quarantine", "delete", dir, names["0"], names["1"]}, `unexpected argument`)
	types(t, 2, []string{"quarantine"}, `expected`)
	types(t, 1, []string{"quarantine", "restore", dir, names["unknown"]}, `-unknown is not a partition that can be read: `)
	types(t, 1, []string{"quarantine", "restore", dir, names["0"], names["1"]}, `the catalog does not have container \S+: give it a name with --as DATABASE/CONTAINER\n$`)
	for _, as := range []string{"late", "/late", "shop/"} {
		types(t, 1, []string{"quarantine", "restore", "--as", as, dir, names["0"], names["1"]}, `give it a name with --as DATABASE/CONTAINER\n$`)
	}
	if after := filesBelow(t, dir); !maps.Equal(before, after) {
		t.Error("what was refused has changed the directory")
	}
	types(t, 1, []string{"quarantine", "restore", "--as", "shop/carts", dir, names["0"], names["1"]}, `database 'shop' has a container 'carts': give another name with --as DATABASE/CONTAINER\n$`)
	types(t, 1, []string{"quarantine", "restore", "--as", "store/late", dir, names["0"], names["1"]}, `The container belongs to database 'shop', not to 'store'\.\n$`)
	types(t, 1, []string{"quarantine", "restore", "--as", "shop/late", dir, names["0"]}, `restore from the quarantine: `)
	types(t, 1, []string{"quarantine", "restore", "--as", "shop/late", dir, names["0"], names["0"], names["1"]}, `restore from the quarantine: `)

	// While a server runs, only list works.
	s, err = server.Start(context.Background(), server.Config{Data: dir, Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	types(t, 0, []string{"quarantine", "list", dir}, names["0"], names["1"], names["unknown"])
	types(t, 1, []string{"quarantine", "delete", dir, names["unknown"]}, `is in use by another decan process`)
	types(t, 1, []string{"quarantine", "restore", "--as", "shop/late", dir, names["0"], names["1"]}, `is in use by another decan process`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// Correct commands work once.
	types(t, 0, []string{"quarantine", "delete", dir, names["unknown"]}, `^deleted: \S+-unknown\n$`)
	types(t, 1, []string{"quarantine", "delete", dir, names["unknown"]}, none)
	restore := []string{"quarantine", "restore", "--as", "shop/late", dir, names["0"], names["1"]}
	types(t, 0, restore, `^container 'late' in database 'shop' is made of partitions \[0 1\]; its time to live, scripts, permissions and throughput are those of a new container\n$`)
	types(t, 1, restore, none)
	types(t, 0, []string{"check", dir}, `3 containers`, `1,620 documents`, `accepted loss: `, `every invariant holds\n$`)
	startsWith(t, dir, "")
}
