package format

import (
	"bytes"
	"slices"
)

// Source returns a record as it is in its file, given its bytes in the body of a payload and its
// length in the file: it removes a newline and fields that were added, and restores a CR that was
// removed. The result may be rec, or a part of it.
func (s *Scanner) Source(rec []byte, length int) []byte {
	if grown := len(rec) - length; grown > 1 && s.spec.Mapping == "Json" {
		return unspliced(rec, grown)
	}
	return lineEndOf(rec, length-len(rec))
}

// lineEndOf returns a record with the line end that it has in its file: there it is by bytes
// longer, or shorter if by is negative.
func lineEndOf(rec []byte, by int) []byte {
	switch {
	case by < 0:
		return rec[:max(0, len(rec)+by)]
	case by > 0:
		return append(bytes.TrimSuffix(bytes.Clone(rec), []byte("\n")), "\r\n"...)
	}
	return rec
}

// unspliced removes the fields that were added to a JSON record, which is grown bytes longer than
// in its file. The line end may have been changed too, in one of three ways; unspliced tries all
// of them and takes the one with which the added bytes begin where a member begins.
func unspliced(rec []byte, grown int) []byte {
	var none Fields
	_, end, _ := none.survey(rec)
	for _, lineEnd := range []int{-1, 0, 1} { // how much longer it was in the file
		from := end - grown - lineEnd
		if from < 0 {
			continue
		}
		source := slices.Concat(rec[:from], rec[end:])
		first := byte(',')
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
