package audit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
)

var start = time.Unix(1_790_000_000, 0).UTC()

// teller makes the entries of a journal, a second apart.
type teller struct {
	h       *history
	at      time.Time
	segment uint64
	number  uint64
	run     byte
	boot    string
}

func newTeller(since time.Time) *teller {
	t := &teller{h: newHistory(since), at: start}
	t.snapshot()
	return t
}

func (t *teller) tell(e journal.Entry) {
	t.number++
	t.at = t.at.Add(time.Second)
	e.At, e.Segment, e.Number = t.at, t.segment, t.number
	t.h.take(&e)
}

// snapshot begins a segment with a state; the run is that of before.
func (t *teller) snapshot(state ...journal.Entry) {
	t.segment++
	t.number++
	t.at = t.at.Add(time.Second)
	e := journal.Entry{Kind: journal.Snapshot, At: t.at, Segment: t.segment, Number: t.number, Count: uint64(len(state)), InSnapshot: true, BootID: t.boot}
	e.Run[0] = t.run
	t.h.take(&e)
	for _, e := range state {
		t.number++
		e.At, e.Segment, e.Number, e.InSnapshot = t.at, t.segment, t.number, true
		t.h.take(&e)
	}
}

func fileOf(n int) record.File { return record.File{Input: "app", ID: record.FileID(n)} }

func idOf(n int) (id record.BatchID) {
	id[0], id[14], id[15] = 1, byte(n>>8), byte(n)
	return id
}

var table = record.Route{Cluster: "https://c", Database: "D", Table: "T", Format: record.JSON, Mapping: "m"}

// batchOf covers a range of a file, of which each byte is a record.
func batchOf(n int, f record.File, from, to int64) *record.Payload {
	span := record.Span{Start: from, End: to}
	return &record.Payload{ID: idOf(n), Route: table, Attempt: 1, Records: int(span.Len()),
		Cover: []record.Extent{{File: f, Span: span}}, Pieces: []record.Piece{{File: f, Span: span, Records: int(span.Len())}}}
}

func (t *teller) begin(n int, from, to int64) {
	t.tell(journal.Entry{Kind: journal.Begin, Payload: batchOf(n, fileOf(1), from, to), Batch: idOf(n), Attempt: 1})
}
func (t *teller) attempt(n, attempt int) {
	t.tell(journal.Entry{Kind: journal.Attempt, Batch: idOf(n), Attempt: attempt})
}
func (t *teller) end(n int, how record.Outcome) {
	t.tell(journal.Entry{Kind: journal.End, Batch: idOf(n), Outcome: how})
}
func (t *teller) replay(n, attempt int) {
	t.tell(journal.Entry{Kind: journal.Replay, Batch: idOf(n), Attempt: attempt})
}
func (t *teller) answered(n, attempt int) {
	t.tell(journal.Entry{Kind: journal.Replay, Batch: idOf(n), Attempt: attempt, Answered: true})
}
func (t *teller) replayEnd(n int, how record.Outcome) {
	t.tell(journal.Entry{Kind: journal.ReplayEnd, Batch: idOf(n), Outcome: how})
}
func (t *teller) skip(from, to int64) {
	t.tell(journal.Entry{Kind: journal.Skip, File: fileOf(1), Span: record.Span{Start: from, End: to}})
}
func (t *teller) stop()  { t.tell(journal.Entry{Kind: journal.Stopped}) }
func (t *teller) start() { t.run++; t.snapshot() }

func position(to int64) journal.Entry {
	return journal.Entry{Kind: journal.Position, File: fileOf(1), Span: record.Span{End: to}}
}

// words are a report on one file, in one line.
func words(r *Report) string {
	var all []string
	add := func(name string, s []Span) {
		if len(s) > 0 {
			all = append(all, fmt.Sprintf("%s%v", name, s))
		}
	}
	for _, f := range r.Files {
		add("before", f.Before)
		for _, d := range f.Routes {
			add("accepted", d.Accepted.Ranges)
			if d.Accepted.Records > 0 {
				all = append(all, fmt.Sprint("records ", d.Accepted.Records))
			}
		}
		add("skipped", f.Skipped)
		add("begun", f.UnderWay)
		add("spool", f.InSpool)
		add("unsent", f.Unsent)
		if f.Unread > 0 {
			all = append(all, fmt.Sprint("unread ", f.Unread))
		}
		for _, t := range f.Troubles {
			s := string(t.Problem)
			if t.Fails {
				s = strings.ToUpper(s)
			}
			if len(t.Ranges) > 0 {
				s += fmt.Sprint(t.Ranges)
			}
			for _, d := range t.Batches {
				s += fmt.Sprintf(" %s=%s", strings.TrimPrefix(d.Why.short(), " "), d.Ended)
			}
			all = append(all, s)
		}
	}
	return strings.Join(all, ", ")
}

func (c Cause) short() string { return string(c) }

// TestVerdict: what a history adds up to, row by row.
func TestVerdict(t *testing.T) {
	plain := facts{sources: map[record.File]source{fileOf(1): {found: true}}}
	f := func(name string, x facts, run func(*teller), want string) {
		t.Run(name, func(t *testing.T) {
			w := newTeller(time.Time{})
			run(w)
			if got := words(w.h.report(&x, nil)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	f("all accepted", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.begin(2, 10, 20)
		w.end(2, record.Accepted)
		w.end(1, record.Accepted)
	},
		"accepted[{0 20}], records 20")
	f("blank lines", plain, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.Accepted); w.skip(10, 12) },
		"accepted[{0 10}], records 10, skipped[{10 12}]")
	f("under way, and one in memory before it", plain, func(w *teller) { w.begin(1, 10, 20) },
		"begun[{10 20}], unsent[{0 10}]")
	f("split, a half refused", plain, func(w *teller) {
		w.begin(1, 0, 20)
		w.tell(journal.Entry{Kind: journal.Split, Batch: idOf(1), Children: []journal.Begun{{Payload: *batchOf(2, fileOf(1), 0, 10)}, {Payload: *batchOf(3, fileOf(1), 10, 20)}}})
		w.end(2, record.Quarantined)
		w.end(3, record.Accepted)
	}, "accepted[{10 20}], records 10")
	f("replaced by another body", plain, func(w *teller) {
		w.begin(1, 0, 10)
		p := batchOf(2, fileOf(1), 0, 10)
		p.Replaces = idOf(1)
		w.tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: 1})
		w.end(1, record.Accepted) // says nothing: it was replaced
	}, "begun[{0 10}]")
	f("in the spool", facts{spooled: map[record.BatchID]bool{idOf(1): true}}, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.Spooled) },
		"spool[{0 10}]")
	f("not in the spool", plain, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.Spooled) },
		"SPOOL_LOST[{0 10}]")
	f("out of the spool", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replay(1, 2)
		w.replayEnd(1, record.Accepted)
	},
		"accepted[{0 10}], records 10")
	f("lost from the spool, and sent again under its id", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		p := batchOf(1, fileOf(1), 0, 10)
		p.Attempt = 2
		w.tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: 2})
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("dropped, and nobody allowed it", plain, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.Spooled); w.replayEnd(1, record.Dropped) },
		"DROPPED[{0 10}]")
	f("dropped as configured", facts{drops: true}, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.Spooled); w.replayEnd(1, record.Dropped) },
		"dropped[{0 10}]")
	f("removed from the spool by a person", plain, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.Spooled); w.replayEnd(1, record.Removed) },
		"removed[{0 10}]")
	quarantined := func(count uint64) func(*teller) { // and then removed
		return func(w *teller) {
			w.begin(1, 0, 10)
			w.end(1, record.Quarantined)
			for range 2 { // the second time around a segment
				w.tell(journal.Entry{Kind: journal.Removed, File: fileOf(1), Span: record.Span{Start: 0, End: 10}, Count: count})
			}
		}
	}
	f("removed from quarantine by a person", plain, quarantined(0), "removed[{0 10}]")
	f("dropped by a full quarantine", plain, quarantined(2), "evicted[{0 10}]")
	f("source gone", plain, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.SourceGone) }, "SOURCE_GONE[{0 10}]")
	f("given up, and there after all", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replayEnd(1, record.SourceGone)
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replayEnd(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("the same, where the journal has forgotten that", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replayEnd(1, record.SourceGone)
		w.replayEnd(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("given up twice", plain, func(w *teller) {
		for range 2 { // the second time around a segment
			w.begin(1, 0, 10)
			w.end(1, record.Spooled)
			w.replayEnd(1, record.SourceGone)
		}
	}, "SOURCE_GONE[{0 10}]")
	f("abandoned", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
		w.tell(journal.Entry{Kind: journal.Abandoned, File: fileOf(1), Span: record.Span{Start: 10, End: 30}})
	}, "accepted[{0 10}], records 10, ABANDONED[{10 30}]")
	f("abandoned, and come back", plain, func(w *teller) {
		w.tell(journal.Entry{Kind: journal.Abandoned, File: fileOf(1), Span: record.Span{Start: 0, End: 10}})
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("accepted twice", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
		w.begin(2, 5, 15)
		w.end(2, record.Accepted)
	},
		"accepted[{0 15}], records 20, overlap[{5 10}] =accepted")
	f("no answer, then accepted", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.tell(journal.Entry{Kind: journal.Unknown, Batch: idOf(1), Attempt: 1})
		w.attempt(1, 2)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10, unknown[{0 10}] no_answer=accepted")
	f("killed under way", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.run++
		w.snapshot(journal.Entry{Kind: journal.Begin, Payload: batchOf(1, fileOf(1), 0, 10), Batch: idOf(1), Attempt: 1})
		w.attempt(1, 2)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10, unknown[{0 10}] killed=accepted")
	seen := func(w *teller, size int64, born time.Time) {
		w.tell(journal.Entry{Kind: journal.FileSeen, File: fileOf(1), Info: record.FileInfo{Path: "/log/a", Size: size, Birth: born.UnixNano()}.Facts()})
	}
	stopMachine := func(w *teller, state ...journal.Entry) {
		w.run++
		w.boot = fmt.Sprint("boot ", w.run)
		w.snapshot(state...)
	}
	f("sent again behind what was safe when the machine stopped", plain, func(w *teller) {
		stopMachine(w)
		seen(w, 10, start)
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
		stopMachine(w, position(10))
		seen(w, 30, start)
		w.begin(2, 10, 30)
		w.end(2, record.Accepted)
		w.begin(3, 30, 40) // written since
		w.end(3, record.Accepted)
		seen(w, 60, start)
		w.begin(4, 40, 50)
		w.end(4, record.Accepted)
	}, "accepted[{0 50}], records 50, unknown[{10 30}] machine_stopped=accepted")
	f("its request lost when the machine stopped", plain, func(w *teller) {
		stopMachine(w)
		p := batchOf(1, fileOf(1), 0, 10)
		p.Attempt = 0
		w.tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: idOf(1)})
		stopMachine(w, journal.Entry{Kind: journal.Begin, Payload: p, Batch: idOf(1)})
		w.attempt(1, 1)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10, unknown[{0 10}] machine_stopped=accepted")
	f("its file lost when the machine stopped", plain, func(w *teller) {
		stopMachine(w)
		stopMachine(w)
		seen(w, 10, start)
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10, unknown[{0 10}] machine_stopped=accepted")
	f("its file lost when the machine stopped, and not its payload in the spool", plain, func(w *teller) {
		stopMachine(w)
		stopMachine(w)
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replay(1, 1)
		w.replayEnd(1, record.Accepted)
		seen(w, 30, start)
		w.begin(2, 10, 30)
		w.end(2, record.Accepted)
		w.begin(3, 30, 40) // written since
		w.end(3, record.Accepted)
	}, "accepted[{0 40}], records 40, unknown[{0 30}] machine_stopped=accepted machine_stopped=accepted")
	f("a file that was made after the machine had stopped", plain, func(w *teller) {
		stopMachine(w)
		stopMachine(w)
		seen(w, 10, w.at.Add(time.Hour))
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("the machine stopped in an orderly way", plain, func(w *teller) {
		stopMachine(w)
		w.stop()
		stopMachine(w)
		seen(w, 10, start)
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("stopped in an orderly way", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.stop()
		w.run++
		w.snapshot(journal.Entry{Kind: journal.Begin, Payload: batchOf(1, fileOf(1), 0, 10), Batch: idOf(1), Attempt: 1})
		w.attempt(1, 2)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("killed while it came out of the spool", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replay(1, 2)
		w.start()
		w.replay(1, 3)
		w.replayEnd(1, record.Accepted)
	}, "accepted[{0 10}], records 10, unknown[{0 10}] killed=accepted")
	f("killed while it was back in the spool", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replay(1, 2)
		w.answered(1, 2)
		w.start()
		w.replay(1, 3)
		w.answered(1, 2)
		w.start()
		w.replay(1, 4)
		w.replayEnd(1, record.Accepted)
	}, "accepted[{0 10}], records 10, unknown[{0 10}] killed=accepted")
	f("killed while it was back in the spool, and not asked for since", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Spooled)
		w.replay(1, 2)
		w.answered(1, 2)
		w.start()
		w.replay(1, 3)
		w.replayEnd(1, record.Accepted)
	}, "accepted[{0 10}], records 10")
	f("what came while a segment was made comes twice", plain, func(w *teller) {
		for range 2 {
			w.begin(1, 0, 10)
			w.end(1, record.Accepted)
			w.begin(2, 10, 20)
			w.end(2, record.Spooled)
			w.replay(2, 2)
			w.replayEnd(2, record.Accepted)
			w.snapshot(position(0))
		}
	}, "accepted[{0 20}], records 20")
	f("told already to a segment that is no more", plain, func(w *teller) {
		w.h, w.run = newHistory(time.Time{}), 1
		w.snapshot(position(20))
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
		w.start()
		w.begin(2, 10, 20) // a later run does read again
		w.end(2, record.Accepted)
	}, "before[{0 20}], accepted[{0 20}], records 20, overlap[{10 20}] =accepted")
	f("ended, its end lost, sent once more", plain, func(w *teller) {
		w.begin(1, 0, 10)
		w.end(1, record.Accepted)
		w.snapshot(journal.Entry{Kind: journal.Begin, Payload: batchOf(1, fileOf(1), 0, 10), Batch: idOf(1), Attempt: 1})
		w.attempt(1, 2)
		w.end(1, record.Accepted)
	}, "accepted[{0 10}], records 20, overlap[{0 10}] =accepted")
	f("a checkpoint that nothing proves", plain, func(w *teller) { w.begin(1, 0, 10); w.end(1, record.Accepted); w.snapshot(position(30)) },
		"accepted[{0 10}], records 10, UNPROVEN[{10 30}]")
	f("forgotten before it was safe", plain, func(w *teller) {
		w.begin(1, 10, 20)
		w.end(1, record.Accepted)
		w.tell(journal.Entry{Kind: journal.Forget, File: fileOf(1)})
	}, "accepted[{10 20}], records 10, FORGOTTEN[{0 10}]")
	known := journal.Entry{Kind: journal.FileSeen, File: fileOf(1), Info: record.FileInfo{Path: "/a", Size: 30}.Facts()}
	f("not to be found", facts{sources: map[record.File]source{fileOf(1): {}}}, func(w *teller) { w.tell(known); w.begin(1, 0, 10) },
		"begun[{0 10}], VANISHED[{0 30}]")
	f("not to be found, with the running agent", facts{running: true, sources: map[record.File]source{fileOf(1): {}}}, func(w *teller) { w.tell(known); w.begin(1, 0, 10) },
		"begun[{0 10}]")
	f("grown", facts{sources: map[record.File]source{fileOf(1): {found: true, size: 50}}}, func(w *teller) { w.tell(known); w.begin(1, 0, 10); w.end(1, record.Accepted) },
		"accepted[{0 10}], records 10, unread 40")
	f("in quarantine", facts{quarantined: map[record.File]int64{fileOf(1): 3}}, func(w *teller) { w.skip(0, 9) },
		"skipped[{0 9}], quarantined")
}

// TestFromWhenItCanSpeak: what was safe before the history begins, or before the time that
// is asked for, is not judged.
func TestFromWhenItCanSpeak(t *testing.T) {
	w := &teller{h: newHistory(time.Time{}), at: start}
	w.snapshot(position(100))
	w.begin(1, 100, 110)
	w.end(1, record.Accepted)
	r := w.h.report(&facts{}, nil)
	if got := words(r); got != "before[{0 100}], accepted[{100 110}], records 10" || r.Whole || !r.From.Equal(start.Add(time.Second)) {
		t.Errorf("%s; from %v, whole %v", got, r.From, r.Whole)
	}

	since := start.Add(4 * time.Second) // behind the end of the first
	w = newTeller(since)
	w.begin(1, 0, 10)
	w.end(1, record.Dropped)
	w.begin(2, 10, 20)
	w.end(2, record.Accepted)
	w.begin(3, 5, 10)
	w.end(3, record.Accepted)
	r = w.h.report(&facts{}, nil)
	if got := words(r); got != "DROPPED[{0 10}], accepted" && !strings.HasPrefix(got, "before[{0 10}], accepted[{5 20}], records 15, overlap[{5 10}]") || !r.From.Equal(since) || r.Whole {
		t.Errorf("%s; from %v, whole %v", got, r.From, r.Whole)
	}
	if whole := newTeller(time.Time{}).h.report(&facts{}, nil); !whole.Whole {
		t.Error("a journal that is all there does not count as whole")
	}
}

// TestSpans: sets of ranges do what sets of bytes do.
func TestSpans(t *testing.T) {
	const size = 24
	bits := func(s spans) (b [size]bool) {
		last := int64(-1)
		for _, e := range s {
			if e.Start <= last || e.Len() <= 0 {
				t.Fatalf("%v is not sorted, or two touch", s)
			}
			for i := e.Start; i < e.End; i++ {
				b[i] = true
			}
			last = e.End
		}
		return b
	}
	for seed := range 2000 {
		rnd := newRand(seed)
		var a, b spans
		var wantA, wantB [size]bool
		for range rnd.IntN(8) {
			n := rnd.span(size)
			a = a.add(n)
			for i := n.Start; i < n.End; i++ {
				wantA[i] = true
			}
			n = rnd.span(size)
			b = b.add(n)
			for i := n.Start; i < n.End; i++ {
				wantB[i] = true
			}
		}
		var with, without [size]bool
		for i := range size {
			with[i], without[i] = wantA[i] || wantB[i], wantA[i] && !wantB[i]
		}
		if bits(a) != wantA || bits(a.with(b)) != with || bits(a.without(b)) != without {
			t.Fatalf("seed %d: %v and %v", seed, a, b)
		}
	}
	if !reflect.DeepEqual(slices.Clone(spans(nil)), spans(nil)) {
		t.Error("nothing is not nothing")
	}
}

// TestWhatCannotBeRead: the text names damaged ranges of the journal and of the spool as ranges,
// and damaged lines of quarantine as lines.
func TestWhatCannotBeRead(t *testing.T) {
	var b strings.Builder
	if err := (&Report{OK: true, From: start, Until: start, Unread: 1, BadRest: 2, BadLine: 3}).Write(&b, false); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"1 range of the journal cannot be read; this report lacks what it recorded.", "2 ranges of the spool cannot be read; this report lacks what they recorded.", "3 lines of quarantine cannot"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}
