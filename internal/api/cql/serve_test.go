package cql

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/decandb/decan/internal/auth"
)

// TestServe serves drivers at the address in DECAN_CQL_SERVE with the key in
// DECAN_CQL_KEY until SIGTERM, for compat/cassandra/run.sh. It is skipped without the
// address.
func TestServe(t *testing.T) {
	address := os.Getenv("DECAN_CQL_SERVE")
	if address == "" {
		t.Skip("DECAN_CQL_SERVE is not set")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	w := start(t, Config{TLS: certificate(t)}, address)
	verifier, err := auth.NewVerifier(auth.Keys{Primary: os.Getenv("DECAN_CQL_KEY")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.verifier.Store(verifier)
	<-stop
	for method, n := range w.small.called() {
		t.Logf("%s: %d", method, n)
	}
}
