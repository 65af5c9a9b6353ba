package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/status"
)

// The keys of the tests; primary is that of the documented example.
const (
	primaryKey   = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw=="
	secondaryKey = "c2Vjb25kYXJ5IGtleSBvZiB0aGUgdGVzdHM="
	strangerKey  = "c3RyYW5nZXIga2V5IG9mIHRoZSB0ZXN0cy4="
)

var testKeys = map[string]string{"primary": primaryKey, "secondary": secondaryKey, "stranger": strangerKey}

var testNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestText runs the cases of testdata.
//
//	verify [key=secondary] [skew=0s] [single]
//	          verify a request. Its lines are "name: value" or, where
//	          blanks or odd characters matter, "name: Go string"; the names are
//	          method, type, link, x-ms-date, date, authorization. The line
//	          "signed" has the payload that the client signs with the key;
//	          single is an account with one key.
//	token     read each line, a Go string, as the authorization header
//	date      read each line as a date
//	key       read each line as an account key
//	well-known
//	          whether each line, a Go string, is the well-known key
//	allow     what master, the owner and a caller without a key may do to the link of each line
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			datadriven.RunTest(t, path, run)
		})
	}
}

func run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "verify":
		return verify(t, d)
	case "token":
		return eachLine(d, func(line string) string {
			kind, signature, err := newScratch(Key{}).parse(text(t, line))
			if err != nil {
				return describe(t, err)
			}
			return forms[kind].name + " signature " + string(signature)
		})
	case "date":
		return eachLine(d, func(line string) string {
			date, err := (&Credentials{Date: text(t, line)}).date()
			if err != nil {
				return describe(t, err)
			}
			return date.Format(time.RFC3339Nano)
		})
	case "key":
		return eachLine(d, func(line string) string {
			key, err := ParseKey(text(t, line))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%d bytes", len(key.secret))
		})
	case "well-known":
		return eachLine(d, func(line string) string { return strconv.FormatBool(IsWellKnown(text(t, line))) })
	case "allow":
		var out strings.Builder
		for link := range strings.Lines(d.Input + "\n") {
			link = text(t, strings.TrimSuffix(link, "\n"))
			for _, who := range []Caller{{kind: Master}, Owner(), {}} {
				for action := Read; action <= Administer; action++ {
					answer := "yes"
					if err := who.Allow(action, pathOf(link)); err != nil {
						answer = describe(t, err)
					}
					fmt.Fprintf(&out, "%s %s: %s\n", who.Kind(), action, answer)
				}
			}
		}
		return out.String()
	}
	t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
	return ""
}

func verify(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	keyName, skewText := "primary", "15m"
	d.MaybeScanArgs(t, "key", &keyName)
	d.MaybeScanArgs(t, "skew", &skewText)
	skew, err := time.ParseDuration(skewText)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	keys := Keys{Primary: primaryKey, Secondary: secondaryKey}
	if d.HasArg("single") {
		keys.Secondary = ""
	}
	var c Credentials
	for line := range strings.Lines(d.Input) {
		name, content, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		content = text(t, strings.TrimPrefix(content, " "))
		switch name {
		case "method":
			c.Method = content
		case "type":
			c.ResourceType = content
		case "link":
			c.ResourceLink = content
		case "x-ms-date":
			c.Date = content
		case "date":
			c.HTTPDate = content
		case "authorization":
			c.Authorization = content
		case "signed":
			c.Authorization = header(testKeys[keyName], content)
		default:
			t.Fatalf("%s: no line %q", d.Pos, name)
		}
	}
	caller, err := newVerifier(t, keys, skew).Verify(c, testNow)
	if err != nil {
		if caller != (Caller{}) {
			t.Errorf("%s: %v with the error %v", d.Pos, caller.Kind(), err)
		}
		return describe(t, err) + "\n"
	}
	return caller.Kind().String() + "\n"
}

// header signs a payload as clients do, without code of the package.
func header(key, payload string) string {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(payload))
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func newVerifier(t testing.TB, keys Keys, skew time.Duration) *Verifier {
	t.Helper()
	v, err := NewVerifier(keys, skew)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func eachLine(d *datadriven.TestData, f func(line string) string) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input + "\n") {
		fmt.Fprintln(&out, f(strings.TrimSuffix(line, "\n")))
	}
	return out.String()
}

// text returns the line, or the value of the line as a Go string.
func text(t testing.TB, line string) string {
	t.Helper()
	if !strings.HasPrefix(line, `"`) {
		return line
	}
	s, err := strconv.Unquote(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return s
}

// describe prints an error on one line. Each must be a status.
func describe(t testing.TB, err error) string {
	t.Helper()
	e := status.From(err)
	if e == nil {
		t.Fatalf("error without a status: %v", err)
	}
	var out strings.Builder
	for _, r := range e.Error() {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return out.String()
}

func TestNoVerifier(t *testing.T) {
	t.Parallel()
	c := Credentials{Method: "GET", Authorization: header(primaryKey, "x"), Date: "fri, 20 nov 2026 12:00:00 gmt"}
	for _, v := range []*Verifier{nil, {}} {
		if caller, err := v.Verify(c, testNow); status.CodeOf(err) != status.CodeUnauthorized || caller != (Caller{}) {
			t.Errorf("%v: %v, %v", v, caller.Kind(), err)
		}
	}
}

func TestNewVerifierNamesTheKey(t *testing.T) {
	t.Parallel()
	const secret = "not base64 at all"
	for _, c := range []struct {
		keys Keys
		want string // the beginning of the error
	}{
		{Keys{}, "primary account key: the key is empty"},
		{Keys{Secondary: secondaryKey}, "primary account key: the key is empty"},
		{Keys{Primary: secret}, "primary account key: the key is not base64 text"},
		{Keys{Primary: primaryKey, Secondary: secret}, "secondary account key: the key is not base64 text"},
		{Keys{Primary: primaryKey, Secondary: "AAAA"}, "secondary account key: the key is 3 bytes long"},
	} {
		v, err := NewVerifier(c.keys, 0)
		if v != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%d and %d characters: %v, %v; want %q", len(c.keys.Primary), len(c.keys.Secondary), v, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

// A printed key must not appear in a log.
func TestKeysDoNotPrint(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(primaryKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, holder := range []any{
			key, &key,
			struct{ K Key }{key},
			[]Key{key},
			map[string]Key{"k": key},
			Keys{Primary: primaryKey, Secondary: secondaryKey},
			&Keys{Primary: primaryKey, Secondary: secondaryKey}, fmt.Errorf("with %v", key),
		} {
			printed := fmt.Sprintf(verb, holder)
			for _, secret := range []string{primaryKey[:8], key.secret[:4], fmt.Sprintf("%x", key.secret[:4]), fmt.Sprint([]byte(key.secret[:4]))[1:8], secondaryKey[:8], fmt.Sprintf("%x", secondaryKey[:8])} {
				if strings.Contains(printed, secret) {
					t.Errorf("%s of %T prints %s", verb, holder, printed)
				}
			}
		}
	}
}

// The example in the public documentation of the service.
func TestSignDocumentedExample(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(primaryKey)
	if err != nil {
		t.Fatal(err)
	}
	got := Sign(key, "GET", "dbs", "dbs/ToDoList", "Thu, 27 Apr 2017 00:51:12 GMT")
	const want = "type%3Dmaster%26ver%3D1.0%26sig%3Dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The signature is invalid after any change of a signed request.
func TestEveryPartIsSigned(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, Keys{Primary: primaryKey}, 0)
	good := Credentials{Method: "GET", ResourceType: "docs", ResourceLink: "dbs/d/colls/c/docs/1", Date: "Fri, 20 Nov 2026 12:00:00 GMT"}
	good.Authorization = header(primaryKey, "get\ndocs\ndbs/d/colls/c/docs/1\nfri, 20 nov 2026 12:00:00 gmt\n\n")
	if _, err := v.Verify(good, testNow); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Credentials){
		"method":        func(c *Credentials) { c.Method = "DELETE" },
		"no method":     func(c *Credentials) { c.Method = "" },
		"type":          func(c *Credentials) { c.ResourceType = "colls" },
		"no type":       func(c *Credentials) { c.ResourceType = "" },
		"id":            func(c *Credentials) { c.ResourceLink = "dbs/d/colls/c/docs/2" },
		"case of id":    func(c *Credentials) { c.ResourceLink = "dbs/D/colls/c/docs/1" },
		"parent":        func(c *Credentials) { c.ResourceLink = "dbs/d/colls/c" },
		"slash":         func(c *Credentials) { c.ResourceLink += "/" },
		"no link":       func(c *Credentials) { c.ResourceLink = "" },
		"date":          func(c *Credentials) { c.Date = "Fri, 20 Nov 2026 12:00:01 GMT" },
		"other header":  func(c *Credentials) { c.Date, c.HTTPDate = "", c.Date },
		"moved newline": func(c *Credentials) { c.ResourceType, c.ResourceLink = "", "docs\n"+c.ResourceLink },
	} {
		changed := good
		change(&changed)
		if caller, err := v.Verify(changed, testNow); status.CodeOf(err) != status.CodeUnauthorized || caller != (Caller{}) {
			t.Errorf("%s: %v, %v", name, caller.Kind(), err)
		}
	}
	// The signature itself, bit by bit.
	plain, err := url.QueryUnescape(good.Authorization)
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Index(plain, "sig=") + len("sig=")
	for i := start; i < len(plain); i++ {
		for bit := range 8 {
			b := []byte(plain)
			b[i] ^= 1 << bit
			changed := good
			changed.Authorization = url.QueryEscape(string(b))
			if caller, err := v.Verify(changed, testNow); status.CodeOf(err) != status.CodeUnauthorized || caller != (Caller{}) {
				t.Errorf("byte %d, bit %d of the signature: %v, %v", i-start, bit, caller.Kind(), err)
			}
		}
	}
}

// All requests share a verifier, and the state of one must not affect another.
func TestConcurrentVerify(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, Keys{Primary: primaryKey, Secondary: secondaryKey}, 15*time.Minute)
	const rid = "1ZAmAIAAAAA="
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 50 {
				link := fmt.Sprintf("dbs/d/colls/c/docs/%d-%d", worker, i)
				key, signed, want := primaryKey, link, status.Code(0)
				switch i % 5 {
				case 1:
					key = secondaryKey
				case 2:
					link, signed = "dbs/1ZAmAA==/colls/"+rid, strings.ToLower(rid)
				case 3:
					key, want = strangerKey, status.CodeUnauthorized
				case 4:
					signed, want = "dbs/d/colls/c/docs/other", status.CodeUnauthorized
				}
				c := Credentials{Method: "GET", ResourceType: "docs", ResourceLink: link, Date: "Fri, 20 Nov 2026 12:00:00 GMT"}
				c.Authorization = header(key, "get\ndocs\n"+signed+"\nfri, 20 nov 2026 12:00:00 gmt\n\n")
				if _, err := v.Verify(c, testNow); status.CodeOf(err) != want {
					t.Errorf("%s: %v, want %d", link, err, want)
				}
			}
		})
	}
	group.Wait()
}

// Messages are short, whatever a caller sends.
func TestLongInput(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, Keys{Primary: primaryKey}, 15*time.Minute)
	long := strings.Repeat("ü", 1<<20)
	const date = "Fri, 20 Nov 2026 12:00:00 GMT"
	token := header(strangerKey, "x")
	for name, c := range map[string]Credentials{
		"authorization": {Authorization: long, Date: date},
		"method":        {Authorization: token, Date: date, Method: long},
		"type":          {Authorization: token, Date: date, ResourceType: long},
		"link":          {Authorization: token, Date: date, ResourceType: "docs", ResourceLink: long},
		"links":         {Authorization: token, Date: date, ResourceType: "docs", ResourceLink: strings.Repeat("a/", 1<<20)},
		"date":          {Authorization: token, Date: long},
		"HTTP date":     {Authorization: token, HTTPDate: long},
	} {
		_, err := v.Verify(c, testNow)
		const charsMax = payloadCharsShown + 300
		if err == nil || len([]rune(err.Error())) > charsMax {
			t.Errorf("%s: message of %d characters, at most %d wanted", name, len([]rune(fmt.Sprint(err))), charsMax)
		}
	}
	if err := (Caller{}).Allow(Read, status.Path{Database: long, Container: long, Kind: "docs", ID: long}); err == nil || len(err.Error()) > 1000 {
		t.Errorf("Allow: message of %d bytes", len(fmt.Sprint(err)))
	}
}

// A token may have the maximum length of its kind, and no byte more.
func TestTokenLength(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start    string
		bytesMax int
	}{
		{"type=master&ver=1.0&sig=", 1 << 10},
		{"type=resource&ver=1&sig=", 8 << 10},
		{"type=aad&ver=1.0&sig=", 16 << 10},
	} {
		for _, over := range []int{0, 1} {
			plain := c.start + strings.Repeat("a", c.bytesMax+over-len(c.start))
			var escaped strings.Builder
			for i := range len(plain) {
				fmt.Fprintf(&escaped, "%%%02X", plain[i])
			}
			for _, header := range []string{plain, escaped.String(), plain + "," + strings.Repeat("x", 1<<17)} {
				_, _, err := newScratch(Key{}).parse(header)
				switch {
				case over > 0:
					if status.SubOf(err) != status.SubAuthorizationMalformed || !strings.Contains(err.Error(), "too long") {
						t.Errorf("%s %d bytes over: %v", c.start, over, err)
					}
				case err != nil:
					t.Errorf("%s as long as may be: %v", c.start, err)
				}
			}
		}
	}
}

// pathOf returns the resource that a link such as dbs/d/colls/c/docs/x names.
func pathOf(link string) (p status.Path) {
	words := strings.Split(link, "/")
	for i := 0; i+1 < len(words); i += 2 {
		switch words[i] {
		case "dbs":
			p.Database = words[i+1]
		case "colls":
			p.Container = words[i+1]
		default:
			p.Kind, p.ID = words[i], words[i+1]
		}
	}
	return p
}
