package table

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// cursor is the place where a page ended. The next page continues after it.
type cursor struct {
	key  string // routing key of the last row; empty before the first row
	row  []byte // encoded clustering key of the last row of that key
	done bool   // nothing else of the key is to be read
	bare bool   // no live row of the key was read so far

	limit        int64 // rows or groups that the statement may still return; negative for no limit
	perPartition int64 // rows that the key may still return; negative for no limit
}

// A paging state is a version, a code of authentication, and the cursor. A client keeps
// it, so it must not be able to change it: the positions in it are trusted.
const (
	pagingVersion = 1
	pagingCode    = 16 // bytes of the code

	cursorDone = 1
	cursorBare = 2
)

// errPagingState is the error of a state that this statement has not made.
var errPagingState = &Error{Class: Protocol, Text: "Invalid value for the paging state"}

// appendState appends the state of a cursor. of identifies the statement.
func (c *cursor) appendState(dst, secret, of []byte) []byte {
	body := binary.AppendVarint(nil, c.limit)
	body = binary.AppendVarint(body, c.perPartition)
	flags := byte(0)
	if c.done {
		flags |= cursorDone
	}
	if c.bare {
		flags |= cursorBare
	}
	body = append(body, flags)
	body = binary.AppendUvarint(body, uint64(len(c.key)))
	body = append(append(body, c.key...), c.row...)
	dst = append(dst, pagingVersion)
	dst = append(dst, codeOf(secret, of, body)...)
	return append(dst, body...)
}

func codeOf(secret, of, body []byte) []byte {
	code := hmac.New(sha256.New, secret)
	code.Write(binary.AppendUvarint(nil, uint64(len(of))))
	code.Write(of)
	code.Write(body)
	return code.Sum(nil)[:pagingCode]
}

// decodeState reads a state of appendState. The error is errPagingState.
func decodeState(state, secret, of []byte) (c cursor, err error) {
	if len(state) < 1+pagingCode || state[0] != pagingVersion {
		return c, errPagingState
	}
	code, body := state[1:1+pagingCode], state[1+pagingCode:]
	if !hmac.Equal(code, codeOf(secret, of, body)) {
		return c, errPagingState
	}
	var n int
	if c.limit, n = binary.Varint(body); n <= 0 {
		return c, errPagingState
	}
	body = body[n:]
	if c.perPartition, n = binary.Varint(body); n <= 0 || len(body) == n {
		return c, errPagingState
	}
	c.done, c.bare = body[n]&cursorDone != 0, body[n]&cursorBare != 0
	body = body[n+1:]
	size, n := binary.Uvarint(body)
	if n <= 0 || size > uint64(len(body)-n) {
		return c, errPagingState
	}
	c.key, c.row = string(body[n:n+int(size)]), bytes.Clone(body[n+int(size):])
	return c, nil
}
