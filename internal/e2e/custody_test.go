package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/custody"
	"kusto-agent/internal/telemetry"
)

// twoPlaces has an input whose cluster is out of reach, so that what it reads waits in the
// spool, and one whose cluster answers.
const twoPlaces = `batch: {max_records: 10, max_wait: 10ms}
send: {retry: {initial: 10ms, max: 100ms, patience: 100ms}}
clusters: {far: {url: "${FAR}", database: Logs, auth: {method: none}}}
inputs:
  - {name: far, paths: ["${DIR}/logs/far.json"], table: Far, mapping: m, cluster: far}
  - {name: here, paths: ["${DIR}/logs/here.json"], table: Here, mapping: m}
`

// seqRecords are n records that a command may print.
func seqRecords(first, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`{"seq":%d}`, first+i))
	}
	return all
}

// did is the document that a command prints which changes something.
func did[T any](s *site, code int, args ...string) (out T, words string) {
	s.t.Helper()
	text, words := s.show(code, append(args, "--json", "--config", s.path("agent.yaml"))...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatalf("%v: %s %s", err, text, words)
	}
	return out, words
}

// refusedIDs are the IDs of the records in quarantine, in the order of their offsets.
func (s *site) refusedIDs(flags ...string) (ids []string) {
	s.t.Helper()
	out, _ := s.show(0, append([]string{"quarantine", "ls", "--config", s.path("agent.yaml")}, flags...)...)
	var all [][]string
	for _, line := range strings.Split(out, "\n")[1:] {
		all = append(all, strings.Fields(line))
	}
	slices.SortFunc(all, func(a, b []string) int { return strings.Compare(a[5], b[5]) }) // as long as each other
	for _, words := range all {
		ids = append(ids, words[0])
	}
	return ids
}

// heldBack has 40 records wait in the spool, in payloads of ten, and three in quarantine.
func (s *site) heldBack() *process {
	s.t.Helper()
	s.env = append(s.env, "FAR="+s.deadURL())
	s.write("logs/far.json", joined(seqRecords(0, 40)))
	refuse := s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	s.write("logs/here.json", joined(append(seqRecords(40, 5), `{"a":"wont-do 1"}`, `{"a":"wont-do 2"}`, `{"a":"wont-do 3"}`)))
	p := s.run(open + twoPlaces)
	s.awaitRows("Here", 5)
	s.until("payloads are spooled and records refused", func() bool {
		st := p.status()
		return st.Spool != nil && st.Spool.Payloads == 4 && len(s.quarantined()) == 3 && p.metric("records_spooled", `input="far"`) == 40 && p.metric("records_quarantined_total") == 3
	})
	refuse.Remove()
	return p
}

// TestAPersonChangesWhatIsKept: of an agent that runs, and of one that does not, payloads
// are given up and moved, and records are given up and sent again; nothing is lost without
// a word, and the agent goes on with the rest.
func TestAPersonChangesWhatIsKept(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			p := s.heldBack()
			config := s.path("agent.yaml")
			if !running {
				p.stop()
			}
			type payload struct {
				Batch  string
				Ranges []struct{ Start int64 }
			}
			var all []payload
			for line := range strings.Lines(s.launch("spool", "ls", "--json", "--config", config).want(0).out.text()) {
				var d payload
				s.must(json.Unmarshal([]byte(line), &d))
				all = append(all, d)
			}
			slices.SortFunc(all, func(a, b payload) int { return int(a.Ranges[0].Start - b.Ranges[0].Start) })
			var batches []string // in the order of the file
			for _, d := range all {
				batches = append(batches, d.Batch)
			}
			if len(batches) != 4 {
				t.Fatalf("%d payloads", len(batches))
			}
			got := slices.Sorted(strings.Lines(s.launch("spool", "export", "--config", config).want(0).out.text()))
			if want := slices.Sorted(strings.Lines(s.read("logs/far.json"))); !slices.Equal(got, want) {
				t.Errorf("exported %d lines, want those of the file", len(got))
			}
			out, _ := s.show(0, "spool", "inspect", batches[3][:8], "--records", "1", "--config", config)
			if !strings.Contains(out, "the first 1 record of 10") || !strings.Contains(out, "input far") || running != strings.Contains(out, "why       its route is down") {
				t.Errorf("inspect shows\n%s", out)
			}

			// Two are given up, those left are moved to the cluster that answers. The sender
			// may have one in hand as a probe: then it is asked for again.
			_, words := s.show(64, "spool", "rm", "--input", "far", "--config", config)
			if !strings.Contains(words, "add --yes") {
				t.Errorf("without a person it says %s", words)
			}
			var gone custody.Removed
			left := batches[:2]
			s.until("two payloads are given up", func() bool {
				q := s.launch(append([]string{"spool", "rm", "--yes", "--json", "--config", config}, left...)...)
				<-q.ended
				var r custody.Removed
				s.must(json.Unmarshal([]byte(q.out.text()), &r))
				gone.Payloads, gone.Records, left = gone.Payloads+r.Payloads, gone.Records+r.Records, r.Busy
				return len(left) == 0
			})
			if gone.Payloads != 2 || gone.Records != 20 {
				t.Errorf("given up: %+v", gone)
			}
			if out, _ := s.show(0, "spool", "ls", "--json", "--config", config); strings.Count(out, "\n") != 1 || strings.Contains(out, batches[0]) || strings.Contains(out, batches[1]) {
				t.Errorf("after that ls shows\n%s", out)
			}
			if running && p.metric("records_dropped_total", `input="far"`, `reason="removed"`) != 20 {
				t.Error("they are not counted as removed")
			}

			// Of three records one is given up, one goes to another table, and one to its own.
			lines := s.refusedIDs()
			if r, _ := did[custody.Removed](s, 0, "quarantine", "rm", lines[0], "--yes"); r.Records != 1 {
				t.Errorf("given up: %+v", r)
			}
			if r, _ := did[custody.Requeued](s, 0, "quarantine", "requeue", lines[1], "--to", "Other"); r.Accepted != 1 {
				t.Errorf("sent again: %+v", r)
			}
			if r, _ := did[custody.Requeued](s, 0, "quarantine", "requeue", "--all"); r.Accepted != 1 {
				t.Errorf("sent again: %+v", r)
			}
			s.wantRows("Other", []string{`{"a":"wont-do 2"}`})
			if left := s.refusedIDs("--reason", "refused"); len(left) != 0 {
				t.Errorf("left are %v", left)
			}

			moved := 0
			s.until("two payloads are moved", func() bool {
				q := s.launch("spool", "replay", "--cluster", strings.TrimPrefix(s.env[len(s.env)-1], "FAR=")+"/", "--json", "--config", config)
				<-q.ended
				var r custody.Replayed
				if json.Unmarshal([]byte(q.out.text()), &r) == nil {
					moved += r.Payloads
				}
				return moved == 2
			})
			if !running {
				p = s.run(open + twoPlaces)
			}
			s.awaitRows("Far", 20)
			s.wantRows("Far", seqRecords(20, 20))
			s.wantRows("Here", append(seqRecords(40, 5), `{"a":"wont-do 3"}`))
			p.stop()
			r := s.audited(0)
			if got := faults(r); got != "removed removed" {
				t.Errorf("audit tells of %q", got)
			}
			for _, f := range r.Files {
				for _, to := range f.Routes {
					if to.Accepted.Records > 0 && to.Cluster != s.server.URL() {
						t.Errorf("audit says that %s accepted %d records of %s, and all went to %s", to.Cluster, to.Accepted.Records, f.Path, s.server.URL())
					}
				}
			}
			p.finish()
		})
	}
}

// TestABatchThatFailedAloneIsForgottenOnceItIsGone: a batch that keeps failing while others of its
// table are accepted is shown as long as it waits, and no longer once a person has removed or moved
// it, or it was dropped for its age.
func TestABatchThatFailedAloneIsForgottenOnceItIsGone(t *testing.T) {
	t.Parallel()
	// Called until the batch has left the spool: at any moment it may be in a request.
	byCommand := func(line string) func(*site, *process) {
		return func(s *site, _ *process) {
			args := strings.Fields(strings.ReplaceAll(line, "URL", s.url))
			<-s.launch(append(args, "--all", "--config", s.path("agent.yaml"))...).ended
		}
	}
	for name, leave := range map[string]func(*site, *process){
		"removed": byCommand("spool rm --yes"),
		"moved":   byCommand("spool replay --cluster URL --to far"),
		"too old": func(s *site, p *process) {
			s.write("agent.yaml", open+"spool: {max_age: 1ms}\n"+twoPlaces)
			p.signal(syscall.SIGHUP)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.env = append(s.env, "FAR="+s.deadURL())
			s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "fails"}, Status: 500, Permanent: new(bool)})
			s.write("logs/here.json", `{"a":"fails"}`+"\n")
			p := s.run(open + twoPlaces)
			here := func() (r telemetry.Route) {
				for _, r = range p.status().Routes {
					if r.Table == "Here" {
						return r
					}
				}
				return telemetry.Route{}
			}
			s.until("a batch fails alone and rests in the spool", func() bool {
				s.append("logs/here.json", "{}\n")
				return here().FailingAlone == 1 && here().Spooled == 1
			})
			s.until("it is not in the spool for its table any more", func() bool {
				leave(s, p)
				r := here()
				return r.Spooled+r.Queued+r.InFlight == 0
			})
			if r := here(); r.FailingAlone != 0 {
				t.Errorf("%+v, want none that fails alone", r)
			}
			p.stop()
		})
	}
}

// TestAKillDuringARequeueIsNamed: the record stays in quarantine, and the next start says
// that it may be stored.
func TestAKillDuringARequeueIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	p := s.heldBack()
	hang := s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do 2"}, When: emulator.AfterCommit, Hang: true})
	line := s.refusedIDs()[1]
	q := s.launch("quarantine", "requeue", line, "--config", s.path("agent.yaml"))
	s.awaitHits(hang, 1)
	s.killHeld(p, hang)
	<-q.ended
	if q.code() == 0 {
		t.Error("a requeue of which the agent was killed says that all is well")
	}
	p = s.run(open + twoPlaces)
	e := p.await(1, "an earlier process ended during a requeue: its records may be stored, they stay in quarantine, and requeuing them again may store them twice")
	out, _ := s.show(0, "quarantine", "ls", line, "--config", s.path("agent.yaml"))
	if !strings.Contains(out, "(perhaps stored, batch "+e.text("batch")+")") {
		t.Errorf("the list shows\n%s", out)
	}
	if _, err := os.Stat(s.path("state/quarantine/requeue.json")); err == nil {
		t.Error("the note is still there")
	}
	others := len(s.refusedIDs()) - 1
	if r, words := did[custody.Requeued](s, 1, "quarantine", "requeue", "--all"); r.Accepted != others || !strings.Contains(words, "left out: 1 record that may be stored already") {
		t.Errorf("all sent again: %+v, %s", r, words)
	}
	if r, words := did[custody.Requeued](s, 1, "quarantine", "requeue", "--input", "here"); r.Accepted != 0 || !strings.Contains(words, "left out: 1 record") {
		t.Errorf("those of an input sent again: %+v, %s", r, words)
	}
	if r, _ := did[custody.Requeued](s, 0, "quarantine", "requeue", line); r.Accepted != 1 {
		t.Errorf("sent again: %+v", r)
	}
	s.wantRows("Here", append(seqRecords(40, 5), `{"a":"wont-do 1"}`, `{"a":"wont-do 2"}`, `{"a":"wont-do 2"}`, `{"a":"wont-do 3"}`))
	p.stop()
}

// TestAChangeBesideAStart: a command that changes what is kept, and an agent that starts at that
// moment, wait for each other.
func TestAChangeBesideAStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	p := s.heldBack()
	ids := s.refusedIDs()
	if len(ids) == 0 {
		t.Fatal("nothing is in quarantine")
	}
	for _, line := range ids {
		p.stop()
		q := s.launch("quarantine", "rm", line, "--yes", "--config", s.path("agent.yaml"))
		p = s.run(open + twoPlaces)
		q.want(0)
		p.await(1, "agent is running")
	}
	if left := s.refusedIDs(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	p.stop()
}
