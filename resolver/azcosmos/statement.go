package azcosmos

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// statement is a query divided into its clauses. Expressions are not parsed; the
// service does that.
type statement struct {
	distinct bool
	value    bool // SELECT VALUE
	star     bool // SELECT *
	columns  []column
	from     string // including the keyword FROM; "" for none
	root     string // the alias of the document, "" if FROM binds none
	alias    string // the first alias of FROM
	where    string // including the keyword WHERE; "" for none
	group    bool
	rank     bool // ORDER BY RANK
	order    []orderTerm

	limited bool // the query has a TOP or an OFFSET LIMIT
	offset  int
	limit   int
}

// column is one element of the select list.
type column struct {
	source string // as written in the query
	text   string // the expression without AS and name
	name   string // of the resulting property

	aggregate string // COUNT, SUM, MIN, MAX or AVG; "" for none
	argument  string
}

type orderTerm struct {
	text       string
	descending bool
}

// queryBytesMax is the maximum length of a query text, the service's limit.
const queryBytesMax = 512 << 10

// token is a lexical element of a query, as a span of its text.
type token struct {
	start, end int
	word       string // in upper case, for words
	symbol     byte   // for other tokens, the first character; '"' for strings, '0' for numbers
	text       string // the content of a string, the name of a parameter
	depth      int    // nesting depth of brackets
	subquery   bool   // inside a subquery
}

// parseStatement divides a query into clauses. The error is an ErrQuery.
func parseStatement(text string, parameters []sdk.QueryParameter) (*statement, error) {
	if len(text) > queryBytesMax {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrQuery, queryBytesMax)
	}
	tokens, err := lex(text, parameters)
	if err != nil {
		return nil, err
	}
	p := &statementParser{text: text, tokens: tokens, parameters: parameters, statement: &statement{}}
	if err := p.parse(); err != nil {
		return nil, err
	}
	return p.statement, nil
}

// lex splits a text into tokens and drops comments. The error is an ErrQuery.
func lex(text string, parameters []sdk.QueryParameter) ([]token, error) {
	declared := make(map[string]value.Value, len(parameters))
	for _, p := range parameters {
		declared[strings.TrimPrefix(p.Name, "@")] = value.Undefined()
	}
	var tokens []token
	var open []bool // for each open bracket, whether it is inside a subquery
	inside := func() bool { return len(open) > 0 && open[len(open)-1] }
	lexer := sql.NewLexer(text, declared)
	for next := lexer.Next(); next.Kind != sql.TokenEnd; next = lexer.Next() {
		t := token{start: next.At.Start, end: next.At.End, depth: len(open), subquery: inside()}
		switch next.Kind {
		case sql.TokenKeyword, sql.TokenIdent:
			t.word = strings.ToUpper(next.Text)
			if t.word == "SELECT" && len(open) > 0 && tokens[len(tokens)-1].symbol == '(' {
				open[len(open)-1] = true
			}
		case sql.TokenNumber:
			t.symbol = '0'
		case sql.TokenString:
			t.symbol, t.text = '"', next.Value.Text()
		case sql.TokenParameter:
			t.symbol, t.text = '@', next.Text
		case sql.TokenSymbol:
			t.symbol = text[t.start]
		default:
			return nil, fmt.Errorf("%w: unexpected %.64q", ErrQuery, text[t.start:t.end])
		}
		switch t.symbol {
		case '(', '[', '{':
			open = append(open, inside())
		case ')', ']', '}':
			if len(open) == 0 {
				return nil, fmt.Errorf("%w: closing bracket without an opening one", ErrQuery)
			}
			open = open[:len(open)-1]
			t.depth, t.subquery = len(open), inside()
		}
		tokens = append(tokens, t)
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("%w: unclosed bracket", ErrQuery)
	}
	return tokens, nil
}

type statementParser struct {
	text       string
	tokens     []token
	at         int
	parameters []sdk.QueryParameter
	statement  *statement
}

// isWord reports whether token i is the keyword, outside all brackets and not
// the name of a property.
func (p *statementParser) isWord(i int, word string) bool {
	return i < len(p.tokens) && p.tokens[i].depth == 0 && p.tokens[i].word == word &&
		(i == 0 || p.tokens[i-1].symbol != '.')
}

// span returns the text from token a up to, but not including, token b.
func (p *statementParser) span(a, b int) string {
	if a >= b {
		return ""
	}
	return p.text[p.tokens[a].start:p.tokens[b-1].end]
}

// clauseEnd returns the index of the next token that begins a clause.
func (p *statementParser) clauseEnd(from int) int {
	for i := from; i < len(p.tokens); i++ {
		for _, word := range []string{"FROM", "WHERE", "GROUP", "ORDER", "OFFSET"} {
			if p.isWord(i, word) {
				return i
			}
		}
	}
	return len(p.tokens)
}

func (p *statementParser) parse() error {
	if !p.isWord(0, "SELECT") {
		return fmt.Errorf("%w: the query does not begin with SELECT", ErrQuery)
	}
	p.at = 1
	for _, step := range []func() error{p.head, p.list, p.fromClause, p.tail} {
		if err := step(); err != nil {
			return err
		}
	}
	if p.at < len(p.tokens) {
		return fmt.Errorf("%w: unexpected %q", ErrQuery, p.span(p.at, p.at+1))
	}
	return nil
}

// head parses DISTINCT, TOP and VALUE.
func (p *statementParser) head() error {
	s := p.statement
	if s.distinct = p.isWord(p.at, "DISTINCT"); s.distinct {
		p.at++
	}
	if p.isWord(p.at, "TOP") {
		n, err := p.number(p.at + 1)
		if err != nil {
			return err
		}
		s.limited, s.limit = true, n
		p.at += 2
	}
	if s.value = p.isWord(p.at, "VALUE"); s.value {
		p.at++
	}
	return nil
}

// number parses a count: a literal or a parameter.
func (p *statementParser) number(i int) (int, error) {
	if i < len(p.tokens) {
		text := p.span(i, i+1)
		if p.tokens[i].symbol == '@' {
			for _, parameter := range p.parameters {
				if strings.TrimPrefix(parameter.Name, "@") == p.tokens[i].text {
					text = fmt.Sprint(parameter.Value)
				}
			}
		}
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < 1<<31 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: TOP, OFFSET and LIMIT take whole numbers", ErrQuery)
}

// list parses the select list.
func (p *statementParser) list() error {
	s := p.statement
	end := p.clauseEnd(p.at)
	if s.star = end == p.at+1 && p.tokens[p.at].symbol == '*'; s.star {
		p.at = end
		return nil
	}
	for from := p.at; from <= end; {
		to := p.elementEnd(from, end)
		if from == to {
			return fmt.Errorf("%w: an element of the select list is empty", ErrQuery)
		}
		c, err := p.column(from, to)
		if err != nil {
			return err
		}
		if c.name == "" {
			c.name = "$" + strconv.Itoa(p.unnamed()+1)
		}
		s.columns = append(s.columns, c)
		from = to + 1
	}
	p.at = end
	return nil
}

// unnamed counts the columns whose name is a number.
func (p *statementParser) unnamed() int {
	n := 0
	for _, c := range p.statement.columns {
		if strings.HasPrefix(c.name, "$") {
			n++
		}
	}
	return n
}

// elementEnd returns the index of the comma after an element of a list, or the
// end of the list.
func (p *statementParser) elementEnd(from, end int) int {
	for i := from; i < end; i++ {
		if p.tokens[i].symbol == ',' && p.tokens[i].depth == 0 {
			return i
		}
	}
	return end
}

func isAggregate(word string) bool {
	switch word {
	case "COUNT", "SUM", "MIN", "MAX", "AVG":
		return true
	}
	return false
}

// column parses one element: an expression, optionally with AS and a name.
func (p *statementParser) column(from, to int) (column, error) {
	c := column{source: p.span(from, to)}
	last := p.tokens[to-1]
	switch {
	case to-from > 2 && p.isWord(to-2, "AS"):
		c.name = p.span(to-1, to)
		to -= 2
	case to-from > 1 && p.isAlias(to-1):
		c.name = p.span(to-1, to)
		to--
	case to-from == 1 && last.word != "" && !isLiteral(last.word), to-from > 2 && last.word != "" && p.tokens[to-2].symbol == '.':
		c.name = p.span(to-1, to)
	case to-from > 3 && last.symbol == ']' && p.tokens[to-2].symbol == '"':
		c.name = p.tokens[to-2].text
	}
	c.text = p.span(from, to)
	if isAggregate(p.tokens[from].word) && to-from > 2 && p.tokens[from+1].symbol == '(' && p.closes(from+1, to-1) {
		c.aggregate, c.argument = p.tokens[from].word, p.span(from+2, to-1)
		from += 2
	}
	for i := from; i+1 < to; i++ {
		if t := p.tokens[i]; isAggregate(t.word) && p.tokens[i+1].symbol == '(' && !t.subquery && (i == 0 || p.tokens[i-1].symbol != '.') {
			return c, fmt.Errorf("%w: an aggregate inside another expression", ErrQuery)
		}
	}
	return c, nil
}

// isAlias reports whether token i is a name that follows an expression without
// AS.
func (p *statementParser) isAlias(i int) bool {
	before := p.tokens[i-1]
	switch before.word {
	case "AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "ESCAPE", "EXISTS", "ARRAY":
		return false
	case "":
		return p.tokens[i].word != "" && strings.IndexByte(")]}\"0@", before.symbol) >= 0
	}
	return p.tokens[i].word != "" && !isLiteral(p.tokens[i].word)
}

func isLiteral(word string) bool {
	return word == "TRUE" || word == "FALSE" || word == "NULL" || word == "UNDEFINED"
}

// closes reports whether the bracket at i is closed at j.
func (p *statementParser) closes(i, j int) bool {
	for k := i + 1; k <= j; k++ {
		if p.tokens[k].depth == p.tokens[i].depth && strings.IndexByte(")]}", p.tokens[k].symbol) >= 0 {
			return k == j
		}
	}
	return false
}

// fromClause parses FROM and WHERE.
func (p *statementParser) fromClause() error {
	s := p.statement
	if p.isWord(p.at, "FROM") {
		end := p.clauseEnd(p.at + 1)
		s.from = p.span(p.at, end)
		p.bindings(p.at+1, end)
		p.at = end
	}
	if p.isWord(p.at, "WHERE") {
		end := p.clauseEnd(p.at + 1)
		s.where = p.span(p.at, end)
		p.at = end
	}
	return nil
}

// bindings finds the alias of the document: FROM c, FROM root r, FROM root AS r.
// In FROM x IN c.list and in FROM c.list, no alias denotes the document.
func (p *statementParser) bindings(from, end int) {
	s := p.statement
	if from == end || p.tokens[from].word == "" {
		return
	}
	s.alias = p.span(from, from+1)
	next := from + 1
	if next == end || p.isWord(next, "JOIN") {
		s.root = s.alias
		return
	}
	if p.isWord(next, "AS") {
		next++
	}
	if next < end && p.tokens[next].word != "" && !p.isWord(next, "IN") && p.tokens[from+1].symbol == 0 {
		s.root = p.span(next, next+1)
		s.alias = s.root
	}
}

// tail parses GROUP BY, ORDER BY and OFFSET LIMIT.
func (p *statementParser) tail() error {
	s := p.statement
	if p.isWord(p.at, "GROUP") {
		s.group = true
		p.at = p.clauseEnd(p.at + 1)
	}
	if p.isWord(p.at, "ORDER") {
		if !p.isWord(p.at+1, "BY") {
			return fmt.Errorf("%w: ORDER without BY", ErrQuery)
		}
		end := p.clauseEnd(p.at + 2)
		if s.rank = p.isWord(p.at+2, "RANK"); !s.rank {
			p.orderTerms(p.at+2, end)
		}
		p.at = end
	}
	if !p.isWord(p.at, "OFFSET") {
		return nil
	}
	if !p.isWord(p.at+2, "LIMIT") || s.limited {
		return fmt.Errorf("%w: OFFSET needs a LIMIT and excludes TOP", ErrQuery)
	}
	var err error
	if s.offset, err = p.number(p.at + 1); err != nil {
		return err
	}
	s.limit, err = p.number(p.at + 3)
	s.limited = true
	p.at += 4
	return err
}

func (p *statementParser) orderTerms(from, end int) {
	for from < end {
		to := p.elementEnd(from, end)
		last := to
		descending := p.isWord(to-1, "DESC")
		if descending || p.isWord(to-1, "ASC") {
			last--
		}
		p.statement.order = append(p.statement.order, orderTerm{p.span(from, last), descending})
		from = to + 1
	}
}

// aggregates reports whether every column is an aggregate. The error is an
// ErrQuery if only some are.
func (s *statement) aggregates() (bool, error) {
	n := 0
	for _, c := range s.columns {
		if c.aggregate != "" {
			n++
		}
	}
	if n != 0 && n != len(s.columns) {
		return false, fmt.Errorf("%w: aggregates together with other columns", ErrQuery)
	}
	return n > 0, nil
}

// The names of the properties of an envelope, the object that a stream requests
// for each row.
const (
	envelopeRow   = "p" // the row; absent if the row is undefined
	envelopeOrder = "o" // followed by a number: the order values
	envelopeKey   = "k" // followed by a number: the levels of the routing key
	envelopePart  = "q" // followed by a number: the levels of the partition key
	envelopeID    = "i"
	envelopeTime  = "t"
	envelopeArg   = "a" // followed by a number: the arguments of aggregates
	envelopeWhole = "d" // the whole document
)

// row returns the expression for a row as the user asked for it.
func (s *statement) row() string {
	switch {
	case s.star:
		return s.alias
	case s.value:
		return s.columns[0].text
	}
	var members []string
	for _, c := range s.columns {
		quoted, _ := json.Marshal(c.name)
		members = append(members, string(quoted)+": "+c.text)
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// envelope returns the statement that returns each row in an envelope with the
// given further members, sorted but not limited.
func (s *statement) envelope(members []string, pushLimit bool) string {
	if aggregated, _ := s.aggregates(); aggregated {
		for i, c := range s.columns {
			members = append(members, fmt.Sprintf("%q: %s", envelopeArg+strconv.Itoa(i), c.argument))
		}
	} else {
		members = append(members, fmt.Sprintf("%q: %s", envelopeRow, s.row()))
	}
	for i, o := range s.order {
		members = append(members, fmt.Sprintf("%q: %s", envelopeOrder+strconv.Itoa(i), o.text))
	}
	return s.text("VALUE {"+strings.Join(members, ", ")+"}", false, pushLimit && !s.distinct)
}

// plain returns the original statement with another limit.
func (s *statement) plain() string {
	list := "*"
	if !s.star {
		var columns []string
		for _, c := range s.columns {
			columns = append(columns, c.source)
		}
		list = strings.Join(columns, ", ")
	}
	if s.value {
		list = "VALUE " + list
	}
	return s.text(list, s.distinct, !s.distinct)
}

// partials returns the statement that computes partial aggregates.
func (s *statement) partials() string {
	var columns []string
	for i, c := range s.columns {
		function := c.aggregate
		if function == "AVG" {
			function = "SUM"
		}
		if function != "COUNT" {
			columns = append(columns, fmt.Sprintf("%s(%s) AS %s%d", function, c.argument, envelopeArg, i))
		}
		columns = append(columns, fmt.Sprintf("COUNT(%s) AS n%d", c.argument, i))
	}
	return s.text(strings.Join(columns, ", "), false, false)
}

// text assembles the clauses. A pushed-down limit admits as many rows as the
// whole result may need.
func (s *statement) text(list string, distinct, pushLimit bool) string {
	out := "SELECT "
	if distinct {
		out += "DISTINCT "
	}
	if s.limited && pushLimit {
		out += fmt.Sprintf("TOP %d ", s.offset+s.limit)
	}
	out += list
	for _, clause := range []string{s.from, s.where} {
		if clause != "" {
			out += " " + clause
		}
	}
	var terms []string
	for _, o := range s.order {
		if o.descending {
			o.text += " DESC"
		}
		terms = append(terms, o.text)
	}
	if len(terms) > 0 {
		out += " ORDER BY " + strings.Join(terms, ", ")
	}
	return out
}
