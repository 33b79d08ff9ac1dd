package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

// TestDemo: the whole journey on this machine ends with what was written being what is
// stored, through an outage and beside a record that is refused, and leaves nothing.
func TestDemo(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.env = []string{"TMPDIR=" + s.dir}
	p := s.launch("demo", "--for", "1s").want(0)
	said := p.out.text()
	for _, want := range []string{
		"  the service fails: it answers 503 to every request\n", "  the service is back\n",
		"\nrefused     1 order: \"the service refuses this order\" (BadRequest_InvalidJson). It is in quarantine, as byte ",
		"\naudit       OK: nothing is missing of what was read since ", "\nwritten = stored in every table\n", "\nnext: kusto-agent init ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if m := regexp.MustCompile(`(?m)^outage +[0-9.]+ s, in which [1-9]\d* rows were written; up to [1-9]\d* records were in the spool$`); !m.MatchString(said) {
		t.Errorf("of the outage it says\n%s", said)
	}
	rows := regexp.MustCompile(`(?m)^(Orders|Metrics|Access) +(\d+) +(\d+) +0 +0$`).FindAllStringSubmatch(said, -1)
	if len(rows) != 3 {
		t.Fatalf("says\n%s", said)
	}
	for _, row := range rows {
		if row[2] != row[3] || row[2] == "0" {
			t.Errorf("%s: written %s, stored %s", row[1], row[2], row[3])
		}
	}
	if left, err := filepath.Glob(s.path("kusto-agent-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// TestDemoKept: while the demo is kept, its pages answer.
func TestDemoKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.env = []string{"TMPDIR=" + s.dir}
	p := s.launch("demo", "--for", "100ms", "--keep")
	for {
		_, more := p.out.seen()
		if strings.Contains(p.out.text(), "run until Ctrl-C") {
			break
		}
		select {
		case <-more:
		case <-p.ended:
			t.Fatalf("it ends and says\n%s%s", p.out.text(), p.log.text())
		}
	}
	for what, says := range map[string]string{"status page": "quarantine", "endpoint": "Orders"} {
		m := regexp.MustCompile(`(?m)^` + what + ` +(http://127\.0\.0\.1:\d+/)`).FindStringSubmatch(p.out.text())
		if m == nil {
			t.Fatalf("no %s in\n%s", what, p.out.text())
		}
		resp, err := client.Get(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if text := bodyOf(t, resp); resp.StatusCode != 200 || !strings.Contains(text, says) {
			t.Errorf("%s answers %d %s", what, resp.StatusCode, text)
		}
		resp.Body.Close()
	}
	p.signal(syscall.SIGINT)
	p.want(0)
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
