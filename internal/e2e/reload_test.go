package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

const (
	isInForce  = "configuration reloaded"
	isAsItWas  = "configuration reloaded without changes"
	hasMistake = "reload rejected: the configuration has errors, the current one stays in force"
	isLeft     = "file closed, its input no longer matches it; its checkpoint is kept"
)

// reload writes a configuration, sends SIGHUP and waits for the n'th time that one
// is in force.
func (p *process) reload(n int, config string) entry {
	p.t.Helper()
	p.site.write("agent.yaml", config)
	p.signal(syscall.SIGHUP)
	return p.await(n, isInForce)
}

// descriptors are those that a process holds of files in a folder, by number.
func (p *process) descriptors(folder string) map[string]string {
	p.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	open := make(map[string]string)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, folder+"/") {
			open[e.Name()] = to
		}
	}
	return open
}

// seqs counts the records of a table by their number, whatever else is in them.
func seqs(t *testing.T, server *emulator.Server, count map[int]int, tables ...string) {
	t.Helper()
	for _, table := range tables {
		for row := range server.All("Logs", table, 0) {
			var r struct {
				Seq     *int
				Message string
			}
			err := json.Unmarshal(row.Raw, &r)
			if r.Seq == nil && err == nil { // a line of text
				err = json.Unmarshal([]byte(r.Message), &r)
			}
			if err != nil || r.Seq == nil {
				t.Fatalf("%s: not a record: %.200q", table, row.Raw)
			}
			count[*r.Seq]++
		}
	}
}

// wantSeqs expects the records 0 to n once each, in any of the tables.
func wantSeqs(t *testing.T, server *emulator.Server, n int, tables ...string) {
	t.Helper()
	count := make(map[int]int)
	seqs(t, server, count, tables...)
	missing, double := 0, 0
	for i := range n {
		switch {
		case count[i] == 0:
			missing++
		case count[i] > 1:
			double++
		}
		delete(count, i)
	}
	if missing+double+len(count) > 0 {
		t.Errorf("%q: of %d records %d are missing, %d double, and %d were never written", tables, n, missing, double, len(count))
	}
}

// appender is an application that rotates its file.
type appender struct {
	*site
	name    string
	perFile int
	n       int
}

func (a *appender) write(records int) {
	a.t.Helper()
	a.append(a.name, joined(jsonRecords(a.n, records)))
	if was := a.n / a.perFile; (a.n+records)/a.perFile > was {
		a.rename(a.name, fmt.Sprintf("%s.%03d", a.name, was))
	}
	a.n += records
}

const threeInputs = `
inputs:
  - {name: a, paths: ["${DIR}/logs/a.json*"], format: JSON, table: A, mapping: m}
  - {name: b, paths: ["${DIR}/logs/b.json*"], format: JSON, table: %s, mapping: m%s}
  - {name: c, paths: ["${DIR}/logs/c.json*"], format: JSON, table: C, mapping: m}
`

// TestReloadUnderLoad: one of three inputs gets another table, then fields. All
// records are stored once, and no file was opened anew.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	config := func(table, more string) string {
		return open + "batch: {max_size: 64KiB, max_wait: 50ms}\n" + fmt.Sprintf(threeInputs, table, more)
	}
	apps := []*appender{{s, "logs/a.json", 1 << 30, 0}, {s, "logs/b.json", 1 << 30, 0}, {s, "logs/c.json", 1 << 30, 0}}
	write := func(times int) {
		for range times {
			for _, a := range apps {
				a.write(100)
			}
			s.awaitRows("A", apps[0].n-1000)
		}
	}
	write(1)
	p := s.run(config("B", ""))
	s.awaitRows("C", 100)
	had := p.descriptors(s.path("logs"))
	if len(had) != 3 {
		t.Fatalf("open are %v", had)
	}
	write(10)
	e := p.reload(1, config("B2", ""))
	if e.text("changed") != "b" || e["added"] != nil || e["removed"] != nil || e["restart"] != nil {
		t.Errorf("the log says %v", e)
	}
	write(10)
	s.awaitRows("B2", 100)
	p.reload(2, config("B2", `, fields: {batch: "{batch}", offset: "{offset}"}`))
	write(10)
	n := apps[0].n
	for _, in := range []string{"a", "b", "c"} {
		p.awaitBooks(in, func(a account) bool { return int(a.accepted) == n && a.pending == 0 })
	}
	if now := p.descriptors(s.path("logs")); fmt.Sprint(now) != fmt.Sprint(had) {
		t.Errorf("open are %v; before the reloads %v", now, had)
	}
	if got := len(p.entries(isLeft)); got != 0 {
		t.Errorf("%d files were let go", got)
	}
	if r := routeOf(t, p, "B2"); r.Accepted == 0 {
		t.Errorf("route: %+v", r)
	}
	for _, r := range p.status().Routes {
		if r.Table == "B" {
			t.Errorf("the status still has %+v", r)
		}
	}
	p.stop()
	wantSeqs(t, s.server, n, "A")
	wantSeqs(t, s.server, n, "B", "B2")
	wantSeqs(t, s.server, n, "C")
	if with := s.fieldsFrom("B2"); with == 0 {
		t.Error("no record has the fields of the second reload")
	}
	s.wantUniqueRequests()
	p.wantComplaints()
}

// fieldsFrom counts the rows of a table that have an offset.
func (s *site) fieldsFrom(table string) (n int) {
	for row := range s.server.All("Logs", table, 0) {
		if bytes.Contains(row.Raw, []byte(`"offset":`)) {
			n++
		}
	}
	return n
}

// TestManyReloads: twenty in a row, of every kind, while the files of three inputs
// are written and rotated.
func TestManyReloads(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	const a = `  - {name: a, paths: ["${DIR}/logs/a.json*"], format: JSON, table: A, mapping: m}` + "\n"
	const b = `  - {name: b, paths: ["${DIR}/logs/b.json*"], %s, mapping: m}` + "\n"
	const c = `  - {name: c, paths: ["${DIR}/logs/c.json*"], format: JSON, table: C, mapping: m}` + "\n"
	config := func(i int) string {
		text := open + fmt.Sprintf("batch: {max_size: %dKiB, max_wait: 20ms}\nsend: {concurrency: %d, timeout: %ds}\n", 32<<(i%3), 1+i%5, 20+i%2) +
			fmt.Sprintf("limits: {memory: %dMiB}\ninputs:\n", 32+i) + a
		b := fmt.Sprintf(b, []string{
			"format: JSON, table: B", "format: JSON, table: B1", "parse: text, table: B2", `format: JSON, table: B, fields: {at: "{offset}"}`,
		}[i%4])
		if i%5 != 2 {
			text += b
		}
		if i%3 != 1 {
			text += c
		}
		return text
	}
	apps := []*appender{{s, "logs/a.json", 700, 0}, {s, "logs/b.json", 500, 0}, {s, "logs/c.json", 300, 0}}
	for _, app := range apps {
		app.write(50)
	}
	p := s.run(config(0))
	p.await(1, "agent is running")
	reloads := 20
	if longForm {
		reloads = 500
	}
	for i := 1; i <= reloads; i++ {
		for range 3 {
			for _, app := range apps {
				app.write(50)
			}
		}
		if i%2 == 0 {
			s.awaitRows("A", apps[0].n-500)
		}
		p.reload(i, config(i))
	}
	p.reload(reloads+1, config(12*5)) // all three are there
	n := apps[0].n
	for _, in := range []string{"a", "b", "c"} {
		p.awaitBooks(in, func(a account) bool { return int(a.accepted) == n && a.pending == 0 })
	}
	p.stop()
	wantSeqs(t, s.server, n, "A")
	wantSeqs(t, s.server, n, "B", "B1", "B2")
	wantSeqs(t, s.server, n, "C")
	s.wantUniqueRequests()
	p.wantComplaints()
}

// TestReloadOfBadFile: a bad file changes nothing, whatever else in it is good, and
// is told in the log, the metric and the status; a good one heals. Files that are
// included are read too.
func TestReloadOfBadFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	main := open + "batch: {max_wait: 20ms}\ninclude: [conf.d/*.yaml]\n"
	a := `  - {name: a, paths: ["${DIR}/logs/a.json*"], format: JSON, table: %s, mapping: m}` + "\n"
	b := `  - {name: b, paths: ["${DIR}/logs/b.json*"], format: JSON, table: B, mapping: m}` + "\n"
	s.write("conf.d/a.yaml", "inputs:\n"+fmt.Sprintf(a, "A"))
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	s.write("logs/b.json", joined(jsonRecords(0, 10)))
	p := s.run(main)
	s.awaitRows("A", 10)
	f := func(n int, want string) {
		t.Helper()
		p.signal(syscall.SIGHUP)
		if e := p.await(n, hasMistake); !strings.Contains(e.text("err"), want) {
			t.Errorf("says %q, want %q", e.text("err"), want)
		}
		if got := p.metric("config_last_reload_successful"); got != 0 {
			t.Errorf("config_last_reload_successful %v after a bad one", got)
		}
		if st := p.status(); !strings.Contains(st.Config.Error, want) || len(st.Problems) == 0 {
			t.Errorf("the status does not tell: %+v %v", st.Config, st.Problems)
		}
	}
	s.write("conf.d/b.yaml", "inputs:\n"+b+"  - {name: c, paths: [/nowhere/*.json], tabel: C}\n")
	s.write("conf.d/a.yaml", "inputs:\n"+fmt.Sprintf(a, "A2"))
	f(1, "b.yaml:3:")
	// Sound by itself, but a client cannot be made of it.
	s.write("conf.d/b.yaml", "inputs:\n"+b)
	s.write("agent.yaml", main+"send: {tls: {ca_file: missing.pem}}\n")
	f(2, "missing.pem")
	s.append("logs/a.json", joined(jsonRecords(10, 10)))
	s.awaitRows("A", 20)
	if n := s.server.RowCount("Logs", "B"); n != 0 {
		t.Errorf("%d rows in B", n)
	}
	if e := p.reload(1, main); e.text("added") != "b" || e.text("changed") != "a" {
		t.Errorf("the log says %v", e)
	}
	if got := p.metric("config_last_reload_successful"); got != 1 {
		t.Errorf("config_last_reload_successful %v after a good one", got)
	}
	if st := p.status(); st.Config.Error != "" || len(st.Problems) > 0 {
		t.Errorf("the status still tells %+v %v", st.Config, st.Problems)
	}
	s.append("logs/a.json", joined(jsonRecords(20, 10)))
	s.awaitRows("A2", 10)
	s.awaitRows("B", 10)
	p.stop()
	s.wantRows("A", jsonRecords(0, 20))
	s.wantRows("A2", jsonRecords(20, 10))
	s.wantRows("B", jsonRecords(0, 10))
}

// TestInputIsTakenAway: what was read of it is still delivered, its positions are
// kept, and when it comes back it goes on there, though its file was rotated.
func TestInputIsTakenAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	const a = `  - {name: a, paths: ["${DIR}/logs/a.json"], table: A, mapping: m}` + "\n"
	const b = `  - {name: b, paths: ["${DIR}/logs/b.json"], table: B, mapping: m}` + "\n"
	config := open + "batch: {max_wait: 20ms, max_records: 500}\nsend: {retry: {patience: 1m}}\ninputs:\n"
	s.write("logs/a.json", joined(jsonRecords(0, 3000)))
	s.write("logs/b.json", joined(jsonRecords(0, 10)))
	fault := s.server.Fail(emulator.Fault{Match: emulator.Match{Table: "A"}, Hang: true})
	p := s.run(config + a + b)
	s.awaitRows("B", 10)
	p.awaitBooks("a", func(a account) bool { return a.pending == 3000 })
	if e := p.reload(1, config+b); e.text("removed") != "a" {
		t.Errorf("the log says %v", e)
	}
	p.await(1, isLeft, "a.json")
	s.append("logs/a.json", joined(jsonRecords(3000, 10)))
	s.rename("logs/a.json", "logs/a.old")
	s.write("logs/a.json", joined(jsonRecords(3010, 10)))
	s.append("logs/b.json", joined(jsonRecords(10, 10)))
	s.awaitRows("B", 20)
	if n := s.server.RowCount("Logs", "A"); n != 0 {
		t.Errorf("%d rows in A", n)
	}
	fault.Remove()
	s.awaitRows("A", 3000)
	p.awaitBooks("a", func(a account) bool { return a.accepted == 3000 && a.pending == 0 })
	for _, in := range p.status().Inputs {
		if in.Name == "a" && in.Table != "" {
			t.Errorf("the status tells of it as of one that is there: %+v", in)
		}
	}
	if e := p.reload(2, config+a+b); e.text("added") != "a" {
		t.Errorf("the log says %v", e)
	}
	s.awaitRows("A", 3020)
	p.stop()
	s.wantRows("A", jsonRecords(0, 3020))
	s.wantRows("B", jsonRecords(0, 20))
	s.wantUniqueRequests()
	p.wantComplaints()
}

// TestReloadOfCluster: an input goes to another cluster while the first is down;
// what was read before is delivered to the first when it is back, from the spool,
// though the configuration does not name it any more.
func TestReloadOfCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	other, url := s.endpoint(emulator.Options{})
	s.env = append(s.env, "OTHER="+url)
	config := func(cluster string) string {
		return strings.Replace(open, "${URL}", cluster, 1) + "batch: {max_wait: 20ms, max_records: 100}\n" +
			"send: {retry: {initial: 20ms, max: 100ms, patience: 200ms}}\n" + oneJSON
	}
	s.write("logs/a.json", joined(jsonRecords(0, 1000)))
	fault := s.server.Fail(emulator.Fault{Status: http.StatusServiceUnavailable})
	p := s.run(config("${URL}"))
	p.awaitBooks("T", func(a account) bool { return a.spooled == 1000 })
	if e := p.reload(1, config("${OTHER}")); e.text("changed") != "T" || e.text("clusters") != "default" {
		t.Errorf("the log says %v", e)
	}
	s.append("logs/a.json", joined(jsonRecords(1000, 1000)))
	ctx, cancel := s.waiting()
	defer cancel()
	if err := other.WaitRows(ctx, "Logs", "T", 1000); err != nil {
		t.Fatal(err)
	}
	if n := len(p.status().Clusters); n != 2 {
		t.Errorf("the status has %d clusters, want that with something in the spool too", n)
	}
	fault.Remove()
	s.awaitRows("T", 1000)
	p.awaitBooks("T", func(a account) bool { return a.accepted == 2000 && a.spooled == 0 })
	if c := p.status().Clusters; len(c) != 1 || c[0].URL != url {
		t.Errorf("clusters are %+v", c)
	}
	p.stop()
	s.wantRows("T", jsonRecords(0, 1000))
	wantRows(t, other, "Logs", "T", jsonRecords(1000, 1000))
}

// TestReloadOfSettings: what cannot change while the agent runs is named, and stays;
// the rest holds at once.
func TestReloadOfSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	rest := "batch: {max_wait: 20ms}\n" + oneJSON
	s.write("logs/a.json", joined(jsonRecords(0, 10))+"{bad\n{bad\n{bad\n"+joined(jsonRecords(10, 10)))
	p := s.run(open + "quarantine: {max_size: 600B}\n" + rest)
	s.awaitRows("T", 10)
	p.await(1, "quarantine write failed: a file with a bad record waits at that record")
	s.write("agent.yaml", strings.NewReplacer(
		"/state\n", "/elsewhere\n", `{listen: "127.0.0.1:0"}`, `{listen: "127.0.0.1:1", log: {level: debug, format: text}}`,
	).Replace(open)+"quarantine: {max_size: 1MiB}\njournal: {max_age: 1d}\nshutdown_timeout: 10s\nspool: {dir: \"${DIR}/sp\", max_size: 1GiB}\n"+rest)
	p.signal(syscall.SIGHUP)
	e := p.await(1, "configuration reloaded, except for keys that need a restart")
	if got := e.text("restart"); got != "state_dir spool.dir telemetry.listen telemetry.log.format" {
		t.Errorf("a restart is needed for %s", got)
	}
	if got := e.text("settings"); got != "shutdown_timeout spool.max_size quarantine.max_size journal.max_age telemetry.log.level" {
		t.Errorf("in force at once are %s", got)
	}
	if st := p.status(); !slices.Equal(st.Config.Restart, strings.Fields(e.text("restart"))) ||
		!slices.ContainsFunc(st.Problems, func(text string) bool { return strings.Contains(text, "after a restart") }) {
		t.Errorf("the status tells %+v %v", st.Config, st.Problems)
	}
	s.awaitRows("T", 20) // there is room in quarantine
	p.reload(1, open+"send: {rate_limit: 1MB, expect_continue: true}\n"+rest)
	s.append("logs/a.json", joined(jsonRecords(20, 10)))
	s.awaitRows("T", 30)
	if st := p.status(); len(st.Config.Restart) > 0 {
		t.Errorf("the status still tells of a restart: %+v", st.Config)
	}
	p.signal(syscall.SIGHUP)
	p.await(1, isAsItWas)
	p.stop()
	s.wantRows("T", jsonRecords(0, 30))
	if len(s.quarantined()) != 3 {
		t.Errorf("quarantine has %v", s.quarantined())
	}
	for _, dir := range []string{"elsewhere", "sp"} {
		if _, err := os.Stat(s.path(dir)); err == nil {
			t.Errorf("%s was made", dir)
		}
	}
}

// TestSpoolFolderIsChanged: until the restart that another spool.dir needs, the commands look at the
// spool that the agent has.
func TestSpoolFolderIsChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.server.Fail(emulator.Fault{Status: 503})
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	p := s.run(open + hasty + oneJSON)
	p.awaitBooks("T", func(a account) bool { return a.spooled == 10 })
	s.write("agent.yaml", open+hasty+"spool: {dir: \"${DIR}/sp\"}\n"+oneJSON)
	p.signal(syscall.SIGHUP)
	p.await(1, "configuration reloaded, except for keys that need a restart")
	if out, _ := s.show(0, "spool", "ls", "--summary", "--config", s.path("agent.yaml")); !strings.Contains(out, "Logs.T") {
		t.Errorf("spool ls shows\n%s", out)
	}
	if out, _ := s.show(0, "audit", "--config", s.path("agent.yaml")); !strings.Contains(out, "in the spool") {
		t.Errorf("audit says\n%s", out)
	}
}

// TestReloadOfSecret: a secret that was wrong is mended in its file, and the hold of
// the cluster ends with the reload.
func TestReloadOfSecret(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{TokenSecret: "zq-secret"})
	s.write("secret", "zq-wrong")
	s.secrets = append(s.secrets, "zq-wrong")
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	config := head + "auth: {authority: \"${URL}\", tenant: t, client_id: agent, client_secret_file: secret}\nbatch: {max_wait: 20ms}\n" + oneJSON
	p := s.run(config)
	p.await(1, "cluster is held: without a valid token nothing is sent to it, its records are kept")
	s.write("secret", "zq-secret")
	p.signal(syscall.SIGHUP)
	s.awaitRows("T", 10)
	p.await(1, isAsItWas)

	// Another secret of another kind; a request under way is not disturbed.
	s.write("secret2", "zq-secret")
	p.reload(1, strings.Replace(config, "client_secret_file: secret}", "client_secret_file: secret2}", 1))
	s.append("logs/a.json", joined(jsonRecords(10, 10)))
	s.awaitRows("T", 20)
	p.stop()
	s.wantRows("T", jsonRecords(0, 20))
}

// TestHangupsAtAnyTime: signals at the start, in a burst and at the stop do no harm.
func TestHangupsAtAnyTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := 0
	for n := range 4 {
		s.append("logs/a.json", joined(jsonRecords(records, 100)))
		records += 100
		p := s.run(open + "batch: {max_wait: 20ms}\n" + oneJSON)
		if n%2 == 0 {
			p.await(1, "telemetry endpoint is listening")
		} else {
			s.awaitRows("T", records)
		}
		for range 50 {
			p.signal(syscall.SIGHUP)
		}
		p.await(1, isAsItWas)
		if n%2 == 0 {
			p.signal(syscall.SIGHUP)
		}
		p.signal(syscall.SIGTERM)
		for range 5 {
			p.signal(syscall.SIGHUP)
		}
		p.want(0)
		p.wantComplaints()
	}
	s.once(open+oneJSON, 0)
	s.wantRows("T", jsonRecords(0, records))
}

// TestOnceIsNotReloaded: a run --once ends as it began.
func TestOnceIsNotReloaded(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	fault := s.server.Fail(emulator.Fault{Hang: true})
	p := s.run(open+oneJSON, "--once")
	s.awaitHits(fault, 1)
	s.write("agent.yaml", open+strings.Replace(oneJSON, "table: T", "table: U", 1))
	p.signal(syscall.SIGHUP)
	p.await(1, "reload ignored: run --once keeps its configuration")
	fault.Remove()
	p.want(0)
	s.wantRows("T", jsonRecords(0, 10))
	p.wantComplaints()
}
