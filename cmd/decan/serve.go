package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
)

// serveCommand runs the server. Its flags are the options of [server.Config], which
// describe themselves, and a few that concern the process.
type serveCommand struct {
	Config server.Config `embed:""`

	LogLevel  slog.Level `default:"info" placeholder:"LEVEL" group:"Log" help:"The lowest level of lines in the log: debug, info, warn or error (${default})."`
	LogFormat string     `default:"text" enum:"text,json" group:"Log" help:"The format of the log: ${enum}."`

	EnablePreview bool `help:"Accepted for scripts written for the older emulator; hierarchical partition keys are always on."`
}

// Run serves until SIGINT or SIGTERM, then finishes running requests.
func (c *serveCommand) Run(io console.Streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return c.serve(ctx, stop, io)
}

// serve serves until ctx ends, and then calls stop, which releases the signals.
func (c *serveCommand) serve(ctx context.Context, stop func(), io console.Streams) error {
	config := c.Config
	memory := planMemory(&config.Memory)
	config.AuditOutput = io.Out
	config.Version = version
	config.Logger = logger(io.Err, c.LogLevel, c.LogFormat)
	defer keepHeapFloor()()
	defer memory.apply()()
	began := time.Now()
	running, err := server.Start(ctx, config)
	if err != nil {
		return err
	}
	fmt.Fprint(io.Out, banner(running, config, time.Since(began)))
	reopened := c.reopenAudit(ctx, running, config.Logger)
	<-ctx.Done()
	// A second signal ends the process at once. Like kill -9, it loses nothing that
	// was acknowledged.
	stop()
	<-reopened
	return running.Close()
}

// reopenAudit opens the file of the audit log again at each SIGHUP until ctx ends,
// and then closes the returned channel. Without a file, SIGHUP ends the process.
func (c *serveCommand) reopenAudit(ctx context.Context, running *server.Server, log *slog.Logger) <-chan struct{} {
	ended := make(chan struct{})
	if file := c.Config.Audit.Log; file == "" || file == "-" {
		close(ended)
		return ended
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	go func() {
		defer close(ended)
		defer signal.Stop(asked)
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
				if err := running.ReopenAudit(); err != nil {
					log.Error("audit log not opened again", "error", err)
				}
			}
		}
	}()
	return ended
}

// banner returns what a user needs to connect. It contains the key only if that is
// the well-known one.
func banner(running *server.Server, config server.Config, took time.Duration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "decan %s is ready after %d ms\n", config.Version, took.Milliseconds())
	more := " (https on the same port)"
	if config.TLS.Only {
		more = ""
	}
	fmt.Fprintf(&out, "  endpoint  %s%s\n", running.Endpoint(), more)
	if config.Keys.Primary == "" {
		fmt.Fprintf(&out, "  key       %s\n", server.WellKnownKey)
	}
	if address := running.DirectAddress(); address != "" {
		fmt.Fprintf(&out, "  direct    %s (Java and .NET find it themselves)\n", address)
	}
	if addresses := running.CQLAddresses(); len(addresses) > 0 {
		fmt.Fprintf(&out, "  cql       %s (user %s, password: the key)\n", strings.Join(addresses, ", "), running.Account())
	}
	if config.InMemory || config.Data == "" {
		fmt.Fprintf(&out, "  data      in memory, lost when the server stops\n")
	} else {
		fmt.Fprintf(&out, "  data      %s\n", config.Data)
	}
	if admin := running.AdminEndpoint(); admin != "" {
		fmt.Fprintf(&out, "  admin     %s (/alive /ready /metrics)\n", admin)
	}
	return out.String()
}
