package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/audit"
	"kusto-agent/internal/custody"
)

const quarantineFails = "quarantine write failed: a file with a bad record waits at that record"

// badRecords are n that are no JSON, each about 500 bytes.
func badRecords(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("no json %d %s %s", i, recordMark, strings.Repeat("x", 400))
	}
	return all
}

// takeAway does what a person does: it moves the files of quarantine away once
// they were looked at. It returns how many lines are in them.
func (s *site) takeAway() int {
	s.t.Helper()
	n := len(s.quarantined())
	names, err := filepath.Glob(s.path("state/quarantine/*"))
	s.must(err)
	for i, name := range names {
		to := s.path(fmt.Sprintf("away/%d-%d.jsonl", len(s.away()), i))
		s.must(os.MkdirAll(filepath.Dir(to), 0o700))
		s.must(os.Rename(name, to))
	}
	return n
}

func (s *site) away() []string {
	s.t.Helper()
	names, err := filepath.Glob(s.path("away/*"))
	s.must(err)
	return names
}

// wantAllKept: every bad record is in quarantine or was taken away, once.
func (s *site) wantAllKept(file string, bad []string) {
	s.t.Helper()
	s.takeAway()
	for i, name := range s.away() {
		s.must(os.Rename(name, s.path(fmt.Sprintf("state/quarantine/%d", i))))
	}
	s.wantQuarantine(file, bad...)
}

// TestRequeueOfMalformedJSON: of a line of JSON that is not sound a request with others tells
// nothing, since the service drops it in silence. It stays in quarantine, and others are sent.
func TestRequeueOfMalformedJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	refuse := s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	s.write("logs/a.json", joined([]string{`{"a":1}`, `{"a":2,}`, `{"a":"wont-do"}`}))
	s.once(open+"inputs: [{table: T, paths: [\"${DIR}/logs/a.json\"], mapping: m}]\n", 1)
	refuse.Remove()
	if r, _ := did[custody.Requeued](s, 1, "quarantine", "requeue", "--all"); r.Accepted != 1 || r.Refused != 1 {
		t.Errorf("requeue: %+v", r)
	}
	s.wantRows("T", []string{`{"a":1}`, `{"a":"wont-do"}`})
	if left := s.refusedIDs("--reason", "malformed"); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// TestRequeueFindsTheYear: a record whose line does not tell its year has the one of its file when it
// is sent again, also where another file has taken its path since, or none.
func TestRequeueFindsTheYear(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	refuse := s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	for _, name := range []string{"taken", "gone"} {
		s.write("logs/"+name, "Mar  1 12:00:00 h a: wont-do "+name+"\n")
		then := time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)
		s.must(os.Chtimes(s.path("logs/"+name), then, then))
	}
	s.once(open+"inputs: [{table: T, paths: [\"${DIR}/logs/*\"], parse: syslog, mapping: m, time: {zone: utc}}]\n", 1)
	refuse.Remove()
	s.write("logs/taken", "")
	s.must(os.Remove(s.path("logs/gone")))
	if r, _ := did[custody.Requeued](s, 0, "quarantine", "requeue", "--all"); r.Accepted != 2 {
		t.Errorf("requeue: %+v", r)
	}
	s.wantRows("T", []string{
		`{"time":"2024-03-01T12:00:00Z","host":"h","app":"a","message":"wont-do taken"}`,
		`{"time":"2024-03-01T12:00:00Z","host":"h","app":"a","message":"wont-do gone"}`,
	})
}

const twoInputs = `batch: {max_wait: 10ms}
inputs:
  - {name: bad, paths: ["${DIR}/logs/a.json"], table: Bad, mapping: m}
  - {name: good, paths: ["${DIR}/logs/b.json"], table: Good, mapping: m}
`

// TestFullQuarantineBlocks: the file with the bad records stops at the one that
// does not fit, all others flow, it is told once and seen everywhere, and each
// time a person makes room it goes on by itself.
func TestFullQuarantineBlocks(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	bad, good := badRecords(60), jsonRecords(0, 20)
	s.write("logs/a.json", joined(good[:10])+joined(bad)+joined(good[10:]))
	s.write("logs/b.json", joined(jsonRecords(0, 50)))
	p := s.run(open + "quarantine: {max_size: 16KiB}\n" + twoInputs)
	e := p.await(1, quarantineFails)
	if !strings.Contains(e.text("err"), "quarantine is full: quarantine.max_size is 16KiB") || !strings.Contains(e.text("fix"), "kusto-agent quarantine rm") {
		t.Errorf("says %v", e)
	}
	s.awaitRows("Bad", 10) // what stands before the bad ones
	s.awaitRows("Good", 50)
	p.await(1, "file cannot be read, will retry", "bad record at offset")
	st := p.status()
	if q := st.Quarantine; q.Bytes == 0 || q.Bytes > 16<<10 || q.MaxBytes != 16<<10 || !strings.Contains(q.Error, "is full") || q.Fix == "" || q.Since.IsZero() {
		t.Errorf("status: %+v", q)
	}
	if len(st.Problems) != 2 || !slices.ContainsFunc(st.Problems, func(text string) bool { return strings.Contains(text, "quarantine ls") }) {
		t.Errorf("problems: %q", st.Problems)
	}
	if got := p.metric("quarantine_healthy"); got != 0 {
		t.Errorf("quarantine_healthy %v", got)
	}
	if code, text := p.mustGet("/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, text)
	}
	s.append("logs/b.json", joined(jsonRecords(50, 50)))
	s.awaitRows("Good", 100)
	rounds := 1
	for kept := s.takeAway(); kept < len(bad); rounds++ {
		p.await(rounds, "quarantine writes succeed again")
		p.awaitBooks("bad", func(a account) bool {
			return int(a.quarantined) == len(bad) || int(a.quarantined) > kept && len(p.entries(quarantineFails)) > rounds
		})
		kept += s.takeAway()
	}
	if n := len(p.entries(quarantineFails)); n >= rounds || rounds < 3 {
		t.Errorf("told %d times in %d rounds", n, rounds)
	}
	s.awaitRows("Bad", 20)
	p.awaitBooks("bad", func(a account) bool {
		return a == account{read: 80, accepted: 20, quarantined: 60}
	})
	if st := p.status(); len(st.Problems) != 0 || st.Quarantine.Error != "" || p.metric("quarantine_healthy") != 1 {
		t.Errorf("afterwards: %q, %+v", st.Problems, st.Quarantine)
	}
	p.stop()
	s.wantAllKept("logs/a.json", bad)
	s.wantRows("Bad", good)
	s.wantRows("Good", jsonRecords(0, 100))
}

// TestFullQuarantineHoldsARoute: what the service refuses waits, and with it
// its route, while another delivers.
func TestFullQuarantineHoldsARoute(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	refused := fmt.Sprintf(`{"seq":-1,"note":"wont-do %s"}`, strings.Repeat("x", 600))
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	s.write("state/quarantine/0000000000000001.jsonl", strings.Repeat(`{"old":"line"}`+"\n", 130))
	s.write("logs/a.json", refused+"\n")
	s.write("logs/b.json", joined(jsonRecords(0, 50)))
	p := s.run(open + "quarantine: {max_size: 2KiB}\n" + twoInputs)
	e := p.await(1, "route is held: nothing is sent to its table until the cause is fixed, its records are kept")
	if e["code"] != "quarantine" || !strings.Contains(e.text("err"), "quarantine is full") || e.text("fix") == "" {
		t.Errorf("says %v", e)
	}
	s.awaitRows("Good", 50)
	if got := p.metric("quarantine_healthy"); got != 0 {
		t.Errorf("quarantine_healthy %v", got)
	}
	s.must(os.Remove(s.path("state/quarantine/0000000000000001.jsonl")))
	p.awaitBooks("bad", func(a account) bool { return a == account{read: 1, quarantined: 1} })
	p.await(1, "quarantine writes succeed again")
	p.stop()
	s.wantQuarantine("logs/a.json", refused)
}

// TestQuarantineDropsItsOldest: nothing waits, the newest records are kept, and
// each that had to go is counted and told.
func TestQuarantineDropsItsOldest(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	bad, good := badRecords(200), jsonRecords(0, 20)
	s.write("logs/a.json", joined(good[:10])+joined(bad)+joined(good[10:]))
	p := s.run(open + "quarantine: {max_size: 16KiB, when_full: drop_oldest}\n" + `inputs: [{name: bad, paths: ["${DIR}/logs/a.json"], table: Bad, mapping: m}]`)
	s.awaitRows("Bad", 20)
	p.awaitBooks("bad", func(a account) bool {
		return a == account{read: 220, accepted: 20, quarantined: 200}
	})
	s.append("logs/a.json", joined(bad[:10]))
	p.awaitBooks("bad", func(a account) bool { return a.quarantined == 210 })
	kept := s.quarantined()
	if q := p.status().Quarantine; int(q.Dropped)+len(kept) != 210 || q.Error != "" || q.Bytes > 16<<10 {
		t.Errorf("%d lines are kept, status %+v", len(kept), q)
	}
	if got := p.metric("quarantine_dropped_records_total"); int(got)+len(kept) != 210 {
		t.Errorf("quarantine_dropped_records_total %v, %d lines are kept", got, len(kept))
	}
	last := kept[len(kept)-1]
	if data, _ := last["data"].(string); data != bad[9]+"\n" {
		t.Errorf("the last line is %v", last)
	}
	told := int64(0)
	for _, e := range append(p.entries("quarantine is full: the oldest file was removed, its records are lost"), p.entries("records are larger than quarantine.max_size and are lost")...) {
		told += e.number("records")
	}
	if int(told)+len(kept) != 210 {
		t.Errorf("the log tells of %d, %d lines are kept", told, len(kept))
	}
	p.stop()
	s.wantRows("Bad", good)
	gone := int64(0)
	for _, f := range s.audited(0).Files {
		for _, x := range f.Troubles {
			if x.Problem == audit.Evicted {
				gone += x.Records
			}
		}
	}
	if gone != told {
		t.Errorf("audit names %d records that quarantine dropped, the log %d", gone, told)
	}
}

// TestQuarantineOnAFullDisk: records wait in their files while the disk is full
// or read-only, it is told once each, and it goes on by itself.
func TestQuarantineOnAFullDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("state/quarantine/.keep", "")
	if err := syscall.Mount("tmpfs", s.path("state/quarantine"), "tmpfs", 0, "size=1M"); err != nil {
		t.Skipf("the kernel refuses a disk of its own: %v", err)
	}
	t.Cleanup(func() { s.must(syscall.Unmount(s.path("state/quarantine"), syscall.MNT_DETACH)) })
	s.fill("state/quarantine/full")
	bad := badRecords(3)
	s.write("logs/a.json", bad[0]+"\n")
	s.write("logs/b.json", joined(jsonRecords(0, 50)))
	p := s.run(open + twoInputs)
	s.awaitRows("Good", 50)
	e := p.await(1, quarantineFails, "no space left on device")
	if !strings.Contains(e.text("fix"), "make room on the disk") {
		t.Errorf("says %v", e)
	}
	p.await(1, "file cannot be read, will retry", "a.json", "no space left")
	s.must(os.Remove(s.path("state/quarantine/full")))
	p.awaitBooks("bad", func(a account) bool { return a == account{read: 1, quarantined: 1} })
	p.await(1, "quarantine writes succeed again")
	p.stop()

	// It starts on a disk that is read-only, too.
	remount := func(flags uintptr) {
		s.must(syscall.Mount("", s.path("state/quarantine"), "", syscall.MS_REMOUNT|flags, ""))
	}
	remount(syscall.MS_RDONLY)
	s.append("logs/a.json", joined(bad[1:]))
	s.append("logs/b.json", joined(jsonRecords(50, 50)))
	p = s.run(open + twoInputs)
	s.awaitRows("Good", 100)
	if e := p.await(1, quarantineFails, "read-only file system"); !strings.Contains(e.text("fix"), "writable") {
		t.Errorf("says %v", e)
	}
	p.await(1, "file cannot be read, will retry", "a.json", "read-only")
	remount(0)
	p.awaitBooks("bad", func(a account) bool { return a == account{read: 2, quarantined: 2} })
	p.stop()
	if n := len(p.entries(quarantineFails)); n != 1 {
		t.Errorf("told %d times", n)
	}
	s.wantQuarantine("logs/a.json", bad...)
}
