package deploycmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// client carries out deployments. It implements [deploy.Target].
type client struct {
	endpoint  string
	documents *remote.Documents
	admin     remote.Admin
	cql       tables
}

func (c *client) close() {
	c.documents.Close()
	c.cql.close()
}

// words are the names of kinds of scripts in paths.
var words = map[deploy.Kind]string{deploy.StoredProcedure: "sprocs", deploy.Trigger: "triggers", deploy.UDF: "udfs"}

// pathOf returns the path of a resource of the data plane.
func pathOf(item deploy.Item) []string {
	out := []string{"dbs", item.Names[0]}
	if len(item.Names) > 1 {
		out = append(out, "colls", item.Names[1])
	}
	if word := words[item.Kind]; word != "" {
		out = append(out, word, item.Names[2])
	}
	return out
}

// Read implements [deploy.Target].
func (c *client) Read(ctx context.Context, item deploy.Item) (*jsonc.Object, error) {
	switch item.Kind {
	case deploy.Account:
		if _, err := c.call(ctx, http.MethodGet, []string{"dbs"}, nil, "x-ms-max-item-count", "1"); err != nil {
			return nil, err
		}
		return jsonc.NewObject("provisioningState", "Succeeded", "documentEndpoint", strings.TrimSuffix(c.endpoint, "/")+"/", "databaseAccountOfferType", "Standard"), nil
	case deploy.Throughput:
		_, settings, err := c.offer(ctx, item)
		return settings, err
	case deploy.RoleDefinition, deploy.RoleAssignment:
		return c.readRole(ctx, item)
	case deploy.Keyspace, deploy.Table:
		found, err := c.cql.read(ctx, item)
		return found, fatal(err)
	}
	answer, err := c.call(ctx, http.MethodGet, pathOf(item), nil)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(answer.Body)
}

// parse reads an object of an answer.
func parse(body []byte) (*jsonc.Object, error) {
	node, err := jsonc.Parse(string(body))
	if err == nil {
		if o, is := node.Plain().(*jsonc.Object); is {
			return o, nil
		}
	}
	return nil, deploy.Fatal{Err: fmt.Errorf("the answer is not that of an account: %.100s", body)}
}

// call sends a request to the endpoint.
func (c *client) call(ctx context.Context, method string, segments []string, body *jsonc.Object, headers ...string) (remote.Answer, error) {
	var content any
	if body != nil {
		content = json.RawMessage(jsonc.Text(body))
	}
	answer, err := c.documents.Call(ctx, "", method, segments, content, headers...)
	return answer, fatal(err)
}

// fatal marks errors after which a deployment cannot continue: that there is no answer, or
// that the key is refused.
func fatal(err error) error {
	refused, is := errors.AsType[remote.Refused](err)
	switch {
	case err == nil:
		return nil
	case is && refused.Status == http.StatusForbidden:
		return deploy.Fatal{Err: fmt.Errorf("the key may not do this; give one that may write with --account-key: %w", err)}
	case is && refused.Status == http.StatusUnauthorized:
		return deploy.Fatal{Err: err}
	case is, isStatementError(err):
		return err
	}
	return deploy.Fatal{Err: err}
}

func isStatus(err error, status int) bool {
	refused, is := errors.AsType[remote.Refused](err)
	return is && refused.Status == status
}

// Write implements [deploy.Target].
func (c *client) Write(ctx context.Context, change deploy.Change) error {
	switch change.Kind {
	case deploy.Throughput:
		return c.setThroughput(ctx, change)
	case deploy.RoleDefinition, deploy.RoleAssignment:
		body := jsonc.Text(jsonc.NewObject("properties", change.Body))
		var answer json.RawMessage
		return fatal(c.admin.Send(ctx, http.MethodPut, rolePath(change.Item), bytes.NewReader([]byte(body)), &answer))
	case deploy.Keyspace, deploy.Table:
		if err := fatal(c.cql.write(ctx, change)); err != nil {
			return err
		}
		return c.optionsOfTable(ctx, change)
	}
	path := pathOf(change.Item)
	if change.Action == deploy.Modify {
		_, err := c.call(ctx, http.MethodPut, path, change.Body)
		return err
	}
	headers, err := offerHeaders(change.Options)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, http.MethodPost, path[:len(path)-1], change.Body, headers...)
	if isStatus(err, http.StatusConflict) {
		return deploy.ErrExists
	}
	return err
}

// offerHeaders returns the headers for the throughput of a resource that is created.
func offerHeaders(options *jsonc.Object) ([]string, error) {
	if options == nil {
		return nil, nil
	}
	var headers []string
	if manual, has := options.Get("throughput"); has {
		headers = append(headers, "x-ms-offer-throughput", strings.Trim(jsonc.Text(manual), `"`))
	}
	if autoscale, has := options.Get("autoscaleSettings"); has {
		headers = append(headers, "x-ms-cosmos-offer-autopilot-settings", jsonc.Text(autoscale))
	}
	if len(headers) > 2 {
		return nil, errors.New("the options have both throughput and autoscaleSettings: give one of them")
	}
	return headers, nil
}

// offer returns the offer of a database or container, and its settings in the form of a
// template; nil if it has none.
func (c *client) offer(ctx context.Context, item deploy.Item) (offer, settings *jsonc.Object, err error) {
	owner, err := c.call(ctx, http.MethodGet, pathOf(item), nil)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	found, err := parse(owner.Body)
	if err != nil {
		return nil, nil, err
	}
	rid, _ := found.Get("_rid")
	query := jsonc.NewObject("query", "SELECT * FROM root WHERE root.offerResourceId = @rid",
		"parameters", jsonc.NewArray(jsonc.NewObject("name", "@rid", "value", rid)))
	page, err := c.call(ctx, http.MethodPost, []string{"offers"}, query, "content-type", "application/query+json", "x-ms-documentdb-isquery", "True")
	if err != nil {
		return nil, nil, err
	}
	answer, err := parse(page.Body)
	if err != nil {
		return nil, nil, err
	}
	list, _ := answer.Get("Offers")
	offers, is := list.(*jsonc.Array)
	if !is || offers.Len() == 0 {
		return nil, nil, nil
	}
	offer = offers.At(0).(*jsonc.Object)
	content, _ := offer.Get("content")
	inner, is := content.(*jsonc.Object)
	if !is {
		return nil, nil, nil
	}
	settings = jsonc.NewObject()
	if autoscale, has := inner.Get("offerAutopilotSettings"); has {
		settings.Set("autoscaleSettings", autoscale)
	} else if manual, has := inner.Get("offerThroughput"); has {
		settings.Set("throughput", manual)
	}
	if buckets, has := inner.Get("throughputBuckets"); has {
		settings.Set("throughputBuckets", buckets)
	}
	return offer, settings, nil
}

// setThroughput changes a throughput, and before it its mode if that differs.
func (c *client) setThroughput(ctx context.Context, change deploy.Change) error {
	_, auto := change.Body.Get("autoscaleSettings")
	_, isAuto := change.Before.Get("autoscaleSettings")
	if auto != isAuto {
		header := "x-ms-cosmos-migrate-offer-to-autopilot"
		if isAuto {
			header = "x-ms-cosmos-migrate-offer-to-manual-throughput"
		}
		if err := c.putOffer(ctx, change, jsonc.NewObject("offerThroughput", int64(-1)), header, "True"); err != nil {
			return err
		}
	}
	content := jsonc.NewObject()
	if autoscale, has := change.Body.Get("autoscaleSettings"); has {
		content.Set("offerThroughput", int64(-1))
		content.Set("offerAutopilotSettings", autoscale)
	} else if manual, has := change.Body.Get("throughput"); has {
		content.Set("offerThroughput", manual)
	}
	for _, from := range []*jsonc.Object{change.Before, change.Body} {
		if buckets, has := from.Get("throughputBuckets"); has {
			content.Set("throughputBuckets", buckets)
		}
	}
	return c.putOffer(ctx, change, content)
}

// putOffer stores the offer of a resource with a content.
func (c *client) putOffer(ctx context.Context, change deploy.Change, content *jsonc.Object, headers ...string) error {
	offer, _, err := c.offer(ctx, change.Item)
	if err != nil {
		return err
	}
	if offer == nil {
		return fmt.Errorf("%s has no throughput of its own", change.Path())
	}
	body := jsonc.NewObject()
	for _, m := range offer.Members() {
		body.Set(m.Name, m.Value)
	}
	body.Set("content", content)
	id, _ := offer.Get("id")
	_, err = c.call(ctx, http.MethodPut, []string{"offers", fmt.Sprint(id)}, body, headers...)
	return err
}

// optionsOfTable gives a created keyspace or table the throughput of its options, which
// CQL cannot.
func (c *client) optionsOfTable(ctx context.Context, change deploy.Change) error {
	if change.Action != deploy.Create || change.Options == nil || change.Options.Len() == 0 {
		return nil
	}
	if _, err := offerHeaders(change.Options); err != nil {
		return err
	}
	_, before, err := c.offer(ctx, change.Item)
	if err != nil || before == nil {
		return err // Without a throughput of its own there is none to set.
	}
	change.Before, change.Body = before, change.Options
	return c.setThroughput(ctx, change)
}

// rolePath returns the path of a role on the admin port.
func rolePath(item deploy.Item) string {
	if item.Kind == deploy.RoleDefinition {
		return "sqlRoleDefinitions/" + url.PathEscape(item.Names[0])
	}
	return "sqlRoleAssignments/" + url.PathEscape(item.Names[0])
}

func (c *client) readRole(ctx context.Context, item deploy.Item) (*jsonc.Object, error) {
	var answer json.RawMessage
	err := fatal(c.admin.Send(ctx, http.MethodGet, rolePath(item), nil, &answer))
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	whole, err := parse(answer)
	if err != nil {
		return nil, err
	}
	properties, _ := whole.Get("properties")
	o, _ := properties.(*jsonc.Object)
	return o, nil
}

// List implements [deploy.Target].
func (c *client) List(ctx context.Context, operation string) (any, error) {
	var answer json.RawMessage
	switch strings.ToLower(operation) {
	case "listkeys":
		if err := fatal(c.admin.Send(ctx, http.MethodPost, "listKeys", nil, &answer)); err != nil {
			return nil, err
		}
		return parse(answer)
	case "listconnectionstrings":
		if err := fatal(c.admin.Send(ctx, http.MethodPost, "listKeys", nil, &answer)); err != nil {
			return nil, err
		}
		keys, err := parse(answer)
		if err != nil {
			return nil, err
		}
		var list []any
		for _, kind := range []struct{ member, kind, text string }{
			{"primaryMasterKey", "Primary", "Primary SQL Connection String"},
			{"secondaryMasterKey", "Secondary", "Secondary SQL Connection String"},
			{"primaryReadonlyMasterKey", "PrimaryReadonly", "Primary Read-Only SQL Connection String"},
			{"secondaryReadonlyMasterKey", "SecondaryReadonly", "Secondary Read-Only SQL Connection String"},
		} {
			key, _ := keys.Get(kind.member)
			list = append(list, jsonc.NewObject("connectionString", fmt.Sprintf("AccountEndpoint=%s/;AccountKey=%v;", strings.TrimSuffix(c.endpoint, "/"), key),
				"description", kind.text, "keyKind", kind.kind, "type", "Sql"))
		}
		return jsonc.NewObject("connectionStrings", jsonc.NewArray(list...)), nil
	}
	return nil, errors.New("the account has no operation " + strconv.Quote(operation) + " here")
}
