package server

import (
	"context"
	"crypto/hmac"
	"crypto/md5" // The name of a host is an MD5; it protects nothing.
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/statement"
	"github.com/decandb/decan/internal/table"
)

// doorCQL is the name of the CQL port in metrics and the audit log.
const doorCQL = "cql"

// openCQL starts answering CQL clients on the listeners, until Close.
func (s *Server) openCQL(listeners []net.Listener, registry *prometheus.Registry, certificates *tls.Config) {
	secret := hmac.New(sha256.New, []byte(s.engine.PrimaryKey()))
	secret.Write([]byte("decan pages of the cassandra api"))
	config := certificates.Clone()
	config.NextProtos = nil // The native protocol has no name.
	processor := statement.New(statement.Config{Engine: s.engine, Node: s.cqlNode(listeners[0].Addr()), Secret: secret.Sum(nil), Strict: s.config.Cassandra.Strict, Retry: s.cqlRetry(), LargePartition: int64(s.config.Cassandra.PartitionWarning), Now: s.config.Now, Logger: s.log})
	processor.Start()
	s.selects.use(processor)
	s.onClose(func() error { s.selects.use(nil); processor.Close(); return nil })
	door := cql.New(cql.Config{
		Processor:  processor,
		Account:    s.config.Account.ID,
		Verifier:   s.engine.Verifier,
		TLS:        config,
		TLSOnly:    s.config.TLS.Only,
		Logger:     s.log,
		Watch:      s.watch.Door(doorCQL),
		Release:    s.cqlRelease(),
		Registerer: registry,
		Now:        s.config.Now,

		Connections:   s.plan.cql,
		PerAddress:    s.cqlPerAddress(),
		InflightBytes: int64(s.config.Memory.Requests),
		ReadTimeout:   s.config.Clients.ReadTimeout,
		WriteTimeout:  s.config.Clients.WriteTimeout,
		IdleTimeout:   s.config.Clients.IdleTimeout,
	})
	s.cql = listeners
	var running sync.WaitGroup
	for _, l := range listeners {
		running.Go(func() {
			if err := door.Serve(l); !errors.Is(err, net.ErrClosed) {
				s.log.Error("port stopped answering", "listen", l.Addr().String(), "error", err)
			}
		})
	}
	s.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		err := door.Close(ctx)
		running.Wait()
		return err
	})
}

// cqlPerAddress returns how many connections of CQL one address may have: as many of all
// as on the other ports.
func (s *Server) cqlPerAddress() int {
	if n := s.config.Clients.PerAddress; n != 0 {
		return n
	}
	return max(1, s.plan.cql*3/4)
}

// cqlRetryTime is how long the service tries a statement again.
const cqlRetryTime = time.Minute

func (s *Server) cqlRetry() time.Duration {
	if s.config.Cassandra.Retries {
		return cqlRetryTime
	}
	return 0
}

// cqlRelease returns the release of Cassandra that clients see.
func (s *Server) cqlRelease() cql.Release {
	if s.config.Cassandra.Release == "3.11" {
		return cql.Release311
	}
	return cql.Release41
}

// cqlTokens is the number of ranges into which the system tables divide the ring, so
// that clients which read a table by ranges read several.
const cqlTokens = 16

// cqlNode returns what the system tables tell about the server.
func (s *Server) cqlNode(addr net.Addr) table.Node {
	n := table.Node{
		Cluster: s.config.Account.ID, DataCenter: s.config.Account.Region, Rack: "rack1",
		Release: s.cqlRelease().Full(), CQL: s.cqlRelease().CQL(), Protocol: s.cqlRelease().Protocol(), Generation: int32(time.Now().Unix()),
		Host: md5.Sum([]byte(s.config.Account.ID)),
	}
	n.Host[6], n.Host[8] = n.Host[6]&0x0F|0x30, n.Host[8]&0x3F|0x80 // a uuid made of a name
	if tcp, ok := addr.(*net.TCPAddr); ok {
		n.Address = tcp.AddrPort()
	}
	if !n.Address.IsValid() || n.Address.Addr().IsUnspecified() { // Clients need an address of a node.
		n.Address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), n.Address.Port())
	}
	n.Address = netip.AddrPortFrom(n.Address.Addr().Unmap(), n.Address.Port())
	for i := range int64(cqlTokens) {
		n.Tokens = append(n.Tokens, math.MinInt64+(i+1)*(math.MaxInt64/cqlTokens*2)+i)
	}
	n.Tokens[cqlTokens-1] = math.MaxInt64
	return n
}
