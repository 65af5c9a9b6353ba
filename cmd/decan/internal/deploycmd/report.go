package deploycmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
	"github.com/decandb/decan/internal/status"
)

// report prints what a deployment does: a line for each resource as it is done, with the
// properties that change below it, then a summary and the outputs.
type report struct {
	streams console.Streams
	command *Deploy
	items   []deploy.Item
	meter   *console.Meter
	wide    int // The width of the column of titles.
	json    *jsonc.Object
	err     error
}

func newReport(streams console.Streams, c *Deploy, items []deploy.Item, others []*deploy.Resource) *report {
	r := &report{streams: streams, command: c, items: items, json: jsonc.NewObject()}
	if meter := console.NewMeter(streams.Err); meter.Terminal {
		r.meter = meter
	}
	for _, item := range items {
		r.wide = max(r.wide, len([]rune(item.Title())))
	}
	for _, other := range others {
		r.print("%-10s %s %s\n", "left out", other.Type, other.Name)
	}
	return r
}

// print writes to standard output, unless that is to be JSON.
func (r *report) print(format string, args ...any) {
	if r.command.JSON {
		return
	}
	if _, err := fmt.Fprintf(r.streams.Out, format, args...); err != nil && r.err == nil {
		r.err = err
	}
}

// observe shows progress, and prints the result of a resource.
func (r *report) observe(i int, result *deploy.Result) {
	if result == nil {
		if r.meter != nil {
			r.meter.Show(float64(i)/float64(len(r.items)), r.items[i].Title())
		}
		return
	}
	if r.meter != nil {
		r.clear()
	}
	line := fmt.Sprintf("%-10s %-*s%s", r.verb(result), r.wide, result.Title(), r.why(result))
	r.print("%s\n", strings.TrimRight(line, " "))
	for _, delta := range result.Deltas {
		r.print("             %s\n", deltaText(delta))
	}
	for _, note := range result.Notes {
		r.print("             note: %s\n", note)
	}
}

// verb says what was or would be done.
func (r *report) verb(result *deploy.Result) string {
	words := map[deploy.Action][2]string{
		deploy.Create:    {"created", "create"},
		deploy.Modify:    {"changed", "change"},
		deploy.NoChange:  {"no change", "no change"},
		deploy.Uncertain: {"deployed", "uncertain"},
	}
	switch {
	case result.Needs != "":
		return "skipped"
	case result.Err != nil:
		return "failed"
	case r.command.WhatIf:
		return words[result.Action][1]
	}
	return words[result.Action][0]
}

// why says why a resource was not deployed, or with which throughput it is created.
func (r *report) why(result *deploy.Result) string {
	switch {
	case result.Needs != "":
		return "  it needs the " + result.Needs
	case result.Err != nil:
		return "  " + errorText(result.Err)
	case result.Kind == deploy.Account:
		return "  it is the server; its settings are those of decan serve"
	case result.Action == deploy.Create && result.Options != nil && result.Options.Len() > 0:
		return "  with " + strings.NewReplacer(`"`, "", "{", "", "}", "", ":", " ").Replace(jsonc.Text(result.Options))
	}
	return ""
}

// codes are the service's names of statuses.
var codes = map[int]string{400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 408: "RequestTimeout", 409: "Conflict", 412: "PreconditionFailed", 413: "RequestEntityTooLarge", 429: "TooManyRequests", 449: "RetryWith", 500: "InternalServerError", 503: "ServiceUnavailable"}

// errorText returns an error with the code of the service in front.
func errorText(err error) string {
	code, message := errorParts(err)
	if code == "" {
		return message
	}
	return code + ": " + message
}

// errorParts returns the code, if the error has one, and the message.
func errorParts(err error) (code, message string) {
	if refused, is := errors.AsType[remote.Refused](err); is {
		return codes[refused.Status], err.Error()
	}
	if s, is := errors.AsType[*status.Error](err); is {
		return codes[int(s.Code)], s.Message
	}
	if e, is := errors.AsType[*deploy.Error](err); is {
		return e.Code, e.Message
	}
	return "", err.Error()
}

// valueMax is the length to which values of properties are cut.
const valueMax = 60

func deltaText(d deploy.Delta) string {
	text := func(v any) string {
		s := []rune(jsonc.Text(v))
		if len(s) > valueMax {
			return string(s[:valueMax]) + "..."
		}
		return string(s)
	}
	switch d.Action {
	case deploy.Create:
		return "+ " + d.Path + ": " + text(d.After)
	case deploy.Delete:
		return "- " + d.Path + ": " + text(d.Before)
	}
	return "~ " + d.Path + ": " + text(d.Before) + " -> " + text(d.After)
}

// written returns the number of changes that were made.
func (r *report) written(results []deploy.Result) int {
	n := 0
	for _, result := range results {
		if result.Done && result.Action != deploy.NoChange {
			n++
		}
	}
	return n
}

// failed returns the number of resources that were not deployed.
func (r *report) failed(results []deploy.Result) int {
	n := 0
	for _, result := range results {
		if !result.Done {
			n++
		}
	}
	return n
}

// finish prints the summary.
func (r *report) finish(results []deploy.Result) {
	if r.meter != nil {
		r.clear()
	}
	counts := map[string]int{}
	list := []any{}
	for i := range results {
		counts[r.verb(&results[i])]++
		list = append(list, changeJSON(&results[i]))
	}
	r.json.Set("changes", jsonc.NewArray(list...))
	var parts []string
	for _, part := range []struct{ verb, text string }{
		{"created", "created"},
		{"changed", "changed"},
		{"deployed", "deployed"},
		{"create", "to create"},
		{"change", "to change"},
		{"uncertain", "uncertain"},
		{"no change", "without change"},
		{"failed", "failed"},
		{"skipped", "skipped"},
	} {
		if n := counts[part.verb]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, part.text))
		}
	}
	if len(results) > 0 {
		r.print("\n%s: %s.\n", console.Counted(len(results), "resource"), strings.Join(parts, ", "))
	} else if len(r.items) == 0 {
		r.print("The template has no resources.\n")
	}
}

// changeJSON returns a result in the form of the service's what-if.
func changeJSON(result *deploy.Result) *jsonc.Object {
	out := jsonc.NewObject("resourceId", result.ID, "changeType", string(result.Action))
	if len(result.Deltas) > 0 {
		deltas := []any{}
		for _, d := range result.Deltas {
			deltas = append(deltas, jsonc.NewObject("path", d.Path, "propertyChangeType", string(d.Action), "before", d.Before, "after", d.After))
		}
		out.Set("delta", jsonc.NewArray(deltas...))
	}
	if result.Symbol != "" {
		out.Set("symbolicName", result.Symbol)
	}
	switch {
	case result.Needs != "":
		out.Set("error", jsonc.NewObject("code", "Skipped", "message", "It needs the "+result.Needs+"."))
	case result.Err != nil:
		code, message := errorParts(result.Err)
		out.Set("error", jsonc.NewObject("code", code, "message", message))
	}
	var notes []any
	for _, note := range result.Notes {
		notes = append(notes, note)
	}
	if notes != nil {
		out.Set("notes", jsonc.NewArray(notes...))
	}
	return out
}

// outputs prints the outputs. With what-if those that depend on what does not exist yet
// are shown as expressions; secure ones never.
func (r *report) outputs(d *deploy.Deployment, runtime expression.Runtime) error {
	all := jsonc.NewObject()
	for i, o := range d.Outputs {
		value, err := d.Resolve(o, runtime)
		switch {
		case errors.Is(err, deploy.ErrOtherAccount):
			value, o.Secure = "("+deploy.ErrOtherAccount.Error()+")", false
		case err != nil && r.command.WhatIf:
			value = jsonc.Text(o.Value)
		case err != nil:
			return fmt.Errorf("the output %s: %w", o.Name, err)
		}
		entry := jsonc.NewObject("type", o.Type)
		shown := "(secure)"
		if !o.Secure {
			entry.Set("value", value)
			shown = jsonc.Text(value)
			if text, is := value.(string); is {
				shown = text
			}
		}
		all.Set(o.Name, entry)
		if i == 0 {
			r.print("\n")
		}
		r.print("output %s: %s\n", o.Name, shown)
	}
	r.json.Set("outputs", all)
	return nil
}

// end prints the JSON, if that is wanted.
func (r *report) end() error {
	if r.command.JSON {
		_, err := fmt.Fprintln(r.streams.Out, jsonc.Indent(r.json))
		return err
	}
	return r.err
}

// clear removes the bar from the terminal.
func (r *report) clear() { fmt.Fprint(r.streams.Err, "\r\x1b[K") }
