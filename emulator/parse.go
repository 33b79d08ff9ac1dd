package emulator

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"

	"kusto-agent/emulator/internal/mgmt"
)

// format is how the records of a body are found.
type format struct {
	name         string
	kind         string // of the mappings that fit
	needsMapping bool
	comma        rune // delimited formats only
	binary       bool // not text
	// records finds every record of body and hands its bytes, without the line
	// end, to emit, a record that is not text as a JSON object; a nil emit only counts, and emit returning false ends it.
	// Its error is always *badData.
	records func(body []byte, emit func(raw []byte) bool) (tally, error)
}

// tally is what was found: usable records, and lines dropped without a word.
type tally struct{ rows, dropped int }

// badData says why a whole body is refused.
type badData struct{ code, detail string }

func (e *badData) Error() string { return e.code + ": " + e.detail }

// formats is what the streaming endpoint documents, and TXT, which it takes,
// by lower-case name: all spellings of case are in live use.
var formats = func() map[string]*format {
	m := map[string]*format{
		"txt":       {name: "TXT", kind: mgmt.KindCSV, records: textLines},
		"json":      {name: "JSON", kind: mgmt.KindJSON, needsMapping: true, records: jsonLines},
		"multijson": {name: "MultiJSON", kind: mgmt.KindJSON, needsMapping: true, records: multiJSON},
		"avro":      {name: "Avro", kind: mgmt.KindAvro, needsMapping: true, binary: true, records: avroRecords},
	}
	delimited := func(key, name string, comma rune) {
		m[key] = &format{name: name, kind: mgmt.KindCSV, comma: comma,
			records: func(body []byte, emit func([]byte) bool) (tally, error) { return delimitedRecords(comma, body, emit) }}
	}
	delimited("csv", "CSV", ',')
	delimited("tsv", "TSV", '\t')
	delimited("scsv", "SCsv", ';')
	delimited("psv", "PSV", '|')
	delimited("sohsv", "SOHsv", '\x01')
	return m
}()

// textLines reads the TXT format: each line that is not empty is a record. It counts the records and
// passes each to emit, until emit returns false; a nil emit only counts. The service documents \n alone
// as the line end, and not what it does with a carriage return before it: here that is a part of the
// record, so that a client that sends one sees it. The error is always nil.
func textLines(body []byte, emit func([]byte) bool) (t tally, _ error) {
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		t.rows++
		if emit != nil && !emit(line) {
			break
		}
	}
	return t, nil
}

// jsonLines reads the JSON format: one object per line. As in the service, any other line is silently
// dropped and the rest is stored; tally.dropped counts those lines for tests. Each record is passed to
// emit, until emit returns false; a nil emit only counts. The error is always nil.
func jsonLines(body []byte, emit func([]byte) bool) (t tally, _ error) {
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if _, ok := object(line); !ok {
			t.dropped++
			continue
		}
		t.rows++
		if emit != nil && !emit(line) {
			break
		}
	}
	return t, nil
}

// multiJSON reads the MultiJSON format: objects, or arrays of objects, one after another over any
// number of lines. Each object is passed to emit, until emit returns false; a nil emit only counts. A
// value that is not an object makes the whole body invalid; the error is always *badData.
func multiJSON(body []byte, emit func([]byte) bool) (t tally, _ error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	for {
		var value json.RawMessage
		switch err := dec.Decode(&value); {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return t, &badData{"BadRequest_InvalidBlob", "The MultiJSON stream is invalid: " + err.Error()}
		}
		records := []json.RawMessage{value}
		if value[0] == '[' {
			records = nil
			if err := json.Unmarshal(value, &records); err != nil {
				return t, &badData{"BadRequest_InvalidBlob", "The MultiJSON array is invalid: " + err.Error()}
			}
		}
		for _, r := range records {
			if len(r) == 0 || r[0] != '{' {
				return t, &badData{"BadRequest_InvalidBlob", "The MultiJSON stream holds a value that is not an object."}
			}
			t.rows++
			if emit != nil && !emit(r) {
				return t, nil
			}
		}
	}
}

// delimitedRecords reads CSV as in RFC 4180 with comma as the separator. All records of a body must
// have the same number of fields. emit gets the text of each record as it was sent, quotes included,
// until it returns false; a nil emit only counts. The error is always *badData.
func delimitedRecords(comma rune, body []byte, emit func([]byte) bool) (t tally, _ error) {
	r := csv.NewReader(bytes.NewReader(body))
	r.Comma, r.ReuseRecord = comma, true
	for {
		start := r.InputOffset()
		_, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return t, delimitedError(comma, body[start:], err)
		}
		t.rows++
		if emit != nil && !emit(trimLineEnds(body[start:r.InputOffset()])) {
			return t, nil
		}
	}
}

// delimitedError translates an error of encoding/csv into the service's error code. rest is the body
// from the record with the error on.
func delimitedError(comma rune, rest []byte, err error) *badData {
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		return &badData{"Stream_WrongNumberOfFields", "Wrong number of fields: " + err.Error()}
	case errors.Is(err, csv.ErrQuote) && closes(comma, rest):
		return &badData{"Stream_ClosingQuoteMissing", "Closing quote is missing: " + err.Error()}
	}
	return &badData{"BadRequest_UnexpectedCharacterInInputStream", "Unexpected character in the input stream: " + err.Error()}
}

// closes reports whether the record at the start of rest lacks only its closing quote: it becomes
// valid when a quote is appended at the end. encoding/csv reports a missing closing quote and a
// misplaced quote with the same error.
func closes(comma rune, rest []byte) bool {
	r := csv.NewReader(io.MultiReader(bytes.NewReader(rest), bytes.NewReader([]byte{'"'})))
	r.Comma = comma
	_, err := r.Read()
	return err == nil
}

// trimLineEnds removes the blank lines before a record and the line end behind it.
func trimLineEnds(b []byte) []byte {
	for {
		rest, ok := bytes.CutPrefix(bytes.TrimPrefix(b, []byte("\r")), []byte("\n"))
		if !ok {
			break
		}
		b = rest
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
}
