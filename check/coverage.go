package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kusto-agent/config"
	"kusto-agent/format"
	"kusto-agent/kusto"
)

// records compares what each input holds with its mapping.
func (r *run) records(ctx context.Context) {
	for i := range r.cfg.Inputs {
		in := &r.cfg.Inputs[i]
		s := r.sample(ctx, in)
		if s.Quarantined > 0 {
			r.add(Finding{ID: "records.quarantine", Severity: Warning, Input: in.Name, What: fmt.Sprintf("%s before the end of the sample would go to quarantine; the first: %s", count(s.Quarantined, "record"), s.First),
				Fix: "see that format is that of the files, and raise max_record_size if it is for their length"})
		}
		if s.None != "" {
			r.ok("records", in.Name, "", "nothing to compare: %s", s.None)
			continue
		}
		v := r.views[in.Name]
		if v == nil || !v.mapped {
			r.ok("records", in.Name, "", "%s sampled; the mapping was not seen", count(countOf(s, in), "record"))
			continue
		}
		v.compare(s)
	}
}

// countOf is how many records of a sample are looked at.
func countOf(s *Sample, in *config.Input) int {
	if spec, _ := format.Of(in.Format); spec.Mapping != "Csv" {
		return len(objects(s.Body, in))
	}
	return len(rows(s.Body, in))
}

// compare tells what of a sample would be lost.
func (v *view) compare(s *Sample) {
	l := &losses{typed: true, discarded: newTally(), null: newTally(), filled: make(map[string]bool), types: make(map[string]string)}
	for _, c := range v.columns {
		l.types[c.Name] = c.Type
	}
	switch v.kind {
	case "Json", "Avro":
		l.typed = v.kind == "Json" // Avro has types of its own, and how they are turned is not known
		l.objects(v.mapping, objects(s.Body, v.in))
	default:
		all := rows(s.Body, v.in)
		l.rows(v.mapping, all)
		v.header(all)
	}
	v.report(l)
}

// header tells of a first record that looks like the names of the columns.
func (v *view) header(all [][]string) {
	if v.in.Header == "skip" || len(all) == 0 || len(v.columns) == 0 {
		return
	}
	same := 0
	for _, cell := range all[0] {
		if slices.ContainsFunc(v.columns, func(c field) bool { return strings.EqualFold(c.Name, strings.TrimSpace(cell)) }) {
			same++
		}
	}
	if same > 0 && same == len(all[0]) {
		v.tell("records.header", Warning, "the first record holds the names of the columns, and would be stored as data", "set header: skip for this input")
	}
}

// losses is what the mapping makes of records.
type losses struct {
	records   int
	typed     bool // values are compared with the types of columns
	discarded *tally
	null      *tally
	filled    map[string]bool   // columns
	types     map[string]string // of the columns
}

// tally counts names in the order they came.
type tally struct {
	names []string
	n     map[string]int
}

func newTally() *tally { return &tally{n: make(map[string]int)} }

func (t *tally) add(name string) {
	if t.n[name]++; t.n[name] == 1 {
		t.names = append(t.names, name)
	}
}

// list is the names with how many records each is in.
func (t *tally) list() string {
	const most = 20
	var all []string
	for _, n := range t.names[:min(len(t.names), most)] {
		all = append(all, fmt.Sprintf("%s (%d)", n, t.n[n]))
	}
	if more := len(t.names) - most; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// objects looks at records of JSON.
func (l *losses) objects(mapping []element, all []map[string]any) {
	tree := treeOf(mapping)
	for _, o := range all {
		l.records++
		l.discard(tree, o, "$")
		for _, e := range mapping {
			if value, there := lookUp(o, e); there || e.given {
				l.fill(e, value)
			}
		}
	}
}

// discard counts the members that no column takes.
func (l *losses) discard(t *tree, o map[string]any, path string) {
	if t.whole {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		at := path + "." + name
		if strings.ContainsAny(name, ". '[]") {
			at = path + "['" + name + "']"
		}
		below := t.below[name]
		inner, isObject := o[name].(map[string]any)
		switch {
		case below == nil:
			l.discarded.add(at)
		case isObject:
			l.discard(below, inner, at)
		}
	}
}

// lookUp finds what a path leads to; there says that it leads to something.
func lookUp(o map[string]any, e element) (value any, there bool) {
	value = o
	for _, name := range e.path {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, there = inner[name]; !there {
			return nil, false
		}
	}
	return value, value != nil
}

// fill notes that a column gets a value, and whether that would become null.
func (l *losses) fill(e element, value any) {
	l.filled[e.column] = true
	kind := l.types[e.column]
	if kind == "" {
		kind = e.kind
	}
	if l.typed && !e.given && !e.whole && e.transform == "" && !fits(kind, value) {
		l.null.add(e.column + ":" + kind)
	}
}

// rows looks at records of fields.
func (l *losses) rows(mapping []element, all [][]string) {
	taken := make(map[int]bool)
	for _, e := range mapping {
		taken[e.ordinal] = true
	}
	for _, row := range all {
		l.records++
		for i := range row {
			if !taken[i] {
				l.discarded.add("field " + strconv.Itoa(i))
			}
		}
		for _, e := range mapping {
			switch {
			case e.given:
				l.filled[e.column] = true
			case e.ordinal >= 0 && e.ordinal < len(row):
				l.fill(e, row[e.ordinal])
			}
		}
	}
}

// report tells what was found.
func (v *view) report(l *losses) {
	if l.records == 0 {
		v.tell("records", OK, "nothing to compare: the sample holds no record", "")
		return
	}
	of := fmt.Sprintf("of %s sampled", count(l.records, "record"))
	table := kusto.EntityName(v.in.Table)
	well := true
	if len(l.discarded.names) > 0 {
		well = false
		v.tell("records.discarded", Warning, fmt.Sprintf("no column takes, with how many %s hold it: %s", of, l.discarded.list()),
			fmt.Sprintf("add columns and map them, or leave it if it is not wanted\n.show table %s ingestion mappings", table))
	}
	if len(l.null.names) > 0 {
		well = false
		v.tell("records.null", Warning, fmt.Sprintf("would be stored as null, since they do not fit the type of the column, with how many %s: %s", of, l.null.list()),
			fmt.Sprintf("change the column's type, or the mapping's path or transform, such as DateTimeFromUnixSeconds\n.show table %s schema as json", table))
	}
	var empty []string
	for _, c := range v.columns {
		if !l.filled[c.Name] {
			empty = append(empty, c.Name)
		}
	}
	if len(empty) > 0 {
		well = false
		v.tell("records.unfilled", Warning, fmt.Sprintf("no record %s fills: %s", of, strings.Join(empty, ", ")),
			fmt.Sprintf("nothing, if they are filled by others or at times; else look at paths and letter case in the mapping\n.show table %s ingestion mappings", table))
	}
	if well {
		v.tell("records", OK, fmt.Sprintf("the mapping takes everything %s, and fills every column", of), "")
	}
}
