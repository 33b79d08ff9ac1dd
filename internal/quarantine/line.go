package quarantine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// version is that of the lines, which do not tell it. Keys may be added at their end; for
// any other change a later one begins each line with the key version and its number, so
// that this one leaves it alone.
const version = 1

// opening begins the lines of later versions.
const opening = `{"version":`

// line is a record as it is written. The names are for people and scripts:
// never change one.
type line struct {
	Time       time.Time `json:"time"`
	Input      string    `json:"input"`
	Cluster    string    `json:"cluster"`
	Database   string    `json:"database"`
	Table      string    `json:"table"`
	Format     string    `json:"format"`
	Mapping    string    `json:"mapping"`
	File       string    `json:"file"`
	Path       string    `json:"path"` // quoted where it is not UTF-8
	FileDate   time.Time `json:"file_date,omitzero"`
	Generation uint32    `json:"generation"`
	Offset     int64     `json:"offset"`
	Length     int64     `json:"length"` // in the file; data may hold less of it where truncated
	Truncated  bool      `json:"truncated"`
	Redacted   bool      `json:"redacted,omitempty"` // data is the record as it was sent, or nothing
	Reason     string    `json:"reason"`
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	Data       *string   `json:"data,omitempty"`
	DataBase64 *string   `json:"data_base64,omitempty"`    // instead of data where that is not UTF-8
	Perhaps    string    `json:"perhaps_stored,omitempty"` // a batch that it was sent again in, of which the outcome is not known
	Header     []byte    `json:"header_base64,omitempty"`  // of the Avro file that data is a block of
}

// appendEntry appends an entry to b as a JSON line with its newline, and returns b. Data that is not
// UTF-8 is written in base64; a character that was cut at the end of truncated data is left out.
func appendEntry(b []byte, r *Entry) ([]byte, error) {
	l := line{
		Time: r.Time.UTC(), Input: r.File.Input,
		Cluster: r.Route.Cluster, Database: r.Route.Database, Table: r.Route.Table,
		Format: string(r.Route.Format), Mapping: r.Route.Mapping,
		File: r.File.ID.String(), Path: record.Spell(r.Path), Generation: r.File.Generation,
		Offset: r.Offset, Length: r.Length, Truncated: r.Truncated, Redacted: r.Redacted,
		Reason: string(r.Reason), Code: r.Code, Message: r.Message, Perhaps: r.Perhaps, Header: r.Header,
	}
	if r.Dated != 0 {
		l.FileDate = time.Unix(0, r.Dated).UTC()
	}
	data := r.Data
	if r.Truncated {
		data = wholeCharacters(data)
	}
	if utf8.Valid(data) {
		s := string(data)
		l.Data = &s
	} else {
		s := base64.StdEncoding.EncodeToString(r.Data)
		l.DataBase64 = &s
	}
	buf := bytes.NewBuffer(b)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&l); err != nil {
		return b, fmt.Errorf("encode record at offset %d of %s: %w", r.Offset, r.File, err)
	}
	return buf.Bytes(), nil
}

// wholeCharacters returns b without an incomplete UTF-8 character at its end.
func wholeCharacters(b []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if i := len(b) - back; utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// parseLine decodes a line. The error says that it is damaged, or, with durable.ErrVersion, that a
// later version of the program wrote it.
func parseLine(b []byte) (Entry, error) {
	if bytes.HasPrefix(b, []byte(opening)) {
		var later struct{ Version int }
		if err := json.Unmarshal(b, &later); err != nil {
			return Entry{}, err
		}
		return Entry{}, fmt.Errorf("line has version %d, and this program knows %d: %w", later.Version, version, durable.ErrVersion)
	}
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return Entry{}, err
	}
	id, err := record.ParseFileID(l.File)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Time: l.Time, Perhaps: l.Perhaps, Rejected: record.Rejected{
		File: record.File{Input: l.Input, ID: id, Generation: l.Generation}, Path: l.Path,
		Route:  record.Route{Cluster: l.Cluster, Database: l.Database, Table: l.Table, Format: record.Format(l.Format), Mapping: l.Mapping},
		Offset: l.Offset, Length: l.Length, Truncated: l.Truncated, Redacted: l.Redacted,
		Reason: record.Reason(l.Reason), Code: l.Code, Message: l.Message, Header: l.Header,
	}}
	if !l.FileDate.IsZero() {
		e.Dated = l.FileDate.UnixNano()
	}
	switch {
	case l.Data != nil:
		e.Data = []byte(*l.Data)
	case l.DataBase64 != nil:
		if e.Data, err = base64.StdEncoding.DecodeString(*l.DataBase64); err != nil {
			return Entry{}, err
		}
	}
	return e, nil
}
