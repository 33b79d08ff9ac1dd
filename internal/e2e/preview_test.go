package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// TestPreview: what is printed is the request that is made afterwards, and
// nothing is sent or written for it.
func TestPreview(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("token", "zq-token-of-a-file")
	s.secrets = append(s.secrets, "zq-token-of-a-file")
	s.write("logs/a.json", "{\"n\":1}\nno json\n{\"n\":2}\n{\"n\":3}\n")
	config := strings.Replace(open, "auth: {method: none}", `auth: {method: token_file, token_file: "${DIR}/token"}`, 1) + oneJSON
	if !strings.Contains(config, "token_file") {
		t.Fatal("the configuration has no token")
	}
	s.write("agent.yaml", config)
	preview := func(flags ...string) (out, words string) {
		t.Helper()
		return s.show(0, append([]string{"preview", "T", "--config", s.path("agent.yaml")}, flags...)...)
	}
	out, words := preview("--records", "2")
	head, body, _ := strings.Cut(out, "\n\n")
	if body != "{\"n\":1}\n{\"n\":2}" {
		t.Errorf("body is %q", body)
	}
	for _, want := range []string{"Authorization: Bearer ***", "Content-Encoding: gzip", "POST /v1/rest/ingest/Logs/T?streamFormat=JSON&mappingName=m HTTP/1.1"} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is not in\n%s", want, head)
		}
	}
	for _, want := range []string{"3 records, 24 B before gzip", "DIR/logs/a.json 0 to 32", "quarantine: offset 8 of DIR/logs/a.json, malformed"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in\n%s", want, words)
		}
	}
	if n := s.server.Totals().Requests; n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if _, err := os.Stat(s.path("state")); err == nil {
		t.Error("something was written to state_dir")
	}

	s.once(config, 1) // one record is in quarantine
	made := s.server.Requests()[0]
	for line := range strings.Lines(head) {
		key, value, is := strings.Cut(strings.TrimSpace(line), ": ")
		if !is || key == "Authorization" || key == "X-Ms-Client-Request-Id" || key == "Content-Length" || key == "Host" {
			continue
		}
		if got := made.Header.Get(key); got != value {
			t.Errorf("%s was sent as %q, shown as %q", key, got, value)
		}
	}

	// Beside a running agent, and behind what it has sent.
	p := s.run(config)
	p.await(1, "agent is running")
	if _, words := s.show(1, "preview", "T", "--config", s.path("agent.yaml")); !strings.Contains(words, "nothing to send") {
		t.Errorf("with nothing new it says %q", words)
	}
	p.stop()
	s.append("logs/a.json", "{\"n\":4}\n")
	if out, words := preview(); !strings.HasSuffix(out, "\n\n{\"n\":4}") || !strings.Contains(words, "32 to 40") {
		t.Errorf("shown\n%s\n%s", out, words)
	}
	if out, _ := preview("--json"); !strings.Contains(out, `"body":"{\"n\":4}\n"`) || !strings.Contains(out, `"Authorization":["Bearer ***"]`) {
		t.Errorf("as JSON: %s", out)
	}
	s.show(64, "preview", "Nope", "--config", s.path("agent.yaml"))
}

// TestPreviewOfManyPayloads: where what a file holds makes several requests, the one
// that is shown has what comes first.
func TestPreviewOfManyPayloads(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.csv", "a,1\n1,2,3\n4,5\n1,2,3,4\n")
	s.write("agent.yaml", open+`inputs: [{paths: ["${DIR}/logs/*.csv"], table: T}]`)
	for range 10 {
		if out, _ := s.show(0, "preview", "T", "--config", s.path("agent.yaml")); !strings.Contains(out, "\n\na,1\n") {
			t.Fatalf("shown\n%s", out)
		}
	}
}

// TestPreviewBeforeAfter: what is shown of a sample file fits a terminal of 80 columns,
// and its counts are those of the run that follows.
func TestPreviewBeforeAfter(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	const line = `203.0.113.7 - - [01/Mar/2026:12:00:%02d +0000] "GET %s HTTP/1.1" %d 5316 "-" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"` + "\n"
	var log strings.Builder
	for i := range 30 {
		fmt.Fprintf(&log, line, i, []string{"/", "/health", "/shop/ü?id=7"}[i%3], 200+i%2*104)
	}
	log.WriteString("\nno access log\x1b[31m\n" + strings.Repeat("x", 2000) + "\n")
	s.write("logs/a.log", log.String())
	s.write("agent.yaml", open+`inputs: [{paths: ["${DIR}/logs/*.log"], name: web, table: T, mapping: m, parse: combined, max_record_size: 1500,
		drop: [{name: health_checks, member: path, match: '^/health'}, {member: status, above: 499}], sample: {rate: 0.5}}]`)
	out, _ := s.show(0, "preview", "web", "--before-after", "--records", "2", "--config", s.path("agent.yaml"))
	wantFile(t, "beforeafter.txt", out+"\n")
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line of %d: %s", n, line)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("it steers the terminal")
	}

	var doc struct {
		Records []struct {
			Offset, Length int
			Before         string
			After, LeftOut []string
			Unchanged      bool
			Quarantined    *struct{ Reason, Message string }
		}
		Counts struct {
			Read, Sent, Unparsed  int
			Filtered, Quarantined map[string]int
		}
	}
	text, _ := s.show(0, "preview", "web", "--before-after", "--json", "--records", "1", "--config", s.path("agent.yaml"))
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	n := doc.Counts
	if first := doc.Records[0]; first.Offset != 0 || !strings.HasPrefix(first.Before, "203.0.113.7 - - [") || len(first.After)+len(first.LeftOut) > 1 {
		t.Errorf("the first record is %+v", first)
	}
	if last := doc.Records[len(doc.Records)-1]; last.Quarantined == nil || last.Quarantined.Reason != "too_long" {
		t.Errorf("the last record is %+v", last)
	}

	s.once(s.read("agent.yaml"), 1) // one record is in quarantine
	if got := s.server.RowCount("Logs", "T"); got != n.Sent || n.Sent == 0 {
		t.Errorf("%d rows were sent, and %d were to be", got, n.Sent)
	}

	s.write("other.log", "a\nb\nx\n")
	s.write("agent.yaml", open+`inputs: [{paths: ["${DIR}/none/*.txt"], table: T, drop: [{match: ^x}]}]`)
	out, _ = s.show(0, "preview", "T", "--before-after", "--file", s.path("other.log"), "--config", s.path("agent.yaml"))
	if !strings.Contains(out, "at 0: sent as it is\n  = a\n") || !strings.Contains(out, "at 4: left out by drop_1\n  - x\n") {
		t.Errorf("it shows\n%s", out)
	}
	if n.Read != 33 || n.Filtered["health_checks"] != 10 || n.Filtered["drop_2"] != 0 || n.Filtered["blank"] != 1 || n.Quarantined["too_long"] != 1 {
		t.Errorf("it counts %+v", n)
	}
	s.write("other.log", "{\"user\":\"ada@example.com\",\"n\":1}\n{\"n\":2}\n")
	s.write("agent.yaml", open+`inputs: [{paths: ["${DIR}/none/*.json"], table: T, mapping: m, redact: [{name: mails, preset: [email], with: '***'}]}]`)
	out, _ = s.show(0, "preview", "T", "--before-after", "--file", s.path("other.log"), "--config", s.path("agent.yaml"))
	for _, want := range []string{"at 0: sent, changed by mails\n  - {\"user\":\"ada@example.com\",\"n\":1}\n  + {\"user\":\"***\",\"n\":1}\n", "        1  50.0%    changed by mails"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	_, words := s.show(1, "preview", "T", "--before-after", "--config", s.path("agent.yaml"))
	if !strings.Contains(words, "name a sample with --file") {
		t.Errorf("it says %s", words)
	}
	s.show(64, "preview", "T", "--file", s.path("other.log"), "--config", s.path("agent.yaml"))
	f := func(file, says string) {
		t.Helper()
		_, words := s.show(64, "preview", "T", "--before-after", "--file", s.path(file), "--config", s.path("agent.yaml"))
		if !strings.Contains(words, says) || !strings.Contains(words, "with --file") || strings.Contains(words, "--dir") {
			t.Errorf("--file %s: %s", file, words)
		}
	}
	f("nofile", "no such file")
	f("logs", "is a folder")
}
