package server

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The statements that PostgreSQL runs, with the ids of pgbench's random item.
const (
	postgresEquality = `\set i random(1, :items)
SELECT doc FROM items WHERE doc @> jsonb_build_object('ten', (:i - 1) / 10);`
	postgresTop   = `SELECT doc FROM items ORDER BY doc->'rank' LIMIT 10;`
	postgresGroup = `SELECT doc->'hundred', count(*) FROM items GROUP BY doc->'hundred';`
)

// postgres measures the statements over the same documents in a server of its
// own, with pgbench and its log of each transaction, and returns the medians in
// microseconds, or nothing if PostgreSQL is absent.
func (q *queryBench) postgres() map[string]float64 {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil && len(found) == 0 {
		found = append(found, path)
	}
	if len(found) == 0 {
		q.b.Log("PostgreSQL is not installed: not compared")
		return nil
	}
	p := &postgres{b: q.b, bin: filepath.Dir(found[len(found)-1])}
	var err error
	// Below the system's directory for temporary files: another user must enter
	// it, and the path of a socket must be short.
	if p.dir, err = os.MkdirTemp("", "decan-pg"); err != nil {
		q.b.Fatal(err)
	}
	defer os.RemoveAll(p.dir)
	if err := p.start(); err != nil {
		q.b.Log("PostgreSQL does not start: not compared:", err)
		return nil
	}
	defer p.run("pg_ctl", "-D", p.dir+"/data", "-m", "immediate", "stop")
	p.load(q.items)
	result := map[string]float64{}
	for statement, times := range map[string]int{postgresEquality: 500, postgresTop: 5, postgresGroup: 5} {
		result[statement] = p.measure(statement, q.items, times)
	}
	return result
}

// postgres is a PostgreSQL server for one measurement.
type postgres struct {
	b        *testing.B
	bin, dir string
	as       []string // runs a command as another user if this user is root, which PostgreSQL refuses
}

func (p *postgres) start() error {
	if os.Geteuid() == 0 {
		other, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		p.as = []string{"setpriv", "--reuid=" + other.Uid, "--regid=" + other.Gid, "--clear-groups"}
		uid, _ := strconv.Atoi(other.Uid)
		gid, _ := strconv.Atoi(other.Gid)
		if err := os.Chown(p.dir, uid, gid); err != nil {
			return err
		}
	}
	if err := p.run("initdb", "-D", p.dir+"/data", "-A", "trust", "-U", "bench"); err != nil {
		return err
	}
	options := fmt.Sprintf("-c listen_addresses= -c unix_socket_directories=%s -c shared_buffers=1GB -c work_mem=64MB -c maintenance_work_mem=512MB -c max_wal_size=8GB", p.dir)
	return p.run("pg_ctl", "-D", p.dir+"/data", "-w", "-o", options, "-l", p.dir+"/log", "start")
}

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	path := filepath.Join(p.bin, name)
	if _, err := os.Stat(path); err != nil {
		path = name // the client programs may be in another directory
	}
	line := append(slices.Clone(p.as), path)
	line = append(line, args...)
	command := exec.Command(line[0], line[1:]...)
	command.Dir = p.dir
	return command
}

func (p *postgres) run(name string, args ...string) error {
	if out, err := p.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (p *postgres) sql(input []byte, text string) {
	command := p.command("psql", "-h", p.dir, "-U", "bench", "-d", "postgres", "-q", "-v", "ON_ERROR_STOP=1", "-c", text)
	command.Stdin = bytes.NewReader(input)
	if out, err := command.CombinedOutput(); err != nil {
		p.b.Fatalf("%v: %s", err, out)
	}
}

func (p *postgres) load(items int) {
	p.sql(nil, "CREATE TABLE items (id text PRIMARY KEY, doc jsonb NOT NULL)")
	for first := 0; first < items; first += 100_000 {
		var rows bytes.Buffer
		for i := first; i < min(first+100_000, items); i++ {
			fmt.Fprintf(&rows, "q%d\t%s\n", i, queryItem(i, items))
		}
		p.sql(rows.Bytes(), "COPY items FROM STDIN")
	}
	p.sql(nil, "CREATE INDEX ON items USING gin (doc jsonb_path_ops)")
	p.sql(nil, "VACUUM ANALYZE items")
}

// measure returns the median of a statement's times in microseconds.
func (p *postgres) measure(statement string, items, times int) float64 {
	script := filepath.Join(p.dir, "statement.sql")
	if err := os.WriteFile(script, []byte(statement+"\n"), 0o644); err != nil {
		p.b.Fatal(err)
	}
	prefix := filepath.Join(p.dir, "times")
	err := p.run("pgbench", "-h", p.dir, "-U", "bench", "-n", "-M", "prepared", "-c", "1", "-t", strconv.Itoa(times),
		"-D", "items="+strconv.Itoa(items), "-f", script, "-l", "--log-prefix="+prefix, "postgres")
	if err != nil {
		p.b.Fatal(err)
	}
	logs, _ := filepath.Glob(prefix + ".*")
	var took []float64
	for _, log := range logs {
		file, err := os.Open(log)
		if err != nil {
			p.b.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if fields := strings.Fields(lines.Text()); len(fields) > 2 {
				us, _ := strconv.ParseFloat(fields[2], 64)
				took = append(took, us)
			}
		}
		file.Close()
		os.Remove(log)
	}
	if len(took) != times {
		p.b.Fatalf("pgbench logged %d of %d transactions", len(took), times)
	}
	return median(took)
}
