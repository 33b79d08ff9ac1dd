package format

import (
	"bytes"
	"slices"
)

// Source is a record as it is in its file, given its bytes in the body of a
// payload and its length in the file: a newline that was added, a CR that was
// taken away and fields that were spliced in are undone. It may return rec, or
// a part of it.
func (s *Scanner) Source(rec []byte, length int) []byte {
	if grown := len(rec) - length; grown > 1 && s.spec.Mapping == "Json" {
		return unspliced(rec, grown)
	}
	return lineEndOf(rec, length-len(rec))
}

// lineEndOf gives a record its own line end back: by is how much longer it was
// there.
func lineEndOf(rec []byte, by int) []byte {
	switch {
	case by < 0:
		return rec[:max(0, len(rec)+by)]
	case by > 0:
		return append(bytes.TrimSuffix(bytes.Clone(rec), []byte("\n")), "\r\n"...)
	}
	return rec
}

// unspliced takes the fields out of a record that is longer by grown bytes than
// in its file. Its line end may have been changed too, in one of three ways:
// only with the right one of them does what was added begin where a member
// does.
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
