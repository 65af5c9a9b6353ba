package cql

import (
	"net/http"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// audit writes a line of the audit log for a request that was answered.
func (r *request) audit(began time.Time, done *outcome) {
	watch, code := r.server.config.Watch, statusOf(done.message)
	_, prepares := r.frame.Message.(*frame.Prepare)
	changes := !prepares && r.statement != nil && r.statement.Kind != Read && r.statement.Kind != Use
	if !watch.Wants(changes, code) {
		return
	}
	kind, name := audit.Name(r.session.Caller)
	line := audit.Record{
		Time: began.UTC(), Address: r.conn.RemoteAddr().String(), Caller: kind, Name: name,
		Operation: r.frame.Message.Opcode().String(), Status: code, Charge: done.charge,
	}
	if s := r.statement; s != nil {
		if _, batch := r.frame.Message.(*frame.Batch); !batch {
			line.Operation = s.Verb
		}
		if s.Names.Keyspace != "" {
			line.Resource = "dbs/" + s.Names.Keyspace
		}
		if s.Names.Name != "" {
			line.Resource += "/colls/" + s.Names.Name
		}
	}
	watch.Write(line)
}

// signedInAs writes a line of the audit log for an attempt to sign in.
func (c *connection) signedInAs(caller auth.Caller, err *frame.Error) {
	code := http.StatusOK
	if err != nil {
		code = statusOf(err)
	}
	watch := c.server.config.Watch
	if !watch.Wants(false, code) {
		return
	}
	kind, name := audit.Name(caller)
	watch.Write(audit.Record{
		Time: c.server.config.Now().UTC(), Address: c.conn.RemoteAddr().String(), Caller: kind, Name: name,
		Operation: "SIGN IN", Status: code,
	})
}

// statusOf returns the status of HTTP that has the meaning of an answer.
func statusOf(message frame.Message) int {
	e, ok := message.(*frame.Error)
	if !ok {
		return http.StatusOK
	}
	code := status.CodeBadRequest
	switch e.Code {
	case frame.CodeBadCredentials:
		code = status.CodeUnauthorized
	case frame.CodeUnauthorized:
		code = status.CodeForbidden
	case frame.CodeAlreadyExists:
		code = status.CodeConflict
	case frame.CodeOverloaded:
		code = status.CodeTooManyRequests
	case frame.CodeUnavailable:
		code = status.CodeUnavailable
	case frame.CodeReadTimeout, frame.CodeWriteTimeout:
		code = status.CodeRequestTimeout
	case frame.CodeServer, frame.CodeReadFailure, frame.CodeWriteFailure:
		code = status.CodeInternal
	}
	return int(code)
}
