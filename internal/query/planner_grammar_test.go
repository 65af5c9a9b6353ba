package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// randomQuery draws a question: mostly a valid query, sometimes one with an error.
func randomQuery(r *rand.Rand) question {
	g := &grammar{r: r, odd: r.IntN(3) == 0}
	q := question{key: grammarKeys[r.IntN(len(grammarKeys))], single: r.IntN(8) == 0}
	g.key = q.key
	q.query = g.query(outermost, 3)
	if r.IntN(12) == 0 {
		q.query = g.broken(q.query)
	}
	q.params = g.params
	return q
}

// grammarKeys are the keys of the containers that are asked about; nil is /pk.
var grammarKeys = [][]string{nil, nil, {"/a"}, {"/o/x"}, {"/id"}, {"/a", "/b"}, {"/a", "/b", "/c"}, {"/o/x", "/id"}}

// grammar writes queries of the language.
type grammar struct {
	r      *rand.Rand
	key    []string
	names  []string // in scope, the newest last
	params []value.Member
	odd    bool // errors are drawn too
}

func (g *grammar) chance(n int) bool { return g.r.IntN(n) == 0 }

// wrong is sometimes true in a query that may have errors.
func (g *grammar) wrong(n int) bool { return g.odd && g.chance(n) }

func (g *grammar) of(words string) string { return pick(g.r, strings.Fields(words)) }

func (g *grammar) query(at position, depth int) string {
	outer := len(g.names)
	defer func() { g.names = g.names[:outer] }()
	from := ""
	if at == outermost && !g.chance(25) || at != outermost && !g.chance(5) {
		from = " " + g.word("FROM") + " " + g.from(at, depth)
	}
	var b strings.Builder
	b.WriteString(g.word("SELECT"))
	if at == outermost && g.chance(6) || g.chance(20) {
		b.WriteString(" " + g.word("DISTINCT"))
	}
	top := at == outermost && g.chance(8) || g.wrong(20)
	if top {
		b.WriteString(" TOP " + g.count())
	}
	rank := at == outermost && g.chance(14) || g.wrong(40)
	groups := []string{}
	if !rank && g.chance(6) || g.wrong(20) {
		for range 1 + g.r.IntN(2) {
			groups = append(groups, g.groupKey(depth))
		}
	}
	grouped := len(groups) > 0 || !rank && g.chance(8)
	b.WriteString(" " + g.list(at, grouped, groups, depth) + from)
	if g.chance(2) {
		b.WriteString(" " + g.word("WHERE") + " " + g.condition(depth))
	}
	if len(groups) > 0 {
		b.WriteString(" GROUP BY " + strings.Join(groups, ", "))
	}
	switch {
	case rank:
		b.WriteString(" ORDER BY RANK " + g.rank(depth))
	case at == outermost && g.chance(3) || g.wrong(12):
		b.WriteString(" ORDER BY " + g.orderBy(groups, depth))
	}
	if !top && at == outermost && g.chance(8) || g.wrong(20) {
		b.WriteString(" OFFSET " + g.count() + " LIMIT " + g.count())
	}
	return b.String()
}

// word writes a keyword, sometimes in another case.
func (g *grammar) word(w string) string {
	if g.chance(30) {
		return strings.ToLower(w)
	}
	return w
}

func (g *grammar) count() string {
	if g.wrong(6) {
		return g.of("-1 1.5 'a' @p c.x 1e2 2147483648 4294967296 0x10 99999999999999999999 null @missing")
	}
	if g.chance(6) {
		return g.parameter(value.Int(int64(g.r.IntN(20))))
	}
	return g.of("0 1 2 5 10 100 2147483647")
}

// parameter adds a parameter of a value and returns its reference.
func (g *grammar) parameter(v value.Value) string {
	name := "@" + g.of("p q tenant x1 _a") + strconv.Itoa(len(g.params))
	g.params = append(g.params, value.Member{Name: name, Value: v})
	return name
}

func (g *grammar) from(at position, depth int) string {
	first := g.input(at, depth, true)
	for g.chance(6) {
		first += " JOIN " + g.input(inside, depth, false)
	}
	return first
}

func (g *grammar) input(at position, depth int, first bool) string {
	name := g.fresh()
	collection := "c"
	if at == inside || !first {
		collection = g.path()
	}
	switch {
	case depth > 0 && g.chance(7):
		where := inside
		if first && at != inside {
			where = source
		}
		text := "(" + g.query(where, depth-1) + ")"
		if g.wrong(6) {
			return text
		}
		switch {
		case !first && g.chance(2), g.chance(8):
			text = name + " IN " + text
		case g.chance(2):
			text += " AS " + name
		default:
			text += " " + name
		}
		g.names = append(g.names, name)
		return text
	case at != inside && first && !g.chance(5):
		switch {
		case g.chance(6):
			g.names = append(g.names, name)
			return g.of("c root docs") + pick(g.r, []string{" AS ", " "}) + name
		case g.chance(12):
			g.names = append(g.names, "root")
			return "root"
		}
		g.names = append(g.names, "c")
		return "c"
	case at != inside && first && g.chance(2):
		g.names = append(g.names, "tags")
		return "c.tags"
	}
	if at != inside && first {
		collection = g.of("c.tags c.items c c.o.x c[\"tags\"] c.items[0]")
	}
	if !g.chance(6) {
		g.names = append(g.names, name)
		return name + " IN " + collection
	}
	g.names = append(g.names, name)
	return collection + " " + name
}

func (g *grammar) fresh() string {
	for range 8 {
		name := g.of("t u v w x y z item r s d f rank first")
		if !slices.Contains(g.names, name) || g.wrong(8) {
			return name
		}
	}
	return "n" + strconv.Itoa(len(g.names))
}

func (g *grammar) name() string {
	if len(g.names) == 0 || g.wrong(30) {
		return g.of("c x missing root NaN")
	}
	if g.chance(2) {
		return g.names[len(g.names)-1]
	}
	return pick(g.r, g.names)
}

// path writes a property of an input.
func (g *grammar) path() string {
	name := g.name()
	if g.chance(15) {
		return name
	}
	if g.chance(6) && len(g.key) > 0 || g.chance(10) {
		return name + g.keyPath()
	}
	name += g.step()
	for g.chance(4) {
		name += g.step()
	}
	return name
}

// keyPath is the path of a level of the key.
func (g *grammar) keyPath() string {
	if len(g.key) == 0 {
		return ".pk"
	}
	return strings.ReplaceAll(pick(g.r, g.key), "/", ".")
}

func (g *grammar) step() string {
	if g.chance(10) {
		return g.of(`["a"] ['b'] [0] [1] ["x-y"] ["sel\u0065ct"] ["value"] [@missing]`)
	}
	if g.chance(25) {
		return "[" + g.parameter(value.String(g.of("a b name"))) + "]"
	}
	if g.wrong(40) {
		return g.of(`[c.x] [1.5] [-1] [true] [null] .value .order [1+1] .left`)
	}
	return "." + g.of("a b c x y id pk n tags o items text v name rank first _ts é")
}

func (g *grammar) list(at position, grouped bool, groups []string, depth int) string {
	if !grouped && at == outermost && g.chance(4) || g.chance(12) {
		return "*"
	}
	column := func() string {
		switch {
		case !grouped || g.wrong(8):
			return g.expr(depth)
		case len(groups) > 0 && g.chance(2):
			return pick(g.r, groups)
		case g.chance(10):
			return g.expr(0)
		}
		return g.aggregate(depth)
	}
	if at != outermost && g.chance(2) || g.chance(3) {
		return g.word("VALUE") + " " + column()
	}
	var items []string
	for range 1 + g.r.IntN(3) {
		item := column()
		switch g.r.IntN(5) {
		case 0, 1:
			item += " AS " + g.alias()
		case 2:
			if g.chance(4) {
				item += " " + g.alias()
			}
		}
		items = append(items, item)
	}
	return strings.Join(items, ", ")
}

func (g *grammar) alias() string {
	if g.chance(10) {
		return g.of(`"a-b" 'n' "x y" "$1" rank first last all let payload item`)
	}
	return g.of("a b n m total id k value1") + strconv.Itoa(g.r.IntN(9))
}

func (g *grammar) groupKey(depth int) string {
	if g.chance(6) {
		return g.call("LOWER(%) UPPER(%) LENGTH(%) FLOOR(%)", func() string { return g.path() })
	}
	if g.wrong(10) {
		return g.expr(depth)
	}
	return g.path()
}

func (g *grammar) orderBy(groups []string, depth int) string {
	var items []string
	for range 1 + g.r.IntN(2) {
		item := g.path()
		switch {
		case len(groups) > 0 && g.chance(2):
			item = pick(g.r, groups)
		case g.wrong(6):
			item = g.expr(depth)
		case g.chance(15):
			item = g.distance()
		case g.wrong(12):
			item = g.aggregate(depth)
		}
		items = append(items, item+pick(g.r, []string{"", "", " ASC", " DESC"}))
	}
	return strings.Join(items, ", ")
}

func (g *grammar) rank(depth int) string {
	score := func() string {
		if g.wrong(8) {
			return g.expr(1)
		}
		if g.chance(2) {
			return g.distance()
		}
		return g.textScore()
	}
	if g.chance(2) {
		return score()
	}
	var list []string
	for range 1 + g.r.IntN(3) {
		list = append(list, score())
	}
	if g.chance(3) {
		weights := make([]string, len(list))
		for i := range weights {
			weights[i] = g.of("1 2 0.5 -1 0 10 1e2 -0.25")
		}
		list = append(list, "["+strings.Join(weights, ", ")+"]")
	} else if g.chance(8) {
		list = append(list, g.parameter(value.Array([]value.Value{value.Int(1), value.Number(0.5)})))
	}
	text := g.of("RRF rrf") + "(" + strings.Join(list, ", ") + ")"
	if g.wrong(10) {
		text += " DESC"
	}
	return text
}

func (g *grammar) distance() string {
	args := []string{g.path(), g.of("[1] [1,2] [0.5,-1,2] c.v []")}
	if g.chance(8) {
		args[1] = g.parameter(value.Array([]value.Value{value.Int(1), value.Number(0.5)}))
	}
	if g.chance(4) {
		args = append(args, g.of("true false true"))
		if g.chance(2) {
			args = append(args, g.of(`{distanceFunction:"cosine"} {"distanceFunction":"euclidean","dataType":"float32"} {dataType:'int8'} {searchListSizeMultiplier:10} {quantizedVectorListMultiplier:5} {filterPriority:0.5} {} {x:1} {distanceFunction:1} {searchListSizeMultiplier:1000} {quantizedVectorListMultiplier:0}`))
		}
	}
	return "VectorDistance(" + strings.Join(args, ", ") + ")"
}

func (g *grammar) textScore() string {
	list := []string{g.path()}
	for range 1 + g.r.IntN(3) {
		list = append(list, g.of(`"dog" 'cat' "" {term:"bird",distance:1} {"term":"fish","distance":2}`))
	}
	if g.wrong(6) {
		list = append(list, g.of(`1 c.x ["a"] {term:1} {term:"a",distance:3} {term:"a"} null "q","r","s"`))
	}
	if g.chance(10) {
		list = append(list, g.parameter(value.String("dog")))
	}
	return g.of("FullTextScore fulltextscore FULLTEXTSCORE") + "(" + strings.Join(list, ", ") + ")"
}

// condition writes a filter.
func (g *grammar) condition(depth int) string {
	if depth > 0 {
		switch g.r.IntN(8) {
		case 0, 1:
			return g.condition(depth-1) + " AND " + g.condition(depth-1)
		case 2:
			return "(" + g.condition(depth-1) + " OR " + g.condition(depth-1) + ")"
		case 3:
			return g.word("NOT") + " (" + g.condition(depth-1) + ")"
		}
	}
	switch g.r.IntN(14) {
	case 0, 1, 2, 3:
		if name := g.name(); g.chance(3) {
			return g.constant() + " = " + name + g.keyPath()
		} else {
			return name + g.keyPath() + " = " + g.constant()
		}
	case 4:
		return g.name() + g.keyPath() + g.not() + " IN (" + g.constants() + ")"
	case 5:
		return g.path() + " " + g.of("= != <> < <= > >=") + " " + g.constant()
	case 6:
		return "(" + g.path() + g.not() + " BETWEEN " + g.constant() + " AND " + g.constant() + ")"
	case 7:
		return g.path() + g.not() + " LIKE " + g.of(`'a%' "%b" '_c' "[a-c]%" 1 'x\%'`) + g.escape()
	case 8:
		return g.of("IS_DEFINED IS_NULL IS_STRING IS_NUMBER IS_ARRAY IS_OBJECT IS_BOOL IS_PRIMITIVE IS_INTEGER") + "(" + g.path() + ")"
	case 9:
		return g.call(`STARTSWITH(%,"a") CONTAINS(%,"b",true) ARRAY_CONTAINS(%,1) ARRAY_CONTAINS([1,2],%) FullTextContains(%,"cat") FullTextContainsAll(%,"cat","dog") FullTextContainsAny(%,"cat",'dog') STRINGEQUALS(%,"x") REGEXMATCH(%,"^a") ST_DISTANCE(%,{'type':'Point','coordinates':[1,2]})<100`, g.path)
	case 10:
		if depth > 0 {
			return "EXISTS(" + g.query(inside, depth-1) + ")"
		}
	case 11:
		return g.of("true false null undefined 1 'a' @none")
	}
	return g.expr(depth)
}

func (g *grammar) not() string {
	if g.chance(4) {
		return " NOT"
	}
	return ""
}

func (g *grammar) escape() string {
	if g.chance(4) {
		return " ESCAPE " + g.of(`'!' "\\" '' 'ab' '^'`)
	}
	return ""
}

// call fills the places of % in one of the words.
func (g *grammar) call(words string, arg func() string) string {
	word := g.of(words)
	for strings.Contains(word, "%") {
		word = strings.Replace(word, "%", arg(), 1)
	}
	return word
}

var grammarConstants = []string{
	"1", "2", "0", "-1", "1.5", "100", "-0", "1e3", "1e-7", "9007199254740993", "0x1F", ".5", "1.", "1e17", "123456789012345678901234567890",
	`"a"`, `'b'`, `""`, `"1"`, `"x y"`, `'it\'s'`, `"\u00e9"`, `"é😀"`, `'"'`, `"a\nb"`,
	"true", "false", "null", "undefined", "[]", "[1,'a']", "{}", `{"a":1}`, "{a:[1,2],'b':{}}", "NaN", "Infinity", "-Infinity",
}

func (g *grammar) constant() string {
	switch {
	case g.chance(5):
		return g.parameter(g.value())
	case g.wrong(30):
		return g.of("@none NULL True 1e400 'abc 0xG #")
	}
	return pick(g.r, grammarConstants)
}

func (g *grammar) value() value.Value {
	v, err := value.ParseString(pick(g.r, []string{"1", "2.5", "-3", `"a"`, `"b"`, `""`, "true", "false", "null", "[1,2]", `["a"]`, `{"a":1}`, "[]", "1e300", "9007199254740993"}))
	if err != nil {
		panic(err)
	}
	return v
}

func (g *grammar) constants() string {
	var list []string
	for range 1 + g.r.IntN(4) {
		list = append(list, g.constant())
	}
	return strings.Join(list, ", ")
}

// grammarFunctions are the names of all functions that Decan knows, and some that it
// does not.
var grammarFunctions = func() []string {
	names := []string{"MISSING", "REGEX_MATCH", "SUBSTRING_AFTER", "LEFT", "RIGHT", "left"}
	for name, f := range functions {
		if !f.aggregate && f.name != "NumberBin" { // the planner's library fails on some of its arguments
			names = append(names, f.name, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}()

func (g *grammar) aggregate(depth int) string {
	name := g.of("COUNT COUNT SUM AVG MIN MAX COUNTIF MAKELIST MAKESET count Sum")
	arg := "1"
	if !g.chance(4) {
		arg = g.path()
	}
	if g.chance(8) {
		arg = g.expr(depth - 1)
	}
	if g.wrong(12) {
		return g.of("COUNT SUM") + "(" + g.of("1,2 * COUNT(1)") + ")"
	}
	if g.wrong(12) {
		return name + "(" + arg + ") + 1"
	}
	return name + "(" + arg + ")"
}

// expr writes an expression.
func (g *grammar) expr(depth int) string {
	if depth <= 0 {
		if g.chance(3) {
			return g.constant()
		}
		return g.path()
	}
	depth--
	switch g.r.IntN(22) {
	case 0:
		return g.expr(depth) + " " + g.of("+ - * / % & | ^ << >> >>> ||") + " " + g.expr(depth)
	case 1:
		return "(" + g.expr(depth) + " " + g.of("= != <> < <= > >=") + " " + g.expr(depth) + ")"
	case 2:
		return g.of("- + ~ NOT") + " " + g.expr(depth)
	case 3:
		return "(" + g.expr(depth) + " ? " + g.expr(depth) + " : " + g.expr(depth) + ")"
	case 4:
		return "(" + g.expr(depth) + " ?? " + g.expr(depth) + ")"
	case 5:
		return "[" + g.expr(depth) + ", " + g.expr(depth) + "]"
	case 6:
		return fmt.Sprintf(`{%s: %s, "%s": %s}`, g.of(`a 'x' "é" rank`), g.expr(depth), g.of("b c d a x-y"), g.expr(depth))
	case 7:
		return g.subquery(depth)
	case 8:
		if g.chance(3) {
			name := g.fresh()
			value := g.expr(depth)
			g.names = append(g.names, name)
			defer func() { g.names = g.names[:len(g.names)-1] }()
			return "(LET " + name + " = " + value + " IN " + g.expr(depth) + ")"
		}
	case 9:
		if g.wrong(3) {
			return g.aggregate(depth)
		}
	case 10:
		return "(" + g.condition(depth) + ")"
	case 11:
		if g.chance(6) {
			return "udf." + g.of("f g regex") + "(" + g.arguments(depth) + ")"
		}
	case 12, 13, 14, 15:
		return pick(g.r, grammarFunctions) + "(" + g.arguments(depth) + ")"
	case 16:
		return g.call(`UPPER(%) LOWER(%) ABS(%) CONCAT(%,"a") LENGTH(%) ToString(%) ARRAY_LENGTH(%) IIF(%,1,2) FLOOR(%) TRIM(%)`, func() string { return g.expr(depth) })
	case 17:
		return g.constant()
	}
	return g.path()
}

func (g *grammar) subquery(depth int) string {
	return g.of("( ( ARRAY( ARRAY( EXISTS( ALL( FIRST( LAST( exists(") + g.query(inside, depth) + ")"
}

// arguments writes 0 to 5 arguments, most often 1 or 2.
func (g *grammar) arguments(depth int) string {
	list := make([]string, []int{0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5}[g.r.IntN(11)])
	for i := range list {
		list[i] = g.expr(depth - 1)
	}
	return strings.Join(list, ", ")
}

// broken changes a token of a query.
func (g *grammar) broken(text string) string {
	tokens := tokenPattern.FindAllString(text, -1)
	at := g.r.IntN(len(tokens))
	switch g.r.IntN(5) {
	case 0:
		tokens = slices.Delete(tokens, at, at+1)
	case 1:
		tokens = slices.Insert(tokens, at, tokens[g.r.IntN(len(tokens))])
	case 2:
		tokens[at] = tokens[g.r.IntN(len(tokens))]
	case 3:
		tokens[at] = g.of(`( ) [ ] , . * SELECT FROM WHERE VALUE AND NOT IN BETWEEN LIKE ? : ?? @ # 1a 0x "abc 'x AS JOIN ORDER BY GROUP TOP ASC let LEFT udf. -- /* ; $ ! \ 1e 1e5 .5 ' " == && {`)
	default:
		tokens = tokens[:at]
	}
	return strings.Join(tokens, " ")
}
