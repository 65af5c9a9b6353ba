package script

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestText runs testdata. The commands are
//
//	limits [time=d] [accept=d] [memory=n] [result=n] [body=n] [log=n]    for the scripts that follow
//	function, procedure, pretrigger, posttrigger                         the script that the next commands use
//	call                                                                 a list of arguments a line, and its result
//	load                                                                 documents, one a line; drops those before
//	run [log] [room=n] [fail=code] [operation=...] [documents] [quiet]   input is the arguments or the document
//
// run prints the operations on the host (not with quiet), the output of the script, and
// with documents the stored documents.
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s := &story{runner: New(Limits{Time: textTime}), host: &recorder{}}
			defer func() { s.runner.Close() }()
			datadriven.RunTest(t, path, s.run)
		})
	}
}

type story struct {
	runner  *Runner
	program *Program
	body    string
	host    *recorder
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "limits":
		return s.limits(t, d)
	case "function":
		return s.compile(t, Function, d.Input)
	case "procedure":
		return s.compile(t, Procedure, d.Input)
	case "pretrigger":
		return s.compile(t, PreTrigger, d.Input)
	case "posttrigger":
		return s.compile(t, PostTrigger, d.Input)
	case "call":
		var out []string
		for line := range strings.Lines(d.Input) {
			out = append(out, s.call(t, strings.TrimSpace(line)))
		}
		return strings.Join(out, "\n")
	case "load":
		s.host = &recorder{}
		s.host.begin()
		for line := range strings.Lines(d.Input) {
			if _, err := s.host.Create(t.Context(), Write{Document: parse(t, line)}); err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
		}
		s.host.commit()
		return ""
	case "run":
		return s.execute(t, d)
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func (s *story) limits(t *testing.T, d *datadriven.TestData) string {
	l := Limits{Time: textTime}
	duration := func(key string, field *time.Duration) {
		if !d.HasArg(key) {
			return
		}
		var text string
		d.ScanArgs(t, key, &text)
		var err error
		if *field, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
	}
	duration("time", &l.Time)
	duration("accept", &l.AcceptTime)
	d.MaybeScanArgs(t, "memory", &l.MemoryBytes)
	d.MaybeScanArgs(t, "result", &l.ResultBytes)
	d.MaybeScanArgs(t, "body", &l.BodyBytes)
	d.MaybeScanArgs(t, "log", &l.LogBytes)
	s.runner.Close()
	s.runner = New(l)
	if s.program != nil {
		return s.compile(t, s.program.kind, s.body)
	}
	return ""
}

func (s *story) compile(t *testing.T, kind Kind, body string) string {
	p, err := s.runner.Compile(t.Context(), kind, "test", body)
	if err != nil {
		return failure(err)
	}
	s.program, s.body = p, body
	if kind == Function && !p.sealed.Load() {
		return "a realm for each call"
	}
	return ""
}

func (s *story) call(t *testing.T, line string) string {
	result, err := s.program.Call(t.Context(), arguing(t, line))
	if err != nil {
		return failure(err)
	}
	return result.String()
}

var bare = regexp.MustCompile(`([\[,])undefined`)

// arguing parses arguments, any of which may be undefined.
func arguing(t *testing.T, line string) []value.Value {
	const mark = `"<undefined>"`
	var args []value.Value
	for _, v := range parse(t, bare.ReplaceAllString(line, "${1}"+mark)).Items() {
		if v.Text() == "<undefined>" {
			v = value.Value{}
		}
		args = append(args, v)
	}
	return args
}

func (s *story) execute(t *testing.T, d *datadriven.TestData) string {
	req := Request{Log: d.HasArg("log"), Headers: map[string]string{"x-ms-version": "2020-07-15"}}
	d.MaybeScanArgs(t, "operation", &req.Operation)
	switch s.program.kind {
	case Procedure:
		req.Args = arguing(t, d.Input)
		req.Body = value.Array(defined(req.Args))
	default:
		req.Body = parse(t, d.Input)
		if s.program.kind == PostTrigger {
			req.Response = req.Body.With("_rid", value.String("r999"))
		}
	}
	s.host.limit = 0
	d.MaybeScanArgs(t, "room", &s.host.limit)
	code := 0
	if d.MaybeScanArgs(t, "fail", &code); code != 0 {
		s.host.fail = status.New(status.Code(code), 0, "The host failed.")
	}
	s.host.begin()
	result, err := s.program.Run(t.Context(), s.host, req)
	out := s.host.log
	if d.HasArg("quiet") {
		out = nil
	}
	if result.Log != "" {
		out = append(out, "log "+result.Log)
	}
	if err != nil {
		out = append(out, failure(err))
	} else {
		s.host.commit()
		if s.program.kind == PreTrigger {
			out = append(out, "document "+mask(result.Document.String()))
		} else {
			out = append(out, "body "+mask(result.Body.String()))
		}
	}
	if d.HasArg("documents") {
		for _, document := range s.host.docs {
			out = append(out, show(document))
		}
	}
	return strings.Join(out, "\n")
}

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(strings.TrimSpace(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// textTime is the time limit of a script whose case sets none: on a busy machine
// it may take long to reach a memory limit.
const textTime = 2 * time.Minute
