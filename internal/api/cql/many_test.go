package cql

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// TestMany: clients send many requests at once, change the schema, register for events
// and disconnect at any time. Every request that is not cut off has one answer, on its
// stream. Afterwards nothing is taken any more, which newWorld checks.
func TestMany(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, Config{Streams: 20, InflightBytes: 200_000, Prepared: 3})
	var running sync.WaitGroup
	for i := range 12 {
		draw := rand.New(rand.NewPCG(seed, uint64(i)))
		version := frame.V3 + frame.Version(i%3)
		options := []frame.Pair[string]{{Name: "THROW_ON_OVERLOAD", Value: fmt.Sprint(i % 2)}}
		if i%4 == 3 {
			options = append(options, frame.Pair[string]{Name: "COMPRESSION", Value: "lz4"})
		}
		c := w.dial(t, version)
		if version < frame.V5 && i%4 == 3 {
			c.reader.SetCompression(frame.LZ4)
		}
		c.startup(options...)
		c.want(frame.AuthResponse{Token: token("account", w.keys.Primary)}, frame.AuthSuccess{})
		running.Go(func() {
			for range 15 {
				n := 1 + draw.IntN(60)
				waiting := map[int16]bool{}
				for range n {
					c.stream++
					waiting[c.stream] = true
					if err := c.writer.Add(&frame.Frame{Version: version, Stream: c.stream, Message: randomRequest(draw)}); err != nil {
						t.Error(err)
						return
					}
				}
				if err := c.writer.Flush(); err != nil {
					t.Error(err)
					return
				}
				if draw.IntN(40) == 0 {
					c.conn.Close()
					return
				}
				for len(waiting) > 0 {
					f, err := c.reader.Next()
					if err != nil {
						t.Errorf("%s: %v", version, err)
						return
					}
					if _, event := f.Message.(*frame.Event); event != (f.Stream == frame.EventStream) || !event && !waiting[f.Stream] {
						t.Errorf("%s: stream %d: %+v", version, f.Stream, f.Message)
						return
					}
					delete(waiting, f.Stream)
				}
			}
		})
	}
	running.Wait()
}

func randomRequest(draw *rand.Rand) frame.Message {
	const read = "SELECT v FROM ks.t WHERE k = ?"
	id := idOf("", read)
	key := int32Bytes(draw.IntN(20))
	switch draw.IntN(10) {
	case 0:
		return frame.Options{}
	case 1:
		return &frame.Prepare{Text: read}
	case 2:
		return &frame.Prepare{Text: fmt.Sprintf("SELECT v FROM ks.t WHERE k = %d", draw.IntN(5))}
	case 3:
		return query("ALTER TABLE ks.t ADD x int")
	case 4:
		return query([]string{"USE ks", "USE other", "panic", "nonsense"}[draw.IntN(4)])
	case 5:
		return frame.Register{Events: []string{frame.SchemaChanges}}
	case 6:
		return query("INSERT INTO ks.t (k, v) VALUES (?, ?)", key, make([]byte, draw.IntN(30_000)))
	case 7:
		return &frame.Batch{Statements: []frame.BatchStatement{{Text: "INSERT INTO ks.t (k, v) VALUES (1, 'x')"}}}
	}
	return &frame.Execute{ID: id[:], Parameters: frame.Parameters{Flags: frame.QueryValues, Values: []frame.Value{{Bytes: key}}}}
}
