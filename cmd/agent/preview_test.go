package main

import (
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
