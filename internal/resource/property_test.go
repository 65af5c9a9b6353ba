package resource

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

func container(t testing.TB, text string) Container {
	t.Helper()
	c, err := ParseContainer(parse(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// TestOrderOfPaths checks that the order of the paths is the order of the
// levels: if it is reversed, the same document has another hash (S71).
func TestOrderOfPaths(t *testing.T) {
	t.Parallel()
	forth := container(t, `{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash"}}`)
	back := container(t, `{"id":"c","partitionKey":{"paths":["/b","/a"],"kind":"MultiHash"}}`)
	doc := parse(t, `{"a":"x","b":"y"}`)
	if got, want := back.KeyOf(doc).String(), `["y","x"]`; got != want {
		t.Errorf("reversed key %s, want %s", got, want)
	}
	if forth.PartitionKey.Hash(forth.KeyOf(doc)) == back.PartitionKey.Hash(back.KeyOf(doc)) {
		t.Error("both orders have one hash")
	}
}

// TestFirstLevelStaysTogether checks that documents with the same first level
// are adjacent, because the hash of a full key begins with that of its first
// level (S14).
func TestFirstLevelStaysTogether(t *testing.T) {
	t.Parallel()
	c := container(t, `{"id":"c","partitionKey":{"paths":["/tenant","/user","/session"],"kind":"MultiHash"}}`)
	tenant, err := c.PartitionKey.Prefix(partitionkey.NewKey(partitionkey.String("t")))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		doc := parse(t, fmt.Sprintf(`{"tenant":"t","user":%d,"session":"s%d"}`, i%7, i))
		if epk := c.PartitionKey.Hash(c.KeyOf(doc)); !tenant.Contains(epk) {
			t.Errorf("%s has hash %s outside %s", doc, epk, tenant)
		}
	}
}

// TestStoredForm checks that everything that the catalog stores is loaded equal
// and ready for use.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	c := container(t, `{"id":"é","partitionKey":{"paths":["/a/\"b/c\"","/d"],"kind":"MultiHash"},"indexingPolicy":{"excludedPaths":[{"path":"/*"}]},"geospatialConfig":{"type":"Geometry"}}`)
	c.RID, c.ETag, c.TS = ContainerRID(DatabaseRID(1<<32-1), 1<<31-1), `"1"`, 99
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var got Container
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Value().JSON(), got.Value().JSON()); diff != "" {
		t.Error(diff)
	}
	doc := parse(t, `{"a":{"b/c":1},"d":2}`)
	if got.KeyOf(doc).String() != "[1,2]" {
		t.Errorf("key %s after reading back", got.KeyOf(doc))
	}
	if !got.Indexing.Equal(c.Indexing) || !got.PartitionKey.Equal(c.PartitionKey) {
		t.Errorf("got %+v, want %+v", got, c)
	}

	for _, want := range []any{
		Database{ID: "d", RID: DatabaseRID(7), ETag: `"2"`, TS: 5},
		Database{},
		Partition{ID: 3, Range: partitionkey.Range{Min: "\x1f\x00", Max: partitionkey.MaxEPK}, Parents: []PartitionID{0, 2}, Group: 1, Generation: 1<<64 - 1, Ordinal: OrdinalMax, CreatedAt: 9},
		Partition{Range: partitionkey.Full()},
		Throughput{RID: OfferRID(1<<24 - 1), Owner: c.RID, Manual: 400, Highest: 900, ETag: `"3"`, TS: 1, Replaced: 2},
		Throughput{RID: OfferRID(0), Owner: DatabaseRID(1), Max: 4000},
	} {
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(want))
		if err := json.Unmarshal(data, got.Interface()); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(want, got.Elem().Interface()); diff != "" {
			t.Errorf("%s: %s", data, diff)
		}
	}
}

func TestStoredFormRefusesDamage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{`,
		`{"id":"c"}`,
		`{"id":"c","partitionKey":{"paths":["a"],"kind":"Hash","version":2}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"Hash","version":2}}`,
		`{"id":"c","rid":"??","partitionKey":{"paths":["/a"],"kind":"Hash","version":2}}`,
	} {
		var c Container
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s was read as %+v", text, c)
		}
	}
}

// TestRIDLayout checks that a document's RID begins with its container's, and
// that one with its database's.
func TestRIDLayout(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		db := DatabaseRID(random.Uint32())
		c := ContainerRID(db, random.Uint32N(1<<31))
		ordinal, counter := random.Uint32N(OrdinalMax+1), random.Uint64N(NumbersMax)
		doc := DocumentRID(c, NewNumber(ordinal, counter))
		part := PartitionRID(c, PartitionID(random.Uint32()))
		for _, r := range []RID{db, c, doc, part, OfferRID(random.Uint32N(1 << 24))} {
			back, err := ParseRID(r.String())
			if err != nil || back != r {
				t.Fatalf("%x: text %s reads as %x, %v", string(r), r, string(back), err)
			}
			if strings.ContainsRune(r.String(), '/') {
				t.Fatalf("%s cannot be a part of a path", r)
			}
		}
		if doc.Container() != c || doc.Database() != db || c.Database() != db || part.Container() != c {
			t.Fatalf("%v %v %v %v are not nested", db, c, doc, part)
		}
		if !doc.IsDocument() || doc.IsPartition() || !part.IsPartition() || part.IsDocument() || !c.IsContainer() || !db.IsDatabase() {
			t.Fatalf("kinds of %v %v %v %v", db, c, doc, part)
		}
		if got := doc.Number(); got != uint64(ordinal)<<40|counter {
			t.Fatalf("number %x of ordinal %x and counter %x", got, ordinal, counter)
		}
	}
}

// TestNumberFitsBelowType checks that the highest ordinal and counter do not
// overlap with the type.
func TestNumberFitsBelowType(t *testing.T) {
	t.Parallel()
	c := ContainerRID(DatabaseRID(1), 1)
	if r := DocumentRID(c, NewNumber(OrdinalMax, NumbersMax-1)); !r.IsDocument() || r.Number() != 1<<60-1 {
		t.Errorf("%x is not a document RID with the highest number", string(r))
	}
	defer func() {
		if recover() == nil {
			t.Error("a number of 61 bits was accepted")
		}
	}()
	DocumentRID(c, NewNumber(OrdinalMax+1, 0))
}

func TestSelf(t *testing.T) {
	t.Parallel()
	c := Container{RID: ContainerRID(DatabaseRID(1), 2)}
	if got, want := c.Self(), "dbs/AAAAAQ==/colls/AAAAAYAAAAI=/"; got != want {
		t.Errorf("container %s, want %s", got, want)
	}
	if got, want := (Database{RID: DatabaseRID(1)}).Self(), "dbs/AAAAAQ==/"; got != want {
		t.Errorf("database %s, want %s", got, want)
	}
	doc := DocumentRID(c.RID, 5)
	if got, want := string(c.DocumentSelf(nil, doc)), c.Self()+"docs/"+doc.String()+"/"; got != want {
		t.Errorf("document %s, want %s", got, want)
	}
}

// numbered returns an array of n elements that contain their number.
func numbered(n int, element string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = fmt.Sprintf(element, i)
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// TestLimits checks both sides of each limit of this package, except those whose
// cases are short enough for testdata.
func TestLimits(t *testing.T) {
	t.Parallel()
	wide := "é" // two bytes, one character
	paths := func(n int) string {
		return `[` + strings.Repeat(`{"path":"/a/?"},`, n-1) + `{"path":"/*"}]`
	}
	for _, limit := range []struct {
		name        string
		within      error
		beyond      error
		wantInError string
	}{
		{"name", ValidID(strings.Repeat(wide, 255)), ValidID(strings.Repeat(wide, 256)), "256"},
		{"item id", ValidItemID(strings.Repeat("i", 1023)), ValidItemID(strings.Repeat("i", 1024)), "1024"},
		{"item id in bytes", ValidItemID(strings.Repeat(wide, 511)), ValidItemID(strings.Repeat(wide, 512)), "1024"},
		{"included paths", second(parseIndexing(parse(t, `{"includedPaths":`+paths(1500)+`}`), IndexingPolicy{})), second(parseIndexing(parse(t, `{"includedPaths":`+paths(1501)+`}`), IndexingPolicy{})), "1500"},
		{"spatial indexes", second(parseIndexing(parse(t, `{"spatialIndexes":`+numbered(1500, `{"path":"/p%d/?","types":["Point","LineString","Polygon","MultiPolygon"]}`)+`}`), IndexingPolicy{})), second(parseIndexing(parse(t, `{"spatialIndexes":`+numbered(1501, `{"path":"/p%d/?","types":["Point","LineString","Polygon","MultiPolygon"]}`)+`}`), IndexingPolicy{})), "1500"},
		{"composite indexes", readPolicy(t, `{"compositeIndexes":`+numbered(50, `[{"path":"/p%d"},{"path":"/q"}]`)+`}`), readPolicy(t, `{"compositeIndexes":`+numbered(51, `[{"path":"/p%d"},{"path":"/q"}]`)+`}`), "have 102 paths. At most 100"},
		{"paths of composite indexes", readPolicy(t, compositesOf(12, 8, 4)), readPolicy(t, compositesOf(12, 8, 5)), "have 101 paths. At most 100"},
		{"excluded paths", second(parseIndexing(parse(t, `{"excludedPaths":`+paths(1500)+`}`), IndexingPolicy{})), second(parseIndexing(parse(t, `{"excludedPaths":`+paths(1501)+`}`), IndexingPolicy{})), "1500"},
		{"tuples of an array", readPolicy(t, tuples(8)), readPolicy(t, tuples(9)), "more than 8"},
		{"names of a path", readPolicy(t, `{"includedPaths":[{"path":"/*"},{"path":"`+deep(128)+`/?"}]}`), readPolicy(t, `{"includedPaths":[{"path":"/*"},{"path":"`+deep(129)+`/?"}]}`), "128"},
		{"names of a composite path", readPolicy(t, `{"compositeIndexes":[[{"path":"`+deep(128)+`"},{"path":"/b"}]]}`), readPolicy(t, `{"compositeIndexes":[[{"path":"`+deep(129)+`"},{"path":"/b"}]]}`), "invalid path"},
		{"names of a tuple", readPolicy(t, `{"includedPaths":[{"path":"/*"},{"path":"/b/[]/{`+deep(126)[1:]+`}/?"}]}`), readPolicy(t, `{"includedPaths":[{"path":"/*"},{"path":"/b/[]/{`+deep(127)[1:]+`}/?"}]}`), "128"},
		{"full-text paths", second(parseTexts(parse(t, `{"fullTextPaths":`+numbered(100, `{"path":"/p%d"}`)+`}`))), second(parseTexts(parse(t, `{"fullTextPaths":`+numbered(101, `{"path":"/p%d"}`)+`}`))), "100"},
		{"embeddings", second(parseEmbeddings(parse(t, `{"vectorEmbeddings":`+numbered(100, `{"path":"/p%d"}`)+`}`))), second(parseEmbeddings(parse(t, `{"vectorEmbeddings":`+numbered(101, `{"path":"/p%d"}`)+`}`))), "100"},
	} {
		if limit.within != nil {
			t.Errorf("%s: within the limit: %v", limit.name, limit.within)
		}
		if status.CodeOf(limit.beyond) != status.CodeBadRequest || !strings.Contains(limit.beyond.Error(), limit.wantInError) {
			t.Errorf("%s: beyond the limit: %v", limit.name, limit.beyond)
		}
	}
	if err := ValidID("a\xff"); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("name that is not UTF-8: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func readPolicy(t *testing.T, text string) error {
	t.Helper()
	return second(parseIndexing(parse(t, text), IndexingPolicy{}))
}

// deep returns a property path of n names.
func deep(n int) string { return strings.Repeat("/a", n) }

// compositesOf returns a policy with n composite indexes of each paths, and one
// of last paths.
func compositesOf(n, each, last int) string {
	paths := func(i, count int) string {
		list := make([]string, count)
		for j := range list {
			list[j] = fmt.Sprintf(`{"path":"/p%d_%d"}`, i, j)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	indexes := make([]string, 0, n+1)
	for i := range n {
		indexes = append(indexes, paths(i, each))
	}
	return `{"compositeIndexes":[` + strings.Join(append(indexes, paths(n, last)), ",") + `]}`
}

// tuples returns a policy with n tuples of one array, written in two ways, and
// one tuple of another array.
func tuples(n int) string {
	list := numbered(n-1, `{"path":"/a/[]/{x, y%d}/?"}`)
	return `{"includedPaths":[{"path":"/*"},{"path":"/\"a\"/[]/{z}/?"},{"path":"/b/[]/{z}/?"},` + list[1:] + `}`
}

// TestLongestPolicyCanBeSentBack checks that the path that the server adds does
// not count, so that a policy with the maximum number of paths can be sent back
// unchanged.
func TestLongestPolicyCanBeSentBack(t *testing.T) {
	t.Parallel()
	p, err := parseIndexing(parse(t, `{"includedPaths":[{"path":"/*"}],"excludedPaths":`+numbered(IndexingPathsMax, `{"path":"/p%d/?"}`)+`}`), IndexingPolicy{})
	if err != nil || len(p.Excluded) != IndexingPathsMax+1 {
		t.Fatalf("%d paths excluded, %v", len(p.Excluded), err)
	}
	again, err := parseIndexing(p.Value(), IndexingPolicy{})
	if err != nil || !again.Equal(p) {
		t.Fatalf("sent back: %d paths, %v", len(again.Excluded), err)
	}
}

// TestStoredFormOfOldReleases checks that rows written before other kinds of indexes
// existed are read as containers without them.
func TestStoredFormOfOldReleases(t *testing.T) {
	t.Parallel()
	const policy = `{"mode":"consistent","automatic":true,"included":["/*"],"excluded":["/\"_etag\"/?"]}`
	var p IndexingPolicy
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, DefaultIndexing()) {
		t.Errorf("%s was read as %+v", policy, p)
	}
	if data, err := json.Marshal(p); err != nil || string(data) != policy {
		t.Errorf("written as %s, %v", data, err)
	}
}

func TestLimitsValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultLimits().Validate(); err != nil {
		t.Fatalf("defaults: %v", err)
	}
	l := DefaultLimits()
	l.ClockSkew = 0
	l.SessionWait = 0
	l.PhysicalPartitionBytes = 1 << 20
	if err := l.Validate(); err != nil {
		t.Errorf("settings: %v", err)
	}
	if err := (Limits{}).Validate(); err == nil || strings.Count(err.Error(), "\n") < 15 {
		t.Errorf("zero limits: %v", err)
	}
	for name, change := range map[string]func(*Limits){
		"KeyBytes":      func(l *Limits) { l.KeyBytes = 100 },
		"Depth":         func(l *Limits) { l.Depth++ },
		"ContainerRUs":  func(l *Limits) { l.ContainerRUs = AutoscaleMin - 1 },
		"ClockSkew":     func(l *Limits) { l.ClockSkew = -time.Second },
		"SessionWait":   func(l *Limits) { l.SessionWait = -1 },
		"DocumentBytes": func(l *Limits) { l.DocumentBytes = l.BodyBytes + 1 },

		"Databases":         func(l *Limits) { l.Databases = -1 },
		"MetadataRUs":       func(l *Limits) { l.MetadataRUs = -1 },
		"ThroughputChanges": func(l *Limits) { l.ThroughputChanges = -1 },
	} {
		l := DefaultLimits()
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGigabytes checks that a gigabyte is rounded up, and is smaller if the
// limits are scaled down.
func TestGigabytes(t *testing.T) {
	t.Parallel()
	laptop := LaptopLimits()
	for _, c := range []struct {
		limits Limits
		bytes  int64
		want   int
	}{
		{DefaultLimits(), 0, 0},
		{DefaultLimits(), 1, 1},
		{DefaultLimits(), 1 << 30, 1},
		{DefaultLimits(), 1<<30 + 1, 2},
		{DefaultLimits(), 50 << 30, 50},
		{laptop, laptop.PhysicalPartitionBytes, 50},
		{laptop, laptop.PhysicalPartitionBytes/50 + 1, 2},
		{Limits{PhysicalPartitionBytes: 1}, math.MaxInt64, math.MaxInt32},
	} {
		if got := c.limits.Gigabytes(c.bytes); got != c.want {
			t.Errorf("%d bytes of %d count for %d, want %d", c.bytes, c.limits.PhysicalPartitionBytes, got, c.want)
		}
	}
	for _, limits := range []Limits{DefaultLimits(), laptop, {PhysicalPartitionBytes: 12_345}} {
		for _, rus := range []int{1_000, 7_000, 12_000} {
			bytes := limits.Stores(Throughput{Max: rus})
			for _, beyond := range []int64{0, 1} {
				if got := (Throughput{Max: rus}).Fitting(limits.Gigabytes(bytes+beyond), DefaultLimits()).Max; got != rus+int(beyond)*1000 {
					t.Errorf("%d RU/s with %d bytes of %d and %d more: %d", rus, bytes, limits.PhysicalPartitionBytes, beyond, got)
				}
			}
		}
	}
	if got := (Limits{PhysicalPartitionBytes: 1 << 50}).Stores(Throughput{Max: OwnRUsMax}); got != math.MaxInt64 {
		t.Errorf("the most that can be stored is %d", got)
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	for account := Strong; account <= Eventual; account++ {
		for asked := Strong; asked <= Eventual; asked++ {
			if got, want := account.Allows(asked), asked >= account; got != want {
				t.Errorf("%v allows %v: %v", account, asked, got)
			}
		}
	}
	if Consistency(9).String() == "" || !Strong.DoublesReads() || !BoundedStaleness.DoublesReads() || Session.DoublesReads() {
		t.Error("wrong facts about levels")
	}
}

func TestSessionTokenText(t *testing.T) {
	t.Parallel()
	for _, lsn := range []LSN{0, 1, 1<<63 - 1} {
		text := PartitionID(4294967295).SessionToken(lsn)
		tokens, err := ParseSession(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, seen := tokens.For(1, 4294967295); got != lsn || !seen {
			t.Errorf("%s says %d, %v", text, got, seen)
		}
	}
	// Empty is the same as absent: some clients send an empty header.
	for _, text := range []string{"", " "} {
		if tokens, err := ParseSession(text); err != nil || !tokens.IsZero() {
			t.Errorf("%q: %v, %v", text, tokens, err)
		}
	}
}

// TestReplaceLeavesTheOld checks that replacing a container does not change the
// old one.
func TestReplaceLeavesTheOld(t *testing.T) {
	t.Parallel()
	c := container(t, `{"id":"c","partitionKey":{"paths":["/a"]}}`)
	before := c.Value().JSON()
	replaced, err := c.Replace(parse(t, `{"id":"c","partitionKey":{"paths":["/a"]},"indexingPolicy":{"excludedPaths":[{"path":"/*"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Value().JSON() != before || slices.Equal(replaced.Indexing.Included, c.Indexing.Included) {
		t.Errorf("old %s, new %s", c.Value(), replaced.Value())
	}
	// A client may send back what it read.
	again, err := replaced.Replace(replaced.Value())
	if err != nil || again.Value().JSON() != replaced.Value().JSON() {
		t.Errorf("read and sent back: %v, %v", again.Value(), err)
	}
}

func FuzzParseRID(f *testing.F) {
	for _, seed := range []string{"", "1ZAmAA==", "jTsuAKcq1GcCAAAAAAAAUA==", "fTbJ", "AAAA\nAQ==", "-+-+", "=="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRID(text)
		if err != nil {
			if status.CodeOf(err) != status.CodeBadRequest {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if r.String() != text {
			t.Fatalf("%q and %q are one RID", text, r)
		}
	})
}

func FuzzParseSession(f *testing.F) {
	for _, seed := range []string{"", "0:-1#43", "0:1#43#4=40#5=41,1:7", "0:-1#-1,", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := ParseSession(text)
		if err != nil && status.CodeOf(err) != status.CodeBadRequest {
			t.Fatalf("%q: %v", text, err)
		}
		tokens.For(0, 1, 2)
	})
}

// A container that was accepted can be stored, read, sent back and used. An
// accepted offer is valid, and is unchanged when it is sent again.
func FuzzReplaceOffer(f *testing.F) {
	f.Add(`{"content":{"offerThroughput":500,"throughputBuckets":[{"id":1,"maxThroughputPercentage":50,"isDefaultBucket":true}]}}`, false)
	f.Add(`{"content":{"offerAutopilotSettings":{"maxThroughput":2000}}}`, true)
	f.Fuzz(func(t *testing.T, text string, autoscale bool) {
		body, err := value.ParseString(text)
		if err != nil {
			return
		}
		limits := DefaultLimits()
		offer := Throughput{Manual: 400, Highest: 400}
		if autoscale {
			offer = Throughput{Max: 1000, Highest: 1000}
		}
		changed, err := offer.Replace(body, ManualMin, limits)
		if err != nil {
			return
		}
		if err := limits.Valid(changed); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		again, err := changed.Replace(changed.Value(), ManualMin, limits)
		if err != nil || figures(again) != figures(changed) {
			t.Errorf("%s: %s, again %s %v", text, figures(changed), figures(again), err)
		}
	})
}

func FuzzParseShares(f *testing.F) {
	f.Add(`[{"id":"0","throughput":400},{"id":"1"}]`)
	f.Add(`[{"id":"00000001-8000-0002-0000-0000ffffffff","throughput":400}]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := value.ParseString(text)
		if err != nil {
			return
		}
		shares, err := ParseShares(list)
		for _, s := range shares {
			if err == nil && s.RUs < 0 {
				t.Errorf("%s: %+v", text, s)
			}
			again, err := ParseShareName(value.String(s.Name()))
			if err != nil || again.Container != s.Container || again.ID != s.ID {
				t.Errorf("%s: %q is read as %+v, %v", text, s.Name(), again, err)
			}
		}
	})
}

func FuzzParseContainer(f *testing.F) {
	for _, seed := range []string{
		`{"id":"c","partitionKey":{"paths":["/pk"]}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/\"b/c\""],"kind":"MultiHash","version":2},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/a/[]/?"}]}}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"indexingMode":"none"},"changeFeedPolicy":{"retentionDuration":"PT0S"},"uniqueKeyPolicy":{}}`,
		`{"id":1,"partitionKey":[]}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/a/[]/{b, c/d}/?"},{"path":"/cp/?"}],"compositeIndexes":[[{"path":"/a","order":"descending"},{"path":"/b/[]"}]],"spatialIndexes":[{"path":"/l/*","types":["Point"],"boundingBox":{"xmin":0,"ymin":0,"xmax":1,"ymax":1}}],"fullTextIndexes":[{"path":"/t","types":["Point","LineString","Polygon","MultiPolygon"]}],"vectorIndexes":[{"path":"/v","type":"diskANN","quantizerType":"product","quantizationByteSize":2,"indexingSearchListSize":25,"vectorIndexShardKey":["/s"]}]},"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"int8","dimensions":3,"distanceFunction":"dotproduct"}]},"fullTextPolicy":{"defaultLanguage":"de-DE","fullTextPaths":[{"path":"/t","types":["Point","LineString","Polygon","MultiPolygon"]}]},"computedProperties":[{"name":"cp","query":"SELECT VALUE LOWER(c.t) FROM c"}]}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"includedPaths":[{"path":"/*","indexes":[{"kind":"Spatial","dataType":"Point"}]}]},"defaultTtl":60,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a/b","/c"]}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body, err := value.ParseString(text)
		if err != nil {
			return
		}
		c, err := ParseContainer(body)
		if err != nil {
			if status.CodeOf(err) != status.CodeBadRequest {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		c.RID = ContainerRID(DatabaseRID(1), 1)
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Container
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if back.Value().JSON() != c.Value().JSON() || !back.Indexing.Equal(c.Indexing) {
			t.Fatalf("stored %s, read %s", c.Value(), back.Value())
		}
		again, err := c.Replace(c.Value())
		if err != nil || again.Value().JSON() != c.Value().JSON() || !again.Indexing.Equal(c.Indexing) {
			t.Fatalf("%s cannot be sent back: %s, %v", c.Value(), again.Value(), err)
		}
		if got, want := back.KeyOf(body).Len(), len(c.PartitionKey.Paths); got != want {
			t.Fatalf("key of %d components, want %d", got, want)
		}
	})
}

func BenchmarkKeyOf(b *testing.B) {
	doc := parse(b, `{"id":"1","tenantId":"contoso","userId":"alice","sessionId":"0000-1111","n":1}`)
	for _, levels := range []int{1, 3} {
		b.Run(fmt.Sprintf("levels=%d", levels), func(b *testing.B) {
			c := container(b, `{"id":"c","partitionKey":{"paths":["/tenantId","/userId","/sessionId"],"kind":"MultiHash"}}`)
			c.keyPaths = c.keyPaths[:levels]
			b.ReportAllocs()
			for b.Loop() {
				c.KeyOf(doc)
			}
		})
	}
}

func BenchmarkDocumentSelf(b *testing.B) {
	c := Container{RID: ContainerRID(DatabaseRID(1), 2)}
	doc := DocumentRID(c.RID, NewNumber(3, 4))
	room := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		room = c.DocumentSelf(room[:0], doc)
	}
}

func BenchmarkParseSession(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tokens, _ := ParseSession("0:-1#43,1:-1#12")
		tokens.For(1)
	}
}
