package partitionkey

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestText(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			var s session
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				return s.run(t, d)
			})
		})
	}
}

// session is the state shared by the commands of one file.
type session struct {
	definition Definition
	ranges     RangeMap[string]
}

func (s *session) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	// definition parses JSON, keeps the result for the following commands, and
	// prints it with defaults filled in.
	case "definition":
		s.definition = Definition{}
		if err := json.Unmarshal([]byte(d.Input), &s.definition); err != nil {
			return failure(err)
		}
		if err := s.definition.Validate(); err != nil {
			return failure(err)
		}
		return marshal(t, s.definition.Normalize())
	case "path":
		return each(d, func(line string) string {
			segments, err := ParsePath(line)
			if err != nil {
				return failure(err)
			}
			return fmt.Sprintf("%q", segments)
		})
	case "parse":
		return each(d, func(line string) string {
			return withKey(line, func(k Key) string {
				var types []string
				for _, c := range k.Components() {
					types = append(types, typeNames[c.Type()])
				}
				return strings.TrimSpace(k.String() + " " + strings.Join(types, " "))
			})
		})
	case "check":
		return each(d, func(line string) string {
			return withKey(line, func(k Key) string {
				if err := s.definition.Check(k, d.HasArg("full")); err != nil {
					return failure(err)
				}
				return "ok"
			})
		})
	case "hash":
		return each(d, func(line string) string {
			return withKey(line, func(k Key) string { return digits(s.definition.Hash(k)) })
		})
	case "prefix":
		return each(d, func(line string) string {
			return withKey(line, func(k Key) string {
				r, err := s.definition.Prefix(k)
				if err != nil {
					return failure(err)
				}
				return r.String()
			})
		})
	// same numbers the logical partitions and prints which one each key is in.
	case "same":
		numbers := make(map[string]int)
		return each(d, func(line string) string {
			return withKey(line, func(k Key) string {
				id := string(k.Canonical(s.definition))
				if numbers[id] == 0 {
					numbers[id] = len(numbers) + 1
				}
				return strconv.Itoa(numbers[id])
			})
		})
	case "sort":
		var keys []Key
		for line := range strings.Lines(d.Input) {
			k, err := Parse(strings.TrimSpace(line))
			if err != nil {
				return failure(err)
			}
			keys = append(keys, k)
		}
		slices.SortStableFunc(keys, Compare)
		var b strings.Builder
		for i, k := range keys {
			sign := ""
			if i > 0 && Compare(keys[i-1], k) == 0 {
				sign = " (equal)"
			}
			fmt.Fprintf(&b, "%s%s\n", k, sign)
		}
		return b.String()
	case "divide":
		var n int
		d.ScanArgs(t, "n", &n)
		return lines(s.definition.Divide(n))
	case "middle":
		return each(d, func(line string) string {
			return s.definition.Middle(mustRange(t, line)).String()
		})
	case "successor":
		return each(d, func(line string) string {
			return s.definition.Successor(mustEPK(t, line)).String()
		})
	case "epk":
		return each(d, func(line string) string {
			e, err := ParseEPK(line)
			if err != nil {
				return failure(err)
			}
			return digits(e)
		})
	case "relate":
		return each(d, func(line string) string {
			one, other, _ := strings.Cut(line, " ")
			a, b := mustRange(t, one), mustRange(t, other)
			both, ok := a.Intersect(b)
			if ok != a.Overlaps(b) || ok != b.Overlaps(a) {
				return "Intersect and Overlaps disagree"
			}
			return fmt.Sprintf("equal=%v covers=%v covered=%v both=%v", a.Equal(b), a.Covers(b), b.Covers(a), both)
		})
	case "map":
		m, err := NewRangeMap(mustEntries(t, d.Input))
		if err != nil {
			return failure(err)
		}
		s.ranges = m
		return s.show()
	case "replace":
		before, after, _ := strings.Cut(d.Input+"\n", "with\n")
		var old []Range
		for line := range strings.Lines(before) {
			old = append(old, mustRange(t, strings.TrimSpace(line)))
		}
		m, err := s.ranges.Replace(old, mustEntries(t, after))
		if err != nil {
			return failure(err)
		}
		s.ranges = m
		return s.show()
	case "locate":
		return each(d, func(line string) string {
			return s.ranges.Locate(mustEPK(t, line)).Value
		})
	case "overlapping":
		return each(d, func(line string) string {
			var names []string
			for _, entry := range s.ranges.Overlapping(mustRange(t, line)) {
				names = append(names, entry.Value)
			}
			return strings.Join(names, " ") + "."
		})
	}
	d.Fatalf(t, "no such command: %s", d.Cmd)
	return ""
}

var typeNames = [...]string{"undefined", "null", "false", "true", "number", "string"}

func (s *session) show() string {
	var b strings.Builder
	for r, name := range s.ranges.All() {
		fmt.Fprintf(&b, "%v %s\n", r, name)
	}
	return b.String()
}

// each prints one line for every line of the input. A quoted line is unquoted by
// Go's rules, so that all bytes can be written; repeat(s,n) in it means s, n
// times.
func each(d *datadriven.TestData, answer func(line string) string) string {
	var b strings.Builder
	for line := range strings.Lines(d.Input) {
		line = expand(strings.TrimSuffix(line, "\n"))
		b.WriteString(answer(line) + "\n")
	}
	return b.String()
}

func expand(line string) string {
	if meaning, err := strconv.Unquote(line); err == nil {
		return meaning
	}
	before, rest, ok := strings.Cut(line, "repeat(")
	if !ok {
		return line
	}
	arguments, after, _ := strings.Cut(rest, ")")
	text, times, _ := strings.Cut(arguments, ",")
	n, err := strconv.Atoi(times)
	if err != nil {
		panic(err)
	}
	return before + strings.Repeat(text, n) + after
}

func withKey(line string, answer func(Key) string) string {
	k, err := Parse(line)
	if err != nil {
		return failure(err)
	}
	return answer(k)
}

// failure prints an error and the flags by which callers choose their response.
func failure(err error) string {
	mistake, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		return "error: " + err.Error()
	case mistake.Mismatch:
		return "mismatch: " + err.Error()
	}
	return "mistake: " + err.Error()
}

// digits prints the empty EPK visibly.
func digits(e EPK) string {
	if e == MinEPK {
		return `""`
	}
	return e.String()
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func lines[T any](list []T) string {
	var b strings.Builder
	for _, item := range list {
		fmt.Fprintln(&b, item)
	}
	return b.String()
}

// mustRange parses the form of Range.String.
func mustRange(t *testing.T, text string) Range {
	t.Helper()
	low, high, ok := strings.Cut(strings.Trim(text, "[)"), ",")
	if !ok {
		t.Fatalf("not a range: %q", text)
	}
	return Range{mustEPK(t, low), mustEPK(t, high)}
}

func mustEntries(t *testing.T, text string) []Entry[string] {
	t.Helper()
	var entries []Entry[string]
	for line := range strings.Lines(text) {
		r, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		entries = append(entries, Entry[string]{mustRange(t, r), name})
	}
	return entries
}
