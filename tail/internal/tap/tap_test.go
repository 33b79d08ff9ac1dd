package tap

import (
	"bytes"
	"io"
	"testing"

	"kusto-agent/internal/record"
)

// TestRoom: a tap holds so many bytes and so many chunks, and counts what it does not take.
func TestRoom(t *testing.T) {
	t.Parallel()
	f := func(body string, want int) {
		t.Helper()
		var all Taps
		p, err := all.Open("in")
		if err != nil {
			t.Fatal(err)
		}
		c := &record.Chunk{Route: record.Route{Format: record.TXT}, Body: []byte(body), Records: 1, Pieces: []record.Piece{{Span: record.Span{End: int64(len(body))}, Records: 1}}}
		for range want + 3 {
			all.Offer("in", record.File{}, "a.log", c)
			all.Offer("other", record.File{}, "a.log", c)
		}
		if p.Dropped() != 3 {
			t.Errorf("%d dropped, want 3", p.Dropped())
		}
		all.End()
		shown := 0
		for err == nil {
			err = p.Next(t.Context(), func(r *Passed) error {
				if string(r.Data) != body {
					t.Fatalf("shown as %q", r.Data)
				}
				shown++
				return nil
			})
		}
		if shown != want || err != io.EOF || p.held.Load() != 0 {
			t.Errorf("%d shown, want %d, then %v; %d bytes held", shown, want, err, p.held.Load())
		}
		p.Close()
		if all.on.Load() != nil {
			t.Error("a closed tap is offered chunks")
		}
		if p, _ = all.Open("in"); p.Next(t.Context(), nil) != io.EOF {
			t.Error("a tap that is opened after the end waits")
		}
	}
	f("a\n", chunks)
	f(string(bytes.Repeat([]byte("x"), 1<<20-1))+"\n", room>>20)
}
