package nosql

import (
	"html"
	"net/http"
	"strings"
)

// A browser that opens the endpoint sends a request that no client of the
// protocol sends: GET / without authorization, accepting HTML. The answer is a
// small page instead of 401. It has no script, no style and no form, and contains
// nothing that a refused request would not receive.

// wantsPage reports whether a request for the account comes from a browser.
func wantsPage(r *request) bool {
	return r.target.count == 0 && r.method == http.MethodGet && r.header(headerAuthorization) == "" &&
		strings.Contains(r.header(headerAccept), "text/html")
}

// welcome answers a browser.
func (h *handler) welcome(r *request) *response {
	answer := r.answer(http.StatusOK, []byte(strings.ReplaceAll(welcomePage, "ENDPOINT", html.EscapeString(h.advertised(r)))))
	answer.media = "text/html; charset=utf-8"
	answer.set(headerContentSecurity, "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	answer.set(headerContentTypeOptions, "nosniff")
	answer.set(headerFrameOptions, "DENY")
	answer.set(headerReferrerPolicy, "no-referrer")
	answer.set(headerCacheControl, "no-store")
	answer.set(headerVary, "Accept, Authorization")
	return answer
}

const welcomePage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Decan</title>
<link rel="icon" href="data:,">
</head>
<body>
<h1>Decan</h1>
<p>This is a Decan server: a database that speaks the NoSQL protocol of Azure Cosmos DB.</p>
<p>Endpoint for SDKs and tools: <code>ENDPOINT</code></p>
<p>The server prints its key and its endpoints when it starts. Requests without a signature are answered with 401.</p>
<ul>
<li>Health and metrics are on the admin port, which <code>--admin-listen</code> sets: <code>/alive</code>, <code>/ready</code>, <code>/metrics</code>.</li>
<li>To see containers and their partitions: <code>decan partitions DATABASE CONTAINER</code>. To run a query: <code>decan explain</code>.</li>
<li><a href="https://github.com/decandb/decan/tree/main/docs">Documentation</a></li>
</ul>
</body>
</html>
`
