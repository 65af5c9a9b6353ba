package shellcmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// errPagerClosed is the error of output after the pager was left.
var errPagerClosed = errors.New("the pager was left")

// pager is output that goes to a program such as less once it has more lines than the
// window. Until then it waits.
type pager struct {
	out   io.Writer
	lines int // of the window

	waiting bytes.Buffer
	program *exec.Cmd
	in      io.WriteCloser
	plain   bool // there is no program
}

func (p *pager) Write(text []byte) (int, error) {
	switch {
	case p.plain:
		return p.out.Write(text)
	case p.program != nil:
		n, err := p.in.Write(text)
		if err != nil {
			return n, errPagerClosed
		}
		return n, nil
	}
	p.waiting.Write(text)
	if bytes.Count(p.waiting.Bytes(), []byte("\n")) <= p.lines {
		return len(text), nil
	}
	p.start()
	if p.plain {
		_, err := p.out.Write(p.waiting.Bytes())
		return len(text), err
	}
	if _, err := p.in.Write(p.waiting.Bytes()); err != nil {
		return len(text), errPagerClosed
	}
	return len(text), nil
}

// start starts the program of PAGER, or less, or shows everything without one.
func (p *pager) start() {
	line := os.Getenv("PAGER")
	if line == "" {
		line = "less -FRSX"
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "cat" {
		p.plain = true
		return
	}
	program := exec.Command(words[0], words[1:]...)
	program.Stdout, program.Stderr = p.out, os.Stderr
	in, err := program.StdinPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		p.plain = true
		return
	}
	p.program, p.in = program, in
}

// close shows what waits, or waits until the program is left.
func (p *pager) close() error {
	if p.program == nil {
		if p.plain {
			return nil
		}
		_, err := p.out.Write(p.waiting.Bytes())
		return err
	}
	p.in.Close()
	if err := p.program.Wait(); err != nil {
		return fmt.Errorf("the pager %s: %w; \\pager off does without one", p.program.Path, err)
	}
	return nil
}
