package repair

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/batcher"
	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
)

// files are what a Source reads: by file, the offsets at which records of ten bytes begin.
type files struct {
	lines  map[record.File][]int64
	gone   map[record.File]bool
	crc    uint32 // of what is read
	shared bool   // the first two records of a file are of the same lines
	torn   bool   // what is read of a part is another record
}

func (f files) Read(p *record.Payload) (recs []batcher.Record, err error) {
	for i := range p.Pieces {
		piece := &p.Pieces[i]
		if f.gone[piece.File] {
			return nil, pipeline.ErrGone
		}
		piece.Records = 0
		for n, at := range f.lines[piece.File] {
			if at < piece.Start || at >= piece.End || f.shared && n == 1 {
				continue
			}
			recs = append(recs, batcher.Record{File: piece.File, Offset: at, Length: 10})
			piece.Records++
		}
	}
	if f.torn && p.CRC == 0 {
		recs[0].Length--
	}
	if p.CRC != 0 && p.CRC != f.crc {
		return nil, pipeline.ErrGone
	}
	p.Records, p.Body, p.CRC = len(recs), []byte(fmt.Sprint(recs)), f.crc
	return recs, nil
}

func (f files) Left(p *record.Payload) (*record.Payload, error) {
	left := *p
	left.CRC = 0
	left.Pieces = slices.DeleteFunc(slices.Clone(p.Pieces), func(x record.Piece) bool { return f.gone[x.File] })
	left.Cover = slices.DeleteFunc(slices.Clone(p.Cover), func(x record.Extent) bool { return f.gone[x.File] })
	return &left, nil
}

func (files) Pack(*record.Payload) {}

func fileOf(n int) record.File { return record.File{Input: "app", ID: record.FileID(n)} }

var start = time.Unix(1_790_000_000, 0)

// payloadOf has the first 50 bytes of some files.
func payloadOf(id byte, crc uint32, of ...int) *record.Payload {
	p := &record.Payload{ID: record.BatchID{id}, Route: record.Route{Table: "T"}, CRC: crc}
	for _, n := range of {
		p.Cover = append(p.Cover, record.Extent{File: fileOf(n), Span: record.Span{End: 50}})
		p.Pieces = append(p.Pieces, record.Piece{File: fileOf(n), Span: record.Span{End: 50}, Records: 5})
	}
	return p
}

func holeOf(id byte, n int, stored ...int64) audit.Hole {
	return audit.Hole{File: fileOf(n), Path: fmt.Sprintf("/srv/%d", n), Route: record.Route{Table: "T"}, Batch: record.BatchID{id}, Span: record.Span{End: 50}, At: start, Stored: stored}
}

// lines are a plan in one.
func lines(p *Plan) string {
	var all []string
	for _, r := range p.Send {
		all = append(all, fmt.Sprintf("%s %d-%d*%d", r.Path, r.Start, r.End, r.Records))
	}
	for _, r := range p.Not {
		all = append(all, fmt.Sprintf("not %s %d-%d: %s", r.Path, r.Start, r.End, r.Why))
	}
	return strings.Join(all, ", ")
}

// TestPlan: what is sent of each hole, and why the rest is not.
func TestPlan(t *testing.T) {
	t.Parallel()
	ten := []int64{0, 10, 20, 30, 40}
	f := func(name, want string, from files, batches []*record.Payload, holes ...audit.Hole) {
		t.Helper()
		by := map[record.BatchID]*record.Payload{}
		for _, p := range batches {
			by[p.ID] = p
		}
		if got := lines(Make(Options{Holes: holes, Batches: by, Source: from, Before: start})); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	sound := files{lines: map[record.File][]int64{fileOf(1): ten, fileOf(2): ten}, crc: 7}
	one, two := []*record.Payload{payloadOf(1, 7, 1)}, []*record.Payload{payloadOf(1, 7, 1, 2)}
	f("none", "", sound, one)
	f("some", "/srv/1 10-30*2, /srv/1 40-50*1", sound, one, holeOf(1, 1, 0, 30))
	f("all", "/srv/1 0-50*5", sound, one, holeOf(1, 1))
	f("two files", "/srv/1 0-50*5, /srv/2 0-20*2", sound, two, holeOf(1, 1), holeOf(1, 2, 20, 30, 40))
	f("sent twice", "/srv/1 0-50*5", sound, []*record.Payload{payloadOf(1, 7, 1), payloadOf(2, 7, 1)}, holeOf(1, 1), holeOf(2, 1))
	f("the first of two is forgotten", "/srv/1 0-50*5", sound, []*record.Payload{payloadOf(2, 7, 1)}, holeOf(1, 1), holeOf(2, 1))
	f("forgotten", "not /srv/1 0-50: "+errUnknown.Error(), sound, nil, holeOf(1, 1))
	changed := sound
	changed.crc = 8
	f("another content", "not /srv/1 0-50: "+pipeline.ErrGone.Error(), changed, one, holeOf(1, 1))
	gone := sound
	gone.gone = map[record.File]bool{fileOf(2): true}
	f("one of two files is gone", "/srv/1 0-50*5, not /srv/2 0-50: "+pipeline.ErrGone.Error(), gone, two, holeOf(1, 1), holeOf(1, 2))
	f("rows where none begins", "not /srv/1 0-50: "+errShifted.Error(), sound, one, holeOf(1, 1, 0, 13))
	f("nothing to tell apart", "not /srv/1 0-50: "+errShared.Error(), sound, one, holeOf(1, 1, ten...))
	late := holeOf(1, 1)
	late.At = start.Add(time.Nanosecond)
	f("too new", "not /srv/1 0-50: "+errRecent.Error(), sound, one, late)
	loose := payloadOf(1, 7, 1)
	loose.Cover = slices.Insert(loose.Cover, 0, record.Extent{File: fileOf(3), Span: record.Span{Start: 5, End: 9}})
	f("a record of two files", "not /srv/1 0-50: "+errBefore.Error(), sound, []*record.Payload{loose}, holeOf(1, 1))
	f("behind a record of two files", "/srv/1 10-20*1", sound, []*record.Payload{loose}, holeOf(1, 1, 0, 20, 30, 40))
	torn := sound
	torn.torn = true
	f("a part is read otherwise", "not /srv/1 0-50: "+errOther.Error(), torn, one, holeOf(1, 1, 0))
	shared := sound
	shared.shared = true
	f("records of the same lines", "/srv/1 0-10*1, /srv/1 20-50*3", shared, one, holeOf(1, 1))
}

// service answers each request by the next of some answers, and then accepts.
type service struct {
	answers []kusto.Answer
	asked   []string
}

func (s *service) Ingest(_ context.Context, _ string, in *kusto.Ingest) kusto.Answer {
	s.asked = append(s.asked, in.RequestID[strings.LastIndex(in.RequestID, ";")+1:])
	if len(s.answers) == 0 {
		return kusto.Answer{Verdict: kusto.Accepted}
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}

// TestSend: what was surely not stored is sent again, what perhaps was is not, and a route
// that takes nothing is left alone.
func TestSend(t *testing.T) {
	no := func(v kusto.Verdict) kusto.Answer { return kusto.Answer{Verdict: v, Err: &kusto.Error{Message: "no"}} }
	f := func(name, asked string, records, unknown, failed int, answers ...kusto.Answer) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			from := files{lines: map[record.File][]int64{fileOf(1): {0, 10}, fileOf(2): {0}}, crc: 7}
			by := map[record.BatchID]*record.Payload{{1}: payloadOf(1, 7, 1), {2}: payloadOf(2, 7, 2)}
			plan := Make(Options{Holes: []audit.Hole{holeOf(1, 1), holeOf(2, 2)}, Batches: by, Source: from, Before: start})
			to := &service{answers: answers}
			r := plan.Run(t.Context(), from, to)
			if got := strings.Join(to.asked, " "); got != asked || r.Records != records || len(r.Unknown) != unknown || len(r.Failed) != failed {
				t.Errorf("%s: asked %s, %+v", name, got, r)
			}
		})
	}
	f("accepted", "1 1", 3, 0, 0)
	f("not at once", "1 2 3 1", 3, 0, 0, no(kusto.NotSent), no(kusto.Throttled))
	f("no answer", "1 1", 1, 1, 0, no(kusto.Unknown))
	f("bad data", "1 1", 1, 0, 1, no(kusto.BadData))
	f("no table", "1", 0, 0, 2, no(kusto.Hold))
	f("never", "1 2 3 4 5 6", 0, 0, 2, slices.Repeat([]kusto.Answer{no(kusto.Retry)}, 6)...)
}

// TestSendWhatWasPlanned: a file that changed since is not sent.
func TestSendWhatWasPlanned(t *testing.T) {
	t.Parallel()
	from := files{lines: map[record.File][]int64{fileOf(1): {0, 10}}, crc: 7}
	plan := Make(Options{Holes: []audit.Hole{holeOf(1, 1)}, Batches: map[record.BatchID]*record.Payload{{1}: payloadOf(1, 7, 1)}, Source: from, Before: start})
	from.crc = 8
	to := &service{}
	if r := plan.Run(t.Context(), from, to); len(to.asked) > 0 || r.Records > 0 || len(r.Failed) != 1 || r.Failed[0].Why != pipeline.ErrGone.Error() {
		t.Errorf("%+v, asked %v", r, to.asked)
	}
}

// TestAgreed: only yes is yes.
func TestAgreed(t *testing.T) {
	t.Parallel()
	f := func(answer string, on bool, code int) {
		t.Helper()
		err := Agreed(&Plan{}, &console.Asker{In: bufio.NewReader(strings.NewReader(answer)), Out: io.Discard, On: on})
		var ended *exit.Error
		if got := errors.As(err, &ended); got != (code > 0) || got && ended.Code != code {
			t.Errorf("%q: %v, want %d", answer, err, code)
		}
	}
	f("y\n", true, 0)
	f(" Yes\n", true, 0)
	f("\n", true, 1)
	f("", true, 1)
	f("yellow\n", true, 1)
	f("y\n", false, 64)
}

// TestOneAtATime: a second repair is refused while the first has the lock.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := Lock(dir)
	if err != nil || lock.Close() != nil {
		t.Fatalf("without a journal: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), "another audit --repair") {
		t.Errorf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if third, err := Lock(dir); err != nil || third.Close() != nil {
		t.Errorf("after the first: %v", err)
	}
}

// TestStamps: of several fields with one value the first by name is the column of the stamp, unless
// the command names another one.
func TestStamps(t *testing.T) {
	t.Parallel()
	var in config.Input
	in.Name, in.Fields = "app", map[string]string{}
	for _, n := range []string{"1", "2", "3", "4"} {
		for _, value := range []string{"file", "generation", "offset"} {
			in.Fields[value+n] = "{" + value + "}"
		}
	}
	f := func(columns map[string]string, want audit.Stamps) {
		t.Helper()
		a := Audit{Config: &config.Config{Inputs: []config.Input{in}}, Columns: columns}
		if all, err := a.stamps(); err != nil || all["app"] != want {
			t.Errorf("%v, %v, want %v", all, err, want)
		}
	}
	f(nil, audit.Stamps{File: "file1", Generation: "generation1", Offset: "offset1"})
	f(map[string]string{"offset": "at"}, audit.Stamps{File: "file1", Generation: "generation1", Offset: "at"})
}
