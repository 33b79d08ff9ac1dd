package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// What is sent again, and by which settings, on the real program. What is decided is
// tested as a table in package recovery.

// TestReloadThenKill: a batch keeps its shape. After a reload with other settings and a
// kill no table gets records in a shape, or by a mapping, that they were not read for, and
// nothing is lost.
func TestReloadThenKill(t *testing.T) {
	t.Parallel()
	f := func(name, before, after string, old, now map[string][]string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			hang := s.server.Fail(emulator.Fault{Hang: true, Reset: true})
			s.write("logs/a.log", "a=1 b=2\n")
			const config = open + "batch: {max_wait: 10ms}\n"
			p := s.run(config + before)
			s.awaitHits(hang, 1)
			p.reload(1, config+after)
			s.append("logs/a.log", "a=3 b=4\n")
			s.awaitHits(hang, 2)
			s.killHeld(p, hang)
			p = s.once(config+after, 0)
			for table, rows := range old {
				s.wantRows(table, rows)
			}
			for table, rows := range now {
				s.wantRows(table, rows)
			}
			e := p.told(sentAnew)
			if e.text("ranges") == "" || e.text("replaced_by") == "" {
				t.Errorf("says %v", e)
			}
			p.told(sentAgain) // what was read after the reload
			if n := len(s.once(config+after, 0).entries(sentAnew)); n > 0 {
				t.Errorf("the next run names %d", n)
			}
		})
	}
	input := func(more string) string { return `inputs: [{name: in, paths: ["${DIR}/logs/*.log"], ` + more + "}]\n" }
	text := input("format: JSON, parse: text, mapping: mt, table: J")
	parsed := []string{`{"a":"1","b":"2"}`, `{"a":"3","b":"4"}`}
	plain := []string{"a=1 b=2", "a=3 b=4"}
	f("text to logfmt", text, input("format: JSON, parse: logfmt, mapping: ml, table: L"),
		map[string][]string{"J": nil}, map[string][]string{"L": parsed})
	f("text to TXT", text, input("format: TXT, table: T"),
		map[string][]string{"J": nil}, map[string][]string{"T": plain})
	f("another mapping of one table", text, input("format: JSON, parse: logfmt, mapping: ml, table: J"),
		nil, map[string][]string{"J": parsed})
	f("fields", input("format: TXT, table: T"), input("format: JSON, parse: logfmt, mapping: ml, table: T, fields: {env: x}"),
		nil, map[string][]string{"T": {`{"a":"1","b":"2","env":"x"}`, `{"a":"3","b":"4","env":"x"}`}})
}

// spoolAll runs the agent while the endpoint is down until that many records of an input wait in the
// spool, and stops it. The endpoint is down until the result is removed.
func (s *site) spoolAll(config, input string, records float64) (down *emulator.Script) {
	s.t.Helper()
	down = s.server.Fail(emulator.Fault{Status: 503})
	p := s.run(config)
	p.awaitBooks(input, func(a account) bool { return a.spooled == records })
	p.stop()
	return down
}

// TestDamagedThenChanged: what was spooled goes as it was read, also after a changed
// configuration, but for what is damaged there: that is read anew, for where it goes now.
func TestDamagedThenChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	config := open + hasty + "batch: {max_records: 1, max_wait: 10ms}\n" + `inputs: [{name: in, paths: ["${DIR}/logs/*.log"], format: JSON, `
	s.write("logs/a.log", "a=1\na=2\na=3\n")
	away := s.spoolAll(config+"parse: text, mapping: mt, table: J}]\n", "in", 3)
	all := s.spooled()
	bad := all[slices.IndexFunc(all, func(e inSpool) bool { return e.Ranges[0].Start == 4 })]
	s.flip("state/spool/"+bad.Segment, bad.Offset+bad.Bytes-10)
	away.Remove()
	p := s.once(config+"parse: logfmt, mapping: ml, table: L}]\n", 0)
	s.wantRows("J", []string{`{"message":"a=1"}`, `{"message":"a=3"}`})
	s.wantRows("L", []string{`{"a":"2"}`})
	if e := p.told("spooled batch was lost and was read with other settings than its input has now; its ranges are read again"); e["batch"] != bad.Batch {
		t.Errorf("says %v", e)
	}
}

// TestSpoolIsBack: the disk of the spool was not there at one start or two, and the files were gone,
// so that its payloads were given up. Once it is there again they are sent, and the audit says so.
func TestSpoolIsBack(t *testing.T) {
	t.Parallel()
	for starts := 1; starts <= 2; starts++ {
		t.Run(fmt.Sprint(starts), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			records := jsonRecords(0, 10)
			s.write("logs/a.json", joined(records))
			const config = open + "send: {retry: {initial: 10ms, max: 100ms, patience: 100ms}}\n" + oneJSON
			s.spoolAll(config, "T", 10).Remove()
			s.rename("state/spool", "spool.away")
			s.must(os.Remove(s.path("logs/a.json")))
			for n := range starts {
				p := s.run(config)
				p.awaitBooks("T", func(a account) bool { return n > 0 || a.dropped == 10 })
				p.stop()
				if got := faults(s.audited(1)); got != "source_gone" {
					t.Errorf("without the spool the audit tells of %q", got)
				}
			}
			s.must(os.RemoveAll(s.path("state/spool")))
			s.rename("spool.away", "state/spool")
			p := s.run(config)
			s.awaitRows("T", 10)
			p.awaitBooks("T", func(a account) bool { return a.accepted == 10 && a.spooled == 0 })
			p.stop()
			s.wantRows("T", records)
			r := s.audited(0)
			if a := r.Sum(); a.Accepted.Records != 10 || a.Gone.Records != 0 {
				t.Errorf("the audit tells of %q, %d records accepted and %d gone", problems(r), a.Accepted.Records, a.Gone.Records)
			}
		})
	}
}

// TestSpoolLostAPart: of a payload of two files that the spool lost one file is left. Its records are
// stored, and the audit says of the others that they are lost, and why.
func TestSpoolLostAPart(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := jsonRecords(0, 20)
	s.write("logs/a.json", joined(records[:10]))
	s.write("logs/b.json", joined(records[10:]))
	const config = open + "send: {retry: {initial: 10ms, max: 100ms, patience: 100ms}}\nbatch: {max_wait: 200ms}\n" + oneJSON
	s.spoolAll(config, "T", 20).Remove()
	s.must(os.RemoveAll(s.path("state/spool")))
	s.must(os.Remove(s.path("logs/b.json")))
	p := s.run(config)
	p.awaitBooks("T", func(a account) bool { return a.accepted == 10 && a.dropped == 10 })
	p.stop()
	s.wantRows("T", records[:10])
	r := s.audited(1)
	if sum := r.Sum(); faults(r) != "source_gone" || sum.Accepted.Records != 10 || sum.Gone.Records != 10 {
		t.Errorf("the audit tells of %q, %d records accepted and %d gone", faults(r), sum.Accepted.Records, sum.Gone.Records)
	}
}

// TestLostWhileUnreadable: what is begun, or vanishes from the spool, while its file cannot
// be read is sent as soon as it can, without a restart.
func TestLostWhileUnreadable(t *testing.T) {
	t.Parallel()
	unreadable := func(t *testing.T) *site {
		s := newSite(t, emulator.Options{})
		s.refusable()
		s.env = []string{fastRetries + "=100ms"}
		return s
	}
	t.Run("begun", func(t *testing.T) {
		t.Parallel()
		s := unreadable(t)
		records := jsonRecords(0, 20)
		s.write("logs/a.json", joined(records[:10]))
		hang := s.server.Fail(emulator.Fault{Hang: true, Reset: true})
		p := s.run(open + oneJSON)
		s.awaitHits(hang, 1)
		s.killHeld(p, hang)
		s.append("logs/a.json", joined(records[10:]))
		s.must(os.Chmod(s.path("logs/a.json"), 0))
		p = s.run(open + oneJSON)
		p.told(batchWaits)
		s.must(os.Chmod(s.path("logs/a.json"), 0o644))
		s.awaitRows("T", 20)
		p.awaitBooks("T", func(a account) bool { return a.accepted == 20 })
		p.told(batchWaits)
		p.stop()
		s.wantRows("T", records)
	})
	t.Run("begun, moved in a folder that cannot be listed", func(t *testing.T) {
		t.Parallel()
		s := unreadable(t)
		records := jsonRecords(0, 10)
		s.write("logs/a.json", joined(records))
		hang := s.server.Fail(emulator.Fault{Hang: true, Reset: true})
		p := s.run(open + oneJSON)
		s.awaitHits(hang, 1)
		s.killHeld(p, hang)
		s.rename("logs/a.json", "logs/a.json.1")
		s.must(os.Chmod(s.path("logs"), 0o311))
		p = s.run(open + oneJSON)
		p.told(batchWaits)
		s.must(os.Chmod(s.path("logs"), 0o755))
		s.awaitRows("T", 10)
		p.stop()
		s.wantRows("T", records)
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		s := unreadable(t)
		away := s.server.Fail(emulator.Fault{Status: 503})
		records := jsonRecords(0, 10)
		s.write("logs/a.json", joined(records))
		p := s.run(open + hasty + oneJSON)
		p.awaitBooks("T", func(a account) bool { return a.spooled == 10 })
		s.must(os.Chmod(s.path("logs/a.json"), 0))
		s.removeSegments()
		// An attempt that read the payload before would store it once the endpoint is back.
		p.await(1, "spooled batch was lost and cannot be read again now, will retry")
		away.Remove()
		if a := p.mustBooks()["T"]; a.spooled != 10 || a.dropped != 0 {
			t.Errorf("books %+v", a)
		}
		s.must(os.Chmod(s.path("logs/a.json"), 0o644))
		p.awaitBooks("T", func(a account) bool { return a.accepted == 10 })
		p.stop()
		s.wantRows("T", records)
	})
}

// removeSegments removes what is in the spool.
func (s *site) removeSegments() {
	s.t.Helper()
	all, err := filepath.Glob(s.path("state/spool/*.seg"))
	s.must(err)
	for _, path := range all {
		s.must(os.Remove(path))
	}
	if len(all) == 0 {
		s.t.Fatal("no segment")
	}
}

// TestLostForAnotherCluster: what vanishes from the spool for a cluster that nobody sends
// to any more is read anew for where its input sends now.
func TestLostForAnotherCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	_, old := s.endpoint(emulator.Options{})
	s.env = []string{"OLD=" + s.deadURL(), "OTHER=" + old}
	records := jsonRecords(0, 20)
	s.write("logs/a.json", joined(records[:10]))
	config := open + hasty + "inputs: [{paths: [\"${DIR}/logs/*.json\"], table: T, mapping: m, rotate_quiet: 50ms}]\n"
	p := s.run(strings.Replace(config, "${URL}", "${OLD}", 1))
	p.awaitBooks("T", func(a account) bool { return a.spooled == 10 })
	p.stop()
	away := s.server.Fail(emulator.Fault{Status: 503})
	p = s.run(config)
	s.append("logs/a.json", joined(records[10:]))
	p.awaitBooks("T", func(a account) bool { return a.spooled == 20 })
	s.removeSegments()
	away.Remove()
	p.awaitBooks("T", func(a account) bool { return a.accepted >= 10 && a.pending == 0 && a.accepted+a.spooled == 20 })
	p.stop()
	s.once(config, 0)
	s.wantRows("T", records)
}

// TestCutSegment: what a cut segment held is read again, or counted to the record where its
// source is gone too.
func TestCutSegment(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("source gone %v", gone), func(t *testing.T) {
			t.Parallel()
			const n = 1000
			s := newSite(t, emulator.Options{})
			config := open + hasty + "batch: {max_size: 4KiB, max_wait: 10ms}\n" + oneJSON
			records := jsonRecords(0, n)
			s.write("logs/a.json", joined(records))
			away := s.spoolAll(config, "T", n)
			all, err := filepath.Glob(s.path("state/spool/*.seg"))
			s.must(err)
			info, err := os.Stat(all[0])
			s.must(err)
			s.must(os.Truncate(all[0], info.Size()*4/5))
			if gone {
				s.must(os.Remove(s.path("logs/a.json")))
			}
			away.Remove()
			p := s.run(config)
			p.awaitBooks("T", func(a account) bool { return a.accepted+a.dropped == n && a.pending+a.spooled == 0 })
			a := p.mustBooks()["T"]
			if stored := s.server.RowCount("Logs", "T"); int(a.accepted) != stored || gone != (a.dropped > 0) {
				t.Errorf("books %+v, %d rows", a, stored)
			}
			p.stop()
			if !gone {
				s.wantRows("T", records)
			}
		})
	}
}
