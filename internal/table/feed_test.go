package table

import (
	"bytes"
	"testing"

	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// TestFeedRangeText reads back what it writes, at the bounds as well.
func TestFeedRangeText(t *testing.T) {
	t.Parallel()
	for _, r := range []partitionkey.Range{partitionkey.Full(), {Min: partitionkey.MinEPK, Max: "\x20"}, {Min: "\x20\x01", Max: partitionkey.MaxEPK}} {
		got, err := ParseFeedRange(FeedRangeText(r))
		if err != nil || !got.Equal(r) {
			t.Errorf("%v is read as %v, %v", r, got, err)
		}
	}
	for _, text := range []string{
		"", "null", "{}", "[]", `{"Range":{}}`, `{"Range":{"min":"","max":""}}`, `{"Range":{"min":"","max":"FF"}} x`, `{"Range":{"min":"","max":"FF","x":1}}`,
		`{"Range":{"min":"0","max":"FF"}}`, `{"Range":{"min":"","max":"FFFF"}}`, `{"Range":{"min":"20","max":"10"}}`, `{"Range":{"min":null,"max":"FF"}}`,
		`{"Range":{"min":"","max":"` + string(bytes.Repeat([]byte("0"), feedRangeMax)) + `FF"}}`,
	} {
		if r, err := ParseFeedRange(text); err == nil {
			t.Errorf("%s is read as %v", text, r)
		}
	}
}

// FuzzFeedRange: what is read can be written and read again.
func FuzzFeedRange(f *testing.F) {
	f.Add(FeedRangeText(partitionkey.Full()))
	f.Add(`{"Range":{"min":"20","max":"25AB549C3CFF199180"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseFeedRange(text)
		if err != nil {
			return
		}
		if again, err := ParseFeedRange(FeedRangeText(r)); err != nil || !again.Equal(r) || r.Empty() {
			t.Fatalf("%q is %v, then %v, %v", text, r, again, err)
		}
	})
}

// FuzzStates: no state is read but those that were made, of rows and of the change feed.
func FuzzStates(f *testing.F) {
	secret, of := []byte("secret"), []byte("of a table")
	c := cursor{key: "key", row: []byte("row"), done: true, limit: -1, perPartition: 5}
	f.Add(c.appendState(nil, secret, of))
	f.Add(appendFeedState(nil, `"12"`, secret, of))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, state []byte) {
		if got, err := decodeState(state, secret, of); err == nil {
			if made := got.appendState(nil, secret, of); !bytes.Equal(made, state) {
				t.Fatalf("state %x is made as %x", state, made)
			}
		}
		if position, err := decodeFeedState(state, secret, of); err == nil {
			if made := appendFeedState(nil, position, secret, of); !bytes.Equal(made, state) {
				t.Fatalf("state %x is made as %x", state, made)
			}
		}
		// With the secret, the rest of a state may be anything: it is read or refused.
		for _, version := range []byte{pagingVersion, feedStateVersion} {
			signed := append(append([]byte{version}, codeOf(secret, of, state)...), state...)
			_, _ = decodeState(signed, secret, of)
			_, _ = decodeFeedState(signed, secret, of)
		}
	})
}

// TestFeedMarkers: the values of the functions may be bound.
func TestFeedMarkers(t *testing.T) {
	t.Parallel()
	s, err := cql.Parse("SELECT * FROM t WHERE COSMOS_CHANGEFEED_START_TIME() = ? AND COSMOS_FEEDRANGE() = :part")
	if err != nil {
		t.Fatal(err)
	}
	schema := defined(t, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	p, err := schema.Prepare(s, "ks")
	if err != nil {
		t.Fatal(err)
	}
	if m := p.Markers; len(m) != 2 || m[0].Name != "cosmos_changefeed_start_time()" || m[0].Type.String() != "timestamp" || m[1].Name != "part" || m[1].Type.String() != "text" || p.KeyMarkers != nil {
		t.Errorf("markers %+v", p.Markers)
	}
}
