// Package explorer is the Data Explorer: a page for browsers that shows databases,
// containers, items, queries and physical partitions.
//
// Package server serves the handler of [New] below [Path] on the port for clients. The
// page is the files in the directory web, written by hand and embedded as they are. It
// speaks the REST protocol and the administration like any other client, and signs its
// requests itself. Learn [Config] first, then web/app.js, where the page begins.
//
// # Invariants
//
//   - Every file has the same headers, which forbid scripts, styles and frames of other
//     origins and inline code.
//   - Nothing here needs a key or reads data: the files are the same for everyone. The
//     administration below [Path] authenticates its callers itself.
//
// The package knows no other package of this module, so the page has no access to
// anything that other clients do not have.
//
// Page: docs/explorer.md
package explorer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed web
var web embed.FS

// Path is where the page is, with the slash at its end.
const Path = "/_explorer/"

// adminPath is where the administration is for the page.
const adminPath = Path + "admin/"

// Config configures the page. The zero value is a page without administration.
type Config struct {
	Version string // of the server, which the page shows

	// Account is the name of the account, and Consistency its default level.
	Account, Consistency string

	// WellKnown reports whether the emulators' key is a key of the account. The page
	// then offers to sign in with it, on loopback names only. Nil means no.
	WellKnown func() bool

	// Bearer means that account keys and resource tokens are refused.
	Bearer bool

	// Admin answers requests below admin/, with this path removed. It must
	// authenticate them. Nil means that the page has no administration.
	Admin http.Handler
}

// New returns the handler of all paths below [Path], and of Path without its final
// slash. It does not check Host and Origin. It is safe for concurrent use.
func New(config Config) http.Handler {
	h := &handler{config: config, files: map[string]*file{}}
	if config.Admin != nil {
		h.admin = http.StripPrefix(strings.TrimSuffix(adminPath, "/"), config.Admin)
	}
	err := fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := web.ReadFile(name)
		if err == nil {
			h.files[strings.TrimPrefix(name, "web/")] = newFile(name, content)
		}
		return err
	})
	if err != nil {
		panic(err) // The files are in the program.
	}
	h.files[""] = h.files["index.html"]
	return h
}

type handler struct {
	config Config
	admin  http.Handler // nil for none
	files  map[string]*file
}

// file is an embedded file as it is sent.
type file struct {
	media      string
	etag       string // also of the compressed form, as a weak one
	plain      []byte
	compressed []byte // gzip
}

func newFile(name string, content []byte) *file {
	sum := sha256.Sum256(content)
	media := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // The table of the system may differ.
	case ".js":
		media = "text/javascript; charset=utf-8"
	case ".css":
		media = "text/css; charset=utf-8"
	case ".html":
		media = "text/html; charset=utf-8"
	case ".svg":
		media = "image/svg+xml"
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // The level is valid.
	_, _ = w.Write(content)                                    // A buffer takes everything.
	_ = w.Close()
	return &file{media: media, etag: `W/"` + hex.EncodeToString(sum[:12]) + `"`, plain: content, compressed: packed.Bytes()}
}

// policy is the content security policy of every file: scripts, styles and requests of
// this origin alone, no inline code, no frames around the page, and no text that becomes
// HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (h *handler) ServeHTTP(hw http.ResponseWriter, hr *http.Request) {
	if strings.HasPrefix(hr.URL.Path, adminPath) && h.admin != nil {
		h.admin.ServeHTTP(hw, hr)
		return
	}
	header := hw.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	if hr.Method != http.MethodGet && hr.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(hw, "The explorer has only GET and HEAD.", http.StatusMethodNotAllowed)
		return
	}
	name, below := strings.CutPrefix(hr.URL.Path, Path)
	switch f := h.files[name]; {
	case !below:
		http.Redirect(hw, hr, Path, http.StatusPermanentRedirect)
	case name == "config.json":
		h.describe(hw, hr)
	case f == nil:
		http.Error(hw, "The explorer has no such file.", http.StatusNotFound)
	default:
		f.send(hw, hr)
	}
}

// send answers with the file, or with 304 if the browser has it.
func (f *file) send(hw http.ResponseWriter, hr *http.Request) {
	header := hw.Header()
	header.Set("Content-Type", f.media)
	header.Set("Cache-Control", "no-cache") // A new release of the server has other files.
	header.Set("ETag", f.etag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(hr.Header.Get("If-None-Match"), f.etag) {
		hw.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if strings.Contains(hr.Header.Get("Accept-Encoding"), "gzip") {
		body = f.compressed
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	hw.WriteHeader(http.StatusOK)
	if hr.Method == http.MethodGet {
		_, _ = hw.Write(body) // An error means that the client is gone.
	}
}

// description is what the page knows of the server before anyone has signed in. The
// answer to a request without a key contains nothing else.
type description struct {
	Version     string `json:"version"`
	Account     string `json:"account"`
	Consistency string `json:"consistency"`
	WellKnown   bool   `json:"wellKnownKey"` // the page offers to sign in with the emulators' key
	Bearer      bool   `json:"bearerOnly"`
	Admin       bool   `json:"admin"` // the administration is below admin/
}

func (h *handler) describe(hw http.ResponseWriter, hr *http.Request) {
	body, err := json.Marshal(description{
		Version: h.config.Version, Account: h.config.Account, Consistency: h.config.Consistency,
		WellKnown: h.config.WellKnown != nil && isLoopback(hr.Host) && h.config.WellKnown(),
		Bearer:    h.config.Bearer, Admin: h.admin != nil,
	})
	if err != nil {
		http.Error(hw, err.Error(), http.StatusInternalServerError) // Strings always marshal.
		return
	}
	hw.Header().Set("Content-Type", "application/json")
	hw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	hw.Header().Set("Cache-Control", "no-store")
	hw.WriteHeader(http.StatusOK)
	if hr.Method == http.MethodGet {
		_, _ = hw.Write(body)
	}
}
