package nosql_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
	"github.com/decandb/decan/internal/engine"
)

// TestDirectPipelined sends many requests at once: each answer has its own document.
func TestDirectPipelined(t *testing.T) {
	t.Parallel()
	w := shop(t, 3)
	d := openDirect(t, w)
	found, _ := w.engine.Address(engine.Link{Database: "d", Container: "c"})
	const requests = 1000
	var frames []*rntbdtest.Frame
	for i := range requests {
		key := fmt.Sprintf(`["p%d"]`, i)
		f := d.item(t, found, rntbd.Create, "", key)
		f.Payload = fmt.Appendf(nil, `{"id":"%d","pk":"p%d","n":%d}`, i, i, i)
		f.Int(rntbd.RequestPayloadPresent, rntbd.TypeByte, 1).Int(rntbd.RequestTransportRequestID, rntbd.TypeULong, int64(i))
		frames = append(frames, f)
	}
	if err := d.client.Send(frames...); err != nil {
		t.Fatal(err)
	}
	for range requests {
		answer, err := d.client.Receive()
		if err != nil {
			t.Fatal(err)
		}
		var made struct{ N int64 }
		if err := json.Unmarshal(answer.Payload, &made); err != nil || made.N != answer.Answered(rntbd.ResponseTransportRequestID) {
			t.Fatalf("%d %q: %v", answer.Status(), answer.Payload, err)
		}
	}
}
