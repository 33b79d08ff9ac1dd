// Package audit tells what became of every range of every file, from what the journal was
// told: no range counts as delivered unless the end of a batch that covers it says so.
package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"kusto-agent/internal/record"
)

// Cause is why the outcome of a request is not known.
type Cause string

// The causes.
const (
	NoAnswer Cause = "no_answer" // the body was sent and no trustworthy answer came
	Killed   Cause = "killed"    // the agent came to a sudden end while it was perhaps under way

	// The machine stopped, and the journal lost its last moments: perhaps that these records
	// were sent.
	MachineStopped Cause = "machine_stopped"
)

// Problem is the kind of a trouble. The words are in --json: never change one.
type Problem string

// The problems. Those above GivenUp make an audit fail; Discarded does where the
// configuration allows no drops.
const (
	Unproven   Problem = "unproven"    // a checkpoint says it is safe, and nothing tells how
	SpoolLost  Problem = "spool_lost"  // it went to the spool, has not ended, and is not there
	SourceGone Problem = "source_gone" // begun, outcome unknown, nothing left to send again
	Abandoned  Problem = "abandoned"   // given up before it was read
	Forgotten  Problem = "forgotten"   // read, never safe, and its file is remembered no more
	Vanished   Problem = "vanished"    // not safe yet, and its file is not to be found
	Discarded  Problem = "dropped"     // given up by drop_oldest or spool.max_age
	GivenUp    Problem = "removed"     // given up by a person: spool rm, quarantine rm
	Evicted    Problem = "evicted"     // dropped by a full quarantine, with when_full: drop_oldest
	Doubled    Problem = "overlap"     // accepted more than once
	Unsure     Problem = "unknown"     // perhaps stored twice
	Refused    Problem = "quarantined" // refused, in quarantine
)

// Span is a range of bytes, the end not in it.
type Span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// Doubt is a batch whose records are perhaps stored twice, or not at all if it has not
// ended as accepted.
type Doubt struct {
	Batch   string `json:"batch"`
	Why     Cause  `json:"why"`
	Ended   string `json:"ended"` // how; empty: it has not
	Records int64  `json:"records"`
	covers  []cover
}

// Overlap is a range that was safe before the batch was accepted that covers it.
type Overlap struct {
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	Batch string `json:"batch"`
}

// Account is what became of records that had the same end.
type Account struct {
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"` // of files, in records
	Batches int64  `json:"batches"`
	Ranges  []Span `json:"ranges"`
}

// Destination is what became of the records of a file that went one way.
type Destination struct {
	Cluster     string  `json:"cluster"`
	Database    string  `json:"database"`
	Table       string  `json:"table"`
	Format      string  `json:"format"`
	Mapping     string  `json:"mapping"`
	Accepted    Account `json:"accepted"`
	Quarantined Account `json:"quarantined"` // refused by the service
	Dropped     Account `json:"dropped"`
	SourceGone  Account `json:"source_gone"`
}

// Trouble is what a person should look at.
type Trouble struct {
	Problem Problem `json:"problem"`
	Fails   bool    `json:"fails"`
	Ranges  []Span  `json:"ranges,omitempty"`
	Batches []Doubt `json:"batches,omitempty"`
	Records int64   `json:"records,omitempty"` // where known
	More    int     `json:"more,omitempty"`    // that are not listed
	Fix     string  `json:"fix"`
}

// Bytes are those of the ranges.
func (t *Trouble) Bytes() (n int64) { return bytesOf(t.Ranges) }

// File is the part of the report on one generation of a file, as one input reads it.
type File struct {
	Input       string        `json:"input"`
	File        string        `json:"file"`
	Generation  uint32        `json:"generation"`
	Path        string        `json:"path"`   // when last seen; empty: not known
	Before      []Span        `json:"before"` // safe before the time that is judged
	Routes      []Destination `json:"routes"`
	Skipped     []Span        `json:"skipped"`     // nothing to send: blank lines, headers, what rules leave out, or records in quarantine alone
	Abandoned   []Span        `json:"abandoned"`   // given up before it was read
	UnderWay    []Span        `json:"under_way"`   // in a batch that was begun and has not ended
	InSpool     []Span        `json:"in_spool"`    // in a payload that waits there
	Unsent      []Span        `json:"unsent"`      // read or passed over, and in no batch yet: in memory, or to be read again
	Unread      int64         `json:"unread"`      // bytes of the file behind all that was read
	Quarantined int64         `json:"quarantined"` // records of it that lie in quarantine now
	Troubles    []Trouble     `json:"troubles"`
}

// Report is the verdict.
type Report struct {
	OK      bool      `json:"ok"`
	From    time.Time `json:"from"`  // what ended since can be told
	Whole   bool      `json:"whole"` // the journal goes back to the first start
	Until   time.Time `json:"until"` // the last entry
	Running bool      `json:"running"`
	Entries int64     `json:"entries"`
	Unread  int       `json:"journal_damaged"`    // ranges of the journal that cannot be read
	BadRest int       `json:"spool_damaged"`      // ranges of the spool that cannot be read
	BadLine int       `json:"quarantine_damaged"` // lines of quarantine that cannot be read
	Files   []File    `json:"files"`              // trouble first
}

// source is what was found of a file on disk.
type source struct {
	found bool
	size  int64
	path  string // where it is now
}

// facts are what other places than the journal tell. All maps may be nil.
type facts struct {
	spooled     map[record.BatchID]bool
	quarantined map[record.File]int64  // records
	sources     map[record.File]source // those looked for
	running     bool                   // an agent has its hands in it: what is not to be found may be with it
	drops       bool                   // the configuration allows to drop
	badSpool    int                    // ranges of the spool that cannot be read
	badLines    int                    // lines of quarantine that cannot be read
}

// report returns the verdict on the files of these inputs; with none, on all files. x is what the spool, the quarantine and the files on disk tell. It may be called again
// after more entries of the journal were taken in.
func (h *history) report(x *facts, inputs []string) *Report {
	r := &Report{OK: true, From: h.from, Whole: h.whole, Until: h.until, Running: x.running, Entries: h.entries, Unread: h.unread, BadRest: x.badSpool, BadLine: x.badLines}
	if h.since.After(r.From) {
		r.From, r.Whole = h.since, false
	}
	way, rest := h.underWay()
	newest := map[record.File]uint32{}
	for name := range h.files {
		key := record.File{Input: name.Input, ID: name.ID}
		newest[key] = max(newest[key], name.Generation)
	}
	for name, f := range h.files {
		if len(inputs) > 0 && !slices.Contains(inputs, name.Input) {
			continue
		}
		j := judge{f: f, x: x, begun: way[f], rest: rest[f], last: newest[record.File{Input: name.Input, ID: name.ID}] == name.Generation}
		file := j.file()
		for i := range file.Troubles {
			r.OK = r.OK && !file.Troubles[i].Fails
		}
		r.Files = append(r.Files, *file)
	}
	slices.SortFunc(r.Files, func(a, b File) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.Input, b.Input), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Generation, b.Generation))
	})
	return r
}

// rank returns how much a file needs a person: 0 not, 1 something to look at, 2 a failure.
func (f *File) rank() (n int) {
	for i := range f.Troubles {
		if n = max(n, 1); f.Troubles[i].Fails {
			return 2
		}
	}
	return n
}

// ranges of batches by file.
type ranges map[*file][]heldRange

// heldRange is a range and the batch that covers it.
type heldRange struct {
	record.Span
	by *batch
}

// underWay returns, by file, the ranges of batches that were begun and have not ended, and those of
// batches that wait in the spool. Batches of which the journal repeats a begin after their end
// (again) are left out.
func (h *history) underWay() (begun, resting ranges) {
	gather := func(all map[record.BatchID]*batch) ranges {
		out := ranges{}
		for _, b := range all {
			if b.again {
				continue
			}
			for _, c := range b.covers {
				out[c.f] = append(out[c.f], heldRange{c.Span, b})
			}
		}
		return out
	}
	return gather(h.open), gather(h.resting)
}

// missing returns how many batches went to the spool by the journal, have not ended, and are not in
// spooled, the ids found in the spool. Batches of which the journal repeats what it recorded before
// their end (again) do not count.
func (h *history) missing(spooled map[record.BatchID]bool) (n int) {
	for id, b := range h.resting {
		if !b.again && !spooled[id] {
			n++
		}
	}
	return n
}

// judge makes the report on one file.
type judge struct {
	f           *file
	x           *facts
	begun, rest []heldRange
	last        bool // no later generation is known
	out         *File
}

// file makes the report on one file: every byte gets one account, the more certain one first, and
// what is in none of them is trouble or still to be sent.
func (j *judge) file() *File {
	f := j.f
	j.out = &File{Input: f.name.Input, File: f.name.ID.String(), Generation: f.name.Generation, Path: record.Spell(f.info.Path), Before: list(f.base), Routes: []Destination{}, Troubles: []Trouble{}}
	var sets [fates]spans
	slices.SortFunc(f.strands, func(a, b *strand) int { return cmp.Compare(spell(a.route), spell(b.route)) })
	for _, s := range f.strands {
		for i := range sets {
			sets[i] = sets[i].with(s.sets[i])
		}
		if s.route != (record.Route{}) {
			j.out.Routes = append(j.out.Routes, destination(s))
		}
	}
	told := f.base
	for i, s := range sets {
		if fate(i) != abandoned {
			told = told.with(s)
		}
	}
	var begun, kept, lost spans
	for _, c := range j.begun {
		begun = begun.add(c.Span)
	}
	for _, c := range j.rest {
		if j.x.spooled[c.by.id] {
			kept = kept.add(c.Span)
		} else {
			lost = lost.add(c.Span)
		}
	}
	begun, kept = begun.without(told), kept.without(told)
	known := told.with(begun).with(kept)
	lost = lost.without(known)
	known = known.with(lost)
	left := sets[abandoned].without(known) // it may have come back
	known = known.with(left)
	unproven := f.vouched.without(known)
	known = known.with(unproven)
	unsent := spans{{Start: 0, End: known.end()}}.without(known)

	src, looked := j.x.sources[f.name]
	missing := looked && !src.found && !j.x.running && j.last && !f.info.Done
	j.trouble(Unproven, true, unproven)
	j.trouble(SpoolLost, true, lost)
	j.lose(SourceGone, true, sets[gone], func(s *strand) int64 { return s.records[gone] })
	j.trouble(Abandoned, true, left)
	switch {
	case f.forgotten:
		j.trouble(Forgotten, true, unsent)
		unsent = nil
	case missing:
		behind := unsent
		if f.info.Size > known.end() {
			behind = behind.add(record.Span{Start: known.end(), End: f.info.Size})
		}
		j.trouble(Vanished, true, behind.with(begun))
		unsent = nil
	}
	j.lose(Discarded, !j.x.drops, sets[dropped], func(s *strand) int64 { return s.records[dropped] })
	j.lose(GivenUp, false, sets[removed], func(s *strand) int64 { return s.records[removed] })
	j.lose(Evicted, false, sets[evicted], func(s *strand) int64 { return s.records[evicted] })
	if len(f.overlaps) > 0 {
		j.out.Troubles = append(j.out.Troubles, Trouble{Problem: Doubled, Ranges: list(f.over), More: f.moreOver, Batches: doubling(f.overlaps), Fix: fixes[Doubled]})
	}
	j.unsure()
	if n := j.x.quarantined[f.name]; n > 0 {
		j.out.Quarantined = n
		j.out.Troubles = append(j.out.Troubles, Trouble{Problem: Refused, Records: n, Fix: fixes[Refused]})
	}
	j.out.Skipped, j.out.Abandoned = list(sets[skipped]), list(left)
	j.out.UnderWay, j.out.InSpool, j.out.Unsent = list(begun), list(kept), list(unsent)
	if looked && src.found && j.last && !f.info.Done {
		j.out.Unread = max(0, src.size-known.end())
	}
	return j.out
}

// unsure adds the trouble for batches of which records may be stored twice, or whose outcome is
// open. It lists the batches and their ranges in this file.
func (j *judge) unsure() {
	if len(j.f.doubts) == 0 {
		return
	}
	t := Trouble{Problem: Unsure, More: j.f.moreDoubt, Fix: fixes[Unsure]}
	var all spans
	for _, d := range j.f.doubts {
		t.Batches = append(t.Batches, *d)
		t.Records += d.Records
		for _, c := range d.covers {
			if c.f == j.f {
				all = all.add(c.Span)
			}
		}
	}
	t.Ranges = list(all)
	j.out.Troubles = append(j.out.Troubles, t)
}

// trouble adds a trouble of the kind what for the ranges s of the file, with its fix; nothing if there
// are none. fails says that the audit fails because of it.
func (j *judge) trouble(what Problem, fails bool, s spans) {
	if len(s) > 0 {
		j.out.Troubles = append(j.out.Troubles, Trouble{Problem: what, Fails: fails, Ranges: list(s), Fix: fixes[what]})
	}
}

// lose adds one trouble for the ranges s of the file, of which records are lost; nothing if there are
// none. fails says that the audit fails because of it. records returns the number of lost records for
// one route of the file; lose adds up all routes.
func (j *judge) lose(what Problem, fails bool, s spans, records func(*strand) int64) {
	j.trouble(what, fails, s)
	if len(s) > 0 {
		for _, st := range j.f.strands {
			j.out.Troubles[len(j.out.Troubles)-1].Records += records(st)
		}
	}
}

// fixes are what a person can do.
var fixes = map[Problem]string{
	Unproven:   "if the journal was damaged or the state disk was full then, ask the table with --against-table; else keep state_dir and report it",
	SpoolLost:  "start the agent: it reads these ranges again from their files, or names what cannot be read",
	SourceGone: "ask the table with --against-table whether they are stored; send the file again if it is in a backup",
	Abandoned:  "send the rest of the file again if it is in a backup; raise what the log named then: max_pinned_deleted, limits.open_files or shutdown_timeout, or rotate with delaycompress",
	Forgotten:  "put the file back and start the agent, and raise forget_after",
	Vanished:   "put the file back, or start the agent: it looks for it in other folders too",
	Discarded:  "raise spool.max_size or spool.max_age, or set spool.when_full to block",
	GivenUp:    "no action needed: removed on purpose by `spool rm` or `quarantine rm`; to deliver them, send the file again",
	Evicted:    "raise quarantine.max_size, or set quarantine.when_full to block; to deliver them, mend them and send the file again",
	Doubled:    "remove the doubles in the query: kusto-agent audit --against-table prints a function for it",
	Unsure:     "nothing is missing; to see which are stored twice: kusto-agent audit --against-table",
	Refused:    "see why: kusto-agent quarantine ls",
}

// doubling returns the batches that overlaps are about, each once. All of them were accepted: an
// overlap is a range that a batch delivered although it was delivered before.
func doubling(all []Overlap) (out []Doubt) {
	for _, o := range all {
		if !slices.ContainsFunc(out, func(d Doubt) bool { return d.Batch == o.Batch }) {
			out = append(out, Doubt{Batch: o.Batch, Ended: record.Accepted.String()})
		}
	}
	return out
}

// destination returns what became of the records of a file that had the same route (table, format
// and mapping), for the report. s has the ranges and numbers by what became of them.
func destination(s *strand) Destination {
	r := s.route
	account := func(f fate) Account {
		return Account{Records: s.records[f], Bytes: s.bytes[f], Batches: s.batches[f], Ranges: list(s.sets[f])}
	}
	return Destination{Cluster: r.Cluster, Database: r.Database, Table: r.Table, Format: string(r.Format), Mapping: r.Mapping,
		Accepted: account(accepted), Quarantined: account(quarantined), Dropped: account(dropped), SourceGone: account(gone)}
}

// spell returns a text by which routes are sorted.
func spell(r record.Route) string { return fmt.Sprintf("%q", r) }

// list returns ranges for the report; never nil, so that JSON has a list.
func list(s spans) []Span {
	out := make([]Span, len(s))
	for i, e := range s {
		out[i] = Span(e)
	}
	return out
}

// bytesOf returns how many bytes the ranges contain.
func bytesOf(all []Span) (n int64) {
	for _, s := range all {
		n += s.End - s.Start
	}
	return n
}
