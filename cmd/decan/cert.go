package main

import (
	"fmt"
	"os"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
)

type certCommand struct {
	Data string `default:"./decan-data" type:"path" help:"The data directory of the server, which contains its authority; a missing authority is created."`
	Out  string `short:"o" placeholder:"FILE" type:"path" help:"Write the PEM to this file instead of standard output."`
}

const trustAdvice = `Trust this certificate where your clients run; the server's own certificate is signed by it.
  decan      every command that asks a server: --ca %[1]s, or DECAN_CA=%[1]s
  Go         append it to tls.Config.RootCAs, or set SSL_CERT_FILE=%[1]s
  JavaScript NODE_EXTRA_CA_CERTS=%[1]s
  Python     REQUESTS_CA_BUNDLE=%[1]s, or connection_verify="%[1]s" on CosmosClient
  Java       keytool -importcert -noprompt -alias decan -file %[1]s -keystore decan.jks -storepass changeit
             then -Djavax.net.ssl.trustStore=decan.jks
  .NET       SSL_CERT_FILE=%[1]s on Linux; on Windows and macOS the system store, see below;
             for tests, DisableServerCertificateValidation=True; in the connection string
             (Microsoft.Azure.Cosmos 3.31 or later)
  Debian     cp %[1]s /usr/local/share/ca-certificates/decan.crt && update-ca-certificates
  Fedora     cp %[1]s /etc/pki/ca-trust/source/anchors/ && update-ca-trust
  macOS      security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain %[1]s
  Windows    certutil -addstore -f Root %[1]s
Plain http on the same port needs no certificate, except in direct mode, the default of Java
and .NET: it is TLS whatever the endpoint is.
  Java       the trust store above covers it. For tests on localhost or 127.0.0.1 without one:
             -DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true
  .NET       SSL_CERT_FILE, the system store and DisableServerCertificateValidation=True; cover it,
             also ServerCertificateCustomValidationCallback (3.37 or later). An HttpClientFactory does
             not: operations then end with 503 and sub-status 20004 after 30 seconds.
`

// Run writes the certificate of the authority, and the advice to standard error, so
// that the PEM can be redirected.
func (c *certCommand) Run(io console.Streams) error {
	pem, err := server.AuthorityPEM(c.Data, time.Now())
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	name := c.Out
	if c.Out == "" {
		name = "decan-ca.pem"
		_, err = io.Out.Write(pem)
	} else {
		err = os.WriteFile(c.Out, pem, 0o644)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(io.Err, trustAdvice, name)
	return nil
}
