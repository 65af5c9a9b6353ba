package row

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/partitionkey"
)

// The tests of this file compare with Apache Cassandra's own classes, which
// compat/cassandra/Judge.java asks. Answers to random questions are recorded in
// testdata/judge.txt. With DECAN_JUDGE, the class path of the Java program, new
// questions are asked (DECAN_JUDGE_COUNT of them, with DECAN_JUDGE_SEED), and
// with DECAN_JUDGE_RECORD they are written to the file.

// TestJudge checks comparators, validation, texts, JSON and tokens against the
// recorded answers of Cassandra 4.1.
func TestJudge(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/judge.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		question, want, _ := strings.Cut(scanner.Text(), " = ")
		checkAnswer(t, question, want)
		n++
	}
	if err := scanner.Err(); err != nil || n < 2000 {
		t.Errorf("%d answers, error %v", n, err)
	}
}

// TestJudgeLive asks Cassandra new questions.
func TestJudgeLive(t *testing.T) {
	path := os.Getenv("DECAN_JUDGE")
	if path == "" {
		t.Skip("DECAN_JUDGE is not set: compat/cassandra/judge.sh sets it")
	}
	seed, _ := strconv.ParseUint(os.Getenv("DECAN_JUDGE_SEED"), 10, 64)
	count, err := strconv.Atoi(os.Getenv("DECAN_JUDGE_COUNT"))
	if err != nil {
		count = 20000
	}
	t.Logf("seed %d, %d questions", seed, count)
	questions := judgeQuestions(newRand(seed), count)
	command := exec.Command("java", "-cp", path, "Judge")
	command.Stdin = strings.NewReader(strings.Join(questions, "\n") + "\n")
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []string
	for line := range strings.Lines(string(output)) {
		if answer, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "= "); found {
			answers = append(answers, answer)
		}
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(answers), len(questions))
	}
	var record strings.Builder
	for i, question := range questions {
		checkAnswer(t, question, answers[i])
		fmt.Fprintf(&record, "%s = %s\n", question, answers[i])
	}
	if os.Getenv("DECAN_JUDGE_RECORD") != "" {
		if err := os.WriteFile("testdata/judge.txt", []byte(record.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func checkAnswer(t *testing.T, question, want string) {
	t.Helper()
	got := judgeAnswer(t, question)
	if got != want && !differs(question, got, want) {
		fields := strings.Split(question, "\t")
		if text, err := hex.DecodeString(fields[len(fields)-1]); err == nil {
			question += fmt.Sprintf(" (%q)", text)
		}
		t.Errorf("%s\n got %s%s\nwant %s%s", question, got, shownText(got), want, shownText(want))
	}
}

func shownText(answer string) string {
	if digits, found := strings.CutPrefix(answer, "ok\t"); found {
		if text, err := hex.DecodeString(digits); err == nil {
			return fmt.Sprintf(" (%q)", text)
		}
	}
	return ""
}

// differs says whether Decan differs on purpose.
func differs(question, got, want string) bool {
	fields := strings.Split(question, "\t")
	switch {
	case strings.Contains(got, "The data cannot be deserialized as a "):
		// Cassandra finds a negative number of elements later, with this text.
		return true
	case fields[0] == "validate" && strings.HasPrefix(got, "error\tNot enough bytes") && strings.HasPrefix(want, "error"):
		// Cassandra reads beyond an inner value as far as the outer one has bytes,
		// and finds another fault there.
		return true
	case fields[0] == "fromjson" && strings.Contains(fields[1], "map<") && strings.Contains(fields[1], "boolean"):
		// The keys "" and "false" are one key, and Cassandra keeps either value.
		return true
	case strings.HasPrefix(want, "error\tFor input string: "):
		// A number of a duration that has more than 64 bits.
		return true
	case strings.Contains(want, "Null value read when not allowed"):
		// Validate has another sentence for a null inside a collection.
		return true
	case fields[0] == "literal" && unquotedLiteral(fields[1]):
		// Cassandra 4.1 leaves out the quotes of dates, times and addresses.
		return true
	case fields[0] == "json" && fields[1] != "" && fields[2] == "" && strings.HasPrefix(want, "error"):
		// Empty values that Cassandra cannot print.
		return true
	case strings.Contains(want, "IndexOutOfBounds") || strings.Contains(want, "newLimit > capacity") || want == "error\tUnexpected error":
		// Faults of Cassandra, which its server words as internal errors.
		return true
	case want == "error\tjava.lang.AssertionError" || strings.HasPrefix(want, "error\tCannot invoke"):
		return true
	case strings.HasPrefix(want, "error\tError decoding JSON string: "):
		// The parser's own words.
		return true
	}
	return false
}

func unquotedLiteral(typeText string) bool {
	for _, name := range []string{"date", "time", "inet"} {
		if strings.Contains(strings.ReplaceAll(typeText, "timeuuid", ""), name) {
			return true
		}
	}
	return false
}

func judgeAnswer(t *testing.T, question string) string {
	t.Helper()
	fields := strings.Split(question, "\t")
	value := func(i int) []byte {
		if fields[i] == "-" {
			return nil
		}
		v, err := hex.DecodeString(fields[i])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if fields[0] == "token" {
		return strconv.FormatInt(partitionkey.Token(value(1)), 10)
	}
	switch fields[0] {
	case "todate":
		return "ok\t" + hex.EncodeToString(DateOfTimestamp(Integer(value(1))))
	case "reconcile":
		return judgeReconcile(t, fields[1], fields[2])
	case "merge":
		a, b := judgeRow(t, fields[1]), judgeRow(t, fields[2])
		merged := Merge(&a, &b)
		return showRow(&merged)
	case "marker":
		return judgeMarker(t, fields[1], fields[2])
	}
	typ, err := ParseType(fields[1], resolveTest)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(v []byte, err error) string {
		if err != nil {
			return "error\t" + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if v == nil {
			return "ok\t-"
		}
		return "ok\t" + hex.EncodeToString(v)
	}
	switch fields[0] {
	case "compare":
		return strconv.Itoa(typ.Compare(value(2), value(3)))
	case "validate":
		if err := typ.Validate(value(2)); err != nil {
			return "error\t" + err.Error()
		}
		return "ok"
	case "text":
		return answer([]byte(typ.Format(value(2))), nil)
	case "literal":
		return answer([]byte(typ.Literal(value(2))), nil)
	case "json":
		return answer(typ.AppendJSON([]byte{}, value(2)), nil)
	case "plus", "minus":
		return answer(typ.AddDuration(value(2), value(3), fields[0] == "minus"))
	case "parse":
		return answer(typ.ParseText(string(value(2))))
	case "fromjson":
		j, err := ParseJSON(string(value(2)))
		if err != nil {
			return answer(nil, err)
		}
		return answer(typ.FromJSON(j))
	}
	t.Fatalf("question %q", question)
	return ""
}

// judgeCell parses a cell of a question.
func judgeCell(t *testing.T, text string) Cell {
	t.Helper()
	fields := strings.Split(text, ":")
	c := Cell{Kind: map[string]CellKind{"live": CellLive, "expiring": CellExpiring, "tombstone": CellTombstone}[fields[0]], Value: mustHex(t, fields[4])}
	if _, err := fmt.Sscanf(strings.Join(fields[1:4], ":"), "%d:%d:%d", &c.Timestamp, &c.TTL, &c.Local); err != nil {
		t.Fatal(err)
	}
	return c
}

func showCell(c *Cell) string {
	return fmt.Sprintf("%s:%d:%d:%d:%x", [...]string{"live", "expiring", "tombstone"}[c.Kind], c.Timestamp, c.TTL, c.Local, c.Value)
}

// judgeReconcile returns the cell that wins.
func judgeReconcile(t *testing.T, a, b string) string {
	t.Helper()
	x, y := Row{Cells: []Cell{judgeCell(t, a)}}, Row{Cells: []Cell{judgeCell(t, b)}}
	merged := Merge(&x, &y)
	return showCell(&merged.Cells[0])
}

func judgeLiveness(t *testing.T, text string) Liveness {
	t.Helper()
	m := Liveness{Present: true}
	if _, err := fmt.Sscanf(text, "%d:%d:%d", &m.Timestamp, &m.TTL, &m.Expiry); err != nil {
		t.Fatal(err)
	}
	return m
}

func showMarker(m Liveness) string {
	return fmt.Sprintf("%d:%d:%d", m.Timestamp, m.TTL, m.Expiry)
}

// judgeMarker returns the marker that wins.
func judgeMarker(t *testing.T, a, b string) string {
	t.Helper()
	return showMarker(judgeLiveness(t, a).or(judgeLiveness(t, b)))
}

// judgeRow parses a row of a question.
func judgeRow(t *testing.T, text string) Row {
	t.Helper()
	row := Row{}
	for part := range strings.FieldsSeq(text) {
		fields := strings.Split(part, "/")
		column := uint32(0)
		if len(fields) > 2 {
			column = uint32(fields[1][0] - '0')
		}
		deletion := func(text string) (timestamp, second int64) {
			if _, err := fmt.Sscanf(text, "%d:%d", &timestamp, &second); err != nil {
				t.Fatal(err)
			}
			return timestamp, second
		}
		switch fields[0] {
		case "marker":
			row.Marker = judgeLiveness(t, fields[1])
		case "deletion":
			row.Deletion.Present = true
			row.Deletion.Timestamp, row.Deletion.Local = deletion(fields[1])
		case "elements":
			c := Cell{Column: column, Kind: CellDeletion}
			c.Timestamp, c.Local = deletion(fields[2])
			row.Cells = append(row.Cells, c)
		default:
			c := judgeCell(t, fields[len(fields)-1])
			if c.Column = column; fields[0] == "element" {
				c.Path = []byte{fields[2][0] - '0'}
			}
			row.Cells = append(row.Cells, c)
		}
	}
	return row
}

func showRow(row *Row) string {
	var parts []string
	if row.Marker.Present {
		parts = append(parts, "marker/"+showMarker(row.Marker))
	}
	if row.Deletion.Present {
		parts = append(parts, fmt.Sprintf("deletion/%d:%d", row.Deletion.Timestamp, row.Deletion.Local))
	}
	for i := range row.Cells {
		switch c := &row.Cells[i]; {
		case c.Kind == CellDeletion:
			parts = append(parts, fmt.Sprintf("elements/%d/%d:%d", c.Column, c.Timestamp, c.Local))
		case c.Path != nil:
			parts = append(parts, fmt.Sprintf("element/%d/%d/%s", c.Column, c.Path[0], showCell(c)))
		default:
			parts = append(parts, fmt.Sprintf("cell/%d/%s", c.Column, showCell(c)))
		}
	}
	return strings.Join(parts, " ")
}

// judgeQuestions draws questions of all kinds.
func judgeQuestions(r *rand.Rand, count int) []string {
	var questions []string
	ask := func(fields ...string) { questions = append(questions, strings.Join(fields, "\t")) }
	h := func(v []byte) string {
		if v == nil {
			return "-"
		}
		return hex.EncodeToString(v)
	}
	for len(questions) < count {
		typ := randomType(r, 2)
		if r.IntN(12) == 0 {
			typ = Native(KindDuration)
		}
		v := randomValue(r, typ)
		if v == nil {
			continue
		}
		switch r.IntN(10) {
		case 9:
			millis := BigInt(r.Int64N(1<<42) - 1<<40)
			ask("todate", h(millis))
			temporal, of := "timestamp", millis
			if r.IntN(2) == 0 {
				temporal, of = "date", DateOfTimestamp(Integer(millis))
			}
			sign := int64(1 - 2*r.IntN(2))
			duration := appendDuration(nil, sign*int64(r.IntN(2)*r.IntN(50)), sign*r.Int64N(100), sign*int64(r.IntN(2))*1_000_000*r.Int64N(1<<r.IntN(34)))
			if r.IntN(10) == 0 {
				duration = randomValue(r, Native(KindDuration))
			}
			ask([]string{"plus", "minus"}[r.IntN(2)], temporal, h(of), h(duration))
		case 8:
			kind := func() string {
				local := 1000 + r.IntN(3)
				value := []string{"", "00", "7f", "80", "ff"}[r.IntN(5)]
				switch r.IntN(3) {
				case 0:
					return fmt.Sprintf("live:%d:0:0:%s", r.IntN(3), value)
				case 1:
					return fmt.Sprintf("expiring:%d:%d:%d:%s", r.IntN(3), 1+r.IntN(2), local, value)
				}
				return fmt.Sprintf("tombstone:%d:0:%d:", r.IntN(3), local)
			}
			ask("reconcile", kind(), kind())
			marker := func() string {
				if ttl := r.IntN(3); ttl > 0 {
					return fmt.Sprintf("%d:%d:%d", r.IntN(3), ttl, 1000+r.IntN(3))
				}
				return fmt.Sprintf("%d:0:0", r.IntN(3))
			}
			ask("marker", marker(), marker())
			a, b := randomRow(r), randomRow(r)
			ask("merge", showRow(&a), showRow(&b))
		case 0, 1:
			w := randomValue(r, typ)
			if r.IntN(4) == 0 {
				w = near(r, typ, v)
			}
			if w != nil {
				ask("compare", typ.String(), h(v), h(w))
			}
		case 2:
			broken := append([]byte{}, v...)
			switch r.IntN(4) {
			case 0:
				broken = broken[:r.IntN(len(broken)+1)]
			case 1:
				broken = append(broken, randomBytes(r, 1+r.IntN(3))...)
			case 2:
				if len(broken) > 0 {
					broken[r.IntN(len(broken))] = byte(r.Uint32())
				}
			}
			ask("validate", typ.String(), h(broken))
		case 3:
			if typ.Native() {
				ask("text", typ.String(), h(v))
			}
		case 4:
			ask("literal", typ.String(), h(v))
		case 5:
			ask("json", typ.String(), h(v))
			if typ.Kind != KindUDT || len(v) > 0 {
				ask("fromjson", typ.String(), h(typ.AppendJSON(nil, v)))
			}
		case 6:
			native := Native(append(comparableKinds, KindDuration)[r.IntN(len(comparableKinds)+1)])
			ask("parse", native.String(), h([]byte(randomText(r, native))))
			ask("fromjson", typ.String(), h([]byte(randomJSON(r, 2))))
		case 7:
			ask("token", h(randomBytes(r, 1+r.IntN(16))))
		}
	}
	return questions
}

// near draws a value that compares as equal or nearly so.
func near(r *rand.Rand, t *Type, v []byte) []byte {
	if t.Kind == KindDecimal && len(v) >= 4 {
		n, scale := DecimalParts(v)
		if scale < 1<<30 {
			return Decimal(n.Mul(n, bigInt([]byte{100})), scale+2)
		}
	}
	w := append([]byte{}, v...)
	if len(w) > 0 {
		w[len(w)-1] ^= byte(1 << r.IntN(8))
	}
	if t.Validate(w) != nil {
		return v
	}
	return t.Normalize(w)
}

// randomText draws a text that is or nearly is a value of a native type.
func randomText(r *rand.Rand, t *Type) string {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	digits := func(n int) string {
		text := make([]byte, 1+r.IntN(n))
		for i := range text {
			text[i] = '0' + byte(r.IntN(10))
		}
		return string(text)
	}
	if r.IntN(4) == 0 {
		if v := randomValue(r, t); v != nil {
			return t.Format(v)
		}
	}
	switch t.Kind {
	case KindTimestamp:
		date := fmt.Sprintf(pick("%04d-%02d-%02d", "%d-%d-%d"), 1+r.IntN(3000), 1+r.IntN(13), 1+r.IntN(32))
		if r.IntN(8) == 0 {
			date = pick("+", "-") + pick("", "1") + date
		}
		if r.IntN(3) > 0 {
			date += pick("T", " ", "T", " ", "  ") + fmt.Sprintf(pick("%02d:%02d", "%d:%d"), r.IntN(25), r.IntN(61))
			if r.IntN(3) > 0 {
				date += fmt.Sprintf(pick(":%02d", ":%d"), r.IntN(61))
			}
			if r.IntN(3) == 0 {
				date += "." + digits(10)
			}
		}
		return date + pick("", "", "Z", " Z", "+01", "-0230", "+01:30", " +0130", " +01:30", " UTC", " GMT", "+1", "+19:00", "+18:00", "x")
	case KindDate:
		return pick("", "", "+", "-") + fmt.Sprintf(pick("%04d-%02d-%02d", "%04d-%02d-%02d", "%d-%d-%d"), r.IntN(12000), r.IntN(14), r.IntN(33)) + pick("", "", "", "Z")
	case KindTime:
		return fmt.Sprintf(pick("%02d:%02d:%02d", "%d:%d:%d"), r.IntN(25), r.IntN(61), r.IntN(61)) + pick("", ".", "."+digits(10), " ")
	case KindDuration:
		text := pick("", "", "-")
		if r.IntN(3) == 0 {
			return text + pick("P1Y2M3DT4H5M6S", "P2W", "PT1H", "P1D", "P", "PT", "P0001-02-03T04:05:06", "P1-2-3T4:5:6", "P1M1Y", "P1YT", "P1W1D")
		}
		for range 1 + r.IntN(4) {
			text += digits(1+r.IntN(11)) + pick("y", "mo", "w", "d", "h", "m", "s", "ms", "us", "µs", "ns", "Y", "MO", "x", "")
		}
		return text
	case KindInet:
		return pick("127.0.0.1", "::1", "1.2.3", "1.2", "1", "256.1.1.1", "010.1.1.1", "::ffff:1.2.3.4", "2001:db8::", "[::1]", "1.2.3.4.5", "1::2::3", "fe80::1", "1:2:3:4:5:6:7:8:9", "::1.2.3.4")
	case KindBlob:
		return pick("0", "00", "fF", "0g", "", "cafe", "CAFE")
	case KindBoolean:
		return pick("true", "TRUE", "False", "1", "yes", "")
	case KindUUID, KindTimeUUID:
		return pick("e6216794-498d-11f1-9035-415b0af9ce8c", "E6216794-498D-41F1-9035-415B0AF9CE8C", "e6216794498d11f19035415b0af9ce8c", "e6216794-498d-11f1-9035-415b0af9ce8", "")
	case KindASCII, KindText:
		return pick("a", "é", "", "a'b")
	}
	return pick("", "-", "+", "--") + digits(1+r.IntN(25)) + pick("", digits(4), digits(22)) +
		pick("", "", ".", "."+digits(4), "."+digits(20)) + pick("", "", "", "e"+digits(2), "E-"+digits(3), "e+"+digits(1), "e", "f", "d", "x", "NaN", "e9999999999")
}

// randomJSON draws a JSON text.
func randomJSON(r *rand.Rand, depth int) string {
	atoms := []string{
		"1", "0", "-1", "127", "-129", "2147483647", "2147483648", "-9223372036854775808", "9223372036854775808",
		"1.5", "1.0", "1e3", "1.10", "1e400", "-0", "-0.0", "true", "false", "null", `"a"`, `""`, `"1"`, `"1.5"`, `"true"`, `"0x00"`, `"cafe"`, `"0xfff"`,
		`"2020-01-01"`, `"10:11:12"`, `"::1"`, `"e6216794-498d-11f1-9035-415b0af9ce8c"`, `"[1]"`, `"{}"`, "[]", "{}", `"NaN"`, `"1h"`,
	}
	if depth == 0 || r.IntN(2) == 0 {
		return atoms[r.IntN(len(atoms))]
	}
	if r.IntN(2) == 0 {
		var parts []string
		for range r.IntN(4) {
			parts = append(parts, randomJSON(r, depth-1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var parts []string
	for range r.IntN(4) {
		name := []string{"a", "b", "A", `\"a\"`, "x", "1"}[r.IntN(6)]
		parts = append(parts, `"`+name+`": `+randomJSON(r, depth-1))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
