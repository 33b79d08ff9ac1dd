// Package format knows where records end, whether they are sound and how they
// join: whatever the way a file is cut into reads, the same records come out,
// their bytes are the file's own, or JSON made of them alone, and every byte of
// the file is accounted for as sent, filtered or rejected.
//
// The table of formats is in format.go. Scan (scan.go) is the one entry for
// reading; each family of formats has a file that says where its records end
// and when they are sound: lines.go (TXT and JSON), delimited.go (CSV, TSV,
// SCsv, SOHsv, PSV), multijson.go (objects that span lines), avro.go (blocks of
// a container file) and json.go (the check of a JSON record). fields.go and
// splice.go add members to JSON records, rules.go leaves records out, source.go gives a record its own bytes
// back. encoding.go reads what is not UTF-8. parse.go makes JSON of lines, with
// multiline.go, logfmt.go and container.go for the kinds of them.
package format
