package shellcmd

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/value"
)

// completer completes the line that is typed. It implements the interface of the
// editor.
type completer struct {
	*shell
	before *buffer // the lines of the statement before this one
}

// Do returns the ends of the names that begin as the word before the cursor does, and
// the length of that word.
func (c completer) Do(line []rune, cursor int) ([][]rune, int) {
	text := string(line[:cursor])
	word, names := c.candidates(c.before.text.String(), text)
	var ends [][]rune
	lower := word != "" && word == strings.ToLower(word)
	for _, name := range names {
		if len(name) < len(word) || !strings.EqualFold(name[:len(word)], word) {
			continue
		}
		end := name[len(word):]
		if lower && name == strings.ToUpper(name) { // A keyword is typed in lower case.
			end = strings.ToLower(end)
		}
		ends = append(ends, []rune(end))
	}
	return ends, len([]rune(word))
}

// candidates returns the word before the cursor, and the names that it may become.
func (c completer) candidates(before, line string) (word string, names []string) {
	if command, is := strings.CutPrefix(line, `\`); is && strings.TrimSpace(before) == "" {
		return c.ofCommand(command)
	}
	if c.cql != nil {
		return lastWord(line, false), slices.Concat(cqlWords, c.cql.names())
	}
	word = lastWord(line, true)
	statement := before + line
	if prefix, last, dotted := cutLast(word); dotted {
		if strings.EqualFold(prefix, "udf") {
			return last, c.names.functions(c.database, c.container)
		}
		path, known := aliases(statement, c.container)[rootOf(prefix)]
		if !known {
			return last, nil
		}
		_, steps, _ := strings.Cut(prefix, ".")
		if steps != "" {
			path = append(path[:len(path):len(path)], strings.Split(steps, ".")...)
		}
		return last, c.names.properties(c.database, c.container, path)
	}
	if strings.HasPrefix(word, "@") {
		for name := range c.params {
			names = append(names, "@"+name)
		}
		slices.Sort(names)
		return word, names
	}
	for alias := range aliases(statement, c.container) {
		names = append(names, alias)
	}
	slices.Sort(names)
	return word, slices.Concat(names, sqlWords, functionCalls())
}

// ofCommand completes a line that begins with a backslash, which is cut.
func (c completer) ofCommand(line string) (word string, names []string) {
	name, rest, more := strings.Cut(line, " ")
	if !more {
		for _, b := range builtins() {
			names = append(names, b.name)
		}
		return name, names
	}
	switch name {
	case "c":
		database, container, two := strings.Cut(rest, "/")
		if !two {
			return database, c.names.databases()
		}
		if database == "" {
			database = c.database
		}
		return container, c.names.containers(database)
	case "d":
		return rest, c.names.containers(c.database)
	case "f":
		return rest, formats
	case "timing", "pager", "system":
		return rest, []string{"on", "off"}
	case "unset":
		for name := range c.params {
			names = append(names, name)
		}
		return rest, names
	case "explain":
		return c.candidates("", rest)
	}
	return rest, nil
}

// lastWord returns the name that ends a text, with dots if they may be in it.
func lastWord(text string, dots bool) string {
	at := strings.LastIndexFunc(text, func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '$' || r == '@' || dots && r == '.')
	})
	if at < 0 {
		return text
	}
	return strings.TrimLeftFunc(text[at:], func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '$' || r == '@' || dots && r == '.')
	})
}

// cutLast cuts a word at its last dot.
func cutLast(word string) (prefix, last string, dotted bool) {
	at := strings.LastIndexByte(word, '.')
	if at < 0 {
		return "", word, false
	}
	return word[:at], word[at+1:], true
}

func rootOf(path string) string {
	root, _, _ := strings.Cut(path, ".")
	return root
}

var (
	fromAlias = regexp.MustCompile(`(?i)\bFROM\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?`)
	inAlias   = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+(\w+)\s+IN\s+([\w.]+)`)
)

// each is the step from a list to its elements.
const each = "[]"

// aliases returns the names that a statement gives to documents or to parts of them, with
// the path of each in a document. c is one as long as the statement has no
// FROM.
func aliases(statement, container string) map[string][]string {
	all := map[string][]string{}
	if m := fromAlias.FindStringSubmatch(statement); m != nil {
		name := m[1]
		if m[2] != "" && !slices.ContainsFunc([]string{"WHERE", "JOIN", "ORDER", "GROUP", "OFFSET", "IN", "AS"}, func(word string) bool { return strings.EqualFold(word, m[2]) }) {
			name = m[2]
		}
		all[name] = nil
	}
	for _, m := range inAlias.FindAllStringSubmatch(statement, -1) {
		base, known := all[rootOf(m[2])]
		if !known && strings.EqualFold(rootOf(m[2]), container) {
			known = true
		}
		if !known && len(all) > 1 {
			continue
		}
		path := base[:len(base):len(base)]
		if _, steps, dotted := strings.Cut(m[2], "."); dotted {
			path = append(path, strings.Split(steps, ".")...)
		}
		all[m[1]] = append(path, each)
	}
	if len(all) == 0 {
		all["c"] = nil
	}
	return all
}

// sqlWords are the keywords of queries.
var sqlWords = []string{
	"SELECT", "VALUE", "FROM", "WHERE", "ORDER BY", "GROUP BY", "DISTINCT", "TOP", "JOIN", "IN", "AND", "OR", "NOT", "BETWEEN", "LIKE", "ESCAPE",
	"EXISTS", "ARRAY", "AS", "ASC", "DESC", "OFFSET", "LIMIT", "RANK", "null", "true", "false", "undefined",
}

// cqlWords are the keywords of CQL that begin clauses.
var cqlWords = []string{
	"SELECT", "FROM", "WHERE", "INSERT INTO", "VALUES", "UPDATE", "SET", "DELETE FROM", "CREATE KEYSPACE", "CREATE TABLE", "CREATE INDEX", "CREATE TYPE",
	"ALTER TABLE", "DROP TABLE", "DROP KEYSPACE", "TRUNCATE", "USE", "DESCRIBE", "PRIMARY KEY", "ORDER BY", "LIMIT", "ALLOW FILTERING", "IF NOT EXISTS", "IF EXISTS",
	"USING TTL", "BEGIN BATCH", "APPLY BATCH", "WITH", "REPLICATION",
}

// functionCalls returns the built-in functions with their opening brackets.
func functionCalls() []string {
	names := query.FunctionNames()
	for i := range names {
		names[i] += "("
	}
	return names
}

// names are the names that a server has, which are read once in a while. It belongs to
// the goroutine of the shell.
type names struct {
	client *remote.Documents
	known  map[string]nameList
}

// nameList is what was read.
type nameList struct {
	names []string
	read  time.Time
}

const (
	namesFresh = 30 * time.Second // how long names are not read again
	namesWait  = 2 * time.Second  // how long a key press waits for names
	samples    = 50               // how many items are read for the names of properties
)

func newNames(client *remote.Documents) *names {
	return &names{client: client, known: map[string]nameList{}}
}

// get returns the names of a kind. After an error it has none.
func (n *names) get(kind string, read func(context.Context) ([]string, error)) []string {
	if known, found := n.known[kind]; found && time.Since(known.read) < namesFresh {
		return known.names
	}
	ctx, cancel := context.WithTimeout(context.Background(), namesWait)
	defer cancel()
	all, err := read(ctx)
	if err != nil {
		return nil // A key press must not fail.
	}
	n.known[kind] = nameList{all, time.Now()}
	return all
}

func (n *names) databases() []string {
	return n.get("databases", func(ctx context.Context) ([]string, error) {
		return listed(ctx, n.client, []string{"dbs"}, "Databases")
	})
}

func (n *names) containers(database string) []string {
	if database == "" {
		return nil
	}
	return n.get("containers "+database, func(ctx context.Context) ([]string, error) {
		return listed(ctx, n.client, []string{"dbs", database, "colls"}, "DocumentCollections")
	})
}

// functions returns the user-defined functions of a container.
func (n *names) functions(database, container string) []string {
	if container == "" {
		return nil
	}
	return n.get("functions "+database+"/"+container, func(ctx context.Context) ([]string, error) {
		all, err := listed(ctx, n.client, []string{"dbs", database, "colls", container, "udfs"}, "UserDefinedFunctions")
		for i := range all {
			all[i] += "("
		}
		return all, err
	})
}

// properties returns the names below a path of the documents of a container, of a
// sample of them.
func (n *names) properties(database, container string, path []string) []string {
	if container == "" {
		return nil
	}
	paths := n.get("properties "+database+"/"+container, func(ctx context.Context) ([]string, error) {
		page, err := n.client.Page(ctx, remote.Statement{Database: database, Container: container, Text: "SELECT * FROM c", Rows: samples}, "")
		if err != nil {
			return nil, err
		}
		var paths []string
		seen := map[string]bool{}
		for _, row := range page.Rows {
			collect(row, "", func(path string) {
				if !seen[path] {
					seen[path] = true
					paths = append(paths, path)
				}
			})
		}
		return paths, nil
	})
	prefix := strings.Join(path, ".")
	if prefix != "" {
		prefix += "."
	}
	var all []string
	for _, p := range paths {
		if last, below := strings.CutPrefix(p, prefix); below && !strings.Contains(last, ".") && last != each {
			all = append(all, last)
		}
	}
	return all
}

// identifier is a name that a query may have after a dot.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// collect calls found with the path of each property of a value. The elements of lists
// have the step [].
func collect(v value.Value, prefix string, found func(path string)) {
	switch v.Kind() {
	case value.KindObject:
		for _, m := range v.Members() {
			if identifier.MatchString(m.Name) {
				found(prefix + m.Name)
				collect(m.Value, prefix+m.Name+".", found)
			}
		}
	case value.KindArray:
		for _, item := range v.Items() {
			found(prefix + each)
			collect(item, prefix+each+".", found)
		}
	}
}
