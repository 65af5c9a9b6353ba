package cql

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// BenchmarkRead measures the door: prepared reads of a row of 1 KB from memory, one
// request at a time on each connection.
func BenchmarkRead(b *testing.B) {
	for _, version := range []frame.Version{frame.V4, frame.V5} {
		for _, connections := range []int{1, 16} {
			b.Run(fmt.Sprintf("version=%d/connections=%d", version, connections), func(b *testing.B) {
				w := newWorld(b, Config{})
				var clients []*client
				for range connections {
					clients = append(clients, w.connect(b, version))
				}
				clients[0].ask(query("INSERT INTO ks.t (k, v) VALUES (1, ?)", bytes.Repeat([]byte("x"), 1000)))
				p := clients[0].ask(&frame.Prepare{Text: "SELECT v FROM ks.t WHERE k = ?"}).Message.(*frame.Prepared)
				read := &frame.Execute{ID: p.ID, MetadataID: p.MetadataID, Parameters: frame.Parameters{
					Consistency: frame.One, Flags: frame.QueryValues | frame.QuerySkipMetadata, Values: []frame.Value{{Bytes: int32Bytes(1)}},
				}}
				b.ReportAllocs()
				b.ResetTimer()
				var running sync.WaitGroup
				for i, c := range clients {
					n := b.N / connections
					if i < b.N%connections {
						n++
					}
					running.Go(func() {
						for range n {
							if err := c.writer.Write(&frame.Frame{Version: version, Stream: 1, Message: read}); err != nil {
								b.Error(err)
								return
							}
							if f, err := c.reader.Next(); err != nil || f.Message.(*frame.Rows).Count != 1 {
								b.Errorf("%+v, %v", f.Message, err)
								return
							}
						}
					})
				}
				running.Wait()
			})
		}
	}
}
