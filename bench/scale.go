package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// Crowd is a folder of many files, few of which are written to.
type Crowd struct {
	Name   string
	Idle   int           // files of one record, never written to again, 1,000 in a folder
	Active int           // files that get a record each second
	Full   bool          // one more file is never read to its end
	Others int           // names that match nothing, 1,000 in a folder; the pattern walks through all of them
	Born   int           // files that are made during the run, with one record each
	Watch  string        // auto or poll
	Memory string        // limits.memory; empty: its default
	Again  bool          // the agent is ended and started again before the account
	Settle time.Duration // from the arrival of what was there to the begin of the account
	Length time.Duration // of the account
}

// Steady is what the agent costs behind a crowd, and how long its records take.
type Steady struct {
	Taken       time.Duration // from exec to the arrival of the last record that was there
	Cores       float64       // CPU time by the clock: 0.01 is a hundredth of a core
	Resident    int64         // bytes at the end (VmRSS)
	Peak        int64         // bytes (VmHWM)
	Descriptors int           // open at the end
	FullRate    float64       // bytes a second that arrived of the file that is never read to its end
	Delays
}

// Delays are how long records took from being written to arrival, the least first.
type Delays []time.Duration

// Delay is how long so much of the records took at most: 0.99 of them.
func (d Delays) Delay(part float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(int(part*float64(len(d))), len(d)-1)]
}

// Crowd runs the agent behind a crowd, accounts for it, and sees that what was
// written arrived once.
func (r *Rig) Crowd(c Crowd) (st Steady, err error) {
	dir, err := os.MkdirTemp(r.dir, "crowd-")
	if err != nil {
		return st, err
	}
	defer os.RemoveAll(dir)
	w := &crowd{Crowd: c, dir: dir}
	defer w.close()
	if err := w.make(); err != nil {
		return st, err
	}
	_, rep, err := r.follow(filepath.Join(dir, "**", "*.json"), []string{"watch: " + c.Watch, `exclude: ["*.data"]`}, c.limits(), func(p *process) (_ Share, err error) {
		if c.Again {
			err = errors.Join(r.await(p, w.bytes), p.stop(), p.start(exec.Command(p.cmd.Path, p.cmd.Args[1:]...)))
		}
		if err == nil {
			st, err = r.account(p, w)
		}
		return Share{w.seq + int(w.full.records.Load()), w.bytes + w.full.bytes.Load()}, err
	})
	st.Delays = rep.Delays
	return st, err
}

// limits is a line of the configuration.
func (c Crowd) limits() string {
	if c.Memory == "" {
		return ""
	}
	return "limits: {memory: " + c.Memory + "}"
}

// account lets a crowd write, and accounts for what p does meanwhile.
func (r *Rig) account(p *process, w *crowd) (st Steady, err error) {
	if err := r.await(p, w.bytes); err != nil {
		return st, err
	}
	st.Taken = time.Since(p.began)
	full := w.full.start(r)
	err = w.write(w.Settle)
	var before, after int64
	if err == nil {
		err = r.ask("/arrived", nil, &before)
	}
	cpu, began, own := p.cpuNow(), time.Now(), w.bytes
	if err == nil {
		err = w.write(w.Length)
	}
	if err == nil {
		err = r.ask("/arrived", nil, &after)
	}
	took := time.Since(began)
	st.Cores = (p.cpuNow() - cpu).Seconds() / took.Seconds()
	st.FullRate = float64(after-before-(w.bytes-own)) / took.Seconds()
	st.Resident = p.status("VmRSS:") << 10
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	st.Descriptors = len(fds)
	err = errors.Join(err, full())
	if err == nil {
		err = r.await(p, w.bytes+w.full.bytes.Load())
	}
	st.Peak = p.peak.Load()
	return st, err
}

// crowd is one that is written.
type crowd struct {
	Crowd
	dir    string
	active []*os.File
	full   filler
	seq    int
	bytes  int64
	born   int
}

// record is one with the time it is written at, and a number of its own.
func (w *crowd) record(to *os.File, timed bool) error {
	at := ""
	if timed {
		at = fmt.Sprintf(`"at":%d,`, time.Now().UnixNano())
	}
	n, err := fmt.Fprintf(to, `{"seq":%d,%s"level":"info","msg":"one of a crowd, with as much to say as the others"}`+"\n", w.seq, at)
	w.seq++
	w.bytes += int64(n)
	return err
}

// file makes one, the n'th of its kind.
func (w *crowd) file(kind string, n int) (*os.File, error) {
	dir := filepath.Join(w.dir, fmt.Sprintf("%s-%d", kind, n/1000))
	if n%1000 == 0 {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	suffix := ".json"
	if kind == "other" {
		suffix = ".data"
	}
	return os.Create(filepath.Join(dir, strconv.Itoa(n)+suffix))
}

// whole makes a file with one record, the n'th of its kind.
func (w *crowd) whole(kind string, n int, timed bool) error {
	f, err := w.file(kind, n)
	if err != nil {
		return err
	}
	return errors.Join(w.record(f, timed), f.Close())
}

// make writes what is there when the agent starts.
func (w *crowd) make() error {
	for n := range w.Others {
		f, err := w.file("other", n)
		if err != nil {
			return err
		}
		f.Close()
	}
	for n := range w.Idle {
		if err := w.whole("idle", n, false); err != nil {
			return err
		}
	}
	for n := range w.Active {
		f, err := w.file("active", n)
		if err == nil {
			w.active = append(w.active, f)
			err = w.record(f, false)
		}
		if err != nil {
			return err
		}
	}
	if w.Full {
		f, err := w.file("full", 0)
		w.full.f = f
		return err
	}
	return nil
}

func (w *crowd) close() {
	for _, f := range w.active {
		f.Close()
	}
	if w.full.f != nil {
		w.full.f.Close()
	}
}

// write goes on for so long: each active file gets a record a second, the second
// spread over them. During the account files are born.
func (w *crowd) write(length time.Duration) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began, done, born := time.Now(), 0, 0
	for {
		part := min(time.Since(began), length)
		for due := int(part.Seconds() * float64(w.Active)); done < due; done++ {
			if err := w.record(w.active[done%w.Active], true); err != nil {
				return err
			}
		}
		for length == w.Length && born < int(float64(w.Born)*part.Seconds()/length.Seconds()) {
			if err := w.whole("born", w.born, true); err != nil {
				return err
			}
			born++
			w.born++
		}
		if part == length {
			return nil
		}
		<-tick.C
	}
}

// filler keeps a file from being read to its end.
type filler struct {
	f       *os.File
	records atomic.Int64
	bytes   atomic.Int64
}

// fullBase numbers the records of a filler, with eight digits whatever comes.
const fullBase = 10_000_000

// start fills the file until the function that it returns is called, which tells
// what went wrong.
func (w *filler) start(r *Rig) (end func() error) {
	if w.f == nil {
		return func() error { return nil }
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	// Ended and awaited by end.
	go func() { ended <- w.fill(r, stop) }()
	return func() error {
		close(stop)
		return <-ended
	}
}

func (w *filler) fill(r *Rig, stop <-chan struct{}) error {
	const ahead = 256 << 20
	lines := &Lines{rng: NewLines().rng, now: NewLines().now, seq: fullBase}
	var block []byte
	var starts []int
	for len(block) < 4<<20 {
		starts = append(starts, len(block)+len(`{"seq":`))
		block = append(block, lines.Next()...)
	}
	for {
		var arrived int64
		if err := r.ask("/arrived", nil, &arrived); err != nil {
			return err
		}
		for w.bytes.Load() < arrived+ahead {
			for _, at := range starts {
				strconv.AppendInt(block[at:at], fullBase+w.records.Load(), 10)
				w.records.Add(1)
			}
			n, err := w.f.Write(block)
			w.bytes.Add(int64(n))
			if err != nil {
				return err
			}
		}
		select {
		case <-stop:
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}
