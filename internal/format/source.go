package format

import (
	"bytes"
	"slices"
)

// Source returns a record as it is in its file. rec is the record in the body of a payload,
// length its number of bytes in the file. Source removes a newline and fields that were added,
// and restores a CR that was removed. The result may be rec, or a part of it.
func (s *Scanner) Source(rec []byte, length int) []byte {
	if grown := len(rec) - length; grown > 1 && s.spec.Mapping == "Json" { // more than a newline: fields
		return unspliced(rec, grown)
	}
	return lineEndOf(rec, length-len(rec))
}

// lineEndOf returns a record with the line end that it has in its file. by is the length in the
// file minus len(rec): negative if a newline was added, positive if CRLF became a newline, 0 if
// nothing changed.
func lineEndOf(rec []byte, by int) []byte {
	switch {
	case by < 0:
		return rec[:max(0, len(rec)+by)]
	case by > 0:
		return append(bytes.TrimSuffix(bytes.Clone(rec), []byte("\n")), "\r\n"...)
	}
	return rec
}

// unspliced returns a JSON record without the fields that were added to it. rec is grown bytes
// longer than the record in its file. The line end may have been changed too, in one of three
// ways: unspliced tries all of them and takes the one with which the added bytes begin where a
// member begins. If none fits, it returns rec.
func unspliced(rec []byte, grown int) []byte {
	var none Fields
	_, end, _ := none.survey(rec)
	for _, lineEnd := range []int{-1, 0, 1} { // how much longer it was in the file
		from := end - grown - lineEnd
		if from < 0 {
			continue
		}
		source := slices.Concat(rec[:from], rec[end:])
		first := byte(',') // the first added byte: a comma, or the quote of the first member
		_, at, empty := none.survey(source)
		if empty {
			first = '"'
		}
		if at == from && rec[from] == first {
			return lineEndOf(source, lineEnd)
		}
	}
	return rec
}
