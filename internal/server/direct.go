package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/api/nosql/rntbd"
)

// doorDirect is the name of the port of direct mode in metrics and the audit log.
const doorDirect = "direct"

// openDirect starts answering clients in direct mode on the listener, until Close.
// config is that of the data port.
func (s *Server) openDirect(listener net.Listener, config nosql.Config, registry *prometheus.Registry, certificates *tls.Config) {
	secure := certificates.Clone()
	secure.NextProtos = nil // The protocol has no name.
	config.Watch = s.watch.Door(doorDirect)
	config.Admit = nil // No web page speaks the protocol.
	perAddress := s.config.Clients.PerAddress
	if perAddress == 0 {
		perAddress = max(1, s.plan.direct*3/4)
	}
	door := rntbd.New(rntbd.Config{
		Handler:    nosql.NewDirect(config),
		TLS:        secure,
		Plain:      s.config.Direct.Plain && !s.config.TLS.Only,
		Version:    "version=" + s.config.Version,
		Memory:     config.Memory,
		Logger:     s.log,
		Watch:      config.Watch,
		Registerer: registry,

		Connections:  s.plan.direct,
		PerAddress:   perAddress,
		PayloadBytes: s.config.Limits.BodyBytes,
		ReadTimeout:  s.config.Clients.ReadTimeout,
		WriteTimeout: s.config.Clients.WriteTimeout,
	})
	s.direct = listener
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := door.Serve(listener); !errors.Is(err, net.ErrClosed) {
			s.log.Error("port stopped answering", "listen", listener.Addr().String(), "error", err)
		}
	}()
	s.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		err := door.Close(ctx)
		<-served
		return err
	})
}

// freePort returns an address with the same host and any free port.
func freePort(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, "0")
}
