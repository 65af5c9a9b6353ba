package rntbd_test

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
)

// kilobyte answers each request with 1 KB and the usual tokens.
type kilobyte struct{ body []byte }

func (k kilobyte) Serve(_ context.Context, r *rntbd.Request, w *rntbd.Response) {
	w.Begin(200)
	for _, id := range []rntbd.ResponseID{rntbd.ResponseLSN, rntbd.ResponseLocalLSN, rntbd.ResponseItemLSN, rntbd.ResponseItemLocalLSN, rntbd.ResponseQuorumAckedLSN, rntbd.ResponseQuorumAckedLocalLSN, rntbd.ResponseGlobalCommittedLSN, rntbd.ResponseCurrentReplicaSetSize, rntbd.ResponseCurrentWriteQuorum} {
		w.Int(id, 7)
	}
	w.Real(rntbd.ResponseRequestCharge, 1)
	w.Text(rntbd.ResponseSessionToken, "-1#7")
	w.Text(rntbd.ResponsePartitionKeyRangeID, "0")
	w.Text(rntbd.ResponseOwnerFullName, "dbs/"+r.Text(rntbd.RequestDatabaseName)+"/colls/"+r.Text(rntbd.RequestCollectionName))
	w.Payload = k.body
}

// BenchmarkRequest measures requests as the clients send point reads, without what
// serves them: with one open request on each of 16 connections, and 32 on each of 4.
func BenchmarkRequest(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, shape := range []struct{ connections, open int }{{1, 1}, {16, 1}, {4, 32}} {
			name := "tls=" + strconv.FormatBool(secure) + "/connections=" + strconv.Itoa(shape.connections) + "/open=" + strconv.Itoa(shape.open)
			b.Run(name, func(b *testing.B) { benchmark(b, secure, shape.connections, shape.open) })
		}
	}
}

func benchmark(b *testing.B, secure bool, connections, open int) {
	config := rntbd.Config{Plain: !secure, Handler: kilobyte{make([]byte, 1<<10)}}
	var client *tls.Config
	if secure {
		config.TLS = certificate(b)
		client = &tls.Config{RootCAs: pool(b, config.TLS), ServerName: "localhost"}
	}
	server := rntbd.New(config)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Close(context.Background())

	frame, err := pointRead().Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	var clients []*rntbdtest.Client
	for range connections {
		c, err := rntbdtest.Dial(listener.Addr().String(), client)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, c := range clients {
		n := b.N / connections
		if i < b.N%connections {
			n++
		}
		wg.Go(func() {
			if err := c.Pump(n, open, func(dst []byte) []byte { return append(dst, frame...) }); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// pointRead returns a request as .NET sends it.
func pointRead() *rntbdtest.Frame {
	return rntbdtest.Request(rntbd.Document, rntbd.Read, rntbd.GUID{1: 1}).
		Add(rntbd.RequestResourceID, rntbd.TypeBytes, "\x00\x00\x00\x14\x80\x00\x00\x26").
		Text(rntbd.RequestAuthorizationToken, "type%3dmaster%26ver%3d1.0%26sig%3d3MpUaC%2bGNh46w2KRnioizHjQq1VZU0uLuGvp9yBANc%3d").
		Int(rntbd.RequestPayloadPresent, rntbd.TypeByte, 0).
		Add(rntbd.RequestDate, rntbd.TypeSmallString, "Mon, 23 Nov 2026 07:38:38 GMT").
		Text(rntbd.RequestSessionToken, "1:-1#1").
		Text(rntbd.RequestReplicaPath, "/apps/decan/services/s/partitions/c-1/replicas/1p").
		Text(rntbd.RequestDatabaseName, "db").
		Text(rntbd.RequestCollectionName, "c").
		Text(rntbd.RequestDocumentName, "d1").
		Text(rntbd.RequestPartitionKey, `["p"]`).
		Text(rntbd.RequestCollectionRID, "AAAAFIAAACY=").
		Int(rntbd.RequestRemainingTimeMillisOnClient, rntbd.TypeULong, 30000).
		Int(rntbd.RequestClientRetryAttemptCount, rntbd.TypeULong, 0).
		Int(rntbd.RequestTransportRequestID, rntbd.TypeULong, 8).
		Int(rntbd.RequestSDKSupportedCapabilities, rntbd.TypeULong, 9)
}
