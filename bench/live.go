package bench

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Live is files that grow at a steady pace.
type Live struct {
	Files  int
	Rate   int64 // bytes a second, all files together
	Write  int   // bytes that the writer hands to the kernel at once, mid-record as often as not
	Length time.Duration
	Keys   []string // of the input
}

// Tailed is what the agent costs behind files that grow, and how long their
// records take.
type Tailed struct {
	Rate  float64       // bytes a second that were written
	Cores float64       // the agent's CPU time by the clock: 0.1 is a tenth of a core
	Peak  int64         // bytes of resident memory
	Drain time.Duration // from the last write to the last arrival
	Delays
}

// errPace is why a run of Live does not count: the disk or the machine was too
// busy for the writer.
var errPace = errors.New("writer fell behind its pace")

// Live appends to files, and accounts for the agent meanwhile. Where the writer
// falls behind it begins again, a few times.
func (r *Rig) Live(l Live) (t Tailed, err error) {
	for range 4 {
		if t, err = r.live(l); !errors.Is(err, errPace) {
			break
		}
	}
	return t, err
}

func (r *Rig) live(l Live) (Tailed, error) {
	dir, err := os.MkdirTemp(r.dir, "live-")
	if err != nil {
		return Tailed{}, err
	}
	defer os.RemoveAll(dir)
	w, err := newPacer(l, dir)
	if err != nil {
		return Tailed{}, err
	}
	defer w.close()
	var t Tailed
	p, rep, err := r.follow(filepath.Join(dir, "*.json"), l.Keys, "", func(p *process) (_ Share, err error) {
		if t, err = w.pace(p, l.Length); err == nil {
			err = r.await(p, w.bytes)
		}
		return Share{w.lines.Count(), w.bytes}, err
	})
	if err != nil {
		return Tailed{}, err
	}
	t.Peak, t.Drain, t.Delays = p.peak.Load(), rep.Last.Sub(w.ended), rep.Delays
	if t.Rate < 0.95*float64(l.Rate) {
		return t, errPace
	}
	return t, nil
}

// pace writes, and accounts for what p does meanwhile. The first two seconds,
// which are for starting, do not count.
func (w *pacer) pace(p *process, length time.Duration) (Tailed, error) {
	if err := w.write(2 * time.Second); err != nil {
		return Tailed{}, err
	}
	cpu, bytes, began := p.cpuNow(), w.bytes, time.Now()
	w.lines.timed = true
	if err := w.write(length); err != nil {
		return Tailed{}, err
	}
	took := time.Since(began)
	t := Tailed{Rate: float64(w.bytes-bytes) / took.Seconds(), Cores: (p.cpuNow() - cpu).Seconds() / took.Seconds()}
	w.lines.timed = false // the last batch is not filled, and waits: its records do not count
	if err := w.write(time.Second); err != nil {
		return Tailed{}, err
	}
	return t, w.finish()
}
