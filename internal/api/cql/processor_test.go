package cql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
)

// small is a processor of a few forms of statements, on tables in memory. The system
// tables, for which drivers ask when they connect, are those of package table.
type small struct {
	system  system
	block   chan struct{} // SELECT of test.block waits for it
	blocked chan struct{} // and tells it

	mu sync.Mutex

	tables map[string]*smallTable // guarded by mu: by keyspace and name
	traces []*Trace               // guarded by mu
	calls  map[string]int         // guarded by mu: by method
	stale  int                    // guarded by mu: how many times Execute and Batch are stale
}

type smallTable struct {
	keyspace, name string
	columns        []frame.Column
	rows           [][][]byte
}

var (
	text    = frame.Simple(frame.TypeVarchar)
	integer = frame.Simple(frame.TypeInt)
	truth   = frame.Simple(frame.TypeBoolean)
)

func newSmall() *small {
	p := &small{system: newSystem(), tables: map[string]*smallTable{}, calls: map[string]int{}, block: make(chan struct{}), blocked: make(chan struct{}, 100)}
	p.table("ks", "t", "k", integer, nil, "v", text, nil)
	p.table("other", "t", "k", integer, nil, "v", text, nil)
	p.table("test", "block", "k", integer, nil)
	return p
}

// table adds a table, or a row to one: name, type and value of each column. A nil value
// in the first column is no row.
func (p *small) table(keyspace, name string, columns ...any) {
	t := p.tables[keyspace+"."+name]
	if t == nil {
		t = &smallTable{keyspace: keyspace, name: name}
		for i := 0; i < len(columns); i += 3 {
			t.columns = append(t.columns, frame.Column{Keyspace: keyspace, Table: name, Name: columns[i].(string), Type: columns[i+1].(frame.Type)})
		}
		p.tables[keyspace+"."+name] = t
	}
	if columns[2] == nil {
		return
	}
	var row [][]byte
	for i := 2; i < len(columns); i += 3 {
		switch v := columns[i].(type) {
		case string:
			row = append(row, []byte(v))
		case int:
			row = append(row, int32Bytes(v))
		case []byte:
			row = append(row, v)
		}
	}
	t.rows = append(t.rows, row)
}

func int32Bytes(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(int32(n))) }

// smallPlan is the plan of a statement of small.
type smallPlan struct {
	table   *smallTable
	columns []int // selected or inserted
	terms   []smallTerm
	ifs     bool
	do      func(r *Result)
}

// smallTerm is a value for a column: a constant, or a marker.
type smallTerm struct {
	column int
	value  []byte
	marker int // -1 for a constant
}

var (
	selects = regexp.MustCompile(`(?is)^select\s+(.+?)\s+from\s+([\w."]+)(?:\s+where\s+(.+?))?\s*$`)
	inserts = regexp.MustCompile(`(?is)^insert\s+into\s+([\w."]+)\s*\(([^)]*)\)\s*values\s*\(([^)]*)\)(\s+if not exists)?\s*$`)
	creates = regexp.MustCompile(`(?is)^(create|alter|drop)\s+(table|keyspace)\s+(if not exists\s+)?([\w."]+)`)
	using   = regexp.MustCompile(`(?is)^(?:/\*.*\*/)?\s*use\s+"?(\w+)"?\s*$`)
	relates = regexp.MustCompile(`^\s*(\w+)\s*=\s*(\S+)\s*$`)
)

func (p *small) find(keyspace, name string) (*smallTable, error) {
	name = strings.ReplaceAll(name, `"`, "")
	if !strings.Contains(name, ".") {
		if keyspace == "" {
			return nil, invalid("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
		}
		name = keyspace + "." + name
	}
	if t := p.tables[name]; t != nil {
		return t, nil
	}
	_, name, _ = strings.Cut(name, ".")
	return nil, invalid("table %s does not exist", name)
}

func (t *smallTable) column(name string) (int, error) {
	at := slices.IndexFunc(t.columns, func(c frame.Column) bool { return c.Name == strings.TrimSpace(name) })
	if at < 0 {
		return 0, invalid("Undefined column name %s in table %s.%s", name, t.keyspace, t.name)
	}
	return at, nil
}

// term reads a value, and adds a marker to the statement.
func (p *small) term(s *Statement, plan *smallPlan, markers *[]frame.Column, column int, text string) {
	text = strings.TrimSpace(text)
	value := smallTerm{column: column, marker: -1}
	n, err := strconv.Atoi(text)
	switch {
	case text == "?" || strings.HasPrefix(text, ":"):
		value.marker = len(*markers)
		marker := plan.table.columns[column]
		if name := strings.TrimPrefix(text, ":"); name != text {
			marker.Name = name
		}
		*markers = append(*markers, marker)
		if column == 0 {
			s.Keys = []uint16{uint16(value.marker)}
		}
	case err == nil:
		value.value = int32Bytes(n)
	default:
		value.value = []byte(strings.Trim(text, "'"))
	}
	plan.terms = append(plan.terms, value)
}

func (p *small) count(method string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[method]++
}

func (p *small) Prepare(_ context.Context, session *Session, keyspace, query string) (*Statement, error) {
	p.count("Prepare")
	if session.User != "account" {
		return nil, errors.New("the session has no user")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	query = strings.TrimSuffix(strings.TrimSpace(query), ";")
	if s, err := p.system.prepare(keyspace, query); s != nil || err != nil {
		return s, err
	}
	s := &Statement{Bytes: 100}
	plan := &smallPlan{}
	s.Plan = plan
	var markers []frame.Column
	if m := selects.FindStringSubmatch(query); m != nil {
		t, err := p.find(keyspace, m[2])
		if err != nil {
			return nil, err
		}
		plan.table, s.Tables = t, []Table{{t.keyspace, t.name}}
		s.Permission, s.On = "SELECT", "<table "+t.keyspace+"."+t.name+">"
		for name := range strings.SplitSeq(m[1], ",") {
			if strings.TrimSpace(name) == "*" {
				for i := range t.columns {
					plan.columns = append(plan.columns, i)
				}
				break
			}
			at, err := t.column(name)
			if err != nil {
				return nil, err
			}
			plan.columns = append(plan.columns, at)
		}
		var result []frame.Column
		for _, i := range plan.columns {
			result = append(result, t.columns[i])
		}
		s.Result = frame.NewColumns(result)
		for relation := range strings.SplitSeq(strings.ReplaceAll(m[3], " and ", " AND "), " AND ") {
			if parts := relates.FindStringSubmatch(relation); parts != nil {
				at, err := t.column(parts[1])
				if err != nil {
					return nil, err
				}
				p.term(s, plan, &markers, at, parts[2])
			}
		}
	} else if m := inserts.FindStringSubmatch(query); m != nil {
		t, err := p.find(keyspace, m[1])
		if err != nil {
			return nil, err
		}
		s.Kind, s.Permission, s.On = Modify, "MODIFY", "<table "+t.keyspace+"."+t.name+">"
		plan.table, plan.ifs, s.Tables = t, m[4] != "", []Table{{t.keyspace, t.name}}
		names, values := strings.Split(m[2], ","), strings.Split(m[3], ",")
		for i, name := range names {
			at, err := t.column(name)
			if err != nil {
				return nil, err
			}
			p.term(s, plan, &markers, at, values[i])
		}
	} else if m := creates.FindStringSubmatch(query); m != nil {
		s.Kind, s.Permission, s.On = Define, strings.ToUpper(m[1]), "<keyspace ks>"
		change := map[string]string{"create": frame.Created, "alter": frame.Updated, "drop": frame.Dropped}[strings.ToLower(m[1])]
		_, name, _ := strings.Cut(m[4], ".")
		plan.do = func(r *Result) {
			if m[3] != "" {
				return
			}
			r.Changes = []frame.SchemaChange{{Change: change, Target: frame.TargetTable, Keyspace: "ks", Name: name}}
		}
	} else if m := using.FindStringSubmatch(query); m != nil {
		s.Kind = Use
		plan.do = func(r *Result) { r.Keyspace = m[1] }
	} else {
		switch query {
		case "panic":
			plan.do = func(*Result) { panic("on purpose") }
		case "warn":
			plan.do = func(r *Result) { r.Warnings = []string{"careful"} }
		case "secret":
			return nil, errors.New("an internal detail")
		case "throttled":
			return nil, status.TooManyRequests(0, 7e6, "The partition is hot.")
		default:
			return nil, &frame.Error{Code: frame.CodeSyntax, Message: "line 1:0 no viable alternative at input '" + query + "'"}
		}
	}
	s.Markers = frame.NewColumns(markers)
	return s, nil
}

func (p *small) isStale() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale--
	return p.stale >= 0
}

func (p *small) Execute(ctx context.Context, _ *Session, s *Statement, r *Request) (*Result, error) {
	p.count("Execute")
	if p.isStale() {
		return nil, ErrStale
	}
	if compiled, ok := s.Plan.(*table.Prepared); ok {
		return p.system.execute(ctx, s, compiled, r)
	}
	plan := s.Plan.(*smallPlan)
	result := &Result{Charge: 2.85}
	switch {
	case plan.do != nil:
		plan.do(result)
		return result, nil
	case s.Kind == Modify:
		p.insert(plan, r.Values, result)
		return result, nil
	case plan.table.name == "block":
		p.blocked <- struct{}{}
		select {
		case <-p.block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := &Rows{Columns: s.Result}
	offset := 0
	if r.Parameters.Has(frame.QueryPagingState) {
		var err error
		if offset, err = strconv.Atoi(string(r.Parameters.PagingState)); err != nil {
			return nil, protocolError("Invalid value for the paging state")
		}
	}
	for i, row := range plan.table.rows {
		if i < offset || !plan.matches(row, r.Values) {
			continue
		}
		if size := int(r.Parameters.PageSize); size > 0 && rows.Count == size {
			rows.PagingState = []byte(strconv.Itoa(i))
			break
		}
		for _, c := range plan.columns {
			rows.Cells = frame.AppendBytes(rows.Cells, row[c])
		}
		rows.Count++
	}
	result.Rows = rows
	return result, nil
}

func (t *smallTerm) of(values []frame.Value) []byte {
	if t.marker < 0 {
		return t.value
	}
	return values[t.marker].Bytes
}

func (plan *smallPlan) matches(row [][]byte, values []frame.Value) bool {
	for i := range plan.terms {
		if t := &plan.terms[i]; !bytes.Equal(row[t.column], t.of(values)) {
			return false
		}
	}
	return true
}

func (p *small) insert(plan *smallPlan, values []frame.Value, result *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	row := make([][]byte, len(plan.table.columns))
	for i := range plan.terms {
		row[plan.terms[i].column] = bytes.Clone(plan.terms[i].of(values))
	}
	at := slices.IndexFunc(plan.table.rows, func(other [][]byte) bool { return bytes.Equal(other[0], row[0]) })
	applied := at < 0 || !plan.ifs
	switch {
	case at < 0:
		plan.table.rows = append(plan.table.rows, row)
	case applied:
		plan.table.rows[at] = row
	}
	if plan.ifs {
		cell := []byte{0}
		if applied {
			cell[0] = 1
		}
		result.Rows = &Rows{
			Columns: frame.NewColumns([]frame.Column{{Keyspace: plan.table.keyspace, Table: plan.table.name, Name: "[applied]", Type: truth}}),
			Count:   1, Cells: frame.AppendBytes(nil, cell),
		}
	}
}

func (p *small) Batch(_ context.Context, _ *Session, b *Batch) (*Result, error) {
	p.count("Batch")
	if p.isStale() {
		return nil, ErrStale
	}
	result := &Result{Charge: 10}
	for _, s := range b.Statements {
		p.insert(s.Statement.Plan.(*smallPlan), s.Values, result)
	}
	return result, nil
}

func (p *small) Traced(t *Trace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traces = append(p.traces, t)
}

func (p *small) called() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}
