package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console/consoletest"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// partitionsAnswer returns an answer of an admin port about a container, whose first
// partition has that number of documents.
func partitionsAnswer(documents int) string {
	return fmt.Sprintf(`{"database":"shop","container":"orders","limits":{"partitionBytes":10485760,"logicalBytes":4194304,"partitionRUs":1000},"queryVisits":{"queries":12,"partitions":18,"mean":1.5},"partitions":[
{"id":"4","min":"","max":"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF","parents":["0"],"documents":%d,"documentBytes":7864320,"share":600,"normalizedRUConsumption":100,"throttled":1234,"hottestKeys":[{"key":["Contoso","Alice"],"epk":"0A","requestUnits":480.4}],"hottestPrefixes":[{"key":["Contoso"],"epk":"0A","requestUnits":520},{"key":["Fabrikam"],"epk":"0B","requestUnits":5}],"purgingKeys":2,"clearedDocuments":1500},
{"id":"5","min":"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF","max":"FF","parents":["0"],"change":"split","documents":1,"documentBytes":100,"share":0,"normalizedRUConsumption":2.5,"throttled":0,"hottestKeys":[{"epk":"2B","requestUnits":1}],"clearedDocuments":1}]}`, documents)
}

// TestPartitionsTable shows the table of a container: a line for each partition, with a
// bar for its size and one for its throughput.
func TestPartitionsTable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, partitionsAnswer(12345)) }))
	defer server.Close()
	c := partitionsListCommand{Database: "shop", Container: "orders", Admin: remote.Admin{Endpoint: server.URL, Key: "k"}}
	var out bytes.Buffer
	if err := c.watch(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := `shop/orders  2 physical partitions, 12,346 documents, 7.5 MB, 600 RU/s, a query asks 1.5 of them on average

id    range                      documents      size of 10 MB               RU/s busiest second    throttled  hottest key
4               - 1FFFFFFF…         12,345    7.5 MB ███████▌··   75 %       600 ██████████  100 %     1,234  ["Contoso","Alice"] 480 RU, all below ["Contoso"] 520 RU
5     1FFFFFFF… - FF                     1     100 B ··········    0 %         - ▎·········    2 %         0  2B 1 RU
Partition 4: the documents of 2 deleted partition keys are being deleted and still count; 1,500 deleted so far.
A split of partition 5 is in progress.
Partition 5: 1 document of deleted partition keys deleted.
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	var table partitionTable
	if err := json.Unmarshal([]byte(partitionsAnswer(12345)), &table); err != nil {
		t.Fatal(err)
	}
	const narrow = `shop/orders  2 physical partitions, 12,346 documents, 7.5 MB, 600 RU/s
a query asks 1.5 of them on average

id       documents      size   of 10MB      RU/s busiest throttled  hottest key
4           12,345    7.5 MB      75 %       600   100 %     1,234  ["Contoso",…
5                1     100 B       0 %         -     2 %         0  2B 1 RU
`
	if got, _, _ := strings.Cut(table.fitting(80), "Partition 4"); got != narrow {
		t.Errorf("in 80 columns\n%s\nwant\n%s", got, narrow)
	}
	if table.fitting(200) != want {
		t.Error("a wide terminal has another table than a pipe")
	}
}

// TestPartitionsWatched shows the table repeatedly, each time with new data on a cleared
// screen, until it is interrupted or the server is gone.
func TestPartitionsWatched(t *testing.T) {
	t.Parallel()
	documents := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		documents++
		fmt.Fprint(w, partitionsAnswer(documents-1))
	}))
	c := partitionsListCommand{Database: "shop", Container: "orders", Watch: time.Millisecond, Admin: remote.Admin{Endpoint: server.URL, Key: "k"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	screens := &consoletest.Until{Text: "\x1b[H\x1b[Jshop/orders  2 physical partitions, 3 documents", Told: func(string) { cancel() }}
	if err := c.watch(ctx, struct{ io.Writer }{screens}); err != nil { // without its WriteString
		t.Errorf("interrupted: %v", err)
	}
	if n := strings.Count(screens.String(), clearScreen); n != 3 {
		t.Errorf("%d screens until the third\n%s", n, screens.String())
	}
	server.Close()
	if err := c.watch(t.Context(), screens); err == nil {
		t.Error("it goes on without a server")
	}
	c.Watch = -time.Second
	if err := c.watch(t.Context(), screens); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("an interval below zero: %v", err)
	}
}
