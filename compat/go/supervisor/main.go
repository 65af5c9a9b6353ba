// Command supervisor runs a decan whose port for direct mode it forwards, so that tests
// with SDKs can end connections and restart the server while clients work.
//
//	supervisor -control ADDRESS -direct ADDRESS -to ADDRESS -ready URL -log FILE COMMAND ARGUMENT...
//
// It starts the command, which listens for direct mode at -to, forwards connections from
// -direct, and at -control takes POST requests:
//
//	/cut      ends all connections that are forwarded
//	/restart  stops the command with SIGTERM and starts it again
//	/crash    stops the command with SIGKILL and starts it again
//
// Each is answered when it is done, a start when -ready answers with 200. The command is
// stopped with the supervisor.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	control := flag.String("control", "", "where tests ask")
	direct := flag.String("direct", "", "where clients connect")
	to := flag.String("to", "", "where the command listens")
	ready := flag.String("ready", "", "a page that is 200 when the command is ready")
	output := flag.String("log", os.DevNull, "gets what the command prints")
	flag.Parse()
	log.SetFlags(0)
	s := &supervisor{command: flag.Args(), ready: *ready, to: *to, conns: map[net.Conn]struct{}{}}
	if err := s.run(*control, *direct, *output); err != nil {
		log.Fatal(err)
	}
}

type supervisor struct {
	command   []string
	ready, to string
	output    *os.File

	mu sync.Mutex // of one start or stop at a time

	process *exec.Cmd // guarded by mu

	connsMu sync.Mutex

	conns map[net.Conn]struct{} // guarded by connsMu: accepted ones
}

func (s *supervisor) run(control, direct, output string) error {
	var err error
	if s.output, err = os.Create(output); err != nil {
		return err
	}
	if direct != "" {
		clients, err := net.Listen("tcp", direct)
		if err != nil {
			return err
		}
		go s.forward(clients)
	}
	if err := s.start(); err != nil {
		return err
	}
	http.HandleFunc("POST /cut", s.answer(func() error { s.cut(); return nil }))
	http.HandleFunc("POST /restart", s.answer(func() error { return s.restart(syscall.SIGTERM) }))
	http.HandleFunc("POST /crash", s.answer(func() error { return s.restart(syscall.SIGKILL) }))
	failed := make(chan error, 1)
	go func() { failed <- http.ListenAndServe(control, nil) }()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	select {
	case <-ended:
	case err = <-failed:
	}
	return errors.Join(err, s.stop(syscall.SIGTERM))
}

func (s *supervisor) answer(do func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := do(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func (s *supervisor) restart(how syscall.Signal) error {
	return errors.Join(s.stop(how), s.start())
}

func (s *supervisor) start() error {
	s.process = exec.Command(s.command[0], s.command[1:]...)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	if err := s.process.Start(); err != nil {
		return err
	}
	for range 600 {
		if answer, err := http.Get(s.ready); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s is not ready", s.command[0])
}

func (s *supervisor) stop(how syscall.Signal) error {
	if err := s.process.Process.Signal(how); err != nil {
		return err
	}
	err := s.process.Wait()
	if _, ended := errors.AsType[*exec.ExitError](err); ended && how == syscall.SIGKILL {
		return nil
	}
	return err
}

// cut ends all connections, with what is on its way in them.
func (s *supervisor) cut() {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *supervisor) forward(clients net.Listener) {
	for {
		near, err := clients.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go s.pass(near)
	}
}

func (s *supervisor) pass(near net.Conn) {
	s.connsMu.Lock()
	s.conns[near] = struct{}{}
	s.connsMu.Unlock()
	defer func() {
		s.connsMu.Lock()
		delete(s.conns, near)
		s.connsMu.Unlock()
		near.Close()
	}()
	far, err := net.Dial("tcp", s.to)
	if err != nil {
		return // The command is stopped: the client tries again.
	}
	defer far.Close()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		both.Go(func() {
			_, _ = io.Copy(to, from) // Either end may close.
			_ = to.(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}
