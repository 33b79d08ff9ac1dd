package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

func spoolCommand() *cobra.Command {
	return group("spool", "Show what waits on disk for the service", spoolListCommand(), spoolReplayCommand())
}

func spoolListCommand() *cobra.Command {
	l := spoolList{tables: make(map[spoolTable]*spoolSum)}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the payloads in the spool, oldest first",
		Long: "List the payloads in the spool, oldest first, whether the agent runs or not.\n" +
			"A payload stays in the list until its segment is removed, also if it was delivered meanwhile.\n" +
			"The exit code is 1 if something in the spool is damaged.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := l.folder(func(c *config.Config) string { return c.Spool.Dir })
			if err != nil {
				return err
			}
			l.out, l.now = console.NewOutput(cmd.OutOrStdout()), time.Now()
			err = l.out.End(l.list(dir))
			if err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), l.total.words()+" in "+telemetry.Printable(dir))
				err = l.verdict()
			}
			return err
		},
	}
	l.flags(cmd, "spool")
	cmd.Flags().BoolVar(&l.json, "json", false, "print one JSON document per line")
	cmd.Flags().BoolVar(&l.summary, "summary", false, "print sums per table")
	return cmd
}

// spoolList is one run of spool ls.
type spoolList struct {
	stored
	summary bool
	out     console.Output
	now     time.Time

	headed bool
	total  spoolSum
	tables map[spoolTable]*spoolSum // with summary alone
}

type spoolTable struct{ cluster, database, table string }

// spoolSum adds payloads up.
type spoolSum struct {
	payloads, records int
	bytes             int64
	oldest            time.Time
	torn, damaged     int
	tornBytes, lost   int64
}

func (s *spoolSum) add(e *spool.Entry) {
	switch {
	case e.Payload != nil:
		s.payloads++
		s.records += e.Payload.Records
		s.bytes += e.Size
		if s.oldest.IsZero() || e.Spooled.Before(s.oldest) {
			s.oldest = e.Spooled
		}
	case e.Torn:
		s.torn++
		s.tornBytes += e.Size
	default:
		s.damaged++
		s.lost += e.Size
	}
}

func (s *spoolSum) words() string {
	text := fmt.Sprintf("%s with %s, %s", units.Counted(s.payloads, "payload"), units.Counted(s.records, "record"), telemetry.BytesText(s.bytes))
	if s.torn > 0 {
		text += fmt.Sprintf(", and %s (%s) of a write that was cut short or is under way,", units.Counted(s.torn, "range"), telemetry.BytesText(s.tornBytes))
	}
	return text
}

func (l *spoolList) list(dir string) error {
	if err := spool.List(dir, func(e spool.Entry) error {
		l.total.add(&e)
		switch {
		case l.summary:
			l.sum(&e)
			return nil
		case l.json:
			return l.out.JSON(spoolJSON(&e))
		}
		return l.row(&e)
	}); err != nil {
		return err
	}
	if l.summary {
		return l.sums()
	}
	return nil
}

// verdict is an error when something is damaged.
func (l *spoolList) verdict() error {
	if l.total.damaged == 0 {
		return nil
	}
	return exit.With(exit.Failed, fmt.Errorf("%s (%s) cannot be read; the agent reads what it can of their records again from their files",
		units.Counted(l.total.damaged, "damaged range"), telemetry.BytesText(l.total.lost)))
}

var spoolColumns = []console.Column{
	{Head: "SPOOLED", Width: 20}, {Head: "AGE", Width: 11}, {Head: "BATCH", Width: 36}, {Head: "TO", Width: 16}, {Head: "FORMAT", Width: 9}, {Head: "RECORDS", Width: -8}, {Head: "SIZE", Width: -7}, {Head: "ATTEMPTS", Width: -8}, {Head: "CLUSTER", Width: 24}, {Head: "RANGES", Width: 0},
}

func (l *spoolList) row(e *spool.Entry) error {
	if !l.headed {
		l.headed = true
		if err := console.Row(l.out, spoolColumns, console.Heads(spoolColumns)); err != nil {
			return err
		}
	}
	if e.Payload == nil {
		what := "damaged"
		if e.Torn {
			what = "torn"
		}
		_, err := fmt.Fprintf(l.out, "%s: %s at byte %d of %s\n", what, telemetry.BytesText(e.Size), e.Offset, e.Segment)
		return err
	}
	p := e.Payload
	format := string(p.Route.Format)
	if p.Route.Mapping != "" {
		format += " by " + p.Route.Mapping
	}
	return console.Row(l.out, spoolColumns, []string{
		e.Spooled.UTC().Format(time.RFC3339), telemetry.AgoText(l.now, e.Spooled), p.ID.String(), p.Route.Database + "." + p.Route.Table,
		format, strconv.Itoa(p.Records), telemetry.BytesText(e.Size), strconv.Itoa(p.Attempt), p.Route.Cluster, recovery.Where(p.Cover),
	})
}

func (l *spoolList) sum(e *spool.Entry) {
	if e.Payload == nil {
		return
	}
	r := e.Payload.Route
	key := spoolTable{r.Cluster, r.Database, r.Table}
	if l.tables[key] == nil {
		l.tables[key] = &spoolSum{}
	}
	l.tables[key].add(e)
}

func (l *spoolList) sums() error {
	columns := []console.Column{{Head: "TO", Width: 24}, {Head: "PAYLOADS", Width: -8}, {Head: "RECORDS", Width: -10}, {Head: "SIZE", Width: -7}, {Head: "OLDEST", Width: 20}, {Head: "CLUSTER", Width: 0}}
	keys := slices.SortedFunc(maps.Keys(l.tables), func(a, b spoolTable) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.database, b.database), cmp.Compare(a.table, b.table))
	})
	var errs []error
	if len(keys) > 0 && !l.json {
		errs = append(errs, console.Row(l.out, columns, console.Heads(columns)))
	}
	for _, k := range keys {
		s := l.tables[k]
		if l.json {
			errs = append(errs, l.out.JSON(map[string]any{
				"cluster": k.cluster, "database": k.database, "table": k.table,
				"payloads": s.payloads, "records": s.records, "bytes": s.bytes, "oldest": s.oldest.UTC(),
			}))
			continue
		}
		errs = append(errs, console.Row(l.out, columns, []string{k.database + "." + k.table, strconv.Itoa(s.payloads), strconv.Itoa(s.records),
			telemetry.BytesText(s.bytes), s.oldest.UTC().Format(time.RFC3339), k.cluster}))
	}
	return errors.Join(errs...)
}

// spooledPayload is a line of spool ls --json.
type spooledPayload struct {
	Time     time.Time      `json:"time"`
	Batch    string         `json:"batch"`
	Replaces string         `json:"replaces,omitempty"`
	Cluster  string         `json:"cluster"`
	Database string         `json:"database"`
	Table    string         `json:"table"`
	Format   string         `json:"format"`
	Mapping  string         `json:"mapping"`
	Records  int            `json:"records"`
	Bytes    int64          `json:"bytes"`     // on disk
	RawBytes int            `json:"raw_bytes"` // before gzip
	Attempts int            `json:"attempts"`
	Segment  string         `json:"segment"`
	Offset   int64          `json:"offset"`
	Ranges   []spooledRange `json:"ranges"`
}

type spooledRange struct {
	Input      string `json:"input"`
	File       string `json:"file"`
	Generation uint32 `json:"generation"`
	Start      int64  `json:"start"`
	End        int64  `json:"end"`
}

// spoolJSON is what a line of --json is made of; a range that cannot be read
// says "torn" or "damaged".
func spoolJSON(e *spool.Entry) any {
	if e.Payload == nil {
		return map[string]any{"unreadable": true, "torn": e.Torn, "segment": e.Segment, "offset": e.Offset, "bytes": e.Size}
	}
	p := e.Payload
	out := spooledPayload{
		Time: e.Spooled.UTC(), Batch: p.ID.String(), Cluster: p.Route.Cluster, Database: p.Route.Database, Table: p.Route.Table,
		Format: string(p.Route.Format), Mapping: p.Route.Mapping, Records: p.Records, Bytes: e.Size, RawBytes: p.RawBytes,
		Attempts: p.Attempt, Segment: e.Segment, Offset: e.Offset,
	}
	if p.Replaces != (record.BatchID{}) {
		out.Replaces = p.Replaces.String()
	}
	for _, x := range p.Cover {
		out.Ranges = append(out.Ranges, spooledRange{x.File.Input, x.File.ID.String(), x.File.Generation, x.Start, x.End})
	}
	return out
}
