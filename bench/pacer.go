package bench

import (
	"os"
	"time"
)

// pacer writes lines to a file at a steady rate.
type pacer struct {
	f     *os.File
	lines *Lines
	rate  int64  // bytes a second
	bytes int64  // written
	ahead []byte // made and not written
	ended time.Time
}

// write goes on for so long. Where it falls behind it catches up.
func (w *pacer) write(length time.Duration) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	start, from := time.Now(), w.bytes
	for {
		elapsed := time.Since(start)
		due := from + int64(min(elapsed, length).Seconds()*float64(w.rate))
		for w.bytes+writeSize <= due {
			for len(w.ahead) < writeSize {
				w.ahead = append(w.ahead, w.lines.Next()...)
			}
			if err := w.flush(writeSize); err != nil {
				return err
			}
		}
		if elapsed >= length {
			return nil
		}
		<-tick.C
	}
}

// finish writes the rest of the last line.
func (w *pacer) finish() error {
	err := w.flush(len(w.ahead))
	w.ended = time.Now()
	return err
}

func (w *pacer) flush(n int) error {
	if _, err := w.f.Write(w.ahead[:n]); err != nil {
		return err
	}
	w.bytes += int64(n)
	w.ahead = append(w.ahead[:0], w.ahead[n:]...)
	return nil
}
