package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/record"
)

// Window is a span of time in which a table stored rows, with what was accepted then.
type Window struct {
	Cluster  string    `json:"cluster"`
	Database string    `json:"database"`
	Table    string    `json:"table"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"` // not in it
	Batches  int       `json:"batches"`
	Records  int64     `json:"records"` // accepted, of all inputs
	Rows     int64     `json:"rows"`    // that the table has of that time
}

// Missing is how many rows are surely missing: others may hide more.
func (w *Window) Missing() int64 { return max(0, w.Records-w.Rows) }

// slack is how far the time of a row may be from that at which its request was known to be
// accepted: the time that the request took, and what the clocks differ by.
const slack = 2 * time.Minute

// mostWindows is into how many windows the times of one table are parted, about.
const mostWindows = 200

// ended is a batch that was accepted.
type ended struct {
	at      time.Time
	records int64
}

// windowsOf sorts batches by the time at which they were accepted and divides that time into
// windows, mostWindows at most, more or less. A window ends only at a pause of twice slack or more,
// so that rows stored before and after it cannot be confused although their times are off by up to
// slack. It changes the order of all.
func windowsOf(all []*ended) (out []Window) {
	slices.SortFunc(all, func(a, b *ended) int { return a.at.Compare(b.at) })
	least := time.Duration(0)
	if len(all) > 0 {
		least = all[len(all)-1].at.Sub(all[0].at) / mostWindows
	}
	for i, b := range all {
		last := len(out) - 1
		if i == 0 || b.at.Sub(all[i-1].at) >= 2*slack && b.at.Sub(out[last].From) >= least {
			out = append(out, Window{From: b.at.Add(-slack)})
			last++
		}
		w := &out[last]
		w.To = b.at.Add(slack)
		w.Batches++
		w.Records += b.records
	}
	return out
}

// counts compares the number of accepted records with the number of rows, for the tables of which
// some records have no stamps (columns that say from which file and offset a row comes).
func (t *tables) counts(ctx context.Context) error {
	for _, table := range sortedRoutes(t.unstamped) {
		if err := t.countTable(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// tableOf returns the cluster, database and table of a route, without its format and mapping.
func tableOf(r record.Route) record.Route {
	return record.Route{Cluster: r.Cluster, Database: r.Database, Table: r.Table}
}

// countTable compares the number of accepted records with the number of rows of one table, in
// windows of time, and adds the windows to the report. Records of every input count that were sent
// there. If the table has rows without an ingestion time, nothing can be compared, and the report
// says so.
func (t *tables) countTable(ctx context.Context, table record.Route) error {
	byBatch := map[record.BatchID]*ended{}
	for _, f := range t.h.files {
		for i := range f.sent {
			s := &f.sent[i]
			if tableOf(s.route) != table {
				continue
			}
			if byBatch[s.batch] == nil {
				byBatch[s.batch] = &ended{at: s.at}
			}
			byBatch[s.batch].records += int64(s.records)
		}
	}
	name := kusto.EntityName(table.Table)
	without, err := t.number(ctx, table, name+" | where isnull(ingestion_time()) | summarize n = count()", nil)
	if err != nil {
		return err
	}
	if without > 0 { // they may be of any time
		t.out.Unstamped += t.unstamped[table]
		t.out.Timeless = append(t.out.Timeless, table.Table)
		return nil
	}
	for _, w := range windowsOf(slices.Collect(maps.Values(byBatch))) {
		rows, err := t.number(ctx, table, name+" | where ingestion_time() >= from_time and ingestion_time() < to_time | summarize n = count()", []query.Parameter{
			{Name: "from_time", Type: "datetime", Value: moment(w.From)}, {Name: "to_time", Type: "datetime", Value: moment(w.To)},
		})
		if err != nil {
			return err
		}
		w.Cluster, w.Database, w.Table, w.Rows = table.Cluster, table.Database, table.Table, rows
		t.out.Windows = append(t.out.Windows, w)
	}
	return nil
}

// moment returns a time in UTC as Kusto writes a datetime, for the parameter of a query.
func moment(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.0000000Z") }

// number runs a query whose result is one number, in the column n, and returns the number. table
// says to which cluster and database the query goes.
func (t *tables) number(ctx context.Context, table record.Route, text string, parameters []query.Parameter) (n int64, err error) {
	var bad error
	err = t.o.Ask.Ask(ctx, table, text, parameters, func(row map[string]string) { n, bad = strconv.ParseInt(row["n"], 10, 64) })
	if err == nil && bad != nil {
		err = fmt.Errorf("read the answer on table %s: %w", table.Table, bad)
	}
	return n, err
}

// windows prints the comparison of numbers of records and rows by spans of time, and what such a
// comparison cannot show. It prints nothing if the report has no such spans.
func (p *printer) windows(t *TableReport) {
	if len(t.Windows) == 0 {
		return
	}
	var records, missing, more int64
	for i := range t.Windows {
		w := &t.Windows[i]
		records += w.Records
		missing += w.Missing()
		more += max(0, w.Rows-w.Records)
	}
	text := fmt.Sprintf("By numbers alone, for records without stamps: %s accepted in %s,", counted(records, "record"), counted(int64(len(t.Windows)), "span")+" of time")
	switch {
	case missing > 0:
		text += fmt.Sprintf(" and NOT OK: at least %s missing.", isAre(missing))
	case more == 0:
		text += " and the tables have as many rows of each."
	default:
		text += " and the tables have no fewer rows of any."
	}
	if more > 0 {
		text += fmt.Sprintf(" %s more than were accepted: stored twice, or written by others.", counted(more, "row"))
	}
	p.wrapped("", text)
	for i := range t.Windows {
		w := &t.Windows[i]
		if w.Missing() > 0 {
			p.wrapped("  ", fmt.Sprintf("table %s, stored from %s to %s UTC: %s accepted in %s, %s there, at least %s missing", w.Table, clock(w.From), clock(w.To),
				counted(w.Records, "record"), counted(int64(w.Batches), "batch"), counted(w.Rows, "row"), isAre(w.Missing())))
		}
	}
	p.wrapped("", "Numbers cannot see which record is missing, and not that one is missing where another row took its place: a double, a row of another writer, or one that was stored in that time by a batch that is not judged here. "+
		"They count what was deleted on purpose, or by a retention policy, as missing. "+stampsHint)
}

func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") }
