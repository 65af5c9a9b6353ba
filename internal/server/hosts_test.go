package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/decandb/decan/internal/server/servertest"
)

// plainMachine is a machine that is not a container.
func plainMachine() machine {
	return machine{files: fstest.MapFS{}, env: func(string) string { return "" }, hostname: "box.lan.example"}
}

// container is a machine with one of the marks of containers.
func container(name string) machine {
	m := plainMachine()
	m.hostname = "4f1c2b3a9d8e"
	switch name {
	case "docker":
		m.files = fstest.MapFS{".dockerenv": {}}
	case "podman":
		m.files = fstest.MapFS{"run/.containerenv": {}}
	case "cgroup":
		m.files = fstest.MapFS{"proc/1/cgroup": {Data: []byte("12:cpu:/docker/4f1c2b3a9d8e\n")}}
	case "kubernetes":
		m.hostname = "decan-0"
		m.files = fstest.MapFS{"etc/resolv.conf": {Data: []byte("nameserver 10.96.0.10\nsearch shop.svc.cluster.example svc.cluster.example cluster.example corp.example\noptions ndots:5\n")}}
		m.env = func(name string) string {
			if name == "KUBERNETES_SERVICE_HOST" {
				return "10.96.0.1"
			}
			return ""
		}
	}
	return m
}

// TestHostRules checks which names are allowed in which environment.
func TestHostRules(t *testing.T) {
	t.Parallel()
	always := []string{
		"", "localhost", "localhost:8081", "LOCALHOST:1", "localhost.", "localhost.:80", "localhost:", "a.localhost", "A.b.LocalHost:65535",
		"127.0.0.1", "127.0.0.1:49153", "127.8.9.10", "172.17.0.1:49153", "192.0.2.7", "0.0.0.0:8081", "[::1]", "[::1]:8081", "[2001:db8::7]:8081", "[::ffff:127.0.0.1]",
		"host.docker.internal:8081", "host.containers.internal",
	}
	never := []string{
		"evil.example", "evil.example:8081", "localhost.evil.example", "notlocalhost.example", "127.0.0.1.evil.example", "127.0.0.1.nip.example", "x.localhost.evil.example",
		".localhost", "..", ".", ":8081", "[::1", "::1", "[::1]x", "[::1]:x", "[localhost]", "[127.0.0.1]", "[fe80::1%25eth0]", "localhost:80@evil.example", "user@localhost",
		"localhost:123456", "localhost:8a", "local host", "evil.example.", "localhost/evil.example", "x.internal.evil.example", strings.Repeat("a.", 200) + "localhost", "127.0.0.1..",
	}
	for _, test := range []struct {
		name           string
		config         Config
		listen         string
		machine        machine
		passes, refuse []string
	}{
		{"loopback", Config{}, "127.0.0.1:8081", plainMachine(), nil, []string{"decan", "decan:8081", "box", "box.lan.example", "docker:32768", "db.internal", "decan.shop.svc"}},
		{"loopback by name", Config{}, "localhost:8081", plainMachine(), nil, []string{"decan", "box"}},
		{
			"given names",
			Config{TLS: TLSOptions{Hosts: []string{"DB.example.com", "192.0.2.7"}}, Account: AccountOptions{Endpoint: "https://api.example.com:443/"}, Access: AccessOptions{Hosts: []string{"more.example.", "*.Tenants.example"}}},
			"127.0.0.1:8081", plainMachine(),
			[]string{"db.example.com:8081", "api.example.com", "API.Example.Com.:1", "more.example", "a.tenants.example", "a.b.tenants.example:8081"},
			[]string{"tenants.example", "xtenants.example", "example.com", "x.db.example.com", "decan"},
		},
		{"any name", Config{Access: AccessOptions{Hosts: []string{"*"}}}, "127.0.0.1:8081", plainMachine(), []string{"evil.example"}, nil},
		{"own address", Config{}, "db.example.com:8081", plainMachine(), []string{"db.example.com", "db.example.com:1", "box", "BOX.lan.example:8081"}, []string{"decan", "example.com"}},
		{"every address", Config{}, "0.0.0.0:8081", plainMachine(), []string{"box", "box.lan.example"}, []string{"decan", "lan.example"}},
		{"every address without a host", Config{}, ":8081", plainMachine(), []string{"box"}, []string{"decan"}},
		// Compose service names, and Testcontainers' name for the Docker daemon's
		// machine.
		{"docker", Config{}, "0.0.0.0:8081", container("docker"), []string{"decan:8081", "decan", "my_service-1:8081", "docker:32768", "gateway.docker.internal", "4f1c2b3a9d8e"}, []string{"decan.example", "decan.shop.svc"}},
		{"podman", Config{}, "0.0.0.0:8081", container("podman"), []string{"decan:8081"}, []string{"decan.dns.podman"}},
		{"cgroup", Config{}, "0.0.0.0:8081", container("cgroup"), []string{"decan:8081"}, nil},
		{"loopback in a container", Config{}, "127.0.0.1:8081", container("docker"), []string{"decan:8081"}, nil},
		{"kubernetes", Config{}, "0.0.0.0:8081", container("kubernetes"), []string{"decan", "decan-0", "decan.shop.svc", "decan.shop.svc:8081", "decan-0.decan.shop.svc.cluster.example", "Decan.shop.svc.Cluster.example."}, []string{"decan.shop", "decan.cluster.example", "decan.corp.example", "x.svc.evil.example"}},
		{"switched on", Config{Access: AccessOptions{ContainerNames: "on"}}, "0.0.0.0:8081", plainMachine(), []string{"decan:8081", "db.internal"}, nil},
		{"switched off", Config{Access: AccessOptions{ContainerNames: "off"}}, "127.0.0.1:8081", container("docker"), nil, []string{"decan:8081", "docker:32768", "db.internal"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config, err := test.config.complete()
			if err != nil {
				t.Fatal(err)
			}
			rules := config.hostRules(test.listen, test.machine)
			for _, host := range append(always[:len(always):len(always)], test.passes...) {
				if !rules.admits(host) {
					t.Errorf("%q is refused", host)
				}
			}
			refused := test.refuse
			if !rules.any {
				refused = append(never[:len(never):len(never)], refused...)
			}
			for _, host := range refused {
				if rules.admits(host) {
					t.Errorf("%q passes", host)
				}
			}
		})
	}
}

// TestAllowedHostsAreChecked checks the errors for invalid names.
func TestAllowedHostsAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "https://db.example.com", "db.example.com:8081", "*example.com", "a.*.example.com", "db example", "*.*"} {
		if _, err := (Config{Access: AccessOptions{Hosts: []string{bad}}}).complete(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("--allowed-hosts %q", bad)) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if _, err := (Config{Access: AccessOptions{ContainerNames: "maybe"}}).complete(); err == nil || !strings.Contains(err.Error(), "auto, on or off") {
		t.Errorf("got %v", err)
	}
}

// sendRaw sends bytes on a new connection, plain or with TLS, and returns
// everything received until the server closes it.
func sendRaw(t *testing.T, address string, secure bool, raw string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // Another test verifies the certificate.
	}
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(bufio.NewReader(conn)) // Bytes before a reset count.
	return string(answer)
}

// accountRequest is a signed request for the account document, in raw form.
func accountRequest(key, target, version string, headers ...string) string {
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	return fmt.Sprintf("GET %s HTTP/%s\r\n%sx-ms-date: %s\r\nauthorization: %s\r\nConnection: close\r\n\r\n", target, version,
		strings.Join(headers, ""), date, servertest.Authorization(key, "GET", "", "", date))
}

// TestForeignHostIsRefused addresses every port by a name that is not the
// server's, as a browser does for a page that controls its DNS.
func TestForeignHostIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Ports: PortOptions{Compute: "127.0.0.1:0"}, Data: filepath.Join(t.TempDir(), "data"), Access: AccessOptions{Hosts: []string{"db.example.com"}}})
	get := func(address string, secure bool, target, version string, headers ...string) string {
		return sendRaw(t, address, secure, accountRequest(s.Key(), target, version, headers...))
	}
	admin := strings.TrimSuffix(strings.TrimPrefix(s.AdminEndpoint(), "http://"), "/")
	for _, test := range []struct {
		name, address   string
		secure          bool
		target, version string
		headers         []string
	}{
		{"data", s.address(), false, "/", "1.1", []string{"Host: evil.example:8081\r\n"}},
		{"data over TLS", s.address(), true, "/", "1.1", []string{"Host: evil.example\r\n"}},
		{"absolute form", s.address(), false, "http://evil.example/", "1.1", []string{"Host: localhost\r\n"}},
		{"HTTP/1.0", s.address(), false, "/", "1.0", []string{"Host: evil.example\r\n"}},
		{"forwarded", s.address(), false, "/", "1.1", []string{"Host: evil.example\r\n", "X-Forwarded-Host: localhost\r\n", "Forwarded: host=localhost\r\n"}},
		{"alive", admin, false, "/alive", "1.1", []string{"Host: evil.example\r\n"}},
		{"metrics", admin, false, "/metrics", "1.1", []string{"Host: evil.example\r\n"}},
		{"keys", admin, false, "/listKeys", "1.1", []string{"Host: evil.example\r\n"}},
	} {
		answer := get(test.address, test.secure, test.target, test.version, test.headers...)
		for _, want := range []string{" 403 Forbidden\r\n", "Connection: close\r\n", `"code":"Forbidden"`, "evil.example", "--allowed-hosts evil.example"} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s: no %q in %s", test.name, want, answer)
			}
		}
		for _, secret := range []string{"writableLocations", "decan_nosql", "primary"} {
			if strings.Contains(answer, secret) {
				t.Errorf("%s: the answer has %s", test.name, secret)
			}
		}
	}
	for _, host := range []string{"db.example.com", "127.0.0.1:49153", "app.localhost:1"} {
		answer := get(s.address(), false, "/", "1.1", "Host: "+host+"\r\n", "X-Forwarded-Host: evil.example\r\n")
		if !strings.Contains(answer, " 200 OK") || !strings.Contains(answer, `"databaseAccountEndpoint":"http://`+host+`/"`) || strings.Contains(answer, "evil.example") {
			t.Errorf("%s: %s", host, answer)
		}
	}
	// The target's host counts, and without one the address of the connection.
	if answer := get(s.address(), false, "http://db.example.com:99/", "1.1", "Host: evil.example\r\n"); !strings.Contains(answer, `"http://db.example.com:99/"`) {
		t.Error(answer)
	}
	for _, headers := range [][]string{nil, {"Host:\r\n"}} {
		if answer := get(s.address(), false, "/", "1.0", headers...); !strings.Contains(answer, `"databaseAccountEndpoint":"http://`+s.address()+`/"`) {
			t.Error(answer)
		}
	}
	if answer := get(s.address(), false, "/", "1.1"); !strings.Contains(answer, " 400 Bad Request") {
		t.Errorf("HTTP/1.1 without Host: %s", answer)
	}
}

// TestNamesOfACertificate allows the names of the operator's own certificate.
func TestNamesOfACertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill(t, Config{Data: filepath.Join(dir, "made"), TLS: TLSOptions{Hosts: []string{"db.example.com", "*.wide.example"}}})
	config := Config{TLS: TLSOptions{Cert: filepath.Join(dir, "made/tls/server.pem"), Key: filepath.Join(dir, "made/tls/server-key.pem")}}
	if _, err := os.Stat(config.TLS.Cert); err != nil {
		t.Fatal(err)
	}
	rules := config.hostRules("0.0.0.0:8081", plainMachine())
	for _, name := range []string{"db.example.com:8081", "a.wide.example"} {
		if !rules.admits(name) {
			t.Errorf("%s is refused", name)
		}
	}
	if rules.admits("example.com") {
		t.Error("a name that is not in the certificate is allowed")
	}
}

// BenchmarkAdmit measures the cost of checking the name of each request.
func BenchmarkAdmit(b *testing.B) {
	rules := Config{TLS: TLSOptions{Hosts: []string{"db.example.com"}}}.hostRules("127.0.0.1:8081", plainMachine())
	for _, host := range []string{"127.0.0.1:8081", "localhost:8081", "db.example.com", "app.localhost", "[::1]:8081", "evil.example"} {
		b.Run("host="+host, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.admits(host)
			}
		})
	}
}
