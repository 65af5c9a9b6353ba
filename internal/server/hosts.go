package server

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/status"
)

// hostRules decide which names in a request's Host header are names of this
// server.
//
// A page in a browser can reach a server on loopback, or in the browser's
// network, by a name in the page's own domain that resolves to the server's
// address (DNS rebinding). The browser then treats both as one origin, and if the
// account key is the well-known one the page can read everything. But the page
// cannot send another Host name than its own. So only known names are allowed. An
// address as Host is always allowed: it has no name, so no page can be rebound to
// it.
//
// The rules never change. They are safe for concurrent use.
type hostRules struct {
	any        bool
	names      map[string]bool // in lower case
	suffixes   []string        // in lower case, with the dot
	containers bool            // names without a dot are allowed
}

// Names that are always allowed, in addition to localhost and names below it. The
// zone internal is reserved: public DNS has no name in it, so no page has one.
var hostsOfEngines = []string{"host.docker.internal", "host.containers.internal"}

// machine is what the rules need to know about the server's environment.
type machine struct {
	files    fs.FS // the root directory
	env      func(string) string
	hostname string // "" if it has none
}

func thisMachine() machine {
	hostname, _ := os.Hostname() // Without a hostname, no name is allowed.
	return machine{files: os.DirFS("/"), env: os.Getenv, hostname: hostname}
}

// hostRules returns the rules of a listener.
func (c Config) hostRules(listen string, m machine) *hostRules {
	h := &hostRules{names: map[string]bool{"localhost": true}, suffixes: []string{".localhost"}}
	h.allow(hostsOfEngines...)
	h.allow(c.TLS.Hosts...)
	h.allow(c.Access.Hosts...)
	h.allow(certificateNames(c.TLS.Cert)...)
	if host, _, err := net.SplitHostPort(listen); err == nil {
		h.allow(host)
	}
	if u, err := url.Parse(c.Account.Endpoint); err == nil {
		h.allow(u.Hostname())
	}
	if !isLoopback(listen) {
		h.allowMachine(m)
	}
	if c.Access.ContainerNames == "on" || c.Access.ContainerNames == "auto" && m.isContainer() {
		h.containers = true
		h.suffixes = append(h.suffixes, ".internal")
		h.allowMachine(m)
		h.suffixes = append(h.suffixes, m.clusterDomains()...)
	}
	return h
}

// allow adds names; "*.example.com" stands for all names below example.com, and
// "*" for any.
func (h *hostRules) allow(names ...string) {
	for _, name := range names {
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		switch below, all := strings.CutPrefix(name, "*"); {
		case name == "*":
			h.any = true
		case all:
			h.suffixes = append(h.suffixes, below)
		case name != "":
			h.names[name] = true
		}
	}
}

// allowMachine adds the machine's own name, with and without its domain.
func (h *hostRules) allowMachine(m machine) {
	short, _, _ := strings.Cut(m.hostname, ".")
	h.allow(m.hostname, short)
}

// admits reports whether a Host header names this server. It allows a missing
// one, as old clients and health checks send: browsers always send one.
func (h *hostRules) admits(host string) bool {
	if host == "" || h.any {
		return true
	}
	name, address, ok := splitHost(host)
	if !ok || address {
		return ok
	}
	if strings.ContainsFunc(name, func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		name = strings.ToLower(name)
	}
	if h.names[name] || h.containers && strings.IndexByte(name, '.') < 0 {
		return true
	}
	return slices.ContainsFunc(h.suffixes, func(suffix string) bool {
		return len(name) > len(suffix) && strings.HasSuffix(name, suffix)
	})
}

// hostCharsMax is the maximum length of a name, as in DNS.
const hostCharsMax = 253

// splitHost removes the port and the final dot from a Host header. It reports
// whether the host is an address, and returns false if it is neither name nor
// address.
func splitHost(host string) (name string, address, ok bool) {
	name = host
	bracket := strings.HasPrefix(host, "[")
	colon := strings.LastIndexByte(host, ':')
	if colon > strings.LastIndexByte(host, ']') {
		name = host[:colon]
		if !isPort(host[colon+1:]) {
			return "", false, false
		}
	}
	if bracket {
		addr, err := netip.ParseAddr(strings.TrimSuffix(name[1:], "]"))
		return name, true, err == nil && strings.HasSuffix(name, "]") && addr.Is6() && addr.Zone() == ""
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > hostCharsMax || strings.ContainsFunc(name, func(r rune) bool { return !isHostChar(r) }) {
		return "", false, false
	}
	if last := name[len(name)-1]; '0' <= last && last <= '9' && '0' <= name[0] && name[0] <= '9' {
		if _, err := netip.ParseAddr(name); err == nil {
			return name, true, true
		}
	}
	return name, false, true
}

func isPort(text string) bool {
	return len(text) <= 5 && !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

func isHostChar(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.'
}

// refuse returns the refusal of a Host header, which names the remedy.
func (h *hostRules) refuse(host string) error {
	name, _, ok := splitHost(host)
	if !ok {
		return status.Forbidden(0, "The Host header %.80q is neither a name nor an address with or without a port.", host)
	}
	return status.Forbidden(0, "The Host header names %.80q, which is no known name of this server. A page in a browser could reach the server by any name (DNS rebinding), "+
		"so a name has to be allowed: start the server with --allowed-hosts %.80s (DECAN_ALLOWED_HOSTS), or in a container that is not recognized with --container-names on; "+
		"names of --endpoint, --tls-host and --tls-cert are allowed, too.", host, name)
}

// certificateNames returns the names in the first certificate of a PEM file. An
// unreadable file is reported when the certificate is loaded.
func certificateNames(file string) []string {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return certificate.DNSNames
}

// isContainer reports whether the process runs in a container, by the marks of
// the known engines.
func (m machine) isContainer() bool {
	if m.env("KUBERNETES_SERVICE_HOST") != "" || m.env("container") != "" {
		return true
	}
	for _, mark := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(m.files, mark); err == nil {
			return true
		}
	}
	groups, err := fs.ReadFile(m.files, "proc/1/cgroup")
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{"docker", "kubepods", "containerd", "libpod", "lxc"}, func(engine string) bool {
		return strings.Contains(string(groups), engine)
	})
}

// clusterDomains returns the suffixes of services in Kubernetes: the short form,
// and the search domains of the pod that begin with svc. None of them is a domain
// that can be registered.
func (m machine) clusterDomains() []string {
	if m.env("KUBERNETES_SERVICE_HOST") == "" {
		return nil
	}
	domains := []string{".svc"}
	file, err := m.files.Open("etc/resolv.conf")
	if err != nil {
		return domains
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] != "search" {
			continue
		}
		for _, domain := range words[1:] {
			if strings.HasPrefix(domain, "svc.") {
				domains = append(domains, "."+strings.ToLower(strings.TrimSuffix(domain, ".")))
			}
		}
	}
	return domains
}

// checkAllowedHosts reports entries that are not a name, address or pattern.
func checkAllowedHosts(names []string) error {
	for _, name := range names {
		if name == "*" {
			continue
		}
		given := strings.TrimPrefix(name, "*.")
		if bare, _, ok := splitHost(given); !ok || bare != strings.TrimSuffix(given, ".") {
			return fmt.Errorf("--allowed-hosts %q: give a name such as db.example.com, *.example.com for all names below, or * for any, without scheme and port", name)
		}
	}
	return nil
}
