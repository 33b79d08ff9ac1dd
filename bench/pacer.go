package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// pacer writes lines at a steady rate to files, which take turns.
type pacer struct {
	Live
	files []*growing
	next  int // of files
	lines *Lines
	bytes int64 // written
	ended time.Time
}

// growing is a file, and what was made for it and not written.
type growing struct {
	*os.File
	ahead []byte
}

func newPacer(l Live, dir string) (*pacer, error) {
	w := &pacer{Live: l, lines: NewLines()}
	for n := range l.Files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("live-%04d.json", n)))
		if err != nil {
			w.close()
			return nil, err
		}
		w.files = append(w.files, &growing{File: f})
	}
	return w, nil
}

func (w *pacer) close() {
	for _, f := range w.files {
		f.Close()
	}
}

// write goes on for so long. Where it falls behind it catches up.
func (w *pacer) write(length time.Duration) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	start, from := time.Now(), w.bytes
	for {
		elapsed := time.Since(start)
		due := from + int64(min(elapsed, length).Seconds()*float64(w.Rate))
		for w.bytes+int64(w.Write) <= due {
			f := w.files[w.next]
			w.next = (w.next + 1) % len(w.files)
			for len(f.ahead) < w.Write {
				f.ahead = append(f.ahead, w.lines.Next()...)
			}
			if err := w.flush(f, w.Write); err != nil {
				return err
			}
		}
		if elapsed >= length {
			return nil
		}
		<-tick.C
	}
}

// finish writes the rests of the last lines.
func (w *pacer) finish() error {
	var all error
	for _, f := range w.files {
		all = errors.Join(all, w.flush(f, len(f.ahead)))
	}
	w.ended = time.Now()
	return all
}

func (w *pacer) flush(f *growing, n int) error {
	if _, err := f.Write(f.ahead[:n]); err != nil {
		return err
	}
	w.bytes += int64(n)
	f.ahead = append(f.ahead[:0], f.ahead[n:]...)
	return nil
}
