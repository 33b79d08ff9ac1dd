package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

// TestDemo: the whole journey on this machine ends with what was written being
// what is stored.
func TestDemo(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.env = []string{"TMPDIR=" + s.dir}
	p := s.launch("demo", "--for", "2s").want(0)
	said := p.out.text()
	if !strings.Contains(said, "written = stored in every table") {
		t.Errorf("says\n%s", said)
	}
	if !strings.Contains(said, "audit     OK: nothing is missing of what was read since ") {
		t.Errorf("its audit says\n%s", said)
	}
	rows := regexp.MustCompile(`(?m)^(Orders|Metrics|Access) +(\d+) +(\d+) +0 +0$`).FindAllStringSubmatch(said, -1)
	if len(rows) != 3 {
		t.Fatalf("says\n%s", said)
	}
	for _, row := range rows {
		if row[2] != row[3] || row[2] == "0" {
			t.Errorf("%s: written %s, stored %s", row[1], row[2], row[3])
		}
		kept, err := filepath.Glob(s.path("kusto-agent-demo-*/rows/" + row[1] + ".jsonl"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("rows of %s: %v %v", row[1], kept, err)
		}
		text, err := os.ReadFile(kept[0])
		if n := strings.Count(string(text), "\n"); err != nil || n == 0 {
			t.Errorf("%s holds %d rows, %v", kept[0], n, err)
		}
	}
}

// TestEmulatorStrict: a table that no command made is unknown, unless everything exists.
func TestEmulatorStrict(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	f := func(flags []string, status int) {
		t.Helper()
		p := s.launch(append([]string{"emulator", "--listen", "127.0.0.1:0"}, flags...)...)
		url := p.await(1, "emulator listening").text("url")
		resp, err := client.Post(url+"/v1/rest/ingest/Logs/Acess?streamFormat=TXT", "text/plain", strings.NewReader("one"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%q answers %d %s", flags, resp.StatusCode, bodyOf(t, resp))
		}
		p.signal(syscall.SIGTERM)
		p.want(0)
	}
	f(nil, 400)
	f([]string{"--open"}, 200)
	s.show(64, "emulator", "--open", "--schema", "x")
}

// TestEmulatorCommand ships to an emulator in a process of its own.
func TestEmulatorCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("schema", `{"databases":{"Logs":{"tables":{"Text":{}}}}}`)
	s.secrets = append(s.secrets, "zq-given-on-the-command-line")
	p := s.launch("emulator", "--listen", "127.0.0.1:0", "--schema", s.path("schema"), "--token-secret", "zq-given-on-the-command-line")
	url := p.await(1, "emulator listening").text("url")
	s.env = []string{"URL=" + url, "SECRET=zq-given-on-the-command-line"}
	s.write("logs/a.log", "one\ntwo\n")
	s.once(head+"auth: {authority: \"${URL}\", tenant: t, client_id: agent, client_secret: \"${SECRET}\"}\n"+oneText, 0)
	resp, err := client.Get(url + "/rows?db=Logs&table=Text&format=text")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := bodyOf(t, resp); got != "one\ntwo\n" {
		t.Errorf("rows %q", got)
	}
	p.signal(syscall.SIGTERM)
	p.want(0)
	if out := p.out.text(); !strings.Contains(out, url+"/rows?db=DATABASE&table=TABLE") {
		t.Errorf("says %q", out)
	}
}
