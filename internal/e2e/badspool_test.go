package e2e

import (
	"testing"

	"kusto-agent/emulator"
)

// outage is an agent whose service does not answer.
type outage struct {
	*site
	config string
	script *emulator.Script
	p      *process
	n      int // records written
}

// newOutage begins one; state says what to do about the state disk before.
func newOutage(t *testing.T, inputs string, state func(s *site)) *outage {
	o := &outage{site: newSite(t, emulator.Options{})}
	if state != nil {
		state(o.site)
	}
	o.config = open + "journal: {max_size: 1MiB}\nspool: {min_free: 0}\nbatch: {max_size: 16KiB, max_wait: 10ms}\n" + impatient + inputs
	o.script = o.server.Fail(emulator.Fault{Status: 503})
	o.p = o.run(o.config)
	return o
}

func (o *outage) more(n int) {
	o.append("logs/a.json", joined(jsonRecords(o.n, n)))
	o.n += n
}

// awaitSpooled waits until all that was written is in the spool.
func (o *outage) awaitSpooled() {
	o.t.Helper()
	o.p.awaitBooks("T", func(a account) bool { return int(a.read) == o.n && a.spooled > 0 && a.spooled > a.pending })
}

// over ends the outage, and expects all there once, and nothing in doubt.
func (o *outage) over() {
	o.t.Helper()
	o.script.Remove()
	o.awaitRows("T", o.n)
	o.p.awaitSafe("T")
	o.p.stop()
	o.wantNothingAgain(o.config)
	o.wantRows("T", jsonRecords(0, o.n))
}

// TestOutageOnFullStateDisk: the files are the buffer, and a route has two payloads
// in memory.
func TestOutageOnFullStateDisk(t *testing.T) {
	t.Parallel()
	f := func(name string, back bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t, oneJSON, func(s *site) { s.disk("state", "size=4M") })
			o.p.await(1, "agent is running")
			o.fill("state/full")
			o.more(10)
			o.p.await(1, clusterDown)
			o.more(5000)
			o.p.told(spoolFails)
			o.p.awaitMetric("spool_healthy", 0)
			o.rename("logs/a.json", "logs/a.json.1")
			o.more(5000)
			o.awaitHits(o.script, 5)
			for _, r := range o.p.status().Routes {
				if r.Queued+r.InFlight > 2 {
					t.Errorf("%d payloads in hand", r.Queued+r.InFlight)
				}
			}
			if back {
				o.empty("state/full")
				o.p.told(spoolIsBack)
				o.p.awaitBooks("T", func(a account) bool { return a.spooled > 0 })
			}
			o.script.Remove()
			o.awaitRows("T", o.n)
			o.empty("state/full")
			o.over()
		})
	}
	f("to the end", false)
	f("with room again", true)
}

// TestDurabilityOnFullStateDisk: what is to be in the spool first is posted
// directly while the spool takes nothing.
func TestDurabilityOnFullStateDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.disk("state", "size=4M")
	s.fill("state/full")
	s.write("logs/a.json", joined(jsonRecords(0, 5000)))
	p := s.run(open + "journal: {max_size: 1MiB}\nspool: {min_free: 0}\n" +
		"inputs: [{paths: [\"${DIR}/logs/*.json\"], table: T, mapping: m, durability: spool}]\n")
	s.awaitRows("T", 5000)
	p.told(spoolFails)
	if a := p.awaitSafe("T"); a.accepted != 5000 {
		t.Errorf("books %+v", a)
	}
	s.wantRows("T", jsonRecords(0, 5000))
}

// TestSpoolSyncFails: the segment is left alone and what it had goes to another;
// kill -9 after that loses nothing and doubles nothing.
func TestSpoolSyncFails(t *testing.T) {
	t.Parallel()
	f := func(name, inject string, every bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t, oneJSON, nil)
			o.p.await(1, "agent is running")
			paths := o.segments("state/spool")
			if !every {
				paths = paths[2:3] // the first segment
			}
			bad := o.p.inject(inject, paths...)
			o.more(2000)
			if every {
				o.p.told(spoolFails)
				o.p.awaitMetric("spool_healthy", 0)
				bad.stop()
				o.p.told(spoolIsBack)
			}
			o.awaitSpooled()
			bad.stop()
			bad.wantNoSecondSync()
			o.p.kill()
			o.p = o.run(o.config)
			o.over()
		})
	}
	f("once", "fdatasync,pwrite64:error=EIO", false)
	f("sync", "fdatasync:error=EIO", true)
	f("no room", "pwrite64,fallocate:error=ENOSPC", true)
	f("over quota", "pwrite64,fallocate:error=EDQUOT", true)
}

// TestSpoolReadFails: a payload that cannot be read from the spool is read again
// from its files, and counted where they are gone.
func TestSpoolReadFails(t *testing.T) {
	t.Parallel()
	f := func(name string, gone bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t, oneJSON, nil)
			o.more(2000)
			o.awaitSpooled()
			if gone {
				o.write("logs/a.json", "") // not even a descriptor has it
			}
			o.p.inject("pread64:error=EIO", o.segments("state/spool")...)
			if !gone {
				o.over()
				return
			}
			o.script.Remove()
			a := o.p.awaitSafe("T")
			if a.dropped == 0 || a.accepted+a.dropped != a.read+a.restored || a.read != float64(o.n) {
				t.Errorf("books %+v", a)
			}
			o.p.await(1, "records were in the spool and are lost: their source is gone too")
			if got := float64(o.server.RowCount("Logs", "T")); got != a.accepted {
				t.Errorf("%v rows, %v accepted", got, a.accepted)
			}
		})
	}
	f("from its files", false)
	f("source gone", true)
}

// TestSpoolReadHangs: what lies on a disk that does not answer waits there, and
// what comes new goes on.
func TestSpoolReadHangs(t *testing.T) {
	t.Parallel()
	o := newOutage(t, oneJSON, nil)
	o.more(2000)
	o.awaitSpooled()
	bad := o.p.inject("pread64:delay_enter=600000000", o.segments("state/spool")...)
	o.script.Remove()
	o.p.told("spool read failed: its disk does not respond, spooled payloads wait")
	o.p.awaitMetric("spool_healthy", 0)
	for range 3 {
		rows := o.server.RowCount("Logs", "T")
		o.more(500)
		o.awaitRows("T", rows+500)
	}
	if a := o.p.mustBooks()["T"]; a.spooled == 0 {
		t.Errorf("books %+v", a)
	}
	bad.stop()
	o.p.told("spool reads succeed again")
	o.over()
}
