package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// webRequests are requests as clients send them, good and bad.
var webRequests = []string{
	"GET /a?b=c HTTP/1.1\r\nHost: x\r\nUser-Agent: curl/8.5.0\r\n",
	"POST /b HTTP/1.1\r\nHost: x\r\nUser-Agent: a \"quoted\" \\ one\r\nReferer: https://example.org/\"\r\nContent-Length: 0\r\n",
	"GET /user HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + base64.StdEncoding.EncodeToString([]byte("a da:x")) + "\r\n",
	"GET /\xc3\xa4\x01 HTTP/1.1\r\nHost: x\r\nUser-Agent: \xff\xc3\xa4\r\n",
	"GET /ä/%00%22 HTTP/1.0\r\n",
	"\x16\x03\x01\x02 \"\\\r\n",
	"GET /old\r\n",
	"GET\r\n",
	"get / HTTP/9.9\r\n",
	"-\r\n",
}

// ask sends a request and waits until the server has ended with it.
func (w *webServer) ask(request string) {
	w.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+w.port)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if _, err = conn.Write([]byte(strings.Replace(request, "Host:", "Connection: close\r\nHost:", 1) + "\r\n")); err == nil {
		_, err = io.ReadAll(conn) // to the end, or to a reset
	}
	_ = err
}

// TestNginxCombined: of each line that nginx writes in its own format, the members
// are what it says of the same request in JSON.
func TestNginxCombined(t *testing.T) {
	t.Parallel()
	s := newSite(t, strict(t))
	w := newWebServer(s, "")
	for range 3 {
		for _, request := range webRequests {
			w.ask(request)
		}
	}
	w.stop()
	lines := strings.Split(strings.TrimSuffix(s.read("logs/combined.log"), "\n"), "\n")
	told := strings.Split(strings.TrimSuffix(s.read("logs/access.json"), "\n"), "\n")
	if len(lines) != len(told) || len(lines) < 2*len(webRequests) {
		t.Fatalf("%d lines, and %d in JSON", len(lines), len(told))
	}
	config := open + "inputs: [{paths: [\"${DIR}/logs/combined.log\"], table: T, mapping: m, parse: combined, fields: {offset: \"{offset}\"}}]\n"
	s.write("agent.yaml", config)
	s.show(0, "setup", "--config", s.path("agent.yaml"))
	s.once(config, 0)
	type row struct {
		Offset                                           int
		Remote_addr, Time, Request, Method, Path         string
		Protocol, Referer, User, User_agent, Parse_error string
		Status, Bytes                                    *int
	}
	rows := make(map[int]row)
	for r := range s.server.All("Logs", "T", 0) {
		var one row
		text, err := json.Marshal(r)
		s.must(err)
		s.must(json.Unmarshal(text, &one))
		rows[one.Offset] = one
	}
	at, users := 0, 0
	for i, line := range lines {
		var want struct {
			Time, Request, Agent string
			Status               int
		}
		s.must(json.Unmarshal([]byte(strings.ToValidUTF8(told[i], "?")), &want))
		got, there := rows[at]
		at += len(line) + 1
		if !there || got.Parse_error != "" || got.Remote_addr != "127.0.0.1" || got.Bytes == nil || got.Status == nil || *got.Status != want.Status {
			t.Errorf("%s became %+v", line, got)
			continue
		}
		request := got.Request
		if got.Method != "" {
			request = fmt.Sprintf("%s %s %s", got.Method, got.Path, got.Protocol)
		}
		plain := !strings.ContainsAny(line, `\`)
		if plain && request != want.Request || !strings.Contains(line, `"`+request+`"`) || plain && got.User_agent != want.Agent && got.User_agent != "" {
			t.Errorf("%s became %+v, want %+v", line, got, want)
		}
		if got.User != "" {
			if users++; got.User != "a da" {
				t.Errorf("%s has the user %q", line, got.User)
			}
		}
		if zone := want.Time[19:]; !strings.HasSuffix(got.Time, "Z") || zone == "+00:00" && got.Time[:19] != want.Time[:19] {
			t.Errorf("%s has the time %s, and nginx says %s", line, got.Time, want.Time)
		}
	}
	if users != 3 {
		t.Errorf("%d users", users)
	}
}

// TestUnlikeLines: what becomes of lines that are not as parse says, and the books
// close over them.
func TestUnlikeLines(t *testing.T) {
	const good = `::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	f := func(on string, metric, label string, accepted, filtered, quarantined float64) {
		t.Run(on, func(t *testing.T) {
			s := newParseSite(t)
			s.write("logs/a.log", "one\n"+good+"two\n\n"+good)
			p := s.run(parseConfig("name: in, parse: combined, on_error: " + on))
			var a account
			p.awaitBooks("in", func(now account) bool {
				a = now
				return a.read == 5 && a.pending == 0
			})
			if a.accepted != accepted || a.filtered != filtered || a.quarantined != quarantined {
				t.Errorf("books %+v", a)
			}
			if got := p.metric(metric, label); got != 2 {
				t.Errorf("%s{%s} is %v", metric, label, got)
			}
			p.stop()
			for _, q := range s.quarantined() {
				if q["reason"] != "malformed" || q["message"] != "column 4: no address, identity and user before a time in brackets" && q["message"] != "column 1: no address, identity and user before a time in brackets" {
					t.Errorf("in quarantine: %v", q)
				}
			}
		})
	}
	f("raw", "records_unparsed_total", `input="in"`, 4, 1, 0)
	f("quarantine", "records_quarantined_total", `reason="malformed"`, 2, 1, 2)
	f("drop", "records_filtered_total", `reason="unmatched"`, 2, 3, 0)
}
