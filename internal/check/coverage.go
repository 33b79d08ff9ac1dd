package check

import (
	"context"
	"fmt"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/units"
)

// records compares the records that each input would send next with its table and mapping, and adds
// findings. Without records, or if the mapping is not known, it only says so.
func (r *run) records(ctx context.Context) {
	for i := range r.cfg.Inputs {
		in := &r.cfg.Inputs[i]
		s := r.sample(ctx, in)
		if s.quarantined > 0 {
			r.add(Finding{ID: "records.quarantine", Severity: Warning, Input: in.Name, What: fmt.Sprintf("%s before the end of the sample would go to quarantine; the first: %s", units.Counted(s.quarantined, "record"), s.first),
				Fix: "see that format is that of the files, and raise max_record_size if it is for their length"})
		}
		if s.none != "" {
			r.ok("records", in.Name, "", "nothing to compare: %s", s.none)
			continue
		}
		v := r.views[in.Name]
		if v == nil || !v.mapped {
			r.ok("records", in.Name, "", "%s sampled; the mapping was not seen", units.Counted(schema.CountRecords(in.Format, s.body), "record"))
			continue
		}
		v.report(v.table.Compare(in.Route(), s.body))
	}
}

// report adds findings on a comparison of sampled records with the table: a header sent as data,
// members that no column takes, values that would become null, and columns that stay empty.
func (v *view) report(l *schema.Comparison) {
	if l.Header && v.in.Header != "skip" {
		v.tell("records.header", Warning, "the first record holds the names of the columns, and would be stored as data", "set header: skip for this input")
	}
	if l.Records == 0 {
		v.tell("records", OK, "nothing to compare: the sample holds no record", "")
		return
	}
	of := fmt.Sprintf("of %s sampled", units.Counted(l.Records, "record"))
	table := kusto.EntityName(v.in.Table)
	before := len(v.found)
	if !l.Discarded.Empty() {
		v.tell("records.discarded", Warning, fmt.Sprintf("no column takes, with how many %s hold it: %s", of, &l.Discarded),
			fmt.Sprintf("add columns and map them, or leave it if it is not wanted\n.show table %s ingestion mappings", table))
	}
	if !l.Null.Empty() {
		v.tell("records.null", Warning, fmt.Sprintf("would be stored as null, since they do not fit the type of the column, with how many %s: %s", of, &l.Null),
			fmt.Sprintf("change the column's type, or the mapping's path or transform, such as DateTimeFromUnixSeconds\n.show table %s schema as json", table))
	}
	if len(l.Unfilled) > 0 {
		v.tell("records.unfilled", Warning, fmt.Sprintf("no record %s fills: %s", of, strings.Join(l.Unfilled, ", ")),
			fmt.Sprintf("nothing, if they are filled by others or at times; else look at paths and letter case in the mapping\n.show table %s ingestion mappings", table))
	}
	if len(v.found) == before {
		v.tell("records", OK, fmt.Sprintf("the mapping takes everything %s, and fills every column", of), "")
	}
}
