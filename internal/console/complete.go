package console

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/script"
)

// Schema is what names can be completed from.
type Schema struct {
	Tables    []Table
	Functions []string
}

// Table is a table with its columns.
type Table struct {
	Name    string
	Columns []schema.Column `json:"OrderedColumns"`
}

// ParseSchema returns the tables and functions in text, the JSON that the command
// ".show database schema as json" returns. Both are sorted by name.
func ParseSchema(text string) (*Schema, error) {
	var doc struct {
		Databases map[string]struct {
			Tables    map[string]Table
			Functions map[string]struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	s := new(Schema)
	for _, db := range doc.Databases {
		for name, t := range db.Tables {
			t.Name = name
			s.Tables = append(s.Tables, t)
		}
		for name := range db.Functions {
			s.Functions = append(s.Functions, name)
		}
	}
	slices.SortFunc(s.Tables, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(s.Functions)
	return s, nil
}

// Candidate is one way to go on.
type Candidate struct {
	Text  string // in the place of the word that was begun
	About string // what it is
}

// Words of the language, by where they stand.
var (
	operators = strings.Fields(`where extend project project-away project-keep project-rename project-reorder summarize count take limit
		top top-nested sort order distinct join lookup union mv-expand mv-apply parse parse-where make-series render sample
		sample-distinct search evaluate invoke partition as serialize getschema scan facet fork consume reduce`)
	begins   = strings.Fields(`let print range union find search datatable declare set externaldata`)
	renders  = strings.Fields(`timechart linechart barchart columnchart piechart table areachart scatterchart`)
	keywords = strings.Fields(`and or not by asc desc between in has contains startswith endswith matches on kind with true false null
		has_any has_all has_cs contains_cs datetime timespan dynamic long int real string bool guid decimal`)
	functions = strings.Fields(`count countif sum sumif avg avgif min minif max maxif dcount dcountif percentile percentiles stdev variance
		arg_max arg_min make_list make_set make_bag take_any ago now bin floor ceiling startofday startofhour startofweek startofmonth
		endofday datetime_add datetime_diff datetime_part format_datetime format_timespan dayofweek hourofday tostring toint tolong
		todouble toreal todecimal todatetime totimespan todynamic tobool toguid parse_json strcat strcat_array split substring strlen
		tolower toupper trim trim_start trim_end replace_string replace_regex extract extract_all indexof reverse isempty isnotempty isnull
		isnotnull isnan iff iif case coalesce array_length array_concat bag_keys bag_merge pack_all bag_pack hash hash_sha256 round abs
		sqrt pow log log10 exp rand row_number prev next ingestion_time gettype parse_url parse_path parse_ipv4 ipv4_is_in_range
		base64_encode_tostring base64_decode_tostring url_encode url_decode series_stats toscalar materialize`)
	commands = []string{".show tables", ".show databases", ".show table", ".show database schema", ".show database schema as json", ".show functions",
		".show queries", ".show running queries", ".show version", ".show cluster", ".show ingestion failures", ".show streamingingestion statistics",
		".show streamingingestion failures", ".cancel query", ".create table", ".create-merge table", ".alter table", ".alter-merge table",
		".drop table", ".create-or-alter table", ".create-or-alter function", ".clear database cache streamingingestion schema"}
)

var (
	word     = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*$`)
	operator = regexp.MustCompile(`\|\s*([A-Za-z][A-Za-z-]*)?$`)
	render   = regexp.MustCompile(`\|\s*render\s+[a-z]*$`)
	tables   = regexp.MustCompile(`(?i)(?:\b(?:join|lookup|union|from|in)\b[^|;]*[(,\s]|\b(?:kind|hint\.[a-z]+)\s*=\s*\w+\s+\(?\s*)$`)
	assigned = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)\s*=(?:[^=~]|$)`)
)

// Complete returns the candidates with which text, a query or command that is being typed, can go
// on at its end. taken is how many bytes at the end of text a candidate replaces: the word that was
// begun. s may be nil; then no names of the database are among them.
func (s *Schema) Complete(text string) (all []Candidate, taken int) {
	if script.Quoted(text) { // inside of a string or a comment
		return nil, 0
	}
	last := lastStatement(text)
	if strings.HasPrefix(last, ".") {
		if all = add(nil, last, "command", commands...); len(all) > 0 {
			return all, len(last)
		}
	}
	begun := word.FindString(text)
	before := strings.TrimRight(text[:len(text)-len(begun)], " \t\r\n")
	switch {
	case render.MatchString(text):
		return add(nil, begun, "chart", renders...), len(begun)
	case operator.MatchString(text):
		begun = operator.FindStringSubmatch(text)[1]
		return add(nil, begun, "operator", operators...), len(begun)
	case strings.TrimSpace(last) == begun:
		return add(s.addTables(nil, begun), begun, "statement", begins...), len(begun)
	case strings.HasPrefix(last, "."):
		return s.addTables(nil, begun), len(begun)
	case tables.MatchString(text[:len(text)-len(begun)]) && !strings.HasSuffix(before, " on"):
		all = s.addTables(all, begun)
	}
	if all = s.addColumns(all, begun, last); begun == "" && len(all) > 0 {
		return all, 0 // the keywords and functions, which all match, would hide the columns
	}
	all = add(all, begun, "word", keywords...)
	return add(all, begun, "function", functions...), len(begun)
}

// lastStatement returns the last statement in text, which is being typed, without the space before
// it; "" if a new one begins after a semicolon or text is blank. Space at the end of text is kept.
func lastStatement(text string) string {
	if trimmed := strings.TrimRight(text, " \t\r\n"); strings.HasSuffix(trimmed, ";") || trimmed == "" {
		return ""
	}
	all := script.Split(text)
	if len(all) == 0 {
		return ""
	}
	return strings.TrimLeft(all[len(all)-1].Text, " \t\r\n") + text[len(strings.TrimRight(text, " \t\r\n")):]
}

// add appends to all, as candidates described by about, those of the words that start with begun in
// any letter case and are not in all yet.
func add(all []Candidate, begun, about string, words ...string) []Candidate {
	for _, w := range words {
		all = addOne(all, begun, w, Candidate{w, about})
	}
	return all
}

// addOne appends c, the candidate for a name, to all if the name starts with begun in any letter case,
// and all does not have c's text yet.
func addOne(all []Candidate, begun, name string, c Candidate) []Candidate {
	if strings.HasPrefix(strings.ToLower(name), strings.ToLower(begun)) && !slices.ContainsFunc(all, func(o Candidate) bool { return o.Text == c.Text }) {
		return append(all, c)
	}
	return all
}

// named returns the name of a table or column as a query has it: in brackets and quotes if it is
// not a plain identifier.
func named(name string) string {
	if word.FindString(name) == name {
		return name
	}
	return kusto.EntityName(name)
}

// addTables appends to all the tables and functions of the schema whose names begin with begun, in
// any letter case. Without a schema it returns all as it is.
func (s *Schema) addTables(all []Candidate, begun string) []Candidate {
	if s == nil {
		return all
	}
	for _, t := range s.Tables {
		all = addOne(all, begun, t.Name, Candidate{named(t.Name), "table"})
	}
	return add(all, begun, "function of the database", s.Functions...)
}

// addColumns appends to all the names that begin with begun, in any letter case: columns of the
// tables that the statement names, or of all tables if it names none, and names that the statement
// defines with "name = …".
func (s *Schema) addColumns(all []Candidate, begun, statement string) []Candidate {
	var from []Table
	if s != nil {
		for _, t := range s.Tables {
			if strings.Contains(statement, named(t.Name)) && regexp.MustCompile(`(?:^|\W)`+regexp.QuoteMeta(named(t.Name))+`(?:\W|$)`).MatchString(statement) {
				from = append(from, t)
			}
		}
		if len(from) == 0 {
			from = s.Tables
		}
	}
	for _, t := range from {
		for _, c := range t.Columns {
			all = addOne(all, begun, c.Name, Candidate{named(c.Name), c.Type})
		}
	}
	for _, m := range assigned.FindAllStringSubmatch(statement, -1) {
		if m[1] != begun {
			all = add(all, begun, "name", m[1])
		}
	}
	return all
}
