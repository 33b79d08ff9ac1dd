package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/exit"
)

// everyFormat reads files of seven formats into two databases of one cluster
// and one of another.
const everyFormat = head + `
auth:
  method: client_secret
  authority: ${URL}
  tenant: contoso.onmicrosoft.com
  client_id: agent
  client_secret_file: ${DIR}/secret
clusters:
  dr:
    url: ${DR}
    database: Backup
    auth: {method: token_file, token_file: "${DIR}/token"}
inputs:
  - {paths: ["${DIR}/logs/**/*.json"], exclude: ["*.skip.json", "${DIR}/logs/old/**"], table: App, mapping: App_json}
  - {paths: ["${DIR}/logs/*.csv"], table: Sales, database: Shop, header: skip}
  - {paths: ["${DIR}/logs/*.tsv"], table: Tabs}
  - {paths: ["${DIR}/logs/*.scsv"], table: Semicolons, format: scsv}
  - {paths: ["${DIR}/logs/*.soh"], table: Controls, format: SOHsv}
  - {paths: "${DIR}/logs/*.psv", table: Pipes}
  - {name: text, paths: ["${DIR}/logs/*.log"], table: Text, mapping: Text_txt, compression: none}
  - {name: copy, paths: ["${DIR}/logs/*.log"], table: Text, cluster: dr}
`

func TestOnceShipsEveryFormat(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{TokenSecret: "zq-secret-one"})
	dr, drURL := s.endpoint(emulator.Options{TokenSecret: "zq-secret-two"})
	s.env = []string{"DR=" + drURL}
	s.write("secret", "zq-secret-one\n")
	s.write("token", s.token(drURL, "zq-secret-two"))

	app := jsonRecords(0, 3000)
	s.write("logs/app.json", joined(app[:1000]))
	s.write("logs/host-1/app.json", joined(app[1000:2000]))
	s.write("logs/host-2/deep/er/app.json", strings.TrimSuffix(joined(app[2000:]), "\n"))
	s.write("logs/app.skip.json", `{"not":"sent"}`+"\n")
	s.write("logs/old/app.json", `{"not":"sent"}`+"\n")
	sales := []string{`1,"two ` + "\n" + ` lines, a ""quote"" ` + recordMark + `",3`, "4,five,6", `,"",`}
	s.write("logs/sales.csv", "a,b,c\n"+joined(sales))
	fields := func(sep string) []string {
		return []string{strings.Join([]string{"1", recordMark, "3"}, sep), strings.Join([]string{"", "b c", ""}, sep)}
	}
	s.write("logs/a.tsv", joined(fields("\t")))
	s.write("logs/a.scsv", joined(fields(";")))
	s.write("logs/a.soh", joined(fields("\x01")))
	s.write("logs/a.psv", joined(fields("|")))
	text := []string{"plain " + recordMark, `a "quote, and ` + "\ttab", "größer ☃"}
	s.write("logs/a.log", text[0]+"\r\n\n"+joined(text[1:]))

	check := func() {
		t.Helper()
		s.wantRows("App", app)
		wantRows(t, s.server, "Shop", "Sales", sales)
		s.wantRows("Tabs", fields("\t"))
		s.wantRows("Semicolons", fields(";"))
		s.wantRows("Controls", fields("\x01"))
		s.wantRows("Pipes", fields("|"))
		s.wantRows("Text", text)
		wantRows(t, dr, "Backup", "Text", text)
		s.wantUniqueRequests()
	}
	s.once(everyFormat, 0)
	check()
	if n := s.server.TokenCalls(); n != 1 {
		t.Errorf("%d tokens were asked for, want 1", n)
	}
	for _, r := range s.server.Requests() { // in the documented spelling, whatever the configuration has
		name := map[string]string{"App": "JSON", "Sales": "CSV", "Tabs": "TSV", "Semicolons": "SCsv", "Controls": "SOHsv", "Pipes": "PSV", "Text": "TXT"}[r.Table]
		if query, err := url.ParseQuery(r.Query); err != nil || query.Get("streamFormat") != name {
			t.Errorf("table %s: %s", r.Table, r.Query)
		}
	}

	before := s.server.Totals().Requests + dr.Totals().Requests
	s.once(everyFormat, 0)
	if after := s.server.Totals().Requests + dr.Totals().Requests; after != before {
		t.Errorf("a second run made %d requests", after-before)
	}

	s.append("logs/a.log", "one more\n")
	text = append(text, "one more")
	s.once(everyFormat, 0)
	check()
}

// token asks an endpoint for a token, as something beside the agent would.
func (s *site) token(endpoint, secret string) string {
	s.t.Helper()
	resp, err := client.PostForm(endpoint+"/tenant/oauth2/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"agent"}, "client_secret": {secret}, "resource": {endpoint},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatal(resp.Status, err)
	}
	s.secrets = append(s.secrets, answer.Token)
	return answer.Token
}

// TestBooksAtTheEndOfOnce stops a run --once in its last request, when all is
// read, and looks into the books.
func TestBooksAtTheEndOfOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.csv", "h1,h2\n1,2\n\n3,4\n5\"6,7\n8,9\n")
	hold := s.server.Fail(emulator.Fault{Hang: true})
	p := s.run(open+`inputs: [{paths: ["${DIR}/logs/*.csv"], table: T, header: skip}]`, "--once")
	s.awaitHits(hold, 1)
	p.wantBooks("T", account{read: 6, filtered: 2, quarantined: 1, pending: 3})
	hold.Remove()
	p.want(1)
	s.wantRows("T", []string{"1,2", "3,4", "8,9"})
}

const oneText = `inputs: [{paths: ["${DIR}/logs/*.log"], table: Text}]
`

// impatient gives up soon on what is out of reach.
const impatient = "send: {retry: {initial: 20ms, max: 100ms, patience: 300ms}}\n"

func TestExitCodes(t *testing.T) {
	t.Parallel()
	f := func(name string, want int, o emulator.Options, config string, prepare func(*site)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, o)
			s.write("logs/a.log", "one "+recordMark+"\ntwo\n")
			if prepare != nil {
				prepare(s)
			}
			s.once(config, want)
			if want == exit.Unreachable || want == exit.Refused {
				// What was not accepted is still there for the next run.
				before := s.server.RowCount("Logs", "Text")
				s.server.Recover()
				if err := s.server.SetSchema(nil); err != nil {
					t.Fatal(err)
				}
				if before != 0 {
					t.Errorf("%d rows were stored", before)
				}
			}
		})
	}
	secret := head + "auth: {method: client_secret, authority: \"${URL}\", tenant: t, client_id: agent, client_secret: \"${SECRET}\"}\n"
	env := func(s *site) { s.env, s.secrets = []string{"SECRET=zq-wrong"}, append(s.secrets, "zq-wrong") }
	f("all accepted", 0, emulator.Options{}, open+oneText, nil)
	f("no file", 0, emulator.Options{}, open+`inputs: [{paths: ["${DIR}/none/*.log"], table: Text}]`, nil)
	f("malformed here", 1, emulator.Options{}, open+`inputs: [{paths: ["${DIR}/logs/*.log"], table: T, format: json, mapping: m}]`, nil)
	f("refused there", 1, emulator.Options{}, open+oneText, func(s *site) {
		s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "two"}, Status: 400})
	})
	f("closed", exit.Unreachable, emulator.Options{}, strings.ReplaceAll(open, "${URL}", "${DEAD}")+impatient+oneText, func(s *site) {
		s.env = []string{"DEAD=" + s.deadURL()}
	})
	f("failing", exit.Unreachable, emulator.Options{}, open+impatient+oneText, func(s *site) {
		s.server.Fail(emulator.Fault{Status: 503})
	})
	f("no table", exit.Unreachable, emulator.Options{Schema: schemaOf(t, `{"databases":{"Logs":{}}}`)}, open+impatient+oneText, nil)
	f("wrong secret", exit.Refused, emulator.Options{TokenSecret: "zq-right"}, secret+impatient+oneText, env)
	f("no role", exit.Refused, emulator.Options{
		TokenSecret: "zq-wrong",
		Schema:      schemaOf(t, `{"databases":{"Logs":{"ingestors":["another"],"tables":{"Text":{}}}}}`),
	}, secret+impatient+oneText, env)
	f("token refused", exit.Refused, emulator.Options{TokenSecret: "zq-right"}, head+`auth: {method: token_file, token_file: "${DIR}/token"}`+"\n"+impatient+oneText, func(s *site) {
		s.write("token", "zq-stale-token")
		s.secrets = append(s.secrets, "zq-stale-token")
	})
	f("authority closed", exit.Unreachable, emulator.Options{TokenSecret: "zq-wrong"}, strings.ReplaceAll(secret, `authority: "${URL}"`, `authority: "${DEAD}"`)+impatient+oneText, func(s *site) {
		env(s)
		s.env = append(s.env, "DEAD="+s.deadURL())
	})
	f("refused goes before down and quarantine", exit.Refused, emulator.Options{TokenSecret: "zq-wrong", Schema: schemaOf(t,
		`{"databases":{"Logs":{"tables":{"Text":{"ingestors":["another"]},"Bad":{}}}}}`)},
		secret+impatient+`
inputs:
  - {paths: ["${DIR}/logs/*.log"], table: Text}
  - {paths: ["${DIR}/logs/*.log"], table: None}
  - {paths: ["${DIR}/logs/*.log"], table: Bad, format: CSV, name: bad}
`, func(s *site) {
			env(s)
			s.append("logs/a.log", "br\"oken\n")
		})
}

// TestOnceTellsOfWhatIsNotSent: a run --once does not end as if all was accepted while payloads of an
// earlier run wait for a cluster that no input sends to, nor if it dropped them.
func TestOnceTellsOfWhatIsNotSent(t *testing.T) {
	t.Parallel()
	f := func(name, config, again, says string, after int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.write("logs/a.log", "one\ntwo\n")
			s.env = []string{"DEAD=" + s.deadURL()}
			s.once(config, exit.Unreachable)
			p := s.once(again, 1)
			if !strings.Contains(p.log.text(), says) {
				t.Errorf("it says\n%s", p.log.text())
			}
			s.once(again, after)
		})
	}
	dead := strings.ReplaceAll(open, "${URL}", "${DEAD}") + impatient
	f("another cluster", dead+oneText, open+impatient+oneText, "no input sends to: 1", 1)
	f("too old", dead+oneText, dead+"spool: {max_age: 1ms}\n"+oneText, "dropped before the service accepted them: 2", 0)
}

func schemaOf(t *testing.T, text string) *emulator.Schema {
	t.Helper()
	s, err := emulator.LoadSchema(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUsage(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	f := func(want int, says string, args ...string) {
		t.Helper()
		p := s.launch(args...).want(want)
		if said := p.log.text() + p.out.text(); !strings.Contains(said, says) {
			t.Errorf("%v says %q, want %q in it", args, said, says)
		}
	}
	f(64, "frobnicate", "frobnicate")
	f(64, "--bogus", "run", "--bogus")
	f(64, "--onc", "run", "--onc")
	f(64, "extra", "run", "extra")
	f(64, `--for "xyz": want a duration such as 500ms, 30s, 1h30m or 7d`, "demo", "--for", "xyz")
	f(64, "a unit is missing", "audit", "--settled", "30")
	for _, command := range []string{"demo --for", "setup --wait", "top --interval", "audit --settled", "query T --timeout"} {
		f(64, `"-1s": negative; want a duration`, append(strings.Fields(command), "-1s")...)
	}
	f(64, "top needs a terminal", "top", "--interval", "1d")
	f(64, "--timeout 1d: want at most 1h", "query", "T", "--timeout", "1d")
	f(78, "nothing.yaml", "setup", "--wait", "1d12h", "--config", s.path("nothing.yaml"))
	f(64, "schema", "emulator", "--schema", s.path("schema"))
	f(64, "--tls-ca goes with --tls", "emulator", "--tls-ca", s.path("ca"))
	f(1, "name a file in a folder that exists", "emulator", "--listen", "127.0.0.1:0", "--tls", "--tls-ca", s.path("none/ca"))
	f(64, "bogus", "completion", "bogus")
	f(64, "say which: bash", "completion")
	f(0, "kusto-agent", "version")
	f(0, runtime.GOOS+"/"+runtime.GOARCH, "version")
	f(0, `{"version":"`, "version", "--json")
	flag, command := s.launch("--version").want(0), s.launch("version").want(0)
	if flag.out.text() != command.out.text() || strings.TrimSpace(flag.log.text()) != "" {
		t.Errorf("--version prints %q and says %q, version prints %q", flag.out.text(), flag.log.text(), command.out.text())
	}
	f(0, "run", "help")
	f(0, "--once", "run", "--help")
	f(0, "Usage", "--help")
	f(78, "agent.yaml", "run", "--config", s.path("agent.yaml"))
	f(69, "is it running", "status", "--address", strings.TrimPrefix(s.deadURL(), "http://"))
}

// TestBadConfig: every mistake is told at once, with its place, and nothing is
// touched.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{TokenSecret: "zq-in-the-config"})
	s.env = []string{"SECRET=zq-in-the-config"}
	p := s.once(s.mustRead("bad.yaml"), exit.Config)
	wantFile(t, "bad.txt", strings.ReplaceAll(p.log.text(), s.dir, "DIR"))
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
		t.Errorf("made %v, %v", entries, err)
	}
	if out := p.out.text(); out != "\n" {
		t.Errorf("stdout: %q", out)
	}
}

// mustRead reads a file of testdata.
func (s *site) mustRead(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// TestSecondAgentOnStateDir: the second ends and names the first, which goes on.
func TestSecondAgentOnStateDir(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	first := s.run(open + oneText)
	s.awaitRows("Text", 1)
	for _, flags := range [][]string{nil, {"--once"}} {
		second := s.run(open+oneText, flags...).want(exit.Failed)
		want := fmt.Sprintf("state_dir %q is in use by another agent (pid %d); stop that one, or give this one a state_dir of its own\n",
			s.path("state"), first.cmd.Process.Pid)
		second.await(1, "folder is in use by another process, waiting a moment for it")
		if !strings.HasSuffix(second.log.text(), "\n"+want) || second.out.text() != "\n" {
			t.Errorf("says %q, want %q", second.log.text(), want)
		}
	}
	s.agent = first
	s.append("logs/a.log", "two\n")
	s.awaitRows("Text", 2)
	first.await(1, "agent is running")
	first.wantComplaints()
	first.kill()
	if _, err := durable.OS.Lock(s.path("state")); err != nil {
		t.Errorf("the lock outlives a kill: %v", err)
	}
	s.wantRows("Text", []string{"one", "two"})
}

// TestStateDirOfAnother: a state_dir that may not be used is told with what to
// do, and left as it is.
func TestStateDirOfAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.refusable()
	s.write("logs/a.log", "one\n")
	s.write("closed/LOCK", "")
	s.write("file", "")
	if err := os.Chmod(s.path("closed"), 0); err != nil {
		t.Fatal(err)
	}
	f := func(code int, dir, says string) {
		t.Helper()
		p := s.once(strings.Replace(open, "${DIR}/state", "${DIR}/"+dir, 1)+oneText, code)
		said := strings.ReplaceAll(p.log.text(), s.dir, "DIR")
		if said != says+"\n\n" && said != says+"\n" {
			t.Errorf("says %q, want %q", said, says)
		}
	}
	f(exit.Failed, "closed", `lock state_dir "DIR/closed": open DIR/closed: permission denied; run as the user it belongs to, or set another state_dir`)
	f(exit.Config, "file", "make state_dir: mkdir DIR/file: not a directory; set state_dir to a folder, or remove the file that is in its place")
	f(exit.Config, "file/state", "make state_dir: mkdir DIR/file: not a directory; set state_dir to a folder, or remove the file that is in its place")
	p := s.once(open+oneText+"spool: {dir: \"${DIR}/file\"}\n", exit.Config)
	if said := p.log.text(); !strings.Contains(said, "not a directory; set spool.dir to a folder, or remove the file that is in its place\n") {
		t.Errorf("says %q", said)
	}
	s.wantRows("Text", nil)
	s.once(open+oneText, 0)
	s.wantRows("Text", []string{"one"})
}

func TestExampleConfigurationIsSound(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	example, err := os.ReadFile("../../agent.yaml.example")
	if err != nil {
		t.Fatal(err)
	}
	// Sound but for one key: the run ends before it reads or sends.
	p := s.once(string(example)+"\nno_such_key: true\n", exit.Config)
	if n := strings.Count(p.log.text(), "agent.yaml:"); n != 1 || !strings.Contains(p.log.text(), "no_such_key") {
		t.Errorf("says\n%s", p.log.text())
	}
}

// TestSecondAgentOnSpool: an agent with a state_dir of its own and the spool of
// another one ends before it writes there, and that one goes on.
func TestSecondAgentOnSpool(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	shared := open + oneText + "spool: {dir: \"${DIR}/shared\"}\n"
	first := s.run(shared)
	s.awaitRows("Text", 1)
	second := s.run(strings.Replace(shared, "/state", "/other", 1), "--once").want(exit.Config)
	if !strings.Contains(second.log.text(), "in use by another agent") || !strings.Contains(second.log.text(), "spool.dir of its own") {
		t.Errorf("says %q", second.log.text())
	}
	s.agent = first
	s.append("logs/a.log", "two\n")
	s.awaitRows("Text", 2)
	first.kill()
}
