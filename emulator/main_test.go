package emulator

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kusto-agent/emulator/internal/mgmt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves on loopback until the test ends.
func start(t testing.TB, o Options) *Server {
	t.Helper()
	s := New(o)
	if _, err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func loadSchema(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := mgmt.LoadSchema(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// post makes an ingest request in process. Headers are pairs of name and value.
func post(s http.Handler, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Accept", "application/json")
	r.Header.Set("x-ms-client-request-id", "test;one;1")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func get(t testing.TB, s http.Handler, target string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", target, w.Code, w.Body)
	}
	return w.Body.String()
}

func zip(parts ...string) string {
	var out bytes.Buffer
	for _, p := range parts {
		zw := gzip.NewWriter(&out)
		io.WriteString(zw, p)
		zw.Close()
	}
	return out.String()
}

func unzip(t testing.TB, r io.Reader) string {
	t.Helper()
	zr, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// raws are the stored records as they were sent.
func raws(s *Server, db, table string) []string {
	var out []string
	for r := range s.All(db, table, 0) {
		out = append(out, string(r.Raw))
	}
	return out
}

func ingestURL(db, table, format, mapping string) string {
	u := "/v1/rest/ingest/" + url.PathEscape(db) + "/" + url.PathEscape(table) + "?streamFormat=" + format
	if mapping != "" {
		u += "&mappingName=" + url.QueryEscape(mapping)
	}
	return u
}
