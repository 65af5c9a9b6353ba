// Command supervisor runs a decan whose ports it forwards, so that tests with SDKs can end
// connections and restart the server while clients work.
//
//	supervisor -control ADDRESS [-forward NAME=FROM=TO]... -ready URL -log FILE COMMAND ARGUMENT...
//
// It starts the command, forwards connections from each FROM to where the command listens,
// TO, and at -control takes POST requests:
//
//	/cut/NAME ends all connections that are forwarded under that name
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
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	control := flag.String("control", "", "where tests ask")
	var forwards []forward
	flag.Func("forward", "a name = where clients connect = where the command listens", func(text string) error {
		parts := strings.Split(text, "=")
		if len(parts) != 3 {
			return errors.New("not NAME=FROM=TO")
		}
		forwards = append(forwards, forward{name: parts[0], from: parts[1], to: parts[2]})
		return nil
	})
	ready := flag.String("ready", "", "a page that is 200 when the command is ready")
	output := flag.String("log", os.DevNull, "gets what the command prints")
	flag.Parse()
	log.SetFlags(0)
	s := &supervisor{command: flag.Args(), ready: *ready, conns: map[net.Conn]string{}}
	if err := s.run(*control, forwards, *output); err != nil {
		log.Fatal(err)
	}
}

// forward is a port whose connections go to one of the command.
type forward struct{ name, from, to string }

type supervisor struct {
	command []string
	ready   string
	output  *os.File

	mu sync.Mutex // of one start or stop at a time

	process *exec.Cmd // guarded by mu

	connsMu sync.Mutex

	conns map[net.Conn]string // guarded by connsMu: accepted ones with the name of their forward
}

func (s *supervisor) run(control string, forwards []forward, output string) error {
	var err error
	if s.output, err = os.Create(output); err != nil {
		return err
	}
	for _, f := range forwards {
		clients, err := net.Listen("tcp", f.from)
		if err != nil {
			return err
		}
		go s.accept(clients, f)
	}
	if err := s.start(); err != nil {
		return err
	}
	http.HandleFunc("POST /cut/{name}", s.answer(func(r *http.Request) error { s.cut(r.PathValue("name")); return nil }))
	http.HandleFunc("POST /restart", s.answer(func(*http.Request) error { return s.restart(syscall.SIGTERM) }))
	http.HandleFunc("POST /crash", s.answer(func(*http.Request) error { return s.restart(syscall.SIGKILL) }))
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

func (s *supervisor) answer(do func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := do(r); err != nil {
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

// cut ends all connections of a forward, with what is on its way in them.
func (s *supervisor) cut(name string) {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	for c, of := range s.conns {
		if of == name {
			c.Close()
		}
	}
}

func (s *supervisor) accept(clients net.Listener, f forward) {
	for {
		near, err := clients.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go s.pass(near, f)
	}
}

func (s *supervisor) pass(near net.Conn, f forward) {
	s.connsMu.Lock()
	s.conns[near] = f.name
	s.connsMu.Unlock()
	defer func() {
		s.connsMu.Lock()
		delete(s.conns, near)
		s.connsMu.Unlock()
		near.Close()
	}()
	far, err := net.Dial("tcp", f.to)
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
