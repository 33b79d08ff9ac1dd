package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

// world is a Recovery among stores and rooms that remember what they were told, in one
// list. Batches are known by one letter.
type world struct {
	numbers numbers // of segments
	t       *testing.T
	r       *Recovery
	books   *ledger.Ledger
	log     bytes.Buffer

	mu      sync.Mutex
	told    []string
	next    byte
	covers  map[record.BatchID]bool
	history map[record.BatchID]*record.Payload
	// What the journal was told, and the history lacks until it is synced.
	unwritten map[record.BatchID]*record.Payload
	noJnl     error // of reading the history
	unwell    error // of writing it
	frames    []frame
	vouched   bool                   // all of them are known to the journal as safe that it does not say more of
	walks     int                    // through them
	readable  map[record.BatchID]int // by how many of these; none: by all
	putErr    error
	served    map[string]bool
	room      int // how many payloads there is memory for
	taken     int
	most      int // of these at a time
	shaped    error
	files     map[record.File]error         // nil: it is there
	other     bool                          // the files give other bytes
	readErr   func(p *record.Payload) error // of Read, after a look that found all; nil: none
	anew      *Reading
	block     chan struct{} // not nil: reading waits for it
	unkept    error         // of quarantine
}

type frame struct {
	p     *record.Payload
	sound bool
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, books: ledger.New(), next: 'a', covers: map[record.BatchID]bool{}, history: map[record.BatchID]*record.Payload{},
		served: map[string]bool{"c": true}, room: 1 << 20, files: map[record.File]error{},
	}
	w.r = New(Stores{
		Journal: w, Frames: w, Ranges: w, Spool: spoolOf{w}, SpoolHas: func([]uint64) {}, Books: w.books, Quarantine: keeper{w},
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		NewID: func() record.BatchID {
			w.next++
			return id(w.next - 1)
		},
	})
	return w
}

func id(letter byte) record.BatchID { return record.BatchID{letter} }

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range args {
		if is, ok := a.(record.BatchID); ok {
			args[i] = string(is[:1])
		}
	}
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// want expects what was told since it was asked last.
func (w *world) want(told ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.told, told) {
		w.t.Errorf("told\n%s\nwant\n%s", strings.Join(w.told, "\n"), strings.Join(told, "\n"))
	}
	w.told = nil
}

// wantBooks expects them to close, tables to have got what inputs ended, and the
// accounts that are not zero.
func (w *world) wantBooks(want string) {
	w.t.Helper()
	inputs, tables := w.books.Report()
	b := inputs["in"]
	if err := b.Check(); err != nil {
		w.t.Error(err)
	}
	var ends ledger.Ends
	for _, e := range tables {
		ends.Quarantined.Records += e.Quarantined.Records
		ends.Dropped.Records += e.Dropped.Records
	}
	if ends.Quarantined.Records != ledger.Total(b.Quarantined) || ends.Dropped.Records != ledger.Total(b.Dropped) {
		w.t.Errorf("tables got %+v, the input ended %+v", ends, b)
	}
	got := ""
	for _, a := range []struct {
		name string
		n    uint64
	}{
		{"restored", b.Restored}, {"pending", b.Pending}, {"spooled", b.Spooled}, {"dropped", ledger.Total(b.Dropped)},
		{"quarantined", ledger.Total(b.Quarantined)}, {"joined", b.Filtered[ledger.Joined]},
	} {
		if a.n > 0 {
			got += fmt.Sprintf("%s %d ", a.name, a.n)
		}
	}
	if strings.TrimSpace(got) != want {
		w.t.Errorf("books are %q, want %q", got, want)
	}
}

func (w *world) wantLog(text string, times int) {
	w.t.Helper()
	if n := strings.Count(w.log.String(), text); n != times {
		w.t.Errorf("%q is logged %d times, want %d:\n%s", text, n, times, w.log.String())
	}
}

// payload has records of files, ten bytes each.
func payload(letter byte, files ...int) *record.Payload {
	p := &record.Payload{ID: id(letter), Route: record.Route{Cluster: "c", Table: "t"}}
	for i, n := range files {
		f := record.File{Input: "in", ID: record.FileID(i + 1)}
		span := record.Span{End: int64(n) * 10}
		p.Cover = append(p.Cover, record.Extent{File: f, Span: span})
		p.Pieces = append(p.Pieces, record.Piece{File: f, Span: span, Records: n})
		p.Records += n
	}
	return p
}

// during runs a Recovery while f does.
func (w *world) during(f func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	// Ended by cancel, awaited below.
	go func() {
		defer close(done)
		w.r.Run(ctx, Rooms{Source: w, Packer: packer{w}, Sender: senderOf{w}})
	}()
	synctest.Wait()
	f()
	cancel()
	<-done
}

func (w *world) Begin(p *record.Payload) error { w.tell("begin %s", p.ID); return nil }
func (w *world) End(id record.BatchID, o record.Outcome) error {
	w.tell("end %s %v", id, o)
	return nil
}
func (w *world) Split(parent record.BatchID, children []*record.Payload) error {
	text := ""
	for _, c := range children {
		text += " " + string(c.ID[:1])
	}
	w.tell("split %s%s", parent, text)
	return nil
}
func (w *world) EndReplay(id record.BatchID, o record.Outcome) error {
	w.tell("end frame %s %v", id, o)
	return nil
}
func (w *world) Unknown(id record.BatchID, n int) error  { w.tell("unknown %s %d", id, n); return nil }
func (w *world) Answered(id record.BatchID, n int) error { w.tell("answered %s %d", id, n); return nil }
func (w *world) Replay(id record.BatchID, n int) error   { w.tell("replay %s %d", id, n); return nil }
func (w *world) Removed(ids []record.BatchID) {
	var all []string
	for _, id := range ids {
		all = append(all, string(id[:1]))
	}
	slices.Sort(all)
	if len(all) > 0 {
		w.tell("removed %s", strings.Join(all, " "))
	}
}
func (w *world) InSpool(want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.history)
	maps.DeleteFunc(all, func(id record.BatchID, _ *record.Payload) bool { return !want(id) })
	return all, w.noJnl
}
func (w *world) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unwell == nil {
		maps.Copy(w.history, w.unwritten)
	}
	return w.unwell
}
func (w *world) Covers(p *record.Payload) bool { return w.covers[p.ID] }
func (w *world) Skip(f record.File, s record.Span, _ record.Mark) error {
	w.tell("skip %v", s)
	return nil
}

// numbers are those of segments.
type numbers struct {
	has   []uint64
	above uint64
}

func (s spoolOf) Segments() []uint64       { return s.numbers.has }
func (s spoolOf) NumberAbove(above uint64) { s.numbers.above = above }

type spoolOf struct{ *world }

func (s spoolOf) Put(p *record.Payload) error {
	if s.putErr == nil {
		s.tell("spool %s", p.ID)
	}
	return s.putErr
}
func (s spoolOf) Held(ids iter.Seq[record.BatchID], over func(id record.BatchID) bool, fn func(p *record.Payload, sound bool) bool) (passed, lost map[string]int, err error) {
	passed, lost = map[string]int{}, map[string]int{}
	s.walks++
	s.frames = slices.DeleteFunc(s.frames, func(f frame) bool {
		own := *f.p
		part := own.Replaces != record.BatchID{}
		if s.readable[own.ID] > 0 && s.walks > s.readable[own.ID] {
			if !part {
				own.Inputs(func(input string, n int) { lost[input] += n })
			}
			return true
		}
		switch {
		case ids != nil && s.vouched && f.sound && !part && !slices.Contains(slices.Collect(ids), own.ID):
			own.Inputs(func(input string, n int) { passed[input] += n })
			return false
		case over != nil && !part && over(own.ID):
			return true
		}
		return !fn(&own, f.sound)
	})
	return passed, lost, nil
}
func (s spoolOf) Which(ids iter.Seq[record.BatchID], fn func(id record.BatchID)) error {
	for _, f := range s.frames { // of others too
		fn(f.p.ID)
	}
	return nil
}
func (s spoolOf) Attempted(id record.BatchID, n int) { s.tell("attempted %s %d", id, n) }

type keeper struct{ *world }

func (k keeper) Put(recs []record.Rejected) error {
	k.tell("quarantine %d", len(recs))
	return k.unkept
}

type senderOf struct{ *world }

func (s senderOf) Put(p *record.Payload)  { s.tell("send %s %q", p.ID, p.Body) }
func (s senderOf) Expect(record.Route)    {}
func (s senderOf) Serves(url string) bool { return s.served[url] }

type packer struct{ *world }

func (k packer) Fill(p *record.Payload, raw ...[]byte) { p.Body = bytes.Join(raw, nil) }
func (k packer) Adopt(*record.Payload) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.room--
}
func (k packer) Reserve(must bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.room-k.taken <= 0 && !must {
		return false
	}
	k.taken++
	k.most = max(k.most, k.taken)
	return true
}
func (k packer) Unreserve() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken--
}

func (w *world) Shaped(*record.Payload) error { return w.shaped }

func (w *world) look(p *record.Payload) error {
	w.mu.Lock()
	block := w.block
	w.mu.Unlock()
	if block != nil {
		<-block
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range p.Cover {
		if err := w.files[x.File]; err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Read(p *record.Payload) ([]byte, bool, error) {
	if err := w.look(p); err != nil {
		return nil, false, err
	}
	if w.readErr != nil {
		if err := w.readErr(p); err != nil {
			return nil, false, err
		}
	}
	if w.other {
		p.Pieces = slices.Clone(p.Pieces)
		p.Pieces[0].Records++
		p.Records++
	}
	return []byte(fmt.Sprint(p.Records)), !w.other, nil
}

func (w *world) Anew(p *record.Payload) (*Reading, error) {
	if err := w.look(p); err != nil {
		return nil, err
	}
	return w.anew, nil
}

func (w *world) Divide(p *record.Payload) (left, gone record.Payload, err error) {
	left, gone = *p, *p
	for _, part := range []*record.Payload{&left, &gone} {
		part.Cover, part.Pieces, part.Records = nil, nil, 0
	}
	for i, x := range p.Cover {
		to := &left
		switch err := w.files[x.File]; {
		case errors.Is(err, ErrGone):
			to = &gone
		case err != nil:
			return left, gone, err
		}
		to.Cover, to.Pieces, to.Records = append(to.Cover, x), append(to.Pieces, p.Pieces[i]), to.Records+p.Pieces[i].Records
	}
	return left, gone, nil
}
