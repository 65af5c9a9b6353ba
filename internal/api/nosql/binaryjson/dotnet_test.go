package binaryjson

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// dotNet is the .NET client's reader and writer. testdata/dotnet has the program that
// calls them.
type dotNet struct {
	in  io.Writer
	out *bufio.Reader
}

// newDotNet starts the program with the one that CSRUN names, which compiles and runs
// a C# file, or with dotnet. It skips the test if there is neither.
func newDotNet(t *testing.T) *dotNet {
	t.Helper()
	file := filepath.Join("testdata", "dotnet", "binaryjson.cs")
	var command *exec.Cmd
	if csrun := os.Getenv("CSRUN"); csrun != "" {
		command = exec.Command(csrun, file)
	} else if dotnet, err := exec.LookPath("dotnet"); err == nil {
		command = exec.Command(dotnet, "run", "--project", filepath.Dir(file), "--configuration", "Release")
	} else {
		t.Skip("not run: the .NET client's reader needs dotnet, or CSRUN with a program that runs a C# file")
	}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &dotNet{in: in, out: bufio.NewReaderSize(out, 1<<16)}
}

// ask sends lines and returns the answer to each.
func (d *dotNet) ask(t *testing.T, lines []string) []string {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(d.in, strings.Join(lines, "\n")+"\n")
		sent <- err
	}()
	answers := make([]string, 0, len(lines))
	for range lines {
		answer, err := d.out.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d answers: %v", len(answers), err)
		}
		answers = append(answers, strings.TrimSuffix(answer, "\n"))
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return answers
}

// TestDotNet compares random texts and bytes with the .NET client's writer and reader.
// DECAN_BINARYJSON sets the number of inputs, `make binaryjson` runs 100,000 of them, and
// DECAN_SEED repeats a run.
func TestDotNet(t *testing.T) {
	count, _ := strconv.Atoi(os.Getenv("DECAN_BINARYJSON"))
	if count == 0 {
		t.Skip("not run: DECAN_BINARYJSON is not set")
	}
	seed := rand.Uint64()
	if given := os.Getenv("DECAN_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("DECAN_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	d := newDotNet(t)
	differ := map[string]int{}
	texts, documents, failed := 0, 0, 0
	fault := func(format string, args ...any) {
		if failed++; failed <= 20 {
			t.Errorf(format, args...)
		}
	}
	for texts+documents < count {
		// Texts, which the two write alike.
		var lines []string
		for range 200 {
			lines = append(lines, "write "+string(randomJSON(random, 0)))
		}
		texts += len(lines)
		var given [][]byte
		for i, answer := range d.ask(t, lines) {
			text := lines[i][len("write "):]
			if answer[0] == '!' {
				fault("%s: the .NET client has %s", text, answer)
				continue
			}
			ours, err := Append(nil, []byte(text))
			forms := strings.Fields(answer)
			if err != nil || !strings.EqualFold(hex.EncodeToString(ours), forms[0]) {
				fault("%s: wrote %X, %v, want %s", text, ours, err, forms[0])
			}
			for _, form := range slices.Compact(forms) {
				given = append(given, unhex(t, form))
			}
		}
		// Their bytes, as they are and changed.
		for _, b := range given[:len(given):len(given)] {
			for range 3 {
				given = append(given, mutate(random, b, given))
			}
		}
		lines = lines[:0]
		for _, b := range given {
			lines = append(lines, "read "+hex.EncodeToString(b))
		}
		documents += len(lines)
		for i, answer := range d.ask(t, lines) {
			reason, wrong := compare(given[i], answer)
			if reason != "" {
				differ[reason]++
			}
			if wrong != "" {
				fault("%X: %s", given[i], wrong)
			}
		}
	}
	t.Logf("%d texts and %d documents", texts, documents)
	for reason, n := range differ {
		t.Logf("%6d: %s", n, reason)
	}
	if failed > 0 {
		t.Errorf("%d differences; DECAN_SEED=%d repeats them", failed, seed)
	}
}

// mutate returns bytes like b with some changes.
func mutate(random *rand.Rand, b []byte, others [][]byte) []byte {
	b = slices.Clone(b)
	for range 1 + random.IntN(3) {
		if len(b) < 3 {
			break
		}
		at := 1 + random.IntN(len(b)-1)
		switch random.IntN(6) {
		case 0:
			b[at] = byte(random.Uint32())
		case 1:
			b[at] ^= 1 << random.IntN(8)
		case 2:
			b = b[:at]
		case 3:
			b = slices.Insert(b, at, byte(random.Uint32()))
		case 4:
			b = slices.Delete(b, at, at+1)
		case 5: // a piece of another document
			other := others[random.IntN(len(others))]
			from := random.IntN(len(other))
			copy(b[at:], other[from:min(len(other), from+1+random.IntN(8))])
		}
	}
	return b
}

// compare compares what AppendText makes of bytes with an answer of the .NET client.
// It returns the reason of a known difference, or what is wrong.
func compare(b []byte, answer string) (reason, wrong string) {
	text, rest, err := AppendText(nil, b, 16<<20)
	if answer[0] == '!' {
		if err == nil && strings.Contains(answer, "Failed to register JsonTokenType") {
			return typed, ""
		}
		if err == nil {
			return "", fmt.Sprintf("read %s and left %d bytes, want %s", text, len(rest), answer)
		}
		return "", ""
	}
	theirs, _ := hex.DecodeString(answer[1:])
	if err == nil && bytes.Equal(text, theirs) {
		return "", ""
	}
	want, notJSON := value.Parse(theirs)
	if notJSON != nil {
		return "the .NET client's text is not JSON", ""
	}
	if err != nil && strings.Contains(err.Error(), "an array of numbers of an unknown type") {
		return empty, ""
	}
	got, ourFault := value.Parse(text)
	if err == nil && ourFault == nil && value.Equal(got, want) {
		if bytes.EqualFold(text, theirs) {
			return "escapes of control characters have small letters", ""
		}
		return "", fmt.Sprintf("read %s, want %s, another form of the same", text, theirs)
	}
	return "", fmt.Sprintf("read %s, %v, want %s", text, err, theirs)
}
