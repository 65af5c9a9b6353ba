package server

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/server/servertest"
)

// writtenConn keeps the bytes written to it.
type writtenConn struct {
	net.Conn
	pieces [][]byte
}

func (c *writtenConn) Write(p []byte) (int, error) {
	c.pieces = append(c.pieces, bytes.Clone(p))
	return len(p), nil
}

// Pieces of any size, some of them gathered, arrive completely and in order. Those of a
// Gather arrive when it ends.
func TestGatheredPieces(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	inner := new(writtenConn)
	conn := &peekedConn{connection: &connection{Conn: inner, all: new(connections)}}
	var want []byte
	some := func() {
		for range r.IntN(4) {
			piece := bytes.Repeat([]byte{byte(r.IntN(256))}, []int{r.IntN(10), pieceMax - 1 + r.IntN(3), 3 * pieceMax}[r.IntN(3)])
			if n, err := conn.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("seed %d: wrote %d of %d: %v", seed, n, len(piece), err)
			}
			want = append(want, piece...)
		}
	}
	for range 200 {
		if r.IntN(2) == 0 {
			some()
		} else {
			conn.Gather(some)
		}
		if got := bytes.Join(inner.pieces, nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes arrived, want the %d that were written", seed, len(got), len(want))
		}
	}

	// A single first piece is held back until the end of Gather, and no longer.
	inner.pieces = nil
	conn.Gather(func() {
		if _, err := conn.Write([]byte("a")); err != nil || len(inner.pieces) != 0 {
			t.Errorf("%v, %d pieces were sent before the end", err, len(inner.pieces))
		}
	})
	if len(inner.pieces) != 1 || string(inner.pieces[0]) != "a" {
		t.Errorf("%q was sent", inner.pieces)
	}
}

// Answers of sizes around every limit arrive completely, one after another on one
// connection.
func TestAnswersOfAllSizes(t *testing.T) {
	t.Parallel()
	server := start(t, Config{Data: t.TempDir()})
	if err := server.CreateContainer(context.Background(), "bench", queryBenchContainer, 1); err != nil {
		t.Fatal(err)
	}
	client, err := servertest.Dial(server.address())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i, size := range []int{10, 2500, 3 << 10, 3500, 4 << 10, 7000, 8 << 10, 20_000, 64 << 10, 65 << 10, 500_000} {
		note := strings.Repeat(string(rune('a'+i)), size)
		key, id := `["t","u"]`, fmt.Sprintf("d%d", i)
		body := fmt.Sprintf(`{"id":%q,"tenant":"t","user":"u","note":%q}`, id, note)
		for _, request := range []servertest.Request{
			servertest.Prepare(server.Key(), "POST", benchLink, []byte(body), "x-ms-documentdb-partitionkey", key),
			servertest.Prepare(server.Key(), "GET", benchLink+"/"+id, nil, "x-ms-documentdb-partitionkey", key),
		} {
			response, err := client.Do(request)
			if err != nil || response.Status/100 != 2 {
				t.Fatalf("%d bytes: %v %d %.200s", size, err, response.Status, response.Body)
			}
			if !bytes.Contains(response.Body, []byte(`"`+note+`"`)) || !bytes.HasSuffix(response.Body, []byte("}")) {
				t.Errorf("%d bytes: %d came back, want the same bytes", size, len(response.Body))
			}
		}
	}
}
