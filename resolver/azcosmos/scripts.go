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

// Scripts reads and registers the scripts of containers. Many goroutines may use it. An
// error of the service should be an *azcore.ResponseError, so that a request that comes too
// early is sent again.
type Scripts interface {
	// ReadScripts returns all scripts of a target's container.
	ReadScripts(ctx context.Context, target resolver.Target) ([]resolver.Script, error)

	// PutScript creates a script, or replaces the one of its kind and id.
	PutScript(ctx context.Context, target resolver.Target, script resolver.Script) error
}

// RESTScripts is Scripts over REST with the keys of the accounts. Where an account takes no
// keys, the service lets nobody write scripts but its management API.
type RESTScripts struct {
	Accounts map[string]Account // by the name in Target.Account, as for Connect

	// HTTP sends the requests. Default http.DefaultClient.
	HTTP *http.Client

	// Now is the clock that requests are signed by. Default time.Now.
	Now func() time.Time
}

// scriptLists are the kinds of scripts, each with the member that lists them.
var scriptLists = []struct {
	kind   resolver.ScriptKind
	member string
}{
	{resolver.StoredProcedure, "StoredProcedures"},
	{resolver.Trigger, "Triggers"},
	{resolver.UserDefinedFunction, "UserDefinedFunctions"},
}

// scriptBody is a script as the service has it.
type scriptBody struct {
	ID               string `json:"id"`
	Body             string `json:"body"`
	TriggerType      string `json:"triggerType,omitempty"`
	TriggerOperation string `json:"triggerOperation,omitempty"`
}

// ReadScripts returns all scripts of a target's container, kind after kind.
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

// PutScript creates a script, or replaces the one of its kind and id.
func (r RESTScripts) PutScript(ctx context.Context, target resolver.Target, script resolver.Script) error {
	switch script.Kind {
	case resolver.StoredProcedure, resolver.Trigger, resolver.UserDefinedFunction:
	default:
		return fmt.Errorf("%w: the kind of script %q", resolver.ErrConfig, script.Kind)
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

// scriptAnswer is what the service answers.
type scriptAnswer struct {
	body         []byte
	continuation string
}

// scriptAnswerMax bounds an answer.
const scriptAnswerMax = 64 << 20

// send signs and sends one request. link is the resource that is signed, path where it
// goes.
func (r RESTScripts) send(ctx context.Context, account, method, link, path string, kind resolver.ScriptKind, body []byte, token string) (scriptAnswer, error) {
	at, known := r.Accounts[account]
	if !known {
		return scriptAnswer{}, fmt.Errorf("%w: RESTScripts does not know the account %q", resolver.ErrConfig, account)
	}
	key, err := base64.StdEncoding.DecodeString(at.Key)
	if err != nil {
		return scriptAnswer{}, fmt.Errorf("%w: the key of the account %q is no base64", resolver.ErrConfig, account)
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

// sign puts the headers on a request that every one has.
func (r RESTScripts) sign(request *http.Request, key []byte, link string, kind resolver.ScriptKind) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	date := strings.ToLower(now().UTC().Format(http.TimeFormat))
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, strings.ToLower(request.Method)+"\n"+string(kind)+"\n"+link+"\n"+date+"\n\n") // a hash takes everything
	request.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Ms-Date", date)
	request.Header.Set("X-Ms-Version", "2018-12-31")
}
