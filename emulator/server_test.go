package emulator

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestListenIsForLoopbackOnly(t *testing.T) {
	s := New(Options{})
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "nonsense"} {
		if url, err := s.Listen(addr); err == nil {
			t.Errorf("%s: listens at %s", addr, url)
		}
	}
	url, err := s.Listen("127.0.0.1:0")
	if err != nil || url != s.URL() || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("got %q %v", url, err)
	}
	if _, err := s.Listen("127.0.0.1:0"); err == nil {
		t.Error("listens twice")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	s = New(Options{AllowRemote: true})
	if _, err := s.Listen(":0"); err != nil {
		t.Error(err)
	}
	s.Close()
}

// dialogue writes to a new connection and reads one answer from it.
func dialogue(t *testing.T, s *Server, text string) (*http.Response, *bufio.Reader, net.Conn) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, text)
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp, br, c
}

func TestOnTheWire(t *testing.T) {
	s := start(t, Options{TokenSecret: "s"})
	const post = "POST /v1/rest/ingest/d/t?streamFormat=TXT HTTP/1.1\r\nHost: x\r\n"
	_, answer := askToken(s, "/t/oauth2/token", map[string][]string{"grant_type": {"client_credentials"},
		"resource": {"r"}, "client_id": {"c"}, "client_secret": {"s"}})
	auth := "Authorization: Bearer " + answer["access_token"].(string) + "\r\n"

	// A chunked body; then the same connection once more.
	resp, br, c := dialogue(t, s, post+auth+"Transfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n2\r\nb\n\r\n0\r\n\r\n")
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || string(body) != accepted || s.RowCount("d", "t") != 2 {
		t.Errorf("chunked: %d %s", resp.StatusCode, body)
	}
	io.WriteString(c, post+auth+"Content-Length: 2\r\n\r\nc\n")
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 || s.RowCount("d", "t") != 3 {
		t.Errorf("keep-alive: %v %v", resp, err)
	}

	// Who asks first is told before the body, good or bad.
	resp, br, c = dialogue(t, s, post+auth+"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if resp.StatusCode != 100 {
		t.Errorf("expect: %d", resp.StatusCode)
	}
	io.WriteString(c, "d\n")
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("after continue: %v %v", resp, err)
	}
	resp, _, _ = dialogue(t, s, post+"Expect: 100-continue\r\nContent-Length: 4000000\r\n\r\n")
	if resp.StatusCode != 401 {
		t.Errorf("expect without a token: %d", resp.StatusCode)
	}

	// Broken framing is no answer, above all no 200.
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, post+auth+"Content-Length: 100\r\n\r\nshort\n")
	conn.(*net.TCPConn).CloseWrite()
	if got, _ := io.ReadAll(conn); strings.Contains(string(got), " 200 ") || s.RowCount("d", "t") != 4 {
		t.Errorf("short body: %q, %d rows", got, s.RowCount("d", "t"))
	}
}

// TestLateRefusalIsReadable: a client that posts everything first still reads
// why it was refused, instead of meeting a reset.
func TestLateRefusalIsReadable(t *testing.T) {
	s := start(t, Options{TokenSecret: "s"})
	status, _, err := send(t, s, "t", strings.Repeat("x", 9_000_000))
	if status != 401 || err != nil {
		t.Errorf("got %d %v", status, err)
	}
	s = start(t, Options{})
	status, answer, err := send(t, s, "t", strings.Repeat("x", 12_000_000))
	if status != 413 || err != nil {
		t.Errorf("got %d %s %v", status, answer, err)
	}
}

func TestNoDedupe(t *testing.T) {
	s := New(Options{})
	for range 3 {
		post(s, ingestURL("d", "t", "TXT", ""), "same\n")
	}
	if s.RowCount("d", "t") != 3 {
		t.Errorf("%d rows", s.RowCount("d", "t"))
	}
}

func TestRowsBecomeVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{VisibilityDelay: time.Second})
		post(s, ingestURL("d", "t", "TXT", ""), "a\nb\n")
		if err := s.WaitRows(t.Context(), "d", "t", 2); err != nil || s.RowCount("d", "t") != 0 || len(s.Rows("d", "t")) != 0 {
			t.Errorf("seen at once: %v", err)
		}
		time.Sleep(time.Second)
		post(s, ingestURL("d", "t", "TXT", ""), "c\n")
		if s.RowCount("d", "t") != 2 || len(s.Rows("d", "t")) != 2 || s.Tables()[0].Rows != 2 {
			t.Errorf("after a second: %d rows", s.RowCount("d", "t"))
		}
	})
}

func TestDiscardCounts(t *testing.T) {
	s := New(Options{Discard: true})
	post(s, ingestURL("d", "t", "JSON", "m"), "{}\n{}\n")
	if s.RowCount("d", "t") != 2 || len(s.Rows("d", "t")) != 0 {
		t.Errorf("%d rows counted, %d kept", s.RowCount("d", "t"), len(s.Rows("d", "t")))
	}
}

func TestWaiting(t *testing.T) {
	s := start(t, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { send(t, s, "t", "a\nb\n") })
	}
	if err := errors.Join(s.WaitRows(t.Context(), "D", "t", 16), s.WaitRequests(t.Context(), 8)); err != nil {
		t.Error(err)
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.WaitRows(ctx, "d", "t", 17); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPages(t *testing.T) {
	s := New(Options{})
	f := func(target, want string) {
		t.Helper()
		if got := get(t, s, target); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
	f("/", "DATABASE  TABLE  ROWS  REQUESTS  LOOK\n")
	f("/requests", "[]\n")
	post(s, ingestURL("D", "t", "CSV", ""), "a,1\n\"b\n\",2\nc,3\n")
	post(s, ingestURL("d", "t", "JSON", "m"), `{"d": "<4>"}`)
	f("/rows?db=d&table=t", "[\"a\",\"1\"]\n[\"b\\n\",\"2\"]\n[\"c\",\"3\"]\n{\"d\":\"<4>\"}\n")
	f("/rows?db=d&table=t&skip=1&limit=2", "[\"b\\n\",\"2\"]\n[\"c\",\"3\"]\n")
	f("/rows?db=d&table=t&skip=3", "{\"d\":\"<4>\"}\n")
	f("/rows?db=d&table=t&limit=0", "")
	f("/rows?db=d&table=t&format=text&skip=2", "c,3\n{\"d\": \"<4>\"}\n")
	f("/rows?db=d&table=T", "")
	f("/", "DATABASE  TABLE  ROWS  REQUESTS  LOOK\nD         t      4     2         http://example.com/rows?db=D&table=t&limit=1000\n")
	counts := get(t, s, "/counts")
	for _, want := range []string{`"rows": 4`, `"requests": 2`, `"raw_bytes": 27`, `"200": 2`, `"token_calls": 0`} {
		if !strings.Contains(counts, want) {
			t.Errorf("counts: no %s in %s", want, counts)
		}
	}
	if r := get(t, s, "/requests?limit=1"); !strings.Contains(r, `"number": 2`) || strings.Contains(r, `"number": 1`) {
		t.Errorf("requests: %s", r)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `<a href="/rows?db=D&amp;table=t&amp;limit=1000">`) {
		t.Errorf("index: %s", w.Body)
	}
}

// TestIndexPage: what a person sees in a browser.
func TestIndexPage(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, `{"any_database": true, "databases": {"D": {"tables": {"t": {"columns": "n:long, s:string"}}}}}`), TokenSecret: ""})
	f := func(want ...string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		for _, want := range want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %s in\n%s", want, w.Body)
			}
		}
	}
	f("0 rows in 1 table; 0 requests, 0 of them not accepted.", "Every database exists, and the tables and mappings that commands made.", "No token is needed.", "n: long, s: string", "No request came yet.")
	post(s, ingestURL("D", "t", "CSV", ""), "1,a\n2,b\n3,c\n4,<d>\n5,"+strings.Repeat("é", 300))
	post(s, ingestURL("D", "u", "CSV", ""), "x")
	f("5 rows in 1 table; 2 requests, 1 of them not accepted.", "the last 3:<pre>{&#34;n&#34;:3,", "&lt;d&gt;", "é…", "400 BadRequest_EntityNotFound")
	s = New(Options{TokenSecret: "s3cret"})
	f("Every database, table and mapping exists.", "http://example.com issues them for the client secret of --token-secret", "There is no table yet.")
	s = New(Options{Schema: loadSchema(t, `{}`)})
	f("What the schema does not name and no command made is unknown.")
}

func TestSchemaOverHTTP(t *testing.T) {
	s := New(Options{SchemaDelay: time.Hour})
	do := func(method, target, body string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
		if w.Code != status {
			t.Errorf("%s %s: got %d %s", method, target, w.Code, w.Body)
		}
	}
	do("PUT", "/schema", `{"databases": {"d": {"tables": {"t": {}}}}}`, 204)
	do("PUT", "/schema", `{"database": {}}`, 400)
	do("POST", ingestURL("d", "other", "TXT", ""), "x", 200)
	do("POST", "/schema/clear", "", 204)
	do("POST", ingestURL("d", "other", "TXT", ""), "x", 400)
	do("POST", ingestURL("d", "t", "TXT", ""), "x", 200)
	if got := s.Tables(); len(got) != 2 || got[0].Table != "other" || got[1].Rows != 1 {
		t.Errorf("tables: %+v", got)
	}
}

func TestUnknownPages(t *testing.T) {
	s := New(Options{})
	f := func(target string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		if w.Code != status {
			t.Errorf("%s: got %d", target, w.Code)
		}
	}
	f("/nothing", 404)
	f("/rows", 400)
	f("/rows?db=d", 400)
	f("/rows?db=d&table=t", 200)
	f("/rows?db=d&table=t&skip=-1", 400)
	f("/rows?db=d&table=t&limit=x", 400)
	f("/rows?db=d&table=t&format=xml", 400)
	f("/requests?limit=x", 400)
}
