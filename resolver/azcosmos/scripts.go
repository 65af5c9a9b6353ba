package azcosmos

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/decandb/decan/resolver"
)

// Scripts reads and creates the scripts of containers. Implementations must be
// safe for concurrent use. An error of the service should be an
// *azcore.ResponseError, so that throttled requests are repeated.
type Scripts interface {
	// ReadScripts returns all scripts of a target's container.
	ReadScripts(ctx context.Context, target resolver.Target) ([]resolver.Script, error)

	// PutScript creates a script, or replaces the one with the same kind and id.
	PutScript(ctx context.Context, target resolver.Target, script resolver.Script) error
}

// RESTScripts implements Scripts over REST with the keys of the accounts. If an
// account does not accept keys, the service allows writing scripts only through
// its management API.
type RESTScripts struct {
	Accounts map[string]Account // by the name in Target.Account, as for Connect

	// HTTP sends the requests. Default http.DefaultClient.
	HTTP *http.Client

	// Now is the clock for signing requests. Default time.Now.
	Now func() time.Time
}

// scriptLists are the kinds of scripts, each with the JSON member that lists
// them.
var scriptLists = []struct {
	kind   resolver.ScriptKind
	member string
}{
	{resolver.StoredProcedure, "StoredProcedures"},
	{resolver.Trigger, "Triggers"},
	{resolver.UserDefinedFunction, "UserDefinedFunctions"},
}

// scriptBody is a script in the service's form.
type scriptBody struct {
	ID               string `json:"id"`
	Body             string `json:"body"`
	TriggerType      string `json:"triggerType,omitempty"`
	TriggerOperation string `json:"triggerOperation,omitempty"`
}

// ReadScripts returns all scripts of a target's container, sorted by kind.
func (r RESTScripts) ReadScripts(ctx context.Context, target resolver.Target) ([]resolver.Script, error) {
	var scripts []resolver.Script
	container := "dbs/" + target.Database + "/colls/" + target.Container
	for _, list := range scriptLists {
		for token, more := "", true; more; {
			answer, err := r.send(ctx, target.Account, http.MethodGet, container, container+"/"+string(list.kind), list.kind, nil, token)
			if err != nil {
				return nil, err
			}
			var page map[string]json.RawMessage
			var bodies []scriptBody
			err = json.Unmarshal(answer.body, &page)
			if err == nil {
				err = json.Unmarshal(page[list.member], &bodies)
			}
			if err != nil {
				return nil, fmt.Errorf("the list of %s in %s: %w", list.kind, target.Container, err)
			}
			for _, b := range bodies {
				scripts = append(scripts, resolver.Script{Kind: list.kind, ID: b.ID, Body: b.Body, TriggerType: b.TriggerType, TriggerOperation: b.TriggerOperation})
			}
			token = answer.continuation
			more = token != ""
		}
	}
	return scripts, nil
}

// PutScript creates a script, or replaces the one with the same kind and id.
func (r RESTScripts) PutScript(ctx context.Context, target resolver.Target, script resolver.Script) error {
	switch script.Kind {
	case resolver.StoredProcedure, resolver.Trigger, resolver.UserDefinedFunction:
	default:
		return fmt.Errorf("%w: unknown kind of script %q", resolver.ErrConfig, script.Kind)
	}
	body, err := json.Marshal(scriptBody{script.ID, script.Body, script.TriggerType, script.TriggerOperation})
	if err != nil {
		return err
	}
	container := "dbs/" + target.Database + "/colls/" + target.Container
	_, err = r.send(ctx, target.Account, http.MethodPost, container, container+"/"+string(script.Kind), script.Kind, body, "")
	if statusOf(err) == http.StatusConflict {
		link := container + "/" + string(script.Kind) + "/" + script.ID
		_, err = r.send(ctx, target.Account, http.MethodPut, link, link, script.Kind, body, "")
	}
	return err
}

// scriptAnswer is a response of the service.
type scriptAnswer struct {
	body         []byte
	continuation string
}

// scriptAnswerMax bounds the size of a response in bytes.
const scriptAnswerMax = 64 << 20

// send signs and sends one request. link is the resource to sign, path the path
// of the request.
func (r RESTScripts) send(ctx context.Context, account, method, link, path string, kind resolver.ScriptKind, body []byte, token string) (scriptAnswer, error) {
	at, known := r.Accounts[account]
	if !known {
		return scriptAnswer{}, fmt.Errorf("%w: RESTScripts does not know the account %q", resolver.ErrConfig, account)
	}
	key, err := base64.StdEncoding.DecodeString(at.Key)
	if err != nil {
		return scriptAnswer{}, fmt.Errorf("%w: the key of the account %q is not valid base64", resolver.ErrConfig, account)
	}
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(at.Endpoint, "/")+"/"+strings.Join(segments, "/"), bytes.NewReader(body))
	if err != nil {
		return scriptAnswer{}, err
	}
	r.sign(request, key, link, kind)
	if token != "" {
		request.Header.Set("X-Ms-Continuation", token)
	}
	response, err := cmp.Or(r.HTTP, http.DefaultClient).Do(request)
	if err != nil {
		return scriptAnswer{}, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return scriptAnswer{}, runtime.NewResponseError(response)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, scriptAnswerMax))
	return scriptAnswer{answer, response.Header.Get("X-Ms-Continuation")}, err
}

// sign sets the headers that every request has.
func (r RESTScripts) sign(request *http.Request, key []byte, link string, kind resolver.ScriptKind) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	date := strings.ToLower(now().UTC().Format(http.TimeFormat))
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, strings.ToLower(request.Method)+"\n"+string(kind)+"\n"+link+"\n"+date+"\n\n") // a hash accepts any bytes
	request.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Ms-Date", date)
	request.Header.Set("X-Ms-Version", "2018-12-31")
}
