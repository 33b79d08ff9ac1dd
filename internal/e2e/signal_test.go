package e2e

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// What the agent says of a batch that was begun by an earlier run.
// Each batch whose outcome is unknown is named: at an orderly stop, or at the start
// after one that was not.
const (
	sentAgain     = "outcome of a batch of an earlier run is unknown, it is sent again and may be stored twice"
	unknownAtStop = "outcome of a batch is unknown at shutdown, it will be sent again after the next start and may be stored twice"
)

const oneJSON = `inputs: [{paths: ["${DIR}/logs/*.json*"], format: JSON, table: T, mapping: m}]
`

// TestStopUnderLoad: SIGTERM while much is being read and sent ends well, and
// the next run goes on where it ended, doubling nothing.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	many, stops := 60_000, []int{1, 7, 12}
	if longForm {
		many, stops = 400_000, slices.Repeat([]int{1, 2, 3, 4}, 25)
	}
	records := jsonRecords(0, many)
	s.write("logs/a.json", joined(records))
	s.server.Fail(emulator.Fault{Delay: 3_000_000})
	config := open + "batch: {max_size: 16KiB}\nsend: {concurrency: 3}\n" + oneJSON
	for _, after := range stops {
		p := s.run(config)
		s.awaitRequests(s.server.Totals().Requests + after)
		p.stop()
		p.await(1, "agent is stopping")
	}
	again := s.once(config, 0)
	if n := len(again.entries(sentAgain)); n != 0 {
		t.Errorf("%d batches are in doubt after an orderly end", n)
	}
	s.wantRows("T", records)
	s.wantUniqueRequests()
}

// TestStopInAnOutage: with nothing being accepted SIGTERM does not wait for
// shutdown_timeout; what is left is sent after the next start.
func TestStopInAnOutage(t *testing.T) {
	t.Parallel()
	f := func(name, config string, fault emulator.Fault, settled, left string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			records := jsonRecords(0, 20000)
			s.write("logs/a.json", joined(records))
			script := s.server.Fail(fault)
			first := s.run(open + "batch: {max_size: 64KiB}\n" + config + oneJSON)
			s.awaitHits(script, 1)
			if settled != "" {
				first.await(1, settled)
			}
			first.stop()
			if left != "" {
				first.await(1, left)
			}
			script.Remove()
			p := s.run(open + "batch: {max_size: 64KiB}\n" + oneJSON)
			s.awaitRows("T", len(records))
			p.awaitBooks("T", func(a account) bool { return a.pending == 0 && a.accepted == a.read+a.restored })
			p.stop()
			s.wantNoneMissing("T", records, first, p)
			s.wantUniqueRequests()
		})
	}
	const kept = "records not yet accepted are in the spool and will be sent after the next start"
	const never = "shutdown_timeout: 24h\nsend: {retry: {initial: 10ms, max: 50ms, patience: 200ms}}\n"
	const patient = "shutdown_timeout: 24h\nsend: {retry: {initial: 10ms, max: 50ms, patience: 1h}}\n" // what is held is in hand
	f("failing", never, emulator.Fault{Status: 503}, "cluster is down, probing with backoff", "")
	f("failing, not yet down", never, emulator.Fault{Status: 503}, "", "")
	f("no table", patient, emulator.Fault{Status: 404}, "route is held: nothing is sent to its table until the cause is fixed, its records are kept", kept)
	f("no token", patient, emulator.Fault{Status: 401}, "cluster is held: without a valid token nothing is sent to it, its records are kept", kept)
	f("hanging, nothing stored", "shutdown_timeout: 300ms\n", emulator.Fault{Hang: true, Reset: true}, "", kept)
	f("no spool", "spool: {max_size: 0}\nshutdown_timeout: 24h\nsend: {retry: {initial: 10ms, max: 50ms, patience: 200ms}}\n",
		emulator.Fault{Status: 503}, "", "records not yet accepted are still in their files and will be sent after the next start")
}

// wantNoneMissing expects every record in a table, and twice only those of the
// batches that one of the runs names.
func (s *site) wantNoneMissing(table string, records []string, runs ...*process) {
	s.t.Helper()
	extra, stored := 0, make(map[string]int)
	for _, r := range s.server.Requests() {
		if !r.Stored {
			continue
		}
		if stored[batchOf(r)]++; stored[batchOf(r)] == 1 {
			continue
		}
		extra += r.Records
		named := 0
		for _, p := range runs {
			named += len(p.entries(sentAgain, batchOf(r))) + len(p.entries(unknownAtStop, batchOf(r)))
		}
		if named == 0 { // the stop and the start behind it may both name it
			s.t.Errorf("batch %s was stored again and named %d times", batchOf(r), named)
		}
	}
	count := make(map[string]int)
	for _, row := range s.server.Rows("Logs", table) {
		count[string(row.Raw)]++
	}
	missing, double := 0, 0
	for _, r := range records {
		if count[r] == 0 {
			missing++
		} else {
			double += count[r] - 1
		}
	}
	if missing > 0 || double != extra || len(count) != len(records) {
		s.t.Errorf("%d missing, %d double of which %d are explained, %d different rows of %d", missing, double, extra, len(count), len(records))
	}
}

// TestStopWithoutAnswers: requests whose answers never come are cut off at
// shutdown_timeout. Their rows are stored, and stored again: each batch is
// named.
func TestStopWithoutAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := jsonRecords(0, 3000)
	s.write("logs/a.json", joined(records))
	config := open + "shutdown_timeout: 200ms\nbatch: {max_records: 500}\n" + oneJSON
	script := s.server.Fail(emulator.Fault{Hang: true, When: emulator.AfterCommit})
	p := s.run(config)
	s.awaitHits(script, 4)
	p.stop()
	p.await(1, "shutdown_timeout expired, requests in flight are cancelled; their records will be sent after the next start")
	script.Remove()
	again := s.once(config, 0)
	s.wantNoneMissing("T", records, p, again)
	s.wantUniqueRequests()
}

func TestHangupNeverKills(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	p := s.run(open + oneJSON)
	p.await(1, "agent is running")
	s.awaitRows("T", 10)

	p.signal(syscall.SIGHUP)
	p.await(1, "configuration reloaded without changes")
	if got := p.metric("config_last_reload_successful"); got != 1 {
		t.Errorf("config_last_reload_successful %v", got)
	}
	s.write("agent.yaml", open+oneJSON+"sned: {}\n")
	p.signal(syscall.SIGHUP)
	e := p.await(1, "reload rejected: the configuration has errors, the current one stays in force")
	if !strings.Contains(e.text("err"), "agent.yaml:7:1: sned: unknown key; did you mean send?") {
		t.Errorf("says %q", e.text("err"))
	}
	if got := p.metric("config_last_reload_successful"); got != 0 {
		t.Errorf("config_last_reload_successful %v after a bad one", got)
	}
	if s := p.status(); s.Config.Error == "" || len(s.Problems) == 0 {
		t.Errorf("the status does not tell: %+v %v", s.Config, s.Problems)
	}
	if err := os.Remove(s.path("agent.yaml")); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.await(2, "reload rejected: the configuration has errors, the current one stays in force")
	s.append("logs/a.json", joined(jsonRecords(10, 10)))
	s.awaitRows("T", 20)
	p.stop()
	s.wantRows("T", jsonRecords(0, 20))
}

// TestHealth: both answers, from the start to the end.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	script := s.server.Fail(emulator.Fault{Hang: true})
	p := s.run(open + oneJSON)
	p.await(1, "agent is running")
	s.awaitHits(script, 1) // a request: files were looked for
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := p.mustGet(path); code != 200 {
			t.Errorf("%s: %d %q", path, code, text)
		}
	}
	p.signal(syscall.SIGTERM)
	p.await(1, "agent is stopping")
	if code, text := p.mustGet("/readyz"); code != 503 || text != "stopping\n" {
		t.Errorf("/readyz while stopping: %d %q", code, text)
	}
	if code, text := p.mustGet("/healthz"); code != 200 {
		t.Errorf("/healthz while stopping: %d %q", code, text)
	}
	script.Remove()
	p.want(0)
	s.wantRows("T", jsonRecords(0, 10))
}

// TestInterruptedCommand: a command that waits for the service ends at Ctrl-C, with the exit code for that
// and in words for a person.
func TestInterruptedCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", "{\"n\":1}\n")
	s.write("agent.yaml", open+oneJSON)
	for _, command := range []string{"setup", "check"} {
		mute, err := net.Listen("tcp", "127.0.0.1:0") // takes requests and does not answer
		s.must(err)
		s.url = "http://" + mute.Addr().String()
		p := s.launch(command, "--config", s.path("agent.yaml"))
		conn, err := mute.Accept()
		s.must(err)
		p.signal(syscall.SIGINT)
		p.want(exit.Interrupted)
		s.must(errors.Join(conn.Close(), mute.Close()))
		if said := p.log.text(); said != "stopped\n" && said != "stopped\n\n" {
			t.Errorf("%s: %q", command, said)
		}
	}
}
