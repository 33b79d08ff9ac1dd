package bench

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Live is a tail of a file that grows at a steady pace.
type Live struct {
	Rate  float64       // bytes a second that were written
	Cores float64       // the agent's CPU time by the clock: 0.1 is a tenth of a core
	Peak  int64         // bytes of resident memory
	Drain time.Duration // from the last write to the last arrival
}

// errPace is why a run of Live does not count: the disk or the machine was too
// busy for the writer.
var errPace = errors.New("writer fell behind its pace")

// writeSize is what the writer hands to the kernel at once: a buffered logger
// that flushes at 8 KiB, mid-record as often as not.
const writeSize = 8 << 10

// Live appends to one file at rate bytes a second for so long, and accounts
// for the agent meanwhile. Where the writer falls behind it begins again, a
// few times.
func (r *Rig) Live(rate int64, length time.Duration, validate string) (l Live, err error) {
	for range 4 {
		if l, err = r.live(rate, length, validate); !errors.Is(err, errPace) {
			break
		}
	}
	return l, err
}

func (r *Rig) live(rate int64, length time.Duration, validate string) (Live, error) {
	dir, err := os.MkdirTemp(r.dir, "live-")
	if err != nil {
		return Live{}, err
	}
	defer os.RemoveAll(dir)
	cmd, state, err := r.agentCommand(filepath.Join(dir, "*.json"), []string{"validate: " + validate})
	if err != nil {
		return Live{}, err
	}
	defer os.RemoveAll(state)
	if err := r.reset(); err != nil {
		return Live{}, err
	}
	f, err := os.Create(filepath.Join(dir, "live.json"))
	if err != nil {
		return Live{}, err
	}
	defer f.Close()
	p, err := begin(cmd)
	if err != nil {
		return Live{}, err
	}
	l, w, err := follow(p, f, rate, length)
	if err == nil {
		err = r.await(p, w.bytes)
	}
	if err := errors.Join(err, p.stop()); err != nil {
		return Live{}, err
	}
	rep, err := r.report()
	if err != nil {
		return Live{}, err
	}
	l.Peak, l.Drain = p.peak.Load(), rep.Last.Sub(w.ended)
	in := &Input{Records: w.lines.Count(), Bytes: w.bytes}
	if err := in.verify(rep); err != nil {
		return Live{}, err
	}
	if l.Rate < 0.95*float64(rate) {
		return l, errPace
	}
	return l, nil
}

// follow writes, and accounts for what p does meanwhile. Its first second,
// which is for starting, does not count.
func follow(p *process, f *os.File, rate int64, length time.Duration) (Live, *pacer, error) {
	w := &pacer{f: f, lines: NewLines(), rate: rate}
	if err := w.write(time.Second); err != nil {
		return Live{}, w, err
	}
	cpu, bytes, began := p.cpuNow(), w.bytes, time.Now()
	if err := w.write(length); err != nil {
		return Live{}, w, err
	}
	took := time.Since(began)
	l := Live{Rate: float64(w.bytes-bytes) / took.Seconds(), Cores: (p.cpuNow() - cpu).Seconds() / took.Seconds()}
	return l, w, w.finish()
}
