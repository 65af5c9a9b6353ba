package resource

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestText runs the cases of testdata. Every command parses its input and prints
// the result, or the status.
//
//	container [full]     parse a container and remember it; print what differs
//	                     from a plain one as clients read it, or everything
//	replace [full]       replace the remembered container
//	stored               its indexing policy as a partition keeps it
//	key                  the partition key of each line, a document
//	policy [geometry]    parse an indexing policy
//	path                 read each line as a path of an indexing policy
//	database             parse a database
//	id, item-id          one id per line, as a JSON string
//	rid                  read each line as a RID
//	session ids=(0,1)    read each line as a session token, and what it says of the partitions
//	consistency          read each line as a level
//	throughput [full]    manual=, max=: a throughput at creation; remembered
//	offer minimum=400    replace the remembered throughput; print the new figures
//	migrate to=, gb=     switch its mode
//	minimum gb=, containers=
//	partitions           how many physical partitions it starts with; shared: of a database
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			h := &history{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				out, err := h.run(t, d)
				if err != nil {
					return describe(t, err)
				}
				return out
			})
		})
	}
}

// history is the state that a file of cases has built so far.
type history struct {
	container  Container
	throughput Throughput
}

func describe(t *testing.T, err error) string {
	t.Helper()
	e := status.From(err)
	if e == nil {
		t.Fatalf("error without a status: %v", err)
	}
	return e.Error() + "\n"
}

func (h *history) run(t *testing.T, d *datadriven.TestData) (string, error) {
	t.Helper()
	switch d.Cmd {
	case "container":
		c, err := ParseContainer(parse(t, d.Input))
		if err != nil {
			return "", err
		}
		c.RID, c.ETag, c.TS = ContainerRID(DatabaseRID(1), 2), `"e"`, 3
		h.container = c
		return show(t, d, c), nil
	case "replace":
		c, err := h.container.Replace(parse(t, d.Input))
		if err != nil {
			return "", err
		}
		h.container = c
		return show(t, d, c), nil
	case "key":
		return lines(t, d, func(line string) (string, error) {
			return h.container.KeyOf(parse(t, line)).String(), nil
		})
	case "policy":
		p, err := parseIndexing(parse(t, d.Input), IndexingPolicy{Geometry: d.HasArg("geometry")})
		return p.Value().JSON() + "\n", err
	case "stored":
		return pretty(t, stored(t, h.container.Indexing)), nil
	case "path":
		return lines(t, d, describePath)
	case "database":
		db, err := ParseDatabase(parse(t, d.Input))
		db.RID, db.ETag, db.TS = DatabaseRID(1), `"e"`, 3
		return db.Value().JSON() + "\n", err
	case "id", "item-id":
		valid := ValidID
		if d.Cmd == "item-id" {
			valid = ValidItemID
		}
		return lines(t, d, func(line string) (string, error) {
			return "ok", valid(parse(t, line).Text())
		})
	case "rid":
		return lines(t, d, func(line string) (string, error) {
			r, err := ParseRID(line)
			return describeRID(r), err
		})
	case "session":
		return lines(t, d, func(line string) (string, error) {
			return session(t, d, line)
		})
	case "consistency":
		return lines(t, d, func(line string) (string, error) {
			c, err := ParseConsistency(line)
			return c.String(), err
		})
	case "partition":
		var p Partition
		if err := json.Unmarshal([]byte(d.Input), &p); err != nil {
			t.Fatal(err)
		}
		return pretty(t, p.Describe(ContainerRID(DatabaseRID(1), 2), 0.25, 7)), nil
	}
	return h.runThroughput(t, d)
}

func (h *history) runThroughput(t *testing.T, d *datadriven.TestData) (string, error) {
	t.Helper()
	var err error
	switch d.Cmd {
	case "throughput":
		h.throughput, err = DefaultLimits().NewThroughput(optional(t, d, "manual"), optional(t, d, "max"), Upgrade{})
		h.throughput.RID, h.throughput.Owner = OfferRID(1), ContainerRID(DatabaseRID(1), 2)
		h.throughput.ETag, h.throughput.TS, h.throughput.Replaced = `"e"`, 3, 4
		if d.HasArg("full") {
			return pretty(t, h.throughput.Value()), err
		}
		return figures(h.throughput), err
	case "offer":
		minimum := ManualMin
		d.MaybeScanArgs(t, "minimum", &minimum)
		replaced, err := h.throughput.Replace(parse(t, d.Input), minimum, DefaultLimits())
		if err != nil {
			return "", err
		}
		h.throughput = replaced
		return figures(replaced), nil
	case "divide":
		for line := range strings.SplitSeq(d.Input, "\n") {
			var share Share
			if _, err := fmt.Sscanf(line, "%d=%d", &share.ID, &share.RUs); err != nil {
				t.Fatalf("%s: %q: %v", d.Pos, line, err)
			}
			h.throughput.Shares = append(h.throughput.Shares, share)
		}
		return figures(h.throughput), nil
	case "migrate":
		var to string
		d.ScanArgs(t, "to", &to)
		if to == "autoscale" {
			h.throughput = h.throughput.ToAutoscale(owned(t, d))
		} else {
			h.throughput = h.throughput.ToManual()
		}
		return figures(h.throughput), nil
	case "minimum":
		return fmt.Sprintln(h.throughput.Minimum(owned(t, d))), nil
	case "grow":
		gigabytes, _ := owned(t, d)
		limits := DefaultLimits()
		d.MaybeScanArgs(t, "most", &limits.ContainerRUs)
		if d.HasArg("load") {
			return figures(h.throughput.Upgraded(limits)), nil
		}
		return figures(h.throughput.Fitting(gigabytes, limits)), nil
	case "partitions":
		with := h.throughput
		if d.HasArg("shared") {
			with.Owner = DatabaseRID(1)
		}
		return fmt.Sprintln(DefaultLimits().PartitionsFor(with)), nil
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return "", nil
}

// owned returns the arguments of minimum, migrate and grow about the stored
// data.
func owned(t *testing.T, d *datadriven.TestData) (gigabytes, containers int) {
	t.Helper()
	d.MaybeScanArgs(t, "gb", &gigabytes)
	d.MaybeScanArgs(t, "containers", &containers)
	return gigabytes, containers
}

func figures(t Throughput) string {
	out := fmt.Sprintf("manual=%d max=%d highest=%d", t.Manual, t.Max, t.Highest)
	if t.Upgrade.Percent > 0 {
		out += fmt.Sprintf(" upgrade=%d%%", t.Upgrade.Percent)
		if t.Upgrade.Off {
			out += "off"
		}
	}
	for _, b := range t.Buckets {
		out += fmt.Sprintf(" bucket%d=%d%%", b.ID, b.Percent)
		if b.Default {
			out += "default"
		}
	}
	for _, s := range t.Shares {
		out += fmt.Sprintf(" %s=%d", s.ID, s.RUs)
	}
	return out + "\n"
}

// lines runs f on each line of the input and prints line and result.
func lines(t *testing.T, d *datadriven.TestData, f func(line string) (string, error)) (string, error) {
	t.Helper()
	var b strings.Builder
	for line := range strings.SplitSeq(d.Input, "\n") {
		out, err := f(line)
		if err != nil {
			out = strings.TrimSuffix(describe(t, err), "\n")
		}
		fmt.Fprintf(&b, "%s -> %s\n", line, out)
	}
	return b.String(), nil
}

func session(t *testing.T, d *datadriven.TestData, line string) (string, error) {
	t.Helper()
	tokens, err := ParseSession(line)
	if err != nil || tokens.IsZero() {
		return "nothing", err
	}
	var ids []PartitionID
	for _, arg := range d.CmdArgs {
		for _, text := range arg.Vals {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, PartitionID(n))
		}
	}
	lsn, seen := tokens.For(ids...)
	return fmt.Sprintf("%d %v", lsn, seen), nil
}

func describeRID(r RID) string {
	kind := "other"
	switch {
	case r.IsOffer():
		return fmt.Sprintf("offer %x", string(r))
	case r.IsDatabase():
		kind = "database"
	case r.IsContainer():
		kind = "container"
	case r.IsDocument():
		kind = "document"
	case r.IsPartition():
		kind = "partition"
	}
	return fmt.Sprintf("%s %x, database %v, container %v, number %d", kind, string(r), r.Database(), r.Container(), r.Number())
}

func optional(t *testing.T, d *datadriven.TestData, name string) *int {
	t.Helper()
	if !d.HasArg(name) {
		return nil
	}
	var n int
	d.ScanArgs(t, name, &n)
	return &n
}

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func describePath(line string) (string, error) {
	p, err := ParseIndexPath(line)
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("%q", p.Names)
	if p.Subtree {
		out += " and below"
	}
	if p.Tuple != nil {
		out += fmt.Sprintf(" tuple %q", p.Tuple)
	}
	return out, nil
}

// stored returns the stored form of a policy, and checks that it is read back
// equal.
func stored(t *testing.T, p IndexingPolicy) value.Value {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back IndexingPolicy
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if !back.Equal(p) || back.Value().JSON() != p.Value().JSON() {
		t.Fatalf("%s reads back as another policy: %+v", data, back)
	}
	return parse(t, string(data))
}

// show prints a container: all of it, or the members that differ from those of
// a container on /pk.
func show(t *testing.T, d *datadriven.TestData, c Container) string {
	t.Helper()
	if d.HasArg("full") {
		return pretty(t, c.Value())
	}
	plain, err := ParseContainer(parse(t, `{"id":"c","partitionKey":{"paths":["/pk"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	plain.RID, plain.ETag, plain.TS = c.RID, c.ETag, c.TS
	usual := plain.Value()
	var differ []value.Member
	for _, m := range c.Value().Members() {
		if !value.Equal(m.Value, usual.Get(m.Name)) {
			differ = append(differ, m)
		}
	}
	return pretty(t, value.Object(differ))
}

// pretty prints an object with one member per line.
func pretty(t *testing.T, v value.Value) string {
	t.Helper()
	var b strings.Builder
	for _, m := range v.Members() {
		fmt.Fprintf(&b, "%s: %s\n", m.Name, m.Value.JSON())
	}
	return b.String()
}
