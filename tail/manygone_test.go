package tail

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// manyGone is files that were found and not read when the agent stopped, and are gone when it starts again.
type manyGone struct {
	w     *world
	names []string
	lines []string
}

// newManyGone finds n files that input matches, with names of a form, and stops.
func newManyGone(w *world, n int, form string) *manyGone {
	m := &manyGone{w: w}
	for i := range n {
		m.names = append(m.names, fmt.Sprintf(form, i))
		m.lines = append(m.lines, fmt.Sprintf("%05d is the line of a file, and no other has it", i))
		must(w.t, os.WriteFile(w.path(m.names[i]), []byte(m.lines[i]+"\n"), 0o644))
	}
	s := w.stepped()
	w.taker.set(func() { w.taker.full = true })
	s.scan()
	s.turnAll()
	w.shut()
	return m
}

// each does something with each file before it is removed.
func (m *manyGone) each(do func(path string)) {
	for _, name := range m.names {
		do(m.w.path(name))
		must(m.w.t, os.Remove(m.w.path(name)))
	}
}

// others makes as many files as are gone.
func (m *manyGone) others(form string) {
	for i := range m.names {
		must(m.w.t, os.WriteFile(m.w.path(fmt.Sprintf(form, i)), fmt.Appendf(nil, "of others %05d is the line of a file, and no other has it\n", i), 0o644))
	}
}

func (m *manyGone) pack(path string) {
	t := m.w.t
	st, err := os.Stat(path)
	must(t, err)
	data, err := os.ReadFile(path)
	must(t, err)
	f, err := os.Create(path + ".gz")
	must(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write(data)
	must(t, err)
	must(t, z.Close())
	must(t, f.Close())
	must(t, os.Chtimes(path+".gz", st.ModTime(), st.ModTime()))
}

// TestManyGone: each of many files that are gone is found by its own copy, or its own compressed one, among
// those of all others, also where their names begin alike.
func TestManyGone(t *testing.T) {
	t.Parallel()
	copies := func(m *manyGone) {
		m.each(func(path string) {
			data, err := os.ReadFile(path)
			must(t, err)
			dir, name := filepath.Split(path)
			must(t, os.WriteFile(dir+strings.Replace(name, ".", ".copy.", 1), data, 0o644))
		})
	}
	packed := func(m *manyGone) { m.each(m.pack) }
	f := func(name, pattern, form, others string, to func(m *manyGone)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Paths = []string{w.path(pattern)}
			m := newManyGone(w, 30, form)
			to(m)
			w.start()
			w.expect("in", m.lines...)
			m.others(others)
			w.look()
			if n := w.boxed.count("in"); n != len(m.names) {
				t.Errorf("%d records of the other files, want %d", n, len(m.names))
			}
			if n := w.boxed.logged("ERROR"); n > 0 && name == "copied" { // where names begin alike it is not sure which copy is of which
				t.Errorf("%d losses are told:\n%s", n, w.boxed.text())
			}
		})
	}
	f("copied, their names begin alike", "app.[0-9]*", "app.%d", "app.7%05d", copies)
	f("copied", "app-*.log", "app-%d.log", "app-7%05d.log", func(m *manyGone) {
		m.each(func(path string) {
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path+".1", data, 0o644))
		})
	})
	f("compressed", "app-*.log", "app-%d.log", "app-7%05d.log", packed)
	f("compressed, of a date each", "app-*.log", "app-20260101%05d.log", "app-20260102%05d.log", packed)
}

// cpu is what the process has taken of processors.
func cpu(t testing.TB) time.Duration {
	var u unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkManyGone is the first scan of a start at which 5,000 files with unread records are gone, or were
// compressed, and 5,000 others are there, and the next scan after compressed files were looked through.
func BenchmarkManyGone(b *testing.B) {
	const n = 5000
	f := func(name, pattern, form, others string, to func(m *manyGone) func(path string)) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				w := newWorld(b)
				w.in().Paths = []string{w.path(pattern)}
				m := newManyGone(w, n, form)
				m.each(to(m))
				m.others(others)
				s := w.stepped()
				b.StartTimer()
				began := cpu(b)
				s.scan()
				s.survey()
				s.scan()
				b.ReportMetric((cpu(b) - began).Seconds(), "cpu-s")
				b.StopTimer()
				w.halt()
			}
		})
	}
	gone := func(*manyGone) func(string) { return func(string) {} }
	packed := func(m *manyGone) func(string) { return m.pack }
	f("gone", "app-*.log", "app-%d.log", "app-7%05d.log", gone)
	f("gone, of a date each", "app-*.log", "app-20260101%05d.log", "app-20260102%05d.log", gone)
	f("gone, names begin alike", "app.[0-9]*", "app.%d", "app.7%05d", gone)
	f("compressed", "app-*.log", "app-%d.log", "app-7%05d.log", packed)
	f("compressed, of a date each", "app-*.log", "app-20260101%05d.log", "app-20260102%05d.log", packed)
}
