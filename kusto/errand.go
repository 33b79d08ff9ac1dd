package kusto

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
)

// errand carries the requests that a library makes for one token, to where it may
// make them, and remembers the last answer: the errors of the library hold whole
// replies, or lose the cause.
type errand struct {
	through http.RoundTripper // which follows no redirect
	allowed func(*url.URL) bool

	status int
	header http.Header
	body   []byte
	err    error
}

// maxReply is the most that is read of an answer to a library.
const maxReply = 1 << 20

// toAuthority is an errand to one token service and nowhere else, but for a known
// one, which may call itself by another of the known names.
func toAuthority(authority string, d *doors) (*errand, error) {
	u, err := webURL(authority)
	if err != nil {
		return nil, fmt.Errorf("auth.authority: %w", err)
	}
	return &errand{through: d, allowed: func(to *url.URL) bool {
		return sameServer(to, u) || isKnownAuthority(u) && isKnownAuthority(to)
	}}, nil
}

// options has a library go through e, and leave trying again to the cache.
func (e *errand) options(authority string) azcore.ClientOptions {
	return azcore.ClientOptions{
		Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: authority},
		Transport: e,
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Telemetry: policy.TelemetryOptions{ApplicationID: "kusto-agent"},
	}
}

// final is an error after which the library tries no more.
type final struct{ error }

func (final) NonRetriable() {}

func (f final) Unwrap() error { return f.error }

// Do makes one request.
func (e *errand) Do(req *http.Request) (*http.Response, error) {
	e.status, e.header, e.body, e.err = 0, nil, nil, nil
	if !e.allowed(req.URL) {
		e.err = fmt.Errorf("a token is not asked for at %s://%s", req.URL.Scheme, req.URL.Host)
		return nil, final{e.err}
	}
	resp, err := e.through.RoundTrip(req)
	if err == nil {
		defer resp.Body.Close()
		e.status, e.header = resp.StatusCode, resp.Header
		e.body, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	}
	if err != nil {
		e.err = err
		return nil, final{err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(e.body))
	return resp, nil
}

// result is what came of the errand.
func (e *errand) result(t azcore.AccessToken, err error, secrets ...string) (string, time.Time, error) {
	switch {
	case err == nil:
		if t.ExpiresOn.IsZero() {
			t.ExpiresOn = time.Now().Add(unstatedLife)
		}
		return t.Token, t.ExpiresOn, nil
	case e.err != nil:
		return "", time.Time{}, authorityOutOfReach(e.err, secrets...)
	case e.status != 0 && e.status != http.StatusOK:
		return "", time.Time{}, authorityRefusal(e.status, e.header, e.body, secrets...)
	case e.status == http.StatusOK:
		return "", time.Time{}, notTheAuthority(err)
	}
	return "", time.Time{}, authorityOutOfReach(errors.New(firstLine(err.Error())), secrets...)
}
