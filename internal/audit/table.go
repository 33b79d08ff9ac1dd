package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/record"
)

// Stamps are the columns of a table that say where a row comes from; an empty one is not
// there.
type Stamps struct {
	File, Generation, Offset string
	Shared                   bool // several records may have one offset, as with parsed messages of several streams
}

// Asker asks the service by version 2 of the query call, and hands on each row of the answer, as text by
// column. Its error ends a command.
type Asker interface {
	Ask(ctx context.Context, r record.Route, text string, parameters []query.Parameter, row func(map[string]string)) error
}

// TableOptions say how a table is asked.
type TableOptions struct {
	Options
	Stamps func(input string) Stamps
	Ask    Asker

	// Shaped says whether an input would send a record now as it was sent with this route
	// and shaping: if not, it may have had no stamps then.
	Shaped func(input string, to record.Route, shaping uint64) bool
}

// Finding is a record, or several of a range or a batch, that are not in the table as often
// as they should be.
type Finding struct {
	Input      string `json:"input"`
	File       string `json:"file"`
	Path       string `json:"path"`
	Generation uint32 `json:"generation"`
	Table      string `json:"table"`
	Offset     int64  `json:"offset"` // of the record; where Named is false, of the range that holds it
	End        int64  `json:"end"`    // of that range; 0 where Named is true
	Named      bool   `json:"named"`  // it is this record
	Batch      string `json:"batch"`  // that stored it; of a double the one that is known
	Records    int64  `json:"records"`
}

// TableReport is what the tables say to what the journal knows.
type TableReport struct {
	OK        bool      `json:"ok"`      // every record that was accepted and asked for is there, once, and no number is too small
	Checked   int64     `json:"checked"` // records that were accepted and asked for by their stamps
	Missing   []Finding `json:"missing"`
	Doubled   []Finding `json:"doubled"`
	Unstamped int64     `json:"unstamped"` // records of which nothing can be said: they bear no stamp
	Unclear   int64     `json:"unclear"`   // records of ranges of which it is not known whether all are there
	Functions []string  `json:"functions"` // management commands; each makes a function without the doubles of a table, if its stamps tell them from other records
	Windows   []Window  `json:"windows"`   // of tables with records without stamps: numbers alone
	Timeless  []string  `json:"timeless"`  // tables of which not even numbers tell: rows of them have no ingestion time
	Holes     []Hole    `json:"-"`         // where Missing is, by the batches that were accepted
	alike     []string  // tables with doubles that their stamps do not tell from other records
}

// sent is a piece that was accepted.
type sent struct {
	record.Span
	records int // -1: pieces that overlap were sent
	batch   record.BatchID
	route   record.Route
	at      time.Time // when it was accepted
	shaping uint64
}

// Hole is a piece that was accepted and of which records are not in the table.
type Hole struct {
	File  record.File
	Path  string // when last seen
	Route record.Route
	Batch record.BatchID
	record.Span
	At     time.Time // when it was accepted
	Stored []int64   // offsets of the records of Span that are in the table, in order
}

// Against makes the report of Read, and asks the tables for each record that was accepted; the
// second report is what they say. The errors are those of Read and of the service. After an error
// of the service the first report is returned all the same, and the second is nil.
func Against(ctx context.Context, o TableOptions) (*Report, *TableReport, error) {
	o.Options.pieces = true
	h, x, err := read(o.Options)
	if err != nil {
		return nil, nil, err
	}
	t := newTables(o, h)
	r := h.report(x, o.Inputs)
	files := make([]*file, 0, len(h.files))
	for _, f := range h.files {
		if len(o.Inputs) == 0 || slices.Contains(o.Inputs, f.name.Input) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *file) int { return strings.Compare(a.name.String(), b.name.String()) })
	for _, f := range files {
		if err := t.file(ctx, f); err != nil {
			return r, nil, err
		}
	}
	t.addOnceFunctions()
	if err := t.counts(ctx); err != nil {
		return r, nil, err
	}
	t.out.OK = len(t.out.Missing) == 0 && len(t.out.Doubled) == 0 && !slices.ContainsFunc(t.out.Windows, func(w Window) bool { return w.Missing() > 0 })
	return r, t.out, nil
}

// tables is one run of Against.
type tables struct {
	o   TableOptions
	h   *history
	out *TableReport

	unstamped map[record.Route]int64 // by table: records without stamps
	asked     map[record.Route]bool  // tables of which records were asked for by their stamps
}

// newTables returns a run of Against on what h has, with an empty report.
func newTables(o TableOptions, h *history) *tables {
	return &tables{o: o, h: h, unstamped: map[record.Route]int64{}, asked: map[record.Route]bool{}, out: &TableReport{Missing: []Finding{}, Doubled: []Finding{}, Functions: []string{}, Windows: []Window{}, Timeless: []string{}}}
}

// file asks the tables for the accepted records of one file, route by route. Records without stamps
// that identify them are only counted: of file and offset, and of the generation if the file was
// truncated or rewritten, since its offsets then begin again.
func (t *tables) file(ctx context.Context, f *file) error {
	stamps := t.o.Stamps(f.name.Input)
	byRoute := map[record.Route][]sent{}
	for _, s := range f.sent {
		byRoute[s.route] = append(byRoute[s.route], s)
	}
	for _, route := range sortedRoutes(byRoute) {
		all := byRoute[route]
		generations := stamps.Generation != "" || !t.rewritten(f.name)
		if stamps.File == "" || stamps.Offset == "" || !generations {
			for _, s := range all {
				t.unstamped[tableOf(route)] += int64(s.records)
			}
			continue
		}
		all, err := t.stamped(ctx, f, route, stamps, all)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			t.asked[tableOf(route)] = true
		}
		for _, window := range windows(joined(all)) {
			if err := t.window(ctx, f, route, stamps, window, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewritten reports whether a file has several generations, that is, was truncated or rewritten, so
// that an offset alone does not identify a record.
func (t *tables) rewritten(name record.File) bool {
	for other := range t.h.files {
		if other.Input == name.Input && other.ID == name.ID && other.Generation != name.Generation {
			return true
		}
	}
	return name.Generation > 0
}

// sortedRoutes returns the routes, which are the keys of all, in an order that is always the same.
func sortedRoutes[V any](all map[record.Route]V) []record.Route {
	return slices.SortedFunc(maps.Keys(all), func(a, b record.Route) int { return strings.Compare(spell(a), spell(b)) })
}

// joined sorts the pieces (ranges of one file that were accepted) and joins those that overlap. A
// joined piece has -1 records, since their number is not known. Of pieces with the same range only
// one is kept. It changes the order of all.
func joined(all []sent) (out []sent) {
	slices.SortFunc(all, func(a, b sent) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	for _, s := range all {
		last := len(out) - 1
		switch {
		case s.Len() <= 0:
		case last >= 0 && out[last].Span == s.Span: // the same, sent again
		case last >= 0 && s.Start < out[last].End:
			out[last].End, out[last].records = max(out[last].End, s.End), -1
		default:
			out = append(out, s)
		}
	}
	return out
}

// most is for how many records one question asks, about.
const most = 50_000

// windows divides pieces, which are sorted, into groups of about most records, for one query each.
// Pieces with an unknown number of records, -1, count as 0.
func windows(all []sent) (out [][]sent) {
	n := 0
	for i, s := range all {
		if i == 0 || n+max(s.records, 0) > most {
			out, n = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], s)
		n += max(s.records, 0)
	}
	return out
}

// stamped returns the pieces of a file without those that had no stamps when they were sent. These
// were sent with other settings than the present ones (Shaped is false), and the table has no row
// with stamps of any piece sent with the same settings. Their records are counted as unstamped.
func (t *tables) stamped(ctx context.Context, f *file, route record.Route, stamps Stamps, all []sent) ([]sent, error) {
	before := map[uint64][]sent{}
	for _, s := range all {
		if !t.o.Shaped(f.name.Input, route, s.shaping) {
			before[s.shaping] = append(before[s.shaping], s)
		}
	}
	for shaping, pieces := range before {
		rows := 0
		for _, w := range windows(joined(pieces)) {
			found, err := t.rows(ctx, f, route, stamps, record.Span{Start: w[0].Start, End: w[len(w)-1].End})
			if err != nil {
				return nil, err
			}
			for at := range found {
				if slices.ContainsFunc(w, func(s sent) bool { return s.Start <= at && at < s.End }) {
					rows++
				}
			}
		}
		if rows > 0 {
			continue
		}
		for _, s := range pieces {
			t.unstamped[tableOf(route)] += int64(s.records)
		}
		all = slices.DeleteFunc(slices.Clone(all), func(s sent) bool { return s.shaping == shaping })
	}
	return all, nil
}

// rows asks the table how often each record of the range s of a file is stored, and returns the
// number of copies by offset. It finds the rows by their stamps, the columns for file, generation
// and offset.
func (t *tables) rows(ctx context.Context, f *file, route record.Route, stamps Stamps, s record.Span) (map[int64]int64, error) {
	parameters := []query.Parameter{
		{Name: "of_file", Type: "string", Value: f.name.ID.String()},
		{Name: "from_offset", Type: "long", Value: strconv.FormatInt(s.Start, 10)},
		{Name: "to_offset", Type: "long", Value: strconv.FormatInt(s.End, 10)},
	}
	text := kusto.EntityName(route.Table) + " | where " + kusto.EntityName(stamps.File) + " == of_file"
	if stamps.Generation != "" {
		parameters = append(parameters, query.Parameter{Name: "of_generation", Type: "long", Value: strconv.FormatUint(uint64(f.name.Generation), 10)})
		text += " and " + kusto.EntityName(stamps.Generation) + " == of_generation"
	}
	text += " and " + kusto.EntityName(stamps.Offset) + " >= from_offset and " + kusto.EntityName(stamps.Offset) + " < to_offset" +
		" | summarize copies = count() by at = " + kusto.EntityName(stamps.Offset)
	found := map[int64]int64{}
	var bad error
	err := t.o.Ask.Ask(ctx, route, text, parameters, func(row map[string]string) {
		at, err := strconv.ParseInt(row["at"], 10, 64)
		copies, err2 := strconv.ParseInt(row["copies"], 10, 64)
		if bad = errors.Join(bad, err, err2); bad == nil {
			found[at] += copies
		}
	})
	if err == nil && bad != nil {
		err = fmt.Errorf("read the answer on table %s: %w", route.Table, bad)
	}
	return found, err
}

// window asks the table for the rows of some neighbouring pieces (ranges of the file that were
// accepted), in one query, and compares them with what was sent. What is missing or doubled goes to
// the report. all are all pieces of the file and route. The error is that of the query.
func (t *tables) window(ctx context.Context, f *file, route record.Route, stamps Stamps, pieces, all []sent) error {
	found, err := t.rows(ctx, f, route, stamps, record.Span{Start: pieces[0].Start, End: pieces[len(pieces)-1].End})
	if err != nil {
		return err
	}
	offsets := slices.Sorted(maps.Keys(found))
	for _, p := range pieces {
		missing := len(t.out.Missing)
		t.piece(f, p, within(offsets, p.Span), found, stamps.Shared)
		if len(t.out.Missing) > missing {
			t.hole(f, p, all, offsets)
		}
	}
	return nil
}

// within returns those of the offsets, which must be sorted, that are in the range s. The result
// shares the memory of offsets.
func within(offsets []int64, s record.Span) []int64 {
	i, _ := slices.BinarySearch(offsets, s.Start)
	j, _ := slices.BinarySearch(offsets, s.End)
	return offsets[i:j]
}

// hole adds to the report every range that was sent within the piece p, of which records are
// missing, with its batch and the offsets that the table has. A hole is what a repair can send
// again. all are sorted by Start; stored are the sorted offsets of the rows.
func (t *tables) hole(f *file, p sent, all []sent, stored []int64) {
	i, _ := slices.BinarySearchFunc(all, p.Start, func(s sent, start int64) int { return cmp.Compare(s.Start, start) })
	for ; i < len(all) && all[i].Start < p.End; i++ {
		s := &all[i]
		t.out.Holes = append(t.out.Holes, Hole{File: f.name, Path: f.info.Path, Route: s.route, Batch: s.batch, Span: s.Span, At: s.at,
			Stored: slices.Clone(within(stored, s.Span))})
	}
}

// piece compares the rows of a piece, a range of a file that was accepted, with its records, and adds
// what is missing or doubled to the report. offsets are the offsets that rows have, and found is the
// number of rows by offset. If the offsets of the records can be read from the file and agree with the
// rows, or as many offsets were found as records were sent, each missing or doubled record is named by
// its offset. Otherwise only numbers are compared, and the report has the whole range. shared says that
// several records may have one offset. If nothing tells how many records the piece has, its rows count
// as unclear.
func (t *tables) piece(f *file, p sent, offsets []int64, found map[int64]int64, shared bool) {
	rows := int64(0)
	for _, at := range offsets {
		rows += found[at]
	}
	finding := func(at int64, records int64) Finding {
		return Finding{Input: f.name.Input, File: f.name.ID.String(), Path: record.Spell(f.info.Path), Generation: f.name.Generation,
			Table: p.route.Table, Offset: at, Named: true, Batch: p.batch.String(), Records: records}
	}
	ranged := func(records int64) Finding {
		x := finding(p.Start, records)
		x.End, x.Named = p.End, false
		return x
	}
	want, distinct := int64(p.records), int64(len(offsets))
	starts, read := t.starts(f, p)
	sure := read && subset(offsets, starts) && (want < 0 || int64(len(starts)) == want)
	switch {
	case want < 0 && !sure: // nothing says how many there should be
		t.out.Unclear += rows
		want = distinct
	case want < 0:
		want = int64(len(starts))
	}
	t.out.Checked += want
	doubles := func() {
		for _, at := range offsets {
			if n := found[at]; n > 1 {
				t.out.Doubled = append(t.out.Doubled, finding(at, n-1))
			}
		}
	}
	switch {
	case (distinct == want || sure) && !(shared && rows > distinct && rows == want):
		doubles()
		for _, at := range starts {
			if sure && found[at] == 0 {
				t.out.Missing = append(t.out.Missing, finding(at, 1))
			}
		}
	case shared && rows == want:
		t.out.Unclear += want
	case shared && distinct < want && rows > want:
		t.out.Doubled = append(t.out.Doubled, ranged(rows-want))
	case shared && rows < want:
		t.out.Missing = append(t.out.Missing, ranged(want-rows))
	default:
		if distinct < want {
			t.out.Missing = append(t.out.Missing, ranged(want-distinct))
		}
		doubles()
	}
}

// starts reads the piece p from the file itself and returns the offsets of its lines, without blank
// ones. It returns false if the file is not there, is too short, compressed or not UTF-8, or the
// piece is larger than 64 MiB. The lines may not be those that were sent: the caller compares them
// with the rows.
func (t *tables) starts(f *file, p sent) (all []int64, ok bool) {
	i := &f.info
	if i.Path == "" || i.Packed.Size > 0 || i.Encoding != "" && i.Encoding != "utf-8" || p.Len() > 64<<20 {
		return nil, false
	}
	path, there := pathOf(i)
	if !there {
		return nil, false
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	b := make([]byte, p.Len())
	if _, err := io.ReadFull(io.NewSectionReader(file, p.Start, p.Len()), b); err != nil {
		return nil, false
	}
	at := p.Start
	for line := range bytes.Lines(b) {
		if len(bytes.TrimSpace(line)) > 0 {
			all = append(all, at)
		}
		at += int64(len(line))
	}
	return all, true
}

// subset reports whether all of a is in b; both are sorted.
func subset(a, b []int64) bool {
	for _, at := range a {
		if _, in := slices.BinarySearch(b, at); !in {
			return false
		}
	}
	return true
}

// addOnceFunctions adds to the report, for each table of which records were asked for by their
// stamps, the KQL command that creates <table>_once: a function which returns the rows of the table
// without duplicates, one for each file, generation and offset. Rows without stamps, which were
// sent before their input had stamps or are of another writer, it returns as they are. If sound
// records of a table may have the same stamps, a function would hide some of them: the table gets
// none, and the report names it if it has doubles.
func (t *tables) addOnceFunctions() {
	inputs := t.inputs()
	for _, r := range sortedRoutes(t.asked) {
		by, tests, alike := t.grouping(inputs[r])
		if alike {
			if slices.ContainsFunc(t.out.Doubled, func(x Finding) bool { return x.Table == r.Table }) && !slices.Contains(t.out.alike, r.Table) {
				t.out.alike = append(t.out.alike, r.Table)
			}
			continue
		}
		text := fmt.Sprintf(".create-or-alter function with (docstring = \"rows of %s, each record once\") %s() { %[3]s | where %[4]s | summarize take_any(*) by %s | union (%[3]s | where not(%[4]s)) }",
			strings.ReplaceAll(r.Table, `"`, ""), kusto.EntityName(r.Table+"_once"), kusto.EntityName(r.Table), strings.Join(tests, " or "), strings.Join(by, ", "))
		if !slices.Contains(t.out.Functions, text) { // a table of another database may have the same
			t.out.Functions = append(t.out.Functions, text)
		}
	}
}

// inputs returns, by table, the names of the inputs that sent records to it; true: also of a later
// generation of a file, one that began after the file was truncated.
func (t *tables) inputs() map[record.Route]map[string]bool {
	all := map[record.Route]map[string]bool{}
	for name, f := range t.h.files {
		for i := range f.sent {
			table := tableOf(f.sent[i].route)
			if all[table] == nil {
				all[table] = map[string]bool{}
			}
			all[table][name.Input] = all[table][name.Input] || name.Generation > 0
		}
	}
	return all
}

// grouping returns how the rows of a table are told apart by the stamps of its inputs (see inputs).
// Inputs may write to one table with stamps in different columns. A function has one body, so it
// groups by the columns of all of them (by): those of the others are empty in the rows of an input.
// Of the conditions in tests, one at least holds for a row with stamps. alike says that sound
// records of an input may have the same stamps.
func (t *tables) grouping(inputs map[string]bool) (by, tests []string, alike bool) {
	add := func(all *[]string, text string) {
		if !slices.Contains(*all, text) {
			*all = append(*all, text)
		}
	}
	for _, input := range slices.Sorted(maps.Keys(inputs)) {
		s := t.o.Stamps(input)
		if s.File == "" || s.Offset == "" {
			continue
		}
		alike = alike || s.Shared || s.Generation == "" && inputs[input]
		add(&by, kusto.EntityName(s.File))
		test := "isnotempty(" + kusto.EntityName(s.File) + ")"
		for _, column := range []string{s.Generation, s.Offset} {
			if column != "" {
				add(&by, kusto.EntityName(column))
				test += " and isnotnull(" + kusto.EntityName(column) + ")"
			}
		}
		add(&tests, test)
	}
	return by, tests, alike
}

// stampsHint is how records get stamps.
const stampsHint = "To have each record named, add to the input, and a column for each to its mapping: " +
	"fields: {file: \"{file}\", generation: \"{generation}\", offset: \"{offset}\", batch: \"{batch}\"}"

// Write writes the report of the tables as text for people.
func (t *TableReport) Write(w io.Writer) error {
	p := &printer{w: w}
	p.line("")
	missing, doubled := sumOf(t.Missing), sumOf(t.Doubled)
	switch {
	case t.Checked == 0 && t.Unstamped+int64(len(t.Windows)) > 0:
	case missing+doubled == 0:
		p.wrapped("", fmt.Sprintf("In the tables: all of %s that were accepted are stored, each once.", counted(t.Checked, "record")))
	default:
		p.wrapped("", fmt.Sprintf("In the tables NOT OK: of %s that were accepted, %s missing, %s too many.", counted(t.Checked, "record"), isAre(missing), counted(doubled, "row")))
	}
	p.windows(t)
	if t.Unstamped > 0 {
		p.wrapped("", fmt.Sprintf("Nothing can be said of %s that bear no stamp: rows of table %s have no ingestion time; later ones have with .alter table NAME policy ingestiontime true. "+stampsHint, counted(t.Unstamped, "record"), strings.Join(t.Timeless, ", ")))
	}
	if t.Unclear > 0 {
		p.wrapped("", fmt.Sprintf("Whether anything is missing around %s is not known: their file is gone and they were sent twice, or several of them have one offset.", counted(t.Unclear, "record")))
	}
	p.findings("missing", t.Missing)
	p.findings("stored again", t.Doubled)
	if len(t.alike) > 0 {
		p.line("")
		p.wrapped("", fmt.Sprintf("No query by stamps alone tells the doubles of table %s from other records: those of an input with parse, or of a rewritten file without the stamp {generation}, may have the same stamps.", strings.Join(t.alike, ", ")))
	}
	if doubled > 0 && len(t.Functions) > 0 {
		p.line("")
		p.wrapped("", "To read a table without its doubles, make this function with kusto-agent mgmt and query it in the place of the table:")
		for _, f := range t.Functions {
			p.line("%s", f)
		}
	}
	return p.err
}

// isAre returns a number with the verb: "1 is", "2 are".
func isAre(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return number(n) + " are"
}

// sumOf returns how many records the findings are about.
func sumOf(all []Finding) (n int64) {
	for i := range all {
		n += all[i].Records
	}
	return n
}

// listedFindings is how many records are named in the text; --json has all.
const listedFindings = 20

// findings prints the first listedFindings of the findings, each below the name of its file, and
// how many more there are. what says what they are: missing, or stored again.
func (p *printer) findings(what string, all []Finding) {
	last := ""
	for i := range all {
		x := &all[i]
		if i == listedFindings {
			p.line("  and %s; --json names all", counted(int64(len(all)-i), "more finding"))
			return
		}
		f := File{Path: x.Path, File: x.File, Input: x.Input, Generation: x.Generation}
		if title := f.title() + "  table " + x.Table; title != last {
			p.line("")
			p.line("%s", title)
			last = title
		}
		switch {
		case x.Named && x.Records == 1:
			p.line("  %s: the record at byte %d, of batch %s", what, x.Offset, x.Batch)
		case x.Named:
			p.line("  %s: the record at byte %d, %s more times, of batch %s", what, x.Offset, number(x.Records), x.Batch)
		default:
			p.line("  %s: %s of bytes %d–%d, of batch %s", what, counted(x.Records, "record"), x.Offset, x.End, x.Batch)
		}
	}
}
