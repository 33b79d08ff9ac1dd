package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// canaries are secrets that rules redact, each in its way.
var canaries = []string{"canary.one@secrets.example.org", "203.0.113.77", "tok-CANARY.77==", "4111 1111 1111 1111", "hunter-canary", "Canary Name"}

const redacting = `batch: {max_size: 64KiB, max_wait: 20ms}
inputs:
  - {name: j, paths: ["${DIR}/logs/*.json"], table: J, mapping: m, max_record_size: 4KiB, redact_key_file: "${DIR}/key",
     redact: [{name: who, member: user.email, with: hash}, {preset: [email, ipv4, bearer, card], with: '***'}, {match: 'password=\S+', with: 'password=***'}], remove: [user.name]}
  - {name: t, paths: ["${DIR}/logs/*.log"], format: TXT, table: X, max_record_size: 4KiB, redact: &R}
  - {name: c, paths: ["${DIR}/logs/*.csv"], table: C, redact: &R}
  - {name: p, paths: ["${DIR}/logs/*.kv"], parse: logfmt, table: P, mapping: m, redact: [{member: who, with: '***'}, {preset: [email, ipv4, bearer, card], with: '***'}, {match: 'password=\S+', with: 'password=***'}], remove: [password]}
`

// redactText is what the inputs of text have in the place of &R.
const redactText = `[{preset: [email, ipv4, bearer, card], with: '***'}, {match: 'password=\S+', with: 'password=***'}, {match: 'Canary Name', with: '***'}]`

// redactable are the contents of files whose records hold canaries, by the end of their
// names. Some are refused by the service, some are not sound, and some are too long.
func redactable(first, n int) map[string]string {
	all := map[string]*strings.Builder{"json": {}, "log": {}, "csv": {}, "kv": {}}
	for i := first; i < first+n; i++ {
		note := fmt.Sprintf("%d from %s at %s with Bearer %s, card %s, password=%s", i, canaries[0], canaries[1], canaries[2], canaries[3], canaries[4])
		if i%10 == 3 {
			note += " wont-do"
		}
		fill := strings.Repeat("x", i%50)
		fmt.Fprintf(all["json"], `{"seq":%d,"user":{"email":"%s","name":"%s"},"note":"%s %s","esc":"canary.one\u0040secrets.example.org","n":4111111111111111}`+"\n", i, canaries[0], canaries[5], note, fill)
		fmt.Fprintf(all["log"], "%s %s %s\r\n", note, canaries[5], fill)
		fmt.Fprintf(all["csv"], "%d,\"%s\n%s\",%s\n", i, note, canaries[5], fill)
		fmt.Fprintf(all["kv"], `seq=%d who="%s" password=%s note="%s"`+"\n", i, canaries[5], canaries[4], note)
		if i%20 == 7 {
			fmt.Fprintf(all["json"], "{\"seq\":%d,\"note\":\"%s\n", i, note)
			fmt.Fprintf(all["json"], "{\"note\":\"%s %s\"}\n", note, strings.Repeat("y", 5000))
			fmt.Fprintf(all["log"], "%s %s\n", note, strings.Repeat("y", 5000))
			fmt.Fprintf(all["kv"], "\"%s %s\n", note, canaries[5])
		}
	}
	texts := map[string]string{}
	for end, b := range all {
		texts[end] = b.String()
	}
	return texts
}

// wantNoCanary looks for canaries in bytes, in what gzip streams of these hold, and in
// their other spellings.
func wantNoCanary(t *testing.T, where string, b []byte) {
	t.Helper()
	look := func(how string, text []byte) {
		for _, c := range append(canaries, "4111111111111111", "CANARY", "canary.one") {
			for _, form := range []string{c, base64.StdEncoding.EncodeToString([]byte(c))[:len(c)/3*4]} {
				if bytes.Contains(text, []byte(form)) {
					t.Errorf("%s%s holds %q", where, how, c)
				}
			}
		}
	}
	look("", b)
	for at := 0; ; at++ {
		n := bytes.Index(b[at:], []byte("\x1f\x8b\x08"))
		if n < 0 {
			return
		}
		at += n
		if z, err := gzip.NewReader(bytes.NewReader(b[at:])); err == nil {
			z.Multistream(false)
			text, _ := io.ReadAll(z) // as far as it goes
			look(", unzipped,", text)
		}
	}
}

// wantNoCanaryInState looks at every file of the agent. It returns how many there are.
func (s *site) wantNoCanaryInState() (files int) {
	s.t.Helper()
	s.must(filepath.WalkDir(s.path("state"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it is gone by now, or no file
		}
		b, err := os.ReadFile(path)
		if err == nil {
			files++
			wantNoCanary(s.t, path, b)
		}
		return nil
	}))
	return files
}

// TestNoSecretGetsOut: what rules redact is in nothing that the agent writes, sends or
// shows, whatever becomes of the record: sent, refused, not sound, too long, in the
// spool, killed and made again.
func TestNoSecretGetsOut(t *testing.T) {
	t.Parallel()
	const each = 200
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	s.secrets = append(s.secrets, canaries...)
	s.write("key", "sixteen bytes or more\n")
	s.must(os.Chmod(s.path("key"), 0o600))
	config := open + hasty + strings.ReplaceAll(redacting, "&R", redactText)
	write := func(name string, first int) {
		for end, text := range redactable(first, each) {
			s.write("logs/"+name+"."+end, text)
		}
	}
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	slow := s.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 5_000_000})
	write("a", 0)
	p := s.run(config)
	s.awaitRows("J", each/4)
	p.kill()
	s.wantNoCanaryInState()
	slow.Remove()

	p = s.run(config)
	p.await(1, "agent is running")
	tap := s.tap("j", "t", "c", "p")
	write("b", each)
	tap.awaitLines(each)
	for _, input := range []string{"j", "t", "c", "p"} {
		p.awaitBooks(input, func(a account) bool { return p.allRead() && a.pending == 0 })
	}
	away := s.server.Fail(emulator.Fault{Status: 503})
	write("c", 2*each)
	p.awaitBooks("j", func(a account) bool { return a.spooled > each/2 })
	p.kill()
	if s.wantNoCanaryInState() == 0 || len(s.spooled()) == 0 {
		t.Error("the agent has written nothing")
	}
	away.Remove()

	p = s.run(config)
	for table, n := range map[string]int{"J": 540, "X": 540, "C": 540, "P": 570} {
		s.awaitRows(table, n)
	}
	for _, input := range []string{"j", "t", "c", "p"} {
		p.awaitBooks(input, func(a account) bool { return p.allRead() && a.pending+a.spooled == 0 })
	}
	for _, path := range []string{"/", "/metrics", "/status.json", "/status"} {
		_, text, _ := p.get(path)
		wantNoCanary(t, path, []byte(text))
	}
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"files"}} {
		out := s.launch(append(args, "--state-dir", s.path("state"))...)
		out.code()
	}
	p.stop()
	s.wantNoCanaryInState()

	rows := 0
	for _, table := range []string{"J", "X", "C", "P"} {
		for row := range s.server.All("Logs", table, 0) {
			rows++
			wantNoCanary(t, "a row of "+table, row.Raw)
		}
	}
	if rows == 0 {
		t.Error("nothing was stored")
	}
	withheld, sent := 0, 0
	for _, e := range s.quarantined() {
		if e["redacted"] != true {
			t.Errorf("not marked: %v", e)
		}
		switch data, _ := e["data"].(string); {
		case data == "" && strings.Contains(e["message"].(string), "withheld"):
			withheld++
		case strings.Contains(data, "wont-do") && strings.Contains(data, "***"):
			sent++
		default:
			t.Errorf("in quarantine: %v", e)
		}
	}
	if withheld < 2*3*each/20 || sent < 3*3*each/10 {
		t.Errorf("in quarantine %d records without their bytes, %d as they were sent", withheld, sent)
	}
	if out, _ := s.show(0, "quarantine", "ls", "--config", s.path("agent.yaml")); strings.Count(out, "(redacted) ") != withheld+sent {
		t.Errorf("%d marked of %d:\n%.2000s", strings.Count(out, "(redacted) "), withheld+sent, out)
	}
	for _, one := range s.processes { // the log, and what was printed
		wantNoCanary(t, fmt.Sprint(one.cmd.Args[1:]), []byte(one.log.text()+one.out.text()))
	}
	for _, r := range s.server.Requests() {
		wantNoCanary(t, "a request", []byte(fmt.Sprint(r)))
	}
}
