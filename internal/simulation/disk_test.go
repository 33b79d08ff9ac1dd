package simulation

import (
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
)

const (
	stateDir   = "/state"
	spoolDir   = "/state/spool"
	journalDir = "/state/journal"
)

// diskFaults are what is the matter with the disk: of a hundred operations how many fail,
// by what they are. Guarded by world.mu.
type diskFaults struct {
	full    string // the folder on a disk without room; empty: there is room
	write   int
	sync    int
	read    int    // of the spool
	stall   int    // take longer than anybody waits, and succeed
	in      string // the folder it is so in
	seed    uint64
	counter uint64
}

// hits says whether a fault of so many in a hundred strikes now. Needs world.mu.
func (d *diskFaults) hits(percent int) bool {
	if percent == 0 {
		return false
	}
	d.counter++
	return rand.New(rand.NewPCG(d.seed, d.counter)).IntN(100) < percent
}

// stalls is how long an operation takes that stalls: longer than spool and journal wait.
const stalls = 7 * time.Second

// judge decides about an operation of a process.
func (p *process) judge(op faultfs.Op) faultfs.Verdict {
	if p.dead.Load() {
		return faultfs.Verdict{Err: faultfs.ErrKilled}
	}
	if p.toOp.Add(-1) == 0 {
		p.die("at " + op.Kind + " " + op.Name)
		return faultfs.Verdict{Err: faultfs.ErrKilled, Short: p.torn}
	}
	w := p.w
	w.mu.Lock()
	v, wait := w.judge(op)
	inJournal := strings.HasPrefix(op.Name, journalDir)
	if inJournal && (v.Err != nil || wait) {
		if w.lastBad = time.Now(); w.badSince.IsZero() {
			w.badSince = time.Now()
		}
	}
	if inJournal && op.Kind == "sync" && v.Err == nil && !wait && w.badSince.IsZero() {
		w.synced = time.Now()
	}
	w.mu.Unlock()
	if v.Err != nil || wait {
		w.note("disk %s %s: %v, stalls %v", op.Kind, op.Name, v.Err, wait)
	}
	if wait {
		time.Sleep(stalls)
		if p.dead.Load() {
			return faultfs.Verdict{Err: faultfs.ErrKilled}
		}
	}
	return v
}

func (w *world) judge(op faultfs.Op) (v faultfs.Verdict, wait bool) {
	d := &w.disk
	grows := op.Kind == "create" || op.Kind == "write" || op.Kind == "allocate" || op.Kind == "mkdir"
	switch {
	case d.full != "" && strings.HasPrefix(op.Name, d.full) && grows:
		return faultfs.Verdict{Err: faultfs.NoSpace}, false
	case !strings.HasPrefix(op.Name, d.in):
		return v, false
	case grows && d.hits(d.write):
		return faultfs.Verdict{Err: syscall.EIO, Short: op.N%2 == 0}, false
	case (op.Kind == "sync" || op.Kind == "syncdir") && d.hits(d.sync):
		return faultfs.Verdict{Err: syscall.EIO}, false
	case (op.Kind == "sync" || op.Kind == "write") && d.hits(d.stall):
		return v, true
	}
	return v, false
}

// view is the disk as one process has it: reading fails too.
type view struct {
	*faultfs.FS
	p *process
}

func (v view) Open(name string, flag int) (durable.File, error) {
	f, err := v.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return opened{f, v.p, name}, nil
}

type opened struct {
	durable.File
	p    *process
	name string
}

func (f opened) ReadAt(b []byte, off int64) (int, error) {
	w := f.p.w
	w.mu.Lock()
	bad := f.p.started.Load() && strings.HasPrefix(f.name, spoolDir) && strings.HasSuffix(f.name, ".seg") && w.disk.hits(w.disk.read)
	w.mu.Unlock()
	if bad {
		return 0, &os.PathError{Op: "read", Path: f.name, Err: syscall.EIO}
	}
	return f.File.ReadAt(b, off)
}
