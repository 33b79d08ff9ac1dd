package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

func TestIngestRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	h := func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("x-ms-activity-id", "act-9")
		io.WriteString(w, `{"Tables":[]}`)
	}
	c := serve(t, h, func(o *Options) {
		o.URL += "/base/p%20q/"
		o.App, o.User, o.Version = "agent é", "me", "1 2|{3}"
		o.Auth = &kustotest.StaticToken{Bearer: "T0KEN"}
	})
	in := &kusto.Ingest{Database: "my db", Table: "a.b-c_ü", Format: "multijson", Mapping: "m p.1", Body: []byte("payload"), Gzip: true, RequestID: "kusto-agent.ingest;u;3"}
	a := c.Ingest(t.Context(), in)
	if a.Verdict != kusto.Accepted || a.Err != nil || !a.Wrote || a.Status != 200 || a.ActivityID != "act-9" {
		t.Fatalf("got %+v", a)
	}
	if want := "/base/p%20q/v1/rest/ingest/my%20db/a.b-c_%C3%BC?streamFormat=MultiJSON&mappingName=m%20p.1"; got.RequestURI != want {
		t.Errorf("path %s, want %s", got.RequestURI, want)
	}
	for k, want := range map[string]string{
		"Accept": "application/json", "Content-Type": "application/octet-stream", "Content-Encoding": "gzip", "Content-Length": "7",
		"X-Ms-Client-Request-Id": "kusto-agent.ingest;u;3", "X-Ms-App": "agent ?", "X-Ms-User": "me", "X-Ms-User-Id": "me", "X-Ms-Version": "2024-12-12",
		"Authorization": "Bearer T0KEN", "Idempotency-Key": "", "Expect": "", "Accept-Encoding": "", "Transfer-Encoding": "",
	} {
		if v := got.Header.Get(k); v != want {
			t.Errorf("%s: %q, want %q", k, v, want)
		}
	}
	if v := got.Header.Get("X-Ms-Client-Version"); !strings.HasPrefix(v, "Kusto.Agent.Client:{1_2__3_}|Runtime.Go:{go1.") {
		t.Errorf("client version %q", v)
	}
	if string(body) != "payload" || got.Proto != "HTTP/1.1" {
		t.Errorf("body %q over %s", body, got.Proto)
	}
}

func TestIngestWithoutMappingGzipAndToken(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "streamFormat=CSV" || r.Header["Content-Encoding"] != nil || r.Header["Authorization"] != nil {
			t.Errorf("query %q, headers %v", r.URL.RawQuery, r.Header)
		}
	})
	in := sample("a,b\n")
	in.Format, in.Mapping = "csv", ""
	if a := c.Ingest(t.Context(), in); a.Verdict != kusto.Accepted {
		t.Errorf("got %+v", a)
	}
}

func TestWhatCannotBeAskedIsNotSent(t *testing.T) {
	source := &kustotest.StaticToken{Bearer: "T"}
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was made") }, func(o *Options) { o.Auth = source })
	f := func(change func(*kusto.Ingest)) {
		t.Helper()
		in := sample("x")
		change(in)
		if a := c.Ingest(t.Context(), in); a.Verdict != kusto.Hold || a.Status != 0 || a.Wrote || a.Err == nil || a.Hint == "" {
			t.Errorf("got %+v", a)
		}
	}
	f(func(in *kusto.Ingest) { in.Database = "../mgmt" })
	f(func(in *kusto.Ingest) { in.Table = ".." })
	f(func(in *kusto.Ingest) { in.Table = "a%2fb" })
	f(func(in *kusto.Ingest) { in.Mapping = "m&x=1" })
	f(func(in *kusto.Ingest) { in.Format = "Parquet&x=1" })
	f(func(in *kusto.Ingest) { in.RequestID = "" })
	f(func(in *kusto.Ingest) { in.RequestID = "a\r\nX-Evil: 1" })
	if source.Asked != 0 {
		t.Errorf("a token was asked for %d times", source.Asked)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	f := func(want string, change func(*Options)) {
		t.Helper()
		o := Options{URL: "https://c.kusto.windows.net", Auth: &kustotest.StaticToken{Bearer: "T"}}
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	f("auth.method none", func(o *Options) { o.Auth = nil })
	f("auth.method none", func(o *Options) { o.Auth = &noToken{} })
	f("app", func(o *Options) { o.App = "a\r\nb" })
	f("user", func(o *Options) { o.User = "a\x00b" })
	f("send.proxy", func(o *Options) { o.Proxy = "user:hunter2@proxy" })
	f("min_version", func(o *Options) { o.MinTLS = "1.1" })
	f("ca_file", func(o *Options) { o.CAFile = "/does/not/exist" })
	f("ca_file", func(o *Options) { o.CAFile = "client.go" })
	f("allow_untrusted_endpoint", func(o *Options) { o.URL = "https://example.com" })
}

// noToken is a source for the method none.
type noToken struct{ kustotest.StaticToken }

func (*noToken) None() bool { return true }

func TestRefusedTokenIsGivenUp(t *testing.T) {
	source := &kustotest.StaticToken{Bearer: "OLD"}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }, func(o *Options) { o.Auth = source })
	a := c.Ingest(t.Context(), sample("x"))
	if a.Verdict != kusto.Auth || a.Status != 401 || a.Hint == "" || len(source.Refused) != 1 || source.Refused[0] != "OLD" {
		t.Errorf("got %+v, gave up %q", a, source.Refused)
	}
}

// TestQueryClientTakesNoData: what is only asked is sent no data.
func TestQueryClientTakesNoData(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was made") }, func(o *Options) { o.QueryOnly = true })
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Hold || !strings.Contains(a.Err.Message, "for queries alone") {
		t.Errorf("%+v", a)
	}
}

// Where no token was sent, the keys that say what a token is for are not to blame.
func TestRefusedWithoutToken(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer realm=x")
		w.WriteHeader(401)
	})
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Auth || !strings.Contains(a.Hint, "none was sent: give auth.method") || a.Err.Hint != a.Hint {
		t.Errorf("got %+v", a)
	}
}

func TestNoTokenNoRequest(t *testing.T) {
	broken := &kusto.Error{Status: 401, Code: "AADSTS7000215", Message: "get token: wrong", Hint: "the secret is wrong"}
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was made") }, func(o *Options) { o.Auth = &kustotest.StaticToken{Err: broken} })
	a := c.Ingest(t.Context(), sample("x"))
	if a.Verdict != kusto.Auth || a.Status != 0 || a.Wrote || a.Err != broken || a.Hint != broken.Hint {
		t.Errorf("got %+v", a)
	}
}

func TestStoppedWhileWaitingForAToken(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was made") }, func(o *Options) { o.Auth = &kustotest.StaticToken{Err: context.Canceled} })
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.NotSent || a.Hint == "" {
		t.Errorf("got %+v", a)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
		}, func(o *Options) { o.Auth = &kustotest.StaticToken{Bearer: "T"} })
		if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Hold || !strings.Contains(a.Err.Message, elsewhere.URL) || a.Hint == "" {
			t.Errorf("%d: got %+v", status, a)
		}
	}
}

// A body belongs to its caller again when Ingest has returned, whatever the
// transport still does with a connection. The race detector judges.
func TestBodyIsTheCallersAgain(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400) })
	in := big()
	for range 5 {
		c.Ingest(t.Context(), in)
		clear(in.Body)
	}
}

func TestReleasedBodyIsReadNoMore(t *testing.T) {
	u := &upload{rest: []byte("body")}
	if n, err := u.Read(make([]byte, 2)); n != 2 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if u.End() {
		t.Error("half a body counts as whole")
	}
	if n, err := u.Read(make([]byte, 2)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read %d, %v after the release", n, err)
	}
	u = &upload{rest: []byte("body")}
	u.conn.Store(&conn{})
	if io.Copy(io.Discard, u); !u.End() {
		t.Error("a whole body does not count as such")
	}
}

func TestParallelRequestsReuseConnections(t *testing.T) {
	var body = bytes.Repeat([]byte("x"), 1<<16)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if !bytes.Equal(got, body) {
			w.WriteHeader(400)
		}
	})
	done := make(chan kusto.Answer)
	for range 8 {
		go func() { // ends with its request; the loop below waits
			in := sample("")
			in.Body = body
			done <- c.Ingest(t.Context(), in)
		}()
	}
	for range 8 {
		if a := <-done; a.Verdict != kusto.Accepted {
			t.Errorf("got %+v", a)
		}
	}
}

func TestErrorsAreFound(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	a := c.Ingest(t.Context(), sample("x"))
	var e *kusto.Error
	if err := error(a.Err); !errors.As(err, &e) || e.Unwrap() == nil || a.Verdict != kusto.NotSent {
		t.Errorf("got %+v", a)
	}
}

func TestLogHoldsNoSecretAndNoRecord(t *testing.T) {
	var log bytes.Buffer
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		io.WriteString(w, "you sent "+r.Header.Get("Authorization"))
	}, func(o *Options) {
		o.Auth = &kustotest.StaticToken{Bearer: "T0KEN"}
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	c.Ingest(t.Context(), sample("the record"))
	line := log.String()
	if !strings.Contains(line, "verdict=hold") || strings.Contains(line, "T0KEN") || strings.Contains(line, "the record") || strings.Count(line, "\n") != 1 {
		t.Errorf("logged %q", line)
	}
}

func BenchmarkIngest(b *testing.B) {
	c := serve(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"Tables":[]}`)
	})
	in := sample("")
	in.Body = make([]byte, 1<<20)
	b.SetBytes(int64(len(in.Body)))
	b.ReportAllocs()
	for b.Loop() {
		if a := c.Ingest(b.Context(), in); a.Verdict != kusto.Accepted {
			b.Fatalf("got %+v", a)
		}
	}
}
