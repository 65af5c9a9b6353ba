package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// BenchmarkProcess measures the real process: the time from its start to the first
// successful request, and its memory and processor time when idle, without containers and
// with a thousand. `make bench` runs it and prints the numbers of docs/benchmarks.md. It
// reads /proc, so it needs Linux.
func BenchmarkProcess(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("reads /proc")
	}
	for b.Loop() {
		fresh := startTimes(b, func() string { return filepath.Join(b.TempDir(), "data") })
		kept := filepath.Join(b.TempDir(), "data")
		again := startTimes(b, func() string { return kept })

		p := spawn(b, "--data", filepath.Join(b.TempDir(), "idle"))
		fmt.Printf("\nprocess start to first successful request, p50 of %d: %s with a fresh directory, %s with a used one (aim: under 100 ms)\n",
			len(fresh), median(fresh).Round(100*time.Microsecond), median(again).Round(100*time.Microsecond))
		memory, cpu := p.idle(b)
		fmt.Printf("idle: %.0f MB resident (aim: under 60), %.2f %% of a core (aim: 0)\n", memory, cpu)

		makeContainers(b, p.address, 1000)
		memory, cpu = p.idle(b)
		fmt.Printf("idle with 1,000 empty containers: %.0f MB resident (aim: under 500), %.2f %% of a core (aim: 0)\n", memory, cpu)
		p.command.Process.Signal(syscall.SIGTERM)
		<-p.exited

		p = spawn(b, "--data", filepath.Join(filepath.Dir(p.data()), "idle"))
		touchContainers(b, p.address, 1000)
		memory, cpu = p.idle(b)
		fmt.Printf("idle with 1,000 containers after a restart, all opened: %.0f MB resident, %.2f %% of a core\n", memory, cpu)
		p.command.Process.Signal(syscall.SIGTERM)
		<-p.exited
	}
}

func (p *process) data() string {
	return p.command.Args[slices.Index(p.command.Args, "--data")+1]
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// startTimes starts the binary, and requests the account until it answers.
func startTimes(b *testing.B, data func() string) []time.Duration {
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	var times []time.Duration
	for range 11 {
		address := freePort(b)
		command := exec.Command(path, "--listen", address, "--admin-listen", "none", "--cql=false", "--data", data())
		request := servertest.Prepare(server.WellKnownKey, "GET", "", nil)
		began := time.Now()
		if err := command.Start(); err != nil {
			b.Fatal(err)
		}
		for {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
				break
			}
			if time.Since(began) > 20*time.Second {
				b.Fatal("the server does not listen")
			}
			time.Sleep(500 * time.Microsecond)
		}
		client, err := servertest.Dial(address)
		if err != nil {
			b.Fatal(err)
		}
		if response, err := client.Do(request); err != nil || response.Status != 200 {
			b.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
		times = append(times, time.Since(began))
		client.Close()
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	}
	return times
}

// idle waits until the process is idle, and returns its resident memory in MB and its
// processor time over ten seconds, in percent of a core.
func (p *process) idle(b *testing.B) (memory, cpu float64) {
	b.Helper()
	time.Sleep(15 * time.Second) // until flushes, compactions and the last garbage collection have ended
	const window = 10 * time.Second
	before := p.ticks(b)
	time.Sleep(window)
	used := float64(p.ticks(b)-before) / 100 // clock ticks are hundredths of a second
	return p.resident(b), 100 * used / window.Seconds()
}

func (p *process) proc(name string) string {
	return fmt.Sprintf("/proc/%d/%s", p.command.Process.Pid, name)
}

// ticks returns the user and system time of the process.
func (p *process) ticks(b *testing.B) int {
	content, err := os.ReadFile(p.proc("stat"))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return user + system
}

// resident returns the resident memory of the process, in MB.
func (p *process) resident(b testing.TB) float64 {
	f, err := os.Open(p.proc("status"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		if text, found := strings.CutPrefix(scanner.Text(), "VmRSS:"); found {
			kilobytes, err := strconv.Atoi(strings.Fields(text)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kilobytes) / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

func makeContainers(b *testing.B, address string, n int) {
	b.Helper()
	client, err := servertest.Dial(address)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	must(b, client, servertest.Prepare(server.WellKnownKey, "POST", "dbs", []byte(`{"id":"many"}`)), 201)
	for i := range n {
		must(b, client, servertest.Prepare(server.WellKnownKey, "POST", "dbs/many/colls",
			fmt.Appendf(nil, `{"id":"c%d","partitionKey":{"paths":["/pk"]}}`, i)), 201)
	}
}

// touchContainers opens every partition by reading a missing item.
func touchContainers(b *testing.B, address string, n int) {
	b.Helper()
	client, err := servertest.Dial(address)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		must(b, client, servertest.Prepare(server.WellKnownKey, "GET", fmt.Sprintf("dbs/many/colls/c%d/docs/none", i), nil,
			"x-ms-documentdb-partitionkey", `["x"]`), 404)
	}
}

func must(b *testing.B, client *servertest.Client, request servertest.Request, want int) {
	b.Helper()
	response, err := client.Do(request)
	if err != nil || response.Status != want {
		b.Fatalf("%v %d %s", err, response.Status, response.Body)
	}
}
