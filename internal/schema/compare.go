package schema

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/avro/ocf"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// mostCompared is the most records that are compared with a table.
const mostCompared = 200

// Comparison is what becomes of records in a table.
type Comparison struct {
	Records   int
	Discarded Tally    // members and fields that no column takes
	Null      Tally    // columns, each with its type, whose values do not fit it
	Unfilled  []string // columns
	Header    bool     // the first record holds the names of columns
}

// Compare compares the first records of a body with the columns of the table, and returns what
// would be lost. The body is as it would be sent for the route, before gzip. Without a mapping,
// fields go to columns by position and members by name. Types of Avro values are not compared,
// since it is not known how the service converts them.
func (t *Table) Compare(of record.Route, body []byte) *Comparison {
	l := &losses{typed: Kind(of.Format) == "Json" || Kind(of.Format) == "Csv", filled: make(map[string]bool), types: make(map[string]string)}
	for _, c := range t.Columns {
		l.types[c.Name] = c.Type
	}
	if Kind(of.Format) == "Csv" {
		all := rows(body, of.Format)
		l.rows(t.Elements(of), all)
		l.Header = len(all) > 0 && t.names(all[0])
	} else {
		l.objects(t.Elements(of), objects(body, of.Format))
	}
	for _, c := range t.Columns {
		if !l.filled[c.Name] {
			l.Unfilled = append(l.Unfilled, c.Name)
		}
	}
	return &l.Comparison
}

// CountRecords returns how many records of a body Compare looks at, which is at most mostCompared.
func CountRecords(f record.Format, body []byte) int {
	if Kind(f) == "Csv" {
		return len(rows(body, f))
	}
	return len(objects(body, f))
}

// names reports whether all cells of a row are names of columns of the table, in any letter case,
// so that the row is a header. It is false for an empty row.
func (t *Table) names(row []string) bool {
	for _, cell := range row {
		if !slices.ContainsFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, strings.TrimSpace(cell)) }) {
			return false
		}
	}
	return len(row) > 0
}

// losses is a comparison under way.
type losses struct {
	Comparison
	typed  bool              // values are compared with the types of columns
	filled map[string]bool   // columns
	types  map[string]string // of the columns
}

// Tally counts names in the order they came.
type Tally struct {
	names []string
	n     map[string]int
}

// Empty reports whether nothing was counted.
func (t *Tally) Empty() bool { return len(t.names) == 0 }

// add counts one more record for the name, which is that of a column or of a member of records.
func (t *Tally) add(name string) {
	if t.n == nil {
		t.n = make(map[string]int)
	}
	if t.n[name]++; t.n[name] == 1 {
		t.names = append(t.names, name)
	}
}

// String returns the names in the order in which they were first counted, each with its number of
// records. After the first 20 it only says how many more there are.
func (t *Tally) String() string {
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

// objects compares JSON records with the elements of a mapping. It counts members that no column
// takes and values that do not fit their column, and notes which columns get a value.
func (l *losses) objects(mapping []Element, all []map[string]any) {
	tree := treeOf(mapping)
	for _, o := range all {
		l.Records++
		l.discard(tree, o, "$")
		for _, e := range mapping {
			s, reads := e.source()
			if value, there := lookUp(o, s.path); there || !reads {
				l.fill(e, value)
			}
		}
	}
}

// discard counts the members of the object o that no column takes, and those of the objects inside
// it. path is where o is in the record, such as "$.user"; t says which members of o the mapping
// reads.
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
			l.Discarded.add(at)
		case isObject:
			l.discard(below, inner, at)
		}
	}
}

// lookUp returns the value that a path of member names leads to in an object; there is false if
// there is none or it is null.
func lookUp(o map[string]any, path []string) (value any, there bool) {
	value = o
	for _, name := range path {
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

// fill notes that the column of e gets a value, and counts the column in l.Null if the value does
// not fit its type and would become null. The value is not checked if the service transforms it
// first, or if e reads more of the record than one member.
func (l *losses) fill(e Element, value any) {
	l.filled[e.Column] = true
	kind := cmp.Or(l.types[e.Column], e.Datatype)
	s, reads := e.source()
	if l.typed && reads && !s.whole && e.Properties["Transform"] == "" && !Fits(kind, value) {
		l.Null.add(e.Column + ":" + kind)
	}
}

// rows compares delimited records with the elements of a mapping. It counts fields that no element
// reads and values that do not fit their column, and notes which columns get a value.
func (l *losses) rows(mapping []Element, all [][]string) {
	taken := make(map[int]bool)
	for _, e := range mapping {
		if s, reads := e.source(); reads {
			taken[s.ordinal] = true
		}
	}
	for _, row := range all {
		l.Records++
		for i := range row {
			if !taken[i] {
				l.Discarded.add("field " + strconv.Itoa(i))
			}
		}
		for _, e := range mapping {
			s, reads := e.source()
			switch {
			case !reads: // a constant or the like
				l.filled[e.Column] = true
			case s.ordinal >= 0 && s.ordinal < len(row):
				l.fill(e, row[s.ordinal])
			}
		}
	}
}

// tree says which members of an object a mapping takes: all of it (whole), or those in below.
type tree struct {
	whole bool
	below map[string]*tree
}

// treeOf returns which members of an object the elements of a mapping read, as a tree of the names
// in their paths. A node is whole if an element reads all that the path to it leads to.
func treeOf(all []Element) *tree {
	root := new(tree)
	for _, e := range all {
		s, reads := e.source()
		if !reads {
			continue
		}
		t := root
		for _, name := range s.path {
			if t.below == nil {
				t.below = make(map[string]*tree)
			}
			if t.below[name] == nil {
				t.below[name] = new(tree)
			}
			t = t.below[name]
		}
		t.whole = true
	}
	return root
}

// objects returns the first records of a body in JSON or Avro, at most mostCompared. It stops at
// the first one that cannot be read. Values in the list that are not objects are left out.
func objects(body []byte, f record.Format) (all []map[string]any) {
	if f == record.Avro {
		return avroRecords(body)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	for len(all) < mostCompared {
		var v any
		if dec.Decode(&v) != nil {
			return all // the end, or a form of JSON that only the service accepts
		}
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, v := range list {
			if o, ok := v.(map[string]any); ok {
				all = append(all, o)
			}
		}
	}
	return all[:min(len(all), mostCompared)]
}

// avroRecords returns the first records of an Avro file, at most mostCompared. If the file cannot
// be read, the result has the records before that.
func avroRecords(file []byte) (all []map[string]any) {
	r, err := ocf.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil
	}
	defer r.Close()
	for len(all) < mostCompared {
		var o map[string]any
		if r.Decode(&o) != nil {
			break // the end, or a block that cannot be read
		}
		for name, v := range o {
			o[name] = plain(v)
		}
		all = append(all, o)
	}
	return all
}

// plain returns an Avro value in the form that it would have in JSON: a number as json.Number,
// bytes as a string, a time in RFC 3339. Other values are returned unchanged.
func plain(v any) any {
	switch x := v.(type) {
	case int32, int64, float32, float64:
		return json.Number(fmt.Sprint(x))
	case []byte:
		return string(x)
	case time.Time:
		return x.Format(time.RFC3339Nano)
	}
	return v
}

// rows returns the first records of a body of delimited text, each as its fields, at most
// mostCompared. A format without a delimiter has one line as the only field of each record.
func rows(body []byte, f record.Format) (all [][]string) {
	spec, _ := format.Of(f)
	if spec.Delimiter == 0 {
		for line := range bytes.Lines(body) {
			if all = append(all, []string{string(bytes.TrimRight(line, "\n"))}); len(all) == mostCompared {
				break
			}
		}
		return all
	}
	in := csv.NewReader(bytes.NewReader(body))
	in.Comma, in.FieldsPerRecord, in.LazyQuotes = rune(spec.Delimiter), -1, true
	for len(all) < mostCompared {
		row, err := in.Read()
		if err != nil {
			break
		}
		all = append(all, row)
	}
	return all
}
