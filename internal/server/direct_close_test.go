package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
	"github.com/decandb/decan/internal/server/servertest"
)

// TestDirectRestart closes the server while a connection has hundreds of open creates: it
// answers what it has read, ends the connection, and starts again with every item that it
// has acknowledged.
func TestDirectRestart(t *testing.T) {
	t.Parallel()
	config := direct(Config{Data: t.TempDir()})
	s := start(t, config)
	if err := s.CreateContainer(t.Context(), "bench", benchContainer, 1); err != nil {
		t.Fatal(err)
	}
	const rounds, open = 2, 500
	acknowledged := map[string]bool{}
	for round := range rounds {
		at := directPlaceOf(t, s, "bench", "c")
		c := directClient(t, s)
		var frames []*rntbdtest.Frame
		for i := range open {
			frames = append(frames, directCreate(s, at, fmt.Sprintf("n%d-%d", round, i)))
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_ = c.Send(frames...) // The server may stop reading.
		}()
		closed := make(chan error, 1)
		for n := 0; ; n++ {
			f, err := c.Receive()
			if err != nil {
				break // The connection has ended.
			}
			if f.Status() != http.StatusCreated {
				t.Fatalf("%d %s", f.Status(), f.Payload)
			}
			var made struct{ ID string }
			if err := json.Unmarshal(f.Payload, &made); err != nil {
				t.Fatal(err)
			}
			acknowledged[made.ID] = true
			if n == 0 {
				go func() { closed <- s.Close() }()
			}
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		<-sent
		s = start(t, config)
	}
	at, c := directPlaceOf(t, s, "bench", "c"), directClient(t, s)
	for id := range acknowledged {
		f, err := c.Do(directRead(s, at.path, at.rid, benchLink+"/"+id, documentKey(0)))
		if err != nil || f.Status() != http.StatusOK {
			t.Fatalf("%s: %v %d", id, err, f.Status())
		}
	}
	if len(acknowledged) < rounds {
		t.Errorf("%d creates were acknowledged", len(acknowledged))
	}
}

// directCreate is a create of an item of the first key.
func directCreate(s *Server, at directPlace, id string) *rntbdtest.Frame {
	date := time.Now().UTC().Format(http.TimeFormat)
	f := rntbdtest.Request(rntbd.Document, rntbd.Create, rntbd.GUID{1: 1}).
		Text(rntbd.RequestAuthorizationToken, servertest.Authorization(s.Key(), "post", "docs", strings.TrimSuffix(benchLink, "/docs"), date)).
		Int(rntbd.RequestPayloadPresent, rntbd.TypeByte, 1).
		Add(rntbd.RequestDate, rntbd.TypeSmallString, date).
		Text(rntbd.RequestReplicaPath, at.path).
		Text(rntbd.RequestDatabaseName, "bench").
		Text(rntbd.RequestCollectionName, "c").
		Text(rntbd.RequestPartitionKey, documentKey(0)).
		Text(rntbd.RequestCollectionRID, at.rid).
		Int(rntbd.RequestTransportRequestID, rntbd.TypeULong, 8)
	f.Payload = []byte(document(id, 0))
	return f
}

// TestDirectRefusedSignIns: direct mode counts and logs refused callers by reason, as the
// data port does, and writes refused requests to the audit log.
func TestDirectRefusedSignIns(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s := start(t, direct(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	if err := s.CreateContainer(t.Context(), "bench", benchContainer, 1); err != nil {
		t.Fatal(err)
	}
	at, c := directPlaceOf(t, s, "bench", "c"), directClient(t, s)
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 64))
	old := "Mon, 01 Jan 2024 00:00:00 GMT"
	read := func() *rntbdtest.Frame { return directRead(s, at.path, at.rid, benchLink+"/d0", documentKey(0)) }
	for reason, f := range map[string]*rntbdtest.Frame{
		"missing":        read().Text(rntbd.RequestAuthorizationToken, ""),
		"malformed":      read().Text(rntbd.RequestAuthorizationToken, "nonsense"),
		"resource_token": read().Text(rntbd.RequestAuthorizationToken, "type%3Dresource%26ver%3D1%26sig%3Dabcd;efgh;"),
		"bearer_token":   read().Text(rntbd.RequestAuthorizationToken, "type%3Daad%26ver%3D1.0%26sig%3Dabcd"),
		"key":            read().Text(rntbd.RequestAuthorizationToken, servertest.Authorization(other, "get", "docs", benchLink+"/d0", time.Now().UTC().Format(http.TimeFormat))),
		"date":           read().Add(rntbd.RequestDate, rntbd.TypeSmallString, old).Text(rntbd.RequestAuthorizationToken, servertest.Authorization(s.Key(), "get", "docs", benchLink+"/d0", old)),
	} {
		answer, err := c.Do(f)
		if err != nil {
			t.Fatal(reason, err)
		}
		want := http.StatusUnauthorized
		if reason == "date" {
			want = http.StatusForbidden
		}
		if answer.Status() != want {
			t.Errorf("%s: %d %s", reason, answer.Status(), answer.Payload)
		}
		if _, metrics := ask(t, s, "GET", "metrics"); !strings.Contains(metrics, `decan_access_refused_total{door="direct",reason="`+reason+`"} 1`) {
			t.Errorf("the metrics have no %s", reason)
		}
	}
	if plain, err := rntbdtest.Dial(s.DirectAddress(), nil); err == nil {
		plain.Close()
		t.Error("a client without TLS is served")
	}
	if _, metrics := ask(t, s, "GET", "metrics"); !strings.Contains(metrics, `decan_access_refused_total{door="direct",reason="plain_http"} 1`) {
		t.Error("the metrics have no connection without TLS")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if strings.Count(text, `msg="access refused"`) != 1 || !strings.Contains(text, `msg="more access refused" count=6`) || !strings.Contains(text, "door=direct") {
		t.Error(text)
	}
	if strings.Contains(text, other) || strings.Contains(text, "sig") {
		t.Error("the log has a secret")
	}
}
