package credential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"kusto-agent/internal/kusto/wire"
)

// tokenRequest is the transport of a library that requests one token. It sends requests only to
// allowed URLs and keeps the last answer, since the errors of the library hold whole replies or lose
// the cause.
type tokenRequest struct {
	through http.RoundTripper // which follows no redirect
	allowed func(*url.URL) bool

	status int
	header http.Header
	body   []byte
	err    error
}

// maxReply is the most that is read of an answer to a library.
const maxReply = 1 << 20

// toAuthority returns a tokenRequest (the transport of a library that requests one token) that
// sends requests to this authority only. If it is one of the known authorities, requests may go to
// the other known ones too.
func toAuthority(authority string, t *transports) (*tokenRequest, error) {
	u, err := wire.WebURL(authority)
	if err != nil {
		return nil, fmt.Errorf("auth.authority: %w", err)
	}
	return &tokenRequest{through: t, allowed: func(to *url.URL) bool {
		return sameServer(to, u) || isKnownAuthority(u) && isKnownAuthority(to)
	}}, nil
}

// options returns library options that use r as the transport and authority as the token service.
// The library does not retry, since the cache of tokens decides when to ask again.
func (r *tokenRequest) options(authority string) azcore.ClientOptions {
	return azcore.ClientOptions{
		Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: authority},
		Transport: r,
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Telemetry: policy.TelemetryOptions{ApplicationID: "kusto-agent"},
	}
}

// final is an error after which the library tries no more.
type final struct{ error }

func (final) NonRetriable() {}

func (f final) Unwrap() error { return f.error }

// Do makes one request and stores status, header and body of the answer in r, or the error. A URL
// that r does not allow fails without a request. Errors are wrapped in final, so that the library
// does not retry.
func (r *tokenRequest) Do(req *http.Request) (*http.Response, error) {
	r.status, r.header, r.body, r.err = 0, nil, nil, nil
	if !r.allowed(req.URL) {
		r.err = fmt.Errorf("a token is not asked for at %s://%s", req.URL.Scheme, req.URL.Host)
		return nil, final{r.err}
	}
	resp, err := r.through.RoundTrip(req)
	if err == nil {
		defer resp.Body.Close()
		r.status, r.header = resp.StatusCode, resp.Header
		r.body, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	}
	if err != nil {
		r.err = err
		return nil, final{err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(r.body))
	return resp, nil
}

// result returns the token t and its expiry, or the failure of the library (err) as a *kusto.Error
// with a hint. The hint follows from the answer that Do stored. The secrets are removed from the
// text.
func (r *tokenRequest) result(t azcore.AccessToken, err error, secrets ...string) (string, time.Time, error) {
	switch {
	case err == nil:
		if t.ExpiresOn.IsZero() {
			t.ExpiresOn = time.Now().Add(unstatedLife)
		}
		return t.Token, t.ExpiresOn, nil
	case r.err != nil:
		return "", time.Time{}, authorityOutOfReach(r.err, secrets...)
	case r.status != 0 && r.status != http.StatusOK:
		return "", time.Time{}, authorityRefusal(r.status, r.header, r.body, secrets...)
	case r.status == http.StatusOK:
		return "", time.Time{}, notTheAuthority(err)
	}
	return "", time.Time{}, authorityOutOfReach(errors.New(firstLine(err.Error())), secrets...)
}
