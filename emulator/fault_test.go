package emulator

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// send posts over the socket of s and returns the answer, read to its end.
func send(t *testing.T, s *Server, table, body string) (status int, answer string, err error) {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+ingestURL("d", table, "TXT", ""), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestFaultAnswers(t *testing.T) {
	s := start(t, Options{})
	no := false
	f := func(fault Fault, status int, want string) {
		t.Helper()
		fault.Times = 1
		before := s.RowCount("d", "t")
		script := s.Fail(fault)
		got, answer, err := send(t, s, "t", "x\n")
		if err != nil || got != status || !strings.Contains(answer, want) || want == "" && answer != "" {
			t.Errorf("%v: got %d %q %v, want %d %q", fault, got, answer, err, status, want)
		}
		if script.Hits() != 1 || s.RowCount("d", "t") != before {
			t.Errorf("%v: %d hits, %d rows more", fault, script.Hits(), s.RowCount("d", "t")-before)
		}
		if got, answer, err := send(t, s, "t", "x\n"); err != nil || got != 200 || answer != accepted {
			t.Errorf("after %v: got %d %q %v", fault, got, answer, err)
		}
	}
	f(Fault{Status: 429}, 429, `"code":"Throttling"`)
	f(Fault{Status: 400, Code: "General_TransientSchemaMismatch", Permanent: &no}, 400, `"@permanent":false`)
	f(Fault{Status: 400, Code: "Stream_Odd", Message: "so odd"}, 400, `"code":"Stream_Odd","message":"so odd"`)
	f(Fault{Status: 500}, 500, `"code":"General_InternalServerError"`)
	f(Fault{Status: 502}, 502, "<h1>502 Bad Gateway</h1>")
	f(Fault{Status: 503}, 503, "ServiceUnavailable_StreamingIngestionDatabaseUnderMaintenance")
	f(Fault{Status: 503, As: AsText}, 503, "Error details:\nClientRequestId=")
	f(Fault{Status: 504}, 504, `"code":"Timeout"`)
	f(Fault{Status: 520}, 520, "StreamingIngestionServiceException")
	f(Fault{Status: 401}, 401, "")
	f(Fault{Status: 403}, 403, "Forbidden: Caller is not authorized")
	f(Fault{Status: 404, As: AsEmpty}, 404, "")
	f(Fault{Status: 404, As: AsHTML}, 404, "<h1>404 Not Found</h1>")
	f(Fault{Status: 413}, 413, "KustoRequestPayloadTooLargeException")
	f(Fault{Status: 200}, 200, `"ConsumedRecordsCount"`)
	f(Fault{Status: 200, As: AsJunk}, 200, "junk")
	f(Fault{Status: 200, As: AsEmpty}, 200, "")
	f(Fault{Status: 204}, 204, "")
	f(Fault{Status: 302}, 302, "")
	f(Fault{Status: 503, Body: "own words", Type: textType}, 503, "own words")
	f(Fault{Status: 503, Size: 1 << 20, As: AsJunk}, 503, strings.Repeat("\x00junk}{ that is no JSON", 40))
	f(Fault{Status: 503, Trickle: time.Microsecond, Body: "drop by drop"}, 503, "drop by drop")
	f(Fault{Status: 503, When: OnArrival}, 503, "Maintenance")
	f(Fault{Status: 503, When: MidBody}, 503, "Maintenance")
	f(Fault{Status: 503, Delay: time.Millisecond}, 503, "Maintenance")
}

func TestFaultHeaders(t *testing.T) {
	s := New(Options{})
	s.Fail(Fault{Times: 1, Status: 429, Header: map[string]string{"retry-after": "7"}})
	if w := post(s, ingestURL("d", "t", "TXT", ""), "x"); w.Header().Get("Retry-After") != "7" {
		t.Errorf("got %v", w.Header())
	}
	s.Fail(Fault{Times: 1, Status: 307})
	if w := post(s, ingestURL("d", "t", "TXT", ""), "x"); w.Header().Get("Location") != "/" {
		t.Errorf("got %v", w.Header())
	}
}

// TestResets: the connection breaks, and rows are there only if the break came
// after the commit.
func TestResets(t *testing.T) {
	s := start(t, Options{})
	f := func(when When, stored bool) {
		t.Helper()
		before := s.RowCount("d", "t")
		s.Fail(Fault{Times: 1, Reset: true, When: when})
		status, _, err := send(t, s, "t", strings.Repeat("some line\n", 1000))
		if err == nil { // its words depend on how far the client's writing had come
			t.Errorf("%s: got %d %v", when, status, err)
		}
		if got := s.RowCount("d", "t") > before; got != stored {
			t.Errorf("%s: stored %v, want %v", when, got, stored)
		}
		all := s.Requests()
		if last := all[len(all)-1]; last.Status != 0 || last.Stored != stored || last.Fault != "reset at "+string(when) {
			t.Errorf("%s: recorded %+v", when, last)
		}
	}
	f(OnArrival, false)
	f(MidBody, false)
	f(BeforeCommit, false)
	f(AfterCommit, true)
	if status, _, err := send(t, s, "t", "x"); status != 200 || err != nil {
		t.Errorf("afterwards: %d %v", status, err)
	}
}

func TestMidBodyReadsHalf(t *testing.T) {
	s := start(t, Options{})
	s.Fail(Fault{Times: 1, Reset: true, When: MidBody})
	send(t, s, "t", strings.Repeat("x", 1000))
	if r := s.Requests()[0]; r.BodyLen != 500 || r.Whole {
		t.Errorf("got %+v", r)
	}
}

func TestEarlyAnswerComesBeforeTheBody(t *testing.T) {
	s := start(t, Options{})
	s.Fail(Fault{Times: 1, Status: 503, When: OnArrival})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /v1/rest/ingest/d/t?streamFormat=TXT HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestTruncatedAndEndlessAnswers(t *testing.T) {
	s := start(t, Options{})
	s.Fail(Fault{Times: 1, Status: 200, When: AfterCommit, Truncate: true})
	if _, answer, err := send(t, s, "t", "x"); !errors.Is(err, io.ErrUnexpectedEOF) || answer != accepted[:len(accepted)/2] {
		t.Errorf("truncated: %q %v", answer, err)
	}
	s.Fail(Fault{Times: 1, Status: 200, Size: -1})
	resp, err := http.Post(s.URL()+ingestURL("d", "t", "TXT", ""), "", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, resp.Body, 10<<20); err != nil {
		t.Errorf("endless: %d bytes, %v", n, err)
	}
	resp.Body.Close()
}

func TestHangUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{MaxConcurrent: 1, RetryAfter: 1500 * time.Millisecond})
		release := s.Hang()
		status := make(chan int)
		// Started here, ended by release, awaited by the receive below.
		go func() { status <- post(s, ingestURL("d", "t", "TXT", ""), "x").Code }()
		synctest.Wait()
		if s.RowCount("d", "t") != 0 {
			t.Error("stored while it hangs")
		}
		if w := post(s, ingestURL("d", "t", "TXT", ""), "x"); w.Code != 429 || w.Header().Get("Retry-After") != "2" {
			t.Errorf("one more than the limit: %d %v", w.Code, w.Header())
		}
		release()
		if got := <-status; got != 200 || s.RowCount("d", "t") != 1 {
			t.Errorf("released: %d, %d rows", got, s.RowCount("d", "t"))
		}
		release()
	})
}

// TestWaitLeft: a request counts as held from the hit on until the server has seen its client leave.
func TestWaitLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		hang := s.Fail(Fault{Hang: true})
		ctx, leave := context.WithCancel(t.Context())
		// Started here, ended by leave, awaited by WaitLeft.
		go func() {
			defer func() { _ = recover() }() // how net/http ends a call whose client has left
			r := httptest.NewRequestWithContext(ctx, "POST", ingestURL("d", "t", "TXT", ""), strings.NewReader("x"))
			r.Header.Set("Content-Length", "1")
			s.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		short, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		if err := hang.WaitLeft(short); err == nil || hang.Hits() != 1 {
			t.Errorf("after %d hits it holds nothing, %v", hang.Hits(), err)
		}
		leave()
		if err := hang.WaitLeft(t.Context()); err != nil {
			t.Error(err)
		}
		hang.Remove()
		if n := s.RowCount("d", "t"); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestDelayOutlivesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		f := func(when When, rows int) {
			t.Helper()
			s.Fail(Fault{Times: 1, Delay: time.Minute, When: when})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			defer func() {
				if recover() != http.ErrAbortHandler || s.RowCount("d", "t") != rows {
					t.Errorf("%s: %d rows, want %d", when, s.RowCount("d", "t"), rows)
				}
			}()
			r := httptest.NewRequestWithContext(ctx, "POST", ingestURL("d", "t", "TXT", ""), strings.NewReader("x"))
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
		f(BeforeCommit, 0)
		f(AfterCommit, 1)
		began := time.Now()
		s.Fail(Fault{Times: 1, Delay: time.Minute})
		if w := post(s, ingestURL("d", "t", "TXT", ""), "x"); w.Code != 200 || time.Since(began) != time.Minute {
			t.Errorf("a delay alone: %d after %s", w.Code, time.Since(began))
		}
	})
}

func TestCloseFreesWhatHangs(t *testing.T) {
	s := start(t, Options{})
	script := s.Fail(Fault{Hang: true, When: OnArrival})
	done := make(chan error)
	// Started here, ended by Close, awaited by the receive below.
	go func() {
		_, _, err := send(t, s, "t", "x")
		done <- err
	}()
	if err := script.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the hanging request got an answer")
	}
	if w := post(s, ingestURL("d", "t", "TXT", ""), "x"); w.Code != 503 {
		t.Errorf("after Close: %d", w.Code)
	}
}

func TestWhichRequestsAreStruck(t *testing.T) {
	f := func(fault Fault, want string) {
		t.Helper()
		s := New(Options{})
		s.Fail(fault)
		got := ""
		for i := range len(want) {
			w := post(s, ingestURL("Db", "T"+strconv.Itoa(i%2), "TXT", ""), "line "+strconv.Itoa(i), "x-ms-client-request-id", "id;"+strconv.Itoa(i))
			got += map[bool]string{true: ".", false: "x"}[w.Code == 200]
		}
		if got != want {
			t.Errorf("%+v: got %s, want %s", fault, got, want)
		}
	}
	f(Fault{Status: 500}, "xxxxxx")
	f(Fault{Status: 500, Times: 2}, "xx....")
	f(Fault{Status: 500, Skip: 1, Times: 2}, ".xx...")
	f(Fault{Status: 500, Fraction: 0.5}, ".x.x.x")
	f(Fault{Status: 500, Fraction: 0.34, Times: 1}, "..x...")
	f(Fault{Status: 500, Match: Match{Table: "T1"}}, ".x.x.x")
	f(Fault{Status: 500, Match: Match{Table: "t1"}}, "......")
	f(Fault{Status: 500, Match: Match{Database: "dB", Format: "txt"}}, "xxxxxx")
	f(Fault{Status: 500, Match: Match{Mapping: "m"}}, "......")
	f(Fault{Status: 500, Match: Match{Contains: "line 3"}}, "...x..")
	f(Fault{Status: 500, Match: Match{RequestID: "id;4"}}, "....x.")
	f(Fault{Status: 500, Match: Match{Kind: KindToken}}, "......")
}

func TestFaultsThatCannotStrike(t *testing.T) {
	f := func(fault Fault) {
		t.Helper()
		if fault.check() == nil {
			t.Errorf("%+v was taken", fault)
		}
	}
	f(Fault{})
	f(Fault{Status: 100})
	f(Fault{Status: 500, Reset: true})
	f(Fault{Hang: true, Truncate: true})
	f(Fault{Delay: 1, Code: "x"})
	f(Fault{Status: 500, When: "later"})
	f(Fault{Status: 500, As: "xml"})
	f(Fault{Status: 500, Fraction: 2})
	f(Fault{Status: 500, Match: Match{Kind: "blob"}})
	f(Fault{Status: 500, Match: Match{Kind: KindToken}, When: AfterCommit})
	f(Fault{Status: 500, Match: Match{Contains: "x"}, When: OnArrival})
}

func TestFaultsOverHTTP(t *testing.T) {
	s := New(Options{})
	do := func(method, target, body string) (int, string) {
		t.Helper()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
		return w.Code, strings.Join(strings.Fields(w.Body.String()), " ")
	}
	f := func(method, target, body string, status int, want string) {
		t.Helper()
		if got, answer := do(method, target, body); got != status || answer != want {
			t.Errorf("%s %s %s: got %d %s", method, target, body, got, answer)
		}
	}
	f("POST", "/faults", `{"times":1,"status":503,"delay":"1ms","match":{"table":"T"}}`, 200, `{ "ids": [ 1 ] }`)
	f("POST", "/faults", `[{"hang":true,"when":"arrival"},{"status":429,"trickle":"10ms"}]`, 200, `{ "ids": [ 2, 3 ] }`)
	f("GET", "/faults", "", 200, `[ { "id": 1, "hits": 0, "fault": { "match": { "kind": "ingest", "table": "T" }, "times": 1, "when": "before_commit", "status": 503, "delay": "1ms" } }, `+
		`{ "id": 2, "hits": 0, "fault": { "match": { "kind": "ingest" }, "when": "arrival", "hang": true } }, `+
		`{ "id": 3, "hits": 0, "fault": { "match": { "kind": "ingest" }, "when": "before_commit", "status": 429, "trickle": "10ms" } } ]`)
	f("DELETE", "/faults/2", "", 204, "")
	f("DELETE", "/faults/2", "", 404, "no such fault")
	if w := post(s, ingestURL("d", "T", "TXT", ""), "x"); w.Code != 503 {
		t.Errorf("got %d", w.Code)
	}
	f("DELETE", "/faults", "", 204, "")
	f("GET", "/faults", "", 200, "[]")
	f("POST", "/faults", `{"statsu":503}`, 400, `read fault: json: unknown field "statsu" check fault: nothing would happen: want hang, reset, delay or status`)
	f("POST", "/faults", `[{"status":503},{"status":5}]`, 400, "check fault: status 5: want 200 to 599")
	f("GET", "/faults", "", 200, "[]")
}

func TestHelpers(t *testing.T) {
	s := New(Options{})
	f := func(want ...int) {
		t.Helper()
		for _, status := range want {
			if w := post(s, ingestURL("d", "t", "TXT", ""), "x"); w.Code != status {
				t.Errorf("got %d, want %d", w.Code, status)
			}
		}
	}
	s.FailNext(2, 500)
	s.Throttle(1)
	f(500, 500, 429, 200)
	s.FailNext(100, 500)
	s.Recover()
	f(200)
}
