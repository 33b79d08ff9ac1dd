package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/check"
	"kusto-agent/internal/exit"
)

// checks is one run of check --json, by id.
func (s *site) checks(code int, args ...string) []check.Finding {
	s.t.Helper()
	out, words := s.show(code, append([]string{"check", "--json", "--config", s.path("agent.yaml")}, args...)...)
	var doc struct{ Findings []check.Finding }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		s.t.Fatalf("%v: %s\n%s", err, out, words)
	}
	for _, f := range doc.Findings {
		if f.Severity != check.OK && f.Fix == "" && f.ID != "files.own" {
			s.t.Errorf("nothing to do about %+v", f)
		}
	}
	return doc.Findings
}

// finds fails unless there is a finding with an id and a severity, whose words and
// fix hold all that is wanted.
func (s *site) finds(all []check.Finding, id string, severity check.Severity, want ...string) {
	s.t.Helper()
	var text string
next:
	for _, f := range all {
		if f.ID != id || f.Severity != severity {
			continue
		}
		text = f.Input + ": " + f.Where + ": " + f.What + "\n" + f.Fix
		for _, w := range want {
			if !strings.Contains(text, w) {
				continue next
			}
		}
		return
	}
	s.t.Errorf("no %s %s with %q; the last of them is %q; all are %+v", severity, id, want, text, all)
}

// findsNone checks that there is no finding with an id.
func (s *site) findsNone(all []check.Finding, id string) {
	s.t.Helper()
	for _, f := range all {
		if f.ID == id {
			s.t.Errorf("found %+v", f)
		}
	}
}

// checkSite is an endpoint with a schema, and a configuration for table T.
func checkSite(t *testing.T, schema string, o emulator.Options) *site {
	t.Helper()
	var err error
	if o.Schema, err = emulator.LoadSchema(strings.NewReader(schema)); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, o)
	s.write("agent.yaml", open+oneJSON)
	return s
}

// inLogs is a schema with tables of the database Logs.
func inLogs(tables string) string { return `{"databases": {"Logs": {"tables": {` + tables + `}}}}` }

const soundTable = `"T": {"columns": "n:long, s:string", "mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "n", "path": "$.n"}, {"column": "s", "path": "$.s"}]}]}`

// TestCheckWell: where all is well it says so, changes nothing and stores nothing.
func TestCheckWell(t *testing.T) {
	t.Parallel()
	s := checkSite(t, inLogs(soundTable), emulator.Options{})
	s.write("agent.yaml", open+"spool: {max_size: 64MiB}\n"+oneJSON) // there is room for that on any disk
	s.write("logs/a.json", "{\"n\":1,\"s\":\"x\"}\n")
	out, _ := s.show(0, "check", "--config", s.path("agent.yaml"))
	for _, want := range []string{
		"1 input, 1 cluster", "1 file, 16 B, readable", "state_dir is not there yet", "answers from 127.0.0.1", "no token is asked for",
		"T: Logs.T: the table has 2 columns", "mapping m of kind Json fills 2 columns", "streaming ingestion is allowed", "anybody may ingest",
		"the mapping takes everything of 1 record sampled", " 0 errors, 0 warnings, 16 ok",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.TrimSpace(want)) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if len([]rune(line)) > 81 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("a line of %d: %s", len(line), line)
		}
	}
	if n := s.server.RowCount("Logs", "T"); n != 0 {
		t.Errorf("%d rows were stored", n)
	}
	if _, err := os.Stat(s.path("state")); err == nil {
		t.Error("something was written to state_dir")
	}
	asked := len(s.server.Requests())
	for _, f := range s.checks(0, "--offline") {
		if strings.HasPrefix(f.ID, "network") || f.ID == "table" {
			t.Errorf("offline it tells %+v", f)
		}
	}
	if len(s.server.Requests()) != asked {
		t.Error("offline a request was made")
	}
}

// TestCheckConfig: every mistake is a finding, with its place.
func TestCheckConfig(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("agent.yaml", open+"inputs:\n  - paths: [x.json]\n    tabel: T\n")
	all := s.checks(78)
	s.finds(all, "config", check.Error, "agent.yaml:", "tabel")
	s.finds(all, "config", check.Error, "inputs[0].mapping: missing", "needs the name of a mapping of the table of kind Json")
	s.show(78, "check", "--config", s.path("nowhere.yaml"))
}

// TestCheckTables: what is wrong with table, mapping and policy, each with its fix.
func TestCheckTables(t *testing.T) {
	t.Parallel()
	s := checkSite(t, inLogs(soundTable), emulator.Options{})
	s.write("logs/a.json", "{\"n\":1,\"s\":\"x\",\"t\":\"2026-01-01T00:00:00Z\"}\n")
	f := func(schema string, code int, id string, severity check.Severity, want ...string) {
		t.Helper()
		parsed, err := emulator.LoadSchema(strings.NewReader(schema))
		s.must(err)
		s.must(s.server.SetSchema(parsed))
		s.server.ClearSchemaCache()
		s.finds(s.checks(code), id, severity, want...)
	}
	with := func(from, to string) string { return inLogs(strings.Replace(soundTable, from, to, 1)) }
	f(`{"databases": {"Other": {}}}`, 1, "database", check.Error, "there is no database Logs", "Other")
	f(with(`"T"`, `"U"`), 1, "table", check.Error, "there is no table T", "\n.create-merge table ['T'] (['n']:long, ['s']:string, ['t']:datetime)\n.create-or-alter table ['T'] ingestion json mapping \"m\"")
	s.write("none.yaml", strings.Replace(open+oneJSON, "*.json", "*.jsonl", 1))
	s.finds(s.checks(1, "--config", s.path("none.yaml")), "table", check.Error, "there is no table T", "\nkusto-agent setup --input T --config DIR/none.yaml")
	f(with(`"T"`, `"t"`), 1, "table", check.Error, "but one called t", "set table: t")
	f(with(`"m"`, `"M"`), 1, "mapping", check.Error, "but one called M", "set mapping: M")
	f(with(`"m"`, `"x"`), 1, "mapping", check.Error, "there is no mapping m of kind Json", "\n.create-merge table ['T'] (['t']:datetime)\n.create-or-alter table ['T'] ingestion json mapping \"m\" '[{\"column\":\"n\",\"datatype\":\"long\",\"Properties\":{\"Path\":\"$.n\"}}")
	f(inLogs(`"T": {"columns": "n:long", "mappings": [{"name": "m", "kind": "Csv", "columns": [{"column": "n", "ordinal": 0}]}]}`),
		1, "mapping", check.Error, "but one of the same name and kind Csv")
	f(with(`{"columns"`, `{"streaming": false, "columns"`), 1, "policy", check.Error, "BadRequest_StreamingIngestionPolicyNotEnabled", "activity", "\n.alter table ['T'] policy streamingingestion enable")
	f(`{"streaming": false, `+inLogs(soundTable)[1:], 1, "policy", check.Error, "NotFound_StreamingIngestionDisabledForCluster", "activity", "in the portal")
	f(with(`{"columns"`, `{"update": "[{\"IsEnabled\": true, \"Query\": \"T\"}]", "columns"`), 0, "policy.update", check.Warning, "update policies", "set batch: {max_size: 1")
	f(inLogs(soundTable), 0, "ingest", check.OK, "may ingest")
}

// TestCheckPasted: whatever is wrong on the service is told in one run, and the
// commands of its fixes mend it when they are pasted in their order.
func TestCheckPasted(t *testing.T) {
	t.Parallel()
	signedIn := strings.Replace(open, "auth: {method: none}", `auth: {authority: "${URL}", tenant: contoso, client_id: me, client_secret_file: "${DIR}/secret"}`, 1)
	f := func(delay time.Duration, database string, code int, ids ...string) {
		t.Helper()
		s := newSite(t, emulator.Options{TokenSecret: "zq-secret", SchemaDelay: delay, Schema: schemaOf(t, `{"databases": {"Logs": {`+database+`}}}`)})
		s.write("secret", "zq-secret")
		s.write("agent.yaml", signedIn+oneJSON)
		s.write("logs/a.json", `{"n":1,"s":"x","":2,"[br]":3,"q\"q":4,"it's":5}`+"\n")
		var told []string
		for _, found := range s.checks(code) {
			if found.Severity != check.Error {
				continue
			}
			told = append(told, found.ID)
			for _, line := range strings.Split(found.Fix, "\n")[1:] {
				s.show(0, "mgmt", line, "--config", "agent.yaml")
			}
		}
		if !slices.Equal(told, ids) {
			t.Errorf("%s: told %v, want %v", database, told, ids)
		}
		s.checks(0)
	}
	const columns = `"n:long, s:string, _:long, _br_:long, q_q:long, it_s:long"`
	f(deadline*10, `"tables": {}`, 1, "table")
	f(deadline*10, `"streaming": false, "tables": {}`, 1, "table")
	f(deadline*10, `"tables": {"T": {"streaming": false, "columns": `+columns+`}}`, 1, "mapping", "policy")
	f(0, `"ingestors": ["other"], "tables": {"T": {"columns": `+columns+`}}`, 77, "mapping", "ingest")
	f(0, `"ingestors": ["other"], "tables": {"T": {"streaming": false, "columns": `+columns+`}}`, 77, "mapping", "policy", "ingest")
}

// TestCheckStale: what exists and is not known to the streaming nodes yet is told
// as that.
func TestCheckStale(t *testing.T) {
	t.Parallel()
	s := checkSite(t, inLogs(`"U": {}`), emulator.Options{SchemaDelay: deadline * 10})
	parsed, err := emulator.LoadSchema(strings.NewReader(inLogs(soundTable)))
	s.must(err)
	s.must(s.server.SetSchema(parsed))
	s.write("logs/a.json", "{\"n\":1,\"s\":\"x\"}\n")
	s.finds(s.checks(1), "ingest", check.Error, "do not know it yet", "Entity ID 'T'", "\n.clear database cache streamingingestion schema")
}

// TestCheckIdentity: tokens and roles, each told apart.
func TestCheckIdentity(t *testing.T) {
	t.Parallel()
	const secret = "zq-client-secret"
	s := newSite(t, emulator.Options{TokenSecret: secret})
	s.write("secret", secret)
	signedIn := strings.Replace(open, "auth: {method: none}", `auth: {authority: "${URL}", tenant: contoso, client_id: me, client_secret_file: "${DIR}/secret"}`, 1)
	s.write("agent.yaml", signedIn+oneJSON)
	s.write("logs/a.json", "{\"n\":1,\"s\":\"x\"}\n")
	f := func(roles string, code int) []check.Finding {
		t.Helper()
		parsed, err := emulator.LoadSchema(strings.NewReader(`{"databases": {"Logs": {` + roles + ` "tables": {` + soundTable + `}}}}`))
		s.must(err)
		s.must(s.server.SetSchema(parsed))
		s.server.ClearSchemaCache()
		return s.checks(code)
	}
	all := f("", 0)
	s.finds(all, "token", check.OK, "aadapp=me;contoso")
	s.finds(all, "ingest", check.OK, "this identity may ingest")
	s.finds(f(`"ingestors": ["other"],`, 77), "ingest", check.Error, "is not authorized", "activity", "\n.add table ['T'] ingestors ('aadapp=me")
	all = f(`"viewers": ["other"],`, 0)
	s.finds(all, "role.view", check.Warning, "could not look at the table, which need not be wrong", "activity", "\n.add database ['Logs'] viewers ('aadapp=me")
	s.finds(all, "ingest", check.OK, "may ingest")
	s.write("secret", "wrong")
	all = s.checks(77)
	s.finds(all, "token", check.Error, "AADSTS7000215", "the client secret is wrong")
	s.finds(all, "table", check.Warning, "was not looked at: there is no token")
	s.must(os.Remove(s.path("secret")))
	s.finds(s.checks(77), "token", check.Error, "/dev/stdin DIR/secret")
}

// TestCheckWay: nobody there, a clock that is off, and what is left out then.
func TestCheckWay(t *testing.T) {
	t.Parallel()
	s := checkSite(t, inLogs(soundTable), emulator.Options{})
	s.write("logs/a.json", "{\"n\":1,\"s\":\"x\"}\n")
	metadata := emulator.Match{Kind: emulator.KindMetadata}
	fault := s.server.Fail(emulator.Fault{Match: metadata, Status: 200, Body: "{}", Header: map[string]string{"Date": "Mon, 02 Jan 2006 15:04:05 GMT"}})
	s.finds(s.checks(1), "clock", check.Error, "ahead: tokens are refused", "\ntimedatectl set-ntp true")
	fault.Remove()
	s.write("agent.yaml", strings.Replace(open, "${URL}", s.deadURL(), 1)+oneJSON)
	all := s.checks(69)
	s.finds(all, "network", check.Error, "connection refused", "nothing listens there")
	s.finds(all, "table", check.Warning, "was not looked at: the cluster was not reached")
	s.finds(all, "files", check.OK, "1 file")
}

// TestCheckRecords: what of the records the mapping would lose.
func TestCheckRecords(t *testing.T) {
	t.Parallel()
	s := checkSite(t, inLogs(`"T": {"columns": "n:long, at:datetime, s:string, d:dynamic", "mappings": [{"name": "m", "kind": "Json", "columns": [
		{"column": "n", "path": "$.n"}, {"column": "at", "path": "$.time"}, {"column": "s", "path": "$.in.s"}, {"column": "d", "path": "$.D"}]}]},
		"C": {"columns": "a:long, b:string, c:string"}`), emulator.Options{})
	s.write("logs/a.json", `{"n":"many","time":1700000000,"in":{"s":1,"x":2},"d":{}}`+"\nno json\n"+`{"n":7,"extra":true}`+"\n")
	s.write("logs/b.csv", "a,b\n1,x\n")
	s.write("agent.yaml", open+strings.Replace(oneJSON, "}]\n", "}, {paths: [\"${DIR}/logs/*.csv\"], table: C}]\n", 1))
	all := s.checks(0)
	s.finds(all, "records.quarantine", check.Warning, "T: ", "1 record before", "offset 57 of DIR/logs/a.json, malformed")
	s.finds(all, "records.discarded", check.Warning, "of 2 records sampled", "$.d (1), $.in.x (1), $.extra (1)")
	s.finds(all, "records.null", check.Warning, "n:long (1), at:datetime (1)", "DateTimeFromUnix")
	s.finds(all, "records.unfilled", check.Warning, "fills: d")
	s.finds(all, "records.header", check.Warning, "C: Logs.C", "set header: skip")
	s.finds(all, "records.null", check.Warning, "a:long (1)")
	s.finds(all, "records.unfilled", check.Warning, "fills: c")
}

// TestCheckUnfinished: a last record that is still being written is not called malformed, unless it has
// its line end.
func TestCheckUnfinished(t *testing.T) {
	t.Parallel()
	s := checkSite(t, inLogs(`"T": {"columns": "n:long", "mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "n", "path": "$.n"}]}]}`), emulator.Options{})
	s.write("agent.yaml", open+oneJSON)
	s.write("logs/a.json", `{"n":1}`+"\n"+`{"n":`)
	all := s.checks(0)
	s.findsNone(all, "records.quarantine")
	s.finds(all, "records", check.OK, "of 1 record sampled")
	s.write("logs/a.json", `{"n":`)
	all = s.checks(0)
	s.findsNone(all, "records.quarantine")
	s.finds(all, "records", check.OK, "the only record, at offset 0 of DIR/logs/a.json, has no line end yet")
	s.write("logs/a.json", `{"n":`+"\n"+`{"n":`)
	s.finds(s.checks(0), "records.quarantine", check.Warning, "1 record before", "offset 0 of")
}

// TestCheckFiles: what cannot be read is told by folder, as the user of the
// service.
func TestCheckFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.refusable()
	s.write("logs/a.json", "{\"n\":1}\n")
	s.write("logs/b.json", "{\"n\":1}\n")
	s.write("logs/c.json", "{\"n\":1}\n")
	s.write("shut/a.json", "{\"n\":1}\n")
	s.must(os.Mkdir(s.path("logs/d.json"), 0o755))
	s.must(os.Symlink("nowhere", s.path("logs/e.json")))
	s.must(os.Chmod(s.path("logs/b.json"), 0))
	s.must(os.Chmod(s.path("logs/c.json"), 0))
	s.must(os.Chmod(s.path("shut"), 0))
	s.write("logs/in/a.json", "{\"n\":1}\n")
	s.must(os.Chmod(s.path("logs/in"), 0))
	s.write("agent.yaml", open+`inputs:
  - {paths: ["${DIR}/logs/*.json", "${DIR}/logs/in/*.json"], table: T, mapping: m, format: JSON}
  - {paths: ["${DIR}/shut/*.json"], table: U, mapping: m}
  - {paths: ["${DIR}/none/*.json"], table: V, mapping: m}
  - {paths: ["${DIR}/state/*.json"], table: W, mapping: m}
  - {paths: ["${DIR}/shut/in/**/*.json"], table: X, mapping: m}
`)
	s.write("state/own.json", "{}\n")
	var how []string
	if s.asNobody { // as root does it for the service
		s.asNobody, how = false, []string{"--user", "nobody"}
	}
	all := s.checks(1, append(how, "--offline")...)
	s.finds(all, "files", check.OK, "T: ", "1 file, 8 B")
	s.finds(all, "files.permission", check.Error, "may not read 2 files of this folder: b.json, c.json", "setfacl -m u:", ":r DIR/logs/b.json DIR/logs/c.json")
	s.finds(all, "files.permission", check.Error, "T: DIR/logs/in", "may not enter or list this folder", "setfacl -m u:", ":rx,d:u:", "find DIR/logs/in -maxdepth 1")
	s.finds(all, "files.permission", check.Error, "DIR/shut", "may not enter or list this folder", "find DIR/shut -maxdepth 1 -type f -name '*.json' -exec setfacl -m u:")
	s.finds(all, "files.permission", check.Error, "X: ", "may not enter or list this folder", ":x DIR/shut\nsetfacl -R -m u:", ":rX DIR/shut/in")
	s.finds(all, "files.kind", check.Warning, "it is a directory", "add /* to the path")
	s.finds(all, "files.kind", check.Warning, "the link leads to nothing")
	s.finds(all, "files.match", check.Warning, "DIR/none/*.json", "no file matches")
	s.finds(all, "files.own", check.Warning, "belongs to the agent itself")
	s.write("secret.yaml", strings.Replace(s.read("agent.yaml"), "auth: {method: none}", `auth: {method: client_secret, tenant: t, client_id: c, client_secret_file: "${DIR}/nowhere/secret"}`, 1))
	s.finds(s.checks(1, append(how, "--offline", "--config", s.path("secret.yaml"))...), "files.secret", check.Error, "DIR/nowhere/secret", "is not there", "\ninstall -D -m 600 -o ", " /dev/stdin DIR/nowhere/secret")
	s.write("secret.yaml", strings.Replace(s.read("agent.yaml"), "auth: {method: none}", `auth: {method: client_secret, tenant: t, client_id: c, client_secret_file: zq.secret}`, 1))
	s.finds(s.checks(1, append(how, "--offline", "--config", s.path("secret.yaml"))...), "files.secret", check.Warning, "DIR/zq.secret", "is not there, unless systemd")
	s.write("shut.yaml", strings.Replace(s.read("agent.yaml"), "${DIR}/state", "${DIR}/shut/state", 1))
	s.asNobody = os.Getuid() == 0 // an ordinary user looks, and the service is another one
	other := s.checks(1, "--offline", "--user", "root", "--config", s.path("shut.yaml"))
	s.asNobody = false
	s.finds(other, "state", check.Error, "may not write in state_dir", "give it to root", "install -d -m 700 -o root -g "+s.tool("id", "-gn", "root")+" DIR/shut/state", "setfacl -m u:root:x DIR/shut")
	s.finds(other, "files.permission", check.Error, "b.json, c.json", "setfacl -m u:root:r DIR/logs/b.json")
	if os.Getuid() == 0 {
		s.write("agent.pem", "")
		s.write("password", "")
		s.must(os.Chmod(s.path("password"), 0o600))
		s.write("secret.yaml", strings.Replace(s.read("agent.yaml"), "auth: {method: none}", `auth: {method: certificate, tenant: t, client_id: c, certificate_file: "${DIR}/agent.pem", certificate_password_file: "${DIR}/password"}`, 1))
		s.finds(s.checks(1, append(how, "--offline", "--config", s.path("secret.yaml"))...), "files.secret", check.Error, "DIR/password", "nobody may not read this file")
		s.finds(all, "state", check.Error, "nobody may not write in state_dir", "install -d -m 700 -o nobody -g "+s.tool("id", "-gn", "nobody")+" DIR/state")
		s.finds(s.checks(1, append(how, "--offline", "--config", s.path("shut.yaml"))...), "state", check.Error, "DIR/shut/state\nsetfacl -m u:nobody:x DIR/shut")
		s.must(os.Chmod(s.path("agent.yaml"), 0o600))
		s.finds(s.checks(1, append(how, "--offline")...), "files.secret", check.Error, "DIR/agent.yaml", "nobody may not read this file", "\nsetfacl -m u:nobody:r DIR/agent.yaml")
	}
}

// TestCheckDisks: what the agent keeps, and how much room there is for it.
func TestCheckDisks(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", "{\"n\":1}\nno json\n")
	config := open + "spool: {min_free: 1000000GiB}\nlimits: {open_files: 1000000000}\n" + oneJSON
	s.once(open+oneJSON, 1)
	s.write("agent.yaml", config)
	all := s.checks(1, "--offline")
	s.finds(all, "spool.space", check.Error, "the spool would take nothing", "df -h DIR/state/spool")
	s.finds(all, "quarantine", check.Warning, "1 record in quarantine", "kusto-agent quarantine ls --config DIR/agent.yaml")
	s.finds(all, "limits.open_files", check.Error, "limits.open_files is 1000000000", "ulimit -n")
	nowhere := func(dir, says string, code int) {
		t.Helper()
		s.write("nowhere.yaml", strings.Replace(open, "${DIR}/state", dir, 1)+oneJSON)
		s.finds(s.checks(code, "--offline", "--config", s.path("nowhere.yaml")), "state", check.Error, says)
	}
	nowhere("${DIR}/logs/a.json/state", "state_dir is no folder, or is below a file", exit.Config)
	nowhere("/proc/none", "may not write in state_dir", exit.Failed)
	s.write("agent.yaml", strings.Replace(config, "min_free: 1000000GiB", "max_size: 1000000GiB", 1)+"quarantine: {max_size: 1}\n")
	all = s.checks(1, "--offline")
	s.finds(all, "spool.space", check.Warning, "the disk has room for")
	s.finds(all, "quarantine", check.Error, "quarantine is full")
	if _, err := os.Stat(filepath.Join(s.dir, "state", "spool")); err != nil {
		t.Error(err)
	}
}

// TestCheckOwnLog: beside a running agent, whose log a pattern matches, it tells
// that, and what is delivered is not compared again.
func TestCheckOwnLog(t *testing.T) {
	t.Parallel()
	s := checkSite(t, inLogs(soundTable), emulator.Options{})
	s.write("logs/a.json", "{\"n\":1,\"s\":\"x\"}\n")
	var err error
	s.logTo, err = os.Create(s.path("logs/own.json"))
	s.must(err)
	defer s.logTo.Close()
	p := s.run(open + oneJSON)
	s.awaitRows("T", 1)
	s.logTo = nil
	s.finds(s.checks(0, "--offline"), "files.own", check.Warning, "DIR/logs/own.json", "belongs to the agent itself")
	p.stop()
	s.finds(s.checks(0, "--offline"), "files", check.OK, "2 files")
}

// TestCheckReshaped: what rename, remove and add do to a mapping that goes by other names,
// each with its place in the configuration.
func TestCheckReshaped(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, inLogs(`"T": {"columns": "n:long, s:string, d:dynamic", "mappings": [{"name": "m", "kind": "Json", "columns": [
		{"column": "n", "path": "$.n"}, {"column": "s", "path": "$.http.path"}, {"column": "d", "path": "$['user']"}]}]}`))})
	s.write("logs/a.json", `{"n":1,"http":{"path":"/"},"user":{"id":7},"x":1}`+"\n")
	s.write("agent.yaml", open+`inputs:
  - paths: ["${DIR}/logs/*.json"]
    table: T
    mapping: m
    remove:
      - x
      - http
      - n
    rename:
      user: person
      level: severity
      number: n
    add:
      env: prod
      user.env: prod
`)
	all := s.checks(0)
	s.finds(all, "rules.gone", check.Warning, "agent.yaml:12: ", "remove[1]: http is removed, and the mapping reads it into s (http.path)", ".show table ['T'] ingestion mappings")
	s.finds(all, "rules.unmapped", check.Warning, "agent.yaml:16: ", "rename.level: level becomes severity")
	s.finds(all, "rules.unmapped", check.Warning, "agent.yaml:19: ", "add.env: env is added")
	s.finds(all, "rules.gone", check.Warning, "agent.yaml:15: ", "rename.user: user becomes person", "into d (user)", "read the new name")
	told := 0
	for _, f := range all {
		if f.ID == "rules.gone" || f.ID == "rules.unmapped" {
			told++
		}
	}
	if told != 4 { // n is made anew, x was never read, and user.env is within user
		t.Errorf("%d findings, want 4", told)
	}
}

// TestCheckRules: what rules and patterns do with the newest files: those that hold of
// nothing, that never act, that contradict themselves, and that are slow by their form.
func TestCheckRules(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", strings.Repeat(`{"level":"info","status":200,"http":{"path":"/health"}}`+"\n", 5)+`{"level":"warn","status":500}`+"\n")
	s.write("logs/b.log", "INFO a\nWARN b\n")
	s.write("logs/c.log", "no access log\n")
	s.write("agent.yaml", open+`inputs:
  - paths: ["${DIR}/logs/*.json"]
    table: T
    mapping: m
    keep: [{member: level, in: [info]}, {member: level, match: '^i'}, {member: level, in: [warn]}]
    drop:
      - {name: health_checks, member: http.path, match: '^/health'}
      - {name: again, member: http.path, match: '.*lth'}
      - {member: Level, match: info}
      - {member: level, in: [debug]}
      - {member: status, below: 300, above: 300}
      - {member: level, in: [debug]}
      - {member: level, in: [warn], match: '^x'}
      - {match: 'nowhere|(?:a?){300}b'}
    redact:
      - {match: 'we?rn|warn', with: '*'}
      - {name: late, member: http.path, with: '-'}
      - {member: http.Path, with: '-'}
      - {name: any, match: '.*fo', with: '*'}
  - {name: lines, paths: ["${DIR}/logs/b.log"], table: U, mapping: m, parse: regex, pattern: ['^(?P<level>INFO|WARN) (?P<rest>.*)$', '^(?P<level>\S+) ', '(?P<level>DEBUG)']}
  - {name: access, paths: ["${DIR}/logs/c.log"], table: V, mapping: m, parse: combined}
  - {name: plain, paths: ["${DIR}/logs/c.log"], table: W}
`)
	all := s.checks(0, "--offline")
	f := func(id, key string, want ...string) {
		t.Helper()
		s.finds(all, id, check.Warning, append(want, key+": ")...)
	}
	f("rules.shadowed", "keep[1]", "holds of 5 of 6 records of the newest 1 file, and one before it holds of each")
	f("rules.shadowed", "drop[1]", "holds of 5 of 6", "left out before it, most by health_checks", "(again)", "kusto-agent preview T --before-after")
	f("rules.slow", "drop[1]", "begins with .*", "MB of records a second")
	f("rules.nothing", "drop[2]", "no record has a value at its member")
	s.finds(all, "rules.nothing", check.OK, "drop[3]", "holds of none")
	f("rules.never", "drop[4]", "no number is below 300 and above 300")
	f("rules.never", "drop[5]", "it asks what drop[3] asks")
	f("rules.never", "drop[6]", "none of the values of in")
	f("rules.nothing", "drop[7]", "it matches none of 6 records")
	f("rules.slow", "drop[7]", "a program of ", " instructions, and up to 500 are fast")
	f("rules.shadowed", "redact[1]", "holds of 5 of 6", "left out before it, most by health_checks", "(late)")
	f("rules.nothing", "redact[2]", "no record has a value at its member")
	f("rules.slow", "redact[3]", "begins with .*")
	f("rules.shadowed", "pattern[1]", "holds of 2 of 2 records")
	f("rules.nothing", "pattern[2]")
	f("rules.slow", "pattern[2]", "does not begin with ^")
	f("rules.parse", "", "none of 1 record", "is as parse: combined says")
	s.finds(all, "rules", check.OK, "15 conditions tried on 6 records of the newest 1 file")
	for _, one := range all {
		if strings.HasPrefix(one.ID, "rules") && (one.Input == "plain" || one.Severity == check.Warning && (strings.HasPrefix(one.Where, "drop[0]") || one.Where == "keep[0]" || one.Where == "redact[0]" || one.Where == "pattern[0]")) {
			t.Errorf("it tells %+v", one)
		}
	}
}
