package audit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
)

type random struct{ *rand.Rand }

func newRand(seed int) random { return random{rand.New(rand.NewPCG(uint64(seed), 17))} }

func (r random) span(size int64) record.Span {
	a, b := r.Int64N(size+1), r.Int64N(size+1)
	return record.Span{Start: min(a, b), End: max(a, b)}
}

// oracleSize is how many bytes the file of the oracle has.
const oracleSize = 48

// oracle keeps what became of each byte on its own, from what happens and not from the
// entries that tell of it.
type oracle struct {
	accepted                                            [oracleSize]int
	quarantined, dropped, gone, skipped, given, vouched [oracleSize]bool
	batches                                             map[int]*oracleBatch
	over                                                [oracleSize]bool
	spooled                                             map[record.BatchID]bool
}

type oracleBatch struct {
	record.Span
	attempt  int
	inSpool  bool
	over     bool
	tried    bool // in this run
	doubtful bool
}

func each(s record.Span, f func(i int64)) {
	for i := s.Start; i < s.End; i++ {
		f(i)
	}
}

// ends notes how a batch ended.
func (o *oracle) ends(b *oracleBatch, how record.Outcome) {
	b.over = true
	each(b.Span, func(i int64) {
		switch how {
		case record.Accepted:
			o.over[i] = o.over[i] || o.accepted[i] > 0
			o.accepted[i]++
		case record.Quarantined:
			o.quarantined[i] = true
		case record.Dropped:
			o.dropped[i] = true
		case record.SourceGone:
			o.gone[i] = true
		}
	})
}

// safe says that a byte has a fate that makes it so.
func (o *oracle) safe(i int64) bool {
	return o.accepted[i] > 0 || o.quarantined[i] || o.dropped[i] || o.gone[i] || o.skipped[i]
}

// TestAgainstTheOracle: random histories, with entries that come twice around each
// segment, kills and stops, add up to what happened, byte by byte.
func TestAgainstTheOracle(t *testing.T) {
	for seed := range 2000 {
		if err := compareWithOracle(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func compareWithOracle(seed int) error {
	rnd := newRand(seed)
	w := newTeller(time.Time{})
	o := &oracle{batches: map[int]*oracleBatch{}, spooled: map[record.BatchID]bool{}}
	var recent []journal.Entry // since the segment that is being made was begun
	making := false
	tell := func(e journal.Entry) {
		if making {
			recent = append(recent, e)
		}
		w.tell(e)
	}
	snapshot := func() (state []journal.Entry) {
		p := int64(0)
		for p < oracleSize && (o.safe(p) || o.inSpool(p) || o.vouched[p]) {
			p++
		}
		state = append(state, position(p))
		for n, b := range o.batches {
			if !b.over && !b.inSpool {
				x := batchOf(n, fileOf(1), b.Start, b.End)
				x.Attempt = b.attempt
				state = append(state, journal.Entry{Kind: journal.Begin, Payload: x, Batch: x.ID, Attempt: b.attempt})
			}
		}
		return state
	}
	told := func(state []journal.Entry) { // it counts when it is there, and not while it is made
		each(record.Span{End: state[0].Span.End}, func(i int64) { o.vouched[i] = true })
		w.snapshot(state...)
	}
	var state []journal.Entry
	next := 0
	pick := func(inSpool bool) (int, *oracleBatch) {
		for n := range next { // in their order, so that a seed means the same in each run
			if b := o.batches[n]; b != nil && !b.over && b.inSpool == inSpool && rnd.IntN(2) == 0 {
				return n, b
			}
		}
		return 0, nil
	}
	outcomes := []record.Outcome{record.Accepted, record.Accepted, record.Accepted, record.Quarantined, record.Dropped, record.SourceGone, record.Replaced}
	for range rnd.IntN(60) {
		switch rnd.IntN(12) {
		case 0, 1, 2:
			s := rnd.span(oracleSize)
			b := &oracleBatch{Span: s, attempt: rnd.IntN(2)}
			b.tried = b.attempt > 0
			o.batches[next] = b
			p := batchOf(next, fileOf(1), s.Start, s.End)
			p.Attempt = b.attempt
			tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: b.attempt})
			next++
		case 3, 4:
			if n, b := pick(false); b != nil {
				how := outcomes[rnd.IntN(len(outcomes))]
				o.ends(b, how)
				tell(journal.Entry{Kind: journal.End, Batch: idOf(n), Outcome: how})
			}
		case 5:
			if n, b := pick(false); b != nil {
				b.inSpool = true
				o.spooled[idOf(n)] = rnd.IntN(4) > 0 // else the spool loses it
				tell(journal.Entry{Kind: journal.End, Batch: idOf(n), Outcome: record.Spooled})
			}
		case 6:
			if n, b := pick(true); b != nil {
				how := outcomes[rnd.IntN(len(outcomes))]
				o.ends(b, how)
				tell(journal.Entry{Kind: journal.ReplayEnd, Batch: idOf(n), Outcome: how})
			}
		case 7:
			inSpool := rnd.IntN(2) == 0
			if n, b := pick(inSpool); b != nil {
				b.attempt++
				b.tried = true
				kind := journal.Attempt
				if inSpool {
					kind = journal.Replay
				}
				tell(journal.Entry{Kind: kind, Batch: idOf(n), Attempt: b.attempt})
				if inSpool && rnd.IntN(2) == 0 {
					b.tried = false
					tell(journal.Entry{Kind: kind, Batch: idOf(n), Attempt: b.attempt, Answered: true})
				}
			}
		case 8:
			if n, b := pick(rnd.IntN(2) == 0); b != nil && b.attempt > 0 {
				b.doubtful = true
				tell(journal.Entry{Kind: journal.Unknown, Batch: idOf(n), Attempt: b.attempt})
			}
		case 9:
			s := rnd.span(oracleSize)
			if rnd.IntN(3) == 0 {
				each(s, func(i int64) { o.given[i] = true })
				tell(journal.Entry{Kind: journal.Abandoned, File: fileOf(1), Span: s})
				break
			}
			each(s, func(i int64) { o.skipped[i] = true })
			tell(journal.Entry{Kind: journal.Skip, File: fileOf(1), Span: s})
		case 10: // a segment is begun, and takes over later
			if !making {
				making, recent, state = true, nil, snapshot()
				break
			}
			making = false
			told(state)
			for _, e := range recent {
				w.tell(e)
			}
		case 11:
			if making || rnd.IntN(3) > 0 {
				break
			}
			clean := rnd.IntN(2) == 0
			if clean {
				w.stop()
			}
			for _, b := range o.batches {
				b.doubtful = b.doubtful || !clean && b.tried && !b.over
				b.tried = false
			}
			w.run++
			told(snapshot())
		}
	}
	return o.compare(w.h)
}

// inSpool says that a byte is in a payload of which the journal was told that it is in the
// spool, whether it is there or not.
func (o *oracle) inSpool(i int64) bool { return o.held(i, true) }

func (o *oracle) held(i int64, inSpool bool) bool {
	for _, b := range o.batches {
		if !b.over && b.inSpool == inSpool && b.Start <= i && i < b.End {
			return true
		}
	}
	return false
}

// there says that a byte is in a payload that the spool has.
func (o *oracle) there(i int64) bool {
	for n, b := range o.batches {
		if !b.over && b.inSpool && o.spooled[idOf(n)] && b.Start <= i && i < b.End {
			return true
		}
	}
	return false
}

func (o *oracle) compare(h *history) error {
	r := h.report(&facts{spooled: o.spooled, sources: map[record.File]source{fileOf(1): {found: true}}}, nil)
	if len(r.Files) == 0 {
		r.Files = []File{{}}
	}
	f := r.Files[0]
	problems := map[Problem][]Span{}
	doubts := map[string]bool{}
	for _, x := range f.Troubles {
		problems[x.Problem] = x.Ranges
		if x.Problem == Unsure {
			for _, d := range x.Batches {
				doubts[d.Batch] = true
			}
		}
	}
	account := func(of func(Destination) Account) []Span {
		if len(f.Routes) == 0 {
			return nil
		}
		return of(f.Routes[0]).Ranges
	}
	in := func(all []Span, i int64) bool {
		for _, s := range all {
			if s.Start <= i && i < s.End {
				return true
			}
		}
		return false
	}
	failing := false
	top := int64(0)
	for i := range int64(oracleSize) {
		if o.safe(i) || o.held(i, false) || o.held(i, true) || o.given[i] || o.vouched[i] {
			top = i + 1
		}
	}
	for i := range int64(oracleSize) {
		begun := o.held(i, false) && !o.safe(i)
		there := o.there(i) && !o.safe(i)
		lost := o.held(i, true) && !o.there(i) && !o.safe(i) && !begun
		given := o.given[i] && !o.safe(i) && !begun && !o.held(i, true)
		unproven := o.vouched[i] && !o.safe(i) && !begun && !o.held(i, true) && !given
		nothing := !o.safe(i) && !o.held(i, true) && !begun && !given && !unproven
		for _, c := range []struct {
			name      string
			got, want bool
		}{
			{"accepted", in(account(func(d Destination) Account { return d.Accepted }), i), o.accepted[i] > 0},
			{"quarantined", in(account(func(d Destination) Account { return d.Quarantined }), i), o.quarantined[i]},
			{"dropped", in(problems[Discarded], i), o.dropped[i]},
			{"source gone", in(problems[SourceGone], i), o.gone[i]},
			{"skipped", in(f.Skipped, i), o.skipped[i]},
			{"doubled", in(problems[Doubled], i), o.over[i]},
			{"begun", in(f.UnderWay, i), begun},
			{"in the spool", in(f.InSpool, i), there},
			{"lost from the spool", in(problems[SpoolLost], i), lost},
			{"abandoned", in(problems[Abandoned], i), given},
			{"unproven", in(problems[Unproven], i), unproven},
			{"unsent", in(f.Unsent, i), nothing && i < top},
		} {
			if c.got != c.want {
				return fmt.Errorf("byte %d: %s is %v, want %v", i, c.name, c.got, c.want)
			}
		}
		failing = failing || lost || given || unproven || o.dropped[i] || o.gone[i]
	}
	if r.OK == failing {
		return fmt.Errorf("ok is %v, failing is %v", r.OK, failing)
	}
	records := int64(0)
	for n, b := range o.batches {
		if got := doubts[idOf(n).String()]; got != (b.doubtful && b.Len() > 0) {
			return fmt.Errorf("batch %d: doubt %v, want %v", n, got, b.doubtful)
		}
	}
	for _, n := range o.accepted {
		records += int64(n)
	}
	if len(f.Routes) > 0 && f.Routes[0].Accepted.Records != records {
		return fmt.Errorf("%d records accepted, want %d", f.Routes[0].Accepted.Records, records)
	}
	return nil
}
