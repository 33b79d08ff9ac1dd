package format

import (
	"slices"
	"strings"

	"kusto-agent/internal/record"
)

// Spec is what the rest of the agent must know of a format.
type Spec struct {
	Format     record.Format // also the wire name, in the documented spelling
	Delimiter  byte          // between fields; 0: the format has no fields
	Ends       Ends          // how a record ends and how records join
	Mapping    string        // kind of the mappings it is used with
	NeedsMap   bool          // the ingest call is refused without a mapping
	NeedsHead  bool          // it is read, and sent, with the header of its file: see Scanner.Prepare
	Compressed bool          // compressed inside: gzip around it is unproven
	Extensions []string      // of files that have this format unless told otherwise
}

// Ends says what ends a record. Records join by concatenation in every format
// of lines: each keeps its line end, and a last one without gets a newline.
type Ends uint8

// The ways a record ends.
const (
	AtLine   Ends = iota // at the first newline
	AtRow                // at the first newline outside quotes, as in RFC 4180
	AtValue              // where its JSON value does
	InBlocks             // records sit in the blocks of a container file
)

// The REST page of the streaming endpoint asks for a mapping with JSON,
// MultiJSON and Avro; delimited text and TXT go by ordinal without one.
// Delimited formats and TXT use mappings of kind Csv.
var table = []Spec{
	{Format: record.CSV, Delimiter: ',', Ends: AtRow, Mapping: "Csv", Extensions: []string{".csv"}},
	{Format: record.TSV, Delimiter: '\t', Ends: AtRow, Mapping: "Csv", Extensions: []string{".tsv"}},
	{Format: record.SCsv, Delimiter: ';', Ends: AtRow, Mapping: "Csv"},
	{Format: record.SOHsv, Delimiter: 0x01, Ends: AtRow, Mapping: "Csv"},
	{Format: record.PSV, Delimiter: '|', Ends: AtRow, Mapping: "Csv", Extensions: []string{".psv"}},
	{Format: record.TXT, Ends: AtLine, Mapping: "Csv", Extensions: []string{".txt", ".log"}},
	{Format: record.JSON, Ends: AtLine, Mapping: "Json", NeedsMap: true, Extensions: []string{".json", ".jsonl", ".ndjson"}},
	{Format: record.MultiJSON, Ends: AtValue, Mapping: "Json", NeedsMap: true},
	{Format: record.Avro, Ends: InBlocks, Mapping: "Avro", NeedsMap: true, NeedsHead: true, Compressed: true, Extensions: []string{".avro"}},
}

// All returns every format, in the order of the documentation.
func All() []Spec { return slices.Clone(table) }

// Of returns what is known of f, which is in its documented spelling.
func Of(f record.Format) (Spec, bool) {
	return find(func(s *Spec) bool { return s.Format == f })
}

// Lookup finds the format a person means by name, in any letter case.
func Lookup(name string) (record.Format, bool) {
	s, ok := find(func(s *Spec) bool { return strings.EqualFold(string(s.Format), name) })
	return s.Format, ok
}

// ByExtension finds the format of files whose name ends in ext (".json"), in
// any letter case.
func ByExtension(ext string) (record.Format, bool) {
	s, ok := find(func(s *Spec) bool {
		return slices.ContainsFunc(s.Extensions, func(e string) bool { return strings.EqualFold(e, ext) })
	})
	return s.Format, ok
}

// wordOf returns the value that a word of the configuration stands for: its place among words;
// false: it is none of them.
func wordOf[T ~uint8](words []string, word string) (T, bool) {
	i := slices.Index(words, word)
	return T(max(i, 0)), i >= 0
}

// find returns the first format of the table for which is returns true; false: there is none.
func find(is func(*Spec) bool) (Spec, bool) {
	for i := range table {
		if is(&table[i]) {
			return table[i], true
		}
	}
	return Spec{}, false
}
