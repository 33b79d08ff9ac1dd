package tail

import (
	"testing"

	"kusto-agent/internal/record"
)

// deafJournal never hears that an input was seen, as if the run had been killed
// before; with skips it hears of no skip either.
type deafJournal struct {
	positions
	skips bool
}

func (deafJournal) InputSeen(string) (bool, error) { return false, nil }

func (d deafJournal) Skip(f record.File, span record.Span, mark record.Mark) error {
	if d.skips {
		return nil
	}
	return d.positions.Skip(f, span, mark)
}

// TestKilledInItsFirstScan: a run with start_at: end that is killed before it is
// known that the input was seen reads nothing old afterwards, and skips nothing
// that was written since.
func TestKilledInItsFirstScan(t *testing.T) {
	f := func(name string, skips bool) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.in().StartAt = "end"
			w.journalFor = func(p positions) memory { return deafJournal{p, skips} }
			s := newScript(w)
			s.run(`
				append a.log old1..old99
				partial b.log "old\nhalf"
				append empty.log
				start
				look
				kill
			`)
			w.journalFor = nil
			s.run(`
				append a.log new
				append b.log " and half" whole
				append empty.log first
				append c.log old
				start
				look
				append a.log newer
				append c.log later
				append d.log one
				expect "half and half" whole new newer first later one
				kill
				append d.log two
				start
				expect two
			`)
		})
	}
	f("before the input was noted", false)
	f("before anything was skipped", true)
}

// TestSeenWhereNothingWas: the files of an input whose folder was not there when
// it was first looked for are new ones.
func TestSeenWhereNothingWas(t *testing.T) {
	w := newWorld(t)
	w.in().StartAt = "end"
	w.in().Paths = []string{w.path("d/*.log")}
	newScript(w).run("start\nlook\nkill\nmkdir d\nappend d/a.log one\nstart\nexpect one")
}
