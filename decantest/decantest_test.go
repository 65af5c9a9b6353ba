package decantest_test

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan"
	"github.com/decandb/decan/decantest"
)

// connect returns an SDK client of the server.
func connect(tb testing.TB, server *decantest.Server) *azcosmos.Client {
	tb.Helper()
	credential, err := azcosmos.NewKeyCredential(server.Key())
	if err != nil {
		tb.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(server.Endpoint(), credential, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

func TestManyServersInOneProcess(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			client := connect(t, decantest.New(t))
			// The name is the same in every server: they share nothing.
			if _, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "same"}, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPartitionCount creates more partitions than any throughput setting gives.
func TestPartitionCount(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	const definition = `{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`
	for _, partitions := range []int{1, 8, 64} {
		database := fmt.Sprint("db", partitions)
		server.Container(database, definition, partitions)
		container, err := connect(t, server).NewContainer(database, "c")
		if err != nil {
			t.Fatal(err)
		}
		ranges, err := container.ReadFeedRanges(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(ranges) != partitions {
			t.Errorf("got %d ranges, want %d", len(ranges), partitions)
		}
	}
}

// TestDataSurvives restarts a server on its directory.
func TestDataSurvives(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	key := azcosmos.NewPartitionKeyString("Contoso").AppendString("Alice")
	write := func() {
		server, err := decan.Start(t.Context(), decan.Config{Data: data})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if err := server.CreateContainer(t.Context(), "shop", `{"id":"c","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}}`, 4); err != nil {
			t.Fatal(err)
		}
		container := containerOf(t, server)
		if _, err := container.CreateItem(t.Context(), key, []byte(`{"id":"1","tenant":"Contoso","user":"Alice","n":1}`), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := decan.Start(t.Context(), decan.Config{Data: data}); err == nil {
			t.Error("a second server opened the same directory")
		}
	}
	write()
	server := decantest.Start(t, decan.Config{Data: data})
	item, err := containerOf(t, server.Server).ReadItem(t.Context(), key, "1", nil)
	if err != nil {
		t.Fatal(err)
	}
	var stored struct{ N int }
	if err := json.Unmarshal(item.Value, &stored); err != nil || stored.N != 1 {
		t.Errorf("got %s (%v), want n = 1", item.Value, err)
	}
}

func containerOf(t *testing.T, server *decan.Server) *azcosmos.ContainerClient {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(server.Key())
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(server.Endpoint(), credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	container, err := client.NewContainer("shop", "c")
	if err != nil {
		t.Fatal(err)
	}
	return container
}

// TestCassandra shows that the Cassandra API is off unless it is asked for, and that many
// servers of one process may have it.
func TestCassandra(t *testing.T) {
	t.Parallel()
	if off := decantest.New(t); off.CQLAddress() != "" {
		t.Errorf("the API is at %s", off.CQLAddress())
	}
	one, two := decantest.Start(t, decan.Config{CQLListen: "127.0.0.1:0"}), decantest.Start(t, decan.Config{CQLListen: "127.0.0.1:0"})
	for _, server := range []*decantest.Server{one, two} {
		conn, err := net.Dial("tcp", server.CQLAddress())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if one.CQLAddress() == two.CQLAddress() {
		t.Error("two servers have one address")
	}
}
