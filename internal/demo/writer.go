package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"kusto-agent/emulator"
)

// demoWriter is an application that numbers its records, writes them to one
// file, and rotates it by renaming about once a second.
type demoWriter struct {
	table  string
	path   string
	header string
	line   func(b []byte, seq uint64, now time.Time) []byte
	seq    func(r emulator.Row) (uint64, error) // the number of a stored row
	keep   int                                  // rotated files
	refuse string                               // a line for the middle of the first burst; empty: none

	rows, bytes, rotations, refused atomic.Int64
	err                             error
}

// What the demo writes, at most: rows a second and table.
const demoRate = 15000

// newDemoWriters creates the folder dir and returns the writers of the three demo files in it. They
// create their files when they run.
func newDemoWriters(dir string) ([]*demoWriter, error) {
	if err := os.MkdirAll(filepath.Join(dir, "host-1"), 0o755); err != nil {
		return nil, err
	}
	return []*demoWriter{
		{table: "Orders", path: filepath.Join(dir, "orders.json"), keep: 4, line: orderLine, seq: orderSeq, refuse: refusedOrder},
		{table: "Metrics", path: filepath.Join(dir, "host-1", "metrics.csv"), keep: 4, header: "seq,time,name,value,note\n", line: metricLine, seq: metricSeq},
		{table: "Access", path: filepath.Join(dir, "access.log"), keep: 4, line: accessLine, seq: accessSeq},
	}, nil
}

// refusedOrder is an order that the service refuses, and refusedNote what it knows it by.
const (
	refusedNote  = "an order of yesterday"
	refusedOrder = `{"seq":-1,"time":"2026-03-01T12:00:00Z","customer":"c-00000","note":"` + refusedNote + `"}` + "\n"
)

func orderLine(b []byte, seq uint64, now time.Time) []byte {
	b = fmt.Appendf(b, `{"seq":%d,"time":%q,"customer":"c-%05d","item":{"sku":"K-%03d","count":%d,"price":%d.%02d},"note":`,
		seq, now.Format(time.RFC3339Nano), seq%7919, seq%977, seq%9+1, seq%500, seq%100)
	return append(strconv.AppendQuote(b, strings.Repeat("wrapped with care ", int(seq%5))), "}\n"...)
}

func orderSeq(r emulator.Row) (uint64, error) {
	var o struct{ Seq uint64 }
	err := json.Unmarshal(r.Raw, &o)
	return o.Seq, err
}

// metricLine appends a CSV record with the number seq to b and returns it. One record in 50 has a
// field with quotes and a line break in it.
func metricLine(b []byte, seq uint64, now time.Time) []byte {
	note := "steady"
	if seq%50 == 0 {
		note = "\"first line\nsaid \"\"second\"\" line\""
	}
	return fmt.Appendf(b, "%d,%s,cpu.load,%d.%03d,%s\n", seq, now.Format(time.RFC3339Nano), seq%8, seq%1000, note)
}

func metricSeq(r emulator.Row) (uint64, error) { return strconv.ParseUint(r.Fields()[0], 10, 64) }

func accessLine(b []byte, seq uint64, now time.Time) []byte {
	return fmt.Appendf(b, "10.0.%d.%d - - [%s] \"GET /item/%d HTTP/1.1\" 200 %d\n", seq%256, seq%251, now.Format(time.RFC3339), seq, 200+seq%4000)
}

func accessSeq(r emulator.Row) (uint64, error) {
	_, rest, _ := strings.Cut(r.Fields()[0], "/item/")
	n, _, _ := strings.Cut(rest, " ")
	return strconv.ParseUint(n, 10, 64)
}

// run writes rows at the pace demoRate until ctx ends or an error occurs, which it stores in w.err.
// Once a second it rotates the file. Rows are counted when they are in the file.
func (w *demoWriter) run(ctx context.Context) {
	const burst = 10 * time.Millisecond
	tick := time.NewTicker(burst)
	defer tick.Stop()
	f, err := w.create()
	rotate := time.Now().Add(time.Second)
	var b []byte
	for err == nil {
		select {
		case <-ctx.Done():
			w.err = f.Close()
			return
		case <-tick.C:
		}
		b = b[:0]
		seq, now := uint64(w.rows.Load()), time.Now()
		n := uint64(demoRate * burst / time.Second)
		for i := range n {
			b = w.line(b, seq+i, now)
			if w.refuse != "" && seq == 0 && i == n/2 { // once, in the middle of the first burst
				b = append(b, w.refuse...)
				w.refused.Add(1)
			}
		}
		if _, err = f.Write(b); err != nil {
			break
		}
		w.bytes.Add(int64(len(b)))
		w.rows.Add(int64(n))
		if now.After(rotate) {
			rotate = now.Add(time.Second)
			f, err = w.rotate(f)
		}
	}
	w.err = err
}

// create creates the file, writes its header and returns it. The caller closes it.
func (w *demoWriter) create() (*os.File, error) {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		_, err = f.WriteString(w.header)
	}
	return f, err
}

// rotate closes f and renames the files as logrotate does: the file becomes .1, .1 becomes .2, and so
// on; the oldest of w.keep is removed. It returns the new file with its header.
func (w *demoWriter) rotate(f *os.File) (*os.File, error) {
	if err := f.Close(); err != nil {
		return nil, err
	}
	name := func(i int) string { return fmt.Sprintf("%s.%d", w.path, i) }
	_ = os.Remove(name(w.keep)) // at first it does not exist
	for i := w.keep - 1; i > 0; i-- {
		_ = os.Rename(name(i), name(i+1))
	}
	if err := os.Rename(w.path, name(1)); err != nil {
		return nil, err
	}
	w.rotations.Add(1)
	return w.create()
}

// comparison is what became of the rows of one writer.
type comparison struct{ stored, missing, double int }

// compare counts the stored rows of the writer's table, those that are missing, and those that are
// stored more than once. It returns an error for a row that was never written, and if the writer
// failed.
func (d *Demo) compare(w *demoWriter) (c comparison, err error) {
	if w.err != nil {
		return c, fmt.Errorf("write %s: %w", w.path, w.err)
	}
	times := make([]uint8, w.rows.Load())
	for row := range d.server.All("Demo", w.table, 0) {
		c.stored++
		seq, err := w.seq(row)
		if err != nil || seq >= uint64(len(times)) {
			return c, fmt.Errorf("%s has a row that was never written: %.100q", w.table, row.Raw)
		}
		times[seq]++
	}
	for _, n := range times {
		switch {
		case n == 0:
			c.missing++
		case n > 1:
			c.double += int(n) - 1
		}
	}
	return c, nil
}
