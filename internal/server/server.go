// Package server is the only package that combines the parts of Decan: it opens
// the storage, chooses the replication, starts the node, the engine and the
// doors, and closes them in reverse order.
//
// Learn [Config], then [Start]. A Server listens on one port for clients, both
// TLS and plain HTTP, on one for administration, on one for clients in
// direct mode, on one or more for clients of the Cassandra API, and optionally on one for the compute gateway.
//
// # Invariants
//
// A port is open only while requests on it can be answered. A data directory
// belongs to one process. A refused start does not change the directory.
//
// The package decides nothing about data and knows no resource.
//
// Page: docs/operating.md
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/decandb/decan/internal/api/admin"
	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/balance"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/copyjob"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

const (
	// drainTimeout bounds how long Close waits for running requests: longer than
	// any request may take.
	drainTimeout = 30 * time.Second
	// maxHeaderBytes exceeds the longest headers that clients send: ids of 1,023
	// bytes, keys of three times 2,048 and tokens of 16 KB, all escaped.
	maxHeaderBytes = 128 << 10
)

// Server is a running server.
type Server struct {
	config Config
	log    *slog.Logger
	engine *engine.Engine
	copies *copyjob.Jobs
	ready  atomic.Bool
	audit  *audit.Log // nil without one
	watch  *audit.Watch

	mend func() // what the node does every second, for tests

	// health describes what is wrong, for /ready.
	health func() (disk string, unwell []cluster.Unwell)
	plan   descriptors

	clock       *cluster.Clock
	lookAtClock func() // what the node does every second, for tests

	// catalogFault returns why the catalog accepts no changes, or nil if it does.
	catalogFault func() error

	data    *door // the main port
	admin   *door // nil without an admin port
	cql     []net.Listener
	selects selector     // statements of the admin API
	direct  net.Listener // nil without direct mode

	closers []func() error // run by Close, in reverse order
	once    sync.Once
	err     error // the result of Close
}

// door is one listener and its HTTP server.
type door struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{} // closed when the port's goroutine has ended
}

// Start opens the data and returns when every port answers. After an error it
// closes everything that it had opened.
func Start(ctx context.Context, config Config) (*Server, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, log: config.Logger}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	// Files named by the configuration are checked first: a port in use may be free in
	// a minute, but an invalid file remains invalid. The addresses are next, because a
	// port in use is the most common error and is found quickly.
	verifier, remote, err := s.verifier()
	if err != nil {
		return err
	}
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	remote.begin(ctx)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	if s.audit, err = s.config.openAudit(); err != nil {
		return err
	}
	s.onClose(s.audit.Close)
	s.watch = audit.New(audit.Config{Registerer: registry, Logger: s.log, Log: s.audit})
	s.onClose(func() error { s.watch.Close(); return nil })
	if err := s.lockData(); err != nil {
		return err
	}
	// An unreadable certificate refuses the start before any store is changed.
	certificates, err := s.config.certificates()
	if err != nil {
		return err
	}
	if err := s.openData(registry, verifier); err != nil {
		return err
	}
	s.openDoors(listeners, registry, certificates)
	s.ready.Store(true)
	return nil
}

type listeners struct {
	data, admin, compute, direct net.Listener
	cql                          []net.Listener
}

// listen binds every address. From now on the sockets queue clients, which are
// answered once the data is open.
func (s *Server) listen(ctx context.Context) (listeners, error) {
	type port struct {
		address string
		to      *net.Listener
		what    string
	}
	var bound listeners
	ports := []port{
		{s.config.Ports.Data, &bound.data, "--listen"},
		{s.config.Ports.Admin, &bound.admin, "--admin-listen"},
		{s.config.Ports.Compute, &bound.compute, "--compute-listen"},
	}
	direct, directGiven := s.config.directAddress()
	ports = append(ports, port{direct, &bound.direct, "--direct-listen"})
	cql := s.config.cqlAddresses()
	bound.cql = make([]net.Listener, len(cql))
	for i, address := range cql {
		ports = append(ports, port{address, &bound.cql[i], "--cql-listen"})
	}
	for _, want := range ports {
		if want.address == "" || want.address == noListener {
			continue
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", want.address)
		if err != nil && want.to == &bound.direct && !directGiven {
			// Clients are told the port, so any will do, and a second server on a machine
			// needs no configuration for it.
			s.log.Warn("direct mode cannot have its usual port and takes a free one", "listen", want.address, "error", err)
			listener, err = config.Listen(ctx, "tcp", freePort(want.address))
		}
		if err != nil {
			return listeners{}, fmt.Errorf("%s %s: %w", want.what, want.address, err)
		}
		*want.to = listener
		s.onClose(listener.Close)
	}
	return bound, nil
}

// The names of the doors in metrics and the audit log.
const (
	doorData    = "data"
	doorCompute = "compute"
	doorAdmin   = "admin"
)

// splitsHeld is the number of splits that may wait for their delay at the same
// time.
const splitsHeld = 1 << 10

// lockData creates or checks the layout of the data directory, and locks it.
func (s *Server) lockData() error {
	if s.config.Data == "" {
		return nil
	}
	lock, err := openDataDir(s.config.Data, s.config.Storage.Access, s.config.Version, s.log)
	if err != nil {
		return err
	}
	s.onClose(lock.Close)
	return nil
}

// openData opens storage, catalog, node and engine, and registers how to close
// them.
func (s *Server) openData(registry *prometheus.Registry, verifier *auth.Verifier) error {
	s.plan = s.config.descriptors(s.log)
	options := storage.Options{MaxOpenFiles: s.plan.tables, InMemory: s.config.Data == "", CacheBytes: int64(s.config.Memory.Cache), IdleFlush: s.config.Storage.IdleFlush, GroupRead: s.config.Storage.Access == accessGroup, Release: s.config.Version, Logger: s.log}
	if s.config.Data != "" {
		options.ReserveDir, options.ReserveBytes = filepath.Join(s.config.Data, "reserve"), max(0, int64(s.config.Storage.DiskReserve))
	}
	if s.config.adjust != nil {
		s.config.adjust(&options)
	}
	pool, err := storage.NewPool(options)
	if err != nil {
		return err
	}
	s.onClose(pool.Close)
	store, err := openCatalogStore(pool, s.config.Data)
	if err != nil {
		return fmt.Errorf("open the catalog: %w", err)
	}
	owned := &catalogStore{pool: pool, dir: store.Dir(), store: store}
	s.onClose(owned.close)
	clock := cluster.NewClock(cluster.ClockConfig{
		Now: s.config.Now, Elapsed: s.config.elapsed,
		Jump: s.config.Clock.Jump, Ahead: s.config.Clock.Ahead, Steady: s.config.Clock.Steady,
		Logger: s.log, Registerer: registry,
	})
	names, err := catalog.Open(store, clock.Now)
	if err != nil {
		return err
	}
	s.catalogFault = names.Failed
	enforcement, err := cluster.ParseEnforcement(s.config.Throughput.Enforcement)
	if err != nil {
		return err
	}
	scrubRate := int64(s.config.Storage.ScrubRate)
	if s.config.Data == "" {
		scrubRate = 0 // There are no files.
	}
	var grown grownContainers
	node, err := cluster.Start(cluster.Config{
		Grown:      grown.wake,
		SplitDelay: s.config.Partitions.SplitDelay,
		ScrubRate:  scrubRate,
		Throttling: cluster.Throttling{
			Enforcement: enforcement,
			Burst:       s.config.Throughput.Burst,
			Serverless:  s.config.Throughput.Serverless,
		},
		Registerer: registry,

		MendCatalog: func() error { return owned.mend(names) },

		Pool:    pool,
		Dir:     s.config.Data,
		Catalog: names,
		Limits:  s.config.Limits,
		Clock:   clock,
		Logger:  s.log,

		Descriptors: s.plan.stores,
		Maintenance: s.config.maintenance,
	})
	if err != nil {
		return err
	}
	s.onClose(node.Close)
	if s.config.Data != "" {
		if err := emptyInflight(s.config.Data, s.log); err != nil {
			return err
		}
	}
	s.clock, s.lookAtClock = clock, node.CheckClock
	s.mend = node.Mend
	s.health = func() (string, []cluster.Unwell) { return diskHealth(pool), node.Unwell() }
	parallel := 0
	if s.config.Partitions.SplitDelay > 0 {
		parallel = splitsHeld // A waiting split does no work.
	}
	balancer := balance.New(balance.Config{Catalog: names, Node: node, Limits: s.config.Limits, Parallel: parallel, Logger: s.log})
	s.onClose(func() error { balancer.Close(); return nil })
	consistency, err := resource.ParseConsistency(s.config.Account.Consistency)
	if err != nil {
		return err
	}
	cross := engine.Service
	if s.config.Protocol.CrossPartition == "full" {
		cross = engine.Full
	}
	yields := new(yielder)
	s.onClose(yields.Close)
	scripts := script.New(script.Limits{ResultBytes: s.config.Limits.ResponseBytes})
	s.onClose(func() error { scripts.Close(); return nil })
	s.engine = engine.New(engine.Config{
		Catalog:        names,
		Node:           node,
		Account:        resource.Account{ID: s.config.Account.ID, Region: s.config.Account.Region, Consistency: consistency},
		Limits:         s.config.Limits,
		Now:            s.config.Now,
		Verifier:       verifier,
		CrossPartition: cross,
		TrailingPage:   s.config.Protocol.TrailingPage,
		Serverless:     s.config.Throughput.Serverless,
		Rebalance:      balancer.Wake,
		MergeAll:       balancer.Merge,
		Scripts:        scripts,
		Yield:          yields.yield,
		Logger:         s.log,
		Registerer:     registry,

		PrefixPermissions: s.config.Access.PrefixPermissions,
		PrefixDeletes:     s.config.Protocol.PrefixDeletes,
	})
	balancer.Start()
	grown.passTo(balancer)
	if s.copies, err = copyjob.Open(copyjob.Config{Catalog: names, Engine: s.engine, Logger: s.log}); err != nil {
		return err
	}
	s.onClose(func() error { s.copies.Close(); return nil })
	s.copies.Start()
	return nil
}

// openCatalogStore opens the catalog's store in a data directory, which must
// contain everything that was acknowledged. A new store is created under another
// name and renamed when it is complete: a crash in between leaves no partial
// catalog.
func openCatalogStore(pool *storage.Pool, data string) (*storage.Store, error) {
	files := pool.FS()
	dir, incomplete := files.PathJoin(data, "catalog"), files.PathJoin(data, cluster.InflightDir, newCatalogName)
	_, err := files.Stat(dir)
	if err == nil {
		must, err := cluster.VerifyCatalog(files, data)
		if err != nil {
			return nil, err
		}
		return pool.OpenVerified(dir, must)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := cluster.AllowFresh(files, data); err != nil {
		return nil, err
	}
	if err := pool.Remove(incomplete); err != nil { // A start was interrupted.
		return nil, err
	}
	store, err := pool.Create(incomplete)
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	if err := pool.Rename(incomplete, dir); err != nil {
		return nil, err
	}
	return pool.Open(dir)
}

// openDoors starts answering on every port.
func (s *Server) openDoors(bound listeners, registry *prometheus.Registry, certificates *tls.Config) {
	memory := nosql.NewMemory(int64(s.config.Memory.Requests), registry)
	clients, operators := s.connections(memory, registry)
	config := nosql.Config{
		Memory:     memory,
		Engine:     s.engine,
		Limits:     s.config.Limits,
		Endpoint:   s.config.Account.Endpoint,
		Version:    s.config.Version,
		Logger:     s.log,
		Registerer: registry,
		Watch:      s.watch.Door(doorData),
		Admit:      s.admit(s.config.Ports.Data, s.config.Access.Origins, s.watch.Door(doorData)),
		Switches:   nosql.Switches{StrictItemIDs: s.config.Protocol.StrictIDs, SeveralTriggers: s.config.Protocol.Triggers, TrustForwardedProto: s.config.Account.Forwarded},
	}
	if bound.direct != nil {
		if address, ok := bound.direct.Addr().(*net.TCPAddr); ok {
			config.Direct = address.Port
		}
		s.openDirect(bound.direct, config, registry, certificates)
	}
	operations := admin.Config{
		Engine:   s.engine,
		Gatherer: registry,
		CopyJobs: s.copies,
		Ready:    s.serving,
		Watch:    s.watch.Door(doorAdmin),
		Health:   s.health,
		Clock:    s.clock,
		Now:      s.config.Now,
		Limits:   s.config.Limits,
		Version:  s.config.Version,
		Logger:   s.log,
		Memory:   memory,
	}
	if len(bound.cql) > 0 {
		operations.Select = s.selects.run
	}
	s.data = s.openDoor(listenMixed(bound.data, clients, certificates), clients, s.dataPort(config, operations))
	if bound.compute != nil {
		// The compute gateway never had the main port's problem with unusual ids,
		// and its clients depend on that.
		config.Switches.StrictItemIDs = false
		config.Endpoint = ""
		config.Admit = s.admit(s.config.Ports.Compute, s.config.Access.Origins, s.watch.Door(doorCompute))
		config.Watch = s.watch.Door(doorCompute)
		s.openDoor(listenMixed(bound.compute, clients, certificates), clients, s.withOrigins(config.Admit, nosql.New(config)))
	}
	if len(bound.cql) > 0 {
		s.openCQL(bound.cql, registry, certificates)
	}
	if bound.admin != nil {
		operations.Admit = s.admit(s.config.Ports.Admin, nil, s.watch.Door(doorAdmin))
		operations.Metrics = s.config.Access.ProtectMetrics
		s.admin = s.openDoor(listenMixed(bound.admin, operators, certificates), operators, admin.New(operations))
	}
}

// serving returns why /ready reports an error, or nil.
func (s *Server) serving() error {
	if !s.ready.Load() {
		return errors.New("the server is starting or closing")
	}
	if err := s.catalogFault(); err != nil {
		s.log.Error("catalog takes no changes", "error", err)
		return errors.New("the catalog cannot be changed; the log says why")
	}
	return nil
}

// connections returns the limits for the connections of clients and for those of
// the admin port.
func (s *Server) connections(memory *nosql.Memory, registry *prometheus.Registry) (clients, operators *connections) {
	metrics := newConnectionMetrics()
	group := func(port string, limit, perAddress int) *connections {
		return &connections{
			limit: limit, perAddress: perAddress, port: port,
			readTimeout: s.config.Clients.ReadTimeout, writeTimeout: s.config.Clients.WriteTimeout,
			memory: memory, metrics: metrics, began: time.Now(), counts: map[netip.Prefix]int{},
		}
	}
	perAddress := s.config.Clients.PerAddress
	if perAddress == 0 {
		perAddress = max(1, s.plan.connections*3/4)
	}
	clients, operators = group(portData, s.plan.connections, perAddress), group(portAdmin, s.plan.admin, 0)
	metrics.ports = []*connections{clients, operators}
	registry.MustRegister(metrics)
	return clients, operators
}

// openDoor serves handler on listener, whose connections all counts, until Close.
func (s *Server) openDoor(listener net.Listener, all *connections, handler http.Handler) *door {
	d := &door{
		listener: listener,
		done:     make(chan struct{}),
		http: &http.Server{
			Handler:           watched(handler),
			ConnContext:       withConnection,
			ConnState:         changed,
			ReadHeaderTimeout: all.readTimeout,
			IdleTimeout:       s.config.Clients.IdleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			Protocols:         spokenProtocols(),
			HTTP2:             http2Config(),
			ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		},
	}
	go func() {
		defer close(d.done)
		if err := d.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("port stopped answering", "listen", listener.Addr().String(), "error", err)
		}
	}()
	s.onClose(d.close)
	return d
}

// close lets running requests finish, up to drainTimeout, and waits for the end
// of the port's goroutine.
func (d *door) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := d.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("running requests did not finish in %s: %w", drainTimeout, err), d.http.Close())
	}
	<-d.done
	return err
}

// onClose registers a function for Close, which runs the last one first.
func (s *Server) onClose(undo func() error) { s.closers = append(s.closers, undo) }

// Close stops accepting, finishes running requests, and closes doors, node and
// stores in reverse order of opening. Later calls return the result of the first.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.ready.Store(false)
		var faults []error
		for _, undo := range slices.Backward(s.closers) {
			if err := undo(); err != nil && !errors.Is(err, net.ErrClosed) {
				faults = append(faults, err)
			}
		}
		s.err = errors.Join(faults...)
	})
	return s.err
}

// Endpoint returns the data plane's URL, such as http://127.0.0.1:8081/. The same
// port answers https, and with HTTPSOnly nothing else.
func (s *Server) Endpoint() string { return s.scheme() + s.data.listener.Addr().String() + "/" }

func (s *Server) scheme() string {
	if s.config.TLS.Only {
		return "https://"
	}
	return "http://"
}

// AdminEndpoint returns the admin port's URL, or "" without one.
func (s *Server) AdminEndpoint() string {
	if s.admin == nil {
		return ""
	}
	return s.scheme() + s.admin.listener.Addr().String() + "/"
}

// CQLAddresses returns the addresses of the Cassandra API, none if it is off.
func (s *Server) CQLAddresses() []string {
	var addresses []string
	for _, l := range s.cql {
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// DirectAddress returns the address of direct mode, "" if it is off.
func (s *Server) DirectAddress() string {
	if s.direct == nil {
		return ""
	}
	return s.direct.Addr().String()
}

// Account returns the name of the account, which is the user of the Cassandra API.
func (s *Server) Account() string { return s.config.Account.ID }

// Key returns the current primary account key.
func (s *Server) Key() string { return s.engine.PrimaryKey() }

// CreateContainer creates a container with an exact number of physical
// partitions, and its database if that does not exist. definition is the
// container's JSON.
func (s *Server) CreateContainer(ctx context.Context, database, definition string, partitions int) error {
	body, err := value.ParseString(definition)
	if err != nil {
		return fmt.Errorf("container definition: %w", err)
	}
	caller := auth.Owner()
	name := value.Object([]value.Member{{Name: "id", Value: value.String(database)}})
	_, err = s.engine.CreateDatabase(ctx, caller, engine.DatabaseRequest{Body: name})
	if err != nil && status.CodeOf(err) != status.CodeConflict {
		return err
	}
	_, err = s.engine.CreateContainer(ctx, caller, engine.ContainerRequest{
		Link:       engine.Link{Database: database},
		Body:       body,
		Partitions: partitions,
	})
	return err
}
