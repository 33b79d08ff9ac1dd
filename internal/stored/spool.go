package stored

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// Payloads lists those in the spool.
type Payloads struct {
	Filter
	JSON    bool // one document a line
	Summary bool // sums per table
	Out     console.Output
	Words   io.Writer // for people; nil: nothing is told
	Now     time.Time
	Ended   func(record.BatchID) bool // leaves out those that have ended; nil: they are listed too, until their segment goes

	Total  Sum
	lists  bool // what cannot be read is shown too
	headed bool
	tables map[table]*Sum
	found  map[string]bool
}

type table struct{ cluster, database, table string }

// Sum adds payloads up.
type Sum struct {
	Payloads, Records int
	Bytes             int64
	Oldest            time.Time
	torn, damaged     int
	tornBytes, lost   int64
}

// add adds an entry of the spool to the sums: a payload, a range that a write left incomplete
// (torn), or a damaged range.
func (s *Sum) add(e *spool.Entry) {
	switch {
	case e.Payload != nil:
		s.Payloads++
		s.Records += e.Payload.Records
		s.Bytes += e.Size
		if s.Oldest.IsZero() || e.Spooled.Before(s.Oldest) {
			s.Oldest = e.Spooled
		}
	case e.Torn:
		s.torn++
		s.tornBytes += e.Size
	default:
		s.damaged++
		s.lost += e.Size
	}
}

// Words returns the sums as a text for a person: payloads, records and bytes, and incomplete writes
// if there are any. Damaged ranges are reported by Verdict.
func (s *Sum) Words() string {
	text := fmt.Sprintf("%s with %s, %s", units.Counted(s.Payloads, "payload"), units.Counted(s.Records, "record"), telemetry.BytesText(s.Bytes))
	if s.torn > 0 {
		text += fmt.Sprintf(", and %s (%s) of a write that was cut short or is under way,", units.Counted(s.torn, "range"), telemetry.BytesText(s.tornBytes))
	}
	return text
}

// Verdict returns an error with an exit code if something in the spool is damaged; a write that was
// cut short does not count.
func (s *Sum) Verdict() error {
	if s.damaged == 0 {
		return nil
	}
	return exit.With(exit.Failed, fmt.Errorf("%s (%s) cannot be read; the agent reads what it can of their records again from their files",
		units.Counted(s.damaged, "damaged range"), telemetry.BytesText(s.lost)))
}

// Each calls fn for each selected payload in a spool folder, oldest first, and adds it to l.Total.
// Payloads that have ended (l.Ended) are left out. Ranges that cannot be read are counted too, but
// fn gets them only if the filter is empty and, where l.Ended is set, only for a listing. It fails
// if a requested ID is not there.
func (l *Payloads) Each(dir string, fn func(e *spool.Entry) error) error {
	l.found = make(map[string]bool)
	if err := l.complete(dir); err != nil {
		return err
	}
	err := spool.List(dir, func(e spool.Entry) error {
		if e.Payload != nil && (l.Ended != nil && l.Ended(e.Payload.ID) || !l.Payload(&e)) {
			return nil
		}
		l.Total.add(&e)
		if e.Payload == nil && (l.Ended != nil && !l.lists || !l.IsEmpty()) {
			return nil // a range that cannot be read belongs to no input or table
		}
		if e.Payload != nil {
			l.found[e.Payload.ID.String()] = true
		}
		return fn(&e)
	})
	if err != nil {
		return err
	}
	if l.Words != nil {
		fmt.Fprint(l.Words, l.Strangers())
	}
	return l.missing(l.found, "payload waits as", "spool ls")
}

// complete replaces the beginnings of batch ids in l.IDs by the ids of the payloads in the spool folder
// dir that begin like that and have not ended. One that several batches have is an error of usage; one
// that none has stays as it is.
func (l *Payloads) complete(dir string) error {
	if len(l.IDs) == 0 {
		return nil
	}
	begins := make([]map[string]bool, len(l.IDs)) // of each the ids
	for i, id := range l.IDs {
		if id == "" {
			return errNoID
		}
		begins[i] = make(map[string]bool)
	}
	err := spool.List(dir, func(e spool.Entry) error {
		if e.Payload == nil || l.Ended != nil && l.Ended(e.Payload.ID) {
			return nil
		}
		for i, id := range l.IDs {
			if full := e.Payload.ID.String(); strings.HasPrefix(full, strings.ToLower(id)) {
				begins[i][full] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ids := slices.Clone(l.IDs) // the caller's are left as they are
	for i, all := range begins {
		switch names := slices.Sorted(maps.Keys(all)); {
		case len(names) > 1:
			return ambiguous(ids[i], names)
		case len(names) == 1:
			ids[i] = names[0]
		}
	}
	l.IDs = ids
	return nil
}

var errNoID = exit.Usagef("a BATCH is empty; the IDs are those of: kusto-agent spool ls")

// ambiguous returns an error of usage: the batches all begin with id.
func ambiguous(id string, all []string) error {
	return exit.Usagef("several batches begin with %s: %s; give more of it", id, console.Shortened(strings.Join(all, ", "), 200))
}

// List prints the selected payloads of a spool folder: one per line, as JSON, or with l.Summary as
// sums of each table. If the filter is empty, it also lists the ranges that cannot be read.
func (l *Payloads) List(dir string) error {
	l.lists = true
	l.tables = make(map[table]*Sum)
	err := l.Each(dir, func(e *spool.Entry) error {
		switch {
		case l.Summary:
			l.sum(e)
			return nil
		case l.JSON:
			return l.Out.JSON(documentOf(e))
		}
		return l.Row(e)
	})
	if l.Summary && err == nil {
		err = l.sums()
	}
	return err
}

var spoolColumns = []console.Column{
	{Head: "SPOOLED", Width: 20}, {Head: "AGE", Width: 11}, {Head: "BATCH", Width: 36}, {Head: "TO", Width: 16}, {Head: "FORMAT", Width: 9}, {Head: "RECORDS", Width: -8}, {Head: "SIZE", Width: -7}, {Head: "ATTEMPTS", Width: -8}, {Head: "CLUSTER", Width: 24}, {Head: "RANGES", Width: 0},
}

// Row prints one entry of the spool: a payload as a row of a table, or a line about a range that
// cannot be read. Before the first entry it prints the column heads.
func (l *Payloads) Row(e *spool.Entry) error {
	if !l.headed {
		l.headed = true
		if err := console.Row(l.Out, spoolColumns, console.Heads(spoolColumns)); err != nil {
			return err
		}
	}
	if e.Payload == nil {
		what := "damaged"
		if e.Torn {
			what = "torn"
		}
		_, err := fmt.Fprintf(l.Out, "%s: %s at byte %d of %s\n", what, telemetry.BytesText(e.Size), e.Offset, e.Segment)
		return err
	}
	p := e.Payload
	return console.Row(l.Out, spoolColumns, []string{
		e.Spooled.UTC().Format(time.RFC3339), telemetry.AgoText(l.Now, e.Spooled), p.ID.String(), p.Route.Database + "." + p.Route.Table,
		formatOf(p.Route), strconv.Itoa(p.Records), telemetry.BytesText(e.Size), strconv.Itoa(p.Attempt), p.Route.Cluster, recovery.Where(p.Cover),
	})
}

// formatOf returns the format and the mapping of a route as a text, such as "JSON by mapping1".
func formatOf(r record.Route) string {
	if r.Mapping == "" {
		return string(r.Format)
	}
	return string(r.Format) + " by " + r.Mapping
}

// sum adds a payload to the sums of its table. Ranges of the spool that cannot be read are ignored,
// since their table is not known.
func (l *Payloads) sum(e *spool.Entry) {
	if e.Payload == nil {
		return
	}
	r := e.Payload.Route
	key := table{r.Cluster, r.Database, r.Table}
	if l.tables[key] == nil {
		l.tables[key] = &Sum{}
	}
	l.tables[key].add(e)
}

// sums prints the sums of each table, sorted by cluster, database and table, as rows of a table or
// with l.JSON as JSON lines.
func (l *Payloads) sums() error {
	columns := []console.Column{{Head: "TO", Width: 24}, {Head: "PAYLOADS", Width: -8}, {Head: "RECORDS", Width: -10}, {Head: "SIZE", Width: -7}, {Head: "OLDEST", Width: 20}, {Head: "CLUSTER", Width: 0}}
	keys := slices.SortedFunc(maps.Keys(l.tables), func(a, b table) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.database, b.database), cmp.Compare(a.table, b.table))
	})
	var errs []error
	if len(keys) > 0 && !l.JSON {
		errs = append(errs, console.Row(l.Out, columns, console.Heads(columns)))
	}
	for _, k := range keys {
		s := l.tables[k]
		if l.JSON {
			errs = append(errs, l.Out.JSON(map[string]any{
				"cluster": k.cluster, "database": k.database, "table": k.table,
				"payloads": s.Payloads, "records": s.Records, "bytes": s.Bytes, "oldest": s.Oldest.UTC(),
			}))
			continue
		}
		errs = append(errs, console.Row(l.Out, columns, []string{k.database + "." + k.table, strconv.Itoa(s.Payloads), strconv.Itoa(s.Records),
			telemetry.BytesText(s.Bytes), s.Oldest.UTC().Format(time.RFC3339), k.cluster}))
	}
	return errors.Join(errs...)
}

// document is a payload in --json.
type document struct {
	Time     time.Time `json:"time"`
	Batch    string    `json:"batch"`
	Replaces string    `json:"replaces,omitempty"`
	Cluster  string    `json:"cluster"`
	Database string    `json:"database"`
	Table    string    `json:"table"`
	Format   string    `json:"format"`
	Mapping  string    `json:"mapping"`
	Records  int       `json:"records"`
	Bytes    int64     `json:"bytes"`     // on disk
	RawBytes int       `json:"raw_bytes"` // before gzip
	Attempts int       `json:"attempts"`
	Segment  string    `json:"segment"`
	Offset   int64     `json:"offset"`
	Ranges   []ranged  `json:"ranges"`

	Why   string   `json:"why,omitempty"`   // of inspect
	First []string `json:"first,omitempty"` // the first records, of inspect
}

type ranged struct {
	Input      string `json:"input"`
	File       string `json:"file"`
	Generation uint32 `json:"generation"`
	Start      int64  `json:"start"`
	End        int64  `json:"end"`
}

// documentOf returns the value that --json prints for an entry of the spool: a *document for a
// payload, and for a range that cannot be read a map with its place and size. In the map, torn is
// true if a write was cut short, and false for damage.
func documentOf(e *spool.Entry) any {
	if e.Payload == nil {
		return map[string]any{"unreadable": true, "torn": e.Torn, "segment": e.Segment, "offset": e.Offset, "bytes": e.Size}
	}
	p := e.Payload
	out := &document{
		Time: e.Spooled.UTC(), Batch: p.ID.String(), Cluster: p.Route.Cluster, Database: p.Route.Database, Table: p.Route.Table,
		Format: string(p.Route.Format), Mapping: p.Route.Mapping, Records: p.Records, Bytes: e.Size, RawBytes: p.RawBytes,
		Attempts: p.Attempt, Segment: e.Segment, Offset: e.Offset,
	}
	if p.Replaces != (record.BatchID{}) {
		out.Replaces = p.Replaces.String()
	}
	for _, x := range p.Cover {
		out.Ranges = append(out.Ranges, ranged{x.File.Input, x.File.ID.String(), x.File.Generation, x.Start, x.End})
	}
	return out
}

// Plain returns the body of a payload before gzip. It fails if the gzip checksum or the length does
// not match. A body that is not gzip is returned as it is, and shares its bytes with p.
func Plain(p *record.Payload) ([]byte, error) {
	if !p.Gzip {
		return p.Body, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(p.Body))
	if err != nil {
		return nil, fmt.Errorf("batch %v: %w", p.ID, err)
	}
	body, err := io.ReadAll(io.LimitReader(z, int64(p.RawBytes)+1))
	if err == nil && len(body) != p.RawBytes {
		err = fmt.Errorf("it has not the %d bytes that it should have", p.RawBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("batch %v: %w", p.ID, err)
	}
	return body, nil
}

// Inspect prints one payload of the spool folder dir: what it is, why it waits, and its first
// records (at most first). id is its batch id or the beginning of it, of one batch only. why
// returns the reason why payloads for a route wait; it may return "".
func (l *Payloads) Inspect(dir, id string, first int, why func(record.Route) string) error {
	if id == "" {
		return errNoID
	}
	var found *spool.Entry
	err := spool.List(dir, func(e spool.Entry) error {
		switch {
		case e.Payload == nil || !strings.HasPrefix(e.Payload.ID.String(), strings.ToLower(id)):
		case found != nil && found.Payload.ID != e.Payload.ID:
			return ambiguous(id, []string{found.Payload.ID.String(), e.Payload.ID.String()})
		default:
			found = &e
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case found == nil:
		return exit.With(exit.Failed, fmt.Errorf("no payload %s in %s; the IDs are those of: kusto-agent spool ls", id, telemetry.Printable(dir)))
	}
	p, err := found.Load(dir)
	if err != nil {
		return exit.With(exit.Failed, fmt.Errorf("batch %v: %w", found.Payload.ID, err))
	}
	body, err := Plain(p)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	because := l.because(found.Payload, why)
	records := firstRecords(p, body, first)
	if l.JSON {
		d := documentOf(found).(*document)
		d.Why = because
		for _, r := range records {
			d.First = append(d.First, strings.ToValidUTF8(string(r), "\ufffd"))
		}
		return l.Out.JSON(d)
	}
	return l.describe(found, because, records, len(body))
}

// because returns why a payload waits, as a text: it has ended already, what the function why says
// of its route, or how often it was sent.
func (l *Payloads) because(p *record.Payload, why func(record.Route) string) string {
	if l.Ended != nil && l.Ended(p.ID) {
		return "it has ended, and goes with its segment"
	}
	if text := why(p.Route); text != "" {
		return text
	}
	if p.Attempt == 0 {
		return "it was not sent yet: its route was not served, or the agent stopped before its turn"
	}
	return "it was sent " + units.Counted(p.Attempt, "time") + " and not accepted"
}

// describe prints what a payload of the spool is, why it waits (because) and its first records. raw
// is the size of its body in bytes before gzip. Avro records are not printed.
func (l *Payloads) describe(e *spool.Entry, because string, records [][]byte, raw int) error {
	p := e.Payload
	line := func(name, text string) { fmt.Fprintf(l.Out, "%-10s%s\n", name, telemetry.Printable(text)) }
	line("batch", p.ID.String())
	if p.Replaces != (record.BatchID{}) {
		line("replaces", p.Replaces.String())
	}
	line("to", p.Route.Database+"."+p.Route.Table+" at "+p.Route.Cluster)
	line("format", formatOf(p.Route))
	line("records", strconv.Itoa(p.Records))
	line("size", fmt.Sprintf("%s, %s on disk", telemetry.BytesText(int64(raw)), telemetry.BytesText(e.Size)))
	line("spooled", e.Spooled.UTC().Format(time.RFC3339)+", "+telemetry.AgoText(l.Now, e.Spooled))
	line("read", p.ReadAt.UTC().Format(time.RFC3339))
	line("attempts", strconv.Itoa(p.Attempt))
	line("why", because)
	line("in", fmt.Sprintf("%s at byte %d", e.Segment, e.Offset))
	for i, x := range p.Cover {
		name := ""
		if i == 0 {
			name = "ranges"
		}
		line(name, fmt.Sprintf("input %s, file %s, generation %d, bytes %d to %d", x.File.Input, x.File.ID, x.File.Generation, x.Start, x.End))
	}
	switch {
	case p.Route.Format == record.Avro:
		fmt.Fprintln(l.Out, "\nit is Avro: its records are seen with spool export and a reader of Avro")
		return nil
	case len(records) == 0:
		return nil
	}
	fmt.Fprintf(l.Out, "\nthe first %s of %d:\n", units.Counted(len(records), "record"), p.Records)
	for _, r := range records {
		if err := l.Out.Record(append(bytes.TrimRight(r, "\r\n"), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// firstRecords returns the first n records of the body of p before gzip, as parts of body; nil for
// Avro, whose records are binary.
func firstRecords(p *record.Payload, body []byte, n int) (all [][]byte) {
	if p.Route.Format == record.Avro {
		return nil
	}
	scan, err := format.New(format.Options{Format: p.Route.Format, MaxRecord: len(body) + 1})
	if err != nil {
		return nil
	}
	for at := 0; at < len(body) && len(all) < n; {
		size := scan.Split(body[at:], 1)
		if size <= 0 {
			break
		}
		all = append(all, body[at:at+size])
		at += size
	}
	return all
}

// Export writes the bodies of the selected payloads of a spool folder before gzip. If to is "",
// they go to l.Out one after the other. Otherwise each goes to a new file in the folder to, named
// by its batch id; the folder is made if there is something to write. Payloads that the agent sends and removes meanwhile are left out.
func (l *Payloads) Export(dir, to string) error {
	return l.Each(dir, func(e *spool.Entry) error {
		if e.Payload == nil {
			return nil
		}
		if to == "" && e.Payload.Route.Format == record.Avro && l.Total.Payloads > 1 {
			return exit.Usagef("payloads of Avro are files that cannot be put one behind the other; name a folder with --to")
		}
		p, err := e.Load(dir)
		if errors.Is(err, fs.ErrNotExist) { // the agent has removed it since it was listed
			l.Total.Payloads, l.Total.Records, l.Total.Bytes = l.Total.Payloads-1, l.Total.Records-e.Payload.Records, l.Total.Bytes-e.Size
			return nil
		}
		var body []byte
		if err == nil {
			body, err = Plain(p)
		}
		if err != nil {
			return exit.With(exit.Failed, err)
		}
		if to == "" {
			return l.Out.Record(body)
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return exit.With(exit.Failed, fmt.Errorf("make the folder of --to: %w; name another", err))
		}
		return writeNew(filepath.Join(to, p.ID.String()+"."+strings.ToLower(string(p.Route.Format))), body)
	})
}

// writeNew creates a file that only its owner may read, with this content. It fails if the file
// exists.
func writeNew(path string, body []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(body)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return cannotMake(path, err)
	}
	return nil
}

// cannotMake returns err, of making a file of --to or writing it, with an exit code and with what to do.
func cannotMake(path string, err error) error {
	switch folder := filepath.Dir(path); {
	case errors.Is(err, fs.ErrExist):
		err = fmt.Errorf("--to: %q is there already, and is not overwritten; name another, or remove it", path)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("--to %q: there is no folder %q; make it, or name another file", path, folder)
	default:
		err = fmt.Errorf("write to --to: %w", err)
	}
	return exit.With(exit.Failed, err)
}
