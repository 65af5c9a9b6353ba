package cql

import (
	"container/list"
	"crypto/md5" // The id of a prepared statement is an MD5; it protects nothing.
	"sync"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// statementID is the id of a prepared statement.
type statementID [md5.Size]byte

// idOf returns the id of a text that was prepared with a keyspace in use, as Cassandra
// computes it: drivers assume that all nodes give the same.
func idOf(keyspace, text string) statementID { return md5.Sum([]byte(keyspace + text)) }

// metadataID identifies the columns of a result. That of no columns is the MD5 of
// nothing, as in Cassandra.
func metadataID(columns frame.Columns) []byte {
	var encoded []byte
	if columns.Len() > 0 {
		f := frame.Frame{Version: frame.V5, Message: &frame.Rows{Metadata: frame.Metadata{Columns: columns}}}
		// Columns that cannot be encoded are an error when the statement is answered.
		encoded, _ = f.Append(nil)
	}
	sum := md5.Sum(encoded)
	return sum[:]
}

// preparedEntry is a prepared statement. It never changes.
type preparedEntry struct {
	id             statementID
	keyspace, text string
	statement      *Statement
	metadataID     []byte
	bytes          int64
}

// prepared has the prepared statements of all clients, up to a number and an amount of
// memory. At a limit it forgets those that were not used for longest.
type prepared struct {
	countMax int
	bytesMax int64

	mu sync.Mutex

	entries map[statementID]*list.Element // guarded by mu
	used    *list.List                    // guarded by mu: of *preparedEntry, the latest first
	bytes   int64                         // guarded by mu
}

func newPrepared(countMax int, bytesMax int64) *prepared {
	return &prepared{countMax: countMax, bytesMax: bytesMax, entries: map[statementID]*list.Element{}, used: list.New()}
}

// Approximate memory of an entry.
const (
	entryBytes  = 512
	columnBytes = 160
)

// newEntry returns the entry of a statement.
func newEntry(keyspace, text string, statement *Statement) *preparedEntry {
	return &preparedEntry{
		id: idOf(keyspace, text), keyspace: keyspace, text: text, statement: statement,
		metadataID: metadataID(statement.Result),
		bytes: int64(entryBytes + len(keyspace) + len(text) + statement.Bytes +
			columnBytes*(statement.Markers.Len()+statement.Result.Len())),
	}
}

// add keeps an entry, and reports whether it fits at all.
func (p *prepared) add(e *preparedEntry) bool {
	if e.bytes > p.bytesMax {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, known := p.entries[e.id]; known {
		p.removeLocked(old)
	}
	p.entries[e.id] = p.used.PushFront(e)
	p.bytes += e.bytes
	for p.used.Len() > p.countMax || p.bytes > p.bytesMax {
		p.removeLocked(p.used.Back())
	}
	return true
}

func (p *prepared) removeLocked(at *list.Element) {
	e := p.used.Remove(at).(*preparedEntry)
	delete(p.entries, e.id)
	p.bytes -= e.bytes
}

// find returns the entry of an id, or nil.
func (p *prepared) find(id []byte) *preparedEntry {
	if len(id) != len(statementID{}) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.entries[statementID(id)]
	if !known {
		return nil
	}
	p.used.MoveToFront(at)
	return at.Value.(*preparedEntry)
}

// drop forgets an entry, unless another has its id now.
func (p *prepared) drop(e *preparedEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, known := p.entries[e.id]; known && at.Value == e {
		p.removeLocked(at)
	}
}

// invalidate forgets the statements that depend on what has changed.
func (p *prepared) invalidate(change *frame.SchemaChange) {
	if change.Change == frame.Created && change.Target != frame.TargetTable {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := p.used.Front(); at != nil; {
		next := at.Next()
		if at.Value.(*preparedEntry).statement.dependsOn(change) {
			p.removeLocked(at)
		}
		at = next
	}
}

// dependsOn reports whether a change may make the statement invalid. Types and functions
// count for all statements of their keyspace.
func (s *Statement) dependsOn(change *frame.SchemaChange) bool {
	for _, t := range s.Tables {
		if t.Keyspace == change.Keyspace && (change.Target != frame.TargetTable || t.Name == change.Name) {
			return change.Target != frame.TargetKeyspace || change.Change == frame.Dropped
		}
	}
	return false
}

// count returns the number of statements.
func (p *prepared) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used.Len()
}
